"""Leave-one-out scores given the coefficients and with the coefficients integrated out: which can
be relied on?

    python -m benchmarks.left_out [--forum NAME POSTS OPTION=VALUE ...] [--threads 200] [--draws
    500]

prints, as Markdown, for the paper's scenarios and for forums (as in ``benchmarks.link``) how many
threads have an unreliable score before and after, and, for one model of one scenario, the scores
beside those of fits without the thread.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import dualview as dv
from benchmarks.forums import forum_of, read, subset
from dualview.evaluation.comparison import (
    Scores,
    leave_one_out,
    log_likelihoods,
    observation_scores,
)
from reproduction.forums import SCENARIOS

_MODELS: dict[str, tuple[int | None, bool]] = {
    "single": (1, False),
    "latent-IGMM": (None, False),
    "dual-DP": (None, True),
}
_N_REFITS = 20


def fitted(
    n_clusters: int | None, features: Any, behavior: Any, sampler: dict[str, int]
) -> dv.DualViewMixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chains, users without a thread
        return dv.DualViewMixture(n_clusters, **sampler).fit(features, behavior)


def line(name: str, model: str, given: Scores, integrated: Scores) -> str:
    n = len(given.elpd)
    cells = [
        name,
        model,
        str(n),
        f"{given.total:.1f}",
        f"{integrated.total:.1f}",
        str(given.unsure.sum()),
        str(integrated.unsure.sum()),
    ]
    return f"| {' | '.join(cells)} |"


def rows(name: str, features: Any, behavior: Any, sampler: dict[str, int]) -> Iterator[str]:
    for model, (n_clusters, dual) in _MODELS.items():
        fit = fitted(n_clusters, features if dual else None, behavior, sampler)
        yield line(name, model, leave_one_out(log_likelihoods(fit)), observation_scores(fit))


def refits(sampler: dict[str, int], jobs: int) -> str:
    """Scores of the first threads of a small forum by one fit, and by fits without each."""
    forum = dv.datasets.agreement(30, 40, seed=1)
    threads = dv.SharedOutcome(forum.participation, forum.outcome)
    prior = dv.GaussianPrior(
        threads.ridge_estimate().mean(), float(np.var(threads.ridge_estimate(), ddof=1))
    )
    known = dv.SharedOutcome(
        forum.participation, forum.outcome, noise_variance=float(np.var(forum.outcome, ddof=1))
    )
    settings: dict[str, Any] = {**sampler, "behavior_prior": prior}

    def without(t: int) -> float:
        rest, one = known.take(np.arange(40) != t), known.take([t])
        return float(
            fitted(1, None, rest, settings).predict_outcome(one).log_density(one.observed)[0]
        )

    model = fitted(1, None, known, settings)
    given, integrated = (
        leave_one_out(log_likelihoods(model)).elpd[:_N_REFITS],
        observation_scores(model).elpd[:_N_REFITS],
    )
    exact = np.array(Parallel(jobs)(delayed(without)(t) for t in range(_N_REFITS)))
    said = ", ".join(
        f"{name} {part.sum():.1f} (largest difference of a thread {np.abs(part - exact).max():.2f})"
        for name, part in {"given the coefficients": given, "integrated": integrated}.items()
    )
    return (
        f"Model single, 30 users, 40 threads, sum over the first {_N_REFITS}: refits "
        f"{exact.sum():.1f}; {said}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.left_out", description="Leave-one-out scores before and after."
    )
    parser.add_argument(
        "--forum", nargs="+", action="append", default=[], metavar="NAME POSTS OPTION=VALUE"
    )
    parser.add_argument("--threads", type=int, default=200, help="training threads of a forum")
    parser.add_argument(
        "--users", type=int, default=100, help="about this many of a forum, the most active"
    )
    parser.add_argument(
        "--draws", type=int, default=500, help="of each of four chains, after as many to warm up"
    )
    parser.add_argument("--jobs", type=int, default=1)
    plan = parser.parse_args(arguments)
    sampler = {"engine": dv.Gibbs(n_warmup=plan.draws), "n_draws": plan.draws, "n_chains": 4}
    print("| data | model | threads | elpd, given | integrated | unsure, given | integrated |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, scenario in SCENARIOS.items():
        forum = scenario(50, 50, seed=0)
        for text in rows(
            name, forum.features, dv.SharedOutcome(forum.participation, forum.outcome), sampler
        ):
            print(text, flush=True)
    for name, path, options in map(forum_of, plan.forum):
        data = read(path, options, plan.users)
        chosen = np.random.default_rng(0).permutation(len(data.training.ids))[: plan.threads]
        for text in rows(
            name, data.features, subset(data.training, np.sort(chosen)).behavior, sampler
        ):
            print(text, flush=True)
    print(f"\n{refits(sampler, plan.jobs)}")


if __name__ == "__main__":
    main()

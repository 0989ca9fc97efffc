"""Agreement on real forums: ``python -m benchmarks.agreement_forums --forum NAME POSTS OPTION=VALUE
… [--threads 200 1000]``.

As ``benchmarks.link``: about a hundred of the most active users, the logarithm of a thread's length
by the authors of its first posts, the same random training subsets for all models. On each: the
dual model, the dual model with agreement learnt, and the single model, which sees no features and
puts all users into one cluster. Subsets of a forum share its test threads, so the standard errors
are over subsets only.
"""

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np

import dualview as dv
from benchmarks.agreement import MODELS
from benchmarks.coverage import with_error
from benchmarks.link import forum_of, read, subset
from dualview.forum import ForumData


class Found(NamedTuple):
    """Of one fit: mean negative log density of test threads, ρ, share of users who act otherwise,
    clusters, largest R-hat."""

    nll: float
    share: float
    apart: float
    n_clusters: float
    r_hat: float


def found(data: ForumData, rows: Any, seed: int, options: dict[str, Any]) -> Found:
    train = subset(data.training, rows)
    model = dv.DualViewMixture(
        engine=dv.Gibbs(n_warmup=500, thin=4), n_draws=500, n_chains=4, random_state=seed, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(
            None if options.get("n_clusters") == 1 else data.numbers.to_numpy(), train.behavior
        )
    post = model.posterior_
    nll = float(model.predict_outcome(data.test.behavior).nll(data.test.outcome))
    share = float(np.median(post.flat("agreement"))) if "agreement" in post else np.nan
    apart = float((post.flat("z") != post.flat_acts).mean())
    return Found(
        nll,
        share,
        apart,
        float(post["n_clusters"].mean()),
        float(post.diagnostics()["r_hat"].max()),
    )


def report(name: str, n_threads: int, results: dict[str, list[Found]]) -> list[str]:
    """A line of the table for each model."""
    lines, dual = [], np.array([one.nll for one in results["dual"]])
    for model, fits in results.items():
        nll, share, apart, n_clusters, r_hat = np.array(fits).T
        cells = [
            name,
            str(n_threads),
            model,
            with_error(nll, 3),
            "" if model == "dual" else with_error(nll - dual, 3),
        ]
        cells += (
            [f"{share.mean():.2f}", f"{apart.mean():.2f}"]
            if model == "agreement learnt"
            else ["", ""]
        )
        lines.append(
            "| " + " | ".join([*cells, f"{n_clusters.mean():.1f}", f"{r_hat.max():.2f}"]) + " |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement_forums", description=__doc__
    )
    parser.add_argument(
        "--forum", nargs="+", action="append", required=True, metavar="NAME POSTS OPTION=VALUE"
    )
    parser.add_argument(
        "--threads", nargs="+", type=int, default=[200, 1000], help="numbers of training threads"
    )
    parser.add_argument(
        "--subsets", type=int, default=3, help="random training subsets of each size"
    )
    parser.add_argument("--users", type=int, default=100, help="about this many, the most active")
    asked = parser.parse_args()
    print(
        "| Forum | Threads | Model | NLL of test threads | less that of dual | ρ | Users apart | "
        "Clusters | Largest R-hat |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, path, options in map(forum_of, asked.forum):
        data = read(path, options, asked.users)
        for n_threads in asked.threads:
            n_all, n = len(data.training.outcome), min(n_threads, len(data.training.outcome))
            chosen = [
                np.sort(np.random.default_rng([n, s]).choice(n_all, n, replace=False))
                for s in range(asked.subsets)
            ]
            results = {
                model: [found(data, rows, seed, settings) for seed, rows in enumerate(chosen)]
                for model, settings in MODELS.items()
            }
            print("\n".join(report(name, n, results)), flush=True)


if __name__ == "__main__":
    main()

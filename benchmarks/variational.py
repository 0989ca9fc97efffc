"""How good and how fast the variational engine is: ``python -m benchmarks.variational [accuracy | speed | features] [sizes]``.

accuracy [worlds]: the paper's scenarios, 50 users and 50 threads, in as many worlds as are asked for (2), against Gibbs chains
of fixed length on the same data: four chains of 1,000 draws after a warm-up of 1,000. speed [users threads]: a forum with
skewed activity (``benchmarks.scale``), from data in memory to draws, two starts and eight draws from each. features [users]:
its features alone, beside scikit-learn's BayesianGaussianMixture with ten components on the same data. Without a word: all
three, at the sizes of the documentation.
"""

import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

import dualview as dv
from benchmarks import scale

SCENARIOS = ("agreement", "disagreement", "iris")


class Fit(NamedTuple):
    """One fit: draws of coefficients and of expected outcomes of new threads, scores, CPU seconds."""

    latent: np.ndarray
    expected: np.ndarray
    nll: float
    rand: float
    seconds: float


def fitted(forum: Any, **settings: Any) -> Fit:
    """A fit to a scenario."""
    began = time.process_time()
    model = dv.DualViewMixture(**settings).fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
    seconds = time.process_time() - began
    latent = model.posterior_.flat("latent")
    nll = model.predict_outcome(forum.test.participation).nll(forum.test.outcome)
    rand = adjusted_rand_score(forum.labels, model.labels_)
    return Fit(latent, latent @ forum.test.participation.T, float(nll), float(rand), seconds)


def distances(exact: np.ndarray, draws: np.ndarray) -> str:
    """Medians over numbers (…, n): distance of means in exact standard deviations, ratio of standard deviations."""
    spread = exact.std(axis=0)
    away = np.median(abs(draws.mean(axis=0) - exact.mean(axis=0)) / spread)
    return f"{away:.2f} | {np.median(draws.std(axis=0) / spread):.2f}"


def accuracy(n_worlds: int) -> str:
    """A table with a row for every scenario and world; rows go to standard error as they are made."""
    rows = [
        "| scenario | world | coefficients: means, in sds | ratio of sds | predictions: means, in sds | ratio of sds | "
        "NLL, Gibbs | NLL, variational | Rand, Gibbs | Rand, variational | CPU s, Gibbs | CPU s, variational |",
        "|" + "---|" * 12,
    ]
    dv.DualViewMixture(n_warmup=1, n_draws=1, n_chains=1).fit(np.random.default_rng(0).random((9, 2)))  # compiles
    for world in range(n_worlds):
        for scenario in SCENARIOS:
            forum = getattr(dv.datasets, scenario)(50, 50, seed=world)
            exact = fitted(forum, n_warmup=1000, n_draws=1000)
            found = fitted(forum, engine="variational", n_draws=500)
            cells = [f"{value:.3f}" for pair in zip(exact[2:4], found[2:4], strict=True) for value in pair]
            seconds = f"{exact.seconds:.0f} | {found.seconds:.0f}"
            rows.append(
                f"| {scenario} | {world} | {distances(exact.latent, found.latent)} | "
                f"{distances(exact.expected, found.expected)} | {' | '.join(cells)} | {seconds} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


def speed(n_users: int, n_threads: int) -> str:
    """A table of one row."""
    features, behavior = scale.forum(n_users, n_threads)
    began, cpu = time.perf_counter(), time.process_time()
    model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=8).fit(features, behavior)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    facts = model.posterior_.approximation
    assert facts is not None
    cells = [f"{n_users:,}", f"{n_threads:,}", f"{wall:.0f}", f"{cpu:.0f}", str(facts.starts[0].n_steps)]
    cells += ["yes" if facts.starts[0].converged else "no", str(facts.starts[0].n_clusters), f"{scale.peak_gigabytes():.1f}"]
    head = "| users | threads | wall s | CPU s | steps | bound converged | clusters | peak GB |\n" + "|" + "---|" * 8
    return f"{head}\n| {' | '.join(cells)} |"


def features(n_users: int) -> str:
    """A table of two rows: ours and scikit-learn's."""
    x, _ = scale.forum(n_users + n_users // 4, 10)
    train, test = x[:n_users], x[n_users:]
    rows = ["| mixture of features | CPU s | clusters | mean log density of 25 % new users |", "|---|---|---|---|"]
    began = time.process_time()
    model = dv.DualViewMixture(engine="variational", n_chains=1, n_draws=20).fit(train)
    seconds = time.process_time() - began
    rows.append(f"| dualview | {seconds:.1f} | {model.n_clusters_} | {model.score(test):.4f} |")
    began = time.process_time()
    other = BayesianGaussianMixture(n_components=10, max_iter=1000, random_state=0).fit(train)
    seconds = time.process_time() - began
    n_clusters = len(np.unique(other.predict(train)))
    rows.append(f"| BayesianGaussianMixture | {seconds:.1f} | {n_clusters} | {other.score(test):.4f} |")
    return "\n".join(rows)


def main(words: list[str]) -> None:
    """What is asked for, or everything."""
    known = {"accuracy": (accuracy, [2]), "speed": (speed, [100_000, 1_000_000]), "features": (features, [100_000])}
    sizes = [int(word.replace("_", "")) for word in words[1:]]
    for name, (function, usual) in known.items():
        if not words or words[0] == name:
            print(function(*(sizes or usual)), flush=True)  # type: ignore[operator]


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1:])

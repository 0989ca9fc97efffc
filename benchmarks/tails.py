"""Clusters with heavy tails against normal ones: ``python -m benchmarks.tails [--worlds 5] [--users
100] [--max-draws 4000]`` prints a table in Markdown.

Worlds of users with two numbers: without any clusters, where the numbers are normal, t with three
degrees of freedom, or lognormal; and with three clusters of normal or t noise, five standard
deviations apart. Fits with the default prior and with feature_prior="student": clusters of the
partition estimate, those of one user, adjusted Rand index, the mean negative log density of a cell
of 200 new users given their other cell, and CPU seconds. Means over worlds; in brackets the median.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import dualview as dv

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

N_NEW = 200
COLUMNS = ["first", "second"]
CENTERS = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 4.33]])
TAILS_DOF = 3.0


def normal(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_normal((n, 2))


def student(rng: np.random.Generator, n: int) -> Array:
    """A bivariate t distribution: a user who is far out in one number may be in both."""
    return normal(rng, n) / np.sqrt(rng.chisquare(TAILS_DOF, (n, 1)) / TAILS_DOF)


def independent(rng: np.random.Generator, n: int) -> Array:
    """Two t distributions, each on its own, as the model does not assume it."""
    return rng.standard_t(TAILS_DOF, (n, 2))


def lognormal(rng: np.random.Generator, n: int) -> Array:
    return np.exp(normal(rng, n))


class World(NamedTuple):
    """Where users come from: the noise, and whether in three clusters."""

    noise: Callable[[np.random.Generator, int], Array]
    has_clusters: bool

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
        """Numbers (n, 2) and true clusters (n,)."""
        labels = rng.integers(len(CENTERS), size=n) if self.has_clusters else np.zeros(n, int)
        return CENTERS[labels] + self.noise(rng, n), labels


WORLDS = {
    "none, normal": World(normal, False),
    "none, t": World(student, False),
    "none, t in each column": World(independent, False),
    "none, lognormal": World(lognormal, False),
    "three, normal": World(normal, True),
    "three, t": World(student, True),
    "three, t in each column": World(independent, True),
}
PRIORS = {"normal": None, "student": "student"}


class Score(NamedTuple):
    """Of one fit."""

    clusters: float
    alone: float
    rand: float
    cost: float
    seconds: float


def score(prior: str | None, x: Array, labels: Labels, new: Array, max_draws: int) -> Score:
    """A fit to some users, and how it predicts one number of others given the other one."""
    start = time.process_time()
    model = dv.DualViewMixture(
        feature_prior=prior, engine=dv.Gibbs(max_draws=max_draws), n_jobs=1, random_state=0
    ).fit(pd.DataFrame(x, columns=COLUMNS))
    seconds = time.process_time() - start
    rows, cost = pd.DataFrame(new, columns=COLUMNS), 0.0
    for first, second in (COLUMNS, COLUMNS[::-1]):
        cost -= 0.5 * float(model.log_density(rows[[first]], given=rows[[second]]).mean())
    sizes = np.bincount(model.labels_)
    rand = adjusted_rand_score(labels, model.labels_)
    return Score(len(sizes), int((sizes == 1).sum()), rand, cost, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=5, help="of each kind")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--max-draws", type=int, default=4000, help="draws of a chain at most")
    parser.add_argument("--only", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that have not converged
    names = "clusters | alone | ARI | nats a cell | CPU s"
    print(f"| clusters, noise | prior | {names} |\n|---|---|---:|---:|---:|---:|---:|")
    for name in asked.only:
        found: dict[str, list[Score]] = {prior: [] for prior in PRIORS}
        for seed in range(asked.worlds):
            rng = np.random.default_rng([seed, list(WORLDS).index(name)])
            x, labels = WORLDS[name].draw(rng, asked.users)
            new = WORLDS[name].draw(rng, N_NEW)[0]
            for prior, word in PRIORS.items():
                found[prior].append(score(word, x, labels, new, asked.max_draws))
        for prior, scores in found.items():
            table = np.array(scores)
            means, middle = table.mean(axis=0), np.median(table[:, 0])
            cells = [f"{means[0]:.1f} ({middle:g})", f"{means[1]:.1f}"]
            cells += [f"{means[2]:.2f}", f"{means[3]:.3f}", f"{means[4]:.1f}"]
            print(f"| {name} | {prior} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

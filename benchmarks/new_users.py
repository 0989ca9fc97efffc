"""What predictions of new users cost: ``python -m benchmarks.new_users [USERS [DRAWS]]``.

The table has ten columns: numbers, counts, ratings, a censored column, categories, and missing
cells in all of them. Then come tables of three and of 24 counts. The fits have 25 clusters.

CPU seconds after compilation. "One by one" is the slow way: each user alone and from the start, as
measured on a few of them.
"""

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dualview as dv
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.ordinal import OrdinalOutcome

N_CLUSTERS, N_FITTED, N_THREADS, N_RATINGS = 25, 300, 400, 2608
LIMIT = 6.0
N_ALONE = 10  # users whose predictions one by one are timed
COUNTS = {"kind": "count", "scale": "log1p"}
KINDS = {
    "posts0": COUNTS,
    "posts1": COUNTS,
    "rating0": {"kind": "ordinal"},
    "rating1": {"kind": "ordinal"},
    "waited": dv.Censored("waited_low", "waited_high"),
}


def table(rng: np.random.Generator, n_users: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Users of 25 groups, and a latent behavior that follows their first number."""
    worlds = np.random.default_rng(5)
    centres = 1.5 * worlds.standard_normal((N_CLUSTERS, 8))
    shares = worlds.dirichlet(np.full(4, 0.5), (N_CLUSTERS, 2)).cumsum(axis=-1)
    group = rng.integers(0, N_CLUSTERS, n_users)
    x = centres[group] + rng.standard_normal((n_users, 8))
    columns: dict[str, Any] = {f"number{i}": x[:, i] for i in range(3)}
    columns |= {f"posts{i}": np.floor(np.exp(1.5 + 0.6 * x[:, 3 + i])) for i in range(2)}
    columns |= {f"rating{i}": np.clip(np.round(3.0 + x[:, 5 + i]), 1, 5) for i in range(2)}
    columns["waited_low"] = np.minimum(np.exp(1.0 + 0.5 * x[:, 7]), LIMIT)
    for i in range(2):
        level = (rng.random((n_users, 1)) > shares[group, i, :3]).sum(axis=1)
        columns[f"town{i}"] = np.array(["a", "b", "c", "d"], dtype=object)[level]
    found = pd.DataFrame(columns)
    found = found.mask(rng.random(found.shape) < 0.05)
    found["waited_high"] = found["waited_low"].where(found["waited_low"] < LIMIT)
    return found, 0.5 * x[:, 0] + 0.3 * rng.standard_normal(n_users)


def fitted(n_draws: int) -> dv.DualViewMixture:
    """A short fit: what is measured is the cost of predictions, not their quality."""
    rng = np.random.default_rng(1)
    users, latent = table(rng, N_FITTED)
    participation = (rng.random((N_THREADS, N_FITTED)) < 0.02).astype(float)
    outcome = participation @ latent + 0.5 * rng.standard_normal(N_THREADS)
    engine = dv.Gibbs(n_warmup=100)
    model = dv.DualViewMixture(
        N_CLUSTERS, n_chains=1, n_draws=n_draws, engine=engine, columns=KINDS
    )
    return model.fit(users, dv.SharedOutcome(participation, outcome))


def counts(n_columns: int, n_users: int, n_draws: int) -> tuple[dv.DualViewMixture, pd.DataFrame]:
    """A short fit to counts alone, and new users."""
    rng = np.random.default_rng(4)
    centres = 1.5 * rng.standard_normal((N_CLUSTERS, n_columns))
    group = rng.integers(0, N_CLUSTERS, N_FITTED + n_users)
    x = centres[group] + rng.standard_normal((len(group), n_columns))
    users = pd.DataFrame(np.floor(np.exp(1.5 + 0.6 * x))).add_prefix("posts")
    model = dv.DualViewMixture(
        N_CLUSTERS,
        n_chains=1,
        n_draws=n_draws,
        engine=dv.Gibbs(n_warmup=100),
        columns=dict.fromkeys(users, COUNTS),
    )
    return model.fit(users[:N_FITTED]), users[N_FITTED:]


def ratings(n: int, n_draws: int) -> Any:
    """Predictions of ratings whose locations no draw knows exactly, as of known users with new
    groups."""
    rng = np.random.default_rng(2)
    cuts = np.sort(1.5 * rng.standard_normal((n_draws, 4)), axis=1)
    locations, sds = rng.standard_normal((n_draws, n)), 0.3 + 0.6 * rng.random((n_draws, n))
    outcome = OrdinalOutcome(cuts, Levels(("1", "2", "3", "4", "5"), np.arange(1.0, 6.0)))
    even = np.full((n_draws, 1), -np.log(n_draws))
    return outcome.predictive(
        n, n_draws, lambda cases: Parts(even, locations[:, cases], sds[:, cases])
    )


def seconds(function: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    function()
    return time.process_time() - began


def compare(model: dv.DualViewMixture, new: pd.DataFrame, asked: dict[str, Any]) -> None:
    """Print a line for each thing that is asked of a prediction; and what all take."""
    n_alone, total = min(N_ALONE, len(new)), np.zeros(2)
    alone = [new[i : i + 1] for i in range(n_alone)]
    prediction = model.predict_latent(new) if model.behavior_ is not None else None
    for name, ask in asked.items():
        together = seconds(lambda: ask(new, prediction))  # noqa: B023
        each = seconds(lambda: [ask(one, None) for one in alone])  # noqa: B023
        total += together, each * len(new) / n_alone
        print(f"{name:28s}{together:10.2f}{each * len(new) / n_alone:12.2f}", flush=True)
    if len(asked) > 1:
        print(f"{'all of it':28s}{total[0]:10.2f}{total[1]:12.2f}", flush=True)


def main(n_users: int = 50, n_draws: int = 200) -> None:
    """Print a line for each prediction."""
    warnings.simplefilter("ignore")
    model, (new, _) = fitted(n_draws), table(np.random.default_rng(3), n_users)
    model.predict_latent(new[:2]).interval()  # compiles
    _ = ratings(2, n_draws).probabilities
    print(f"{n_draws} draws of {N_CLUSTERS} clusters: CPU seconds")
    print(f"{f'{n_users} new users':28s}{'together':>10s}{'one by one':>12s}")

    def latent(ask: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda users, kept: ask(model.predict_latent(users) if kept is None else kept)

    asked = {
        "clusters": lambda users, _: model.predict_proba(users),
        "latent behavior, mean": latent(lambda found: found.mean),
        "latent behavior, cdf": latent(lambda found: found.cdf(np.zeros(len(found)))),
        "latent behavior, interval": latent(lambda found: found.interval()),
    }
    compare(model, new, asked)
    for n_columns, n in ((3, 75), (24, 72)):
        of_counts, others = counts(n_columns, n, n_draws)
        name = f"{n}, {n_columns} counts: clusters"
        compare(of_counts, others, {name: lambda users, _: of_counts.predict_proba(users)})  # noqa: B023
    rated = ratings(N_RATINGS, n_draws)
    print(f"{f'{N_RATINGS} ratings':28s}{seconds(lambda: rated.probabilities):10.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

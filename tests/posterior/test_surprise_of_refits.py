"""Surprising cells against fits that never saw them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from checks import ACCEPT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
]

N, N_SEEDS = 24, 6
PRIOR = dv.GaussianPrior([0.0, 0.0], [[9.0, 3.0], [3.0, 4.0]])
CELLS = [(0, "one"), (5, "two"), (9, "one"), (5, "town")]


def people() -> pd.DataFrame:
    """Two groups of users; one of them is unlike the others in one number."""
    rng, group = np.random.default_rng(2), np.arange(N) % 2
    one = rng.normal(-2.0 + 4.0 * group, 1.0)
    table = pd.DataFrame(
        {
            "one": one,
            "two": 0.5 * one + rng.normal(0.0, 0.7, N),
            "town": np.where(rng.random(N) < 0.2 + 0.6 * group, "Metz", "Lyon"),
        }
    )
    table.loc[5, "two"] = -1.2
    return table


def fitted(table: pd.DataFrame, seed: int) -> dv.DualViewMixture:
    engine = dv.Gibbs(n_warmup=300, thin=4)
    fixed: dict[str, Any] = {"n_draws": 400, "n_chains": 1, "feature_prior": PRIOR}
    return dv.DualViewMixture(2, engine=engine, random_state=seed, **fixed).fit(table)


def probability_without(user: int, column: str, seed: int) -> float:
    """That of a fit in which the cell is missing."""
    table = people()
    value = table.loc[user, column]
    table.loc[user, column] = None if column == "town" else np.nan
    model = fitted(table, seed)
    if column == "town":
        shares = model.impute().probabilities("town").iloc[0]
        return float(shares[shares <= shares[value]].sum())
    drawn = model.posterior_.flat("features.cells")[:, 0]
    return float(2.0 * min((drawn < value).mean(), (drawn > value).mean()))


def differences(without: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Of means over seeds, in standard errors."""
    variances = without.var(axis=0, ddof=1) + found.var(axis=0, ddof=1)
    return (found.mean(axis=0) - without.mean(axis=0)) / np.sqrt(variances / N_SEEDS)


def test_a_cell_is_as_surprising_as_in_a_fit_without_it() -> None:
    found, inside = np.empty((N_SEEDS, len(CELLS))), np.empty(N_SEEDS)
    for seed in range(N_SEEDS):
        model = fitted(people(), seed)
        cells = model.surprising_cells(3 * N).set_index(["user", "column"])["probability"]
        found[seed] = [cells[cell] for cell in CELLS]
        law = model.predict_cells("two", people().loc[5].drop("two").to_dict())
        share = law.cdf([people().loc[5, "two"]])[0]
        inside[seed] = 2.0 * min(share, 1.0 - share)
    seeds = range(100, 100 + N_SEEDS)
    without = np.array([[probability_without(*cell, seed) for cell in CELLS] for seed in seeds])
    assert (np.abs(differences(without, found)) < ACCEPT).all()
    place = CELLS.index((5, "two"))  # a mutant that leaves the cell in the fit
    assert differences(without[:, [place]], inside[:, None])[0] > ACCEPT

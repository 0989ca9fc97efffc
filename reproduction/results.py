"""Outcomes as a table: a row per fit, and means with standard errors over repetitions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from reproduction import published
from reproduction.cells import Cell
from reproduction.forums import NOISE_VARIANCE, forum_of
from reproduction.grid import Outcome
from reproduction.scores import SCORES

FLOOR = float(0.5 * (np.log(2 * np.pi * NOISE_VARIANCE) + 1))
_KEYS = ["study", "scenario", "variant", "model", "n_users", "n_threads", "repetition", "seed"]


def tidy(study: str, outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """A row per cell: what it is, its scores, its warnings, its error."""
    rows = [
        {
            "study": study,
            **{name: getattr(outcome.cell, name) for name in _KEYS[1:]},
            **{name: outcome.scores.get(name, float("nan")) for name in SCORES},
            "warnings": "; ".join(outcome.warnings),
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
    return pd.DataFrame(rows, columns=[*_KEYS, *SCORES, "warnings", "error"])


def averages(frame: pd.DataFrame, by: Sequence[str], score: str) -> pd.DataFrame:
    """Mean, standard error (0 for one repetition) and number of a score over repetitions; rows
    without it are left out."""
    known = frame[frame[score].notna()]
    groups = known.groupby(list(by), sort=False, observed=True)[score]
    table = pd.DataFrame(
        {"mean": groups.mean(), "error": groups.sem().fillna(0.0), "n": groups.size()}
    )
    return table.reset_index()


class Comparison(NamedTuple):
    """A published point beside ours."""

    scenario: str
    metric: str
    model: str
    n_threads: int
    published: float
    published_error: float
    ours: float
    ours_error: float

    @property
    def gain(self) -> float:
        """How much better ours is: lower NLL, higher ARI."""
        return self.published - self.ours if self.metric == "nll" else self.ours - self.published

    @property
    def standard_errors(self) -> float:
        """The gain in standard errors of the difference."""
        return self.gain / float(np.hypot(self.published_error, self.ours_error))


def compared(frame: pd.DataFrame, scenario: str, metric: str) -> list[Comparison]:
    """Every published point of a scenario at whose size there are fits."""
    ours = averages(frame[frame["scenario"] == scenario], ["model", "n_threads"], metric)
    return [
        Comparison(
            scenario,
            metric,
            str(row.model),
            point.n_threads,
            point.mean,
            point.error,
            row.mean,
            row.error,
        )
        for row in ours.itertuples()
        for point in published.curve(scenario, metric, str(row.model))
        if point.n_threads == row.n_threads
    ]


def truth_nll(cell: Cell) -> float:
    """The test NLL of somebody who knows the coefficients and the noise, on the test threads of
    this cell."""
    test = forum_of(cell).test
    errors = test.outcome - test.participation @ forum_of(cell).latent
    return float(
        0.5 * np.log(2 * np.pi * NOISE_VARIANCE) + 0.5 * np.mean(errors**2) / NOISE_VARIANCE
    )

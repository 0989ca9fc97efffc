"""Files that a run's folder may have besides the posterior. A plain run has none of them; 'dualview
forum' writes all.

predictions.csv: a row per test thread with median (in older files mean), sd and outcome, where
known log_density and level (the predictive distribution function at the outcome). profiles.csv: a
row per user with activity in plain units. forum.json, roles.json, evaluation.json: settings and
facts, labels of roles, scores of competitors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.errors import FileError
from dualview.files.reading import readable_json
from dualview.files.spreadsheets import match_names, unescape_table
from dualview.forum.scores import accuracy
from dualview.inputs.table_files import read_table
from dualview.inputs.tables import numeric
from dualview.words.report import THREADS, Vocabulary

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Predicted:
    """Predictions of threads with known outcomes, treated as normal around their medians with their
    standard deviations."""

    median: Array
    sd: Array
    outcome: Array
    log_density: Array | None
    level: Array | None

    @property
    def distribution(self) -> NormalMixture:
        def parts(cases: slice) -> Parts:
            return Parts(np.zeros((1, 1)), self.median[None, cases], self.sd[None, cases])

        if self.level is None:
            return NormalMixture(len(self.median), 1, parts)
        return _WithLevels(len(self.median), parts, self.outcome, self.level)

    def scores(self) -> dict[str, Any]:
        """Negative log-likelihood, RMSE, R² against the mean of these outcomes, and shares inside
        central intervals."""
        predicted, density = self.distribution, self.log_density
        density = predicted.log_density(self.outcome) if density is None else density
        rmse, r2, inside = accuracy(self.median, predicted.cdf(self.outcome), self.outcome)
        nll = -float(density.mean())
        return {"n": len(self.median), "nll": nll, "rmse": rmse, "r2": r2, "coverage": inside}


class _WithLevels(NormalMixture):
    """Normal, except for the distribution function at the outcomes, which is known."""

    def __init__(
        self, n: int, parts: Callable[[slice], Parts], outcome: Array, level: Array
    ) -> None:
        super().__init__(n, 1, parts)
        self._outcome, self._level = outcome, level

    def cdf(self, y: ArrayLike) -> Array:
        return self._level if np.array_equal(y, self._outcome) else super().cdf(y)


def read_predictions(folder: Path, called: Vocabulary = THREADS) -> Predicted | str:
    """predictions.csv of 'dualview predict'; or, if there is nothing to show, the reason in
    words."""
    path, many = folder / "predictions.csv", called.observations
    if not path.is_file():
        return (
            f"This run has no predictions of test {many}. To add them, keep some {many} out of the "
            f"fit, then: dualview predict RUN test_{many}.csv, and make this report again."
        )
    table = unescape_table(read_table(path))
    if "log_probability" in table or any(str(name).startswith("probability") for name in table):
        return _probabilities_in_words(table, many)
    center = "median" if "median" in table else "mean"
    if center not in table or "sd" not in table:
        raise FileError(
            f"{path} must have columns median (or mean) and sd; it has "
            f"{', '.join(map(str, table.columns))}."
        )
    if "outcome" not in table:
        return (
            f"predictions.csv has no column 'outcome': the outcomes of these {many} are "
            "unknown, so nothing can be checked."
        )
    columns = [name for name in (center, "sd", "outcome", "log_density", "level") if name in table]
    values = {name: numeric(table[name]) for name in columns}
    usable = np.isfinite(np.column_stack(list(values.values()))).all(axis=1) & (values["sd"] > 0)
    if not usable.any():
        return f"predictions.csv has no {called.observation} with a prediction and an outcome."
    values = {name: column[usable] for name, column in values.items()}
    return Predicted(
        values[center],
        values["sd"],
        values["outcome"],
        values.get("log_density"),
        values.get("level"),
    )


def _probabilities_in_words(table: pd.DataFrame, many: str) -> str:
    """What predictions of yes-or-no outcomes, levels and rankings say."""
    if "ranking_log_probability" in table:
        each = table.drop_duplicates("ranking")["ranking_log_probability"]
        return (
            f"{len(each):,} rankings of {len(table):,} items were predicted (predictions.csv): "
            f"negative log-likelihood {-float(each.mean()):.3f} each."
        )
    if "log_probability" not in table:
        return (
            f"{len(table):,} {many} were predicted (predictions.csv); their outcomes are unknown."
        )
    loss = -float(table["log_probability"].mean())
    n_levels = max(2, sum(str(name).startswith("probability_") for name in table))
    return (
        f"{len(table):,} {many} were predicted (predictions.csv): log loss {loss:.3f} each; the "
        f"same probability for all {n_levels} outcomes would have {math.log(n_levels):.3f}."
    )


def read_activity(folder: Path, users: list[str]) -> pd.DataFrame | None:
    """profiles.csv: what the users' features were made from, in plain units, in the order of these
    users."""
    path = folder / "profiles.csv"
    if not path.is_file():
        return None
    table = read_table(path, ["user"])
    if "user" not in table:
        raise FileError(
            f"{path} must have a column user; it has {', '.join(map(str, table.columns))}."
        )
    table["user"] = match_names(table["user"], set(users))
    table = table.set_index("user").drop(columns="cluster", errors="ignore").select_dtypes("number")
    known = set(table.index)
    absent = [user for user in users if user not in known]
    if absent or len(known) < len(table):
        what = f"it lacks {', '.join(absent[:5])}" if absent else "some are in it twice"
        raise FileError(f"{path} must have a row per user of the run; {what}.")
    return table.loc[users]


@dataclass(frozen=True)
class ForumFiles:
    """What 'dualview forum' wrote of its settings, roles and scores; empty or None for other
    runs."""

    settings: dict[str, Any]
    roles: dict[int, dict[str, Any]]
    evaluation: dict[str, Any] | None

    @property
    def meanings(self) -> list[dict[str, str]]:
        """What each quantity means, and what the model made of it."""
        made, left_out = self.settings.get("features", {}), self.settings.get("left_out", {})
        return [
            {
                "name": name,
                "meaning": meaning,
                "use": made.get(name) or f"not used: {left_out.get(name, 'no feature')}",
            }
            for name, meaning in self.settings.get("meanings", {}).items()
        ]


def read_forum_files(folder: Path) -> ForumFiles:
    roles = (read_json(folder / "roles.json") or {}).get("roles", [])
    return ForumFiles(
        read_json(folder / "forum.json") or {},
        {role["role"]: role for role in roles},
        read_json(folder / "evaluation.json"),
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is no file."""
    if not path.is_file():
        return None
    with readable_json(path, "Restore it, or delete it.") as content:
        if not isinstance(content, dict):
            raise TypeError(f"it must hold a JSON object; it holds {type(content).__name__}")
    return content

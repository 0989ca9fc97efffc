"""Files that a run's folder may have besides the posterior: predictions of test threads, scores of other models, settings."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.errors import FileError
from dualview.posterior.predictive import NormalMixture, Parts
from dualview.tables import read_table

Array = NDArray[np.float64]

_LEVELS = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Predicted:
    """Predictions of threads whose outcomes came, taken as normal with their means and standard deviations."""

    mean: Array
    sd: Array
    outcome: Array
    log_density: Array | None

    @property
    def distribution(self) -> NormalMixture:
        def parts(cases: slice) -> Parts:
            return Parts(np.zeros((1, 1)), self.mean[None, cases], self.sd[None, cases])

        return NormalMixture(len(self.mean), 1, parts)

    def scores(self) -> dict[str, Any]:
        """Negative log-likelihood, RMSE, R² against the mean of these outcomes, and shares inside central intervals."""
        error = self.outcome - self.mean
        spread = float(np.mean((self.outcome - self.outcome.mean()) ** 2))
        log_density = self.distribution.log_density(self.outcome) if self.log_density is None else self.log_density
        held_from = np.abs(2 * self.distribution.cdf(self.outcome) - 1)
        return {
            "n": len(self.mean),
            "nll": -float(log_density.mean()),
            "rmse": float(np.sqrt(np.mean(error**2))),
            "r2": 1 - float(np.mean(error**2)) / spread if spread > 0 else float("nan"),
            "coverage": [(level, float(np.mean(held_from <= level))) for level in _LEVELS],
        }


def read_predictions(folder: Path) -> Predicted | str:
    """predictions.csv of 'dualview predict'; in words why there is nothing to show, where there is not."""
    path = folder / "predictions.csv"
    if not path.is_file():
        return (
            "This run has no predictions of test threads. To add them, keep some threads out of the fit, then: "
            "dualview predict RUN test_threads.csv, and make this report again."
        )
    table = read_table(path)
    absent = [name for name in ("mean", "sd") if name not in table]
    if absent:
        raise FileError(f"{path} must have columns mean and sd; it has {', '.join(map(str, table.columns))}.")
    if "outcome" not in table:
        return "predictions.csv has no column 'outcome': what came of these threads is not known, so nothing can be checked."
    columns = [name for name in ("mean", "sd", "outcome", "log_density") if name in table]
    values = {name: pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float) for name in columns}
    usable = np.isfinite(np.column_stack(list(values.values()))).all(axis=1) & (values["sd"] > 0)
    if not usable.any():
        return "predictions.csv has no thread with a prediction and an outcome."
    values = {name: column[usable] for name, column in values.items()}
    return Predicted(values["mean"], values["sd"], values["outcome"], values.get("log_density"))


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is no file."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read ({error}).") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} must hold a JSON object; it holds {type(content).__name__}.")
    return content

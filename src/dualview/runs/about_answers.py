"""answers.json in a run's folder: the kind of the answers, and the ranges of their columns for
curves of predictions."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.inputs.answers import Answers
from dualview.settings import AnswerSettings

FILE = "answers.json"
_EDGE = 0.05  # of the values of a column left out at either end


@dataclass(frozen=True)
class Range:
    """Where most values of a column are, and their mean."""

    name: str
    low: float
    high: float
    mean: float


@dataclass(frozen=True)
class AboutAnswers:
    """What a report needs to know of the answers of a fit."""

    kind: str
    outcome: str
    n: int
    columns: tuple[Range, ...]
    common: tuple[Range, ...] = ()

    def parts(self, names: list[str]) -> list[str]:
        """Names of the parts of a latent vector: a posterior has no name for a single one."""
        single = self.columns[0].name if self.columns else "intercept"
        return [single] if len(names) == 1 else names


def write_about(folder: Path, answers: Answers, settings: AnswerSettings) -> None:
    """Write answers.json."""
    observed = answers.observed
    common = () if observed.common is None else _ranges(observed.common)
    outcome = settings.outcome or ("place" if settings.kind == "rankings" else "outcome")
    about = AboutAnswers(settings.kind, outcome, len(answers.ids), _ranges(observed.design), common)
    write_json(folder / FILE, asdict(about))


def _ranges(columns: pd.DataFrame) -> tuple[Range, ...]:
    found = []
    for name, column in columns.items():
        values = column.to_numpy(dtype=float)
        low, high = np.quantile(values, [_EDGE, 1 - _EDGE])
        found.append(Range(str(name), float(low), float(high), float(values.mean())))
    return tuple(found)


def read_about(folder: Path) -> AboutAnswers | None:
    """What was written; None for a run of threads or of features alone."""
    path = folder / FILE
    if not path.is_file():
        return None
    with readable_json(path, "Make it again with 'dualview resume'.") as content:
        columns, common = (
            tuple(Range(**column) for column in content.pop(name, []))
            for name in ("columns", "common")
        )
        return AboutAnswers(**content, columns=columns, common=common)

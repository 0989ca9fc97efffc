"""answers.json in a run's folder: the kind of the answers, and the ranges of their columns for
curves of predictions."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.inputs.answers import USUAL_OUTCOMES, Answers
from dualview.settings import AnswerSettings
from dualview.words.report import AboutAnswers, Range

FILE = "answers.json"
_EDGE = 0.05  # of the values of a column left out at either end


def write_about(folder: Path, answers: Answers, settings: AnswerSettings) -> None:
    observed = answers.observed
    common = () if observed.common is None else _ranges(observed.common)
    outcome = settings.outcome or USUAL_OUTCOMES.get(settings.kind, "outcome")
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

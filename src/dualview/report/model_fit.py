"""The section on whether the model fits: checks.json, if 'dualview check' wrote one to the run's
folder."""

import math
from pathlib import Path
from typing import Any

from dualview.checks import words_text
from dualview.posterior import Posterior
from dualview.posterior.checks.model_checks import VERDICTS, Check
from dualview.report.pictures import levels
from dualview.runs.checks import read_checks
from dualview.runs.comparison import own_digest
from dualview.words.numbers import number

NOT_CHECKED = (
    "The model of this run has not been checked against its data. To check it: "
    "dualview check RUN; then make this report again."
)
_MARKS = dict(zip(VERDICTS, ("✓", "?", "!"), strict=True))


def model_fit_section(folder: Path, post: Posterior) -> dict[str, Any]:
    """A row per check, those that are not fine first, and a picture of levels."""
    if not (folder / "checks.json").is_file():
        return {"missing": NOT_CHECKED}
    found = read_checks(folder, own_digest(folder, post))
    if found is None:
        return {"missing": NOT_CHECKED}
    checks, kept = found
    ordered = sorted(checks, key=lambda check: -VERDICTS.index(check.verdict))
    return {
        "missing": None,
        "headline": headline(checks),
        "rows": [_row(check) for check in ordered],
        "picture": levels(kept) if kept else None,
        "alt": f"Histograms of levels of {words_text(list(kept))}; if the model is right, 95 % of "
        "the bars end in the band.",
    }


def headline(checks: list[Check]) -> str:
    wrong = [check.name for check in checks if check.verdict == VERDICTS[2]]
    doubtful = [check.name for check in checks if check.verdict == VERDICTS[1]]
    if not wrong and not doubtful:
        return f"All {len(checks)} checks are fine."
    parts = [f"the model is wrong in: {words_text(wrong)}"] if wrong else []
    parts += [f"look at: {words_text(doubtful)}"] if doubtful else []
    return (
        f"Of {len(checks)} checks, {len(checks) - len(wrong) - len(doubtful)} are fine; "
        f"{'; '.join(parts)}."
    )


def _row(check: Check) -> dict[str, Any]:
    usual = (
        f"{number(check.usual_low)} to {number(check.usual_high)}"
        if math.isfinite(check.usual_high)
        else "–"
    )
    p = "–" if math.isnan(check.p) else "<0.001" if check.p < 0.001 else f"{check.p:.2g}"
    return {
        "name": check.name,
        "mark": _MARKS[check.verdict],
        "verdict": check.verdict,
        "about": check.about,
        "value": number(check.value),
        "usual": usual,
        "p": p,
        "advice": "" if check.verdict == VERDICTS[0] else check.advice,
    }

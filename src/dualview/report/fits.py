"""The section on which fit predicts best: comparison.json, if 'dualview compare' wrote one to the
run's folder."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from dualview.posterior import Posterior
from dualview.report.pictures import Axis
from dualview.runs.comparison import FILE, Fit, Ranking, own_digest
from dualview.words.numbers import tenths
from dualview.words.report import Vocabulary

NOT_COMPARED = (
    "This run has not been compared with other fits to its {many}. To choose between a fit with a "
    "link and one without, or between numbers of clusters: dualview report RUN --against OTHER."
)
OUTDATED = (
    "comparison.json is out of date: it was written before this run was continued, or for another "
    "run. Make it again: dualview report RUN --against OTHER."
)
_THIS = {
    "best": "the best of them",
    "clearly behind": "which is clearly behind the best",
    "not distinguishable from the best": "which is not distinguishable from the best",
    "highest score, uncertain": "which has the highest score, but that is uncertain",
    "rank uncertain": "whose rank is uncertain",
}
_EXPLAINED = (
    "The score of a fit (elpd) adds up, over all {many}, the log density of the outcome as "
    "predicted from {from_what}. Higher is better. {Many} that share users are no independent "
    "evidence, and standard errors take that into account. A fit that is up to two standard errors "
    "behind the best, or less than 4, cannot be distinguished from it. If a fit, or the best one, "
    "has unsure {many}, its rank is uncertain."
)
_LEFT_OUT = (
    "the other {many}: leave-one-out cross-validation, computed from the draws without "
    "fitting again (PSIS-LOO)"
)
_REFITS = "a fit without them and others: cross-validation in {folds} folds"
_PICTURE = (
    "In the picture, the line is the best fit, a dot the difference of another fit, and "
    "the bar ± two standard errors."
)


def fits_section(folder: Path, post: Posterior, called: Vocabulary) -> dict[str, Any]:
    """A row per fit, the best first, and what to think of it."""
    path = folder / FILE
    if not path.is_file():
        return {"missing": NOT_COMPARED.format(many=called.observations)}
    ranking, own = Ranking.load(path), own_digest(folder, post)
    this = next((fit for fit in ranking.fits if fit.made_with == own), None)
    if this is None:
        return {"missing": OUTDATED}
    verdict, *warnings = ranking.verdict()
    ends = np.array([_bar(fit) for fit in ranking.fits])
    axis = Axis(float(ends.min()), float(ends.max()))
    return {
        "missing": None,
        "words": [
            f"{verdict} This page is about {this.name!r}, {_THIS[ranking.standing(this)]}.",
            *warnings,
        ],
        "explained": _explained(ranking, called.observations),
        "picture": _PICTURE,
        "n_threads": ranking.n_threads,
        "zero": axis.place(0.0),
        "rows": [_row(fit, ranking.standing(fit), fit is this, axis) for fit in ranking.fits],
    }


def _explained(ranking: Ranking, many: str) -> str:
    """How the scores came about, and what they mean."""
    from_what = (
        _LEFT_OUT.format(many=many)
        if ranking.folds is None
        else _REFITS.format(folds=ranking.folds)
    )
    return _EXPLAINED.format(many=many, Many=many.capitalize(), from_what=from_what)


def _bar(fit: Fit) -> tuple[float, float]:
    """Its ends: two standard errors on either side; of a single thread there is none."""
    reach = 2 * fit.difference_se if math.isfinite(fit.difference_se) else 0.0
    return -fit.difference - reach, -fit.difference + reach


def _row(fit: Fit, standing: str, is_this: bool, axis: Axis) -> dict[str, Any]:
    best = fit.difference == 0
    return {
        "name": fit.name,
        "this": is_this,
        "apart": fit.apart,
        "first": best,
        "best": standing == "best",
        "elpd": tenths(fit.elpd),
        "se": tenths(fit.se),
        "behind": "" if best else tenths(fit.difference),
        "behind_se": "" if best else tenths(fit.difference_se),
        "unsure": f"{fit.unsure:,}",
        "standing": standing,
        "at": axis.place(-fit.difference),
        "from": axis.place(_bar(fit)[0]),
        "to": axis.place(_bar(fit)[1]),
    }

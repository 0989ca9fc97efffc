"""The section that compares the model with others on the test threads: evaluation.json, if the run
has one.

Its ``scores`` are a list with an object per model: name, words, nll, rmse, r2 and coverage by
probability. ``differences`` say how much better the model predicts than another, ``verdict`` what
to think of it.
"""

import math
from typing import Any

from dualview.checks import words_text
from dualview.errors import FileError
from dualview.words.numbers import number, share

NO_EVALUATION = (
    "This run was not compared with other models: there is no evaluation.json. "
    "'dualview forum' writes one."
)
_NAMES = {
    "nll": ("negative log-likelihood", "lower is better"),
    "rmse": ("RMSE", "lower is better"),
    "r2": ("R²", "higher is better"),
    "coverage": ("inside 95 %", "95 % is right"),
    "gain": ("dual model better by", "nats per thread, ± standard error"),
}
_WIDE = {"rmse", "gain"}  # left out on narrow screens
_LESS_IS_BETTER = {"nll": True, "rmse": True, "r2": False}


def comparison_section(evaluation: dict[str, Any] | None) -> dict[str, Any]:
    """A row per model and a column per score, the best of each marked."""
    if evaluation is None:
        return {"missing": NO_EVALUATION}
    rows = _rows(evaluation)
    names = [name for name in _NAMES if any(row.get(name) is not None for row in rows)]
    best = {name: _best(rows, name) for name in names}
    return {
        "missing": None,
        "words": [text for text in (evaluation.get("verdict"), _convergence(evaluation)) if text],
        "n_test": evaluation.get("n_test"),
        "columns": [
            {"name": _NAMES[name][0], "note": _NAMES[name][1], "wide": name in _WIDE}
            for name in names
        ],
        "rows": [
            {
                "model": row["model"],
                "cells": [
                    {
                        "text": _cell(name, row.get(name)),
                        "best": _cell(name, row.get(name)) in best[name],
                        "wide": name in _WIDE,
                    }
                    for name in names
                ],
            }
            for row in rows
        ],
    }


def _rows(evaluation: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per model, with the share inside the 95 % interval and the model's gain over it."""
    scores = evaluation.get("scores")
    if not isinstance(scores, list) or not all(
        isinstance(row, dict) and "name" in row for row in scores
    ):
        raise FileError(
            "evaluation.json must have 'scores', a list with an object per model; it has "
            "something else there."
        )
    gains = {item["than"]: item for item in evaluation.get("differences", [])}
    return [
        {
            **{name: value for name, value in row.items() if not _is_nan(value)},
            "model": row.get("words") or row["name"],
            "coverage": row.get("coverage", {}).get("0.95"),
            "gain": gains.get(row["name"]),
        }
        for row in scores
    ]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _best(rows: list[dict[str, Any]], name: str) -> set[str]:
    """The best figure as it is shown; none where a larger or smaller one is not better."""
    if name not in _LESS_IS_BETTER:
        return set()
    known = [float(row[name]) for row in rows if row.get(name) is not None]
    if len(known) < 2:
        return set()
    return {_cell(name, min(known) if _LESS_IS_BETTER[name] else max(known))}


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "gain":
        return f"{value['gain']:+.4f} ± {value['error']:.4f}".replace("-", "−").replace("nan", "–")
    if name == "r2":
        return f"{value:.3f}".replace("-", "−")
    return share(float(value)) if name == "coverage" else number(float(value), 4)


def _convergence(evaluation: dict[str, Any]) -> str:
    doubtful = [
        name for name, converged in evaluation.get("converged", {}).items() if not converged
    ]
    return (
        f"Chains that have not converged: those of the {words_text(doubtful)} model."
        if doubtful
        else ""
    )

"""The section that sets the model beside others on the test threads: evaluation.json, where the run has one.

It is an object with ``scores``, an object per model with numbers by name (nll, rmse, r2, coverage and others), and, where
known, ``n_test`` and ``words``, a paragraph or a list of them.
"""

from typing import Any

from dualview.errors import FileError
from dualview.report.numbers import number, share

NO_EVALUATION = "This run was not compared with other models: there is no evaluation.json. 'dualview forum' writes one."
_NAMES = {
    "nll": ("negative log-likelihood", "less is better"),
    "rmse": ("RMSE", "less is better"),
    "r2": ("R²", "more is better"),
    "coverage": ("inside 95 %", "95 % is right"),
}
_SMALLER_IS_BETTER = {"nll", "rmse"}


def comparison_section(evaluation: dict[str, Any] | None) -> dict[str, Any]:
    """A row per model and a column per score, the best of each marked."""
    if evaluation is None:
        return {"missing": NO_EVALUATION}
    scores = _scores(evaluation)
    names = [name for name in _NAMES if any(name in row for row in scores.values())]
    best = {name: _best(scores, name) for name in names}
    return {
        "missing": None,
        "words": _paragraphs(evaluation.get("words")),
        "n_test": evaluation.get("n_test"),
        "columns": [{"name": _NAMES[name][0], "note": _NAMES[name][1]} for name in names],
        "rows": [
            {"model": model, "cells": [{"text": _cell(name, row.get(name)), "best": model in best[name]} for name in names]}
            for model, row in scores.items()
        ],
    }


def _scores(evaluation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = evaluation.get("scores")
    if isinstance(found, list) and all(isinstance(row, dict) and "model" in row for row in found):
        found = {str(row["model"]): row for row in found}
    if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
        raise FileError("evaluation.json must have 'scores', an object per model with its numbers; it has something else there.")
    return {str(model): row for model, row in found.items()}


def _best(scores: dict[str, dict[str, Any]], name: str) -> set[str]:
    """Models with the best figure as it is shown; none for coverage, which is not better the larger it is."""
    known = {model: float(row[name]) for model, row in scores.items() if isinstance(row.get(name), int | float)}
    if name == "coverage" or len(known) < 2:
        return set()
    target = min(known.values()) if name in _SMALLER_IS_BETTER else max(known.values())
    return {model for model, value in known.items() if _cell(name, value) == _cell(name, target)}


def _cell(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "–"
    return share(value) if name == "coverage" else number(float(value), 4)


def _paragraphs(text: Any) -> list[str]:
    if text is None:
        return []
    return [str(part) for part in text] if isinstance(text, list) else [str(text)]

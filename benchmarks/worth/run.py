"""Runs of all methods on a set, and their scores as a file."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.worth.methods import METHODS
from benchmarks.worth.problem import problems
from benchmarks.worth.scores import UserScores, by_user, over_folds
from benchmarks.worth.sets import Array, Study
from dualview.files.writing import make_folder, write_whole


class Result(NamedTuple):
    """Scores by question and method, users in the same order for all methods; CPU seconds of each
    method, (folds,)."""

    scores: dict[str, dict[str, UserScores]]
    seconds: dict[str, Array]


def run(study: Study, n_folds: int, seed: int) -> Result:
    """Every method on every fold of a study."""
    parts: dict[str, dict[str, list[UserScores]]] = {}
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for problem in problems(study, n_folds, seed):
        for method, fit in METHODS.items():
            began = time.process_time()
            predict = fit(problem)
            for question in problem.questions():
                user, truth = study.user[question.asked], study.outcome[question.asked]
                found = by_user(user, study.n_users, truth, predict(question))
                parts.setdefault(question.name, {}).setdefault(method, []).append(found)
            seconds[method].append(time.process_time() - began)
            print(
                f"{study.name}, fold {problem.fold}: {method}, {seconds[method][-1]:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    scores = {
        question: {method: over_folds(own) for method, own in of.items()}
        for question, of in parts.items()
    }
    return Result(scores, {method: np.array(own) for method, own in seconds.items()})


def kept_run(study: Study, n_folds: int, seed: int, folder: Path | None) -> Result:
    """``run``, from a file in the folder where there is one; without one it is written."""
    if folder is None:
        return run(study, n_folds, seed)
    path = folder / f"{study.name}-{n_folds}-{seed}.json"
    if not path.exists():
        found = run(study, n_folds, seed)
        make_folder(folder)
        write_whole(path, json.dumps(_plain(found)).encode())
    return _result(json.loads(path.read_text(encoding="utf-8")))


def _plain(result: Result) -> dict[str, object]:
    scores = {
        question: {method: [part.tolist() for part in own] for method, own in of.items()}
        for question, of in result.scores.items()
    }
    return {
        "scores": scores,
        "seconds": {method: own.tolist() for method, own in result.seconds.items()},
    }


def _result(plain: dict[str, dict[str, dict[str, Sequence[Sequence[float]]]]]) -> Result:
    scores = {
        question: {
            method: UserScores(*(np.array(part, dtype=float) for part in own))
            for method, own in of.items()
        }
        for question, of in plain["scores"].items()
    }
    return Result(scores, {method: np.array(own) for method, own in plain["seconds"].items()})

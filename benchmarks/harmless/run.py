"""Models on trials, several at a time; every result is kept as it comes."""

import math
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import dualview as dv
from benchmarks import agreement
from benchmarks.harmless.rows import CONTINUED, Kept, Key, Row
from benchmarks.harmless.trials import Source, Trial
from benchmarks.worth.sets import Array

SIMPLE = ("mean", "ridge", "mixed")
MIXTURES: dict[str, dict[str, Any]] = {
    "single": agreement.MODELS["single"],
    "dual": agreement.MODELS["dual"],
    "agreement": agreement.MODELS["agreement learned"],
    "link": {"link": "linear"},
}
STACKED = "stacked"
MODELS = (*SIMPLE, *MIXTURES, STACKED)
_SHORT: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=2), "n_draws": 2, "n_chains": 1}


@dataclass(frozen=True)
class Plan:
    """What is to be run. limit: seconds of each fit. folder: of the fits that are going on.
    settings: of the estimator, beside those of the model."""

    sources: Sequence[Source]
    controls: Sequence[str]
    models: Sequence[str]
    n_splits: int
    limit: float | None
    folder: Path
    n_jobs: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One model on one trial."""

    plan: Plan
    source: Source
    control: str
    split: int
    model: str

    @property
    def key(self) -> Key:
        return self.source.name, self.control, self.split, self.model

    @property
    def folder(self) -> Path:
        """Of the fits of its trial."""
        return (
            self.plan.folder / re.sub(r"\W", "_", self.source.name) / self.control / str(self.split)
        )


def run(plan: Plan, kept: Kept, after: Callable[[], None] = lambda: None) -> None:
    """Keep a row for each model on each trial, unless there is one; ``after`` follows every row.

    A stack comes after the fits of its set, which it reads from files.
    """
    for source in plan.sources:
        for models in _stages(plan.models):
            tasks = [
                task for task in _tasks(plan, source, models) if not kept.has(task.key, plan.limit)
            ]
            parallel = joblib.Parallel(
                n_jobs=plan.n_jobs, return_as="generator_unordered", batch_size=1
            )
            for row in parallel(joblib.delayed(result)(task) for task in tasks):
                kept.add(_continued(row, kept.rows.get(row.key)))
                _say(row)
                after()
        for task in _tasks(plan, source, [STACKED]):
            if task.key in kept.rows and kept.rows[task.key].passed:
                shutil.rmtree(task.folder, ignore_errors=True)


def _continued(row: Row, before: Row | None) -> Row:
    """The row of a fit that continued another one: its seconds are those of both."""
    if before is None or row.model not in MIXTURES:
        return row
    return replace(row, seconds=before.seconds + row.seconds)


def _stages(models: Sequence[str]) -> Iterator[list[str]]:
    """Models in the order of tables; a stack, which needs all mixtures, last."""
    asked = {*models, *(MIXTURES if STACKED in models else ())}
    yield [name for name in MODELS if name in asked and name != STACKED]
    yield [STACKED] if STACKED in asked else []


def _tasks(plan: Plan, source: Source, models: Sequence[str]) -> Iterator[Task]:
    for split in range(plan.n_splits):
        for control in plan.controls:
            for model in models:
                yield Task(plan, source, control, split, model)


def result(task: Task) -> Row:
    """The row of a task; with a note in place of a result, if the model fails."""
    limit = math.inf if task.plan.limit is None else task.plan.limit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verdicts are in the table
        try:
            units, *rest = _run(task, task.source.trial(task.control, task.split))
        except Exception as error:  # one model in a long run
            note = f"{type(error).__name__}: {error}"
            return Row(*task.key, np.nan, 0.0, False, np.nan, limit, note, np.empty(0))
    seconds, passed, r_hat, note = rest
    return Row(*task.key, float(np.nanmean(units)), seconds, passed, r_hat, limit, note, units)


def _run(task: Task, trial: Trial) -> tuple[Array, float, bool, float, str]:
    """NLL by unit, CPU seconds, whether verdicts passed, the largest R-hat, a note."""
    if task.model in SIMPLE:
        began = time.process_time()
        return trial.simple(task.model), time.process_time() - began, True, np.nan, ""
    if task.model == STACKED:
        fits = {name: _fitted(task, trial, name) for name in MIXTURES}
        began = time.process_time()
        stack = dv.stack(fits)
        units = trial.nll(stack)
        note = ", ".join(f"{name} {weight:.2f}" for name, weight in stack.weights.items())
        return units, time.process_time() - began, *_verdict(fits.values()), note
    trial.fit(**MIXTURES[task.model], **task.plan.settings | _SHORT, n_jobs=1)  # compiles
    was_cut_short = (
        task.folder.joinpath(task.model).exists() and not _path(task, task.model).exists()
    )
    began = time.process_time()
    model = _fit(task, trial, task.model)
    seconds, note = time.process_time() - began, CONTINUED if was_cut_short else ""
    return trial.nll(model), seconds, *_verdict([model]), note


def _fitted(task: Task, trial: Trial, model: str) -> dv.DualViewMixture:
    """The mixture whose row there is, or a new one."""
    path = _path(task, model)
    return joblib.load(path) if path.exists() else _fit(task, trial, model)


def _path(task: Task, model: str) -> Path:
    """The file of a fit that has ended."""
    return task.folder / f"{model}.joblib"


def _fit(task: Task, trial: Trial, model: str) -> dv.DualViewMixture:
    """The mixture, with a file for stacks; a fit that was stopped is continued."""
    fit = trial.fit(
        **MIXTURES[model],
        **{"random_state": task.split, "n_jobs": 1, "max_time": task.plan.limit}
        | task.plan.settings,
        checkpoint=task.folder / model,
    )
    path = _path(task, model)
    joblib.dump(fit, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)  # whole, or not there
    return fit


def _verdict(fits: Any) -> tuple[bool, float]:
    """Whether all verdicts passed, and the largest R-hat."""
    posts = [fit.posterior_ for fit in fits]
    largest = max(float(post.diagnostics()["r_hat"].max()) for post in posts)
    return all(post.converged for post in posts), largest


def _say(row: Row) -> None:
    found = row.note if row.failed else f"NLL {row.nll:.4f}, {row.seconds:.1f} CPU s"
    mark = "" if row.passed or row.failed else f", not passed (R-hat {row.r_hat:.3f})"
    print(
        f"{row.set}, {row.control}, split {row.split}, {row.model}: {found}{mark}",
        file=sys.stderr,
        flush=True,
    )

"""The forum application: from posts to a run folder with roles, scores and predictions.

The folder is one of ``dualview fit`` (request.json, the chains, posterior.nc, users.csv), so that
summary, plot and predict take it; resume continues all of it. ``docs/forum.md`` describes the files
that it has besides.
"""

import io
import math
import shlex
import sys
import time
import warnings
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from scipy.io import mmwrite

from dualview._version import __version__
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.chains.schedule import most_draws
from dualview.checks import require_extra
from dualview.errors import ConvergenceWarning, FileError, InputError
from dualview.files.digests import digest
from dualview.files.reading import readable_json
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import check_folder_place, make_folder, write_json, write_whole
from dualview.forum.activity import MEANINGS
from dualview.forum.data import ForumData, ForumThreads, prepare_forum
from dualview.forum.example import example_posts
from dualview.forum.options import GONE, ForumOptions
from dualview.forum.roles import describe_roles, roles_text
from dualview.forum.scores import Evaluation, evaluate, fit_baselines
from dualview.mixture import DualViewMixture
from dualview.numerics.parallel import n_cores
from dualview.runs.choices import plain_settings
from dualview.runs.request import Longer, Request, check_settings
from dualview.runs.run import build_estimator, check_complete, fit_run, load_run, summary_of_run
from dualview.settings import Settings, column_option_name, command_words, option_words

_ITERATIONS = 7_000, 50_000  # of a chain, after which chains of most forums agree
_SECONDS = 2e-5  # of an iteration, for each user
_BOTH = 1.2  # time of both fits, in times of the first


def run_forum(
    posts: Path | None,
    out: Path,
    options: ForumOptions,
    settings: Settings,
    *,
    example: bool,
    n_jobs: int,
    quiet: bool,
) -> str:
    """Read, fit, compare, write; returns a summary in words. The same call again continues where it
    was stopped.

    With ``example`` the posts are made, from the sampler's seed, and written to the folder.
    """
    check_settings(settings)
    check_folder_place(out)
    say = _said if not quiet else lambda _: None
    clock = _Clock()
    require_extra("pyarrow", "A forum's run needs", "forum")
    if example == (posts is not None):
        raise InputError("Give either a file of posts, or --example for a simulated forum.")
    say("Making a forum." if posts is None else f"Reading {posts}.")
    made = example_posts(seed=settings.seed) if posts is None else None
    data = prepare_forum(posts if made is None else made, options)
    clock.mark("read")
    for note in data.notes:
        say(note[0].upper() + note[1:] + ".")
    facts = _facts(
        data, (posts or out / "posts.csv").absolute(), command_line(posts, out, options, settings)
    )
    _check_folder(out, facts)
    request = _write_inputs(data, out, facts, settings)
    if made is not None:
        write_whole(out / "posts.csv", csv_bytes(made))
    sizes = f"{len(data.features)} users, {len(data.training.ids)} threads"
    say(f"Fitting the dual model, then the single model to compare: {sizes}.")
    if settings.engine == "gibbs":
        takes = expected_minutes(settings, len(data.features), n_jobs)
        say(f"This takes {takes}, half a minute more if it is the first fit on this machine.")
    summary = fit_run(request, out, n_jobs=n_jobs, quiet=quiet)
    model = load_run(out)
    clock.mark("dual")
    say(f"That took {clock.seconds['dual']:.0f} s. Fitting the single model, which takes less.")
    single = _single(data, out, settings, n_jobs, quiet)
    clock.mark("single")
    predictive = fit_baselines(data)
    clock.mark("ridge")
    for name, fitted in (("dual", model), ("single", single)):
        predicted = fitted.predict_outcome(data.test.behavior)
        assert isinstance(predicted, NormalMixture)
        predictive[name] = predicted
    evaluation = evaluate(data, predictive)
    found = describe_roles(data, model, summary_of_run(out))
    clock.mark("evaluation")
    converged = {"dual": model.posterior_.converged, "single": single.posterior_.converged}
    _write_results(data, model, out, found, evaluation, predictive, converged, clock.seconds)
    return _text(summary, found, evaluation, data, out, clock.seconds, example)


def resume_forum(out: Path, more: Longer, *, n_jobs: int, quiet: bool) -> str:
    """Continue a forum's run as it was asked for, perhaps for longer; roles, scores and predictions
    are made again."""
    request, before = Request.load(out).longer(more), _facts_before(out)
    gone = [name for name in GONE if name in before["options"]]
    if gone:
        raise FileError(
            f"{out} has a run of an earlier version, with an option that is gone "
            f"({', '.join(gone)}): its features were made in another way. It cannot be continued; "
            "to start again, give 'dualview forum' another folder as --out."
        )
    posts = None if "--example" in shlex.split(before["command"]) else Path(before["source"])
    if posts is not None and not posts.exists():
        raise FileError(
            f"The posts of this run, {posts}, cannot be found. Put the file back, or say where it "
            "is now: 'dualview forum FILE --out ...' with the same options continues the run."
        )
    asked = dict(before["options"])
    asked.setdefault("normalize", asked.pop("normalise", False))  # its name in earlier versions
    return run_forum(
        posts,
        out,
        ForumOptions.of(asked),
        request.settings,
        example=posts is None,
        n_jobs=n_jobs,
        quiet=quiet,
    )


def expected_minutes(settings: Settings, n_users: int, n_jobs: int = -1) -> str:
    """How long both fits take, roughly: chains agree sooner in some forums than in others of their
    size."""
    if settings.is_fixed:
        n_warmup = settings.n_warmup or 0
        lengths = [n_warmup + settings.n_draws * settings.thin] * 2
    else:
        most = settings.max_draws or most_draws(settings.n_draws, settings.thin, n_users)
        lengths = [min(n, most * settings.thin) for n in _ITERATIONS]
    at_once = min(effective_n_jobs(n_jobs), n_cores(), settings.n_chains)
    limit = math.inf if settings.max_time is None else settings.max_time
    seconds = [n * n_users * _SECONDS * settings.n_chains / at_once for n in lengths]
    low, high = (math.ceil(_BOTH * min(one, limit) / 60) for one in seconds)
    if high <= 1:
        return "about a minute"
    return f"about {high} minutes" if low == high else f"{low} to {high} minutes"


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def mark(self, step: str) -> None:
        now = time.monotonic()
        self.seconds[step] = round(now - self._last, 2)
        self._last = now


def _said(words: str) -> None:
    print(f"dualview: {words}", file=sys.stderr, flush=True)


def command_line(posts: Path | None, out: Path, options: ForumOptions, settings: Settings) -> str:
    """The command that repeats a run, with what differs from the defaults."""
    words = [
        "dualview",
        "forum",
        *(["--example"] if posts is None else [str(posts)]),
        "--out",
        str(out),
    ]
    for role, names in options.columns.items():
        words += option_words(column_option_name(role), names)
    words += command_words(options, without=("columns", "seed"))
    words += command_words(settings, without=("seed", *settings.unused))
    return shlex.join([*words, *option_words("seed", settings.seed)])


def _facts(data: ForumData, posts: Path, command: str) -> dict[str, Any]:
    columns = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(data.names).items()
    }
    return {
        "version": __version__,
        "command": command,
        "source": str(posts),
        "options": asdict(data.options),
        "columns": columns,
        "facts": data.facts,
        "notes": data.notes,
        "first_posts": data.options.first,
        "outcome": data.options.outcome_words,
        "logarithm": data.options.logarithm,
        "features": data.transforms,
        "left_out": data.left_out,
        "meanings": {name: words for name, words in MEANINGS.items() if name in data.activity},
        "covariates": [str(name) for name in data.training.covariates],
        "training_threads": len(data.training.ids),
        "test_threads": len(data.test.ids),
        "cut": data.cut,
        "data": {
            "features": digest(*(_numbers(data.features[name]) for name in data.features)),
            "training": _digest(data.training),
            "test": _digest(data.test),
        },
    }


def _numbers(cells: pd.Series) -> Any:
    """Numbers as they are, of intervals the ends."""
    if isinstance(cells.dtype, pd.IntervalDtype):
        return np.column_stack([cells.array.left, cells.array.right])
    return cells.to_numpy()


def _digest(threads: ForumThreads) -> str:
    return digest(threads.participation, threads.outcome, threads.covariates.to_numpy())


def _check_folder(out: Path, facts: dict[str, Any]) -> None:
    """Raise where the folder has another run, before anything is written."""
    if (out / "request.json").exists() and not (out / "forum.json").exists():
        raise InputError(
            f"{out} has a run that 'dualview fit' started. Give another folder with --out."
        )
    if not (out / "forum.json").exists():
        return
    before = _facts_before(out)["data"]
    changed = [name for name, value in facts["data"].items() if before.get(name) != value]
    if changed:
        raise InputError(
            f"{out} has a run of other posts or options (the {' and the '.join(changed)} differ). "
            "Give another folder with --out."
        )


def _facts_before(out: Path) -> dict[str, Any]:
    anew = "To start again, give 'dualview forum' another folder as --out."
    with readable_json(out / "forum.json", anew) as content:
        facts: dict[str, Any] = dict(content)
    missing = [name for name in ("command", "source", "options", "data") if name not in facts]
    if missing:
        raise FileError(f"{out / 'forum.json'} has no {', no '.join(missing)}. {anew}")
    return facts


def _write_inputs(data: ForumData, out: Path, facts: dict[str, Any], settings: Settings) -> Request:
    """The tables that the fit reads, and the request for it."""
    tables = (out / "tables").absolute()
    make_folder(tables)
    write_whole(tables / "users.parquet", _parquet(data.features.reset_index()))
    for prefix, threads in (("", data.training), ("test_", data.test)):
        matrix, table = io.BytesIO(), threads.covariates.copy()
        mmwrite(matrix, threads.participation)
        table.insert(0, "outcome", threads.outcome)
        table.insert(0, "thread", threads.ids)
        write_whole(tables / f"{prefix}threads.mtx", matrix.getvalue())
        write_whole(tables / f"{prefix}outcomes.parquet", _parquet(table))
    write_json(out / "forum.json", facts)
    return Request(
        users=str(tables / "users.parquet"),
        threads=str(tables / "threads.mtx"),
        outcomes=str(tables / "outcomes.parquet"),
        covariates=tuple(str(name) for name in data.training.covariates),
        intercept=True,
        settings=settings,
    )


def _parquet(table: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    table.to_parquet(content, index=False)
    return content.getvalue()


def _single(
    data: ForumData, out: Path, settings: Settings, n_jobs: int, quiet: bool
) -> DualViewMixture:
    """The same threads with everybody in one cluster and no features; its chains are in a folder of
    their own."""
    model = build_estimator(plain_settings(settings, 1), out / "single", n_jobs, quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the evaluation says it
        model.fit(None, data.behavior)
    check_complete(model.posterior_, settings, "the same command continues the run")
    return model


def _write_results(
    data: ForumData,
    model: DualViewMixture,
    out: Path,
    found: list[dict[str, Any]],
    evaluation: Evaluation,
    predictive: dict[str, NormalMixture],
    converged: dict[str, bool],
    seconds: dict[str, float],
) -> None:
    profiles = data.activity.reset_index()
    profiles.insert(1, "cluster", model.labels_)
    predictions = csv_bytes(_predictions(data, predictive))
    write_json(out / "roles.json", {"roles": found})
    write_whole(out / "profiles.csv", csv_bytes(profiles))
    write_json(
        out / "evaluation.json", asdict(evaluation) | {"converged": converged, "seconds": seconds}
    )
    write_whole(out / "predictions.csv", predictions)


def _predictions(data: ForumData, predictive: dict[str, NormalMixture]) -> pd.DataFrame:
    test, dual = data.test, predictive["dual"]
    low, high = dual.interval(0.95).T
    start: Any = test.start
    if not data.options.relative_time:
        start = [datetime.fromtimestamp(second, UTC).isoformat() for second in test.start]
    table = pd.DataFrame(
        {"thread": test.ids, "start": start, "length": test.length, "outcome": test.outcome}
    )
    table = table.assign(median=dual.median, mean=dual.mean, sd=dual.std, low=low, high=high)
    table["log_density"], table["level"] = dual.log_density(test.outcome), dual.cdf(test.outcome)
    for name, predicted in predictive.items():
        if name != "dual":
            table[f"{name}_mean"], table[f"{name}_log_density"] = (
                predicted.mean,
                predicted.log_density(test.outcome),
            )
    return table


def _text(
    summary: str,
    found: list[dict[str, Any]],
    evaluation: Evaluation,
    data: ForumData,
    out: Path,
    seconds: dict[str, float],
    example: bool,
) -> str:
    width = max(len(score.name) for score in evaluation.scores)
    lines = [
        summary,
        "",
        f"Roles, and what an early member does to the {data.options.outcome_words}:",
        roles_text(found, data.options.logarithm),
        "",
        f"On {evaluation.n_test} test threads:",
        f"  {'model':<{width}}      NLL    RMSE      R²   inside 95 %",
        *(
            f"  {s.name:<{width}}  {s.nll:7.4f}  {s.rmse:6.4f}  {s.r2:6.3f}   "
            f"{s.coverage['0.95']:10.1%}"
            for s in evaluation.scores
        ),
        evaluation.verdict,
        "",
        f"Wrote {'posts.csv, ' if example else ''}roles.json, profiles.csv, evaluation.json, "
        f"predictions.csv, forum.json and tables/ to {out} in {sum(seconds.values()):.0f} s.",
    ]
    return "\n".join(lines)

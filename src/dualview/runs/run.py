"""Fits in folders: from tables to a posterior on disk, and back to a fitted estimator.

A folder holds request.json, the run's checkpoints, posterior.nc, users.csv and summary.json.
"""

import math
import shlex
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from dualview.columns import read_columns_file
from dualview.errors import ConvergenceWarning, FileError, InputError
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import make_folder, write_whole
from dualview.inputs.answers import Answers
from dualview.mixture import DualViewMixture
from dualview.partitions.alpha import concentration_from_text
from dualview.partitions.choice import partition_process
from dualview.posterior import Posterior, load
from dualview.posterior.summaries import summarize
from dualview.runs.about_answers import write_about
from dualview.runs.preparation import keep_streams
from dualview.runs.request import Request, build_behavior, check_folder, read_inputs
from dualview.runs.summaries import user_table
from dualview.runs.summary_file import keep_summary, kept_summary, text_for_commands
from dualview.settings import Settings
from dualview.words.clusters import Summary


def fit_run(request: Request, folder: Path, *, n_jobs: int, quiet: bool) -> str:
    """Fit what is asked, or continue where the folder's files stop; returns a summary in words."""
    with keep_streams(folder) as keep:
        request = request.without_streams(keep)
        return _fit_run(request, folder, n_jobs, quiet)


def _fit_run(request: Request, folder: Path, n_jobs: int, quiet: bool) -> str:
    users, observed = read_inputs(request)
    behavior = None if observed is None else build_behavior(request, observed, users.ids)
    model = build_estimator(request.settings, folder, n_jobs, quiet)
    if request.kinds is not None:
        model.set_params(columns=read_columns_file(request.kinds))
    if not quiet and observed is not None:
        for note in observed.notes:
            print(f"dualview: {note}", file=sys.stderr)
    features = None
    if users.features is not None:
        features = users.features.set_axis(pd.Index(users.ids, name="user"), axis=0)
    _fit(model, features, behavior, request, folder)
    model.posterior_.save(folder / "posterior.nc")
    write_whole(folder / "users.csv", csv_bytes(user_table(model)))
    summary = summarize(model.posterior_)
    keep_summary(folder, summary)
    if isinstance(observed, Answers):
        write_about(folder, observed, request.answers)
    check_complete(
        model.posterior_,
        request.settings,
        f"to continue, give the same command, or: {resume_command(folder)}",
    )
    text = text_for_commands(summary)
    if not model.posterior_.converged and model.posterior_.approximation is None:
        text += (
            f"\nTo draw more: {resume_command(folder)}{_more(model.posterior_, request.settings)}"
        )
    return f"{text}\nWrote {folder / 'posterior.nc'} and {folder / 'users.csv'}."


def build_estimator(
    settings: Settings, folder: Path | None, n_jobs: int, quiet: bool
) -> DualViewMixture:
    """An estimator with these settings that saves to a folder, if any, with a progress bar on a
    terminal unless quiet."""
    if settings.partition is not None and settings.n_clusters is not None:
        raise InputError(
            "partition is for an inferred number of clusters; got "
            f"n_clusters={settings.n_clusters} as well. Leave one out."
        )
    same = ("feature_prior", "behavior_prior", "spread_prior", "link", "pooling", "agreement")
    return DualViewMixture(
        partition_process(settings.partition) or settings.n_clusters,
        alpha=concentration_from_text(settings.alpha),
        engine=settings.engine_settings(),
        **{name: getattr(settings, name) for name in (*same, "n_draws", "max_time", "n_chains")},
        keep=settings.n_whole if settings.keep == "summary" else settings.keep,
        checkpoint=folder,
        n_jobs=n_jobs,
        random_state=settings.seed,
        progress=not quiet and sys.stderr.isatty(),
    )


def _more(post: Posterior, settings: Settings) -> str:
    """Options that make a run longer which has not converged."""
    if settings.is_fixed:
        return f" --draws {2 * settings.n_draws}"
    seconds = post.seconds_more()
    if post.length is not None and post.length.ended == "max_time" and seconds:
        return f" --max-time {math.ceil(seconds)}"
    if post.length is None or post.length.ended != "max_draws":
        return ""
    return f" --max-draws {2 * post.length.n_iterations // settings.thin}"


def check_complete(post: Posterior, settings: Settings, advice: str) -> None:
    """Raise KeyboardInterrupt where Ctrl-C has ended a fit before its end; advice: how to continue
    it."""
    if post.length is None or post.length.ended != "interrupted":
        return
    made = post.n_draws if post.summary is None else post.summary.sizes["iteration"]
    reached = (
        f"{made:,} of {settings.n_draws:,} draws"
        if settings.is_fixed
        else f"{post.length.n_iterations:,} iterations"
    )
    raise KeyboardInterrupt(f"{reached} of each chain are made and saved; {advice}")


def _fit(
    model: DualViewMixture, features: Any, behavior: Any, request: Request, folder: Path
) -> None:
    """Fit. The request is on disk before the work, so that a killed run can be resumed; a fit that
    is refused leaves none, and no folder that was made for it."""
    is_new = not folder.exists()
    make_folder(folder)
    started = (folder / "manifest.json").exists()
    if not started:
        request.save(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the summary says it
            model.fit(features, behavior)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"{str(error) or 'what was made is saved'}; to continue: {resume_command(folder)}"
        ) from None
    except InputError as error:
        if not started and not (folder / "manifest.json").exists():
            (folder / "request.json").unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # it holds something else
                    folder.rmdir()
        raise InputError(_with_file(str(error), request)) from error
    request.save(folder)


def _with_file(message: str, request: Request) -> str:
    """A message about a part of the data, with the file that the part was read from."""
    per_thread = request.outcomes or request.threads
    files = {
        "X": request.users,
        "Column": request.users,
        "Columns": request.users,
        "participation": request.threads,
        "outcome": per_thread,
        "covariates": per_thread,
    }
    path = files.get(message.split(" ", 1)[0])
    return message if path is None else f"{path}: {message}"


def resume_command(folder: Path) -> str:
    """The command that continues the run in a folder, as a shell takes it."""
    return shlex.join(["dualview", "resume", str(folder)])


def load_run(folder: Path) -> DualViewMixture:
    path = folder / "posterior.nc"
    check_folder(folder)
    if not path.is_file() and not (folder / "request.json").is_file():
        raise FileError(
            f"{folder} is not the folder of a run: it has neither posterior.nc nor request.json."
        )
    if not path.is_file():
        raise FileError(
            f"{folder} has no posterior.nc: the run is not finished. To continue: "
            f"{resume_command(folder)}"
        )
    return DualViewMixture.from_posterior(load(path))


def summary_of_run(folder: Path) -> Summary:
    """The summary of a finished run: the one that was kept, or made anew."""
    return kept_summary(folder) or summarize(load_run(folder).posterior_)


def rebuild_estimator(request: Request, post: Posterior, behavior: Any) -> DualViewMixture:
    """The estimator of a finished run with its settings and its data, as it was after its fit."""
    model = build_estimator(request.settings, None, n_jobs=-1, quiet=True)
    model._take(Posterior(post.tree, behavior), behavior)
    return model

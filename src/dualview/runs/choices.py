"""A run and the few other models worth trying on its data, fitted beside it and stacked.

The others are runs in subfolders of the run, each named after what it is.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd

from dualview.errors import InputError
from dualview.evaluation.stacking import Stack
from dualview.files.spreadsheets import csv_bytes
from dualview.files.writing import make_folder, write_whole
from dualview.runs.comparison import FILE, Ranking, load_stack, rank_runs
from dualview.runs.request import Request, read_inputs
from dualview.runs.run import fit_run, load_run
from dualview.settings import Settings, defaults

_LEARNED = "beta(1,1)"  # a uniform prior of the share of users who agree


def choose(folder: Path, *, n_jobs: int = -1, quiet: bool = False) -> Ranking:
    """Fit the other models, or continue where their files stop, and rank and stack all of them."""
    request = Request.load(folder)
    load_run(folder)
    if request.threads is None:
        raise InputError(
            f"{folder} was fitted without threads or answers: models are chosen by how well they "
            "predict these."
        )
    for name, other in other_requests(request, folder).items():
        if not quiet:
            print(f"dualview: fitting {name!r} into {folder / name}", file=sys.stderr)
        fit_run(other, folder / name, n_jobs=n_jobs, quiet=quiet)
    ranking = rank_runs(chosen_runs(folder))
    ranking.save(folder / FILE)
    return ranking


def other_requests(request: Request, folder: Path) -> dict[str, Request]:
    """What is worth trying beside a run, by name: the same with views that must, or need not,
    agree; and neither features nor clusters, or clusters without features."""
    settings, users = request.settings, read_inputs(request)[0]
    others = {}
    if users.features is not None and settings.n_clusters != 1 and settings.engine == "gibbs":
        agreement, name = (_LEARNED, "learned") if settings.agreement is None else (None, "agreed")
        others[name] = replace(request, settings=replace(settings, agreement=agreement))
    bare = settings.n_clusters == 1 and users.features is None
    others["clusters" if bare else "single"] = replace(
        request,
        users=str(_ids_only(users.ids, request.columns.user, folder)),
        kinds=None,
        settings=plain_settings(settings, None if bare else 1),
    )
    return others


def plain_settings(settings: Settings, n_clusters: int | None) -> Settings:
    """The same for a model of the behavior alone, with as many clusters."""
    names = ("alpha", "partition", "link", "pooling", "agreement", "feature_prior")
    usual = defaults(Settings)
    return replace(settings, n_clusters=n_clusters, **{name: usual[name] for name in names})


def _ids_only(ids: list[str], column: str, folder: Path) -> Path:
    path = (folder / "inputs" / "ids.csv").absolute()
    make_folder(path.parent)
    write_whole(path, csv_bytes(pd.DataFrame({column: ids})))
    return path


def chosen_runs(folder: Path) -> list[Path]:
    """The run and those that ``choose`` has fitted beside it."""
    names = ("learned", "agreed", "single", "clusters")
    return [folder, *(folder / name for name in names if (folder / name).is_dir())]


def load_choice(folder: Path) -> Stack:
    """The stack that ``choose`` has made of a run and the models beside it."""
    runs = chosen_runs(folder)
    if len(runs) == 1 or not (folder / FILE).is_file():
        raise InputError(f"{folder} has no models beside it: dualview choose {folder}")
    return load_stack(runs, Ranking.load(folder / FILE))

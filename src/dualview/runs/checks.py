"""Checks of a finished run: does the model fit its tables? checks.json holds them, with the levels
that a report draws."""

import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dualview.files.reading import readable_json
from dualview.files.writing import write_json
from dualview.posterior.checks.model_checks import Check, Checks
from dualview.runs.comparison import check_unchanged, own_digest
from dualview.runs.request import Request, build_behavior, read_inputs
from dualview.runs.run import load_run

FILE = "checks.json"
_MOST_LEVELS = 2000  # of each kind in the file


def check_run(folder: Path, *, refit: bool, seed: int) -> str:
    """Check a finished run against the tables it was fitted to; writes checks.json, returns the
    checks in words."""
    request, model = Request.load(folder), load_run(folder)
    users, observed = read_inputs(request)
    behavior = None
    if observed is not None:
        behavior = build_behavior(request, observed, users.ids)
        check_unchanged(folder, behavior.fingerprint())
    found = model.set_params(**_settings(request)).check(behavior, refit=refit, seed=seed)
    content = {"made_with": own_digest(folder, model.posterior_), **as_plain(found)}
    write_json(folder / FILE, content)
    return (
        f"{found.text()}\nWrote {folder / FILE}; to see it with pictures: "
        f"{shlex.join(['dualview', 'report', str(folder)])}"
    )


def _settings(request: Request) -> dict[str, Any]:
    """What fits of one view share with the run."""
    return {
        "feature_prior": request.settings.feature_prior,
        "behavior_prior": request.settings.behavior_prior,
    }


def as_plain(found: Checks) -> dict[str, Any]:
    """Checks and levels as plain values; None for what JSON has no name for."""
    checks = [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(check).items()
        }
        for check in found
    ]
    levels = {}
    for name, values in found.levels().items():
        places = np.linspace(0, len(values) - 1, min(len(values), _MOST_LEVELS)).astype(np.intp)
        levels[name] = [round(float(value), 5) for value in values[places]]
    return {"checks": checks, "levels": levels}


def _check(row: dict[str, Any]) -> Check:
    filled: dict[str, Any] = {
        name: math.nan if value is None else value for name, value in row.items()
    }
    return Check(**filled)


def read_checks(folder: Path, digest: str) -> tuple[list[Check], dict[str, Any]] | None:
    """The checks of a run as it is now, and their levels; None where it has not been checked since
    it was drawn."""
    path = folder / FILE
    if not path.is_file():
        return None
    with readable_json(path, "Make it again with 'dualview check'.") as content:
        if content["made_with"] != digest:
            return None
        checks = [_check(row) for row in content["checks"]]
        return checks, {
            str(name): np.array(values, dtype=float) for name, values in content["levels"].items()
        }

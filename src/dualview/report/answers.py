"""Sections on answers of single users: latent vectors by role, effects that all users share, curves of predicted outcomes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dualview.posterior import Posterior
from dualview.posterior.profiles import Profile, mean_latent
from dualview.report import pictures
from dualview.report.numbers import decimals, estimate
from dualview.report.pictures import Band, Curves
from dualview.runs.about_answers import AboutAnswers, Range

Array = NDArray[np.float64]

_POINTS = 41
_MOST_CURVES = 6
_MOST_ROLES = 8
_MOST_EFFECTS = 40
_OF_CHAINS = {"z", "latent", "n_clusters", "alpha", "log_joint", "noise_precision", "agreement", "agrees", "slope_precision"}


def vectors_section(post: Posterior, profiles: list[Profile], looks: list[dict[str, str]]) -> dict[str, Any] | None:
    """A row per role: the mean of its members' latent vectors, part by part; None where a vector is one number or none."""
    if "latent" not in post or post["latent"].ndim != 4:
        return None
    draws = post.flat("latent")
    found = [[mean_latent(draws[..., d], item.users) for d in range(draws.shape[2])] for item in profiles]
    digits = [decimals(float(np.median([row[d].high - row[d].low for row in found]))) for d in range(draws.shape[2])]
    rows = [
        {
            "role": role,
            "look": looks[role],
            "size": len(profiles[role].users),
            "cells": [estimate(part.median, part.low, part.high, digits[d]) for d, part in enumerate(row)],
        }
        for role, row in enumerate(found)
    ]
    return {"names": post.latent_names, "rows": rows}


def effects_section(post: Posterior) -> dict[str, Any] | None:
    """What all users share: coefficients outside the mixture, and the standard deviation of the noise; None without any."""
    rows = []
    for name in post.names:
        if name in _OF_CHAINS or name.startswith(("features.", "behavior.", "categories.")):
            continue
        values = post.tree["posterior"][name]
        if values.ndim == 2:
            rows.append(_effect(name.replace("_", " "), post.flat(name)))
        elif values.ndim == 3 and "user" not in values.dims:
            labels = [str(label) for label in values.coords[values.dims[2]].values] if values.dims[2] in values.coords else []
            labels = labels or [str(i) for i in range(values.shape[2])]
            kind = "" if name == "coefficients" else f"{name.replace('_', ' ')}: "
            rows += [_effect(f"{kind}{label}", post.flat(name)[:, i]) for i, label in enumerate(labels)]
    if "noise_precision" in post and post["noise_precision"].ndim == 2:
        rows.append(_effect("standard deviation of the noise", post.flat("noise_precision") ** -0.5))
    if not rows:
        return None
    return {"rows": rows[:_MOST_EFFECTS], "n": len(rows), "n_shown": min(len(rows), _MOST_EFFECTS)}


def _effect(name: str, draws: Array) -> dict[str, Any]:
    low, median, high = np.quantile(draws, [0.025, 0.5, 0.975])
    return {"name": name, **estimate(float(median), float(low), float(high), decimals(float(high - low)))}


def curves_section(
    post: Posterior, about: AboutAnswers, profiles: list[Profile], looks: list[dict[str, str]]
) -> dict[str, Any] | None:
    """Predicted outcomes of the members of each role along each column, the others at their means; None without columns."""
    names = about.parts(post.latent_names)
    columns = [column for column in about.columns if column.high > column.low][:_MOST_CURVES]
    if "latent" not in post or not columns or not {column.name for column in about.columns} <= set(names):
        return None
    draws = post.flat("latent").reshape(-1, post.n_users, len(names))
    panels = [
        Curves(column.name, np.linspace(column.low, column.high, _POINTS), _bands(draws, names, about, column, profiles))
        for column in columns
    ]
    label = {"binary": f"probability of {about.outcome}", "choices": "probability against an average item"}
    picture = pictures.curves(panels, label.get(about.kind, about.outcome), [look["color"] for look in looks])
    shown = min(len(profiles), _MOST_ROLES)
    return {"picture": picture, "n_columns": len(columns), "n_roles": shown, "choices": about.kind == "choices"}


def _bands(draws: Array, names: list[str], about: AboutAnswers, along: Range, profiles: list[Profile]) -> list[Band]:
    """Median and 95 % interval of the members' mean outcome at points along a column, role by role."""
    grid = np.linspace(along.low, along.high, _POINTS)
    means = {column.name: column.mean for column in about.columns}
    design = np.tile([means.get(name, 1.0) for name in names], (_POINTS, 1))  # 1: an intercept
    design[:, names.index(along.name)] = grid
    if about.kind == "choices":
        design = design - np.array([means[name] for name in names])
    found = []
    for item in profiles[:_MOST_ROLES]:
        if about.kind == "regression":
            expected = draws[:, item.users].mean(axis=1) @ design.T
        else:
            expected = np.mean([expit(draws[:, user] @ design.T) for user in item.users], axis=0)
        found.append(Band(*np.quantile(expected, [0.025, 0.5, 0.975], axis=0)))
    return found

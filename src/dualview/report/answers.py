"""Sections on answers of single users: latent vectors by role, effects that all users share, curves
of predicted outcomes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dualview.posterior import Posterior
from dualview.posterior.partition.profiles import Profile
from dualview.report import pictures
from dualview.report.pictures import Band, Curves
from dualview.views.features import feature_kinds
from dualview.words.clusters import Summary, latents_by_name
from dualview.words.numbers import decimals, estimate
from dualview.words.report import AboutAnswers, Range

Array = NDArray[np.float64]

_POINTS = 41
_MOST_CURVES = 6
_MOST_ROLES = 8
_MOST_EFFECTS = 40
_OF_ITEMS = ("choices", "rankings")  # of which only differences between items matter
_OF_CHAINS = {
    "z",
    "latent",
    "n_clusters",
    "alpha",
    "discount",
    "log_joint",
    "noise_precision",
    "agreement",
    "agrees",
    "slope_precision",
}


def vectors_section(clusters: list[Summary], looks: list[dict[str, str]]) -> dict[str, Any] | None:
    """A row per role: the mean of its members' latent vectors, part by part; None where a vector is
    one number or none."""
    found = [cluster.get("latent", {}) for cluster in clusters]
    if len(latents_by_name(clusters[0])) < 2:
        return None
    digits = {name: typical_decimals([row[name] for row in found]) for name in found[0]}
    rows = [
        {
            "role": role,
            "look": looks[role],
            "size": clusters[role]["size"],
            "cells": [estimate(part, digits[name]) for name, part in row.items()],
        }
        for role, row in enumerate(found)
    ]
    return {"names": list(digits), "rows": rows}


def typical_decimals(means: Sequence[Mapping[str, float]]) -> int:
    """Decimals for estimates in a column, by the width of the middle one."""
    return decimals(float(np.median([mean["high"] - mean["low"] for mean in means])))


def effects_section(post: Posterior) -> dict[str, Any] | None:
    """What all users share: coefficients outside the mixture, and the standard deviation of the
    noise; None without any."""
    rows, views = [], {"behavior", *(kind.view for kind in feature_kinds())}
    for name in post.names:
        if name in _OF_CHAINS or name.split(".")[0] in views:
            continue
        values: Any = post.tree["posterior"][name]
        if values.ndim == 2:
            rows.append(_effect(name.replace("_", " "), post.flat(name)))
        elif values.ndim == 3 and "user" not in values.dims:
            labels = values[values.dims[2]].values  # positions, where it has no names
            kind = "" if name == "coefficients" else f"{name.replace('_', ' ')}: "
            rows += [
                _effect(f"{kind}{label}", post.flat(name)[:, i]) for i, label in enumerate(labels)
            ]
    if "noise_precision" in post and post["noise_precision"].ndim == 2:
        rows.append(
            _effect("standard deviation of the noise", post.flat("noise_precision") ** -0.5)
        )
    if not rows:
        return None
    return {"rows": rows[:_MOST_EFFECTS], "n": len(rows), "n_shown": min(len(rows), _MOST_EFFECTS)}


def _effect(name: str, draws: Array) -> dict[str, Any]:
    ends = np.quantile(draws, [0.025, 0.5, 0.975]).tolist()
    return {"name": name, **estimate(dict(zip(("low", "median", "high"), ends, strict=True)))}


def curves_section(
    post: Posterior, about: AboutAnswers, profiles: list[Profile], looks: list[dict[str, str]]
) -> dict[str, Any] | None:
    """Predicted outcomes of the members of each role along each column, the others at their means;
    None without columns."""
    names = about.parts(post.latent_names)
    columns = [column for column in about.columns if column.high > column.low][:_MOST_CURVES]
    if (
        "latent" not in post
        or not columns
        or not {column.name for column in about.columns} <= set(names)
    ):
        return None
    curves = _RoleCurves(post, about, names)
    panels = [
        Curves(column.name, curves.grid(column), curves.bands(column, profiles[:_MOST_ROLES]))
        for column in columns
    ]
    label = {
        "binary": f"probability of {about.outcome}",
        "choices": "probability against an average item",
    }
    label |= {"ordinal": f"expected {about.outcome}", "rankings": "utility above an average item"}
    label["survival"] = f"typical {about.outcome}"
    label |= {"counts": f"rate of {about.outcome}"}
    if curves.is_logarithmic:
        label["regression"] = f"typical {about.outcome}"
    picture = pictures.curves(
        panels, label.get(about.kind, about.outcome), [look["color"] for look in looks]
    )
    shown = min(len(profiles), _MOST_ROLES)
    return {
        "picture": picture,
        "n_columns": len(columns),
        "n_roles": shown,
        "choices": about.kind in _OF_ITEMS,
    }


class _RoleCurves:
    """Expected outcomes of the members of roles along columns."""

    def __init__(self, post: Posterior, about: AboutAnswers, names: list[str]) -> None:
        self._post, self._about, self._names = post, about, names
        self._draws = post.flat("latent").reshape(-1, post.n_users, len(names))
        self._means = {column.name: column.mean for column in about.columns}
        self._common = np.zeros((len(self._draws), 1))  # what common columns add at their means
        if about.common and about.kind not in _OF_ITEMS:
            self._common = (post.flat("coefficients") @ [column.mean for column in about.common])[
                :, None
            ]

    @property
    def is_logarithmic(self) -> bool:
        """Whether locations are log1p of outcomes, which are counts."""
        recorded = getattr(self._post.behavior, "recorded", None)
        return recorded is not None and bool(recorded.is_logarithmic)

    def grid(self, along: Range) -> Array:
        return np.linspace(along.low, along.high, _POINTS)

    def bands(self, along: Range, profiles: list[Profile]) -> list[Band]:
        """Median and 95 % interval of the members' mean outcome, role by role."""
        # An intercept is 1.
        design = np.tile([self._means.get(name, 1.0) for name in self._names], (_POINTS, 1))
        design[:, self._names.index(along.name)] = self.grid(along)
        if self._about.kind in _OF_ITEMS:
            design = design - np.array([self._means[name] for name in self._names])
        found = []
        for item in profiles:
            total = np.zeros((len(self._draws), _POINTS))
            for user in item.users:
                total += self._expected(self._draws[:, user] @ design.T + self._common)
            low, median, high = np.quantile(total / len(item.users), [0.025, 0.5, 0.975], axis=0)
            found.append(Band(low, median, high))
        return found

    def _expected(self, locations: Array) -> Array:
        """Expected outcomes given their locations, (S, points)."""
        if self.is_logarithmic:
            return np.expm1(locations)
        if self._about.kind == "survival":
            return np.exp(locations)
        if self._about.kind in ("regression", "rankings"):
            return locations
        if self._about.kind == "counts":
            return np.asarray(np.exp(locations))
        if self._about.kind != "ordinal":
            return np.asarray(expit(locations))
        behavior: Any = self._post.behavior
        values = behavior.levels.values
        below = expit(self._post.flat("cut_points")[:, None] - locations[..., None])
        return np.asarray(values[-1] - below @ np.diff(values))

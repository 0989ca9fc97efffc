"""Roles: the clusters of a fit described in plain units, with the power of their members."""

from typing import Any

import numpy as np
import pandas as pd

from dualview.forum.activity import MEANINGS
from dualview.forum.data import ForumData
from dualview.mixture import DualViewMixture
from dualview.words.clusters import Summary


def describe_roles(
    data: ForumData, model: DualViewMixture, summary: Summary
) -> list[dict[str, Any]]:
    """A dictionary per cluster of a summary, from the largest: size, profile in plain units,
    typical members, catalytic power."""
    post = model.posterior_
    latent = post.flat("latent")
    everybody = latent.mean(axis=1)
    ranks = data.activity.rank(pct=True)
    found = []
    for cluster in summary["clusters"]:
        members = np.flatnonzero(model.labels_ == cluster["cluster"])
        power = latent[:, members].mean(axis=1)
        found.append(
            {
                "role": cluster["cluster"],
                "label": cluster["name"],
                "size": cluster["size"],
                "share": cluster["share"],
                "typical_users": cluster["typical_users"],
                "membership": cluster["certainty"],
                "power": _with_interval(power),
                "power_beside_the_average": _with_interval(power - everybody),
                "probability_above_average": float(np.mean(power > everybody)),
                "factor": _with_interval(np.exp(power)) if data.options.logarithm else None,
                "profile": _profile(data.activity.iloc[members], ranks.iloc[members]),
            }
        )
    return found


def _profile(activity: pd.DataFrame, ranks: pd.DataFrame) -> dict[str, dict[str, Any]]:
    profile = {}
    for name in activity:
        low, middle, high = np.quantile(activity[name], [0.25, 0.5, 0.75])
        profile[str(name)] = {
            "meaning": MEANINGS[str(name)],
            "median": float(middle),
            "quartiles": [float(low), float(high)],
            "mean": float(activity[name].mean()),
            "rank": float(ranks[name].median()),
        }
    return profile


def _with_interval(draws: Any) -> dict[str, float]:
    low, median, high = np.quantile(draws, [0.025, 0.5, 0.975])
    return {"median": float(median), "low": float(low), "high": float(high)}


def roles_text(found: list[dict[str, Any]], logarithm: bool) -> str:
    lines = []
    for role in found:
        power = role["factor"] if logarithm else role["power"]
        effect = f"{power['median']:.3f} ({power['low']:.3f} to {power['high']:.3f})"
        words = f"multiplies the outcome by {effect}" if logarithm else f"adds {effect}"
        lines.append(
            f"  role {role['role']}: {role['size']} users, {role['label']}; an early member {words}"
        )
    return "\n".join(lines)

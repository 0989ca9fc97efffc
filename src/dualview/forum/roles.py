"""Roles: the clusters of a fit described in plain units, with the power of their members."""

from typing import Any

import numpy as np
import pandas as pd

from dualview.forum.activity import MEANINGS
from dualview.forum.data import ForumData
from dualview.mixture import DualViewMixture

_TYPICAL = 5
_STANDS_OUT = 0.2  # from the middle rank, 0.5, of all users


def describe_roles(data: ForumData, model: DualViewMixture) -> list[dict[str, Any]]:
    """A dictionary per cluster, from the largest: size, profile in plain units, typical members,
    catalytic power."""
    post = model.posterior_
    membership = post.partition_estimate().membership
    latent = post.flat("latent")
    everybody = latent.mean(axis=1)
    ranks = data.activity.rank(pct=True)
    found = []
    for cluster in range(model.n_clusters_):
        members = np.flatnonzero(model.labels_ == cluster)
        power = latent[:, members].mean(axis=1)
        profile = _profile(data.activity.iloc[members], ranks.iloc[members])
        typical = members[np.argsort(-membership[members], kind="stable")][:_TYPICAL]
        found.append(
            {
                "role": cluster,
                "label": _label(profile),
                "size": len(members),
                "share": len(members) / post.n_users,
                "typical_users": [post.user_ids[u] for u in typical],
                "membership": float(membership[members].mean()),
                "power": _with_interval(power),
                "power_beside_the_average": _with_interval(power - everybody),
                "probability_above_average": float(np.mean(power > everybody)),
                "factor": _with_interval(np.exp(power)) if data.options.logarithm else None,
                "profile": profile,
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


def _label(profile: dict[str, dict[str, Any]]) -> str:
    """The one or two ways in which the role stands out most, such as 'many posts, low
    share_early'."""
    by_distance = sorted(profile, key=lambda name: -abs(profile[name]["rank"] - 0.5))
    out = [name for name in by_distance if abs(profile[name]["rank"] - 0.5) >= _STANDS_OUT][:2]
    words = [f"{'high' if profile[name]['rank'] > 0.5 else 'low'} {name}" for name in out]
    return ", ".join(words) or "average"


def _with_interval(draws: Any) -> dict[str, float]:
    low, median, high = np.quantile(draws, [0.025, 0.5, 0.975])
    return {"median": float(median), "low": float(low), "high": float(high)}


def roles_text(found: list[dict[str, Any]], logarithm: bool) -> str:
    """A line per role."""
    lines = []
    for role in found:
        power = role["factor"] if logarithm else role["power"]
        effect = f"{power['median']:.3f} ({power['low']:.3f} to {power['high']:.3f})"
        words = f"multiplies the outcome by {effect}" if logarithm else f"adds {effect}"
        lines.append(
            f"  role {role['role']}: {role['size']} users, {role['label']}; an early member {words}"
        )
    return "\n".join(lines)

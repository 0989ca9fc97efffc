"""Scalars that do not depend on how clusters are numbered, for diagnostics and traces."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]
Pairs = list[tuple[int, int]]


def anchor_pairs(z: NDArray[np.integer], n_pairs: int = 4, n_looked_at: int = 200) -> Pairs:
    """Pairs of users whose being together is least certain, from up to n_looked_at users, no user
    twice."""
    users = np.unique(np.linspace(0, z.shape[1] - 1, min(z.shape[1], n_looked_at)).astype(int))
    sample = z[:: max(1, len(z) // 500)][:, users]
    together = np.mean([np.equal.outer(draw, draw) for draw in sample], axis=0)
    doubt = np.triu(0.25 - (together - 0.5) ** 2, 1)
    pairs: Pairs = []
    for _ in range(min(n_pairs, len(users) // 2)):
        i, j = np.unravel_index(int(np.argmax(doubt)), doubt.shape)
        pairs.append((int(users[i]), int(users[j])))
        for taken in (i, j):
            doubt[taken, :] = doubt[:, taken] = -1.0
    return pairs


def scalars(post: "FitFacts", n_anchors: int) -> dict[str, Array]:
    """By name, each (chain, draw): α, clusters, noise, base parameters, log joint, latent
    coefficients, pairs together."""
    anchored = _some_of(post, "features.cells", n_anchors)
    for name in post.names:
        if _own_name(name) == "group_effects":
            anchored |= _some_of(post, name, n_anchors)
    parts = post.latent_names if "latent" in post else []
    z, latent, places = _users(post)
    ids = post.user_ids
    of_users = _of_users(z, latent, [ids[place] for place in places], n_anchors, parts)
    return _common(post) | anchored | of_users | _of_agreement(post)


def _own_name(name: str) -> str:
    """A name without that of a view or behavior before it."""
    return name.split(".")[-1]


def _of_agreement(post: "FitFacts") -> dict[str, Array]:
    """The share of users who agree, and whether users act alike who do so in some draws only;
    nothing where all agree."""
    if "agrees" not in post or post.summary is not None:
        return {}
    agrees = post["agrees"].mean(axis=-1)
    if "z_behavior" not in post:
        names = () if post.spec.layout is None else post.spec.layout.names
        return {
            f"share of users who agree by {name}": agrees[..., t] for t, name in enumerate(names)
        }
    acts, ids = post["z_behavior"], post.user_ids
    result = {"share of users who agree": agrees}
    for i, j in anchor_pairs(acts.reshape(-1, acts.shape[2])):
        together = (acts[..., i] == acts[..., j]).astype(float)
        if np.ptp(together) > 0:
            result[f"users {ids[i]} and {ids[j]} act alike"] = together
    return result


def _users(post: "FitFacts") -> tuple[NDArray[np.integer], Array | None, NDArray[np.integer]]:
    """Clusters (chain, draw, user), latent vectors (chain, draw, user, q) or None, and which users:
    of a summary, some."""
    summary = post.summary
    if summary is not None and "z" in summary:
        z, places = summary["z"].values, summary["anchor"].values
        latent = summary["latent"].values if "latent" in summary else None
    else:
        z, places = post["z"], np.arange(post["z"].shape[2])
        latent = np.asarray(post["latent"]) if "latent" in post else None
    return z, None if latent is None else latent.reshape(*z.shape, -1), places


def _of_users(
    z: NDArray[np.integer],
    latent: Array | None,
    ids: list[str],
    n_anchors: int,
    parts: list[str],
) -> dict[str, Array]:
    """Latent coefficients of all users on average and of some, part by part, and whether users are
    together who are so in some draws only; users are called by their ids."""
    result: dict[str, Array] = {}
    if latent is not None:
        means, single = latent.mean(axis=2), len(parts) == 1
        result |= {
            "mean latent" if single else f"mean latent[{part}]": means[..., d]
            for d, part in enumerate(parts)
        }
        for i in np.unique(np.linspace(0, len(ids) - 1, min(len(ids), n_anchors)).astype(int)):
            for d, part in enumerate(parts):
                name = f"latent[{ids[i]}]" if single else f"latent[{ids[i]}, {part}]"
                result[name] = latent[:, :, i, d]
    for i, j in anchor_pairs(z.reshape(-1, z.shape[2])):
        together = (z[..., i] == z[..., j]).astype(float)
        if np.ptp(together) > 0:
            result[f"users {ids[i]} and {ids[j]} together"] = together
    return result


def _some_of(post: "FitFacts", name: str, n_anchors: int) -> dict[str, Array]:
    """Some of many numbers, spread evenly; none of a summary, which has no draw of them for most
    iterations."""
    if name not in post or post.summary is not None:
        return {}
    drawn = post[name]
    chosen = np.unique(
        np.linspace(0, drawn.shape[2] - 1, min(drawn.shape[2], n_anchors)).astype(int)
    )
    return {f"{name}[{i}]": drawn[..., i] for i in chosen}


def _common(post: "FitFacts") -> dict[str, Array]:
    """What all users have in common."""
    result: dict[str, Array] = {}
    skipped = {"z", "z_behavior", "z_tables", "agrees", "latent", "features.cells"}
    logarithms = {
        "alpha",
        "noise_precision",
        "typical_noise_precision",
        "degrees_of_freedom",
        "slope_precision",
    }
    logarithms |= {"base_dof", "base_precision", "base_covariance"}
    summary = post.summary
    for name in post.names:
        if (
            name in skipped
            or _own_name(name) == "group_effects"
            or (summary is not None and name not in summary)
        ):
            continue
        values = np.asarray(post[name] if summary is None else summary[name].values, dtype=float)
        if values.ndim == 2 and _own_name(name) in logarithms:
            result[f"log {name}"] = np.log(values)
        elif values.ndim == 2:
            result[name] = values
        elif name == "slopes" and values.ndim == 4:
            flat = values.reshape(*values.shape[:2], -1)
            result |= {
                f"{name}[{i // values.shape[3]}, {i % values.shape[3]}]": flat[..., i]
                for i in range(flat.shape[2])
            }
        elif _own_name(name) == "noise_precision":  # of each user, or of its cluster
            result[f"mean log {name}"] = np.log(values).mean(axis=2)
        elif _own_name(name) in ("group_sd", "base_dof"):
            result |= {f"log {name}[{i}]": np.log(values[..., i]) for i in range(values.shape[2])}
        elif values.ndim == 3:
            result |= {f"{name}[{i}]": values[..., i] for i in range(values.shape[2])}
        else:
            result |= {
                f"log {name}[{i}]": np.log(values[..., i, i])
                for i in range(values.shape[2])
                if np.all(values[..., i, i] > 0)
            }
    for name in ("n_clusters", "log alpha"):  # where they are known
        if name in result and np.ptp(result[name]) == 0:
            del result[name]
    return result

"""Scalars that do not depend on how clusters are numbered, for diagnostics and traces, and what
each of them is of: predictions, roles, or parameters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]
Pairs = list[tuple[int, int]]
Group = Literal["predictions", "roles", "parameters"]

_PARAMETERS = {  # on which outcomes of known users do not depend, given their latent coefficients
    "n_clusters",
    "alpha",
    "discount",
    "log_joint",
    "agreement",
    "base_mean",
    "base_dof",
    "tail_dof",
    "base_precision",
    "base_covariance",
    "concentrations",
    "group_sd",
    "slopes",
    "slope_precision",
    "typical_noise_precision",
}
_BY_USER = {"z", "z_behavior", "z_tables", "agrees", "latent"}
_N_DOUBTFUL, _N_DOUBTFUL_PAIRS = 20, 10
_NEARLY = 0.05  # the error that a probability can have of which nothing is asked
_MOST_COEFFICIENTS, _MOST_USERS = 2000, 200  # among which these are looked for
_DRAWS = 4000  # about, of all chains together
_LEAST_DRAWS = 100  # of each chain


def group_of(name: str) -> Group:
    """What a scalar is of. One whose name says nothing is of the predictions, which then settle
    later rather than sooner."""
    if name.startswith(("users ", "share of users ")):
        return "roles"
    own = _own_name(name.removeprefix("mean ").removeprefix("log ").split("[")[0])
    return "parameters" if own in _PARAMETERS else "predictions"


def anchor_pairs(z: NDArray[np.integer], n_pairs: int = 4) -> Pairs:
    """Pairs of users whose being together is least certain in draws (draw, user), from up to 200
    users, no user twice."""
    users = _spread_evenly(z.shape[1], _MOST_USERS)
    together = _share_together(z[:: max(1, len(z) // 500)][:, users])
    return _first_pairs(users, 0.25 - (together - 0.5) ** 2, n_pairs)


def _doubtful_pairs(z: NDArray[np.integer]) -> Pairs:
    """Pairs of users whose half chains differ most in how often they are together in draws (chain,
    draw, user), from up to 200 users, no user twice; of pairs that are neither nearly always
    together nor nearly never."""
    users = _spread_evenly(z.shape[2], _MOST_USERS)
    halves = _halves(z[:, :: _stride(z, 1000)][:, :, users])
    shares = np.array([_share_together(half) for half in halves])
    together = shares.mean(axis=0)
    unsure = (together > _NEARLY) & (together < 1.0 - _NEARLY)
    return _first_pairs(users, np.where(unsure, shares.var(axis=0), 0.0), _N_DOUBTFUL_PAIRS)


def _share_together(z: NDArray[np.integer]) -> Array:
    """Share of the draws (draw, user) in which two users are together, for all pairs."""
    times = np.zeros((z.shape[1], z.shape[1]))
    for draw in z:
        times += np.equal.outer(draw, draw)
    return times / len(z)


def _first_pairs(users: NDArray[np.integer], doubt: Array, n_pairs: int) -> Pairs:
    """The pairs of users with the largest doubt (users, users), if it is any, no user twice."""
    doubt = np.triu(doubt, 1)
    pairs: Pairs = []
    for _ in range(min(n_pairs, len(users) // 2)):
        i, j = np.unravel_index(int(np.argmax(doubt)), doubt.shape)
        if doubt[i, j] <= 0.0:
            break
        pairs.append((int(users[i]), int(users[j])))
        for taken in (i, j):
            doubt[taken, :] = doubt[:, taken] = -1.0
    return pairs


def _spread_evenly(n: int, most: int) -> NDArray[np.integer]:
    """At most this many of the positions 0 to n − 1, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _stride(drawn: NDArray[Any], wanted: int) -> int:
    """Every how many draws of each chain (chain, draw, …) make about as many as are wanted."""
    n_chains, n_draws = drawn.shape[:2]
    return max(1, int(n_draws // max(_LEAST_DRAWS, wanted // n_chains)))


def _halves(drawn: NDArray[Any]) -> NDArray[Any]:
    """The halves of chains (chain, draw, …), as twice as many chains."""
    n = drawn.shape[1] // 2
    return np.concatenate([drawn[:, :n], drawn[:, n : 2 * n]])


def scalars(post: "FitFacts", n_anchors: int) -> dict[str, Array]:
    """By name, each (chain, draw): α, clusters, noise, base parameters, log joint, latent
    coefficients, pairs together."""
    anchored = _some_of(post, "features.cells", n_anchors)
    for name in post.names:
        if _own_name(name) == "group_effects":
            anchored |= _some_of(post, name, n_anchors)
    parts = post.latent_names if "latent" in post else []
    return (
        _common(post) | anchored | _of_users(*_users(post), n_anchors, parts) | _of_agreement(post)
    )


def doubtful_scalars(post: "FitFacts", of: Group) -> dict[str, Array]:
    """Scalars of the predictions or of the roles by name, each (chain, draw): of all users, or of
    very many, those whose half chains differ most. Draws are thinned to some thousands."""
    z, latent, ids = _users(post)
    stride = _stride(z, _DRAWS)
    if of == "roles":
        found = _of_pairs(z[:, ::stride], _doubtful_pairs(z), ids, "together")
        if "z_behavior" in post and post.summary is None:
            acts = post["z_behavior"]
            found |= _of_pairs(acts[:, ::stride], _doubtful_pairs(acts), ids, "act alike")
        return found
    found = {}
    if latent is not None:
        parts = post.latent_names
        users = _spread_evenly(len(ids), max(1, _MOST_COEFFICIENTS // len(parts)))
        drawn = latent[:, ::stride][:, :, users].reshape(*z[:, ::stride].shape[:2], -1)
        names = [_latent_name(ids[i], part, parts) for i in users for part in parts]
        found |= {names[j]: drawn[..., j] for j in _doubtful_columns(drawn)}
    for name in post.names if post.summary is None else ():
        if name not in _BY_USER and group_of(name) == "predictions" and post[name].ndim == 3:
            chosen = _spread_evenly(post[name].shape[2], _MOST_COEFFICIENTS)
            drawn = post[name][:, ::stride][:, :, chosen]
            found |= {f"{name}[{chosen[j]}]": drawn[..., j] for j in _doubtful_columns(drawn)}
    return found


def _doubtful_columns(drawn: Array) -> list[int]:
    """Columns of draws (chain, draw, n) whose half chains differ most in how often they are above
    the median of all, or of a tenth of all, which is as good."""
    above = drawn > np.median(drawn[:, ::10], axis=(0, 1))
    spread = _halves(above).astype(float).mean(axis=1).var(axis=0)
    return [int(j) for j in np.argsort(-spread, kind="stable")[:_N_DOUBTFUL]]


def _latent_name(user: str, part: str, parts: Sequence[str]) -> str:
    """Of one of the parts of a user's latent vector."""
    return f"latent[{user}]" if len(parts) == 1 else f"latent[{user}, {part}]"


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
    acts = post["z_behavior"]
    pairs = anchor_pairs(acts.reshape(-1, acts.shape[2]))
    together = _of_pairs(acts, pairs, post.user_ids, "act alike")
    return {"share of users who agree": agrees} | together


def _users(post: "FitFacts") -> tuple[NDArray[np.integer], Array | None, list[str]]:
    """Clusters (chain, draw, user), latent vectors (chain, draw, user, q) or None, and the ids of
    these users: of a summary, some."""
    summary, ids = post.summary, post.user_ids
    if summary is not None and "z" in summary:
        z, ids = summary["z"].values, [ids[user] for user in summary["anchor"].values]
        latent = summary["latent"].values if "latent" in summary else None
    else:
        z = post["z"]
        latent = np.asarray(post["latent"]) if "latent" in post else None
    return z, None if latent is None else latent.reshape(*z.shape, -1), ids


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
        for i in _spread_evenly(len(ids), n_anchors):
            for d, part in enumerate(parts):
                result[_latent_name(ids[i], part, parts)] = latent[:, :, i, d]
    return result | _of_pairs(z, anchor_pairs(z.reshape(-1, z.shape[2])), ids, "together")


def _of_pairs(
    z: NDArray[np.integer], pairs: Pairs, ids: Sequence[str], what: str
) -> dict[str, Array]:
    """Whether pairs of users have the same cluster who have it in some draws only."""
    found = {}
    for i, j in pairs:
        together = (z[..., i] == z[..., j]).astype(float)
        if np.ptp(together) > 0:
            found[f"users {ids[i]} and {ids[j]} {what}"] = together
    return found


def _some_of(post: "FitFacts", name: str, n_anchors: int) -> dict[str, Array]:
    """Some of many numbers, spread evenly; none of a summary, which has no draw of them for most
    iterations."""
    if name not in post or post.summary is not None:
        return {}
    drawn = post[name]
    return {f"{name}[{i}]": drawn[..., i] for i in _spread_evenly(drawn.shape[2], n_anchors)}


def _common(post: "FitFacts") -> dict[str, Array]:
    """What all users have in common."""
    result: dict[str, Array] = {}
    skipped = {*_BY_USER, "features.cells"}
    logarithms = {
        "alpha",
        "noise_precision",
        "typical_noise_precision",
        "degrees_of_freedom",
        "slope_precision",
    }
    logarithms |= {"base_dof", "tail_dof", "base_precision", "base_covariance"}
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
        elif _own_name(name) in ("group_sd", "base_dof", "tail_dof"):
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

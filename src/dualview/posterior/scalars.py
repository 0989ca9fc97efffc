"""Scalars that mean the same however clusters are numbered: what diagnostics and traces look at."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]
Pairs = list[tuple[int, int]]


def anchor_pairs(z: NDArray[np.integer], n_pairs: int = 4, n_looked_at: int = 200) -> Pairs:
    """Pairs of users whose being together is least certain, from up to n_looked_at users, no user twice."""
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


def scalars(post: "Posterior", pairs: Pairs, n_anchors: int) -> dict[str, Array]:
    """By name, each (chain, draw): α, clusters, noise, base parameters, log joint, latent coefficients, pairs together."""
    result: dict[str, Array] = {}
    skipped = {"z", "latent"}
    logarithms = {"alpha", "noise_precision", "slope_precision", "base_dof", "base_precision", "base_covariance"}
    summary = post.summary
    for name in post.names:
        if name in skipped or (summary is not None and name not in summary):
            continue
        values = np.asarray(post[name] if summary is None else summary[name].values, dtype=float)
        if values.ndim == 2 and name.split(".")[-1] in logarithms:
            result[f"log {name}"] = np.log(values)
        elif values.ndim == 2:
            result[name] = values
        elif name == "slopes" and values.ndim == 4:
            flat = values.reshape(*values.shape[:2], -1)
            result |= {f"{name}[{i // values.shape[3]}, {i % values.shape[3]}]": flat[..., i] for i in range(flat.shape[2])}
        elif name == "noise_precision":  # of each user's cluster
            result[f"mean log {name}"] = np.log(values).mean(axis=2)
        elif values.ndim == 3:
            result |= {f"{name}[{i}]": values[..., i] for i in range(values.shape[2])}
        else:
            result |= {
                f"log {name}[{i}]": np.log(values[..., i, i]) for i in range(values.shape[2]) if np.all(values[..., i, i] > 0)
            }
    for name in ("n_clusters", "log alpha"):  # where they are known
        if name in result and np.ptp(result[name]) == 0:
            del result[name]
    if "latent" in post:
        latent = post["latent"].reshape(post.n_chains, post.n_draws, post.n_users, -1)
        result["mean latent"] = latent.mean(axis=(2, 3))
        for u in np.unique(np.linspace(0, post.n_users - 1, min(post.n_users, n_anchors)).astype(int)):
            for d in range(latent.shape[3]):
                result[f"latent[{u}]" if latent.shape[3] == 1 else f"latent[{u}, {d}]"] = latent[:, :, u, d]
    z = post["z"]
    for i, j in pairs:
        together = (z[..., i] == z[..., j]).astype(float)
        if np.ptp(together) > 0:
            result[f"users {i} and {j} together"] = together
    return result

"""What observations of several behaviors say of a new user's latent vector, in which every behavior
has a block."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.vector_blocks import Block
from dualview.behaviors.records import Array, Evidence, SampledEvidence


def nothing_known(n_users: int, n_dims: int) -> Evidence:
    """Of users without observations."""
    return Evidence(
        np.zeros((1, n_users)),
        np.zeros((1, n_users, n_dims)),
        np.zeros((1, n_users, n_dims, n_dims)),
    )


def joint_evidence(
    parts: Sequence[Evidence | SampledEvidence], blocks: Sequence[Block]
) -> Evidence | SampledEvidence:
    """Log likelihoods add up. They are a quadratic where all of them are."""
    quadratic = [part for part in parts if isinstance(part, Evidence)]
    if len(quadratic) == len(parts):
        return _sum(quadratic, blocks)

    def log_likelihood(j: int, draws: NDArray[np.intp], latent: Array) -> Array:
        total = np.zeros(len(latent))
        for part, block in zip(parts, blocks, strict=True):
            own = block.of(latent)
            total += (
                _value(part, j, draws, own)
                if isinstance(part, Evidence)
                else part.log_likelihood(j, draws, own)
            )
        return total

    return SampledEvidence(log_likelihood)


def _value(part: Evidence, user: int, draws: NDArray[np.intp], latent: Array) -> Array:
    """Of one user, given vectors (R, q) in some draws (R,)."""
    constant, linear, precision = part.of_draws(draws, slice(user, user + 1))[:3]
    bent = (precision[:, 0] @ latent[..., None])[..., 0]
    return np.asarray(constant[:, 0] + ((linear[:, 0] - 0.5 * bent) * latent).sum(axis=1))


def _sum(parts: Sequence[Evidence], blocks: Sequence[Block]) -> Evidence:
    n_draws = max(len(values) for part in parts for values in part[:3])
    n_users, n_dims = parts[0].linear.shape[1], sum(len(block.own) for block in blocks)
    constant, linear = np.zeros((n_draws, n_users)), np.zeros((n_draws, n_users, n_dims))
    precision = np.zeros((n_draws, n_users, n_dims, n_dims))
    for part, block in zip(parts, blocks, strict=True):
        constant += part.constant
        linear[..., block.own] = part.linear
        precision[..., block.own[:, None], block.own] = part.precision
    return Evidence(constant, linear, precision)

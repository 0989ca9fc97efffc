"""Blocks of latent vectors: the distribution of some numbers of a vector given the others.

A vector has q numbers, a block q_b of them and the rest q_o = q − q_b. For f ~ N(μ, S⁻¹) the block
given the rest is N(μ_b + B (f_o − μ_o), S_bb⁻¹) with B = −S_bb⁻¹ S_bo.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.records import Array, LatentPrior, Prior

Places = NDArray[np.intp]


class Block(NamedTuple):
    """Positions of the numbers of a block in a vector, and of the rest."""

    own: Places
    rest: Places

    @classmethod
    def all_of(cls, sizes: list[int]) -> "list[Block]":
        """The blocks of a vector that is made up of blocks with these sizes, one after the
        other."""
        ends = np.cumsum([0, *sizes])
        every = np.arange(ends[-1])
        return [cls(every[a:b], np.concatenate([every[:a], every[b:]])) for a, b in pairwise(ends)]

    def of(self, vectors: Array) -> Array:
        """The block of vectors (…, q), (…, q_b)."""
        return np.ascontiguousarray(vectors[..., self.own])


def follow(precisions: Array, block: Block) -> Array:
    """B of precisions (…, q, q): how the mean of a block follows the rest, (…, q_b, q_o)."""
    rows = precisions[..., block.own, :]
    return np.asarray(-np.linalg.solve(rows[..., block.own], rows[..., block.rest]))


def block_factors(factors: Array, block: Block) -> tuple[Array, Array]:
    """Upper factors (K, q_b, q_b) of S_bb and B (K, q_b, q_o), from factors T (K, q, q) of S = T
    Tᵀ.

    Rotations, which lose no digits, take the rows of T, the rest's first, to an upper triangle U.
    Its last block is a factor of S_bb, and B solves U_bbᵀ B = −U_obᵀ.
    """
    order, n_rest = np.concatenate([block.rest, block.own]), len(block.rest)
    flipped = factors[:, order[::-1]]
    lower = np.swapaxes(np.linalg.qr(np.swapaxes(flipped, -1, -2), mode="r"), -1, -2)
    upper = lower[:, ::-1, ::-1]
    upper = upper * np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)[:, None, :]
    own, beside = upper[:, n_rest:, n_rest:], upper[:, :n_rest, n_rest:]
    follows = -np.linalg.solve(np.swapaxes(own, -1, -2), np.swapaxes(beside, -1, -2))
    return np.ascontiguousarray(own), np.asarray(follows)


def block_prior(prior: Prior, block: Block, latent: Array) -> Prior:
    """The prior of a block of all users' vectors given the rest of latent (U, q). The users have a
    vector each."""
    factors, follows = block_factors(prior.factors, block)
    shift = np.zeros_like(latent) if prior.shift is None else prior.shift
    away = (latent - prior.means[prior.z] - shift)[:, block.rest]
    moved = block.of(shift) + (follows[prior.z] @ away[..., None])[..., 0]
    return Prior(prior.z, block.of(prior.means), factors, False, moved)


def block_locations(locations: Locations, block: Block) -> Locations:
    """Where clusters are in a block, and what pulls them there, given the rest of their means.

    The prior of the means given the rest has a centre for each cluster; what stands for a mean is
    how far it is from there.
    """
    mean, precision = locations.base_mean, locations.base_precision
    away = (locations.means - mean)[:, block.rest]
    means = block.of(locations.means) - away @ follow(precision, block).T
    own = np.ascontiguousarray(precision[np.ix_(block.own, block.own)])
    return Locations(locations.z, np.ascontiguousarray(means), block.of(mean), own)


def block_latent_prior(prior: LatentPrior, block: Block, latent: Array) -> LatentPrior:
    """The prior of a block of all users' vectors in one draw, given the rest of the clusters' means
    and of latent (U, q)."""
    assert prior.precisions is not None
    offsets = (prior.means - prior.base_mean)[:, block.rest] @ follow(prior.base_precision, block).T
    away = (latent - prior.means[prior.z] - prior.shift)[:, block.rest]
    follows = follow(prior.precisions, block)
    shift = block.of(prior.shift) + offsets[prior.z] + (follows[prior.z] @ away[..., None])[..., 0]
    own = np.ix_(block.own, block.own)
    return LatentPrior(
        prior.z,
        block.of(prior.means) - offsets,
        np.ascontiguousarray(prior.precisions[:, block.own][..., block.own]),
        block.of(prior.base_mean),
        np.ascontiguousarray(prior.base_precision[own]),
        shift,
    )

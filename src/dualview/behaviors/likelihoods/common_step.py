"""Common coefficients together with the vectors that make up for them, for rows whose density is
known but not normal.

Given the vectors f, common coefficients γ hardly move where a column of theirs is nearly what the
design of the vectors makes up: a column far from 0 and an intercept. So γ moves with g_o = f_o +
L_o γ held for every owner o of a vector, by the Metropolis step of ``metropolis``:

    p(γ | g, rest) ∝ N(γ; 0, I) Π_o N(g_o − L_o γ; μ_o, S_o⁻¹) Π_i p(y_i | … + (c_i − x_iᵀ L_o) γ),

and f_o = g_o − L_o γ afterwards. The map from (γ, f) to (γ, g) has the Jacobian 1. L_o is that of a
ridge regression of c on x among the rows of o, which depends on nothing that moves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods import metropolis
from dualview.behaviors.likelihoods.metropolis import RowDensity, Target
from dualview.behaviors.records import Array, Prior
from dualview.numerics.messages import Terms


class CommonStep(NamedTuple):
    """A step of γ (C,): L (O, q, C), the design that is left (n, C), the vectors f (O, q), the
    owner of every user (U,), and what is moved by: the rows' density and the prior of f."""

    follow: Array
    left: Array
    vectors: Array
    owner: NDArray[np.int64]
    density: RowDensity
    means: Array
    precisions: Array

    @classmethod
    def of(
        cls, columns: Array, density: RowDensity, terms: Terms, prior: Prior, latent: Array
    ) -> "CommonStep":
        """columns (n, C): those of γ. latent (U, q): users' vectors without what is added to
        them."""
        n_users, n = len(latent), len(columns)
        user, loads = np.empty(n, dtype=np.int64), np.empty((n, latent.shape[1]))
        user[terms.rows] = np.repeat(np.arange(n_users), np.diff(terms.starts))
        loads[terms.rows] = terms.loads
        owner = prior.z if prior.pooled else np.arange(n_users)
        which = slice(None) if prior.pooled else prior.z
        factors = prior.factors[which]
        means, precisions = prior.means[which], factors @ np.swapaxes(factors, 1, 2)
        squares, cross = precisions.copy(), np.zeros((*means.shape, columns.shape[1]))
        np.add.at(squares, owner[user], loads[:, :, None] * loads[:, None, :])
        np.add.at(cross, owner[user], loads[:, :, None] * columns[:, None, :])
        follow = np.asarray(np.linalg.solve(squares, cross), dtype=float)
        left = columns - np.einsum("nq,nqc->nc", loads, follow[owner[user]])
        vectors = means.copy()
        vectors[owner] = latent
        return cls(follow, left, vectors, owner, density, means, precisions)

    def target(self, common: Array) -> tuple[Target, Array]:
        """The density of γ given g, and g (O, q), where γ stands."""
        held = self.vectors + self.follow @ common
        pulls = np.swapaxes(self.follow, 1, 2) @ self.precisions
        precision = np.eye(len(common)) + (pulls @ self.follow).sum(axis=0)
        linear = (pulls @ (held - self.means)[..., None]).sum(axis=0)[:, 0]
        rest, everybody = self.density.eta - self.left @ common, np.zeros(len(self.left), np.int64)
        mean = np.linalg.solve(precision, linear)
        rows = self.left, rest, self.density.y, self.density.outcome
        return Target(mean[None], precision[None], everybody, *rows), held

    def move(self, rng: np.random.Generator, common: Array) -> tuple[Array, Array, RowDensity]:
        """γ, the users' vectors (U, q) and the rows after the step."""
        target, held = self.target(common)
        moved = metropolis.step(rng, target, common[None])[0]
        latent = (held - self.follow @ moved)[self.owner]
        return moved, latent, self.density.moved(self.left @ (moved - common))

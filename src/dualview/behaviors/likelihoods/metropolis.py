"""Latent vectors of rows whose family has no augmentation: an independence Metropolis step, once
for all such families.

The sweep knows normal observations only. So while it runs the locations of the rows are held where
they are, as if they had been observed with a tiny noise: clusters and everything else in the view
are drawn given the vectors, and vectors move only where no row looks. Then, given the clusters, all
users' vectors are drawn at once. The density of a user's vector (of a cluster's, where its users
share one) is its normal prior times the likelihood of its rows. Newton's method from the prior's
mean finds a mode m and the curvature H there, and a multivariate t distribution about m with scale
H⁻¹ makes a proposal, which does not depend on where the vector is. Its tails are heavier than those
of the target, so no place is hard to leave.

The tiny noise moves the locations by about 1e-4 of the prior's standard deviation in each sweep,
which the step afterwards forgets; what it adds to the posterior is of the order of its variance,
1e-8.
"""

from typing import NamedTuple

import numpy as np

from dualview.behaviors.families.base import Array, Outcome, Users
from dualview.behaviors.records import Prior

_HOLD = 1e8  # precision with which rows are held during a sweep
_DOF = 10.0  # of proposals
_MOST_STEPS = 20  # of Newton's method
_LONGEST = 2.0  # change of a location in one of them
_CONVERGED = 1e-6


class Observed(NamedTuple):
    """Rows: whose they are (n,), design (n, q), what else their locations hold (n,), what was
    observed, and its distribution in one draw."""

    user: Users
    design: Array
    rest: Array
    y: Array
    outcome: Outcome

    def locations(self, vectors: Array, group: Users) -> Array:
        """Given the vectors (G, q) of the rows' groups (n,)."""
        return np.asarray((self.design * vectors[group]).sum(axis=1) + self.rest)

    def log_likelihood(self, vectors: Array, group: Users) -> Array:
        """Of each group's rows, (G,)."""
        eta = self.locations(vectors, group)
        own = self.outcome.log_density(self.y, eta[None], slice(0, len(eta)))[0]
        return np.bincount(group, own, len(vectors))


def hold(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Residuals (n,) and precision (1,) of rows that a sweep leaves where they are."""
    return rng.standard_normal(n) / np.sqrt(_HOLD), np.array([_HOLD])


class Target(NamedTuple):
    """Prior of the vectors of G groups, N(means, precisions⁻¹), and the rows of each."""

    means: Array
    precisions: Array
    observed: Observed
    group: Users

    def log_density(self, vectors: Array) -> Array:
        """Up to a constant, (G,)."""
        away = vectors - self.means
        bent = np.einsum("gi,gij,gj->g", away, self.precisions, away)
        return self.observed.log_likelihood(vectors, self.group) - 0.5 * bent

    def mode(self) -> tuple[Array, Array]:
        """Modes (G, q) and curvatures there (G, q, q), by Newton steps of bounded length from the
        means."""
        vectors = self.means.copy()
        for _ in range(_MOST_STEPS):
            step = np.linalg.solve(*self._equations(vectors))[..., 0]
            moved = np.abs((self.observed.design * step[self.group]).sum(axis=1))
            longest = np.zeros(len(vectors))
            np.maximum.at(longest, self.group, moved)
            vectors = vectors + step / np.maximum(1.0, longest / _LONGEST)[:, None]
            if moved.max(initial=0.0) < _CONVERGED:
                break
        return vectors, self._equations(vectors)[0]

    def _equations(self, vectors: Array) -> tuple[Array, Array]:
        """Curvatures (G, q, q) and gradients (G, q, 1)."""
        eta = self.observed.locations(vectors, self.group)
        slope, bend = self.observed.outcome.derivatives(self.observed.y, eta)
        design, curvature = self.observed.design, self.precisions.copy()
        gradient = -np.einsum("gij,gj->gi", self.precisions, vectors - self.means)
        np.add.at(gradient, self.group, slope[:, None] * design)
        np.add.at(
            curvature, self.group, bend[:, None, None] * design[:, :, None] * design[:, None, :]
        )
        return curvature, gradient[..., None]


def redraw_vectors(
    rng: np.random.Generator, observed: Observed, prior: Prior, latent: Array
) -> Array:
    """The vectors (U, q) after one step; those of a cluster move as one where its users share
    one."""
    n_users, q = latent.shape
    groups = prior.z if prior.pooled else np.arange(n_users)
    n_groups = len(prior.means) if prior.pooled else n_users
    own = np.arange(n_groups) if prior.pooled else prior.z
    shift = np.zeros((n_users, q)) if prior.shift is None else prior.shift
    rest = observed.rest + (observed.design * shift[observed.user]).sum(axis=1)
    precisions = prior.factors @ np.swapaxes(prior.factors, 1, 2)
    target = Target(
        prior.means[own], precisions[own], observed._replace(rest=rest), groups[observed.user]
    )
    standing = np.array(prior.means[own])
    standing[groups] = latent - shift
    return _independence_step(rng, target, standing)[groups] + shift


def _independence_step(rng: np.random.Generator, target: Target, standing: Array) -> Array:
    modes, curvatures = target.mode()
    roots = np.linalg.cholesky(curvatures)
    proposed = modes + _t_noise(rng, roots)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = target.log_density(proposed) - target.log_density(standing)
        ratio += _log_t(standing - modes, roots) - _log_t(proposed - modes, roots)
    accepted = np.log1p(-rng.random(len(standing))) < np.where(np.isnan(ratio), -np.inf, ratio)
    return np.where(accepted[:, None], proposed, standing)


def _t_noise(rng: np.random.Generator, roots: Array) -> Array:
    """Draws (G, q) from multivariate t distributions with scales (R Rᵀ)⁻¹."""
    noise = rng.standard_normal((*roots.shape[:2], 1))
    normal = np.linalg.solve(np.swapaxes(roots, 1, 2), noise)[..., 0]
    return np.asarray(normal / np.sqrt(rng.chisquare(_DOF, len(roots)) / _DOF)[:, None])


def _log_t(away: Array, roots: Array) -> Array:
    """Their log densities up to a constant, (G,)."""
    squares = (np.einsum("gij,gi->gj", roots, away) ** 2).sum(axis=1)
    return np.asarray(-0.5 * (_DOF + away.shape[1]) * np.log1p(squares / _DOF))

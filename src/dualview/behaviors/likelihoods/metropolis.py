"""Latent vectors of rows whose family has no augmentation: an independence Metropolis step, once
for all such families.

The sweep knows normal observations only. So while it runs the locations of the rows are held where
they are, as if they had been observed with a tiny noise: clusters and everything else in the view
are drawn given the vectors, and vectors move only where no row looks. Then, given the clusters, all
users' vectors are drawn at once. The density of a user's vector is its normal prior times the
likelihood of its rows. Newton's method from the prior's mean finds a mode m and the curvature H
there, and a multivariate t distribution about m with scale H⁻¹ makes a proposal, which does not
depend on where the vector is. Its tails are heavier than those of the target, so no place is hard
to leave. Users who share their cluster's vector could never leave it while rows are held, so such
models need an augmentation.

The tiny noise moves the locations by about 1e-4 of the prior's standard deviation in each sweep,
which the step afterwards forgets; what it adds to the posterior is of the order of its variance,
1e-8.
"""

from typing import Any, NamedTuple

import numpy as np

from dualview.behaviors.families.base import Array, Outcome, Users

_HOLD = 1e8  # precision with which rows are held during a sweep
_DOF = 10.0  # of proposals
_MOST_STEPS = 20  # of Newton's method
_LONGEST = 2.0  # change of a location in one of them
_CONVERGED = 1e-6


class Target(NamedTuple):
    """The density of every user's vector: its prior N(means, precisions⁻¹), (U, q) and (U, q, q),
    and its rows.

    user (n,): whose they are. design (n, q). rest (n,): what else their locations hold. y: what was
    observed, with its distribution in one draw.
    """

    means: Array
    precisions: Array
    user: Users
    design: Array
    rest: Array
    y: Any
    outcome: Outcome

    def _locations(self, vectors: Array) -> Array:
        return np.asarray((self.design * vectors[self.user]).sum(axis=1) + self.rest)

    def log_density(self, vectors: Array) -> Array:
        """Of each user's vector up to a constant, (U,)."""
        away, eta = vectors - self.means, self._locations(vectors)
        rows = self.outcome.log_density(self.y, eta[None], slice(0, len(eta)))[0]
        bent = np.einsum("ui,uij,uj->u", away, self.precisions, away)
        return np.asarray(np.bincount(self.user, rows, len(vectors)) - 0.5 * bent, dtype=float)

    def mode(self) -> tuple[Array, Array]:
        """Modes (U, q) and curvatures there (U, q, q), by Newton steps of bounded length from the
        means."""
        vectors = self.means.copy()
        for _ in range(_MOST_STEPS):
            step = np.linalg.solve(*self._equations(vectors))[..., 0]
            moved = np.abs((self.design * step[self.user]).sum(axis=1))
            longest = np.zeros(len(vectors))
            np.maximum.at(longest, self.user, moved)
            vectors = vectors + step / np.maximum(1.0, longest / _LONGEST)[:, None]
            if moved.max(initial=0.0) < _CONVERGED:
                break
        return vectors, self._equations(vectors)[0]

    def _equations(self, vectors: Array) -> tuple[Array, Array]:
        """Curvatures (U, q, q) and gradients (U, q, 1)."""
        slope, bend = self.outcome.derivatives(self.y, self._locations(vectors))
        curvature = self.precisions.copy()
        gradient = -np.einsum("uij,uj->ui", self.precisions, vectors - self.means)
        np.add.at(gradient, self.user, slope[:, None] * self.design)
        squares = self.design[:, :, None] * self.design[:, None, :]
        np.add.at(curvature, self.user, bend[:, None, None] * squares)
        return curvature, gradient[..., None]


def hold(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Residuals (n,) and precision (1,) of rows that a sweep leaves where they are."""
    return rng.standard_normal(n) / np.sqrt(_HOLD), np.array([_HOLD])


def step(rng: np.random.Generator, target: Target, vectors: Array) -> Array:
    """The vectors (U, q) after one independence step."""
    modes, curvatures = target.mode()
    roots: Array = np.asarray(np.linalg.cholesky(curvatures), dtype=float)
    proposed = modes + _t_noise(rng, roots)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = target.log_density(proposed) - target.log_density(vectors)
        ratio += _log_t(vectors - modes, roots) - _log_t(proposed - modes, roots)
    accepted = np.log1p(-rng.random(len(vectors))) < np.where(np.isnan(ratio), -np.inf, ratio)
    return np.where(accepted[:, None], proposed, vectors)


def _t_noise(rng: np.random.Generator, roots: Array) -> Array:
    """Draws (U, q) from multivariate t distributions with scales (R Rᵀ)⁻¹."""
    noise = rng.standard_normal((*roots.shape[:2], 1))
    normal = np.linalg.solve(np.swapaxes(roots, 1, 2), noise)[..., 0]
    return np.asarray(normal / np.sqrt(rng.chisquare(_DOF, len(roots)) / _DOF)[:, None])


def _log_t(away: Array, roots: Array) -> Array:
    """Their log densities up to a constant, (U,)."""
    squares = (np.einsum("uij,ui->uj", roots, away) ** 2).sum(axis=1)
    return np.asarray(-0.5 * (_DOF + away.shape[1]) * np.log1p(squares / _DOF))

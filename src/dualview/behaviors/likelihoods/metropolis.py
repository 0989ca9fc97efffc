"""Rows whose family has no augmentation: an independence Metropolis step of vectors and
coefficients that their locations depend on, once for all such families.

The sweep knows normal observations only. So while it runs the locations of the rows are held where
they are, as if they had been observed with a tiny noise: clusters and everything else in the view
are drawn given the vectors, and vectors move only where no row looks. Then, given the clusters, all
users' vectors are drawn at once. The density of a user's vector is its normal prior times the
likelihood of its rows. Newton's method from the prior's mean finds a mode m and the curvature H
there, and a multivariate t distribution about m with scale H⁻¹ makes a proposal, which does not
depend on where the vector is. Its tails are heavier than those of the target, so no place is hard
to leave. Where no mode is found the proposal is about another place; the step is exact all the
same.

Whatever else locations depend on moves in the same way, given the rest: the vector that the users
of a cluster share, by the rows of all of them; coefficients and slopes that everybody shares; the
effects of the levels of a group, each by its own rows. Labels of users who share their cluster's
vector come from the density of their rows under the vector of every cluster.

The tiny noise moves a location by about 1e-4 of the prior's standard deviation, or of what its row
tells where that is less, in each sweep, which the step afterwards forgets; what it adds to the
posterior is of the order of its variance, 1e-8.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.families.base import Array, Outcome, Users

_HOLD = 1e8  # precision with which rows are held during a sweep, in units of what they tell
_MOST_TOLD = 1e8
_DOF = 10.0  # of proposals
_MOST_STEPS = 100  # of Newton's method
_MOST_HALVINGS = 40
_LONGEST = 2.0  # change of a location in the first of them; it doubles
_CONVERGED = 1e-10  # twice what is left to gain
_ROUNDING = 1e-13


class RowDensity(NamedTuple):
    """The density of rows given their locations eta (n,), in one draw; y: what was observed."""

    y: Any
    eta: Array
    outcome: Outcome

    @property
    def total(self) -> float:
        """Log density of all rows."""
        every = slice(0, len(self.eta))
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.outcome.log_density(self.y, self.eta[None], every).sum()
        return float(found) if np.isfinite(found) else -np.inf

    def moved(self, by: Array) -> "RowDensity":
        """With other locations."""
        return self._replace(eta=self.eta + by)


class Target(NamedTuple):
    """The density of every owner's vector: its prior N(means, precisions⁻¹), (O, q) and (O, q, q),
    and its rows.

    owner (n,): whose they are. design (n, q). rest (n,): what else their locations hold. y: what
    was observed, with its distribution in one draw.
    """

    means: Array
    precisions: Array
    owner: Users
    design: Array
    rest: Array
    y: Any
    outcome: Outcome

    def _locations(self, vectors: Array) -> Array:
        return np.asarray((self.design * vectors[self.owner]).sum(axis=1) + self.rest)

    def log_density(self, vectors: Array) -> Array:
        """Of each owner's vector up to a constant, (O,)."""
        away, eta = vectors - self.means, self._locations(vectors)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self.outcome.log_density(self.y, eta[None], slice(0, len(eta)))[0]
            bent = np.einsum("ui,uij,uj->u", away, self.precisions, away)
            total = np.bincount(self.owner, rows, len(vectors)) - 0.5 * bent
        return np.where(np.isnan(total), -np.inf, total)

    def mode(self) -> tuple[Array, Array]:
        """Modes (O, q) and curvatures there (O, q, q), by Newton's steps from the means: of bounded
        length, and halved until the density is no lower."""
        vectors, longest = self.means.copy(), _LONGEST
        height, equations = self.log_density(vectors), self._equations(vectors)
        for _ in range(_MOST_STEPS):
            step = np.linalg.solve(*equations)[..., 0]
            gain = (equations[1][..., 0] * step).sum(axis=1)
            if not (gain > _CONVERGED).any():
                break
            furthest = np.zeros(len(step))
            moved = np.abs((self.design * step[self.owner]).sum(axis=1))
            np.maximum.at(furthest, self.owner, moved)
            bounded = np.asarray(step / np.maximum(1.0, furthest / longest)[:, None], dtype=float)
            vectors, height = self._climbed(vectors, height, bounded)
            equations, longest = self._equations(vectors), 2.0 * longest
        return vectors, equations[0]

    def _climbed(self, vectors: Array, height: Array, step: Array) -> tuple[Array, Array]:
        """Vectors after a step, and their log densities; those that it would make less likely are
        where they were."""
        share = np.ones(len(vectors))
        for _ in range(_MOST_HALVINGS):
            ahead = self.log_density(vectors + share[:, None] * step)
            lower = ahead < height - _ROUNDING * np.abs(height)
            if not lower.any():
                break
            share = np.where(lower, 0.5 * share, share)
        share = np.where(lower, 0.0, share)
        return vectors + share[:, None] * step, np.where(lower, height, ahead)

    def _equations(self, vectors: Array) -> tuple[Array, Array]:
        """Curvatures (O, q, q), where a row that bends the other way counts as straight, and
        gradients (O, q, 1)."""
        slope, bend = self.outcome.derivatives(self.y, self._locations(vectors))
        bend = np.maximum(bend, 0.0)
        curvature = self.precisions.copy()
        gradient = -np.einsum("uij,uj->ui", self.precisions, vectors - self.means)
        np.add.at(gradient, self.owner, slope[:, None] * self.design)
        squares = self.design[:, :, None] * self.design[:, None, :]
        np.add.at(curvature, self.owner, bend[:, None, None] * squares)
        return curvature, gradient[..., None]


def hold(rng: np.random.Generator, density: RowDensity) -> tuple[Array, Array]:
    """Residuals (n,) and precisions (n,) of rows that a sweep leaves where they are."""
    bend = density.outcome.derivatives(density.y, density.eta)[1]
    precision = _HOLD * np.clip(np.nan_to_num(bend, nan=1.0), 1.0, _MOST_TOLD)
    return rng.standard_normal(len(precision)) / np.sqrt(precision), precision


def move(
    rng: np.random.Generator,
    density: RowDensity,
    owner: NDArray[np.int64],
    design: Array,
    standing: Array,
    precisions: Array,
) -> tuple[Array, RowDensity]:
    """Coefficients of owners (O, C), a priori N(0, precisions⁻¹), after a step given everything
    else, and the rows; owner (n,) and design (n, C) of the rows."""
    rest = density.eta - (design * standing[owner]).sum(axis=1)
    target = Target(
        np.zeros_like(standing), precisions, owner, design, rest, density.y, density.outcome
    )
    moved = step(rng, target, standing)
    return moved, density._replace(eta=rest + (design * moved[owner]).sum(axis=1))


def step(rng: np.random.Generator, target: Target, vectors: Array) -> Array:
    """The vectors (O, q) after one independence step."""
    modes, curvatures = target.mode()
    roots: Array = np.asarray(np.linalg.cholesky(curvatures), dtype=float)
    proposed = modes + _t_noise(rng, roots)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = target.log_density(proposed) - target.log_density(vectors)
        ratio += _log_t(vectors - modes, roots) - _log_t(proposed - modes, roots)
    accepted = np.log1p(-rng.random(len(vectors))) < np.where(np.isnan(ratio), -np.inf, ratio)
    return np.where(accepted[:, None], proposed, vectors)


def _t_noise(rng: np.random.Generator, roots: Array) -> Array:
    """Draws (O, q) from multivariate t distributions with scales (R Rᵀ)⁻¹."""
    noise = rng.standard_normal((*roots.shape[:2], 1))
    normal = np.linalg.solve(np.swapaxes(roots, 1, 2), noise)[..., 0]
    return np.asarray(normal / np.sqrt(rng.chisquare(_DOF, len(roots)) / _DOF)[:, None])


def _log_t(away: Array, roots: Array) -> Array:
    """Their log densities up to a constant, (O,)."""
    squares = (np.einsum("uij,ui->uj", roots, away) ** 2).sum(axis=1)
    return np.asarray(-0.5 * (_DOF + away.shape[1]) * np.log1p(squares / _DOF))

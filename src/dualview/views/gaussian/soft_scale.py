"""q(β) Π_k q(S_k | β): the degrees of freedom and the precisions of a Gaussian view's components,
approximated together.

Given expectations of W_0 and of the scatter C_k of each component about its mean, (M1), (M3) and
(M7) make S_k | β a Wishart distribution, W(β + n_k, [β E W_0 + C_k]⁻¹), and leave a density of β
alone. β has one dimension, so that its density is kept on a grid. With the eigenvalues λ_k of (E
W_0)⁻¹ C_k every expectation is a sum over the grid.

Arrays over the grid are (J, …); D is the dimension, K the number of components.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, logsumexp

from dualview.distributions import Wishart
from dualview.numerics.hyperprior import Hyperprior

Array = NDArray[np.float64]

_LOG_2 = float(np.log(2.0))
_SPARE = 1e-2, 1e6, 160  # of the grid of β − β_min: from, to, points


class Grid(NamedTuple):
    """Values of β (J,) and the logarithms of their prior probabilities, (M7) or (M7′)."""

    dof: Array
    log_prior: Array


@cache
def dof_grid(n_dims: int, least: int) -> Grid:
    """Values of β, evenly spaced in ln(β − β_min), β_min = D − 1 + least."""
    spare = np.geomspace(*_SPARE)
    log_density = -0.5 * np.log(spare) - 0.5 * n_dims / spare
    return Grid(spare + n_dims - 1 + least, log_density - logsumexp(log_density))


class SoftScale(NamedTuple):
    """q(β) Π_k q(S_k | β) and its expectations.

    log_weights (J,): ln q(β). counts (K,), roots (K, D) and bases (K, D, D): S_k | β ~ W(β + n_k, B
    diag(1/(β + λ)) Bᵀ).
    precisions (K, D, D): E S_k. log_determinants (K,): E ln|S_k|. scaled (D, D): Σ_k E[β S_k].
    scaled_log: Σ_k E[β ln|S_k|]. free: the part of the bound that depends on this factor alone.
    """

    log_weights: Array
    counts: Array
    roots: Array
    bases: Array
    precisions: Array
    log_determinants: Array
    scaled: Array
    scaled_log: float
    mean_dof: float
    free: float

    def with_base(self, base: Wishart) -> float:
        """Terms of the bound in β and the S_k: E ln p(β) + Σ_k E ln p(S_k | β, W_0), and the
        entropy."""
        linear = self.mean_dof * len(self.counts) * base.mean_log_determinant + self.scaled_log
        return self.free + 0.5 * (linear - float(np.sum(base.mean * self.scaled)))

    def inverse_scales(self, dof: Array) -> Array:
        """(…, K, D, D): the inverse scales of q(S_k | β), of β + n_k degrees of freedom, for values
        β (…)."""
        inverses = np.linalg.solve(
            np.swapaxes(self.bases, 1, 2),
            np.broadcast_to(np.eye(self.roots.shape[1]), self.bases.shape),
        )
        values = dof[..., None, None] + self.roots
        return np.asarray(np.einsum("kij,...kj,klj->...kil", inverses, values, inverses))


def _log_multigamma(half: Array, n_dims: int) -> Array:
    """Σ_{d<D} lnΓ(a − d/2), without the power of π."""
    return np.asarray(gammaln(half[..., None] - 0.5 * np.arange(n_dims)).sum(axis=-1))


def soft_scale(counts: Array, scatters: Array, base: Wishart, hyperprior: Hyperprior) -> SoftScale:
    """The best q(β) Π_k q(S_k | β) given counts (K,), scatters (K, D, D) about the components'
    means and q(W_0)."""
    n_dims = scatters.shape[1]
    grid = dof_grid(n_dims, hyperprior.least_of_vectors)
    lower = np.linalg.cholesky(base.mean)
    inverse = np.linalg.solve(lower, np.eye(n_dims))
    roots, vectors = np.linalg.eigh(inverse @ scatters @ inverse.T)
    roots = np.maximum(roots, 0.0)
    bases = inverse.T @ vectors

    dof = grid.dof[:, None]
    total = dof + counts  # (J, K)
    log_determinant = 2.0 * np.log(np.diagonal(lower)).sum() + np.log(dof[..., None] + roots).sum(
        axis=-1
    )
    log_norms = _log_multigamma(0.5 * total, n_dims) + 0.5 * total * (
        n_dims * _LOG_2 - log_determinant
    )
    constants = 0.5 * grid.dof * (n_dims * (np.log(grid.dof) - _LOG_2) + base.mean_log_determinant)
    constants = constants - _log_multigamma(0.5 * grid.dof, n_dims)
    log_joint = grid.log_prior + len(counts) * constants + log_norms.sum(axis=1)
    log_total = float(logsumexp(log_joint))
    weights = np.exp(log_joint - log_total)

    shares = weights[:, None, None] * total[..., None] / (dof[..., None] + roots)  # (J, K, D)
    eigenvalues = shares.sum(axis=0)
    scaled_values = np.einsum("j,jkd->kd", grid.dof, shares)
    precisions = np.einsum("kij,kj,klj->kil", bases, eigenvalues, bases)
    scaled = np.einsum("kij,kj,klj->il", bases, scaled_values, bases)
    logs = (
        digamma(0.5 * (total[..., None] - np.arange(n_dims))).sum(axis=-1)
        + n_dims * _LOG_2
        - log_determinant
    )
    log_determinants, scaled_log = weights @ logs, float((weights * grid.dof) @ logs.sum(axis=1))
    mean_dof = float(weights @ grid.dof)

    found = SoftScale(
        log_joint - log_total,
        counts,
        roots,
        bases,
        precisions,
        log_determinants,
        scaled,
        scaled_log,
        mean_dof,
        0.0,
    )
    fitted = 0.5 * float(counts @ log_determinants - np.sum(precisions * scatters))
    return found._replace(free=log_total - fitted - found.with_base(base))

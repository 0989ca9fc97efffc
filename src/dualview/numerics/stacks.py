"""Arithmetic with stacks of small matrices (…, q, q) and vectors (…, q)."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def spread(factor: Array, factors: Array) -> Array:
    """F T⁻ᵀ, square roots of covariances F S⁻¹ Fᵀ with S = T Tᵀ."""
    return np.swapaxes(solved(factors, np.broadcast_to(factor.T, factors.shape)), -1, -2)


def times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def solved(matrices: Array, right: Array) -> Array:
    """matrices⁻¹ right, (…, q, q) each."""
    return np.asarray(
        right / matrices if matrices.shape[-1] == 1 else np.linalg.solve(matrices, right)
    )


def log_determinants(matrices: Array) -> Array:
    """ln |det| of each."""
    return np.asarray(
        np.log(matrices[..., 0, 0]) if matrices.shape[-1] == 1 else np.linalg.slogdet(matrices)[1]
    )

"""The ridge estimate (M11) with unpenalised columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, lsmr

Array = NDArray[np.float64]

_DENSE_LIMIT = 4000


def ridge_estimate(design: Any, outcome: Array, unpenalised: Array, penalty: float) -> Array:
    """argmin_f min_c |y − P f − X c|² + λ|f|², (N,).

    The unpenalised columns X are projected out of outcome and design, which leaves a plain ridge problem; X may be singular.
    """
    basis = unpenalised
    if unpenalised.shape[1]:
        left, values, _ = np.linalg.svd(unpenalised, full_matrices=False)
        basis = left[:, values > values[0] * 1e-12]
    target = outcome - basis @ (basis.T @ outcome)
    if min(design.shape) > _DENSE_LIMIT:
        return _iterative(design, target, basis, penalty)
    dense = design.T @ design if design.shape[1] <= design.shape[0] else design @ design.T
    gram = np.asarray(dense.toarray() if sparse.issparse(dense) else dense, dtype=float)
    if design.shape[1] <= design.shape[0]:
        projected = np.asarray(basis.T @ design)
        gram = gram - projected.T @ projected + penalty * np.eye(len(gram))
        return np.asarray(cho_solve(cho_factor(gram), design.T @ target))
    gram = gram - basis @ (basis.T @ gram)
    gram = gram - (gram @ basis) @ basis.T + penalty * np.eye(len(gram))
    weights = cho_solve(cho_factor(gram), target)
    return np.asarray(design.T @ (weights - basis @ (basis.T @ weights)))


def _iterative(design: Any, target: Array, basis: Array, penalty: float) -> Array:
    def forward(f: Array) -> Array:
        product = design @ f
        return np.asarray(product - basis @ (basis.T @ product))

    def backward(r: Array) -> Array:
        return np.asarray(design.T @ (r - basis @ (basis.T @ r)))

    operator = LinearOperator(design.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    result = lsmr(operator, target, damp=float(np.sqrt(penalty)), atol=1e-12, btol=1e-12, maxiter=10 * max(design.shape))
    return np.asarray(result[0])

"""The ridge estimate (M11) with unpenalised columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, lsmr

from dualview.behaviors.likelihoods.systems import DENSE_LIMIT, SparseRows, solve

Array = NDArray[np.float64]


def ridge_estimate(design: Any, outcome: Array, unpenalised: Array, penalty: float) -> Array:
    """argmin_f min_c |y − P f − X c|² + λ|f|², (N,).

    The unpenalised columns X are projected out of outcome and design, which leaves a plain ridge
    problem; X may be singular.
    """
    basis = column_space(unpenalised)
    target = outcome - basis @ (basis.T @ outcome)
    # The trace of the gram matrix times the rounding error is what a factorisation may lose of the
    # penalty.
    lost = np.finfo(float).eps * float((design * design).sum()) / penalty
    if min(design.shape) > DENSE_LIMIT:
        return _by_conjugate_gradients(design, target, basis, penalty)
    if lost < 1e-6:
        return _dense(design, target, basis, penalty)
    return _by_bidiagonalisation(design, target, basis, penalty)


def column_space(columns: Array) -> Array:
    """An orthonormal basis (T, rank) of the columns; their scale does not matter."""
    norms = np.linalg.norm(columns, axis=0)
    columns = columns[:, norms > 0] / norms[norms > 0]
    if not columns.shape[1]:
        return columns
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, values > values[0] * 1e-12])


def _dense(design: Any, target: Array, basis: Array, penalty: float) -> Array:
    """By a factorisation of the size of users or of threads, whichever are fewer."""
    by_users = design.shape[1] <= design.shape[0]
    product = design.T @ design if by_users else design @ design.T
    gram = np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=float)
    if by_users:
        projected = np.asarray(basis.T @ design)
        gram = gram - projected.T @ projected + penalty * np.eye(len(gram))
        return np.asarray(cho_solve(cho_factor(gram), design.T @ target))
    gram = gram - basis @ (basis.T @ gram)
    gram = gram - (gram @ basis) @ basis.T + penalty * np.eye(len(gram))
    weights = cho_solve(cho_factor(gram), target)
    return np.asarray(design.T @ (weights - basis @ (basis.T @ weights)))


def _by_conjugate_gradients(design: Any, target: Array, basis: Array, penalty: float) -> Array:
    """For very many users: a preconditioner takes care of their unequal activity."""
    rows = SparseRows(design)

    def times(f: Array) -> Array:
        product = rows.gram_times(f)
        return (
            product - design.T @ (basis @ (basis.T @ (design @ f))) + penalty * f
            if basis.size
            else product + penalty * f
        )

    right = rows.transposed_times(target)
    return solve(times, right, np.zeros(len(right)), rows.squares + penalty, tolerance=1e-12)


def _by_bidiagonalisation(design: Any, target: Array, basis: Array, penalty: float) -> Array:
    """For designs so large in size that forming their gram matrix would lose the penalty."""

    def forward(f: Array) -> Array:
        product = design @ f
        return np.asarray(product - basis @ (basis.T @ product))

    def backward(r: Array) -> Array:
        return np.asarray(design.T @ (r - basis @ (basis.T @ r)))

    operator = LinearOperator(design.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    limits = {"atol": 1e-12, "btol": 1e-12, "conlim": 0, "maxiter": 1000 + 10 * min(design.shape)}
    return np.asarray(lsmr(operator, target, damp=float(np.sqrt(penalty)), **limits)[0])

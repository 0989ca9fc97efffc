"""Linear systems of the size of a whole forum: (diagonal + Pᵀ P) x = b without ever forming Pᵀ
P."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.errors import DegenerateError
from dualview.numerics import parallel as threads
from dualview.numerics import regression

Array = NDArray[np.float64]

DENSE_LIMIT = 4000  # rows of the largest matrix that is factorised
_MOST_ITERATIONS = 10_000
_PIECES = 8


class SparseRows:
    """A sparse matrix P by rows, cut into a fixed number of pieces for the threads; their sums are
    added up in order."""

    def __init__(self, matrix: Any) -> None:
        rows = sparse.csr_array(matrix)
        self._rows = (
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.uint32),
            np.asarray(rows.data, dtype=float),
        )
        self.n_columns = int(rows.shape[1])
        self._edges = np.linspace(0, rows.shape[0], _PIECES + 1).astype(np.int64)

    @cached_property
    def squares(self) -> Array:
        """The diagonal of PᵀP, (N,)."""
        return np.asarray(
            np.bincount(self._rows[1], self._rows[2] ** 2, minlength=self.n_columns), dtype=float
        )

    @property
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], Array]:
        """Where each row's entries begin, their columns, and their values."""
        return self._rows

    def gram_times(self, vector: Array) -> Array:
        """Pᵀ P vector."""
        return self._summed(regression.add_gram_times, vector)

    def transposed_times(self, vector: Array) -> Array:
        """Pᵀ vector."""
        return self._summed(regression.add_transposed_times, vector)

    def gram_times_many(self, vectors: Array) -> Array:
        """Pᵀ P vectors, of several (N, M)."""
        return self._summed(regression.add_gram_times_many, vectors, (vectors.shape[1],))

    def _summed(self, kernel: Any, vector: Array, more: tuple[int, ...] = ()) -> Array:
        def piece(i: int) -> Array:
            total = np.zeros((self.n_columns, *more))
            kernel(self._edges[i], self._edges[i + 1], *self._rows, vector, total)
            return total

        result = np.zeros((self.n_columns, *more))
        for total in threads.apply(piece, range(_PIECES)):
            result += total
        return result


def improve(
    times: Callable[[Array], Array],
    right: Array,
    start: Array,
    diagonal: Array,
    n_steps: int,
    tolerance: float,
) -> Array:
    """x after some steps of conjugate gradients towards times(x) = right, or fewer where the
    residual is small already.

    right, start and x may be (N,) or, for several systems with the same matrix, (N, M), none of
    which depends on the others. Every step lowers xᵀ A x/2 − rightᵀ x.
    """
    x = start.copy()
    scales = diagonal if x.ndim == 1 else diagonal[:, None]
    residual = right - times(x)
    scaled = residual / scales
    direction = scaled.copy()
    product = (residual * scaled).sum(axis=0)
    goal = tolerance * tolerance * (right * (right / scales)).sum(axis=0)
    for _ in range(n_steps):
        if not (product > goal).any():
            break
        image = times(direction)
        curvature = (direction * image).sum(axis=0)
        length = np.where(product > goal, product / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        x += length * direction
        residual -= length * image
        scaled = residual / scales
        before, product = product, (residual * scaled).sum(axis=0)
        direction *= product / np.where(before > 0.0, before, 1.0)
        direction += scaled
    return x


def solve(
    times: Callable[[Array], Array], right: Array, start: Array, diagonal: Array, tolerance: float
) -> Array:
    """The solution x of times(x) = right by conjugate gradients.

    The diagonal of the system is the preconditioner: activity is skewed in every forum, and without
    it hundreds of iterations go into that. Ends when the residual is tolerance times the right-hand
    side.
    """
    x = start.copy()
    residual = right - times(x)
    scaled = residual / diagonal
    direction = scaled.copy()
    product = float(residual @ scaled)
    goal = tolerance * float(np.linalg.norm(right))
    for _ in range(_MOST_ITERATIONS):
        if not float(np.linalg.norm(residual)) > goal:
            return x
        image = times(direction)
        length = product / float(direction @ image)
        x += length * direction
        residual -= length * image
        scaled = residual / diagonal
        before, product = product, float(residual @ scaled)
        direction *= product / before
        direction += scaled
    raise DegenerateError(
        "The equations for the users' coefficients did not converge: they are numerically "
        "singular. Look for extreme weights "
        "in the participation, and for users who take part in the same threads with the same "
        "weights."
    )

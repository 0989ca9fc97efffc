"""Linear systems of the size of a whole forum: (diagonal + Pᵀ P) x = b without ever forming Pᵀ P."""

from collections.abc import Callable
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
    """A sparse matrix P by rows, cut into a fixed number of pieces for the threads; their sums are added up in order."""

    def __init__(self, matrix: Any) -> None:
        rows = sparse.csr_array(matrix)
        self._rows = (rows.indptr.astype(np.int64), rows.indices.astype(np.uint32), np.asarray(rows.data, dtype=float))
        self._n_columns = rows.shape[1]
        self._edges = np.linspace(0, rows.shape[0], _PIECES + 1).astype(np.int64)
        self.squares = np.asarray(np.bincount(rows.indices, self._rows[2] ** 2, minlength=rows.shape[1]), dtype=float)

    def gram_times(self, vector: Array) -> Array:
        """Pᵀ P vector."""
        return self._summed(regression.add_gram_times, vector)

    def transposed_times(self, vector: Array) -> Array:
        """Pᵀ vector."""
        return self._summed(regression.add_transposed_times, vector)

    def _summed(self, kernel: Any, vector: Array) -> Array:
        def piece(i: int) -> Array:
            total = np.zeros(self._n_columns)
            kernel(self._edges[i], self._edges[i + 1], *self._rows, vector, total)
            return total

        result = np.zeros(self._n_columns)
        for total in threads.apply(piece, range(_PIECES)):
            result += total
        return result


def solve(times: Callable[[Array], Array], right: Array, start: Array, diagonal: Array, tolerance: float) -> Array:
    """The solution x of times(x) = right by conjugate gradients.

    The diagonal of the system is the preconditioner: activity is skewed in every forum, and without it hundreds of iterations
    go into that. Ends when the residual is tolerance times the right-hand side.
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
        "The equations for the users' coefficients did not converge: they are numerically singular. Look for extreme weights "
        "in the participation, and for users who take part in the same threads with the same weights."
    )

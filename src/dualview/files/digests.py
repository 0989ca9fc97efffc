"""Digests of data, to detect changes."""

import hashlib
from typing import Any

import numpy as np
from scipy import sparse


def digest(*parts: Any) -> str:
    """``sha256:…`` of arrays, sparse matrices and plain values: equal for equal content, type and
    shape."""
    state = hashlib.sha256()
    for part in parts:
        arrays: tuple[Any, ...] = (np.asarray(part),) if not sparse.issparse(part) else ()
        if sparse.issparse(part):
            matrix = sparse.csr_array(part)
            matrix.sum_duplicates()
            arrays = (
                np.asarray(matrix.shape),
                matrix.indptr.astype(np.int64),
                matrix.indices.astype(np.int64),
                matrix.data,
            )
        for array in arrays:
            state.update(f"{array.dtype.str}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
    return f"sha256:{state.hexdigest()[:32]}"

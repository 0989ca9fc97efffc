"""Digests of data, to detect changes."""

import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse

SAVED = "content_digest"  # the attribute of a saved posterior that holds the digest of its content


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


def saved_digest(path: Path) -> str | None:
    """The digest that a saved posterior says it has; None where it says none or is damaged."""
    try:
        with h5py.File(path, "r") as file:
            found = file.attrs.get(SAVED)
    except OSError:
        return None
    return None if found is None else str(found)

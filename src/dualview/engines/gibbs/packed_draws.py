"""Draws that a compiled call has kept, taken apart by name."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.chains.storage import Record
from dualview.engines.gibbs.packing import N_SCALARS
from dualview.model import Model


class PackedDraws(NamedTuple):
    """Draws as a compiled call leaves them: rows and labels, (draws, …), and components, as ``packing`` says."""

    rows: NDArray[np.float64]
    labels: NDArray[np.int32]
    n_components: NDArray[np.int64]
    components: NDArray[np.float64]

    def record(self, model: Model) -> Record:
        """The draws by name."""
        take = _Columns(self.rows)
        alpha, noise, log_joint, n_clusters = (take(()) for _ in range(N_SCALARS))
        fixed: dict[str, NDArray[Any]] = {"n_clusters": n_clusters.astype(np.int64), "log_joint": log_joint}
        if model.partition.has_alpha:
            fixed["alpha"] = alpha
        if model.likelihood is not None:
            coefficients = take((model.likelihood.n_coefficients,))
            fixed |= {f"params.{name}": value for name, value in model.likelihood.params_of(noise, coefficients).items()}
        of_component = _Columns(self.components)
        ragged: dict[str, NDArray[Any]] = {"count": of_component(()).astype(np.int64)}
        for name in ("features", "behavior"):
            n = model.views[name].n_dims if name in model.views else 0
            shapes = {"base_mean": (n,), "base_precision": (n, n), "base_covariance": (n, n), "base_dof": ()}
            base = {f"{name}.{part}": take(shape) for part, shape in shapes.items()}
            parts = {f"{name}.{part}": of_component(shape) for part, shape in (("means", (n,)), ("factors", (n, n)))}
            if n:
                fixed |= base
                ragged |= parts
        fixed |= {"z": self.labels, "n_components": self.n_components}
        if model.likelihood is not None:
            fixed["latent"] = take((model.n_users, model.likelihood.n_dims))
        return Record(fixed, ragged)


class _Columns:
    """Takes the columns of a table one after the other, in shapes of their own."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._table, self._at = table, 0

    def __call__(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        width = math.prod(shape)
        part = self._table[:, self._at : self._at + width]
        self._at += width
        return np.ascontiguousarray(part).reshape(len(part), *shape)

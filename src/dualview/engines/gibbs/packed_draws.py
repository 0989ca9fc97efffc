"""Draws that a compiled call has kept, taken apart by name."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.storage import Record, labels_by_name
from dualview.engines.gibbs.packing import N_SCALARS, Pack
from dualview.model import Model


def record_of(model: Model, kept: Pack, n_draws: int) -> Record:
    """The first draws of a pack by name."""
    take = _Columns(kept.rows[:n_draws])
    alpha, noise, log_joint, n_clusters = (take(()) for _ in range(N_SCALARS))
    fixed: dict[str, NDArray[Any]] = {
        "n_clusters": n_clusters.astype(np.int64),
        "log_joint": log_joint,
    }
    if model.partition.has_alpha:
        fixed["alpha"] = alpha
    if model.likelihood is not None:
        coefficients = take((model.likelihood.n_coefficients,))
        fixed |= {
            f"params.{name}": value
            for name, value in model.likelihood.params_of(noise, coefficients).items()
        }
    of_component = _Columns(kept.components[: kept.n_used])
    ragged: dict[str, NDArray[Any]] = {"count": of_component(()).astype(np.int64)}
    for name, view in model.views.items():
        base = [
            {part: take(shape) for part, shape in own.base_shapes.items()} for own in view.parts
        ]
        parts = [
            {part: of_component(shape) for part, shape in own.component_shapes.items()}
            for own in view.parts
        ]
        fixed |= {f"{name}.{part}": values for part, values in view.joined(base).items()}
        ragged |= {f"{name}.{part}": values for part, values in view.joined(parts).items()}
    fixed["n_components"] = kept.n_components[:n_draws]
    fixed |= labels_by_name(kept.labels[:n_draws], kept.agrees[:n_draws], kept.shares[:n_draws])
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

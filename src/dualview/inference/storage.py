"""What a chain leaves behind: a row per kept draw, and a table of components with a row per cluster of each draw."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.model import Model, State

BASE = ("base_mean", "base_precision", "base_covariance", "base_dof")


@dataclass(frozen=True)
class Record:
    """The draws of one chain in working units.

    fixed: arrays (draws, …). ragged: arrays (rows, …) of components, n_components (draws,) rows to each draw in turn.
    """

    fixed: dict[str, NDArray[Any]]
    ragged: dict[str, NDArray[Any]]

    @property
    def n_draws(self) -> int:
        return len(self.fixed["n_clusters"]) if self.fixed else 0

    @classmethod
    def joined(cls, records: Iterable["Record"]) -> "Record":
        """Records of one chain after each other; empty ones are passed over."""
        parts = [record for record in records if record.n_draws]
        if len(parts) <= 1:
            return parts[0] if parts else cls({}, {})
        fixed = {name: np.concatenate([part.fixed[name] for part in parts]) for name in parts[0].fixed}
        return cls(fixed, {name: np.concatenate([part.ragged[name] for part in parts]) for name in parts[0].ragged})

    def first(self, n_draws: int) -> "Record":
        """The first draws only."""
        if n_draws >= self.n_draws:
            return self
        rows = int(self.fixed["n_components"][:n_draws].sum())
        fixed = {name: values[:n_draws] for name, values in self.fixed.items()}
        return Record(fixed, {name: values[:rows] for name, values in self.ragged.items()})


@dataclass
class Store:
    """Collects states and makes a record of them."""

    model: Model
    _fixed: dict[str, list[Any]] = field(default_factory=dict)
    _ragged: dict[str, list[Any]] = field(default_factory=dict)

    def append(self, state: State) -> None:
        """Keep a draw."""
        counts = state.counts
        fixed: dict[str, Any] = {
            "z": state.z.astype(np.int32),
            "n_clusters": int(np.count_nonzero(counts)),
            "n_components": len(counts),
            "log_joint": self.model.log_joint(state),
        }
        if self.model.partition.has_alpha:
            fixed["alpha"] = state.alpha
        if state.latent is not None:
            fixed["latent"] = state.latent
        fixed |= {f"params.{name}": value for name, value in state.params.items()}
        ragged: dict[str, Any] = {"count": counts}
        for name, view in state.views.items():
            fixed |= {f"{name}.{part}": value for part, value in zip(BASE, view.base, strict=True)}
            ragged[f"{name}.means"], ragged[f"{name}.factors"] = view.components
        for table, new in ((self._fixed, fixed), (self._ragged, ragged)):
            for name, value in new.items():
                table.setdefault(name, []).append(value)

    def drain(self) -> Record:
        """Everything kept since the last time."""
        record = Record(
            {name: np.array(values) for name, values in self._fixed.items()},
            {name: np.concatenate(values) for name, values in self._ragged.items()},
        )
        self._fixed.clear()
        self._ragged.clear()
        return record

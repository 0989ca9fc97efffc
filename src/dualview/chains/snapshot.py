"""A chain at one moment: its state, its generator and how far it has come, as plain arrays and text."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.storage import Moments
from dualview.model import State
from dualview.views import GaussianState, PooledState, ViewState
from dualview.views.base import Components

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Snapshot:
    """What a chain needs to go on as if nothing had happened."""

    iteration: int
    state: State
    generator: dict[str, Any]
    moments: Moments | None = None

    @classmethod
    def of(cls, iteration: int, state: State, rng: np.random.Generator, moments: Moments | None) -> "Snapshot":
        return cls(iteration, state, dict(rng.bit_generator.state), moments)

    def arrays(self) -> Arrays:
        """Everything but the generator."""
        result: Arrays = {"z": self.state.z, "alpha": np.asarray(self.state.alpha)}
        if self.state.latent is not None:
            result["latent"] = self.state.latent
        result |= {f"params.{name}": np.asarray(value) for name, value in self.state.params.items()}
        for name, view in self.state.views.items():
            parts = view.component_parts | view.base_parts
            result |= {f"view.{name}.{part}": np.asarray(value) for part, value in parts.items()}
        if self.moments is not None:
            result |= {f"moments.{part}": np.asarray(value) for part, value in vars(self.moments).items()}
        return result

    @classmethod
    def from_arrays(cls, iteration: int, arrays: Arrays, generator: str) -> "Snapshot":
        """The inverse of :meth:`arrays` and :meth:`generator_text`, to the last bit."""
        names = [name.split(".")[1] for name in arrays if name.startswith("view.") and name.endswith(".means")]
        views = {name: _view(arrays, f"view.{name}.") for name in names}
        params = {
            name.removeprefix("params."): float(value) if value.ndim == 0 else value
            for name, value in arrays.items()
            if name.startswith("params.")
        }
        state = State(arrays["z"].astype(np.int64), float(arrays["alpha"]), views, arrays.get("latent"), params)
        moments = None
        if "moments.n" in arrays:
            moments = Moments(int(arrays["moments.n"]), arrays["moments.mean"], arrays["moments.squares"])
        return cls(iteration, state, json.loads(generator), moments)

    def generator_text(self) -> str:
        """The generator's state as JSON."""
        return json.dumps(self.generator)

    def restore(self, rng: np.random.Generator) -> None:
        """Put a generator where the chain's was."""
        rng.bit_generator.state = self.generator


def _view(arrays: Arrays, prefix: str) -> ViewState:
    """What a view had learnt; pooled where components have no precisions."""
    parts = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
    if "factors" not in parts:
        return PooledState(**parts)
    dof = float(parts.pop("base_dof"))
    return GaussianState(Components(parts.pop("means"), parts.pop("factors")), base_dof=dof, **parts)

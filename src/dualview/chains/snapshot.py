"""A snapshot of a chain: its state, its generator and its iteration, as plain arrays and text."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.storage import Moments
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Snapshot:
    """What a chain needs to continue as if nothing had happened.

    parts: what the views of a state that was read back have learned, by view and name; ``state_of``
    puts them together.
    """

    iteration: int
    state: State
    generator: dict[str, Any]
    moments: Moments | None = None
    parts: dict[str, Arrays] = field(default_factory=dict)

    @classmethod
    def of(
        cls, iteration: int, state: State, rng: np.random.Generator, moments: Moments | None
    ) -> "Snapshot":
        return cls(iteration, state, dict(rng.bit_generator.state), moments)

    def state_of(self, model: Model) -> State:
        """The state, with the parts of each view put together by the model's views."""
        if not self.parts:
            return self.state
        return replace(
            self.state,
            views={name: model.views[name].restored(parts) for name, parts in self.parts.items()},
        )

    def arrays(self) -> Arrays:
        """Everything but the generator."""
        result: Arrays = {"z": self.state.z, "alpha": np.asarray(self.state.alpha)}
        if self.state.discount is not None:
            result["discount"] = np.asarray(self.state.discount)
        if self.state.latent is not None:
            result["latent"] = self.state.latent
        labels = self.state.labels
        if len(labels.z) > 1:
            result |= {"agreement.acts": labels.behavior, "agreement.looks": labels.z[1:]}
            result |= {"agreement.agrees": labels.agrees, "agreement.shares": labels.shares}
        result |= {f"params.{name}": np.asarray(value) for name, value in self.state.params.items()}
        views = self.parts or {
            name: view.component_parts | view.base_parts for name, view in self.state.views.items()
        }
        for name, parts in views.items():
            result |= {f"view.{name}.{part}": np.asarray(value) for part, value in parts.items()}
        if self.moments is not None:
            result |= {
                f"moments.{part}": np.asarray(value) for part, value in vars(self.moments).items()
            }
        return result

    @classmethod
    def from_arrays(cls, iteration: int, arrays: Arrays, generator: str) -> "Snapshot":
        """The inverse of :meth:`arrays` and :meth:`generator_text`, to the last bit."""
        parts: dict[str, Arrays] = {}
        for name, values in arrays.items():
            if name.startswith("view."):
                _, view, part = name.split(".", 2)
                parts.setdefault(view, {})[part] = values
        params = {
            name.removeprefix("params."): float(value) if value.ndim == 0 else value
            for name, value in arrays.items()
            if name.startswith("params.")
        }
        discount = float(arrays["discount"]) if "discount" in arrays else None
        state = State(
            _labels(arrays), float(arrays["alpha"]), {}, arrays.get("latent"), params, discount
        )
        moments = None
        if "moments.n" in arrays:
            moments = Moments(
                int(arrays["moments.n"]), arrays["moments.mean"], arrays["moments.squares"]
            )
        return cls(iteration, state, json.loads(generator), moments, parts)

    def generator_text(self) -> str:
        """The generator's state as JSON."""
        return json.dumps(self.generator)

    def restore(self, rng: np.random.Generator) -> None:
        """Put a generator where the chain's was."""
        rng.bit_generator.state = self.generator


def _labels(arrays: Arrays) -> LabelsByView:
    """Labels and who agrees, as they were kept: for every table, or, before there could be several,
    for the one."""
    z = arrays["z"].astype(np.int64)
    if "agreement.acts" not in arrays:
        return LabelsByView.agreeing(z)
    agrees = np.atleast_2d(arrays["agreement.agrees"]).astype(np.bool_)
    looks = np.atleast_2d(arrays.get("agreement.looks", z)).astype(np.int64)
    shares = np.atleast_1d(
        arrays["agreement.shares" if "agreement.shares" in arrays else "agreement.share"]
    )
    behavior = arrays["agreement.acts"].astype(np.int64)
    return LabelsByView(np.vstack([behavior, looks]), agrees, shares.astype(np.float64))

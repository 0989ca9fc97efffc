"""Posterior: the draws of all chains by name, in the user's units, on an xarray DataTree that ArviZ reads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors import Likelihood
from dualview.errors import InputError
from dualview.inference.storage import Record
from dualview.posterior import partition as partitions
from dualview.units import Whitening

_DIMS: dict[str, tuple[str, ...]] = {
    "z": ("user",),
    "latent": ("user", "function"),
    "coefficients": ("coefficient",),
}


class Posterior:
    """Draws (chain, draw, …) by name: post["z"], post["alpha"], post["features.base_mean"] and so on.

    ``post.names`` lists them. ``post.to_arviz()`` is the DataTree for ArviZ.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    @classmethod
    def from_records(
        cls,
        records: list[Record],
        units: dict[str, Whitening],
        likelihood: Likelihood | None,
        coords: dict[str, Any],
    ) -> "Posterior":
        """Join the chains' records, in the user's units."""
        variables = _variables(records, units, likelihood)
        dataset = xr.Dataset(
            {name: (("chain", "draw", *dims), values) for name, (dims, values) in variables.items()},
            coords={
                "chain": np.arange(len(records)),
                "draw": np.arange(records[0].n_draws),
                **_used(coords, variables),
            },
        )
        return cls(xr.DataTree.from_dict({"posterior": dataset, "components": _components(records)}))

    def __getitem__(self, name: str) -> NDArray[Any]:
        draws = self._tree["posterior"]
        if name not in draws.data_vars:
            raise InputError(f"The posterior has no {name!r}; it has {', '.join(self.names)}.")
        return np.asarray(draws[name].values)

    def __contains__(self, name: object) -> bool:
        return name in self._tree["posterior"].data_vars

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"Posterior({self.n_chains} chains × {self.n_draws} draws: {', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """Names of everything that was drawn."""
        return [str(name) for name in self._tree["posterior"].data_vars]

    @property
    def n_chains(self) -> int:
        return int(self._tree["posterior"].sizes["chain"])

    @property
    def n_draws(self) -> int:
        """Draws per chain."""
        return int(self._tree["posterior"].sizes["draw"])

    def flat(self, name: str) -> NDArray[Any]:
        """The draws of all chains in a row, (chain × draw, …)."""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])

    def similarity(self) -> NDArray[np.float64]:
        """Share of draws in which two users are together, (U, U)."""
        return partitions.similarity(self.flat("z"))

    def partition(self, method: str = "dahl") -> NDArray[np.int64]:
        """A point estimate of the partition, clusters numbered from the largest."""
        if method != "dahl":
            raise InputError(f"partition takes 'dahl'; got {method!r}.")
        z = self.flat("z")
        return partitions.by_size(z[partitions.dahl(z)])

    def to_arviz(self) -> xr.DataTree:
        """The draws as an xarray DataTree with a posterior group, as ArviZ takes it."""
        return self._tree.copy()


def _variables(
    records: list[Record], units: dict[str, Whitening], likelihood: Likelihood | None
) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    fixed = {name: np.stack([record.fixed[name] for record in records]) for name in records[0].fixed}
    variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
    for name in ("z", "n_clusters", "alpha", "log_joint"):
        if name in fixed:
            variables[name] = (_DIMS.get(name, ()), fixed[name])
    if likelihood is not None:
        params = {name.removeprefix("params."): fixed[name] for name in fixed if name.startswith("params.")}
        for name, values in likelihood.reported(params).items():
            variables[name] = (_DIMS.get(name, ()), values)
        variables["latent"] = _without_single(("user", "function"), units["behavior"].vectors(fixed["latent"]), 1)
    for view, unit in units.items():
        dim = {"features": "feature", "behavior": "function"}[view]
        drop = 1 if view == "behavior" else None
        parts = {
            "base_mean": ((dim,), unit.vectors(fixed[f"{view}.base_mean"])),
            "base_precision": ((dim, f"{dim}_other"), unit.precisions(fixed[f"{view}.base_precision"])),
            "base_covariance": ((dim, f"{dim}_other"), unit.covariances(fixed[f"{view}.base_covariance"])),
            "base_dof": ((), fixed[f"{view}.base_dof"]),
        }
        for part, (dims, values) in parts.items():
            variables[f"{view}.{part}"] = _without_single(dims, values, drop)
    return variables


def _without_single(dims: tuple[str, ...], values: NDArray[Any], size: int | None) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Without the axes of a latent vector of one dimension."""
    if size is None or values.shape[-1] != size:
        return dims, values
    kept = tuple(dim for dim in dims if not dim.startswith("function"))
    return kept, values.reshape(*values.shape[: 2 + len(kept)])


def _used(coords: dict[str, Any], variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]]) -> dict[str, Any]:
    dims = {dim for names, _ in variables.values() for dim in names}
    return {dim: values for dim, values in coords.items() if dim in dims}


def _components(records: list[Record]) -> xr.Dataset:
    """A row per component of each draw, in working units: its draw, its number of users, its parameters."""
    counts = [record.fixed["n_components"] for record in records]
    rows: dict[str, Any] = {
        "chain": ("row", np.concatenate([np.full(c.sum(), i) for i, c in enumerate(counts)])),
        "draw": ("row", np.concatenate([np.repeat(np.arange(len(c)), c) for c in counts])),
    }
    for name in records[0].ragged:
        values = np.concatenate([record.ragged[name] for record in records])
        view = name.split(".")[0]
        rows[name] = (("row", f"{view}_dim", f"{view}_dim_other")[: values.ndim], values)
    return xr.Dataset(rows)

"""The tree of a posterior from what its chains have left: draws in the user's units, components and
units."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors.base import Likelihood
from dualview.chains.storage import Moments, Record, anchors
from dualview.columns import Cells
from dualview.posterior.spec import ModelSpec
from dualview.units import Whitening
from dualview.views.features import feature_kinds

_VIEW_DIMS = {"features": "feature", "behavior": "function"}
_DIMS: dict[str, tuple[str, ...]] = {
    "z": ("user",),
    "z_behavior": ("user",),
    "z_tables": ("table", "user"),
    "agrees": ("user",),
    "coefficients": ("coefficient",),
    "group_effects": ("group_level",),
    "group_sd": ("group",),
    "slopes": ("function", "feature"),
    "cut_points": ("cut",),
}

Array = NDArray[np.float64]
Variables = dict[str, tuple[tuple[str, ...], NDArray[Any]]]


def tree_of(
    records: list[Record],
    spec: ModelSpec,
    likelihood: Likelihood | None,
    coords: dict[str, Any],
    observed: Array | Cells | None = None,
) -> xr.DataTree:
    """The chains' records joined, in the user's units, with the description of their model.
    observed: the features that were fitted, or the table, where it has other cells than exact
    numbers."""
    units = spec.units
    variables = _variables(records, units, likelihood)
    dims = {dim for names, _ in variables.values() for dim in names}
    draws = xr.Dataset(
        {name: (("chain", "draw", *dims), values) for name, (dims, values) in variables.items()},
        coords={
            "chain": np.arange(len(records)),
            "draw": np.arange(records[0].n_draws),
            **{dim: values for dim, values in coords.items() if dim in dims},
        },
    )
    groups = {
        "posterior": draws,
        "components": _components(records),
        "working": spec.units_dataset(),
    }
    if records[0].scalars:
        groups["summary"] = _summary(records, units, likelihood, draws.coords)
    if observed is not None:
        groups["observed_data"] = _observed(observed, draws.coords)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= spec.to_attrs()
    return tree


def _observed(observed: Array | Cells, coords: Any) -> xr.Dataset:
    """What summaries and predictions need of the features."""
    numbers = ("user", "feature")
    data: dict[str, Any] = {}
    if isinstance(observed, Cells):
        dims = {name: ("user", kind.dim) for kind in feature_kinds() for name in kind.arrays}
        data |= {name: (dims[name], values) for name, values in observed.data.items()}
    else:
        data["features"] = (numbers, observed)
    return xr.Dataset(data, coords={dim: coords[dim] for dim in numbers if dim in coords})


def _variables(
    records: list[Record], units: Mapping[str, Whitening], likelihood: Likelihood | None
) -> Variables:
    """Dimensions and values (chain, draw, …) of everything drawn."""
    fixed = {
        name: np.stack([record.fixed[name] for record in records]) for name in records[0].fixed
    }
    names = (
        "z",
        "z_behavior",
        "z_tables",
        "agrees",
        "agreement",
        "n_clusters",
        "alpha",
        "discount",
        "log_joint",
    )
    variables: Variables = {
        name: (_DIMS.get(name, ()), fixed[name]) for name in names if name in fixed
    }
    for name in ("agrees", "agreement"):  # of every table, where there are several
        if name in variables and variables[name][1].ndim > 2 + len(variables[name][0]):
            variables[name] = ("table", *variables[name][0]), variables[name][1]
    n_numbers = len(units["features"].mean) if "features" in units else 0
    if likelihood is not None:
        params = {
            name.removeprefix("params."): fixed[name]
            for name in fixed
            if name.startswith("params.")
        }
        for name, values in likelihood.reported(params).items():
            dims = ("user",) if name in likelihood.per_user else _dims_of(name)
            if name == "slopes" and values.shape[-1] > n_numbers:
                dims = ("function", "slope")  # of numbers and of other columns
            variables[name] = _squeezed(dims, values)
        if "latent" in fixed:
            variables["latent"] = _squeezed(
                ("user", "function"), units["behavior"].vectors(fixed["latent"])
            )
    for view, unit in units.items():
        dim = _VIEW_DIMS[view]
        square = (dim, f"{dim}_other")
        variables[f"{view}.base_mean"] = _squeezed((dim,), unit.vectors(fixed[f"{view}.base_mean"]))
        variables[f"{view}.base_precision"] = _squeezed(
            square, unit.precisions(fixed[f"{view}.base_precision"])
        )
        if f"{view}.base_dof" in fixed:  # clusters have a spread of their own
            variables[f"{view}.base_covariance"] = _squeezed(
                square, unit.covariances(fixed[f"{view}.base_covariance"])
            )
        for name in (f"{view}.base_dof", f"{view}.tail_dof"):
            if name in fixed:
                dof = fixed[name]
                variables[name] = (() if dof.ndim == 2 else ("block",), dof)
    for kind in feature_kinds():
        for part, dims in kind.shared_dims.items():
            name = f"{kind.view}.{part}"
            if name in fixed:
                variables[name] = (dims, fixed[name])
    return variables


def _dims_of(name: str) -> tuple[str, ...]:
    """Dimensions of a parameter; with several behaviors, the name of its behavior and a dot stand
    before both."""
    behavior, dot, own = name.rpartition(".")
    return tuple(f"{behavior}{dot}{dim}" for dim in _DIMS.get(own, ()))


def _summary(
    records: list[Record],
    units: Mapping[str, Whitening],
    likelihood: Likelihood | None,
    coords: Any,
) -> xr.Dataset:
    """Scalars of all draws, and moments of the latent vectors over all chains, in the user's
    units."""
    scalars = [Record(record.scalars, {}) for record in records]
    data: dict[str, Any] = {}
    for name, (dims, values) in _variables(scalars, units, likelihood).items():
        data[name] = (
            ("chain", "iteration", *("anchor" if dim == "user" else dim for dim in dims)),
            values,
        )
    moments = [record.moments for record in records if record.moments is not None]
    if moments:
        unit = units["behavior"]
        joined = Moments.joined(moments)
        covariances = unit.covariances(joined.squares / max(joined.n - 1, 1))
        dims = ("user", "function") if unit.n_dims > 1 else ("user",)
        for name, values in (
            ("latent_mean", unit.vectors(joined.mean)),
            ("latent_sd", np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))),
        ):
            data[name] = (dims, values if unit.n_dims > 1 else values[:, 0])
    kept = {str(name): coords[name] for name in coords if name != "draw"}
    return xr.Dataset(
        data, coords=kept | ({"anchor": anchors(len(coords["user"]))} if "z" in data else {})
    )


def _squeezed(dims: tuple[str, ...], values: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Without the axes of a latent vector of one dimension."""
    single = [
        i for i, dim in enumerate(dims) if dim.startswith("function") and values.shape[2 + i] == 1
    ]
    kept = tuple(dim for i, dim in enumerate(dims) if i not in single)
    return kept, values.squeeze(axis=tuple(2 + i for i in single))


def _components(records: list[Record]) -> xr.Dataset:
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

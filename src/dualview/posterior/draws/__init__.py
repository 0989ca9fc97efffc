"""Draws of all chains by name, and the tree that holds them.

Groups of the tree: posterior (chain, draw, …), in the user's units; components, a row per cluster
of each draw, in working units; working, the maps between the user's units and working units.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.checks import interval_ends
from dualview.errors import AbsentError, InputError
from dualview.posterior.spec import ModelSpec

Array = NDArray[np.float64]


class NamedDraws:
    """Draws (chain, draw, …) by name: how many there are, their averages and intervals, and the
    clusters of each draw."""

    def __init__(self, tree: xr.DataTree, observations: Behavior | None = None) -> None:
        self._tree = tree
        self.observations = observations

    @property
    def tree(self) -> xr.DataTree:
        """The draws as they are kept and saved; :meth:`to_arviz` adds what follows from them."""
        return self._tree

    def __getitem__(self, name: str) -> NDArray[Any]:
        draws = self._tree["posterior"]
        if not isinstance(name, str) or name not in draws.data_vars:
            raise InputError(f"The posterior has no {name!r}; it has {', '.join(self.names)}.")
        return np.asarray(draws[name].values)

    def __contains__(self, name: object) -> bool:
        return name in self._tree["posterior"].data_vars

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

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

    @property
    def n_users(self) -> int:
        return int(self._tree["posterior"].sizes["user"])

    def flat(self, name: str) -> NDArray[Any]:
        """The draws of all chains in a row, (chain × draw, …)."""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])

    @property
    def flat_acts(self) -> NDArray[Any]:
        """Labels of the users' behavior in the draws of all chains, (chain × draw, user): ``z``
        unless views may disagree."""
        return self.flat("z_behavior" if "z_behavior" in self else "z")

    @property
    def summary(self) -> xr.Dataset | None:
        """With ``keep="summary"``: scalars of every draw (chain, iteration); latent_mean and
        latent_sd over all of them.

        z and latent (chain, iteration, anchor) are those of up to 200 users, whose positions are
        the coordinate anchor. latent_mean and latent_sd are (user) or (user, function). For users
        without observations the posterior need not have a mean and a standard deviation; then these
        two mean nothing.
        """
        group = self._tree.children.get("summary")
        return None if group is None else group.to_dataset()

    @property
    def latent_median(self) -> Array:
        """Posterior median of each user's latent behavior, (U,) or (U, q), over the draws that were
        kept whole."""
        self._check_latent()
        return np.asarray(np.median(self.flat("latent"), axis=0))

    def _check_latent(self) -> None:
        if "latent" not in self:
            raise AbsentError(
                "This model was fitted without a behavior, so it has no latent behavior: call "
                "fit(X, behavior)."
            )

    @property
    def latent_mean(self) -> Array:
        """Average of each user's latent behavior, (U,) or (U, q), over all draws.

        It estimates the posterior mean, if that exists. For users without observations it need not:
        a cluster's spread has tails so heavy that averages differ from seed to seed.
        ``latent_median`` always exists.
        """
        self._check_latent()
        if self.summary is not None:
            return np.asarray(self.summary["latent_mean"].values)
        return np.asarray(self.flat("latent").mean(axis=0))

    def interval(self, name: str, probability: float = 0.95) -> NDArray[Any]:
        """Central interval of each element of a quantity, (…, 2): low and high along the last axis.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
        >>> post = model.fit(forum.features).posterior_
        >>> post.interval("alpha", 0.9).shape, post.interval("features.base_mean", 0.9).shape
        ((2,), (2, 2))
        >>> low, high = post.interval("features.base_mean", 0.9).T
        >>> bool((low < high).all())
        True
        """
        ends = np.quantile(self.flat(name), interval_ends(probability), axis=0)
        return np.asarray(np.moveaxis(ends, 0, -1))

    @cached_property
    def spec(self) -> ModelSpec:
        """The description of the model that was fitted."""
        return ModelSpec.from_tree(self._tree)

    @cached_property
    def components(self) -> dict[str, NDArray[Any]]:
        """A row per component of each draw, draws of all chains in a row: owner (its draw), count,
        and each view's means and, unless users share them, precision factors in working units."""
        group = self._tree["components"]
        table = {str(name): np.asarray(group[str(name)].values) for name in group.data_vars}
        table["owner"] = table.pop("chain") * self.n_draws + table.pop("draw")
        return table

    def base(self, view: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """What the components of a view share in every draw, (S, …), by name; of a Gaussian view in
        working units."""
        found = {name: self.flat(f"{view}.{name}") for name in names}
        units = self.spec.units.get(view)
        if units is None:
            return found
        shape = (self.n_chains * self.n_draws, len(units.mean))
        if "base_mean" in found:
            found["base_mean"] = units.to_working(found["base_mean"].reshape(shape))
        for name, root in (("base_precision", units.factor.T), ("base_covariance", units.inverse)):
            if name in found:
                found[name] = root @ found[name].reshape(*shape, shape[1]) @ root.T
        return found

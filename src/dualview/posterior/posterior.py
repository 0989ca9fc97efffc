"""Posterior: the draws of all chains by name, in the user's units, on an xarray DataTree that ArviZ
reads."""

import os
import warnings
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.files.html import small_table
from dualview.posterior.diagnostics.convergence import Convergence
from dualview.posterior.draws import files
from dualview.posterior.draws.tree import Asked, saved_tree, whole_tree
from dualview.posterior.partition.n_components import mixture_of
from dualview.posterior.partition.partition_estimates import PartitionEstimates

_PARTS = 8  # of latent vectors that have their names shown

# What only the package asks of a posterior; tab completion leaves it out.
_INSIDE = {
    "base",
    "behavior",
    "blocks",
    "cells",
    "components",
    "convergence_status",
    "data",
    "estimated",
    "flat_acts",
    "has_features",
    "judged",
    "observations",
    "pace",
    "rows",
    "scalars",
    "seconds_more",
    "timed_verdict",
    "tree",
}

# Former names, which work for one release, and where they are now.
_MOVED = {
    **{
        name: f"spec.{name}"
        for name in (
            "codebook",
            "n_clusters",
            "alpha_prior",
            "partition_prior",
            "spread_prior",
            "agreement_prior",
            "layout",
            "pooling",
            "units",
        )
    },
    "partition_process": "spec.process",
    "crossings": "crosstab",
}


class Posterior(PartitionEstimates, Convergence):
    """Draws (chain, draw, …) by name: post["z"], post["alpha"], post["features.base_mean"] and so
    on.

    ``post.names`` lists them. ``post.to_arviz()`` is the DataTree for ArviZ, ``post.save(path)`` a
    NetCDF file of it.
    """

    def __repr__(self) -> str:
        return f"Posterior({self.n_chains} chains × {self.n_draws} draws: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        return _html_table(self)

    def __dir__(self) -> Iterable[str]:
        hidden = _INSIDE if mixture_of(self) is not None else _INSIDE | {"n_components"}
        return [name for name in super().__dir__() if name not in hidden]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _MOVED:
                return object.__getattribute__(self, name)  # raises what a property raised
            place = _MOVED[name]
            warnings.warn(
                f"Posterior.{name} is called {place} now; the old name will go.",
                FutureWarning,
                stacklevel=2,
            )
            return attrgetter(place)(self)

    def to_arviz(
        self,
        groups: Sequence[str] | None = None,
        *,
        variables: Sequence[str] | None = None,
        behavior: Behavior | None = None,
        n_draws: int | None = None,
        n_observations: int | None = None,
        n_prior: int = 500,
        seed: int = 0,
    ) -> xr.DataTree:
        """The draws as an xarray DataTree with all groups that ArviZ's functions use, made on
        request.

        Groups: ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data``, ``expected``
        (locations of the outcomes and the noise), ``posterior_predictive``, ``log_likelihood``,
        ``log_prior`` (by top-level prior), ``prior`` and ``prior_predictive``. Outcomes are called
        ``outcome``, features ``features``. ``log_likelihood`` has the outcomes only, so that
        ``arviz_stats.loo(tree)`` knows what to score; without a behavior it has the features.

        Parameters
        ----------
        groups : list of str, optional
            Groups to make besides posterior and sample_stats; all of these by default. One more is
            made on request: ``left_out``, log densities of outcomes given all others with latent
            vectors integrated out. A posterior loaded from a file has no observations: it gets no
            other groups unless they are named or ``behavior`` is given.
        variables : list of "outcome" and "features", optional
            Variables of the data, replicates and likelihoods. By default both, but one of
            likelihoods. If both are named, ``log_likelihood`` has both, and ArviZ's scores need the
            name of one.
        behavior : behavior, optional
            The observations of the fit, for a posterior loaded from a file.
        n_draws, n_observations : int, optional
            Draws of each chain and observations to keep, the same in all groups. All by default;
            with more than twenty million draws × observations, fewer: evenly spaced draws, and
            observations at random.
        n_prior : int
            Draws from the prior.
        seed : int
            Seed; the same seed gives the same replicates.

        Examples
        --------
        >>> import dualview as dv
        >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
        >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
        >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=2)
        >>> post = model.fit(forum.features, behavior).posterior_
        >>> tree = post.to_arviz(n_prior=50)
        >>> dict(tree["posterior_predictive"]["outcome"].sizes)
        {'chain': 2, 'draw': 50, 'observation': 30}
        >>> list(tree["log_prior"].data_vars)
        ['alpha', 'features.base', 'behavior.base', 'noise_precision']
        """
        return whole_tree(
            self, Asked(groups, variables, n_draws, n_observations, n_prior, seed), behavior
        )

    def save(self, path: str | os.PathLike[str], *, whole: bool = False) -> None:
        """Write a NetCDF file that ``dualview.load`` reads; whole or not at all.

        whole: with the groups that :meth:`to_arviz` makes, which the posterior that is read back
        then has.
        """
        files.save(saved_tree(self) if whole else self._tree, path)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior that ``Posterior.save`` wrote."""
    return Posterior(files.load(path))


def _html_table(post: Posterior) -> str:
    """The posterior as a small HTML table, a row for each name."""
    title = f"Posterior: {post.n_chains} chains × {post.n_draws:,} draws, {post.n_users:,} users"
    rows = [
        (name, *_cells(post[name], post.latent_names if name == "latent" else ()))
        for name in post.names
    ]
    return small_table(
        title, rows, ("", "axes after chain and draw", "median", "95 % interval"), post.verdict()
    )


def _cells(values: NDArray[Any], parts: Sequence[str] = ()) -> tuple[str, str, str]:
    """Shape, with the names of the parts along the last axis, median and interval of draws (chain,
    draw, …).

    Only scalars have the last two.
    """
    if values.ndim > 2:
        named = (
            f" ({', '.join(parts[:_PARTS])}{', …' if len(parts) > _PARTS else ''})"
            if len(parts) > 1
            else ""
        )
        return " × ".join(f"{n:,}" for n in values.shape[2:]) + named, "", ""
    low, median, high = np.quantile(values, (0.025, 0.5, 0.975))
    return "", f"{median:.4g}", f"{low:.4g} to {high:.4g}"

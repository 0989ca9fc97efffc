"""What is known of the fit that draws come from: its table, its behavior, its priors, how long its
chains are."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.kinds import behavior_from
from dualview.chains.schedule import Length
from dualview.columns import Cells
from dualview.posterior.draws import NamedDraws
from dualview.posterior.draws.approximated import ApproximationFacts
from dualview.views.features import FeatureBlock, blocks_of, feature_kinds

Array = NDArray[np.float64]


class FitFacts(NamedDraws):
    """Draws that know their fit. Facts are attributes of the tree, as text where they are no
    numbers, and the data a group."""

    @property
    def length(self) -> Length | None:
        """Length of the chains, including warm-up, spacing of the kept draws, and why the chains
        ended.

        It has ``n_iterations``, ``n_warmup`` and ``stride``, in iterations, and ``ended``:
        "converged", "max_draws", "max_time", "interrupted", or "length" if that was fixed. None in
        files of versions that did not store it.
        """
        attrs = self._tree.attrs
        if "ended" not in attrs:
            return None
        return Length(
            int(attrs["n_iterations"]), int(attrs["n_warmup"]), int(attrs["stride"]), attrs["ended"]
        )

    @property
    def failures(self) -> str | None:
        """Which chains failed and were left out, why, and how far to trust the others; None if all
        came to their end."""
        return self._tree.attrs.get("failures")

    @property
    def approximation(self) -> ApproximationFacts | None:
        """Results of the variational approximation that the draws come from; None if the draws come
        from chains."""
        text = self._tree.attrs.get("approximation")
        return None if text is None else ApproximationFacts.from_json(text)

    @property
    def user_ids(self) -> list[str]:
        """The users' ids as text; their positions if there were no ids."""
        return [str(user) for user in self._tree["posterior"].coords["user"].values]

    @property
    def features(self) -> Array | None:
        """The features that were fitted, in the user's units, (U, D)."""
        group = self._tree.children.get("observed_data")
        if group is None or "features" not in group or "low" in group:
            return None
        return np.asarray(group["features"].values)

    @property
    def cells(self) -> Cells | None:
        """The table of the fit as the model sees it, where some of its cells are not exact or of
        another kind than numbers."""
        names = [name for kind in feature_kinds() for name in kind.arrays]
        data = {name: values for name, values in self.data.items() if name in names}
        return Cells({name: data[name] for name in names if name in data}) if data else None

    @property
    def data(self) -> dict[str, NDArray[Any]]:
        """What was observed of the users' features, by name, as ``FeatureBlock.cells`` takes it."""
        group = self._tree.children.get("observed_data")
        variables = {} if group is None else group.data_vars
        return {
            str(name): np.asarray(part.values)
            for name, part in variables.items()
            if "user" in part.dims
        }

    @cached_property
    def blocks(self) -> list[FeatureBlock]:
        """The features of the fit: blocks of columns of one kind, which answer what is asked of
        them."""
        return blocks_of(self)

    @property
    def has_features(self) -> bool:
        """Whether the fit had a table or an array of features."""
        return bool(self.blocks)

    @property
    def feature_names(self) -> list[str]:
        coords = self._tree["posterior"].coords
        return [str(name) for name in coords["feature"].values] if "feature" in coords else []

    @property
    def latent_names(self) -> list[str]:
        """Names of the parts of a latent vector, with the behavior's before them where there are
        several behaviors.

        One name without a meaning where a vector is one number; positions where a behavior has no
        names.
        """
        draws = self._tree["posterior"]
        if "function" in draws.coords:
            return [str(name) for name in draws.coords["function"].values]
        return (
            [str(part) for part in range(draws.sizes["function"])]
            if "function" in draws.sizes
            else ["latent"]
        )

    @property
    def behavior(self) -> Behavior | None:
        """The behavior of the fit without its observations: enough to predict."""
        described = self.spec.behavior
        if described is None:
            return None
        named = self._tree["posterior"].coords["user"].dtype.kind != "i"
        return behavior_from({**described, "users": self.user_ids if named else None})

    @property
    def n_observations(self) -> int | None:
        """Number of threads of the fit; None without a behavior, and in files of versions that did
        not store it."""
        found = (self.spec.behavior or {}).get("n_observations")
        return None if found is None else int(found)

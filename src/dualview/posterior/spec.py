"""One description of a model, in values that a file can hold.

It is made once from parameters and data, saved with the draws and in the manifest of a run, and
read back. With data it builds the model, for a fit and for checks afterwards alike.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.columns import Cells, Columns
from dualview.columns.layout import Layout
from dualview.model import Model
from dualview.partitions.agreement import AgreementPrior, agreement_priors
from dualview.partitions.alpha import concentration, concentration_from_text
from dualview.partitions.choice import partition_prior, partition_process
from dualview.partitions.priors import PartitionPrior
from dualview.units import Whitening
from dualview.views import BlockedView, GaussianView, Observed
from dualview.views.features import feature_kinds

Array = NDArray[np.float64]

_UNITS = ("mean", "factor", "inverse")


@dataclass(frozen=True)
class ModelSpec:
    """What a model is.

    n_clusters: the fixed number of clusters; None where it is inferred. alpha_prior, process,
    agreement: the prior of the concentration (None with one cluster), the process behind an
    inferred number of clusters (None for a Dirichlet process) and the prior of agreement (None
    where users act as they look), in words. codebook: what the columns of a table are; None for
    an array of numbers. layout: which features belong to which table, where there are several.
    behavior: the behavior without its observations, in plain values. units: of each view's vectors,
    by its name. tails: "student" where clusters of features have heavy tails.
    """

    n_clusters: int | None
    alpha_prior: str | None = None
    process: str | None = None
    link: str | None = None
    pooling: str | None = None
    spread_prior: str = "flat"
    agreement: str | None = None
    codebook: Columns | None = None
    layout: Layout | None = None
    behavior: Mapping[str, Any] | None = None
    units: Mapping[str, Whitening] = field(default_factory=dict)
    tails: str | None = None

    def to_attrs(self) -> dict[str, Any]:
        """Numbers and texts by name, those that are None left out; units are arrays, see
        :meth:`units_dataset`."""
        texts = {
            "alpha_prior": self.alpha_prior,
            "partition": self.process,
            "link": self.link,
            "pooling": self.pooling,
            "spread_prior": self.spread_prior,
            "agreement": self.agreement,
            "codebook": None if self.codebook is None else json.dumps(self.codebook.to_json()),
            "tables": None if self.layout is None else json.dumps(self.layout.to_json()),
            "behavior": None if self.behavior is None else json.dumps(self.behavior),
            "tails": self.tails,
        }
        found = {name: text for name, text in texts.items() if text is not None}
        return {"n_clusters": int(self.n_clusters or 0), **found}

    def units_dataset(self) -> xr.Dataset:
        """The units as arrays of a file."""
        arrays: dict[str, Any] = {}
        for view, unit in self.units.items():
            outside, inside = f"{view}_user", f"{view}_working"
            arrays[f"{view}.mean"] = ((outside,), unit.mean)
            arrays[f"{view}.factor"] = ((outside, inside), unit.factor)
            arrays[f"{view}.inverse"] = ((inside, outside), unit.inverse)
        return xr.Dataset(arrays)

    @classmethod
    def from_tree(cls, tree: xr.DataTree) -> "ModelSpec":
        """What the tree of a posterior says; of one that an earlier version wrote, with the priors
        of that version."""
        attrs, draws = tree.attrs, tree["posterior"].data_vars
        components = tree["components"].data_vars if "components" in tree.children else {}
        pooled = "behavior.means" in components and "behavior.factors" not in components
        read = {
            name: json.loads(attrs[name])
            for name in ("codebook", "tables", "behavior")
            if name in attrs
        }
        n_clusters = int(attrs["n_clusters"]) or None
        return cls(
            n_clusters,
            None if n_clusters == 1 else str(attrs.get("alpha_prior", "paper")),
            attrs.get("partition"),
            attrs.get("link", "linear" if "slopes" in draws else None),
            attrs.get("pooling", "cluster" if pooled else None),
            str(attrs.get("spread_prior", "paper")),
            attrs.get("agreement"),
            Columns.from_json(read["codebook"]) if "codebook" in read else None,
            Layout.from_json(read["tables"]) if "tables" in read else None,
            read.get("behavior"),
            _units_of(tree),
            attrs.get("tails"),
        )

    @property
    def partition_prior(self) -> PartitionPrior:
        """The prior over partitions."""
        alpha = concentration(concentration_from_text(self.alpha_prior))
        return partition_prior(self.n_clusters, alpha, self.process)

    @property
    def agreement_prior(self) -> AgreementPrior | tuple[AgreementPrior, ...] | None:
        """The prior of the share of users who act as they look, or one for each table of features;
        None where all do."""
        return agreement_priors(self.agreement, () if self.layout is None else self.layout.names)

    def parameters(self) -> dict[str, Any]:
        """Parameters of an estimator of this model, by name."""
        agreement: Any = self.agreement_prior
        if self.layout is not None and isinstance(agreement, tuple):
            agreement = dict(zip(self.layout.names, agreement, strict=True))
        return {
            "n_clusters": self.n_clusters or partition_process(self.process),
            "alpha": concentration_from_text(self.alpha_prior),
            "link": self.link,
            "pooling": self.pooling,
            "agreement": agreement,
            "spread_prior": self.spread_prior,
        } | ({} if self.tails is None else {"feature_prior": self.tails})

    def build(
        self,
        features: Array | None,
        cells: Cells | None,
        likelihood: Likelihood | None,
        n_users: int,
    ) -> Model:
        """The model of some data: features (U, D) or the cells of a table, and the likelihood of
        latent vectors that follow no link."""
        units, others, intervals = self.units.get("features"), dict[str, Observed](), None
        working = None
        if cells is not None and self.codebook is not None:
            for kind in feature_kinds():
                seen = kind.observed(cells, self.codebook, self.layout, self.units)
                if seen is not None:
                    others[kind.view] = seen
            if "features" in others:
                view, working = others.pop("features")
                assert isinstance(view, GaussianView | BlockedView)
                intervals = view.intervals
        elif units is not None and features is not None:
            working = np.ascontiguousarray(units.to_working(features))
        if self.link is not None and likelihood is not None:
            design = Model.design(working, others)
            n_levels = design.shape[1] - (0 if working is None else working.shape[1])
            likelihood = LinkedLikelihood.of(
                likelihood, design, self.units["behavior"], _slope_units(units, n_levels)
            )
        return Model(
            self.partition_prior,
            working,
            likelihood,
            n_users,
            pooled=self.pooling is not None,
            spread_prior=self.spread_prior,
            others=others,
            intervals=intervals,
            agreement=self.agreement_prior,
            layout=self.layout,
            heavy_tails=self.tails is not None,
        )


def _units_of(tree: xr.DataTree) -> dict[str, Whitening]:
    if "working" not in tree.children:
        return {}
    group = tree["working"]
    views = [
        str(name).removesuffix(".factor") for name in group.data_vars if ".factor" in str(name)
    ]
    return {
        view: Whitening(*(np.asarray(group[f"{view}.{part}"].values) for part in _UNITS))
        for view in views
    }


def _slope_units(units: Whitening | None, n_levels: int) -> Whitening:
    """Units of the columns that a link follows, given those of the numbers among them."""
    nothing = Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    return (nothing if units is None else units).with_others(n_levels)

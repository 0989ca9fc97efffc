"""Views + behavior + partition prior = a model: its state, its log joint density, a draw from its
prior.

Everything here is in working units. features (U, D) observed, latent (U, q).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Likelihood, check_inherits
from dualview.behaviors.records import Params
from dualview.columns.layout import Layout
from dualview.numerics.hyperprior import SPREADS
from dualview.partitions.agreement import AgreementPrior, LabelsByView, draw_labels
from dualview.partitions.priors import PartitionPrior
from dualview.views import (
    BlockedView,
    GaussianView,
    Intervals,
    Observed,
    SharedVectorView,
    View,
    ViewState,
    feature_view,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class State:
    """Everything the sampler learns. alpha is 1 where there is none, discount None where it is not
    learned; latent is None without a behavior."""

    labels: LabelsByView
    alpha: float
    views: Mapping[str, ViewState]
    latent: Array | None = None
    params: Params = field(default_factory=dict)
    discount: float | None = None

    @property
    def n_components(self) -> int:
        """Components, empty ones included."""
        return next(iter(self.views.values())).n_components

    @property
    def counts(self) -> NDArray[np.int64]:
        """Customers of every component, (K,): users, where all views share one label."""
        return self.labels.count_customers(self.n_components)

    @property
    def z(self) -> NDArray[np.int64]:
        """The labels that draws keep as z, (U,)."""
        return self.labels.kept


@dataclass(frozen=True)
class Model:
    """A feature view, a behavior view, or both, and a prior over partitions. pooled: users of a
    cluster behave alike.

    spread_prior: a name in ``SPREADS``. intervals: which cells of the features are not exact;
    features are then complete vectors to start from. others: further observed views, by name.
    agreement: the prior of the share of users who act as they look, or one for each table; None
    where all do. layout: which features belong to which table, where there are several; they are
    then independent given the cluster. heavy_tails: features have t distributions in their
    clusters, (M19).
    """

    partition: PartitionPrior
    features: Array | None = None
    likelihood: Likelihood | None = None
    n_users: int = 0
    pooled: bool = False
    spread_prior: str = "paper"
    others: Mapping[str, Observed] = field(default_factory=dict)
    intervals: Intervals | None = None
    agreement: AgreementPrior | tuple[AgreementPrior, ...] | None = None
    layout: Layout | None = None
    heavy_tails: bool = False

    def __post_init__(self) -> None:
        if not self.observed and self.likelihood is None:
            raise ValueError("a model needs features, a likelihood or both")
        if self.agreements and (not self.observed or self.likelihood is None):
            raise ValueError("views can disagree only where there are features and a likelihood")
        if self.likelihood is not None:
            check_inherits(self.likelihood, Likelihood, "The likelihood of a model")

    @cached_property
    def agreements(self) -> tuple[AgreementPrior, ...]:
        """The prior of the share of users who act as they look, for every table of features; none
        where all do."""
        if self.agreement is None or isinstance(self.agreement, tuple):
            return self.agreement or ()
        return (self.agreement,) * (1 if self.layout is None else len(self.layout.names))

    @cached_property
    def observed(self) -> dict[str, Observed]:
        """The observed views by name: features first."""
        own = (
            {}
            if self.features is None
            else {"features": Observed(self.feature_view, self.features)}
        )
        return own | dict(self.others)

    @property
    def feature_view(self) -> GaussianView | BlockedView:
        """The view of the features."""
        assert self.features is not None
        n_dims = self.features.shape[1]
        return feature_view(n_dims, self.layout, self.intervals, self.heavy_tails)

    @cached_property
    def views(self) -> dict[str, View]:
        """The views by name: the observed ones, then behavior."""
        views = {name: observed.view for name, observed in self.observed.items()}
        if self.likelihood is not None:
            kind = SharedVectorView if self.pooled else GaussianView
            hyperprior = self.likelihood.hyperprior._replace(of_spreads=SPREADS[self.spread_prior])
            views["behavior"] = kind(self.likelihood.n_dims, hyperprior)
        return views

    @property
    def per_user(self) -> tuple[str, ...]:
        """Names of the likelihood's parameters of which every user has one."""
        return () if self.likelihood is None else self.likelihood.per_user

    @cached_property
    def rows(self) -> dict[str, Array]:
        """Each observed view's vectors with a row per dimension, (D, U)."""
        return {
            name: np.ascontiguousarray(observed.vectors.T)
            for name, observed in self.observed.items()
        }

    def vectors(self, state: State) -> dict[str, Array]:
        """Each view's vector per user: the observed ones, the latent vectors as they stand."""
        vectors = {name: seen.vectors for name, seen in self.observed.items()}
        if state.latent is not None:
            vectors["behavior"] = state.latent
        return vectors

    def functions(self, state: State) -> Array | None:
        """The users' latent behavior: the vectors of its view, with what a link adds to them."""
        if self.likelihood is None or state.latent is None:
            return state.latent
        likelihood = self.held(state).likelihood
        assert likelihood is not None
        return likelihood.functions(state.latent, state.params)

    @property
    def followed_cells(self) -> bool:
        """Whether latent vectors follow features of which some cells are not exact: cells are then
        drawn apart."""
        if self.intervals is None or self.likelihood is None:
            return False
        return self.likelihood.follows_features and self.intervals.n_cells > 0

    def held(self, state: State) -> "Model":
        """The model of the table as it stands, with all cells exact, where latent vectors follow
        them; else this one."""
        if not self.followed_cells:
            return self
        assert self.features is not None
        assert self.intervals is not None
        assert self.likelihood is not None
        own: Any = state.views["features"]
        features = self.feature_view.completed(own, self.features)
        likelihood = self.likelihood.with_features(self.design(features, self.others))
        return replace(
            self, features=features, intervals=self.intervals.held(features), likelihood=likelihood
        )

    @staticmethod
    def design(features: Array | None, others: Mapping[str, Observed]) -> Array:
        """What a link lets latent vectors follow, (U, …): the features, then other observed
        views."""
        parts = [] if features is None else [features]
        return np.hstack(parts + [seen.view.design(seen.vectors) for seen in others.values()])

    def of_observed(self, users: slice) -> "Model":
        """The model of some users without their behavior."""
        features = None if self.features is None else self.features[users]
        intervals = None if self.intervals is None else self.intervals.take(users)
        others = {
            name: Observed(seen.view, seen.vectors[users]) for name, seen in self.others.items()
        }
        n_users = len(range(self.n_users)[users])
        return Model(
            self.partition,
            features,
            None,
            n_users,
            others=others,
            intervals=intervals,
            layout=self.layout,
            heavy_tails=self.heavy_tails,
        )

    def log_joint(self, state: State) -> float:
        """ln p(data, state) up to a constant that depends on nothing learned."""
        held = self.held(state)
        if held is not self:
            return held.log_joint(state)
        total = self.partition.log_density(state.counts, state.alpha, state.discount)
        for name, x in self.vectors(state).items():
            total += self.views[name].log_joint(state.views[name], x, state.labels.of(name))
        total += state.labels.log_density()
        for own, share in zip(self.agreements, state.labels.shares, strict=True):
            total += own.log_density(share)
        if self.likelihood is not None and state.latent is not None:
            total += self.likelihood.log_density(state.latent, state.params)
        return total

    def draw_prior(self, rng: np.random.Generator) -> State:
        """Everything but the data, from the prior."""
        alpha, partition, discount = self.partition.draw_alpha(rng), self.partition, None
        if partition.discount_prior is not None:
            discount = partition.draw_discount(rng)
            partition = partition.given(discount)
        shares = np.array([own.draw(rng) for own in self.agreements])
        labels = draw_labels(rng, partition, alpha, self.n_users, shares)
        n_components = self.partition.n_components or int(labels.z.max()) + 1
        views = {name: view.draw_prior(rng, n_components) for name, view in self.views.items()}
        if self.likelihood is None:
            return State(labels, alpha, views, discount=discount)
        latent = self.views["behavior"].simulate(rng, views["behavior"], labels.behavior)
        params = self.likelihood.draw_prior(rng, labels.behavior)
        return State(labels, alpha, views, latent, params, discount)

    def simulate(self, rng: np.random.Generator, state: State) -> "Model":
        """The same model with new data drawn given the state."""
        likelihood = self.likelihood
        drawn = {
            name: view.simulate(rng, state.views[name], state.labels.of(name))
            for name, view in self.views.items()
            if name in self.observed
        }
        features, intervals = drawn.get("features"), self.intervals
        if features is not None and intervals is not None:
            intervals = intervals.observe(features)
        others = {
            name: Observed(*seen.view.observed(drawn[name], seen.vectors))
            for name, seen in self.others.items()
        }
        if likelihood is not None and likelihood.follows_features:
            likelihood = likelihood.with_features(self.design(features, others))
        if likelihood is not None and state.latent is not None:
            likelihood = likelihood.simulate(rng, state.latent, state.params)
        return replace(
            self, features=features, intervals=intervals, likelihood=likelihood, others=others
        )

    def restarted(self, state: State) -> State:
        """The state with the cells that are not exact at their values in ``features``: those that
        ``simulate`` has drawn."""
        if self.features is None or self.intervals is None:
            return state
        view = state.views["features"]
        parts = (
            view.component_parts | view.base_parts | {"cells": self.intervals.values(self.features)}
        )
        return replace(
            state, views={**state.views, "features": self.views["features"].restored(parts)}
        )

"""Joint tests of the sampler with several behaviors of the same users, and mutants that they must
reject."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from checks import (
    LostChainsError,
    by_blocks,
    joint_tests,
    mutant_tests,
)
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods import several
from dualview.behaviors.likelihoods.several import Layout, SeveralLikelihoods
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.numerics.messages import Terms
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from engines.gibbs.few_users import N_USERS, USER, linked, model
from engines.gibbs.test_joint import regression as threads
from engines.gibbs.test_joint_effects import with_effects
from rows import logit_rows, normal_rows


def panel(n_dims: int, seed: int = 7) -> Panel:
    design = np.random.default_rng(seed).standard_normal((len(USER), n_dims))
    return Panel.of(USER, design, np.zeros(len(USER)), N_USERS)


def regression(n_dims: int = 1) -> UserRows:
    return normal_rows(panel(n_dims), NoisePrior(1.0, 3.0))


def answers(n_dims: int = 1, n_items: int = 0) -> UserRows:
    appeal = np.random.default_rng(8).integers(-1, 2, (len(USER), n_items)).astype(float)
    return logit_rows(panel(n_dims, 9), sparse.csr_array(appeal), np.linspace(-0.5, 0.5, len(USER)))


def both(first: Any, second: Any) -> SeveralLikelihoods:
    return SeveralLikelihoods.of({"first": first, "second": second})


MODELS = {
    "regression and answers, process": lambda: model(
        ChineseRestaurant(), both(regression(), answers())
    ),
    "regression and answers, three clusters": lambda: model(
        FiniteDirichlet(3), both(regression(2), answers(1, 2)), False
    ),
    "threads and regression, process": lambda: model(
        ChineseRestaurant(), both(threads(), regression())
    ),
    "threads with covariates and regression, three clusters": lambda: model(
        FiniteDirichlet(3), both(threads(2), regression()), False
    ),
    "threads and answers, one cluster": lambda: model(
        OneCluster(), both(threads(), answers()), False
    ),
    "regression with effects and answers, three clusters": lambda: model(
        FiniteDirichlet(3), both(with_effects(regression()), answers()), False
    ),
    "regression and answers, linked, three clusters": lambda: linked(
        FiniteDirichlet(3), both(regression(), answers())
    ),
    "threads and regression, linked, three clusters": lambda: linked(
        FiniteDirichlet(3), both(threads(), regression())
    ),
}


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS)


test_sampler_by_blocks_leaves_the_joint_prior_as_it_is = joint_tests(
    MODELS,
    ["regression and answers, process", "threads and regression, process"],
    change=by_blocks,
)


def with_precision(monkeypatch: pytest.MonkeyPatch, behavior: int, factor: float) -> None:
    """The sweep sees the observations of one behavior with another precision."""
    right = Layout.joined

    def wrong(self: Layout, parts: list[Terms]) -> Terms:
        terms = right(self, parts)
        terms.precision[self.places[behavior]] *= factor
        return terms

    monkeypatch.setattr(Layout, "joined", wrong)


def first_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A behavior that the sweep does not see, while its noise is drawn given its observations.

    With answers, which have no noise, the joint test could not tell: vectors that are drawn without
    data have their prior.
    """
    with_precision(monkeypatch, 0, 0.0)


def second_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with_precision(monkeypatch, 1, 0.0)


def second_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with_precision(monkeypatch, 1, 2.0)


def blocks_as_if_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is redrawn as if the others said nothing about it."""
    right = several.block_prior
    monkeypatch.setattr(several, "block_prior", lambda *given: right(*given)._replace(shift=None))


MUTANTS = {
    "first-is-dropped": (first_is_dropped, "regression and answers, process"),
    "second-is-dropped, threads": (second_is_dropped, "threads and regression, process"),
    "second-counts-twice": (second_counts_twice, "regression and answers, three clusters"),
    "second-counts-twice, threads": (second_counts_twice, "threads and regression, process"),
    "blocks-as-if-independent": (
        blocks_as_if_independent,
        "threads with covariates and regression, three clusters",
    ),
}


test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, ends=(LostChainsError,))

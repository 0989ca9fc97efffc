"""Joint tests of the sampler with a linear link, and mutants that they must reject."""

from typing import Any

import numpy as np
import pytest

from checks import joint_tests, mutant_tests
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.likelihoods.linked import LinearLink, LinkedLikelihood
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.distributions import G
from dualview.model import Model
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import GaussianPrior, Whitening
from engines.gibbs.test_joint import N_USERS, regression
from rows import normal_rows

USER = np.array([1, 2, 2, 3, 4, 1, 4])  # user 0 has no observations


def panel() -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), 2))
    return normal_rows(Panel.of(USER, design, np.zeros(len(USER)), N_USERS), NoisePrior(1.0, 1.0))


def linked(partition: Any, inner: Any, n_features: int = 2, pooled: bool = False) -> Model:
    """The spread of slopes is that of correlated units where latent vectors have two numbers."""
    features = np.zeros((N_USERS, n_features))
    covariance = np.eye(1) if inner.n_dims == 1 else np.array([[1.0, 0.6], [0.6, 2.0]])
    units = Whitening.of(GaussianPrior(np.zeros(inner.n_dims), covariance))
    feature_units = Whitening.of(GaussianPrior(np.zeros(n_features), np.eye(n_features)))
    likelihood = LinkedLikelihood.of(inner, features, units, feature_units)
    return Model(partition, features, likelihood, N_USERS, pooled)


MODELS = {
    "threads, process": lambda: linked(ChineseRestaurant(), regression()),
    "threads, one cluster": lambda: linked(OneCluster(), regression(), 1),
    "threads with covariates, one cluster": lambda: linked(OneCluster(), regression(1), 1),
    "pooled threads, three clusters": lambda: linked(
        FiniteDirichlet(3), regression(), 1, pooled=True
    ),
    "pooled threads with covariates, one cluster": lambda: linked(
        OneCluster(), regression(1), 1, pooled=True
    ),
    "regressions, three clusters": lambda: linked(FiniteDirichlet(3), panel(), 1),
}


def slow(case: Any) -> Any:
    return pytest.param(case, marks=pytest.mark.slow)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS)


def slopes_given_latent_forget_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LinearLink.law_given_latent

    def wrong(
        self: LinearLink, latent: Any, z: Any, means: Any, factors: Any, precision: float
    ) -> Any:
        return right(self, latent, z, means, factors, 0.02 * precision)

    monkeypatch.setattr(LinearLink, "law_given_latent", wrong)


def slopes_without_their_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LinearLink.law_given_observations

    def wrong(self: LinearLink, effects: Any, link: Any, terms: Any) -> Any:
        return right(self, effects, link._replace(slopes=0.0 * link.slopes), terms)

    monkeypatch.setattr(LinearLink, "law_given_observations", wrong)


def precision_counts_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LinearLink.precision_law
    monkeypatch.setattr(
        LinearLink,
        "precision_law",
        lambda self, s: G(right(self, s).dof - 1.0 + 1e-9, right(self, s).inverse_scale),
    )


def joint_draw_forgets_the_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    """(C7) with the cluster's mean alone."""
    right = ThreadRegression._draw_jointly
    monkeypatch.setattr(thread_regression, "_JOINT_SHARE", 1.0)
    monkeypatch.setattr(
        ThreadRegression,
        "_draw_jointly",
        lambda self, rng, s, prior, *rest: right(self, rng, s, prior._replace(shift=None), *rest),
    )


MUTANTS = {
    "slopes-given-latent-forget-prior": slopes_given_latent_forget_prior,
    "slopes-given-observations-without-their-own-part": slopes_without_their_own_part,
    "precision-counts-one-less": precision_counts_one_less,
    "joint-draw-forgets-the-shift": joint_draw_forgets_the_shift,
}
FAINT = {"slopes-given-latent-forget-prior": {"n_chains": 600}}


test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, "threads, one cluster", own=FAINT)

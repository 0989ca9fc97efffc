"""Joint tests of the sampler with effects outside the mixture: common coefficients and groups, with
mutants."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from checks import joint_tests, mutant_tests, mutate
from dualview.behaviors.base import Likelihood
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods import effects_draw
from dualview.behaviors.likelihoods import with_effects as effects_module
from dualview.behaviors.likelihoods.effects_draw import SparseDesign
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.likelihoods.with_effects import EffectUnits, WithEffects
from dualview.behaviors.panel import Panel
from dualview.engines.gibbs import engine
from dualview.model import Model
from dualview.numerics.slice_sampling import sampler
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import GaussianPrior, Whitening
from rows import logit_rows, normal_rows

N_USERS = 5
USER = np.array([1, 2, 2, 3, 4, 1, 4, 4, 2])  # user 0 has no observations
ITEM = np.array([0, 1, 2, 0, 1, 2, 2, 0, 1])
PLACE = np.array([0, 0, 1, 1, 0, 1, 0, 1, 1])
STANDARD = EffectUnits(Whitening(np.zeros(1), np.eye(1), np.eye(1)), 1.0)


def panel(n_dims: int) -> Panel:
    """A level of each user, and slopes."""
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    design[:, 0] = 1.0
    return Panel.of(USER, design, np.zeros(len(USER)), N_USERS)


def with_effects(inner: Likelihood, n_common: int = 1, two_groups: bool = True) -> WithEffects:
    """Items, and places across them, around a likelihood of these observations."""
    order = np.argsort(USER, kind="stable")
    common = np.random.default_rng(9).standard_normal((len(USER), n_common))
    columns, levels = [np.tile(np.arange(n_common), (len(USER), 1)), n_common + ITEM[:, None]], [3]
    if two_groups:
        columns.append(n_common + 3 + PLACE[:, None])
        levels.append(2)
    values = np.hstack([common, np.ones((len(USER), len(levels)))])
    bounds = n_common + np.concatenate([[0], np.cumsum(levels)])
    design = SparseDesign(
        np.hstack(columns)[order].astype(np.int64), values[order], int(bounds[-1])
    )
    return WithEffects(
        inner, design, n_common, bounds, np.array([1.0, 0.5])[: len(levels)], STANDARD
    )


def threads() -> ThreadRegression:
    """Threads of three sections, with a covariate; the weights of each sum to one."""
    rng, none = np.random.default_rng(7), np.eye(1)
    took_part = (rng.random((len(USER), N_USERS)) < 0.5) + np.eye(len(USER), N_USERS)
    took_part[N_USERS:, 0] += 1.0
    sections = sparse.csr_array(
        (np.ones(len(USER)), (np.arange(len(USER)), ITEM)), shape=(len(USER), 3)
    )
    columns = sparse.hstack(
        [sparse.csr_array(rng.standard_normal((len(USER), 1))), sections], format="csr"
    )
    return ThreadRegression(
        design=sparse.csr_array(took_part / took_part.sum(axis=1, keepdims=True)),
        coefficient_design=columns,
        outcome=np.zeros(len(USER)),
        noise_variance=1.0,
        coefficient_units=Whitening(np.zeros(1), none, none),
        bounds=np.array([1, 4]),
        scales=np.array([1.0]),
    )


def regression(n_dims: int = 2, by_cluster: bool = False, known: bool = False) -> UserRows:
    return normal_rows(panel(n_dims), NoisePrior(1.0, 3.0), by_cluster, known_noise=known)


def answers(n_dims: int = 2) -> UserRows:
    return logit_rows(
        panel(n_dims), sparse.csr_array((len(USER), 0)), np.linspace(-0.5, 0.5, len(USER))
    )


def model(
    partition: Any, likelihood: Any, with_features: bool = False, pooled: bool = False
) -> Model:
    return Model(
        partition, np.zeros((N_USERS, 1)) if with_features else None, likelihood, N_USERS, pooled
    )


def linked(partition: Any, likelihood: Any, pooled: bool = False) -> Model:
    x, q = np.zeros((N_USERS, 1)), likelihood.n_dims
    units, feature_units = (Whitening.of(GaussianPrior(np.zeros(n), np.eye(n))) for n in (q, 1))
    return Model(
        partition, x, LinkedLikelihood.of(likelihood, x, units, feature_units), N_USERS, pooled
    )


MODELS = {
    "groups, one cluster": lambda: model(OneCluster(), with_effects(regression(1), 0)),
    "groups and common, three clusters": lambda: model(
        FiniteDirichlet(3), with_effects(regression())
    ),
    "groups, noise by cluster, process": lambda: model(
        ChineseRestaurant(), with_effects(regression(2, True), 0), True
    ),
    "groups, link, process": lambda: linked(ChineseRestaurant(), with_effects(regression())),
    "answers, groups, link, process": lambda: linked(ChineseRestaurant(), with_effects(answers())),
    "answers, a group, one cluster": lambda: model(
        OneCluster(), with_effects(answers(1), 0, False)
    ),
    "threads of groups, process": lambda: model(ChineseRestaurant(), threads()),
    "threads of groups, pooled, three clusters": lambda: model(
        FiniteDirichlet(3), threads(), pooled=True
    ),
    "groups, pooled, process": lambda: model(
        ChineseRestaurant(), with_effects(regression()), pooled=True
    ),
    "answers, groups, link, pooled, process": lambda: linked(
        ChineseRestaurant(), with_effects(answers(1)), pooled=True
    ),
}


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS)


# By conjugate gradients, as with very many levels.
test_without_ever_forming_the_matrix = joint_tests(
    MODELS,
    ["groups, link, process", "groups, one cluster", "groups, pooled, process"],
    seeds=[1],
    change=lambda monkeypatch: monkeypatch.setattr(effects_draw, "MOST_DENSE", 0),
)


def vectors_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects are drawn with the vectors integrated out, and these are not drawn given them."""
    right = effects_module.draw_with_vectors

    def wrong(rng: Any, design: Any, precision: Any, terms: Any, prior: Any, standing: Any) -> Any:
        before = terms.residual.copy()
        drawn = right(rng, design, precision, terms, prior, standing)
        terms.residual[:] = before - effects_draw.times(design, drawn.effects - standing.effects)
        return drawn._replace(latent=standing.latent)

    monkeypatch.setattr(effects_module, "draw_with_vectors", wrong)


def no_prior_of_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects are drawn as if they varied twice as much as they do."""
    right = WithEffects.redraw

    def wrong(self: Any, rng: Any, latent: Any, params: Any, terms: Any, prior: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            precision = WithEffects.prior_precision
            patch.setattr(
                WithEffects, "prior_precision", lambda own, sds: precision(own, 2.0 * sds)
            )
            return right(self, rng, latent, params, terms, prior)

    monkeypatch.setattr(WithEffects, "redraw", wrong)


def vectors_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Λ as if the vectors were known."""
    old = "matrix[column[a], column[b]] -= half[a, i] * half[b, i]"
    monkeypatch.setattr(
        effects_draw, "marginal_gram", mutate(effects_draw.marginal_gram, old, "pass")
    )


def slices_of(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """ln τ by slices of another density."""
    wrong = sampler(mutate(effects_module.log_tau_density, old, new))
    monkeypatch.setattr(
        effects_module,
        "draw_log_tau",
        lambda rng, parameters: wrong(rng, parameters, parameters.start, 1.0),
    )


def no_jacobian_of_tau(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density of τ taken for that of ln τ."""
    slices_of(monkeypatch, "return x - 2.0", "return 0.0 * x - 2.0")


def residuals_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects grow with τ as if observations had nothing to say of it."""
    slices_of(monkeypatch, "given_effects + by_growth", "given_effects + 0.0 * by_growth")


def base_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step between effects and vectors that forgets the base mean."""
    right = engine.recentered

    def wrong(rng: Any, m: Model, state: Any) -> Any:
        after = right(rng, m, state)
        parts = after.views["behavior"].component_parts | after.views["behavior"].base_parts
        parts |= {"base_mean": state.views["behavior"].base_parts["base_mean"]}
        after.views["behavior"] = m.views["behavior"].restored(parts)
        return after

    monkeypatch.setattr(engine, "recentered", wrong)


def effects_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of all vectors that effects do not make up for."""
    right = WithEffects.recenter
    monkeypatch.setattr(
        WithEffects,
        "recenter",
        lambda self, rng, params, mean: right(self, rng, params, mean)._replace(params=params),
    )


MUTANTS = {
    "vectors-stay-behind": (vectors_stay_behind, "groups, one cluster"),
    "no-prior-of-effects": (no_prior_of_effects, "groups, one cluster"),
    "vectors-count-twice": (vectors_count_twice, "groups, one cluster"),
    "no-jacobian-of-tau": (no_jacobian_of_tau, "groups, one cluster"),
    "residuals-do-not-grow": (residuals_do_not_grow, "groups, one cluster"),
    "vectors-stay-behind, link": (vectors_stay_behind, "groups, link, process"),
}


FAINT = {"vectors-count-twice": {"n_chains": 600}}


test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, own=FAINT)


def recentering_misfit(name: str) -> float:
    """By how much the joint density along a step of ``engine.recentered`` differs from the law that
    it is drawn from."""
    rng = np.random.default_rng(3)
    made = MODELS[name]()
    state = made.draw_prior(rng)
    made = made.simulate(rng, state)
    law = made.likelihood.recentering_law(
        state.params, state.views["behavior"].base_parts["base_mean"]
    )
    step, before = law.draw(np.random.default_rng(4)), made.log_joint(state)
    after = made.log_joint(engine.recentered(np.random.default_rng(4), made, state))
    return float(abs(after - before - law.log_density(step) + law.log_density(np.zeros_like(step))))


RECENTERED = ["groups, one cluster", "answers, a group, one cluster"]


@pytest.mark.parametrize("name", RECENTERED)
def test_ratio_of_a_step_between_effects_and_vectors(name: str) -> None:
    assert recentering_misfit(name) < 1e-8


@pytest.mark.parametrize("mutant", [base_stays_behind, effects_stay_behind])
@pytest.mark.parametrize("name", RECENTERED)
def test_such_a_step_that_leaves_something_behind_is_rejected(
    name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The joint test has no power against these: effects and vectors are redrawn together right
    after the step."""
    mutant(monkeypatch)
    assert recentering_misfit(name) > 1e-3

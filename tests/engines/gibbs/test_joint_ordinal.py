"""Joint tests of the sampler with ordered levels, alone and with pooling or a link, and mutants
that they must reject."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from checks import joint_tests, mutant_tests, view_statistics
from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families import ordinal as families
from dualview.behaviors.families.ordinal import CutPrior, Known
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.model import Model, State
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from engines.gibbs.few_users import N_USERS, USER, linked, model
from rows import ordinal_rows


def ordinal(n_dims: int, known: Known | None = None, n_cuts: int = 3) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    panel = Panel.of(USER, design, np.zeros(len(USER)), N_USERS)
    return ordinal_rows(panel, np.linspace(-0.5, 0.5, len(USER)), CutPrior(n_cuts, known))


def with_groups() -> Any:
    """Items and a common column around levels whose vectors begin with an intercept."""
    order, rng = np.argsort(USER, kind="stable"), np.random.default_rng(9)
    design = np.column_stack([np.ones(len(USER)), rng.standard_normal(len(USER))])
    panel = Panel.of(USER, design, np.zeros(len(USER)), N_USERS)
    inner = ordinal_rows(panel, np.zeros(len(USER)), CutPrior(2, Known(0, -0.4)))
    items = {"item": np.array([0, 1, 2, 0, 1, 2, 2, 0, 1])}
    effects = Effects.of(len(USER), rng.standard_normal((len(USER), 1)), items, None, None)
    return effects.around(inner, effects.units(1.0), order, Scales(1.0, 1.0))


MODELS = {
    "one cluster": lambda: model(OneCluster(), ordinal(1, Known(1, 0.3)), False),
    "process": lambda: model(ChineseRestaurant(), ordinal(2)),
    "process, a known cut point": lambda: model(ChineseRestaurant(), ordinal(2, Known(0, -0.7), 2)),
    "pooled, process": lambda: model(ChineseRestaurant(), ordinal(2), pooled=True),
    "groups and common, process": lambda: model(ChineseRestaurant(), with_groups()),
    "linked, three clusters": lambda: linked(FiniteDirichlet(3), ordinal(2, Known(1, 0.3))),
}


def look(model: Model, state: State) -> dict[str, float]:
    """Bounded statistics of clusters, vectors, cut points and levels."""
    likelihood, latent, cuts = (
        model.held(state).likelihood,
        state.latent,
        state.params["cut_points"],
    )
    if "slopes" in state.params:
        latent, likelihood = likelihood.functions(latent, state.params), likelihood.inner
    result = {}
    if "group_effects" in state.params:
        result = {
            f"item {i}": float(np.arctan(effect))
            for i, effect in enumerate(state.params["group_effects"])
        }
        result |= {
            "group_sd": float(np.log(state.params["group_sd"][0])),
            "common": float(np.arctan(state.params["common"][0])),
        }
        likelihood, _ = likelihood._inside(state.params)
    eta, level = likelihood.predictor(latent), likelihood.panel.outcome
    result |= view_statistics(model, state) | {
        "level": float(level.mean()),
        "ends": float(((level == 0) | (level == level.max())).mean()),
        "eta": float(np.arctan(eta).mean()),
        "fit": float((np.arctan(eta) * (level - 1.0)).mean()),
        "gaps": float(np.arctan(np.diff(cuts)).mean()),
        "cuts_and_levels": float(np.arctan(cuts).mean() * level.mean()),
    }
    if model.partition.n_components != 1:
        result["occupied"] = float(np.count_nonzero(state.counts))
    return result | {
        f"cut {j}": float(np.arctan(cuts[j])) for j in likelihood.family.cut_prior.free
    }


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


def no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut points as if the likelihood were that of the two answers alone."""
    monkeypatch.setattr(
        "dualview.behaviors.families.ordinal.log_gap",
        lambda width: np.where(width > 0.0, 0.0, -np.inf),
    )


def one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels in the middle as if they were only above the cut point below them."""
    right = families.level_answers

    def wrong(place: Any, eta: Any, cuts: Any) -> Any:
        answers = right(place, eta, cuts)
        inner = np.repeat((place > 0) & (place < len(cuts)), 2)
        return answers._replace(signs=np.where(inner & (answers.signs < 0), 0.0, answers.signs))

    monkeypatch.setattr(families, "level_answers", wrong)


MUTANTS = {"no_gap": no_gap, "one_answer": one_answer}
test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, "one cluster", look=look)


def test_draws_of_the_prior_are_those_of_its_density() -> None:
    """Means of a known share: ordered uniform numbers, below and above the one that is known."""
    rng, known = np.random.default_rng(3), Known(1, 0.4)
    for prior, expected in (
        (CutPrior(3), np.array([1.0, 2.0, 3.0]) / 4),
        (CutPrior(3, known), np.array([expit(0.4) / 2, expit(0.4), (1 + expit(0.4)) / 2])),
    ):
        drawn = expit(np.array([prior.draw(rng) for _ in range(4000)]))
        assert (np.diff(drawn, axis=1) > 0).all()
        errors = drawn.std(axis=0) / np.sqrt(len(drawn)) + 1e-12
        assert (np.abs(drawn.mean(axis=0) - expected) < 4.5 * errors).all()

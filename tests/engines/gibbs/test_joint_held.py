"""Joint tests of the sampler with a family that has no augmentation, with effects outside the
mixture, clusters whose users share a vector, a link and labels by view; and mutants that they must
reject.

The family is that of yes or no, whose answers are simulated however far locations are; here it has
derivatives in place of its augmentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from checks import joint_tests, mutant_tests
from dualview.behaviors.families.base import Outcome, Rows
from dualview.behaviors.families.logit import BinaryOutcome, LogitFamily
from dualview.behaviors.likelihoods import metropolis
from dualview.behaviors.likelihoods import with_effects as effects_module
from dualview.behaviors.likelihoods.common_step import CommonStep
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.engines.gibbs import blocks
from dualview.model import Model
from dualview.partitions.agreement import Beta
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from engines.gibbs.test_joint_effects import USER, linked, model, panel, with_effects

Array = Any


class HeldOutcome(BinaryOutcome):
    """Yes or no, with derivatives."""

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        chances = expit(locations)
        return values - chances, chances * (1.0 - chances)


@dataclass(frozen=True)
class HeldFamily(LogitFamily):
    """Yes or no, without an augmentation."""

    has_augmentation = False
    n_answers = 0

    def outcome(self, phi: Any, rows: Rows) -> Outcome:  # noqa: ARG002
        return HeldOutcome()


def answers(n_dims: int = 2) -> UserRows:
    return UserRows(panel(n_dims), HeldFamily(), np.linspace(-0.5, 0.5, len(USER)))


def by_view(pooled: bool) -> Model:
    """Users who look like one cluster and answer like another, some of them."""
    made = model(ChineseRestaurant(), answers(1), True, pooled)
    return Model(
        made.partition, made.features, made.likelihood, made.n_users, pooled, agreement=Beta(1, 1)
    )


MODELS = {
    "process": lambda: model(ChineseRestaurant(), answers(), True),
    "pooled, process": lambda: model(ChineseRestaurant(), answers(), pooled=True),
    "pooled, three clusters": lambda: model(FiniteDirichlet(3), answers(), True, pooled=True),
    "groups and common, process": lambda: model(ChineseRestaurant(), with_effects(answers())),
    "groups, one cluster": lambda: model(OneCluster(), with_effects(answers(1), 0)),
    "groups, pooled, process": lambda: model(
        ChineseRestaurant(), with_effects(answers()), pooled=True
    ),
    "link, process": lambda: linked(ChineseRestaurant(), answers(1)),
    "groups, link, pooled, process": lambda: linked(
        ChineseRestaurant(), with_effects(answers(1)), pooled=True
    ),
    "labels by view, pooled, process": lambda: by_view(pooled=True),
}

test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS)


def rows_do_not_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels as if observations said nothing of them."""
    right = UserRows.log_table
    monkeypatch.setattr(UserRows, "log_table", lambda *a, **k: 0.0 * np.nan_to_num(right(*a, **k)))


def new_clusters_keep_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that takes the place of one that was opened has what observations said of it."""
    right = blocks.tell_by_density

    def wrong(log_table: Any) -> Any:
        tell = right(log_table)

        def once(table: Any, offset: int, first: int, end: int, columns: Any, state: Any) -> None:
            if len(columns) == len(state.counts):
                tell(table, offset, first, end, columns, state)

        return once

    monkeypatch.setattr("dualview.engines.gibbs.engine.blocks.tell_by_density", wrong)


def proposals_are_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals about a mode are taken for steps that are as likely back as forth."""
    monkeypatch.setattr(metropolis, "_log_t", lambda away, _: np.zeros(len(away)))


def no_prior_of_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects move as if they varied twice as much as they do."""
    right = effects_module.EffectBlock.move
    monkeypatch.setattr(
        effects_module.EffectBlock,
        "move",
        lambda self, rng, density, effects, precision: right(
            self, rng, density, effects, 0.25 * precision
        ),
    )


def rows_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects grow with τ as if observations had nothing to say of it."""
    monkeypatch.setattr(metropolis.RowDensity, "total", 0.0)


def slopes_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes of the link from their prior."""
    right = metropolis.move

    def wrong(rng: Any, density: Any, owner: Any, design: Any, *rest: Any) -> Any:
        return right(rng, density, owner, 0.0 * design, *rest)

    monkeypatch.setattr(metropolis, "move", wrong)


def vectors_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common coefficients move as if vectors made up for it, which stay where they are."""
    right = CommonStep.move

    def wrong(self: CommonStep, rng: Any, common: Array) -> Any:
        moved, _, density = right(self, rng, common)
        return moved, self.vectors[self.owner], density

    monkeypatch.setattr(CommonStep, "move", wrong)


MUTANTS = {
    "vectors-stay-behind": (vectors_stay_behind, "groups, pooled, process"),
    "rows-do-not-choose": (rows_do_not_choose, "pooled, process"),
    "new-clusters-keep-what-was-told": (new_clusters_keep_what_was_told, "pooled, process"),
    "proposals-are-symmetric": (proposals_are_symmetric, "pooled, three clusters"),
    "no-prior-of-effects": (no_prior_of_effects, "groups, one cluster"),
    "rows-do-not-grow": (rows_do_not_grow, "groups, one cluster"),
    "slopes-without-rows": (slopes_without_rows, "groups, link, pooled, process"),
}
test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS)

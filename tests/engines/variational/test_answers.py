"""Yes-or-no answers and choices in the variational engine: the bound of the logistic likelihood,
fits, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.behaviors.approximation.latent import SoftPrior
from dualview.behaviors.approximation.rows import SoftRows
from dualview.behaviors.families.logit import TiltFactor, expected_weights
from dualview.errors import InputError

N_USERS = 20
RNG = np.random.default_rng(2)
LABELS = np.arange(N_USERS) % 2
USER = np.repeat(np.arange(N_USERS), 12)
DESIGN = np.column_stack([np.ones(len(USER)), RNG.standard_normal(len(USER))])
ODDS = np.where(LABELS, 1.5, -1.5)[USER] + np.where(LABELS, 2.0, -1.0)[USER] * DESIGN[:, 1]
ANSWERS = RNG.random(len(USER)) < 1.0 / (1.0 + np.exp(-ODDS))
FEATURES = RNG.standard_normal((N_USERS, 2)) + 4.0 * LABELS[:, None]


def _behavior(rows: slice | np.ndarray = slice(None)) -> dv.BinaryOutcomes:
    return dv.BinaryOutcomes(
        USER[rows], DESIGN[rows], ANSWERS[rows], offset=0.3 * DESIGN[rows, 1], n_users=N_USERS
    )


def _solved(n_updates: int) -> SoftRows:
    latent = _behavior().prepare(None)[1].approximate()
    assert isinstance(latent, SoftRows)
    assert isinstance(latent.factor, TiltFactor)
    prior = SoftPrior(
        np.stack([LABELS, 1.0 - LABELS]),
        np.array([np.eye(2), 2.0 * np.eye(2)]),
        np.eye(2),
        np.zeros(2),
        np.zeros((2, 2)),
    )
    for _ in range(n_updates):
        latent = latent.with_latent(prior).with_params()
    return latent


def test_weights_are_those_of_the_polya_gamma_distribution() -> None:
    np.testing.assert_allclose(expected_weights(np.array([0.0, 2.0])), [0.25, np.tanh(1.0) / 4.0])
    near = expected_weights(np.array([0.99e-4, 1.01e-4]))
    assert near[0] == pytest.approx(near[1], rel=1e-9)


def test_the_bound_is_the_expectation_of_numbers_below_the_log_likelihood() -> None:
    latent = _solved(4)
    draws = latent.draws(np.random.default_rng(0), 2000)
    odds = np.array([latent.likelihood.predictor(vectors) for vectors in draws.latent])
    outcome, tilts = latent.likelihood.panel.outcome, latent.factor.tilts
    below = (
        (outcome - 0.5) * odds
        - 0.5 * expected_weights(tilts) * (odds**2 - tilts**2)
        - 0.5 * tilts
        + log_expit(tilts)
    )
    assert (below <= log_expit((2.0 * outcome - 1.0) * odds) + 1e-12).all()
    values = below.sum(axis=1)
    assert abs(values.mean() - (latent.bound() - latent.entropy)) < 4.5 * values.std() / np.sqrt(
        len(values)
    )


def test_at_the_best_weights_the_bound_is_highest() -> None:
    latent = _solved(3)
    best = latent.bound()
    for scale in (0.9, 1.1):
        assert replace(latent, factor=TiltFactor(scale * latent.factor.tilts)).bound() < best


def test_answers_are_fitted_and_more_of_them_taken_in() -> None:
    even = np.arange(len(USER)) % 2 == 0
    model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=60).fit(
        FEATURES, _behavior(even)
    )
    assert adjusted_rand_score(LABELS, model.labels_) == 1.0
    before = model.posterior_.flat("latent").std(axis=0).mean()
    model.partial_fit(None, _behavior(~even))
    assert model.behavior_ is not None
    assert len(model.behavior_.observed) == len(USER)
    assert model.posterior_.flat("latent").std(axis=0).mean() < before
    predicted = model.predict_outcome(_behavior())
    assert predicted.nll(ANSWERS.astype(float)) < 0.6


def test_choices_keep_their_items_and_appeals_are_refused() -> None:
    items = RNG.standard_normal((4, 2))
    first = dv.PairwiseChoices([0, 1, 2], [0, 1, 2], [1, 2, 3], items, n_users=3)
    both = first.extended(dv.PairwiseChoices([2, 0], [3, 0], [0, 2], items, n_users=3), 0)
    assert both.winner.tolist() == [0, 1, 2, 3, 0]
    assert both.prepare(None)[1].can_approximate
    with pytest.raises(InputError, match="the 4 items of the fit"):
        first.extended(dv.PairwiseChoices([2], [0], [1], items + 1.0, n_users=3), 0)
    choices = dv.PairwiseChoices(
        USER, np.arange(len(USER)) % 4, (np.arange(len(USER)) + 1) % 4, items, item_intercept=True
    )
    with pytest.raises(InputError, match="UserRows"):
        dv.DualViewMixture(engine="variational").fit(FEATURES, choices)

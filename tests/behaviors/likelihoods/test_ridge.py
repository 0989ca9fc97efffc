"""The ridge estimate (M11), against scikit-learn, against explicit least squares, and its iterative
path."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import dualview as dv
import naive
from dualview.behaviors.likelihoods import ridge
from dualview.behaviors.likelihoods.ridge import ridge_estimate

SHAPES = [(40, 8), (8, 40), (15, 15)]


def threads(n_threads, n_users, seed=0):
    rng = np.random.default_rng(seed)
    design = (rng.random((n_threads, n_users)) < 0.4) * rng.uniform(0.5, 2.0, (n_threads, n_users))
    return design, design @ rng.normal(3.0, 2.0, n_users) + rng.normal(size=n_threads), rng


def nothing(design):
    return np.empty((design.shape[0], 0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_equals_scikit_learn(shape, form):
    design, outcome, _ = threads(*shape)
    expected = Ridge(alpha=0.01, fit_intercept=False, solver="svd").fit(design, outcome).coef_
    np.testing.assert_allclose(
        ridge_estimate(form(design), outcome, nothing(design), 0.01), expected, rtol=1e-9
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_intercept_equals_scikit_learn(shape):
    design, outcome, _ = threads(*shape)
    expected = Ridge(alpha=0.01, solver="svd").fit(design, outcome).coef_
    np.testing.assert_allclose(
        ridge_estimate(design, outcome, np.ones((len(outcome), 1)), 0.01), expected, rtol=1e-8
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("singular", [False, True])
def test_unpenalised_columns_equal_explicit_least_squares(shape, form, singular):
    design, outcome, rng = threads(*shape)
    columns = np.column_stack([np.ones(len(outcome)), rng.normal(size=(len(outcome), 2))])
    if singular:
        columns = np.column_stack(
            [columns, columns[:, 0] - 2 * columns[:, 1], np.zeros(len(outcome))]
        )
    estimate = ridge_estimate(form(design), outcome, columns, 0.3)
    np.testing.assert_allclose(
        estimate, naive.ridge(design, outcome, 0.3, columns)[: shape[1]], rtol=1e-8, atol=1e-10
    )


def test_scale_of_unpenalised_columns_does_not_matter():
    design, outcome, rng = threads(40, 8)
    columns = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    expected = ridge_estimate(design, outcome, columns, 0.01)
    np.testing.assert_allclose(
        ridge_estimate(design, outcome, columns * [1, 1e14, 1e-14], 0.01), expected, rtol=1e-9
    )


def test_is_linear_in_the_outcome():
    design, outcome, _ = threads(20, 30)
    columns = np.ones((20, 1))
    moved = ridge_estimate(design, 7.0 - 3.0 * outcome, columns, 0.01)
    np.testing.assert_allclose(
        moved, -3.0 * ridge_estimate(design, outcome, columns, 0.01), rtol=1e-8
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_columns", [0, 1, 3])
def test_iterative_path_equals_the_dense_one(shape, n_columns, monkeypatch):
    design, outcome, rng = threads(*shape)
    columns = np.column_stack([np.ones(len(outcome)), rng.normal(size=(len(outcome), 2))])[
        :, :n_columns
    ]
    expected = ridge_estimate(design, outcome, columns, 0.01)
    monkeypatch.setattr(ridge, "DENSE_LIMIT", 0)
    for form in (np.asarray, sparse.csr_array):
        estimate = ridge_estimate(form(design), outcome, columns, 0.01)
        np.testing.assert_allclose(estimate, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-8, 1e8, 1e100])
def test_very_large_and_small_weights(scale):
    """Where the penalty is lost in rounding the answer is least squares, where it rules it is Pᵀy /
    λ."""
    design, outcome, _ = threads(40, 8)
    estimate = ridge_estimate(design * scale, outcome, nothing(design), 0.01)
    expected = (
        design.T @ outcome * scale / 0.01
        if scale < 1
        else np.linalg.lstsq(design, outcome)[0] / scale
    )
    np.testing.assert_allclose(estimate, expected, rtol=1e-6)


def test_users_who_never_take_part_have_an_estimate_of_zero():
    design, outcome, _ = threads(30, 6)
    design[:, 2] = 0.0
    estimate = ridge_estimate(design, outcome, nothing(design), 0.01)
    assert estimate[2] == 0.0
    rest = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(
        estimate[rest], ridge_estimate(design[:, rest], outcome, nothing(design), 0.01), rtol=1e-9
    )


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6, 1e9, 1e50])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_penalty_that_a_factorisation_would_lose(scale, form):
    """Twins with large weights share what one of them would have."""
    design, outcome, _ = threads(40, 3)
    twins = form(scale * np.hstack([design, design]))
    estimate = ridge_estimate(twins, outcome, nothing(design), 0.01)
    expected = ridge_estimate(scale * design, outcome, nothing(design), 0.005) / 2
    np.testing.assert_allclose(estimate, np.tile(expected, 2), rtol=1e-6)


def test_paper_s_constants_are_those_of_the_paper() -> None:
    """Where rows sum to one λ is 0.01, to the last bit."""
    forum = dv.datasets.agreement(50, 40, seed=3)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    plain = ridge_estimate(behavior.participation, forum.outcome, np.empty((40, 0)), 0.01)
    np.testing.assert_array_equal(behavior.ridge_estimate(), plain)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("unit", [1e-6, 0.3, 1000.0])
def test_unit_of_participation_does_not_matter(unit: float, form: Any) -> None:
    rng = np.random.default_rng(0)
    weights, outcome = rng.integers(0, 4, (30, 12)).astype(float), rng.standard_normal(30)
    plain, other = (
        dv.SharedOutcome(form(scale * weights), outcome, intercept=True) for scale in (1.0, unit)
    )
    np.testing.assert_allclose(other.ridge_estimate(), plain.ridge_estimate() / unit, rtol=1e-8)


def test_rescaled_participation_rescales_the_latent_coefficients_and_nothing_else() -> None:
    rng = np.random.default_rng(1)
    took_part = np.zeros((30, 12))
    for row in took_part:
        row[rng.choice(12, 4, replace=False)] = 1.0
    features, outcome = (
        rng.standard_normal((12, 2)),
        took_part @ rng.standard_normal(12) + 0.3 * rng.standard_normal(30),
    )
    settings = {"n_warmup": 20, "n_draws": 30, "n_chains": 1}
    fits = [
        dv.DualViewMixture(**settings)
        .fit(features, dv.SharedOutcome(scale * took_part, outcome))
        .posterior_
        for scale in (1.0, 8.0)
    ]
    np.testing.assert_array_equal(fits[1]["z"], fits[0]["z"])
    np.testing.assert_allclose(fits[1]["latent"], fits[0]["latent"] / 8.0, rtol=1e-9)
    np.testing.assert_allclose(fits[1]["noise_precision"], fits[0]["noise_precision"], rtol=1e-9)

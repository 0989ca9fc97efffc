"""Constants of a view, and the map between the user's units and working units."""

import numpy as np
import pytest

from dualview.errors import InputError
from dualview.units import GaussianPrior, Whitening, constants_of, tails_of
from naive import log_normal
from yardsticks import positive_definite

DIMS = [1, 2, 5]


def random_prior(n_dims):
    rng = np.random.default_rng(n_dims)
    return GaussianPrior(10 * rng.standard_normal(n_dims), 100 * positive_definite(rng, n_dims))


def test_numbers_are_one_dimension():
    prior = GaussianPrior(2, 9)
    assert prior.mean.shape == (1,)
    assert prior.covariance.shape == (1, 1)
    assert prior == GaussianPrior([2.0], [[9.0]])


def test_equality_and_hash():
    assert random_prior(2) == random_prior(2)
    assert random_prior(2) != GaussianPrior([0.0, 0.0], np.eye(2))
    assert GaussianPrior(0, 1) != "a prior"
    with pytest.raises(TypeError, match="unhashable"):
        hash(GaussianPrior(0, 1))


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        ("mean", 1.0, "takes numbers"),
        ([0.0, 0.0], 1.0, "shape"),
        ([[0.0]], 1.0, "shape"),
        (0.0, np.eye(2), "shape"),
        (np.nan, 1.0, "finite"),
        (0.0, np.inf, "finite"),
        (0.0, 0.0, "positive definite"),
        (0.0, -1.0, "positive definite"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([0.0, 0.0], np.ones((2, 2)), "positive definite"),
    ],
)
def test_what_is_no_prior_is_refused(mean, covariance, message):
    with pytest.raises(InputError, match=message):
        GaussianPrior(mean, covariance)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_an_asymmetric_covariance_is_refused_at_any_scale(scale):
    matrix = np.array([[1.0, 0.5], [0.4, 1.0]])
    with pytest.raises(InputError, match="symmetric"):
        GaussianPrior([0.0, 0.0], scale * matrix)
    scales = np.array([scale, 1.0])
    with pytest.raises(InputError, match="symmetric"):
        GaussianPrior([0.0, 0.0], matrix * np.outer(scales, scales))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rounding_does_not_make_a_covariance_asymmetric(scale):
    matrix = scale * np.array([[1.0, 0.5], [0.5 * (1 + 1e-14), 1.0]])
    GaussianPrior([0.0, 0.0], matrix)


def test_size_is_checked_by_name():
    GaussianPrior([0, 0], np.eye(2)).check_size(2, "feature_prior")
    with pytest.raises(InputError, match=r"feature_prior must have 3 dimension\(s\); got 2"):
        GaussianPrior([0, 0], np.eye(2)).check_size(3, "feature_prior")


def test_tails_are_of_features():
    prior = GaussianPrior([0, 0], np.eye(2), tails="student")
    prior.check_size(2, "feature_prior")
    assert "tails='student'" in repr(prior)
    assert prior != GaussianPrior([0, 0], np.eye(2))
    assert prior.block(slice(1)).tails == "student"
    with pytest.raises(InputError, match=r"is for features.*leave tails out of behavior_prior"):
        prior.check_size(2, "behavior_prior")
    with pytest.raises(InputError, match="tails must be None or \"student\"; got 'fat'"):
        GaussianPrior(0, 1, tails="fat")


@pytest.mark.parametrize(
    ("word", "tails", "constants"),
    [
        (None, None, None),
        ("shrunk", None, "shrunk"),
        ("student", "student", None),
        ("student-diagonal", "student", "diagonal"),
    ],
)
def test_words_say_tails_and_constants(word, tails, constants):
    assert tails_of(word) == tails
    assert constants_of(word) == constants


@pytest.mark.parametrize("n_dims", DIMS)
def test_there_and_back(n_dims):
    units, x = (
        Whitening.of(random_prior(n_dims)),
        np.random.default_rng(1).standard_normal((3, 4, n_dims)),
    )
    np.testing.assert_allclose(units.to_working(units.vectors(x)), x, rtol=1e-9, atol=1e-12)
    assert units.n_dims == n_dims


@pytest.mark.parametrize("n_dims", DIMS)
def test_the_constants_are_zero_and_identity_in_working_units(n_dims):
    prior = random_prior(n_dims)
    units = Whitening.of(prior)
    mean, covariance = units.prior
    np.testing.assert_allclose(mean, prior.mean)
    np.testing.assert_allclose(covariance, prior.covariance)
    np.testing.assert_allclose(units.to_working(prior.mean), 0.0, atol=1e-12)
    np.testing.assert_allclose(units.covariances(np.eye(n_dims)), prior.covariance)
    np.testing.assert_allclose(
        units.precisions(np.eye(n_dims)), np.linalg.inv(prior.covariance), rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("n_dims", DIMS)
def test_densities_change_by_the_maps_volume_only(n_dims):
    rng, units = np.random.default_rng(2), Whitening.of(random_prior(n_dims))
    mean, precision = rng.standard_normal(n_dims), positive_definite(rng, n_dims)
    volume = np.linalg.slogdet(units.factor)[1]
    for w in rng.standard_normal((5, n_dims)):
        outside = log_normal(units.vectors(w), units.vectors(mean), units.precisions(precision))
        assert outside == pytest.approx(log_normal(w, mean, precision) - volume)


@pytest.mark.parametrize("n_dims", DIMS)
def test_covariances_and_precisions_are_inverse_in_both_units(n_dims):
    units, matrix = (
        Whitening.of(random_prior(n_dims)),
        positive_definite(np.random.default_rng(3), n_dims),
    )
    product = units.covariances(matrix) @ units.precisions(np.linalg.inv(matrix))
    np.testing.assert_allclose(product, np.eye(n_dims), atol=1e-9)


@pytest.mark.parametrize("n_dims", DIMS)
def test_data_are_standard_in_their_own_units(n_dims):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((30, n_dims)) @ rng.standard_normal((n_dims, n_dims)) + 5
    units = Whitening.of_data(x)
    w = units.to_working(x)
    np.testing.assert_allclose(w.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        np.cov(w, rowvar=False).reshape(n_dims, n_dims), np.eye(n_dims), atol=1e-10
    )
    np.testing.assert_allclose(units.vectors(w), x, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_moving_and_scaling_columns_changes_nothing(scale):
    x = np.random.default_rng(5).standard_normal((20, 3))
    moved = x * np.array([scale, 1.0, 7.0]) + np.array([scale, -3.0, 0.0])
    before, after = Whitening.of_data(x).to_working(x), Whitening.of_data(moved).to_working(moved)
    np.testing.assert_allclose(after, before, rtol=1e-8, atol=1e-10)


def singular_data(kind):
    x = np.random.default_rng(6).standard_normal((12, 3))
    return {
        "copy": np.column_stack([x, 3.0 * x[:, 0] - 1.0]),
        "sum": np.column_stack([x, x.sum(axis=1) * 1e6]),
        "constant": np.column_stack([x, np.full(12, 0.1)]),
        "flat rows": np.random.default_rng(7).standard_normal((4, 9)),
    }[kind]


@pytest.mark.parametrize("kind", ["copy", "sum", "constant", "flat rows"])
def test_singular_data_lose_the_dimensions_they_do_not_span(kind):
    x = singular_data(kind)
    units = Whitening.of_data(x)
    w = units.to_working(x)
    assert units.n_dims == w.shape[1] == 3
    np.testing.assert_allclose(np.cov(w, rowvar=False), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(units.vectors(w), x, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(units.inverse @ units.factor, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(units.prior[1], np.cov(x, rowvar=False), rtol=1e-8, atol=1e-9)


def test_data_without_any_spread_have_no_dimensions():
    assert Whitening.of_data(np.full((5, 2), 0.3)).n_dims == 0

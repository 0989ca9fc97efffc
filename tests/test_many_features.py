"""Many features and few users: units that keep users apart, and a warning where the default ones do
not."""

import re

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.errors import DataWarning, InputError
from dualview.units import Whitening

N_USERS = 60


def wide(n_dims, seed=0):
    """Three clusters whose means in each feature are −1.5, 0 and 1.5 standard deviations, in random
    order."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N_USERS) % 3
    means = np.column_stack([rng.permutation([-1.5, 0.0, 1.5]) for _ in range(n_dims)])
    return means[labels] + rng.standard_normal((N_USERS, n_dims)), labels


def distances(x):
    return np.linalg.norm(x[:, None] - x[None], axis=2)


def test_constants_by_word():
    x = wide(5)[0] * [1.0, 10.0, 0.1, 1.0, 1e4] + 3.0
    sample = np.cov(x, rowvar=False)
    mean, covariance = Whitening.of_data(x, "diagonal").prior
    np.testing.assert_allclose(mean, x.mean(axis=0))
    np.testing.assert_allclose(covariance, np.diag(np.diagonal(sample)))
    sizes = np.sqrt(np.diagonal(sample))
    shrunk = Whitening.of_data(x, "shrunk").prior[1] / np.outer(sizes, sizes)
    share = ledoit_wolf((x - x.mean(axis=0)) / sizes, assume_centered=True)[1]
    assert 0.0 < share < 1.0
    expected = (1 - share) * sample / np.outer(sizes, sizes) + share * np.eye(5)
    np.testing.assert_allclose(shrunk, expected, rtol=1e-9)
    np.testing.assert_array_equal(
        Whitening.of_data(x).prior[1], Whitening.of_data(x, None).prior[1]
    )


@pytest.mark.parametrize("shrinkage", ["diagonal", "shrunk"])
@pytest.mark.parametrize("case", ["dependent", "constant", "more columns than users"])
def test_the_span_stays_what_it_is(case, shrinkage):
    """Across the span the posterior would be improper, however the covariance is shrunk."""
    x = wide(80 if case == "more columns than users" else 6)[0]
    if case == "dependent":
        x[:, 5] = x[:, 0] + 2.0 * x[:, 1]
    elif case == "constant":
        x[:, 5] = 7.0
    plain, units = Whitening.of_data(x), Whitening.of_data(x, shrinkage)
    assert units.n_dims == plain.n_dims == (N_USERS - 1 if case == "more columns than users" else 5)
    np.testing.assert_allclose(units.vectors(units.to_working(x)), x, atol=1e-9)
    if shrinkage == "diagonal":
        standard = (x - x.mean(axis=0)) / np.where(
            np.ptp(x, axis=0) > 0, x.std(axis=0, ddof=1), 1.0
        )
        np.testing.assert_allclose(distances(units.to_working(x)), distances(standard), atol=1e-9)


def test_by_default_users_in_as_many_dimensions_are_equally_far_from_each_other():
    """Affine invariance: what users differ in is in no draw."""
    x = wide(N_USERS - 1)[0]
    off = ~np.eye(N_USERS, dtype=bool)
    assert np.ptp(distances(Whitening.of_data(x).to_working(x))[off]) < 1e-6
    assert np.ptp(distances(Whitening.of_data(x, "diagonal").to_working(x))[off]) > 5.0


SHORT = {"engine": dv.Gibbs(n_warmup=1, init="one"), "n_draws": 2, "n_chains": 1}


@pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")
@pytest.mark.parametrize(("n_dims", "effect"), [(15, "little"), (30, "little"), (59, "nothing")])
def test_many_features_are_warned_of(n_dims, effect):
    wanted = (
        f"The features span {n_dims} dimensions and there are only 60 users. In units of "
        "the features' own covariance, the"
    )
    with pytest.warns(DataWarning, match=re.escape(wanted)) as caught:
        dv.DualViewMixture(**SHORT).fit(wide(n_dims)[0])
    assert f"they then say {effect} about clusters" in str(caught[0].message)
    assert 'feature_prior="diagonal"' in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("n_dims", "options"),
    [
        (14, {}),
        (15, {"feature_prior": "diagonal"}),
        (15, {"feature_prior": "shrunk"}),
        (15, {"feature_prior": dv.GaussianPrior(np.zeros(15), np.eye(15))}),
        (15, {"n_clusters": 1}),
    ],
)
def test_others_are_not(n_dims, options):
    dv.DualViewMixture(**options, **SHORT).fit(wide(n_dims)[0])


def test_other_words_are_refused():
    wanted = (
        'feature_prior must be a GaussianPrior(mean, covariance), "shrunk", "diagonal", "student", '
        '"student-shrunk", "student-diagonal" or None; got \'round\'.'
    )
    with pytest.raises(InputError, match=re.escape(wanted)):
        dv.DualViewMixture(feature_prior="round").fit(wide(3)[0])


@pytest.mark.filterwarnings(
    "ignore::dualview.errors.ConvergenceWarning", "ignore::dualview.errors.DataWarning"
)
def test_clusters_are_found_where_the_default_finds_none():
    """W_0 is learnt all the same; its prior, worth D users, keeps it from undoing the diagonal
    units."""
    x, labels = wide(30)
    settings = {"n_warmup": 60, "n_draws": 60, "n_chains": 1}
    default, diagonal = (
        dv.DualViewMixture(feature_prior=word, **settings).fit(x).labels_
        for word in (None, "diagonal")
    )
    assert adjusted_rand_score(labels, default) < 0.1
    assert adjusted_rand_score(labels, diagonal) > 0.9

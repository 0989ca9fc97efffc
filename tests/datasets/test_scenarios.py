"""The scenarios: shapes, what depends on which seed, and the laws they are drawn from."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dualview.datasets import Forum, Threads, agreement, disagreement, iris
from dualview.errors import DualViewError, InputError

SCENARIOS = [agreement, disagreement, iris]
CLUSTERED = [agreement, disagreement]
Z_LIMIT = 4.5
COVARIANCE = np.array([[0.01, 0.001], [0.001, 0.01]])


def circle(radius, n_clusters=5):
    turns = [2 * np.pi * k / n_clusters for k in range(1, n_clusters + 1)]
    return radius * np.array([[np.cos(turn), np.sin(turn)] for turn in turns])


def same(first, second):
    return first.shape == second.shape and bool((first == second).all())


@pytest.fixture(scope="module", params=CLUSTERED, ids=lambda scenario: scenario.__name__)
def crowd(request):
    return request.param(n_users=20_000, n_threads=1, n_test_threads=0, seed=3)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_shapes(scenario):
    forum = scenario(n_users=17, n_threads=4, n_test_threads=6, seed=1)
    n_features = 3 if scenario is iris else 2
    assert isinstance(forum, Forum)
    assert isinstance(forum.test, Threads)
    assert forum.name == scenario.__name__
    assert forum.features.shape == (17, n_features)
    assert len(forum.feature_names) == n_features
    assert forum.labels.shape == forum.latent.shape == (17,)
    assert forum.participation.shape == (4, 17)
    assert forum.outcome.shape == (4,)
    assert forum.test.participation.shape == (6, 17)
    assert forum.test.outcome.shape == (6,)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_published_sizes_are_the_defaults(scenario):
    forum = scenario()
    assert len(forum.features) == 50
    assert len(forum.outcome) == len(forum.test.outcome) == 100


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_normalised_rows_share_one_among_the_participants(scenario):
    forum = scenario(seed=2)
    for participation in (forum.participation, forum.test.participation):
        assert participation.sum(axis=1) == pytest.approx(1.0)
        for row in participation:
            assert len(set(row[row > 0])) == 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rows_are_zero_and_one_when_not_normalised(scenario):
    plain, divided = scenario(normalize=False, seed=2), scenario(seed=2)
    assert set(np.unique(plain.participation)) == {0.0, 1.0}
    assert same(plain.participation > 0, divided.participation > 0)


@pytest.mark.parametrize("scenario", CLUSTERED)
@pytest.mark.parametrize(("n_users", "n_clusters"), [(50, 5), (52, 5), (7, 3), (4, 4)])
def test_clusters_are_even(scenario, n_users, n_clusters):
    sizes = np.bincount(scenario(n_users, 1, n_clusters=n_clusters).labels, minlength=n_clusters)
    assert sizes.sum() == n_users
    assert sizes.max() - sizes.min() == (n_users % n_clusters > 0)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_users_are_not_sorted_by_label(scenario):
    labels = scenario(seed=0).labels
    assert (np.diff(labels) < 0).sum() > 5
    assert not same(labels, scenario(seed=1).labels)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_repetition_redraws_the_training_threads_only(scenario):
    first, second = scenario(seed=4), scenario(seed=4, repetition=1)
    for name in ("features", "labels", "latent"):
        assert same(getattr(first, name), getattr(second, name))
    assert same(first.test.participation, second.test.participation)
    assert same(first.test.outcome, second.test.outcome)
    assert not same(first.participation, second.participation)
    assert not np.isin(first.outcome, second.outcome).any()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_test_threads_are_not_training_threads(scenario):
    for repetition in range(3):
        forum = scenario(repetition=repetition)
        assert not np.isin(forum.test.outcome, forum.outcome).any()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_arguments_give_the_same_forum(scenario):
    first, second = scenario(seed=9, repetition=2), scenario(seed=9, repetition=2)
    for name in ("features", "participation", "outcome", "labels", "latent"):
        assert same(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_another_seed_gives_another_forum(scenario):
    first, second = scenario(seed=0), scenario(seed=1)
    for name in ("features", "participation", "outcome", "latent"):
        assert not same(getattr(first, name), getattr(second, name))
    assert not same(first.test.outcome, second.test.outcome)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("participation_rate", [0.5, 0.03])
def test_fewer_threads_are_the_first_of_more(scenario, participation_rate):
    few = scenario(20, 10, 5, participation_rate=participation_rate, seed=6)
    many = scenario(20, 40, 30, participation_rate=participation_rate, seed=6)
    assert same(few.latent, many.latent)
    assert same(few.participation, many.participation[:10])
    assert same(few.test.participation, many.test.participation[:5])
    assert few.outcome == pytest.approx(many.outcome[:10], rel=1e-12)
    assert few.test.outcome == pytest.approx(many.test.outcome[:5], rel=1e-12)


def test_feature_law(crowd):
    centres = circle(0.45 if crowd.name == "agreement" else 0.5)
    if crowd.name == "disagreement":
        centres[3:] = 0.0
    for k, centre in enumerate(centres):
        residual = crowd.features[crowd.labels == k] - centre
        n = len(residual)
        z_mean = residual.mean(axis=0) / np.sqrt(np.diag(COVARIANCE) / n)
        # The mean is known, so n residual residualᵀ is Wishart with n degrees of freedom.
        spread = np.sqrt((np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE)) + COVARIANCE**2) / n)
        z_covariance = (residual.T @ residual / n - COVARIANCE) / spread
        assert np.abs(z_mean).max() < Z_LIMIT
        assert np.abs(z_covariance).max() < Z_LIMIT


def test_latent_law(crowd):
    for k, mean in enumerate((0.0, 25.0, 50.0, 75.0, 100.0)):
        residual = crowd.latent[crowd.labels == k] - mean
        n = len(residual)
        assert abs(residual.mean()) < Z_LIMIT * 5.0 / np.sqrt(n)
        assert abs((residual**2).mean() - 25.0) < Z_LIMIT * 25.0 * np.sqrt(2.0 / n)


def test_features_and_coefficients_are_independent_inside_clusters(crowd):
    for k in range(5):
        inside = crowd.labels == k
        n = inside.sum()
        correlation = np.corrcoef(crowd.features[inside].T, crowd.latent[inside])[-1, :-1]
        assert np.abs(correlation).max() < Z_LIMIT / np.sqrt(n)


def test_printed_version_is_a_parameter_away():
    forum = agreement(
        5_000, 1, radius=1.0, latent_means=[-25, 0, 25, 50, 75], normalize=False, seed=5
    )
    for k, centre in enumerate(circle(1.0)):
        inside = forum.labels == k
        n = inside.sum()
        assert np.abs(forum.features[inside].mean(axis=0) - centre).max() < Z_LIMIT * 0.1 / np.sqrt(
            n
        )
        assert abs(forum.latent[inside].mean() - 25.0 * (k - 1)) < Z_LIMIT * 5.0 / np.sqrt(n)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_noise_law(scenario):
    n = 20_000
    forum = scenario(10, n, 1, seed=7)
    residual = forum.outcome - forum.participation @ forum.latent
    assert abs(residual.mean()) < Z_LIMIT * np.sqrt(5.0 / n)
    assert abs((residual**2).mean() - 5.0) < Z_LIMIT * 5.0 * np.sqrt(2.0 / n)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_noise(scenario):
    forum = scenario(noise_variance=0.0)
    assert forum.outcome == pytest.approx(forum.participation @ forum.latent)


def test_participation_law_is_that_of_redrawing_empty_threads():
    n, rate = 40_000, 0.2
    forum = agreement(3, n, 1, n_clusters=3, participation_rate=rate, normalize=False, seed=8)
    found = Counter(tuple(row) for row in forum.participation.astype(int).tolist())
    assert found.pop((0, 0, 0), 0) == 0
    somebody = 1 - (1 - rate) ** 3
    for row in product((0, 1), repeat=3):
        if any(row):
            share = rate ** sum(row) * (1 - rate) ** (3 - sum(row)) / somebody
            z = (found[row] / n - share) / np.sqrt(share * (1 - share) / n)
            assert abs(z) < Z_LIMIT, row


def test_everybody_takes_part_at_rate_one():
    assert (agreement(10, 5, participation_rate=1.0, normalize=False).participation == 1.0).all()


def test_tiny_rates_end():
    forum = agreement(10, 50, participation_rate=1e-12, normalize=False, seed=1)
    assert (forum.participation.sum(axis=1) == 1.0).all()


def test_iris_rows_are_rows_of_iris():
    flowers = load_iris()
    stock = Counter(
        (*row, label) for row, label in zip(flowers.data[:, 1:], flowers.target, strict=True)
    )
    for n_users in (50, 150):
        forum = iris(n_users, 1, seed=2)
        users = Counter(
            (*row, label) for row, label in zip(forum.features, forum.labels, strict=True)
        )
        assert users <= stock
    assert users == stock
    assert forum.feature_names == ("sepal width (cm)", "petal length (cm)", "petal width (cm)")


def test_iris_latent_law():
    forum = iris(150, 1, latent_sd=2.0, seed=3)
    for k, mean in enumerate((0.0, 50.0, 100.0)):
        assert abs(forum.latent[forum.labels == k].mean() - mean) < Z_LIMIT * 2.0 / np.sqrt(50)
    z = (forum.latent - 50.0 * forum.labels) / 2.0
    assert abs((z**2).mean() - 1.0) < Z_LIMIT * np.sqrt(2.0 / 150)


BAD = [
    ({"n_threads": 0}, r"n_threads must be a whole number of at least 1; got 0"),
    ({"n_threads": 10.5}, r"n_threads must be a whole number of at least 1; got 10\.5"),
    ({"n_test_threads": -1}, r"n_test_threads must be a whole number of at least 0; got -1"),
    ({"n_users": 0}, r"n_users must be a whole number of at least 1; got 0"),
    ({"seed": -1}, r"seed must be a whole number of at least 0; got -1"),
    ({"seed": None}, r"seed must be a whole number of at least 0; got None"),
    ({"repetition": -2}, r"repetition must be a whole number of at least 0; got -2"),
    (
        {"noise_variance": -5.0},
        r"noise_variance must be a number from 0 to less than inf; got -5\.0",
    ),
    (
        {"noise_variance": np.nan},
        r"noise_variance must be a number from 0 to less than inf; got nan",
    ),
    ({"latent_sd": -1.0}, r"latent_sd must be a number from 0 to less than inf; got -1\.0"),
    ({"latent_sd": None}, r"latent_sd must be a number from 0 to less than inf; got None"),
    ({"participation_rate": 0.0}, r"probability in \(0, 1\]; got 0\.0.*at 0 no thread"),
    ({"participation_rate": 50}, r"probability in \(0, 1\]; got 50"),
    ({"participation_rate": "half"}, r"probability in \(0, 1\]; got 'half'"),
    ({"latent_means": [0.0, 1.0]}, r"latent_means must be \d finite numbers.*got \[0\.0, 1\.0\]"),
]
BAD_CLUSTERED = [
    ({"n_clusters": 0}, r"n_clusters must be a whole number of at least \d; got 0"),
    (
        {"n_users": 4},
        r"n_users must be at least n_clusters = 5.*got 4.*more users or fewer clusters",
    ),
    ({"radius": -0.5}, r"radius must be a number from 0 to less than inf; got -0\.5"),
    ({"latent_means": [0, 1, 2, 3, np.inf]}, r"latent_means must be 5 finite numbers"),
    ({"feature_covariance": 0.01}, r"feature_covariance must be \(2, 2\); got \(\)"),
    ({"feature_covariance": np.eye(3)}, r"feature_covariance must be \(2, 2\); got \(3, 3\)"),
    ({"feature_covariance": [[1.0, 0.5], [0.0, 1.0]]}, r"symmetric and positive definite; got"),
    ({"feature_covariance": [[1.0, 2.0], [2.0, 1.0]]}, r"symmetric and positive definite; got"),
    ({"feature_covariance": [[np.inf, 0.0], [0.0, 1.0]]}, r"symmetric and positive definite; got"),
]
REFUSED = [(scenario, *bad) for scenario in SCENARIOS for bad in BAD]
REFUSED += [(scenario, *bad) for scenario in CLUSTERED for bad in BAD_CLUSTERED]
REFUSED += [
    (disagreement, {"n_clusters": 1}, r"n_clusters must be a whole number of at least 2; got 1"),
    (iris, {"n_users": 151}, r"n_users must be at most 150.*got 151"),
]


@pytest.mark.parametrize(("scenario", "arguments", "message"), REFUSED)
def test_bad_arguments_are_refused(scenario, arguments, message):
    with pytest.raises(InputError, match=message) as refusal:
        scenario(**arguments)
    assert isinstance(refusal.value, DualViewError)
    assert isinstance(refusal.value, ValueError)

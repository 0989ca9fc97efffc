"""Where a chain's shared parameters start: near what the first clusters suggest, so that the first
sweeps stay sensible."""

import numpy as np
import pytest

from dualview.engines.gibbs import GibbsEngine
from dualview.engines.starts import KMeansStart
from dualview.model import Model
from dualview.partitions.priors import ChineseRestaurant
from dualview.units import Whitening
from dualview.views import GaussianView

N_DIMS = 8
ENGINE = GibbsEngine(3)


def separated(rng: np.random.Generator, n_users: int, spread: float) -> np.ndarray:
    """Eight clusters of unit spread far from each other, in working units."""
    vectors = rng.normal(0.0, spread, (8, N_DIMS))[rng.integers(8, size=n_users)] + rng.normal(
        size=(n_users, N_DIMS)
    )
    return np.ascontiguousarray(Whitening.of_data(vectors).to_working(vectors))


@pytest.mark.parametrize("spread", [6.0, 1000.0])
def test_the_first_sweep_of_separated_clusters_leaves_beta_where_it_belongs(spread: float) -> None:
    """Not at its bound D − 1, where components of any shape are likely, nor where clusters all have
    one shape."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = separated(rng, 400, spread)
        model = Model(ChineseRestaurant(), x, None, len(x))
        state = ENGINE.start(rng, model, KMeansStart(x, None)(rng))
        state = ENGINE.step(rng, model, state)
        assert 1.0 < state.views["features"].base.dof - (N_DIMS - 1) < 1e6


def test_base_covariance_starts_as_the_spread_within_clusters() -> None:
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(4), 500)
    within = np.array([[0.02, 0.01], [0.01, 0.4]])
    x = rng.normal(size=(4, 2))[z] + rng.multivariate_normal(np.zeros(2), within, len(z))
    state = GaussianView(2).start(rng, x, z, 4)
    error = np.sqrt((np.outer(within.diagonal(), within.diagonal()) + within**2) / len(z))
    assert (np.abs(state.base.covariance - within) < 4.5 * error).all()


@pytest.mark.parametrize(
    ("x", "z"),
    [
        (np.random.default_rng(1).normal(size=(6, 3)), np.arange(6)),
        (np.random.default_rng(1).normal(size=(6, 3)), np.array([0, 0, 1, 1, 2, 2])),
        (np.repeat([[0.0], [1.0]], 3, axis=0), np.repeat([0, 1], 3)),
    ],
    ids=["everybody alone", "no more users than dimensions", "no spread"],
)
def test_base_covariance_starts_at_the_prior_s_centre_where_nothing_tells_it(
    x: np.ndarray, z: np.ndarray
) -> None:
    state = GaussianView(x.shape[1]).start(np.random.default_rng(0), x, z, 3 + z.max())
    np.testing.assert_allclose(state.base.covariance, np.eye(x.shape[1]), atol=1e-12)
    assert 0.5 < state.base.dof - (x.shape[1] - 1) < 1e6
    assert all(np.isfinite(part).all() for part in state.components)


def test_empty_components_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(50, 2)), np.arange(50) % 3
    few, many = (GaussianView(2).start(np.random.default_rng(0), x, z, n) for n in (3, 6))
    np.testing.assert_allclose(many.base.covariance, few.base.covariance)
    assert many.base.dof == few.base.dof


def test_vectors_much_wider_than_the_prior_do_not_end_the_first_sweep() -> None:
    """As with a feature_prior that is far too narrow."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.ascontiguousarray(rng.normal(size=(8, 2)) @ [[1e5, 0.0], [6e4, 500.0]])
        model = Model(ChineseRestaurant(), x, None, len(x))
        state = ENGINE.start(rng, model, np.zeros(len(x), dtype=np.int64))
        for _ in range(20):
            state = ENGINE.step(rng, model, state)

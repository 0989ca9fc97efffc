"""Clusters that nobody is in: their first vector's density by brute force, and what is drawn once
they have one."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import integrate, stats

import dualview as dv
from checks import ACCEPT
from dualview.numerics.streams import stream_of
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.user_features import Features
from dualview.views import base as views
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import density as densities
from dualview.views.gaussian.fresh import Bases, FreshClusters, log_chi_squares


def base_of(n_dims: int, dof: float, n_draws: int = 1, tails: Sequence[float] = ()) -> Bases:
    """A base of no symmetry, in every draw the same; tails: ν of each draw, none without heavy
    tails."""
    rng = np.random.default_rng(n_dims)
    matrices = [
        root @ root.T + 0.3 * np.eye(n_dims) for root in rng.standard_normal((2, n_dims, n_dims))
    ]
    parts = (rng.standard_normal(n_dims), *matrices)
    whole = (np.tile(part, (n_draws, *[1] * part.ndim)) for part in parts)
    return Bases(*whole, np.full(n_draws, dof), np.array(tails, dtype=float))


@pytest.mark.parametrize("dof", [0.3, 4.0])
def test_density_of_one_number_is_the_integral_over_mean_and_precision(dof: float) -> None:
    (mean,), ((precision,),), ((covariance,),) = (part[0] for part in base_of(1, dof)[:3])
    x = 1.4

    def given_scale(s: float) -> float:
        return stats.norm.pdf(x, mean, np.sqrt(1 / s + 1 / precision)) * stats.gamma.pdf(
            s, dof / 2, scale=2 / (dof * covariance)
        )

    exact = sum(
        integrate.quad(given_scale, *ends, epsabs=1e-12)[0]
        for ends in ((0, 1e-6), (1e-6, 0.1), (0.1, 5), (5, np.inf))
    )
    fresh = FreshClusters(np.random.default_rng(0), base_of(1, dof), 20_000)
    assert np.exp(fresh.log_density(np.array([x]))).mean() == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("tails", [(), (1.6,)])
@pytest.mark.parametrize(("n_dims", "dof"), [(3, 2.2), (3, 9.0), (6, 7.0)])
def test_density_of_a_vector_is_the_average_over_clusters_from_the_base(
    n_dims: int, dof: float, tails: Sequence[float]
) -> None:
    base, rng = base_of(n_dims, dof, tails=tails), np.random.default_rng(1)
    x = base.means[0] + 0.5
    one = views.Base(*(part[0] for part in base[:4]))
    components = gaussian.draw_from_base(stream_of(rng), 200_000, one)
    dofs = np.repeat(np.array(tails, dtype=float), 200_000)
    drawn = np.exp(densities.log_likelihood(x[None], *components, dofs))[0]
    ours = np.exp(FreshClusters(rng, base, 4000).log_density(x))
    error = drawn.std() / np.sqrt(len(drawn))
    if tails:  # weights and scales are spread evenly, but not together
        error = np.hypot(error, ours.std() / np.sqrt(len(ours)))
    assert abs(drawn.mean() - ours.mean()) < ACCEPT * error


@pytest.mark.parametrize("tails", [(), (1.6,)])
@pytest.mark.parametrize(("n_dims", "dof"), [(1, 0.8), (3, 5.0)])
def test_first_vector_and_what_it_opens_have_the_base_s_distribution(
    n_dims: int, dof: float, tails: Sequence[float]
) -> None:
    """Draw x, then μ and S given x: μ and S are from the base, and x is normal given both, and its
    weight."""
    base, rng, n = base_of(n_dims, dof, tails=tails), np.random.default_rng(2), 40_000
    fresh = FreshClusters(rng, base, n)
    x = base.means[0] + (fresh.roots @ rng.standard_normal((n, n_dims, 1)))[..., 0]
    means, factors = fresh.opened(rng, np.arange(n), x)
    mean, precision, covariance = (part[0] for part in base[:3])
    away = (means - mean) @ np.linalg.cholesky(precision)  # standard normal
    rest = np.einsum("nij,ni->nj", factors, x - means)
    rest *= np.exp(0.5 * fresh._log_weights)[:, None]  # standard normal too
    inside = np.einsum(
        "ij,njk->nik", np.linalg.cholesky(covariance).T, factors
    )  # S in units where W_0 = I
    log_determinants = 2 * np.log(np.abs(np.linalg.det(inside)))
    expected = sum(stats.chi2(dof - d).expect(np.log) for d in range(n_dims)) - n_dims * np.log(dof)
    scores = [
        *_scores(away, 0.0),
        *_scores(away**2, 1.0),
        *_scores(rest, 0.0),
        *_scores(rest**2, 1.0),
        *_scores(rest * away, 0.0),
        *_scores(log_determinants[:, None], expected),
        *_scores(log_determinants[:, None] * away, 0.0),
    ]
    assert np.abs(scores).max() < ACCEPT


def _scores(values: np.ndarray, expected: float) -> np.ndarray:
    return (values.mean(axis=0) - expected) / (values.std(axis=0) / np.sqrt(len(values)))


def test_the_lightest_tails_and_the_heaviest_stay_numbers() -> None:
    dofs = np.array([1e-4, 9e-3, 1.0, 1e6, 1e13])
    logs = log_chi_squares(np.random.default_rng(0), dofs, 1000)
    assert np.isfinite(logs).all()
    for row, dof in zip(logs[1:4], dofs[1:4], strict=True):
        levels = np.sort(stats.chi2(dof).cdf(np.exp(row[row > -600])))
        grid = (np.arange(1000) + 0.5)[-len(levels) :] / 1000  # one in each thousandth
        np.testing.assert_allclose(levels, grid, atol=0.51e-3)
    narrow = FreshClusters(np.random.default_rng(0), base_of(4, 3.0 + 9e-3), 500)
    assert np.isfinite(narrow.log_density(np.ones(4))).all()
    assert np.isfinite(narrow.roots).all()
    assert all(
        np.isfinite(part).all()
        for part in narrow.opened(np.random.default_rng(1), np.arange(500), np.ones(4))
    )


@pytest.fixture(scope="module")
def six_features() -> tuple[dv.DualViewMixture, np.ndarray]:
    """Two groups in six features, and a newcomer on the edge of one."""
    rng = np.random.default_rng(4)
    x = (
        rng.standard_normal((40, 6)) @ rng.standard_normal((6, 6))
        + 6.0 * (np.arange(40) % 2)[:, None]
    )
    model = dv.DualViewMixture(n_warmup=200, n_draws=50, n_chains=2, random_state=1)
    return model.fit(x), x[:1] + 0.2 * rng.standard_normal(6)


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chance_of_a_new_cluster_is_exact_at_six_features(
    six_features: tuple[dv.DualViewMixture, np.ndarray],
) -> None:
    """Against the sum over clusters with the base's density by quadrature, in the user's units;
    seeds hardly matter."""
    model, newcomer = six_features
    post = model.posterior_
    x = Features.of(post, {"features": newcomer})
    chances = [NewUsers(Candidates(post, seed), x, 1).probabilities()[0, -1] for seed in range(5)]
    exact = chance_of_a_new_cluster(post, newcomer[0])
    assert 0.1 < exact < 0.99
    assert np.std(chances) < 1e-4
    np.testing.assert_allclose(chances, exact, atol=2e-4)


def chance_of_a_new_cluster(post: dv.Posterior, newcomer: np.ndarray) -> float:
    """Σ_i c_new p(a* | base of draw i) / Σ_i p(a* | draw i); χ² quantiles in place of draws."""
    table, alpha, n_users = post.components, post.flat("alpha"), post.n_users
    units, n_dims = post.spec.units["features"], len(newcomer)
    names = ("base_mean", "base_precision", "base_covariance", "base_dof")
    new = old = 0.0
    for i, (mean, precision, covariance, dof) in enumerate(
        zip(*(post.flat(f"features.{name}") for name in names), strict=True)
    ):
        scales = dof / stats.chi2(dof - n_dims + 1).ppf((np.arange(300) + 0.5) / 300)
        spreads = scales[:, None, None] * covariance + np.linalg.inv(precision)
        new += alpha[i] / (alpha[i] + n_users) * normal_density(newcomer - mean, spreads).mean()
        own = table["owner"] == i
        roots = units.factor @ np.swapaxes(np.linalg.inv(table["features.factors"][own]), 1, 2)
        density = normal_density(
            newcomer - units.vectors(table["features.means"][own]), roots @ np.swapaxes(roots, 1, 2)
        )
        old += (table["count"][own] * density).sum() / (alpha[i] + n_users)
    return new / (new + old)


def normal_density(away: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """N(away; 0, C) for several C (n, D, D)."""
    away = np.broadcast_to(away, covariances.shape[:2])
    squares = np.einsum("ni,ni->n", away, np.linalg.solve(covariances, away[..., None])[..., 0])
    return np.exp(-0.5 * squares) / np.sqrt(np.linalg.det(2 * np.pi * covariances))

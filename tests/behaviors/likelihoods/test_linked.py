"""The link's conditionals against the joint density, and its units."""

import numpy as np
import pytest
from scipy.stats import gamma, norm

from dualview.behaviors.base import Terms
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods.linked import LinearLink, LinkedLikelihood, Slopes, draw_slopes
from dualview.behaviors.records import Panel, Prior
from dualview.distributions import Normal
from dualview.units import GaussianPrior, Whitening
from rows import normal_rows, residual
from yardsticks import positive_definite, upper_factor

N_USERS, N_FEATURES, N_CLUSTERS, N_OBSERVATIONS = 9, 2, 3, 14


class Case:
    """Latent vectors, clusters, and observations that several users share."""

    def __init__(self, n_dims: int, one_precision: bool) -> None:
        rng = self.rng = np.random.default_rng(n_dims)
        self.n_dims = n_dims
        self.features = rng.standard_normal((N_USERS, N_FEATURES))
        self.units = Whitening.of(
            GaussianPrior(rng.normal(size=n_dims), positive_definite(rng, n_dims))
        )
        self.link = LinearLink.of(self.features, self.units)
        self.z = np.arange(N_USERS) % N_CLUSTERS
        self.means = rng.standard_normal((N_CLUSTERS, n_dims))
        self.precisions = np.array([positive_definite(rng, n_dims) for _ in range(N_CLUSTERS)])
        self.design = rng.standard_normal((N_OBSERVATIONS, N_USERS, n_dims)) * (
            rng.random((N_OBSERVATIONS, N_USERS, 1)) < 0.4
        )
        self.weights = (
            np.full(N_OBSERVATIONS, 1.7) if one_precision else rng.uniform(0.5, 2.0, N_OBSERVATIONS)
        )
        self.outcome = rng.standard_normal(N_OBSERVATIONS)
        self.deviations = rng.standard_normal((N_USERS, n_dims))  # f − Γ ã
        self.slopes = Slopes(rng.standard_normal((n_dims, N_FEATURES)), 0.8)

    def latent(self, slopes: np.ndarray) -> np.ndarray:
        return self.deviations + self.features @ slopes.T

    def terms(self, slopes: np.ndarray) -> Terms:
        rows, loads, starts = [], [], [0]
        for u in range(N_USERS):
            own = np.flatnonzero(self.design[:, u].any(axis=1))
            rows += own.tolist()
            loads += self.design[own, u].tolist()
            starts.append(len(rows))
        residual = self.outcome - np.einsum("nuq,uq->n", self.design, self.latent(slopes))
        precision = self.weights[:1] if np.ptp(self.weights) == 0 else self.weights
        squares = np.empty((N_USERS, self.n_dims, self.n_dims))
        return Terms(
            np.array(starts),
            np.array(rows, dtype=np.uint32),
            np.array(loads),
            squares,
            residual,
            precision,
        )

    def grid(self) -> list[np.ndarray]:
        return [self.rng.standard_normal((self.n_dims, N_FEATURES)) for _ in range(6)]


class Silent:
    """A likelihood of nothing."""

    n_dims = 2

    def log_priors(self, reported: dict[str, object], z: np.ndarray) -> dict[str, np.ndarray]:  # noqa: ARG002
        return {}

    def reported(self, params: dict[str, object]) -> dict[str, object]:
        return params


CASES = [(1, True), (1, False), (3, True), (3, False)]


@pytest.mark.parametrize("dof", [1.0, 3.0])
@pytest.mark.parametrize("n_dims", [1, 3])
def test_the_density_is_that_of_the_model(n_dims: int, dof: float) -> None:
    """(M13) in the user's units: Γ_jd ~ N(0, Σ_jj/t), t ~ G(n, D/n); working units change it by a
    constant."""
    case = Case(n_dims, True)
    link = LinearLink.of(case.features, case.units, dof)
    sds, found, wanted = np.sqrt(np.diagonal(case.units.prior[1]))[:, None], [], []
    for slopes, precision in zip(case.grid(), np.geomspace(0.05, 8.0, 6), strict=True):
        wanted.append(gamma.logpdf(precision, 0.5 * dof, scale=2.0 * N_FEATURES / dof))
        wanted[-1] += norm.logpdf(case.units.factor @ slopes, 0.0, sds / np.sqrt(precision)).sum()
        found.append(link.log_density(Slopes(slopes, precision)))
    assert np.ptp(wanted) > 1.0
    np.testing.assert_allclose(np.subtract(found, wanted), found[0] - wanted[0], atol=1e-9)


@pytest.mark.parametrize("setting", CASES)
def test_slopes_given_latent_vectors_are_the_joint_densitys(setting: tuple[int, bool]) -> None:
    """(C13): ln p(Γ) + Σ_u ln N(f_u; μ + Γ ã_u, S⁻¹) minus the conditional is constant in Γ."""
    case = Case(*setting)
    latent = case.latent(case.slopes.slopes)
    law = case.link.law_given_latent(
        latent, case.z, case.means, upper_factor(case.precisions), case.slopes.precision
    )
    differences = []
    for slopes in case.grid():
        away = latent - case.means[case.z] - case.features @ slopes.T
        likelihood = -0.5 * np.einsum("ui,uij,uj->", away, case.precisions[case.z], away)
        joint = case.link.log_density(Slopes(slopes, case.slopes.precision)) + likelihood
        differences.append(joint - law.log_density(slopes.ravel()))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)


@pytest.mark.parametrize("setting", CASES)
def test_slopes_given_observations_are_the_joint_densitys(setting: tuple[int, bool]) -> None:
    """With f − Γ ã held, Γ moves every observation."""
    case = Case(*setting)
    terms = case.terms(case.slopes.slopes)
    effects = case.link.effects(terms)
    law = case.link.law_given_observations(effects, case.slopes, terms)
    differences = []
    for slopes in case.grid():
        residual = case.terms(slopes).residual
        joint = (
            case.link.log_density(Slopes(slopes, case.slopes.precision))
            - 0.5 * (case.weights * residual**2).sum()
        )
        differences.append(joint - law.log_density(slopes.ravel()))
        moved = terms.residual - effects @ (slopes - case.slopes.slopes).ravel()
        np.testing.assert_allclose(moved, residual, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)


@pytest.mark.parametrize("n_dims", [1, 3])
def test_precision_is_the_joint_densitys(n_dims: int) -> None:
    """(C14)."""
    case = Case(n_dims, True)
    law = case.link.precision_law(case.slopes.slopes)
    differences = [
        case.link.log_density(Slopes(case.slopes.slopes, t)) - law.log_density(t)
        for t in np.geomspace(0.01, 20.0, 6)
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)


@pytest.mark.parametrize("n_dims", [1, 3])
def test_the_prior_is_independent_in_the_users_units(n_dims: int) -> None:
    """(M13): entries of Γ in the user's units have variances Σ_jj / t."""
    case = Case(n_dims, True)
    rng = np.random.default_rng(0)
    draws = [case.link.draw_prior(rng) for _ in range(4000)]
    scaled = np.array([np.sqrt(t) * case.units.factor @ slopes for slopes, t in draws]).reshape(
        len(draws), -1
    )
    variances = np.repeat(np.diagonal(case.units.prior[1]), N_FEATURES)
    found = np.cov(scaled.T) / np.sqrt(np.outer(variances, variances))
    assert np.abs(found - np.eye(len(variances))).max() < 4.5 * np.sqrt(2 / len(draws))


def test_draws_have_their_laws_mean_and_covariance() -> None:
    rng = np.random.default_rng(1)
    precision = positive_definite(rng, 4)
    law = Normal(rng.standard_normal(4), precision)
    draws = np.array([draw_slopes(rng, law, (2, 2)).ravel() for _ in range(8000)])
    covariance = np.linalg.inv(precision)
    error = np.sqrt(np.diagonal(covariance) / len(draws))
    assert (np.abs(draws.mean(axis=0) - law.mean) < 4.5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.1 * np.abs(covariance).max())


@pytest.mark.parametrize("pooled", [False, True])
def test_a_step_keeps_its_books(pooled: bool) -> None:
    """f = g + Γ ã after it has the residuals that are left; shared vectors g stay, and others have
    moved against Γ."""
    case, user = Case(2, True), np.arange(N_OBSERVATIONS) % N_USERS
    inner = normal_rows(
        Panel.of(user, case.design[:, 0], case.outcome, N_USERS), NoisePrior(1.0, 1.0)
    )
    linked = LinkedLikelihood(inner, case.link, case.units, Whitening.of_data(case.features))
    params = {"noise_precision": 1.5, **case.slopes.params()}
    prior = Prior(case.z, case.means, upper_factor(case.precisions), pooled)
    terms = linked.terms(case.rng, case.deviations, params)
    np.testing.assert_allclose(terms.residual, residual(inner, case.latent(case.slopes.slopes)))
    deviations, after = linked.redraw(case.rng, case.deviations, params, terms, prior)
    latent = deviations + case.features @ after["slopes"].T
    np.testing.assert_allclose(terms.residual, residual(inner, latent))
    assert np.allclose(deviations, case.deviations) == pooled
    assert np.isin([after["slope_precision"], after["noise_precision"]], [0.8, 1.5]).sum() == 0


def test_slopes_are_reported_per_unit_of_a_feature() -> None:
    case = Case(2, True)
    rng = np.random.default_rng(2)
    raw = rng.normal(5.0, [1.0, 30.0], (N_USERS, N_FEATURES))
    feature_units = Whitening.of_data(raw)
    slopes = rng.standard_normal((2, N_FEATURES))
    linked = LinkedLikelihood(Silent(), case.link, case.units, feature_units)
    reported = linked.reported({"slopes": slopes, "slope_precision": 2.0})["slopes"]
    step = np.array([0.5, -2.0])
    of_draws = {
        name: np.array([value])
        for name, value in linked.reported({"slopes": slopes, "slope_precision": 2.0}).items()
    }
    priors = linked.log_priors(of_draws, np.zeros((1, N_USERS), dtype=np.int64))
    assert priors["slopes"][0] == pytest.approx(case.link.log_density(Slopes(slopes, 2.0)))
    before, after = (
        case.units.vectors(feature_units.to_working(x) @ slopes.T) for x in (raw[0], raw[0] + step)
    )
    np.testing.assert_allclose(after - before, reported @ step)

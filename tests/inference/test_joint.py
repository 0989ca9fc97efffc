"""Joint tests of the whole sampler for the seven models, and mutants that they must reject."""

import math
from typing import Any

import numba
import numpy as np
import pytest
from scipy.linalg import solve_triangular

from checks import ACCEPT, REJECT, joint_test, mutate, rebind, worst
from dualview.behaviors.thread_regression import ThreadRegression
from dualview.distributions import G
from dualview.inference import gibbs
from dualview.kernels import ars, assign, concentration, gaussian
from dualview.model import Model
from dualview.partitions import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import Whitening
from dualview.views.gaussian import Components, GaussianView

N_USERS, N_THREADS = 5, 4


def regression(n_coefficients: int = 0) -> ThreadRegression:
    rng = np.random.default_rng(99)
    empty = np.empty((n_coefficients, n_coefficients))
    return ThreadRegression(
        design=rng.integers(0, 2, (N_THREADS, N_USERS)).astype(float),
        coefficient_design=rng.standard_normal((N_THREADS, n_coefficients)),
        outcome=np.zeros(N_THREADS),
        noise_variance=1.0,
        coefficient_units=Whitening(empty[:, 0] if n_coefficients else np.empty(0), empty, empty),
    )


def features(n_dims: int = 2) -> np.ndarray:
    return np.zeros((N_USERS, n_dims))


def model(partition: Any, x: np.ndarray | None = None, likelihood: ThreadRegression | None = None) -> Model:
    return Model(partition, x, likelihood, N_USERS)


MODELS = {
    "dual-DP": lambda: model(ChineseRestaurant(), features(), regression()),
    "dual-fixed": lambda: model(FiniteDirichlet(3), features(), regression()),
    "single": lambda: model(OneCluster(), None, regression()),
    "IGMM": lambda: model(ChineseRestaurant(), features()),
    "IGMM of one feature": lambda: model(ChineseRestaurant(), features(1)),
    "GMM": lambda: model(FiniteDirichlet(3), features()),
    "latent-IGMM": lambda: model(ChineseRestaurant(), None, regression()),
    "latent-GMM": lambda: model(FiniteDirichlet(3), None, regression()),
    "dual-DP with covariates": lambda: model(ChineseRestaurant(), features(1), regression(2)),
    "single with covariates": lambda: model(OneCluster(), None, regression(2)),
}
SEEDS = [pytest.param(0), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MODELS)
def test_sampler_leaves_the_joint_prior_as_it_is(name: str, seed: int) -> None:
    name, size = worst(joint_test(MODELS[name](), seed))
    assert size < ACCEPT, f"{name}: |z| = {size:.1f}"


def printed_r0(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ⁻² for σ² in (C4). With a constant Σ = σ² = 4 that is 1/16 in working units, where the right term is 1."""
    law = mutate(
        gaussian.base_precision_law, "inverse_scale = n_dims * np.eye(n_dims)", "inverse_scale = np.eye(n_dims) / 16.0"
    )
    monkeypatch.setattr(gaussian, "draw_base", rebind(gaussian.draw_base, base_precision_law=law))


def printed_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product over d = 0..D in (C6)."""
    right = gaussian.log_dof_density

    def wrong(log_dof, parameters):
        argument = 0.5 * (math.exp(log_dof) - parameters[1])
        if argument <= 0.0:
            return -math.inf, math.inf
        density, slope = right(log_dof, parameters)
        difference = (
            (math.lgamma(argument + 1e-5) - math.lgamma(argument - 1e-5)) / 2e-5 if argument > 1e-4 else -1.0 / argument
        )
        density -= parameters[0] * math.lgamma(argument)
        return density, slope - parameters[0] * difference * 0.5 * math.exp(log_dof)

    draw = rebind(gaussian.draw_base_dof, _sample_log_dof=ars.sampler(numba.njit(error_model="numpy")(wrong)))
    monkeypatch.setattr(gaussian, "draw_base", rebind(gaussian.draw_base, draw_base_dof=draw))


def printed_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density of ln α without its Jacobian: exponent K − 3/2 in (C9)."""
    density = mutate(
        concentration.log_alpha_density,
        "n_clusters, n_users = parameters[0], parameters[1]",
        "n_clusters, n_users = parameters[0] - 1.0, parameters[1]",
    )
    draw = rebind(concentration.draw_alpha, _sample_log_alpha=ars.sampler(density))
    monkeypatch.setattr("dualview.partitions.draw_alpha", draw)


def alpha_fixed_as_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dirichlet process's α^K for a fixed K."""

    def redraw(self: FiniteDirichlet, rng: np.random.Generator, counts: np.ndarray, alpha: float) -> float:
        return float(concentration.draw_alpha(rng, self.n_components, int(counts.sum()), alpha))

    monkeypatch.setattr(FiniteDirichlet, "redraw_alpha", redraw)


def auxiliary_as_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    right = GaussianView.draw_from_base

    def wrong(self: GaussianView, rng: np.random.Generator, state: Any, n: int) -> Components:
        means, factors = right(self, rng, state, n)
        for k, factor in enumerate(factors):
            # T⁻ᵀ is lower; an RQ decomposition gives the upper factor of the same product.
            triangle = np.linalg.qr(solve_triangular(factor, np.eye(len(factor))).T[::-1].T)[1].T[::-1, ::-1]
            factors[k] = triangle * np.sign(np.diagonal(triangle))
        return Components(means, factors)

    monkeypatch.setattr(GaussianView, "draw_from_base", wrong)


def singleton_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutate(assign.assign, "alone = n_auxiliary > 0 and counts[own] == 0", "alone = False")
    monkeypatch.setattr(gibbs, "assign", wrong)


def noise_ignores_covariates(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ThreadRegression.noise_law

    def wrong(self: ThreadRegression, latent: np.ndarray, coefficients: np.ndarray) -> G:
        return right(self, latent, np.zeros_like(coefficients))

    monkeypatch.setattr(ThreadRegression, "noise_law", wrong)


def noise_counts_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ThreadRegression.noise_law

    def wrong(self: ThreadRegression, latent: np.ndarray, coefficients: np.ndarray) -> G:
        law = right(self, latent, coefficients)
        return G(law.dof - 1.0, law.inverse_scale)

    monkeypatch.setattr(ThreadRegression, "noise_law", wrong)


def noise_variance_for_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ_y² where (C7) has the precision s_y."""
    right = ThreadRegression.redraw

    def wrong(self: ThreadRegression, rng: Any, params: Any, means: Any, factors: Any) -> Any:
        return right(self, rng, params | {"noise_precision": 1.0 / params["noise_precision"]}, means, factors)

    monkeypatch.setattr(ThreadRegression, "redraw", wrong)


def base_mean_forgets_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    law = mutate(gaussian.base_mean_law, "np.eye(n_dims) + n_components", "0.25 * np.eye(n_dims) + n_components")
    monkeypatch.setattr(gaussian, "draw_base", rebind(gaussian.draw_base, base_mean_law=law))


def base_covariance_halves_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    law = mutate(gaussian.base_covariance_law, "+= base_dof * outer_square", "+= 0.5 * base_dof * outer_square")
    monkeypatch.setattr(gaussian, "draw_base", rebind(gaussian.draw_base, base_covariance_law=law))


def component_precision_miscounts(monkeypatch: pytest.MonkeyPatch) -> None:
    law = mutate(gaussian.component_precision, "return base_dof + count,", "return base_dof + count + 1.0,")
    monkeypatch.setattr(gaussian, "draw_components", rebind(gaussian.draw_components, component_precision=law))


def component_mean_ignores_base(monkeypatch: pytest.MonkeyPatch) -> None:
    law = mutate(gaussian.component_mean, "multiply(base_precision, base_mean) + ", "")
    monkeypatch.setattr(gaussian, "draw_components", rebind(gaussian.draw_components, component_mean=law))


MUTANTS = {
    "printed-r0": (printed_r0, "latent-IGMM"),
    "printed-beta-sum-from-zero": (printed_beta, "IGMM"),
    "printed-alpha-without-jacobian": (printed_alpha, "dual-DP"),
    "alpha-fixed-as-process": (alpha_fixed_as_process, "dual-fixed"),
    "auxiliary-as-covariance": (auxiliary_as_covariance, "IGMM of one feature"),
    "singleton-parameters-not-reused": (singleton_not_reused, "dual-DP"),
    "noise-ignores-covariates": (noise_ignores_covariates, "single with covariates"),
    "noise-counts-one-less": (noise_counts_one_less, "single"),
    "noise-variance-for-precision": (noise_variance_for_precision, "single"),
    "base-mean-forgets-prior": (base_mean_forgets_prior, "GMM"),
    "base-covariance-halves-precisions": (base_covariance_halves_precisions, "GMM"),
    "component-precision-miscounts": (component_precision_miscounts, "GMM"),
    "component-mean-ignores-base": (component_mean_ignores_base, "GMM"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_rejected(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install, name = MUTANTS[mutant]
    install(monkeypatch)
    _, size = worst(joint_test(MODELS[name](), seed=0))
    assert size > REJECT

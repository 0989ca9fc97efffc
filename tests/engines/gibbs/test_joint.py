"""Joint tests of the whole sampler for the seven models, and mutants that they must reject."""

import math
from typing import Any

import numba
import numpy as np
import pytest

from checks import ACCEPT, REJECT, LostChainsError, joint_test, mutate, rebind, worst
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.distributions import G
from dualview.engines.gibbs import assignment as assign
from dualview.engines.gibbs import step as gibbs
from dualview.engines.gibbs import sweep
from dualview.model import Model, State
from dualview.numerics import messages
from dualview.numerics import slice_sampling as slices
from dualview.partitions import concentration
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import Whitening
from dualview.views.gaussian import auxiliary as pool
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import scale as scales

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
    "IGMM with a gamma prior": lambda: model(ChineseRestaurant(Gamma(1.0, 1.0)), features(1)),
    "GMM with a gamma prior": lambda: model(FiniteDirichlet(3, Gamma(2.0, 4.0)), features(1)),
    "IGMM with a known concentration": lambda: model(ChineseRestaurant(Known(1.0)), features(1)),
    "GMM": lambda: model(FiniteDirichlet(3), features()),
    "latent-IGMM": lambda: model(ChineseRestaurant(), None, regression()),
    "latent-GMM": lambda: model(FiniteDirichlet(3), None, regression()),
    "dual-DP with covariates": lambda: model(ChineseRestaurant(), features(1), regression(2)),
    "single with covariates": lambda: model(OneCluster(), None, regression(2)),
}


def slow(case: Any) -> Any:
    """A case for `make test-slow`."""
    return pytest.param(case, marks=pytest.mark.slow)


QUICK = {"dual-DP", "single", "IGMM", "IGMM with a gamma prior"}
SEEDS = [0, *map(slow, range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in MODELS])
def test_sampler_leaves_the_joint_prior_as_it_is(name: str, seed: int) -> None:
    name, size = worst(joint_test(MODELS[name](), seed))
    assert size < ACCEPT, f"{name}: |z| = {size:.1f}"


def two_steps(rng: np.random.Generator, model: Model, state: State) -> State:
    """Two steps to a data set, in one compiled call where possible: what the first leaves behind counts in the second."""
    left = 2
    while left:
        state, info = gibbs.advance(rng, model, state, 2, np.zeros(left, dtype=np.bool_))
        left -= info.n_steps
    return state


OF_THREE = {
    "dual-DP of three features": lambda: model(ChineseRestaurant(), features(3), regression()),
    "IGMM of three features": lambda: model(ChineseRestaurant(), features(3)),
    "GMM of three features": lambda: model(FiniteDirichlet(3), features(3)),
    "dual-DP of three features with covariates": lambda: model(ChineseRestaurant(), features(3), regression(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [False, True], ids=["at once", "by blocks"])
@pytest.mark.parametrize("name", OF_THREE)
def test_two_steps_to_a_data_set_with_three_features(name: str, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        by_blocks(monkeypatch, 2)
    name, size = worst(joint_test(OF_THREE[name](), seed=0, length=30, step=two_steps))
    assert size < ACCEPT, f"{name}: |z| = {size:.1f}"


@pytest.mark.parametrize("name", [slow("dual-DP"), slow("dual-fixed"), slow("dual-DP with covariates")])
def test_sampler_by_blocks_leaves_the_joint_prior_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_blocks(monkeypatch, 2)
    name, size = worst(joint_test(MODELS[name](), seed=0))
    assert size < ACCEPT, f"{name}: |z| = {size:.1f}"


def by_blocks(monkeypatch: pytest.MonkeyPatch, n_users: int) -> None:
    """Take so many users at a time, as is done with very many, and go through their threads."""
    monkeypatch.setattr(gibbs, "BLOCK", n_users)
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 0)


def in_view(monkeypatch: pytest.MonkeyPatch, **pieces: Any) -> None:
    """Compiled functions that redraw_view uses stand for others."""
    inner = {"draw_base": {}, "draw_components": {}, "redraw_view": {}}
    for name, piece in pieces.items():
        owner = next(owner for owner in inner if name in getattr(gaussian, owner).py_func.__code__.co_names)
        inner[owner][name] = piece
    top = inner.pop("redraw_view")
    top |= {name: rebind(getattr(gaussian, name), **changed) for name, changed in inner.items() if changed}
    monkeypatch.setattr(gaussian, "redraw_view", rebind(gaussian.redraw_view, **top))


def in_assignments(monkeypatch: pytest.MonkeyPatch, **pieces: Any) -> None:
    """Compiled functions that the assignment sweep uses stand for others."""
    monkeypatch.setattr(sweep, "reassign", rebind(sweep.reassign, assign=rebind(assign.assign, **pieces)))


def printed_r0(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ⁻² for σ² in (C4). With a constant Σ = σ² = 4 that is 1/16 in working units, where the right term is 1."""
    in_view(monkeypatch, base_precision_law=mutate(gaussian.base_precision_law, "math.sqrt(prior_dof) if", "0.25 if"))


def printed_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product over d = 0..D in (C6): one Γ too many in the law of every S_k, here with the S_k integrated out."""
    right = scales.log_dof_density

    @numba.njit(error_model="numpy")
    def wrong(log_spare, parameters):
        counts, roots, _ = parameters
        n_dims = roots.shape[1]
        density = right(log_spare, parameters)
        argument = 0.5 * (math.exp(log_spare) - 1.0)
        if argument <= 0.0:  # outside the wrong density's support: a slope that leads there
            return 1e4 * argument
        for count in counts:
            density += math.lgamma(argument + 0.5 * count) - math.lgamma(argument) if n_dims else 0.0
        return density

    draw = rebind(scales.draw_scales, _sample_log_spare=slices.sampler(wrong))
    in_view(monkeypatch, draw_scales=draw)


def scales_forget_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale of W_0 without the power of c that the prior brings."""
    density = mutate(scales.log_scale_density, "0.5 * n_dims * n_dims * log_scale", "0.0 * log_scale")
    in_view(monkeypatch, draw_scales=rebind(scales.draw_scales, _sample_log_scale=slices.sampler(density)))


def columns_forget_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of W_0's factor without the power of c that their elements bring."""
    density = mutate(scales.log_column_density, "(n_dims - d - 0.5) * log_scale", "0.0 * log_scale")
    redraw = rebind(scales.redraw_columns, _sample_column_scale=slices.sampler(density))
    in_view(monkeypatch, redraw_columns=redraw)


def latent_scale_moves_precisions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latent vectors' move without what it changes in the likelihood."""
    density = mutate(scales.log_latent_scale_density, "prior + slope * step - 0.5 * curvature * step * step", "prior")
    draw = rebind(scales.draw_latent_scale, _sample_latent_scale=slices.sampler(density))
    monkeypatch.setattr(sweep, "rescale_latent", rebind(sweep.rescale_latent, draw_latent_scale=draw))


def printed_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density of ln α without its Jacobian: exponent K − 3/2 in (C9)."""
    density = mutate(
        concentration.log_alpha_density, "(n_clusters - n_users + prior.power)", "(n_clusters - n_users + prior.power - 1.0)"
    )
    draw = rebind(concentration.draw_alpha, _sample_log_alpha=slices.sampler(density))
    monkeypatch.setattr("dualview.partitions.priors.draw_alpha", draw)


def gamma_forgets_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density of ln α with the gamma prior's power and without its exponential."""
    density = mutate(concentration.log_alpha_density, "prior.rate * alpha", "0.05 * alpha")
    draw = rebind(concentration.draw_alpha, _sample_log_alpha=slices.sampler(density))
    monkeypatch.setattr("dualview.partitions.priors.draw_alpha", draw)


def alpha_fixed_as_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dirichlet process's α^K for a fixed K."""

    def redraw(self: FiniteDirichlet, rng: Any, counts: np.ndarray, alpha: float) -> float:
        return float(concentration.draw_alpha(rng, self.n_components, int(counts.sum()), alpha, self.alpha_prior))

    monkeypatch.setattr(FiniteDirichlet, "redraw_alpha", redraw)


def auxiliary_as_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precisions of one feature upside down."""
    line = "wishart_factor(rng, base_dof, covariance_factor, factors[k])"
    draw_into = mutate(gaussian.draw_into, line, f"{line}\n        factors[k, 0, 0] = 1.0 / factors[k, 0, 0]")
    monkeypatch.setattr(sweep, "with_pool", rebind(sweep.with_pool, draw_into=draw_into))
    in_assignments(monkeypatch, renew=rebind(assign.renew, draw_into=draw_into))


def singleton_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user alone in its cluster throws its parameters away."""
    wrong = mutate(
        assign.leave,
        "freed = pool[slot]\n        counts[freed] = -1\n        pool[slot] = own",
        "freed = own\n        counts[freed] = -1",
    )
    in_assignments(monkeypatch, leave=wrong)


def in_pool(monkeypatch: pytest.MonkeyPatch, **pieces: Any) -> None:
    """Compiled functions that handle members of the pool stand for others, wherever they are used."""
    inner = {"cover": pieces["cover"]} if "cover" in pieces else {}
    if inner:
        monkeypatch.setattr(sweep, "with_pool", rebind(sweep.with_pool, **inner))
        pieces["renew"] = rebind(assign.renew, **inner)
    in_assignments(monkeypatch, **pieces)


def pool_without_spread_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool member whose mean is taken for the base's: S_j⁻¹ without R_0⁻¹."""
    in_pool(monkeypatch, cover=mutate(pool.cover, "add_to_cholesky(spread, vector)", "vector[0] = 0.0"))


def opened_mean_forgets_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of a new cluster from the base, and not given the user who has opened it."""
    in_pool(monkeypatch, uncover=mutate(pool.uncover, "base[1], 1.0, vector", "base[1], 0.0, 0.0 * vector"))


def opened_cluster_stays_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cluster keeps the wide law that it had in the pool."""
    in_pool(monkeypatch, uncover=mutate(pool.uncover, "factors[column, i, j] = core[column, i, j]", "matrix = 0.0"))


def every_auxiliary_weighs_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """α for each of the m auxiliary components, not α/m."""
    monkeypatch.setattr(ChineseRestaurant, "new_weight", lambda _, alpha: 2.0 * alpha)


def latent_evidence_without_determinant(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutate(messages.evidence_of_one, ", factor * math.sqrt(inverse)", ", 1.0")
    in_assignments(monkeypatch, evidence_of_one=wrong)


def latent_drawn_from_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's new latent coefficient forgets what the observations say of its mean."""
    wrong = mutate(messages.draw_one, "(pull - grip * (mean - latent)) * inverse", "0.0 * pull * latent")
    in_assignments(monkeypatch, draw_one=wrong)


def residuals_go_the_wrong_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Residuals that grow by what a latent coefficient takes up."""
    wrong = mutate(messages.shift, "residual[rows[k]] -= loads[k, 0] * by", "residual[rows[k]] += loads[k, 0] * by")
    in_assignments(monkeypatch, shift=wrong)


def noise_ignores_covariates(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ThreadRegression.residual

    def wrong(self: ThreadRegression, latent: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        return right(self, latent, np.zeros_like(coefficients))

    monkeypatch.setattr(ThreadRegression, "residual", wrong)


def noise_counts_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ThreadRegression.noise_law

    def wrong(self: ThreadRegression, residual: np.ndarray) -> G:
        law = right(self, residual)
        return G(law.dof - 1.0, law.inverse_scale)

    monkeypatch.setattr(ThreadRegression, "noise_law", wrong)


def noise_variance_for_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ_y² where (C7) has the precision s_y."""
    right = ThreadRegression.terms

    def wrong(self: ThreadRegression, rng: Any, latent: np.ndarray, params: Any) -> Any:
        return right(self, rng, latent, params | {"noise_precision": 1.0 / params["noise_precision"]})

    monkeypatch.setattr(ThreadRegression, "terms", wrong)


def base_mean_forgets_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    in_view(monkeypatch, base_mean_law=mutate(gaussian.base_mean_law, "(1.0 if i == j", "(0.25 if i == j"))


def base_covariance_halves_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    in_view(
        monkeypatch, base_covariance_law=mutate(gaussian.base_covariance_law, "= base_dof * total", "= 0.5 * base_dof * total")
    )


def component_precision_miscounts(monkeypatch: pytest.MonkeyPatch) -> None:
    in_view(
        monkeypatch,
        component_precision=mutate(gaussian.component_precision, "return base_dof + count", "return base_dof + count + 1.0"),
    )


def component_mean_ignores_base(monkeypatch: pytest.MonkeyPatch) -> None:
    in_view(monkeypatch, component_mean=mutate(gaussian.component_mean, "linear[i] = base_linear[i]", "linear[i] = 0.0"))


MUTANTS = {
    "printed-r0": (printed_r0, "latent-IGMM"),
    "printed-beta-sum-from-zero": (printed_beta, "IGMM"),
    "printed-alpha-without-jacobian": (printed_alpha, "dual-DP"),
    "gamma-forgets-its-rate": (gamma_forgets_its_rate, "IGMM with a gamma prior"),
    "alpha-fixed-as-process": (alpha_fixed_as_process, "dual-fixed"),
    "auxiliary-as-covariance": (auxiliary_as_covariance, "IGMM of one feature"),
    "singleton-parameters-not-reused": (singleton_not_reused, "dual-DP"),
    "pool-without-spread-of-means": (pool_without_spread_of_means, "IGMM of one feature"),
    "opened-mean-forgets-its-user": (opened_mean_forgets_its_user, "dual-DP"),
    "opened-cluster-stays-covered": (opened_cluster_stays_covered, "dual-DP"),
    "every-auxiliary-weighs-alpha": (every_auxiliary_weighs_alpha, "IGMM of one feature"),
    "scales-forget-prior": (scales_forget_prior, "GMM"),
    "columns-forget-volume": (columns_forget_volume, "GMM"),
    "latent-scale-moves-precisions-only": (latent_scale_moves_precisions_only, "single"),
    "latent-evidence-without-determinant": (latent_evidence_without_determinant, "latent-IGMM"),
    "latent-drawn-from-prior": (latent_drawn_from_prior, "single"),
    "residuals-go-the-wrong-way": (residuals_go_the_wrong_way, "latent-GMM"),
    "noise-ignores-covariates": (noise_ignores_covariates, "single with covariates"),
    "noise-counts-one-less": (noise_counts_one_less, "single"),
    "noise-variance-for-precision": (noise_variance_for_precision, "single"),
    "base-mean-forgets-prior": (base_mean_forgets_prior, "GMM"),
    "base-covariance-halves-precisions": (base_covariance_halves_precisions, "GMM"),
    "component-precision-miscounts": (component_precision_miscounts, "GMM"),
    "component-mean-ignores-base": (component_mean_ignores_base, "GMM"),
}


RUINOUS = {"noise-variance-for-precision"}  # these end many chains in an error
FAINT = {"singleton-parameters-not-reused": 600}  # these take more chains to be seen


# Kept for `make test-slow`: each compiles the whole assignment sweep or a view again.
SLOW = {
    "printed-r0",
    "printed-beta-sum-from-zero",
    "alpha-fixed-as-process",
    "gamma-forgets-its-rate",
    "every-auxiliary-weighs-alpha",
    "pool-without-spread-of-means",
    "opened-mean-forgets-its-user",
    "opened-cluster-stays-covered",
    "scales-forget-prior",
    "columns-forget-volume",
    "noise-ignores-covariates",
    "noise-variance-for-precision",
    "residuals-go-the-wrong-way",
    "latent-drawn-from-prior",
    "singleton-parameters-not-reused",
    "component-mean-ignores-base",
    "component-precision-miscounts",
    "base-mean-forgets-prior",
    "base-covariance-halves-precisions",
    "noise-counts-one-less",
    "auxiliary-as-covariance",
    "latent-evidence-without-determinant",
    "printed-alpha-without-jacobian",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mutant", [slow(mutant) if mutant in SLOW else mutant for mutant in MUTANTS])
def test_mutant_is_rejected(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By blocks, where a mutant is a small compiled function of its own."""
    install, name = MUTANTS[mutant]
    install(monkeypatch)
    by_blocks(monkeypatch, 3)
    try:
        _, size = worst(joint_test(MODELS[name](), seed=0, n_chains=FAINT.get(mutant, 250)))
    except LostChainsError:
        assert mutant in RUINOUS
    else:
        assert size > REJECT

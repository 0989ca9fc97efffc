"""Joint tests of the whole sampler for the seven models, and mutants that they must reject."""

import math
from contextlib import nullcontext
from typing import Any

import numba
import numpy as np
import pytest

import checks
from checks import (
    Change,
    LostChainsError,
    assert_joint,
    assert_rejected,
    by_blocks,
    changed,
    joint_tests,
    mutant_tests,
    mutate,
)
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.distributions import G
from dualview.engines.gibbs import GibbsEngine
from dualview.engines.gibbs.moves import assignment
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.numerics import messages
from dualview.numerics import slice_sampling as slices
from dualview.partitions import concentration, dirichlet
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import Whitening
from dualview.views.gaussian import auxiliary
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


def model(
    partition: Any, x: np.ndarray | None = None, likelihood: ThreadRegression | None = None
) -> Model:
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


@pytest.mark.parametrize("name", ["dual-DP"])
def test_few_chains_leave_the_joint_prior_as_it_is(name: str) -> None:
    """With half the chains of the test below, and the same limit: standard errors are 1.4 times as
    large."""
    assert_joint(MODELS[name](), 0, n_chains=120, n_prior=2000)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, seeds=range(3))


@pytest.mark.parametrize(
    ("sizes", "accepted"),
    [
        ([4.4], True),
        ([-4.6, 4.4], True),
        ([4.6, -4.6], False),
        ([np.nan, 4.4], True),
        ([4.6, np.nan], False),
    ],
)
def test_a_second_run_with_more_chains_decides(
    sizes: list[float], accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[int, dict[str, Any]]] = []

    def run(_: Model, seed: int, **options: Any) -> dict[str, float]:
        runs.append((seed, options))
        return {"alpha": 0.1, "noise": sizes[len(runs) - 1]}

    monkeypatch.setattr(checks, "joint_test", run)
    verdict = (
        nullcontext()
        if accepted
        else pytest.raises(pytest.fail.Exception, match=r"noise: \|z\| = ")
    )
    with verdict:
        assert_joint(MODELS["single"](), 3, n_chains=10, n_prior=50)
    assert len(runs) == len(sizes)
    if len(runs) > 1:
        (seed, first), (another, second) = runs
        assert seed != another
        assert (
            (second["n_chains"], second["n_prior"])
            == (4 * first["n_chains"], 4 * first["n_prior"])
            == (40, 200)
        )


@pytest.mark.parametrize(
    ("sizes", "rejected"),
    [
        ([8.1], True),
        ([-np.inf], True),
        ([7.9, 6.1], True),
        ([7.9, 5.9], False),
        ([LostChainsError, 6.1], True),
        ([LostChainsError, 5.9], False),
        ([5.0, LostChainsError], False),
        ([5.0, DegenerateError], True),
    ],
)
def test_a_faint_mutant_is_judged_by_the_whole_run(
    sizes: list[Any], rejected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def run(_: Model, seed: int, n_chains: int, n_prior: int) -> dict[str, float]:  # noqa: ARG001
        size = sizes[len(runs)]
        runs.append(n_chains)
        if isinstance(size, type):
            raise size("lost")
        return {"alpha": 0.1, "noise": size}

    monkeypatch.setattr(checks, "joint_test", run)
    with nullcontext() if rejected else pytest.raises(AssertionError):
        assert_rejected(MODELS["single"](), 3, ends=(DegenerateError,))
    assert runs == [50, 250][: len(sizes)]


def two_steps(rng: np.random.Generator, model: Model, state: State) -> State:
    """Two steps to a data set, in one compiled call where possible: what the first leaves behind
    counts in the second."""
    left = 2
    while left:
        state, info = GibbsEngine(2).advance(rng, model, state, np.zeros(left, dtype=np.bool_))
        left -= info.n_steps
    return state


OF_THREE = {
    "dual-DP of three features": lambda: model(ChineseRestaurant(), features(3), regression()),
    "IGMM of three features": lambda: model(ChineseRestaurant(), features(3)),
    "GMM of three features": lambda: model(FiniteDirichlet(3), features(3)),
    "dual-DP of three features with covariates": lambda: model(
        ChineseRestaurant(), features(3), regression(2)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [False, True], ids=["at once", "by blocks"])
@pytest.mark.parametrize("name", OF_THREE)
def test_two_steps_to_a_data_set_with_three_features(
    name: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blocks:
        by_blocks(monkeypatch)
    assert_joint(OF_THREE[name](), seed=0, length=30, step=two_steps)


test_sampler_by_blocks_leaves_the_joint_prior_as_it_is = joint_tests(
    MODELS, ["dual-DP", "dual-fixed", "dual-DP with covariates"], change=by_blocks
)


def printed_r0() -> list[Change]:
    """σ⁻² for σ² in (C4). With a constant Σ = σ² = 4 that is 1/16 in working units, where the right
    term is 1."""
    return [changed(gaussian.base_precision_law, "math.sqrt(prior_dof) if", "0.25 if")]


def printed_beta() -> list[Change]:
    """The product over d = 0..D in (C6): one Γ too many in the law of every S_k, here with the S_k
    integrated out."""
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
            density += (
                math.lgamma(argument + 0.5 * count) - math.lgamma(argument) if n_dims else 0.0
            )
        return density

    return [(scales._sample_log_spare, slices.sampler(wrong))]


def scales_forget_prior() -> list[Change]:
    """The scale of W_0 without the power of c that the prior brings."""
    density = mutate(
        scales.log_scale_density, "0.5 * n_dims * prior_dof * log_scale", "0.0 * log_scale"
    )
    return [(scales._sample_log_scale, slices.sampler(density))]


def columns_forget_volume() -> list[Change]:
    """The columns of W_0's factor without the power of c that their elements bring."""
    density = mutate(
        scales.log_column_density, "n_dims - d + 0.5 * (prior_dof - n_dims - 1.0)", "0.0"
    )
    return [(scales._sample_column_scale, slices.sampler(density))]


def latent_scale_moves_precisions_only() -> list[Change]:
    """The latent vectors' move without what it changes in the likelihood."""
    density = mutate(
        scales.log_latent_scale_density,
        "prior + slope * step - 0.5 * curvature * step * step",
        "prior",
    )
    return [(scales._sample_latent_scale, slices.sampler(density))]


def printed_alpha() -> list[Change]:
    """The density of ln α without its Jacobian: exponent K − 3/2 in (C9)."""
    density = mutate(
        concentration.log_alpha_density,
        "(n_clusters - n_users + prior.power)",
        "(n_clusters - n_users + prior.power - 1.0)",
    )
    return [(concentration._sample_log_alpha, slices.sampler(density))]


def gamma_forgets_its_rate() -> list[Change]:
    """The density of ln α with the gamma prior's power and without its exponential."""
    density = mutate(concentration.log_alpha_density, "prior.rate * alpha", "0.05 * alpha")
    return [(concentration._sample_log_alpha, slices.sampler(density))]


def alpha_fixed_as_process() -> list[Change]:
    """The Dirichlet process's α^K for a fixed K."""
    tables = "kernels.draw_table_counts(rng, counts, partition.spread)"
    return [changed(dirichlet.redraw, tables, "partition.n_components")]


def auxiliary_as_covariance() -> list[Change]:
    """Precisions of one feature upside down."""
    line = "wishart_factor(rng, base.dof, factor, components.factors[k])"
    upside_down = "components.factors[k, 0, 0] = 1.0 / components.factors[k, 0, 0]"
    return [changed(gaussian.draw_into, line, f"{line}\n        {upside_down}")]


def singleton_not_reused() -> list[Change]:
    """A user alone in its cluster throws its parameters away."""
    kept = "freed = auxiliary[slot]\n        counts[freed] = -1\n        auxiliary[slot] = own"
    return [changed(assignment.leave, kept, "freed = own\n        counts[freed] = -1")]


def auxiliary_without_spread_of_means() -> list[Change]:
    """An auxiliary component whose mean is taken for the base's: S_j⁻¹ without R_0⁻¹."""
    return [
        changed(auxiliary.marginalise_mean, "add_to_cholesky(spread, vector)", "vector[0] = 0.0")
    ]


def opened_mean_forgets_its_user() -> list[Change]:
    """The mean of a new cluster from the base, and not given the user who has opened it."""
    return [
        changed(
            auxiliary.draw_mean, "base.precision, 1.0, vector", "base.precision, 0.0, 0.0 * vector"
        )
    ]


def opened_cluster_stays_wide() -> list[Change]:
    """A new cluster keeps the wide law that it had as an auxiliary component."""
    return [
        changed(auxiliary.draw_mean, "factors[column, i, j] = cores[column, i, j]", "matrix = 0.0")
    ]


def every_auxiliary_weighs_alpha() -> list[Change]:
    """α for each of the m auxiliary components, not α/m."""
    return [
        changed(
            assignment.weigh_columns,
            "new_weight(n_clusters, n_customers, partition) / n_auxiliary",
            "new_weight(n_clusters, n_customers, partition)",
        )
    ]


def latent_evidence_without_determinant() -> list[Change]:
    return [changed(messages.evidence_of_one, ", factor * math.sqrt(inverse)", ", 1.0")]


def latent_drawn_from_prior() -> list[Change]:
    """A user's new latent coefficient forgets what the observations say of its mean."""
    towards = "(gradient - curvature * (mean - latent)) * inverse"
    return [changed(messages.draw_one, towards, "0.0 * gradient * latent")]


def residuals_go_the_wrong_way() -> list[Change]:
    """Residuals that grow by what a latent coefficient takes up when its user has chosen."""
    wrong = mutate(
        messages.shift,
        "residual[rows[k]] -= loads[k, 0] * by",
        "residual[rows[k]] += loads[k, 0] * by",
    )
    return [changed(assignment.assign_in_turn, shift=wrong)]


def base_mean_forgets_prior() -> list[Change]:
    return [changed(gaussian.base_mean_law, "(1.0 if i == j", "(0.25 if i == j")]


def base_covariance_halves_precisions() -> list[Change]:
    return [changed(gaussian.base_covariance_law, "= base_dof * total", "= 0.5 * base_dof * total")]


def component_precision_miscounts() -> list[Change]:
    wrong = mutate(
        gaussian.component_precision, "return base_dof + count", "return base_dof + count + 1.0"
    )
    return [changed(gaussian.draw_components, component_precision=wrong)]


def component_mean_ignores_base() -> list[Change]:
    wrong = mutate(gaussian.component_mean, "linear[i] = base_linear[i]", "linear[i] = 0.0")
    return [changed(gaussian.draw_components, component_mean=wrong)]


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
        return right(
            self, rng, latent, params | {"noise_precision": 1.0 / params["noise_precision"]}
        )

    monkeypatch.setattr(ThreadRegression, "terms", wrong)


COMPILED_MUTANTS = {
    "printed-r0": (printed_r0, "latent-IGMM"),
    "printed-beta-sum-from-zero": (printed_beta, "IGMM"),
    "printed-alpha-without-jacobian": (printed_alpha, "dual-DP"),
    "gamma-forgets-its-rate": (gamma_forgets_its_rate, "IGMM with a gamma prior"),
    "alpha-fixed-as-process": (alpha_fixed_as_process, "dual-fixed"),
    "auxiliary-as-covariance": (auxiliary_as_covariance, "IGMM of one feature"),
    "singleton-parameters-not-reused": (singleton_not_reused, "dual-DP"),
    "auxiliary-without-spread-of-means": (auxiliary_without_spread_of_means, "IGMM of one feature"),
    "opened-mean-forgets-its-user": (opened_mean_forgets_its_user, "dual-DP"),
    "opened-cluster-stays-wide": (opened_cluster_stays_wide, "dual-DP"),
    "every-auxiliary-weighs-alpha": (every_auxiliary_weighs_alpha, "IGMM of one feature"),
    "scales-forget-prior": (scales_forget_prior, "GMM"),
    "columns-forget-volume": (columns_forget_volume, "GMM"),
    "latent-scale-moves-precisions-only": (latent_scale_moves_precisions_only, "single"),
    "latent-evidence-without-determinant": (latent_evidence_without_determinant, "latent-IGMM"),
    "latent-drawn-from-prior": (latent_drawn_from_prior, "single"),
    "residuals-go-the-wrong-way": (residuals_go_the_wrong_way, "latent-GMM"),
    "base-mean-forgets-prior": (base_mean_forgets_prior, "GMM"),
    "base-covariance-halves-precisions": (base_covariance_halves_precisions, "GMM"),
    "component-precision-miscounts": (component_precision_miscounts, "GMM"),
    "component-mean-ignores-base": (component_mean_ignores_base, "GMM"),
}
LIKELIHOOD_MUTANTS = {
    "noise-ignores-covariates": (noise_ignores_covariates, "single with covariates"),
    "noise-counts-one-less": (noise_counts_one_less, "single"),
    "noise-variance-for-precision": (noise_variance_for_precision, "single"),
}


RUINOUS = {"noise-variance-for-precision": (LostChainsError,)}  # many chains end in an error
FAINT = {"singleton-parameters-not-reused": {"n_chains": 600}}  # these take more chains to be seen


@pytest.mark.slow
@pytest.mark.parametrize("name", ["IGMM", "dual-DP"])
def test_a_copy_in_place_of_a_function_changes_no_draw(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a mutant is rejected for what it changes, not for how it was put in."""
    rng = np.random.default_rng(1)
    model = MODELS[name]()
    first = model.draw_prior(rng)
    model = model.simulate(rng, first)
    by_blocks(monkeypatch, n_users=3)

    def last() -> State:
        stream, state = np.random.default_rng(2), first
        for _ in range(5):
            state = GibbsEngine(3).step(stream, model, state)
        return state

    before = last()
    by_blocks(
        monkeypatch, (scales._sample_log_spare, slices.sampler(scales.log_dof_density)), n_users=3
    )
    after = last()
    np.testing.assert_array_equal(before.labels.z, after.labels.z)
    for one, other in zip(before.views.values(), after.views.values(), strict=True):
        np.testing.assert_array_equal(one.components.factors, other.components.factors)
        assert one.base.dof == other.base.dof


# By blocks, where a mutant is a small compiled function of its own.
test_mutant_is_rejected = pytest.mark.filterwarnings("ignore::RuntimeWarning")(
    mutant_tests(MODELS, COMPILED_MUTANTS, block=3, own=FAINT)
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mutant", LIKELIHOOD_MUTANTS)
def test_mutant_of_the_likelihood_is_rejected(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By blocks, where the likelihood redraws its parameters itself."""
    change, name = LIKELIHOOD_MUTANTS[mutant]
    by_blocks(monkeypatch, n_users=3)
    change(monkeypatch)
    assert_rejected(MODELS[name](), 0, ends=RUINOUS.get(mutant, ()))

"""Moves of a view's scale: densities against the naive joint with its precisions integrated out,
digits, laws of the draws.

For any S, ln p(W_0, β, rest) = ln p(W_0, β, S, rest) − ln p(S | W_0, β, rest), and the last is the
Wishart law (C1).
"""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.linalg import eigvalsh
from scipy.special import multigammaln
from scipy.stats import beta, chi2, norm, uniform, wishart

import naive
from checks import mutate
from dualview.numerics import messages
from dualview.numerics.slice_sampling import sampler
from dualview.views.gaussian import scale as scales
from dualview.views.gaussian.conditionals import cluster_sums
from numerics.observations import Observations
from yardsticks import (
    COMPILED,
    EPSILON,
    N_DRAWS,
    check_constant,
    check_law,
    check_mean,
    distribution_function,
    positive_definite,
    precise,
    precise_log_gamma,
    python_of,
    quantiles,
)

DIMS = [1, 2, 5]
N_COMPONENTS = 4  # the last one is empty
N_USERS = 12
PARTITION = ("finite", N_COMPONENTS)


def roots_of(scatters, base_factor):
    return scales.scatter_roots(scales.whiten(scatters, base_factor))


class Case:
    """A random view over given or latent vectors."""

    def __init__(self, n_dims, seed=1, prior_dof=None):
        self.rng = np.random.default_rng([n_dims, seed])
        self.prior_dof = float(n_dims if prior_dof is None else prior_dof)
        self.n_dims, self.constants = n_dims, (np.zeros(n_dims), np.eye(n_dims))
        self.z = np.append(
            np.arange(N_COMPONENTS - 1),
            self.rng.integers(0, N_COMPONENTS - 1, N_USERS - N_COMPONENTS + 1),
        )
        self.x = self.rng.standard_normal((N_USERS, n_dims))
        means = self.rng.standard_normal((N_COMPONENTS, n_dims))
        matrices = [positive_definite(self.rng, n_dims) for _ in range(N_COMPONENTS + 2)]
        base_mean = self.rng.standard_normal(n_dims)
        self.view = naive.ViewState(
            means, np.array(matrices[2:]), base_mean, *matrices[:2], n_dims + 2.5
        )
        self.counts, _, self.scatters, _ = cluster_sums(self.x, self.z, means, np.empty(0))
        self.base_factor = np.linalg.cholesky(self.view.base_covariance)
        self.roots = roots_of(self.scatters, self.base_factor)
        self.trace = np.trace(self.view.base_covariance)

    def log_other_prior(self, base_covariance):
        """ln of what (M6′) W_0 ~ W(ω, I/ω) is more than (M6), which the naive joint has."""
        laws = [wishart(dof, np.eye(self.n_dims) / dof) for dof in (self.prior_dof, self.n_dims)]
        return laws[0].logpdf(base_covariance) - laws[1].logpdf(base_covariance)

    def log_without_precisions(self, precisions, base_covariance, base_dof):
        """ln p(x, W_0, β, μ, base | z) with all S_k integrated out, from the joint at the given
        ones."""
        view = replace(
            self.view, precisions=precisions, base_covariance=base_covariance, base_dof=base_dof
        )
        state = naive.State(self.z, 1.0, {"features": view})
        total = naive.log_joint(
            state, features=self.x, feature_constants=self.constants, partition=PARTITION
        )
        total += self.log_other_prior(base_covariance)
        for k in range(N_COMPONENTS):
            deviations = self.x[self.z == k] - view.means[k]
            inverse_scale = base_dof * base_covariance + deviations.T @ deviations
            total -= wishart.logpdf(
                precisions[k], base_dof + len(deviations), np.linalg.inv(inverse_scale)
            )
        return total


def check_ratio(joint, law, points):
    """log joint − log density is the same at all points, up to rounding."""
    joints, laws = np.array([joint(p) for p in points]), np.array([law(p) for p in points])
    assert np.ptp(joints) > 1e-3
    check_constant(joints - laws, np.abs(joints).max() + np.abs(laws).max())


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_base_dof(n_dims, seed):
    """The density is of y = ln(β − D + 1), the joint of β: dβ = e^y dy."""
    case = Case(n_dims, seed)
    for precisions in (case.view.precisions, Case(n_dims, 9).view.precisions):
        check_ratio(
            lambda spare, precisions=precisions: case.log_without_precisions(
                precisions, case.view.base_covariance, n_dims - 1 + spare
            ),
            lambda spare: (
                scales.log_dof_density(math.log(spare), (case.counts, case.roots, 0))
                - math.log(spare)
            ),
            np.geomspace(0.05, 500, 25),
        )


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize(("spare", "more"), [(0.1, 0), (3.5, 0), (3.5, 1), (3.5, 4), (200.0, 0)])
def test_scale(n_dims, spare, more):
    """The orbit of W_0 → c W_0 has the density p(c W_0) c^(D(D+1)/2) in ln c: W_0 has so many free
    elements."""
    case, dof = Case(n_dims, prior_dof=n_dims + more), n_dims - 1 + spare
    parameters = (case.counts, case.roots, dof, case.trace, case.prior_dof)
    for precisions in (case.view.precisions, Case(n_dims, 9).view.precisions):
        check_ratio(
            lambda c, precisions=precisions: (
                case.log_without_precisions(precisions, c * case.view.base_covariance, dof)
                + n_dims * (n_dims + 1) / 2 * math.log(c)
            ),
            lambda c: scales.log_scale_density(math.log(c), parameters),
            np.geomspace(0.02, 50, 25),
        )


def scaled_column(factor, d, c):
    """L with its column d times √c."""
    return factor * np.where(np.arange(len(factor)) == d, math.sqrt(c), 1.0)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize(("spare", "more"), [(0.1, 0), (3.5, 0), (3.5, 1), (3.5, 4), (200.0, 0)])
def test_column(n_dims, spare, more):
    """The orbit has the density of L's elements, p(W_0) Π L_ii^(D−i), times √c for each element of
    the column that grows."""
    case, dof = Case(n_dims, prior_dof=n_dims + more), n_dims - 1 + spare
    heights = np.empty((N_COMPONENTS, 1))
    for d in range(n_dims):
        scales.column_heights(d, dof, scales.whiten(case.scatters, case.base_factor), heights)
        square = np.sum(case.base_factor[:, d] ** 2)
        parameters = (case.counts, heights, dof, square, float(n_dims), float(d), case.prior_dof)

        def joint(c, d=d):
            factor = scaled_column(case.base_factor, d, c)
            volume = np.dot(n_dims - np.arange(n_dims), np.log(np.diagonal(factor))) + 0.5 * (
                n_dims - d
            ) * math.log(c)
            return (
                case.log_without_precisions(case.view.precisions, factor @ factor.T, dof) + volume
            )

        check_ratio(
            joint,
            lambda c, parameters=parameters: scales.log_column_density(math.log(c), parameters),
            np.geomspace(0.02, 50, 25),
        )


@pytest.mark.parametrize("far", [1.0, 1e9])
def test_heights_are_ratios_of_determinants(far):
    """And keep their digits beside a row that is very long: with it alone the height is what is at
    right angles to it."""
    rng, dof = np.random.default_rng(8), 3.5
    whitened, heights = rng.standard_normal((2, 3, 3)), np.empty((2, 1))
    whitened[1] = 0.0
    whitened[1, 0], whitened[1, 2] = far * rng.standard_normal(3), rng.standard_normal(3)
    scales.column_heights(2, dof, whitened, heights)
    whole = dof * np.eye(3) + whitened[0] @ whitened[0].T
    assert heights[0, 0] == pytest.approx(
        np.linalg.det(whole) / np.linalg.det(whole[:2, :2]) - dof, rel=1e-12
    )
    along = np.dot(whitened[1, 2], whitened[1, 0] / np.linalg.norm(whitened[1, 0]))
    across = np.sum(whitened[1, 2] ** 2) - along**2
    share = dof / (dof + np.sum(whitened[1, 0] ** 2))
    assert heights[1, 0] == pytest.approx(across + along**2 * share, rel=1e-9)


@pytest.mark.parametrize("n_dims", DIMS)
def test_columns_are_drawn_in_turn_each_given_those_before(n_dims):
    """What was whitened stays what is whitened."""
    case, dof = Case(n_dims), n_dims + 2.5
    base_factor, whitened = case.base_factor.copy(), scales.whiten(case.scatters, case.base_factor)
    scales.redraw_columns(np.random.default_rng(3), case.counts, whitened, base_factor, dof)
    rng, factor, heights = np.random.default_rng(3), case.base_factor, np.empty((N_COMPONENTS, 1))
    for d in range(n_dims):
        scales.column_heights(d, dof, scales.whiten(case.scatters, factor), heights)
        parameters = (
            case.counts,
            heights.copy(),
            dof,
            np.sum(factor[:, d] ** 2),
            float(n_dims),
            float(d),
            float(n_dims),
        )
        t = by_slices(scales.log_column_density)(rng, parameters, 0.0, 1.0)
        factor = scaled_column(factor, d, math.exp(t))
    np.testing.assert_allclose(base_factor, factor, rtol=1e-9)
    np.testing.assert_allclose(
        whitened, scales.whiten(case.scatters, factor), rtol=1e-9, atol=1e-12
    )


def columns_redrawn_from_the_prior(kernel, n_dims):
    """Of many draws: W_0's factor, and whether a cluster's only vector is far out in W_0."""
    rng, z, dof = np.random.default_rng([6, n_dims]), np.array([0, 1, 1, 1, 2, 2]), n_dims + 0.5
    factors, distances = np.empty((N_DRAWS, n_dims, n_dims)), np.empty(N_DRAWS)
    for i in range(N_DRAWS):
        normals = rng.standard_normal((n_dims, n_dims))
        factor = np.linalg.cholesky(normals @ normals.T / n_dims)
        scale = np.linalg.inv(dof * factor @ factor.T)
        roots = np.linalg.cholesky(wishart.rvs(dof, scale, size=3, random_state=rng))
        x = np.linalg.solve(np.swapaxes(roots[z], 1, 2), rng.standard_normal((len(z), n_dims, 1)))[
            ..., 0
        ]
        counts, _, scatters, _ = cluster_sums(x, z, np.zeros((3, n_dims)), np.empty(0))
        kernel(rng, counts, scales.whiten(scatters, factor), factor, dof)
        factors[i], distances[i] = factor, np.sum(np.linalg.solve(factor, x[0]) ** 2) / dof
    return factors, beta(0.5 * (dof - n_dims + 1), 0.5 * n_dims).cdf(1.0 / (1.0 + distances))


def check_columns(factors, ranks):
    """Squares on the diagonal are χ², what is below it normal, and a vector is as far as with a
    Wishart precision."""
    n_dims = factors.shape[1]
    for i in range(n_dims):
        check_law(n_dims * factors[:, i, i] ** 2, chi2(n_dims - i).cdf)
        for j in range(i):
            check_law(math.sqrt(n_dims) * factors[:, i, j], norm.cdf)
    check_law(ranks, uniform.cdf)


@pytest.mark.parametrize("n_dims", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_columns_drawn_from_their_law_stay_in_it(n_dims):
    check_columns(*columns_redrawn_from_the_prior(scales.redraw_columns, n_dims))


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="too few draws to tell")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n_dims - d + 0.5", "n_dims + 0.5"),
        ("0.5 * prior_dof * scale * square", "0.5 * scale * square"),
    ],
)
def test_columns_with_an_error_leave_their_law(old, new):
    density = mutate(scales.log_column_density, old, new)
    kernel = mutate(scales.redraw_columns, _sample_column_scale=sampler(density))
    with pytest.raises(AssertionError, match="KS distance"):
        check_columns(*columns_redrawn_from_the_prior(kernel, 3))


@pytest.mark.parametrize("n_dims", DIMS)
def test_scale_and_dof_are_of_one_density(n_dims):
    """Going round a rectangle in (ln c, ln(β − D + 1)), the two densities' differences add up to
    nothing."""
    case = Case(n_dims)

    def by_scale(t, y):
        return scales.log_scale_density(
            t, (case.counts, case.roots, math.exp(y) + n_dims - 1, case.trace, case.prior_dof)
        )

    def by_dof(t, y):
        return scales.log_dof_density(y, (case.counts, case.roots / math.exp(t), 0))

    for (t, s), (y, w) in [((-1.0, 0.7), (0.3, 2.0)), ((2.0, -3.0), (-1.0, 8.0))]:
        around = by_scale(s, y) - by_scale(t, y) + by_dof(s, w) - by_dof(s, y)
        around += by_scale(t, w) - by_scale(s, w) + by_dof(t, y) - by_dof(t, w)
        assert around == pytest.approx(0.0, abs=1e-10)


class LatentCase(Case):
    """The view's vectors are latent, seen through observations."""

    def __init__(self, n_dims, kind, more=0):
        super().__init__(n_dims, prior_dof=n_dims + more)
        self.observations = Observations(self.rng, N_USERS, n_dims, kind)

    def moved(self, c):
        """Everything along W_0 → c W_0, S_k → S_k / c, f_u − μ_{z_u} → √c (f_u − μ_{z_u})."""
        centres = self.view.means[self.z]
        view = replace(
            self.view,
            base_covariance=c * self.view.base_covariance,
            precisions=self.view.precisions / c,
        )
        return view, centres + math.sqrt(c) * (self.x - centres)

    def log_joint(self, c):
        """Of what is moved, with the outcomes."""
        view, latent = self.moved(c)
        state = naive.State(self.z, 1.0, {"behavior": view}, latent)
        total = naive.log_joint(state, behavior_constants=self.constants, partition=PARTITION)
        return (
            total
            + self.observations.log_likelihood(latent)
            + self.log_other_prior(view.base_covariance)
        )

    def log_jacobian(self, c):
        """Of W_0, which grows, the S_k, which shrink, and the f_u."""
        free = self.n_dims * (self.n_dims + 1) / 2
        return (free * (1 - N_COMPONENTS) + N_USERS * self.n_dims / 2) * math.log(c)

    def parameters(self):
        """Those of the density, from the kernel that looks along the orbit."""
        look = messages.along_gram if self.observations.kind == "gram" else messages.along
        slope, curvature, *_ = look(
            self.z, self.view.means, self.x, self.observations.terms(self.x)
        )
        return slope, curvature, self.trace, self.n_dims, self.prior_dof


@pytest.mark.parametrize("more", [0, 1, 4])
@pytest.mark.parametrize(
    ("n_dims", "kind"), [(1, "gram"), *itertools.product([1, 2, 3], ["common", "own"])]
)
def test_latent_scale(n_dims, kind, more):
    case = LatentCase(n_dims, kind, more)
    parameters = case.parameters()
    check_ratio(
        lambda c: case.log_joint(c) + case.log_jacobian(c),
        lambda c: scales.log_latent_scale_density(math.log(c), parameters),
        np.geomspace(0.02, 50, 25),
    )


def test_latent_scale_with_the_naive_outcomes():
    """(M8): the same with the naive joint's own likelihood."""
    case = LatentCase(1, "common")
    parameters = case.parameters()

    def joint(c):
        view, latent = case.moved(c)
        state = naive.State(
            case.z, 1.0, {"behavior": view}, latent, noise_precision=case.observations.precision[0]
        )
        data = {
            "design": case.observations.design[:, :, 0],
            "outcome": case.observations.outcome,
            "noise_variance": 2.0,
        }
        log_joint = naive.log_joint(
            state, behavior_constants=case.constants, partition=PARTITION, **data
        )
        return log_joint + case.log_jacobian(c)

    check_ratio(
        joint,
        lambda c: scales.log_latent_scale_density(math.log(c), parameters),
        np.geomspace(0.02, 50, 25),
    )


def at(parameters, t):
    """The same density's parameters for one who stands at e^t times the scale."""
    slope, curvature, trace, *dims = parameters
    root = math.exp(t / 2)
    return root * slope - root * (root - 1) * curvature, root**2 * curvature, root**2 * trace, *dims


LATENT = [
    (0.0, 0.0, 0.7, 1, 1.0),
    (3.0, 5.0, 2.0, 2, 3.0),
    (-20.0, 30.0, 1.0, 1, 2.0),
    (40.0, 8.0, 5.0, 5, 5.0),
]


@pytest.mark.parametrize("parameters", LATENT)
@pytest.mark.parametrize("t", [-3.0, 0.4, 2.5])
def test_latent_scale_is_the_same_density_from_wherever_one_stands(parameters, t):
    points = np.linspace(-4, 4, 17)
    here = np.array([scales.log_latent_scale_density(t + s, parameters) for s in points])
    there = np.array([scales.log_latent_scale_density(s, at(parameters, t)) for s in points])
    check_constant(here - there, np.abs(here).max() + np.abs(there).max())


@pytest.mark.parametrize("parameters", LATENT)
def test_latent_scales_drawn_from_their_law_stay_in_it(parameters):
    rng, span = np.random.default_rng(3), (-60.0, 30.0)
    density = np.vectorize(lambda t: scales.log_latent_scale_density(t, parameters))
    cdf = distribution_function(density, *span)
    before = quantiles(rng, cdf, *span, N_DRAWS)
    after = [t + math.log(scales.draw_latent_scale(rng, *at(parameters, t))) for t in before]
    check_law(after, cdf)


@cache
def by_slices(density):
    return sampler(density)


class ScalesOnAGrid:
    """ln c and y = ln(β − D + 1) together, on a grid, from the formula as it is written in the
    module."""

    def __init__(self, counts, roots, trace):
        self.counts, self.roots, self.trace = np.array(counts, dtype=float), np.array(roots), trace
        n_dims = self.roots.shape[1]
        self.t, self.y = np.linspace(-14.0, 8.0, 701), np.linspace(-4.0, 50.0, 1081)
        t, dof = self.t[:, None], n_dims - 1 + np.exp(self.y)[None, :]
        values = (
            n_dims**2 / 2 * t
            - n_dims * np.exp(t) * trace / 2
            - self.y / 2
            - n_dims * np.exp(-self.y) / 2
        )
        large = dof > 1e5  # there the ratio of gamma functions is a power
        for n, own in zip(self.counts, self.roots, strict=True):
            gammas = multigammaln(np.where(large, 1e5, dof + n) / 2, n_dims) - multigammaln(
                np.where(large, 1e5, dof) / 2, n_dims
            )
            values = (
                values
                + np.where(large, 0.0, gammas - n * n_dims / 2 * np.log(dof / 2))
                - n * n_dims / 2 * t
            )
            for root in own:
                values = values - (dof + n) / 2 * np.log1p(root / (dof * np.exp(t)))
        self.shares = np.exp(values - values.max())
        self.shares /= self.shares.sum()

    def draws(self, rng, size):
        """Grid cells by their shares, uniform inside."""
        cells = rng.choice(self.shares.size, size, p=self.shares.ravel())
        i, j = np.unravel_index(cells, self.shares.shape)
        jitter = rng.random((2, size)) - 0.5
        return self.t[i] + jitter[0] * (self.t[1] - self.t[0]), self.y[j] + jitter[1] * (
            self.y[1] - self.y[0]
        )

    def marginals(self):
        """Distribution functions of ln c and of y."""
        functions = []
        for axis, grid in ((1, self.t), (0, self.y)):
            edges = np.append(grid, 2 * grid[-1] - grid[-2]) - 0.5 * (grid[1] - grid[0])
            steps = np.append(0.0, np.cumsum(self.shares.sum(axis=axis)))
            functions.append(lambda v, edges=edges, steps=steps: np.interp(v, edges, steps))
        return functions


@pytest.mark.parametrize(
    ("counts", "roots", "trace"),
    [
        ([3], [[5.0]], 1.3),
        ([4, 2, 0], [[9.0, 0.3], [2.0, 1e-6], [0.0, 0.0]], 1.0),
        ([30, 20, 1], [[20.0, 35.0], [18.0, 22.0], [0.5, 0.0]], 2.0),
    ],
)
def test_scales_drawn_from_their_law_stay_in_it(counts, roots, trace):
    law = ScalesOnAGrid(counts, roots, trace)
    rng, n_dims = np.random.default_rng(4), law.roots.shape[1]
    t, y = law.draws(rng, N_DRAWS)
    together = np.sum(law.shares * np.outer(np.tanh(law.t), np.tanh(law.y / 5)))
    for i in range(N_DRAWS):
        standing = law.roots / math.exp(t[i])
        scale, dof = scales.draw_scales(
            rng, law.counts, standing, trace * math.exp(t[i]), n_dims - 1 + math.exp(y[i])
        )
        t[i], y[i] = t[i] + math.log(scale), math.log(dof - n_dims + 1)
    for drawn, cdf in zip((t, y), law.marginals(), strict=True):
        check_law(drawn, cdf)
    check_mean(np.tanh(t) * np.tanh(y / 5), together)


@pytest.mark.parametrize("n_dims", DIMS)
def test_the_dof_is_drawn_given_the_new_scale(n_dims):
    case, dof = Case(n_dims), n_dims + 2.5
    for seed in range(5):
        scale, new_dof = scales.draw_scales(
            np.random.default_rng(seed), case.counts, case.roots, case.trace, dof
        )
        rng = np.random.default_rng(seed)
        t = by_slices(scales.log_scale_density)(
            rng, (case.counts, case.roots, dof, case.trace, case.prior_dof), 0.0, 1.0
        )
        y = by_slices(scales.log_dof_density)(
            rng, (case.counts, case.roots / math.exp(t), 0), math.log(dof - n_dims + 1), 2.0
        )
        assert (scale, new_dof) == pytest.approx((math.exp(t), n_dims - 1 + math.exp(y)), rel=1e-12)


@pytest.mark.parametrize("n_dims", DIMS)
def test_roots_are_eigenvalues(n_dims):
    case = Case(n_dims)
    for k in range(N_COMPONENTS):
        deviations = case.x[case.z == k] - case.view.means[k]
        expected = eigvalsh(deviations.T @ deviations, case.view.base_covariance)
        np.testing.assert_allclose(np.sort(case.roots[k]), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(case.roots[-1], 0.0)


@pytest.mark.parametrize("far", [1.0, 1e6])
@pytest.mark.parametrize("n_dims", [2, 5])
def test_small_roots_keep_their_digits_beside_large_ones(n_dims, far):
    """Points near one long line; their product is a ratio of determinants, which triangles give
    without cancellation."""
    rng = np.random.default_rng(20 + n_dims)
    base_covariance = positive_definite(rng, n_dims)
    x = far * np.outer(rng.standard_normal(9), rng.standard_normal(n_dims)) + rng.standard_normal(
        (9, n_dims)
    )
    means, none = np.zeros((1, n_dims)), np.empty(0)
    scatters = cluster_sums(x, np.zeros(9, dtype=np.int64), means, none).scatters
    roots = roots_of(scatters, np.linalg.cholesky(base_covariance))[0]
    pivots = np.abs(np.diagonal(np.linalg.qr(x, mode="r"))) / np.diagonal(
        np.linalg.cholesky(base_covariance)
    )
    assert np.log(roots).sum() == pytest.approx(2 * np.log(pivots).sum(), abs=1e4 * EPSILON * far)


@precise
def exact_dof_density(log_spare, n_dims, *counts_and_roots):
    """The density of y = ln(β − D + 1) as it is written in the module, each cluster a count and
    then its D roots."""
    n_dims, spare = int(n_dims), log_spare.exp()
    dof = spare + n_dims - 1
    value = -log_spare / 2 - n_dims / (2 * spare)
    for first in range(0, len(counts_and_roots), n_dims + 1):
        n, *roots = counts_and_roots[first : first + n_dims + 1]
        for d in range(n_dims):
            value += precise_log_gamma((dof + n - d) / 2) - precise_log_gamma((dof - d) / 2)
        value -= n * n_dims / 2 * (dof / 2).ln() + (dof + n) / 2 * sum(
            (1 + root / dof).ln() for root in roots
        )
    return value


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("counts", [[1], [40, 3, 0], [2] * 30])
@pytest.mark.parametrize("spare", [0.01, 0.5, 4.0, 100.0, 9e3, 1.1e4, 1e6, 1e13, 1e25])
def test_dof_density_has_its_digits_at_any_size(n_dims, counts, spare):
    y, counts = math.log(spare), np.array(counts, dtype=float)
    roots = np.random.default_rng(n_dims).gamma(1.0, size=(len(counts), n_dims)) * counts[:, None]
    value = scales.log_dof_density(y, (counts, roots, 0))
    exact = exact_dof_density(y, n_dims, *np.column_stack([counts, roots]).ravel().tolist())
    spare, dof = math.exp(y), math.exp(y) + n_dims - 1
    size = n_dims * counts.sum() * (abs(y) + 4.0) + np.sum(
        (dof + counts[:, None]) * np.log1p(roots / dof)
    )
    size += 0.5 * (1.0 + abs(y)) * n_dims / spare  # which one unit in the last place of y moves
    if dof < 1e4:  # plain differences of lnΓ
        size += (
            n_dims
            * np.count_nonzero(counts)
            * (dof + counts.max())
            * math.log(dof + counts.max() + 10.0)
        )
    assert abs(value - exact) <= 8 * EPSILON * size


@pytest.mark.parametrize("n_dims", DIMS)
def test_dof_density_has_no_step_where_its_formula_changes(n_dims):
    """At β = 10⁴."""
    case = Case(n_dims)
    below, above = (math.log(1e4 * factor - n_dims + 1) for factor in (1 - 1e-12, 1 + 1e-12))
    values = [scales.log_dof_density(y, (case.counts, case.roots, 0)) for y in (below, above)]
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_empty_clusters_add_nothing():
    """And without any users the densities are those of the priors."""
    case = Case(2)
    keep = case.counts > 0
    for y in (-1.0, 0.5, 20.0):
        both = (
            scales.log_dof_density(y, (case.counts[k], case.roots[k], 0))
            for k in (slice(None), keep)
        )
        assert next(both) == next(both)
        prior = np.zeros(1), np.zeros((1, 2))
        assert scales.log_dof_density(y, (*prior, 0)) == pytest.approx(-y / 2 - math.exp(-y))
        assert scales.log_scale_density(y, (*prior, 3.0, 1.5, 2.0)) == pytest.approx(
            2 * y - 1.5 * math.exp(y)
        )


@pytest.mark.parametrize("y", [-701.0, 701.0, -math.inf, math.inf])
def test_densities_are_zero_beyond_the_range_of_numbers(y):
    case = Case(2)
    assert scales.log_dof_density(y, (case.counts, case.roots, 0)) == -math.inf
    assert scales.log_scale_density(y, (case.counts, case.roots, 3.0, 1.0, 2.0)) == -math.inf
    assert (
        scales.log_column_density(
            y, (case.counts, case.roots[:, :1].copy(), 3.0, 1.0, 2.0, 1.0, 2.0)
        )
        == -math.inf
    )
    assert scales.log_latent_scale_density(y, (1.0, 1.0, 1.0, 2, 2.0)) == -math.inf


@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims):
    case = Case(n_dims)
    whitened = scales.whiten(case.scatters, case.base_factor)
    np.testing.assert_array_equal(
        python_of(scales.whiten)(case.scatters, case.base_factor), whitened
    )
    np.testing.assert_array_equal(
        python_of(scales.scatter_roots)(whitened.copy()), scales.scatter_roots(whitened.copy())
    )
    columns = [[case.base_factor.copy(), whitened.copy()] for _ in range(2)]
    for kernel, (base_factor, rows) in zip(
        (scales.redraw_columns, python_of(scales.redraw_columns)), columns, strict=True
    ):
        kernel(np.random.default_rng(5), case.counts, rows, base_factor, n_dims + 2.5)
    for compiled, plain in zip(*columns, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-14)
    for y in np.linspace(-3.0, 60.0, 40).tolist():
        for kernel, parameters in [
            (scales.log_dof_density, (case.counts, case.roots, 0)),
            (scales.log_scale_density, (case.counts, case.roots, 3.5, case.trace, case.prior_dof)),
            (scales.log_latent_scale_density, (2.0, 3.0, case.trace, n_dims, case.prior_dof)),
            (
                scales.log_column_density,
                (
                    case.counts,
                    case.roots[:, :1].copy(),
                    3.5,
                    1.2,
                    float(n_dims),
                    0.0,
                    case.prior_dof,
                ),
            ),
        ]:
            assert kernel(y, parameters) == python_of(kernel)(y, parameters)
    for kernel, *arguments in [
        (scales.draw_scales, case.counts, case.roots, case.trace, n_dims + 2.5),
        (scales.draw_latent_scale, 2.0, 3.0, case.trace, n_dims, case.prior_dof),
    ]:
        compiled, plain = (
            f(np.random.default_rng(5), *arguments) for f in (kernel, python_of(kernel))
        )
        assert compiled == pytest.approx(plain, rel=1e-13)

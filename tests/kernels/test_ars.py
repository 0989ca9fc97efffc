"""Adaptive rejection sampling: draws follow numerical distribution functions from any start; bad targets are refused.

All test laws are branches of one target, chosen by the first parameter, so that one sampler is compiled.
"""

import math

import numba
import numpy as np
import pytest
from scipy.stats import beta, laplace, loggamma, logistic, norm, truncnorm

from dualview.kernels import ars
from dualview.kernels.concentration import draw_alpha
from dualview.kernels.gaussian import draw_base_dof, log_dof_density
from naive import log_conditional_alpha
from yardsticks import COMPILED, N_DRAWS, check_law, distribution_function, python_of

NORMAL, LOG_GAMMA, LOGISTIC, LAPLACE, BETA, TWO_MODES, CAUCHY, FINITE_DIRICHLET, FLAT, RISING, FALLING, HALF_FLAT, BROKEN = (
    range(13)
)
WHOLE_LINE = -math.inf
# Plain Python raises errors where compiled code goes on with infinities.
LOW, HIGH = ([1e-200, 1e-9], [1e9, 1e200]) if COMPILED else ([1e-2], [1e9])


@numba.njit(error_model="numpy")
def smooth(x, parameters):
    """Proper log-concave laws."""
    law = parameters[0]
    if law == NORMAL:
        z = (x - parameters[1]) / parameters[2]
        return -0.5 * z * z, -z / parameters[2]
    if law == LOG_GAMMA:
        return parameters[1] * x - math.exp(x), parameters[1] - math.exp(x)
    if law == LOGISTIC:
        fall = abs(x) + 2.0 * math.log1p(math.exp(-abs(x)))
        return -fall, -math.tanh(0.5 * x)
    if law == LAPLACE:
        return -abs(x), -math.copysign(1.0, x)
    if x <= 0.0 or x >= 1.0:  # BETA
        return -math.inf, 0.0
    a, b = parameters[1] - 1.0, parameters[2] - 1.0
    return a * math.log(x) + b * math.log1p(-x), a / x - b / (1.0 - x)


@numba.njit(error_model="numpy")
def finite_dirichlet(x, parameters):
    """(C10); parameters: the law, then the counts."""
    share = math.exp(x) / (parameters.shape[0] - 1)
    value, slope, n_users = -0.5 * x - 0.5 * math.exp(-x), -0.5 + 0.5 * math.exp(-x), 0.0
    for count in parameters[1:]:
        for i in range(int(count)):
            value += math.log(share + i) - math.log(math.exp(x) + n_users)
            slope += share / (share + i) - math.exp(x) / (math.exp(x) + n_users)
            n_users += 1.0
    return value, slope


@numba.njit(error_model="numpy")
def target(x, parameters):
    law = parameters[0]
    if law <= BETA:
        return smooth(x, parameters)
    if law == TWO_MODES:
        gap = parameters[1]
        return np.logaddexp(-0.5 * (x - gap) ** 2, -0.5 * (x + gap) ** 2), gap * math.tanh(gap * x) - x
    if law == CAUCHY:
        return -math.log1p(x * x), -2.0 * x / (1.0 + x * x)
    if law == FINITE_DIRICHLET:
        return finite_dirichlet(x, parameters)
    if law == BROKEN:
        return math.nan, math.nan
    if law == HALF_FLAT:
        return min(x, 0.0), 1.0 if x < 0.0 else 0.0
    slope = 0.0 if law == FLAT else (1.0 if law == RISING else -1.0)
    return slope * x, slope


sample = ars.sampler(target)


def draw(rng, parameters, start=0.5, lower=WHOLE_LINE, size=N_DRAWS):
    parameters = np.array(parameters, dtype=float)
    return np.array([sample(rng, parameters, start, lower) for _ in range(size)])


@pytest.mark.parametrize("start", [-40.0, 0.3, 1e3, *([-1e12, 1e12] if COMPILED else [])])
@pytest.mark.parametrize(
    ("parameters", "law"),
    [
        ([NORMAL, 0.0, 1.0], norm()),
        ([NORMAL, 1e6, 1e-3], norm(1e6, 1e-3)),
        ([NORMAL, -3.0, 1e5], norm(-3.0, 1e5)),
        ([LOG_GAMMA, 0.2], loggamma(0.2)),
        ([LOG_GAMMA, 300.0], loggamma(300.0)),
        ([LOGISTIC], logistic()),
        ([LAPLACE], laplace()),
    ],
)
def test_standard_laws_from_any_start(parameters, law, start):
    if parameters[0] == LOG_GAMMA and start > 700:
        start = 700.0  # beyond, the density's logarithm is not a number of the machine
    check_law(draw(np.random.default_rng(1), parameters, start), law.cdf)


@pytest.mark.parametrize(("lower", "start"), [(-0.5, -0.4999), (-0.5, 1e9), (-30.0, 0.0), (-1e-9, 1.0)])
def test_normal_cut_off_below_its_mode(lower, start):
    draws = draw(np.random.default_rng(2), [NORMAL, 0.0, 1.0], start, lower)
    check_law(draws, truncnorm(lower, math.inf).cdf)


@pytest.mark.parametrize(("a", "b"), [(1.5, 4.0), (30.0, 1.2), (2.0, 2.0)])
def test_beta_law_ends_on_both_sides(a, b):
    draws = draw(np.random.default_rng(3), [BETA, a, b], 0.2, 0.0)
    check_law(draws, beta(a, b).cdf)


@pytest.mark.parametrize(
    ("parameters", "start"),
    [
        ([TWO_MODES, 2.0], 0.5),
        ([TWO_MODES, 3.0], -9.0),
        ([CAUCHY], 0.1),
        ([CAUCHY], 30.0),
        ([FINITE_DIRICHLET, 5, 0], 0.0),
        ([FINITE_DIRICHLET, 8, 1, 1], 0.0),
    ],
)
def test_a_target_that_is_not_log_concave_is_refused(parameters, start):
    with pytest.raises(ValueError, match="log-concave"):
        draw(np.random.default_rng(4), parameters, start)


@pytest.mark.parametrize("law", [FLAT, RISING, FALLING, HALF_FLAT])
@pytest.mark.parametrize("start", [-5.0, 0.0, 5.0])
def test_an_improper_target_is_refused(law, start):
    with pytest.raises(ValueError, match="no finite integral"):
        draw(np.random.default_rng(5), [law], start)


def test_a_target_that_is_never_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        draw(np.random.default_rng(6), [BROKEN])


def test_compiled_numbers_are_those_of_python():
    for parameters in ([NORMAL, 2.0, 0.1], [LOG_GAMMA, 0.7], [LOGISTIC]):
        compiled, plain = (
            [f(rng, np.array(parameters), 0.3, WHOLE_LINE) for _ in range(50)]
            for f, rng in ((sample, np.random.default_rng(7)), (python_of(sample), np.random.default_rng(7)))
        )
        assert compiled == plain


def tangents(points):
    """Tangents x, h, d of the standard normal's log density."""
    x = np.array(points, dtype=float)
    return x, -0.5 * x**2, -x


def test_tangents_cross_between_their_points_where_they_are_equal():
    rng = np.random.default_rng(8)
    for _ in range(50):
        x, h, d = tangents(np.sort(rng.normal(0, 10, 2)))
        crossing = ars._crossing(x[0], h[0], d[0], x[1], h[1], d[1])
        assert x[0] <= crossing <= x[1]
        assert h[0] + d[0] * (crossing - x[0]) == pytest.approx(h[1] + d[1] * (crossing - x[1]))


def test_parallel_tangents_cross_halfway():
    assert ars._crossing(1.0, -1.0, -1.0, 3.0, -3.0, -1.0) == 2.0


@pytest.mark.parametrize(
    ("points", "lower"), [([-1.0, 0.7], WHOLE_LINE), ([-2.0, -0.5, 0.0, 0.1, 3.0], WHOLE_LINE), ([-0.5, 2.0], -0.8)]
)
def test_proposals_follow_the_hull(points, lower):
    x, h, d = tangents(points)

    def hull(v):
        return np.min(h[:, None] + d[:, None] * (v - x[:, None]), axis=0)

    rng = np.random.default_rng(9)
    proposals = np.array([ars._propose(rng, x, h, d, len(x), lower) for _ in range(N_DRAWS)])
    np.testing.assert_allclose(proposals[:, 1], hull(proposals[:, 0]), rtol=1e-9, atol=1e-12)
    assert (proposals[:, 1] >= -0.5 * proposals[:, 0] ** 2 - 1e-12).all()
    check_law(proposals[:, 0], distribution_function(hull, max(lower, -60.0), 60.0, 40_001))


def test_inserted_tangents_stay_in_order():
    rng = np.random.default_rng(10)
    x, h, d = np.empty(40), np.empty(40), np.empty(40)
    x[:2], h[:2], d[:2] = tangents([-1.0, 1.0])
    for n in range(2, 40):
        point = rng.normal()
        assert ars._insert(x, h, d, n, point, -0.5 * point**2, -point)
    np.testing.assert_array_equal(np.column_stack([h, d]), np.column_stack([-0.5 * x**2, -x]))
    assert (np.diff(x) > 0).all()


@pytest.mark.parametrize("slope", [1.5, -1.5])
def test_an_inserted_slope_out_of_order_is_noticed(slope):
    x, h, d = (np.append(part, np.empty(3)) for part in tangents([-1.0, 1.0]))
    assert not ars._insert(x, h, d, 2, 0.0, 0.0, slope)


def dof_distribution(n_components, n_dims, misfits):
    parameters = np.array([n_components, n_dims, misfits], dtype=float)
    lower = math.log(n_dims - 1) + 1e-12 if n_dims > 1 else -15.0
    return distribution_function(lambda grid: np.array([log_dof_density(y, parameters)[0] for y in grid]), lower, 130.0)


@pytest.mark.parametrize("n_components", [1, 3, 30, 300])
@pytest.mark.parametrize("n_dims", [1, 2, 5])
@pytest.mark.parametrize("ratio", [1.01, 0.4, 6.0])
def test_base_dof_follows_its_density_from_any_start(n_components, n_dims, ratio):
    """(C6) when every S_k is the ratio times W_0⁻¹."""
    factors = np.tile(np.sqrt(ratio) * np.eye(n_dims), (n_components, 1, 1))
    misfits = n_components * n_dims * (math.log(ratio) - ratio + 1.0)
    cdf = dof_distribution(n_components, n_dims, misfits)
    starts = [n_dims - 1 + low for low in LOW] + [n_dims + 0.5, *HIGH]
    rng = np.random.default_rng(11)
    draws = [draw_base_dof(rng, factors, np.eye(n_dims), start) for start in starts for _ in range(N_DRAWS // 10)]
    assert min(draws) > n_dims - 1
    check_law(np.log(draws), cdf)


@pytest.mark.skipif(not COMPILED, reason="plain Python raises an error of its own on the way to infinity")
@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_base_dof_of_components_that_all_equal_their_centre_has_no_proper_law(n_dims):
    factors = np.tile(np.eye(n_dims), (3, 1, 1))
    with pytest.raises(ValueError, match="no finite integral"):
        draw_base_dof(np.random.default_rng(13), factors, np.eye(n_dims), n_dims + 1.0)


@pytest.mark.parametrize(
    ("n_clusters", "n_users"),
    [(1, 1), (1, 2), (1, 300), (3, 3), (3, 50), (30, 30), (30, 31), (30, 1000), (300, 300), (300, 1000)],
)
def test_alpha_follows_its_density_from_any_start(n_clusters, n_users):
    """(C9)."""
    z = np.minimum(np.arange(n_users), n_clusters - 1)
    cdf = distribution_function(lambda grid: log_conditional_alpha(grid, z, ("dp", None)), -15.0, 130.0)
    rng = np.random.default_rng(12)
    starts = [*LOW, 0.7, *HIGH]
    draws = [draw_alpha(rng, n_clusters, n_users, start) for start in starts for _ in range(N_DRAWS // 10)]
    check_law(np.log(draws), cdf)

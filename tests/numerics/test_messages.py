"""A latent vector integrated out: against dense normal laws of all observations, with one precision or one for each."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from dualview.numerics import messages
from numerics.observations import Observations
from yardsticks import N_DRAWS, check_constant, check_law, check_mean, positive_definite, precise, python_of, upper_factor

DIMS = [1, 2, 3]
KINDS = ["common", "own"]
N_USERS, N_CLUSTERS = 7, 3
SILENT = 3  # the user without observations


class Case:
    """Latent vectors, observations of them, and clusters' normal laws."""

    def __init__(self, n_dims, kind, seed=1):
        rng = np.random.default_rng([n_dims, seed])
        self.n_dims, self.z = n_dims, np.array([0, 1, 2, 0, 1, 1, 0])
        self.latent = rng.standard_normal((N_USERS, n_dims))
        self.observations = Observations(rng, N_USERS, n_dims, kind, silent=SILENT)
        terms = self.observations.terms(self.latent)
        self.starts, self.rows, self.loads, self.squares, self.residual, self.precision, self.gram, self.weighted, *_ = terms
        self.means = rng.standard_normal((N_CLUSTERS, n_dims))
        self.precisions = np.array([positive_definite(rng, n_dims) for _ in range(N_CLUSTERS)])
        self.factors = upper_factor(self.precisions)

    def moved(self, u, step):
        latent = self.latent.copy()
        latent[u] += step
        return latent

    def stand(self, u, vector):
        self.latent[u] = vector
        self.residual = self.observations.residual(self.latent)

    def pull_and_grip(self, u, pull_of=messages.pull_of, grip_of=messages.grip_of):
        pull, grip = np.full(self.n_dims, np.nan), np.full((self.n_dims, self.n_dims), np.nan)
        start, end = self.starts[u], self.starts[u + 1]
        pull_of(start, end, self.rows, self.loads, self.residual, self.precision, pull)
        grip_of(u, start, end, self.rows, self.loads, self.squares, self.precision, grip)
        return pull, grip

    def evidence(self, u, k, kernel=messages.evidence):
        """The value, and gap and matrix for a draw."""
        gap, matrix = np.full(self.n_dims, np.nan), np.full((self.n_dims, self.n_dims), np.nan)
        value = kernel(self.means[k], self.factors[k], self.latent[u], 1.0, *self.pull_and_grip(u), gap, matrix)
        return value, gap, matrix

    @property
    def along(self):
        """What the kernel of that name takes."""
        return self.z, self.means, self.latent, self.starts, self.rows, self.loads, self.residual, self.precision

    def posterior(self, u, k):
        """Mean and covariance of f_u given its cluster, the observations and all others' latent vectors."""
        mean, precision = self.observations.alone(u, self.latent).posterior(self.means[[k]], self.precisions[[k]])
        return mean, np.linalg.inv(precision)


class Scripted:
    """A generator whose normal numbers are given in advance; for kernels as plain Python."""

    def __init__(self, noise):
        self._noise = iter(noise)

    def standard_normal(self):
        return next(self._noise)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_pull_and_grip_are_the_likelihoods_quadratic(n_dims, kind):
    case, rng = Case(n_dims, kind), np.random.default_rng(2)
    for u in range(N_USERS):
        pull, grip = case.pull_and_grip(u)
        for step in rng.standard_normal((5, n_dims)):
            change = case.observations.log_likelihood(case.moved(u, step)) - case.observations.log_likelihood(case.latent)
            assert step @ pull - 0.5 * step @ grip @ step == pytest.approx(change, rel=1e-11, abs=1e-11)
    for part in case.pull_and_grip(SILENT):
        np.testing.assert_array_equal(part, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_a_shifted_residual_is_that_of_the_moved_vector(n_dims, kind):
    case, rng = Case(n_dims, kind), np.random.default_rng(3)
    for u in range(N_USERS):
        residual, step = case.residual.copy(), rng.standard_normal(n_dims)
        messages.shift(case.starts[u], case.starts[u + 1], case.rows, case.loads, residual, step)
        np.testing.assert_allclose(residual, case.observations.residual(case.moved(u, step)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_evidence_is_the_marginal_likelihood_relative_to_where_one_stands(n_dims, kind):
    case = Case(n_dims, kind)
    here = case.observations.log_likelihood(case.latent)
    for u in range(N_USERS):
        alone = case.observations.alone(u, case.latent)
        for k in range(N_CLUSTERS):
            value, _, matrix = case.evidence(u, k)
            marginal = alone.log_marginal(case.means[[k]], case.precisions[[k]])
            assert value == pytest.approx(marginal - here, rel=1e-11, abs=1e-11)
            np.testing.assert_allclose(matrix @ matrix.T, case.precisions[k] + case.pull_and_grip(u)[1], rtol=1e-12, atol=1e-12)
            if n_dims == 1:
                pull, grip = case.pull_and_grip(u)
                exponent, ratio = messages.evidence_of_one(
                    case.means[k, 0], case.factors[k, 0, 0], case.latent[u, 0], pull[0], grip[0, 0]
                )
                assert exponent + math.log(ratio) == pytest.approx(value, rel=1e-12, abs=1e-12)
    for k in range(N_CLUSTERS):
        assert case.evidence(SILENT, k)[0] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_differences_of_evidence_do_not_depend_on_where_one_stands(n_dims, kind):
    """Only they count when a user chooses a cluster."""
    case = Case(n_dims, kind)
    for u in range(N_USERS):
        rows = []
        for vector in (np.zeros(n_dims), case.means[0], 30.0 * np.ones(n_dims)):
            case.stand(u, vector)
            rows.append([case.evidence(u, k)[0] for k in range(N_CLUSTERS)])
        for column in np.transpose(rows)[1:] - np.transpose(rows)[0]:
            check_constant(column, np.abs(rows).max())


@precise
def exact_evidence(mean, factor, latent, pull, grip):
    """ln of the integral of N(f; mean, factor⁻²) exp((f − latent) pull − (f − latent)² grip / 2), by completing the square."""
    away, total = mean - latent, factor**2 + grip
    rest = pull - grip * away
    return away * pull - grip * away**2 / 2 + rest**2 / (2 * total) + (factor**2 / total).ln() / 2


STRONG = [0.0, 1.0, 1e2, 1e8, 1e12, 1e16]


@pytest.mark.parametrize("grip", STRONG)
def test_evidence_of_a_number_keeps_its_digits_under_strong_observations(grip):
    """Standing near the observations' own estimate, a prior's mean away from it."""
    mean, factor, latent, pull = 0.7, 1.3, -0.9, 0.3 * math.sqrt(grip)
    exponent, ratio = messages.evidence_of_one(mean, factor, latent, pull, grip)
    assert exponent + math.log(ratio) == pytest.approx(exact_evidence(mean, factor, latent, pull, grip), rel=1e-11)


@pytest.mark.parametrize("grip", STRONG)
def test_evidence_keeps_its_digits_under_strong_observations(grip):
    """The same for a vector of one dimension."""
    mean, factor, latent, pull = 0.7, 1.3, -0.9, 0.3 * math.sqrt(grip)
    exact = exact_evidence(mean, factor, latent, pull, grip)
    vectors = (np.array([v]) for v in (mean, latent, pull, 0.0))
    matrices = (np.array([[v]]) for v in (factor, grip, 0.0))
    (mean, latent, pull, gap), (factor, grip, matrix) = vectors, matrices
    assert messages.evidence(mean, factor, latent, 1.0, pull, grip, gap, matrix) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_a_drawn_latent_vector_is_affine_in_its_noise_with_the_posteriors_moments(n_dims, kind):
    """Mean and covariance are read off; the step and the vector agree."""
    case, kernel = Case(n_dims, kind), python_of(messages.draw_latent)

    def draw(u, k, noise):
        _, gap, matrix = case.evidence(u, k)
        latent, step = case.latent[u].copy(), np.full(n_dims, np.nan)
        kernel(Scripted(noise), case.means[k], latent, gap, matrix, step)
        np.testing.assert_allclose(latent, case.latent[u] + step, rtol=1e-14)
        return latent

    for u in range(N_USERS):
        for k in range(N_CLUSTERS):
            mean, covariance = case.posterior(u, k)
            centre = draw(u, k, np.zeros(n_dims))
            columns = np.array([draw(u, k, unit) - centre for unit in np.eye(n_dims)])
            np.testing.assert_allclose(centre, mean, rtol=1e-10, atol=1e-11)
            np.testing.assert_allclose(columns.T @ columns, covariance, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_one_drawn_number_has_the_posteriors_moments(kind):
    case, kernel = Case(1, kind), python_of(messages.draw_one)
    for u in range(N_USERS):
        (pull,), ((grip,),) = case.pull_and_grip(u)
        for k in range(N_CLUSTERS):
            parameters = case.means[k, 0], case.factors[k, 0, 0], case.latent[u, 0], pull, grip
            centre, above = (kernel(Scripted([noise]), *parameters) for noise in (0.0, 1.0))
            (mean,), ((variance,),) = case.posterior(u, k)
            assert centre == pytest.approx(mean, rel=1e-11)
            assert (above - centre) ** 2 == pytest.approx(variance, rel=1e-11)


@pytest.mark.parametrize("n_dims", DIMS)
def test_draws_follow_the_posterior(n_dims):
    case, rng = Case(n_dims, "own"), np.random.default_rng(4)
    for u, k in [(0, 1), (SILENT, 2)]:
        mean, covariance = case.posterior(u, k)
        draws = []
        for _ in range(N_DRAWS):
            if n_dims == 1:
                (pull,), ((grip,),) = case.pull_and_grip(u)
                draws.append([messages.draw_one(rng, case.means[k, 0], case.factors[k, 0, 0], case.latent[u, 0], pull, grip)])
            else:
                _, gap, matrix = case.evidence(u, k)
                latent = case.latent[u].copy()
                messages.draw_latent(rng, case.means[k], latent, gap, matrix, np.empty(n_dims))
                draws.append(latent)
        deviations = np.array(draws) - mean
        check_mean(deviations, 0.0)
        check_mean(deviations[:, :, None] * deviations[:, None, :], covariance)
        check_law(np.einsum("ni,ij,nj->n", deviations, np.linalg.inv(covariance), deviations), chi2(n_dims).cdf)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_along_the_common_growth_of_all_deviations(n_dims, kind):
    case = Case(n_dims, kind)
    slope, curvature, effect = messages.along(*case.along)
    centres = case.means[case.z]
    observations, here = case.observations, case.observations.log_likelihood(case.latent)
    for growth in (-1.0, -0.3, 0.2, 2.0):
        grown = case.latent + growth * (case.latent - centres)
        np.testing.assert_allclose(observations.residual(grown), case.residual - growth * effect, rtol=1e-11, atol=1e-12)
        change = slope * growth - 0.5 * curvature * growth**2
        assert change == pytest.approx(observations.log_likelihood(grown) - here, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("n", range(1, 10))
def test_a_row_times_latent_numbers(n):
    rng = np.random.default_rng(n)
    matrix, latent = rng.standard_normal((n, n)), rng.standard_normal((n, 1))
    for u in range(n):
        assert messages.row_times(matrix, u, latent) == pytest.approx(matrix[u] @ latent[:, 0], rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_a_gram_matrix_says_the_same_as_residuals(seed):
    """Pulls, and the slope and curvature of common growth."""
    by_gram, by_residual = Case(1, "gram", seed), Case(1, "common", seed)
    for u in range(N_USERS):
        product = messages.row_times(by_gram.gram, u, by_gram.latent)
        pull = by_gram.precision[0] * (by_gram.weighted[u] - product)
        assert pull == pytest.approx(by_residual.pull_and_grip(u)[0][0], rel=1e-11, abs=1e-12)
    expected = messages.along(*by_residual.along)
    arguments = by_gram.z, by_gram.means, by_gram.latent, by_gram.precision, by_gram.gram, by_gram.weighted
    assert messages.along_gram(*arguments) == pytest.approx(expected[:2], rel=1e-11)
    assert messages.along_gram(*arguments) == python_of(messages.along_gram)(*arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_one_dimension_has_the_same_pull_and_grip_as_plain_numbers(kind):
    case = Case(1, kind)
    for u in range(N_USERS):
        pull, grip = case.pull_and_grip(u)
        start, end = case.starts[u], case.starts[u + 1]
        number = messages.pull_of_one(start, end, case.rows, case.loads, case.residual, case.precision)
        assert number == pytest.approx(pull[0], rel=1e-13, abs=1e-14)
        number = messages.grip_of_one(u, start, end, case.rows, case.loads, case.squares, case.precision)
        assert number == pytest.approx(grip[0, 0], rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims, kind):
    case = Case(n_dims, kind)
    for u in range(N_USERS):
        plainly = case.pull_and_grip(u, python_of(messages.pull_of), python_of(messages.grip_of))
        for got, wanted in zip(case.pull_and_grip(u), plainly, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for got, wanted in zip(case.evidence(u, 1), case.evidence(u, 1, python_of(messages.evidence)), strict=True):
            np.testing.assert_array_equal(got, wanted)
    for got, wanted in zip(messages.along(*case.along), python_of(messages.along)(*case.along), strict=True):
        np.testing.assert_array_equal(got, wanted)
    numbers = 0.3, 1.2, -0.4, 2.0, 0.9
    assert messages.evidence_of_one(*numbers) == python_of(messages.evidence_of_one)(*numbers)
    compiled, plain = (f(np.random.default_rng(5), *numbers) for f in (messages.draw_one, python_of(messages.draw_one)))
    assert compiled == plain

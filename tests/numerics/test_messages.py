"""A latent vector integrated out: against dense normal laws of all observations, with one precision
or one for each."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from dualview.numerics import messages
from numerics.observations import Observations
from yardsticks import (
    N_DRAWS,
    check_constant,
    check_law,
    check_mean,
    positive_definite,
    precise,
    python_of,
    upper_factor,
)

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
        self.terms = self.observations.terms(self.latent)
        self.means = rng.standard_normal((N_CLUSTERS, n_dims))
        self.precisions = np.array([positive_definite(rng, n_dims) for _ in range(N_CLUSTERS)])
        self.factors = upper_factor(self.precisions)

    def moved(self, u, step):
        latent = self.latent.copy()
        latent[u] += step
        return latent

    def stand(self, u, vector):
        self.latent[u] = vector
        self.terms = self.observations.terms(self.latent)

    def message(self, u, kernel=messages.read_message):
        """What u's observations say; where the kernel is to work there is nothing of use before."""
        vectors = [np.full(self.n_dims, np.nan) for _ in range(4)]
        matrices = [np.full((self.n_dims, self.n_dims), np.nan) for _ in range(2)]
        (at, gradient, gap, step), (curvature, matrix) = vectors, matrices
        message = messages.Message(at, gradient, curvature, np.empty(0), gap, matrix, step)
        kernel(u, self.latent, self.terms, message)
        return message

    def evidence(self, u, k, kernel=messages.evidence):
        """The value, and the message with what a draw needs."""
        message = self.message(u)
        return kernel(self.means[k], self.factors[k], 1.0, message), message

    @property
    def along(self):
        """What the kernel of that name takes."""
        return self.z, self.means, self.latent, self.terms

    def posterior(self, u, k):
        """Mean and covariance of f_u given its cluster, the observations and all others' latent
        vectors."""
        mean, precision = self.observations.alone(u, self.latent).posterior(
            self.means[[k]], self.precisions[[k]]
        )
        return mean, np.linalg.inv(precision)


class Scripted:
    """A generator whose normal numbers are given in advance; for kernels as plain Python."""

    def __init__(self, noise):
        self._noise = iter(noise)

    def standard_normal(self):
        return next(self._noise)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_gradient_and_curvature_are_those_of_the_likelihood(n_dims, kind):
    case, rng = Case(n_dims, kind), np.random.default_rng(2)
    for u in range(N_USERS):
        gradient, curvature = np.full(n_dims, np.nan), np.full((n_dims, n_dims), np.nan)
        messages.gradient_of(u, case.terms, gradient)
        messages.curvature_of(u, case.terms, curvature)
        for step in rng.standard_normal((5, n_dims)):
            change = case.observations.log_likelihood(
                case.moved(u, step)
            ) - case.observations.log_likelihood(case.latent)
            assert step @ gradient - 0.5 * step @ curvature @ step == pytest.approx(
                change, rel=1e-11, abs=1e-11
            )
        if u == SILENT:
            np.testing.assert_array_equal(gradient, 0.0)
            np.testing.assert_array_equal(curvature, 0.0)


@pytest.mark.parametrize(("n_dims", "kind"), [(1, "gram"), *itertools.product(DIMS, KINDS)])
def test_a_message_has_them_and_where_the_vector_is(n_dims, kind):
    case = Case(n_dims, kind)
    plain = Case(n_dims, "common") if kind == "gram" else case  # the same observations
    for u in range(N_USERS):
        message, gradient, curvature = case.message(u), np.empty(n_dims), np.empty((n_dims, n_dims))
        messages.gradient_of(u, plain.terms, gradient)
        messages.curvature_of(u, plain.terms, curvature)
        np.testing.assert_array_equal(message.at, case.latent[u])
        np.testing.assert_allclose(message.gradient, gradient, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(message.curvature, curvature, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n_dims", [0, *DIMS])
def test_room_for_a_message(n_dims):
    message = messages.new_message(n_dims, 4)
    vectors, matrices = ((n_dims,), (n_dims, n_dims))
    assert [part.shape for part in message] == [
        vectors,
        vectors,
        matrices,
        (4,),
        vectors,
        matrices,
        vectors,
    ]
    assert len({part.ctypes.data for part in message if part.size}) == (7 if n_dims else 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_a_shifted_residual_is_that_of_the_moved_vector(n_dims, kind):
    case, rng = Case(n_dims, kind), np.random.default_rng(3)
    for u in range(N_USERS):
        residual, step = case.terms.residual.copy(), rng.standard_normal(n_dims)
        messages.shift(u, step, case.terms, residual)
        np.testing.assert_allclose(
            residual, case.observations.residual(case.moved(u, step)), rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_gain_is_what_the_likelihood_grows_by(n_dims, kind):
    case = Case(n_dims, kind)
    for u, k in itertools.product(range(N_USERS), range(N_CLUSTERS)):
        change = case.observations.log_likelihood(case.moved(u, case.means[k] - case.latent[u]))
        change -= case.observations.log_likelihood(case.latent)
        assert messages.gain(case.means[k], case.message(u)) == pytest.approx(
            change, rel=1e-11, abs=1e-11
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_evidence_is_the_marginal_likelihood_relative_to_where_one_stands(n_dims, kind):
    case = Case(n_dims, kind)
    here = case.observations.log_likelihood(case.latent)
    for u in range(N_USERS):
        alone = case.observations.alone(u, case.latent)
        for k in range(N_CLUSTERS):
            value, message = case.evidence(u, k)
            marginal = alone.log_marginal(case.means[[k]], case.precisions[[k]])
            assert value == pytest.approx(marginal - here, rel=1e-11, abs=1e-11)
            expected = case.precisions[k] + message.curvature
            np.testing.assert_allclose(
                message.matrix @ message.matrix.T, expected, rtol=1e-12, atol=1e-12
            )
            if n_dims == 1:
                numbers = case.latent[u, 0], message.gradient[0], message.curvature[0, 0]
                exponent, ratio = messages.evidence_of_one(
                    case.means[k, 0], case.factors[k, 0, 0], *numbers
                )
                assert exponent + math.log(ratio) == pytest.approx(value, rel=1e-12, abs=1e-12)
    for k in range(N_CLUSTERS):
        assert case.evidence(SILENT, k)[0] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("n_dims", DIMS)
def test_evidence_under_another_precision_of_the_observations(n_dims):
    """That of the same observations whose precision is ratio times what it was, with the same
    residuals."""
    case, ratio = Case(n_dims, "own"), 2.5
    other = Case(n_dims, "own")
    other.observations.precision = ratio * other.observations.precision
    other.terms = other.observations.terms(other.latent)
    for u, k in itertools.product(range(N_USERS), range(N_CLUSTERS)):
        value = messages.evidence(case.means[k], case.factors[k], ratio, message := case.message(u))
        expected, wanted = other.evidence(u, k)
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(message.gap, wanted.gap, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(message.matrix, wanted.matrix, rtol=1e-12, atol=1e-13)


def test_ratios_are_one_where_a_message_has_none():
    ratios = np.array([0.5, 2.0])
    assert messages.ratio_of(1, messages.new_message(2, 0)) == 1.0
    assert messages.ratio_of(1, messages.new_message(2, 0)._replace(ratios=ratios)) == 2.0


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
def exact_evidence(mean, factor, latent, gradient, curvature):
    """ln of the integral of N(f; mean, factor⁻²) exp(δ gradient − δ² curvature/2), δ = f − latent,
    by completing the square."""
    away, total = mean - latent, factor**2 + curvature
    rest = gradient - curvature * away
    return (
        away * gradient
        - curvature * away**2 / 2
        + rest**2 / (2 * total)
        + (factor**2 / total).ln() / 2
    )


STRONG = [0.0, 1.0, 1e2, 1e8, 1e12, 1e16]


@pytest.mark.parametrize("curvature", STRONG)
def test_evidence_of_a_number_keeps_its_digits_under_strong_observations(curvature):
    """Standing near the observations' own estimate, a prior's mean away from it."""
    mean, factor, latent, gradient = 0.7, 1.3, -0.9, 0.3 * math.sqrt(curvature)
    exponent, ratio = messages.evidence_of_one(mean, factor, latent, gradient, curvature)
    assert exponent + math.log(ratio) == pytest.approx(
        exact_evidence(mean, factor, latent, gradient, curvature), rel=1e-11
    )


@pytest.mark.parametrize("curvature", STRONG)
def test_evidence_keeps_its_digits_under_strong_observations(curvature):
    """The same for a vector of one dimension."""
    mean, factor, latent, gradient = 0.7, 1.3, -0.9, 0.3 * math.sqrt(curvature)
    exact = exact_evidence(mean, factor, latent, gradient, curvature)
    message = messages.new_message(1, 0)
    message.at[:], message.gradient[:], message.curvature[:] = latent, gradient, curvature
    value = messages.evidence(np.array([mean]), np.array([[factor]]), 1.0, message)
    assert value == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("thin", [1e-6, 1e-12, 1e-60])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("n_dims", [2, 3])
def test_evidence_of_a_nearly_singular_component_keeps_its_digits(n_dims, rank, thin):
    """What one observation says, by its marginal variance; nothing where there is none."""
    rng = np.random.default_rng(n_dims)
    factor, mean, at = (
        upper_factor(positive_definite(rng, n_dims)),
        rng.standard_normal(n_dims),
        rng.standard_normal(n_dims),
    )
    factor[0, 0] = thin
    message = messages.new_message(n_dims, 0)
    load = rank * np.round(rng.standard_normal(n_dims), 1)
    message.at[:], message.gradient[:], message.curvature[:] = at, 0.7 * load, np.outer(load, load)
    found = messages.evidence(mean, factor, 1.0, message)
    if rank == 0:
        assert found == pytest.approx(0.0, abs=1e-12)
        assert not message.gap.any()
    else:  # one observation with residual 0.7 and variance 1, where f stands
        solved = np.linalg.solve(factor, load)
        variance, away = 1.0 + solved @ solved, 0.7 - load @ (mean - at)
        expected = 0.5 * (0.7**2 - away**2 / variance - math.log(variance))
        assert found == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(
            message.matrix @ message.matrix.T, factor @ factor.T + np.outer(load, load), atol=1e-12
        )
    roots = np.log(np.diag(message.matrix)).sum() - np.log(np.diag(factor)).sum()
    assert roots == pytest.approx(0.5 * math.log(variance) if rank else 0.0, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_a_drawn_latent_vector_is_affine_in_its_noise_with_the_posteriors_moments(n_dims, kind):
    """Mean and covariance are read off; the step and the vector agree."""
    case, kernel = Case(n_dims, kind), python_of(messages.draw_latent)

    def draw(u, k, noise):
        _, message = case.evidence(u, k)
        latent = case.latent[u].copy()
        kernel(Scripted(noise), case.means[k], latent, message)
        np.testing.assert_allclose(latent, case.latent[u] + message.step, rtol=1e-14)
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
        message = case.message(u)
        for k in range(N_CLUSTERS):
            numbers = case.latent[u, 0], message.gradient[0], message.curvature[0, 0]
            parameters = case.means[k, 0], case.factors[k, 0, 0], *numbers
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
            _, message = case.evidence(u, k)
            if n_dims == 1:
                numbers = case.latent[u, 0], message.gradient[0], message.curvature[0, 0]
                draws.append(
                    [messages.draw_one(rng, case.means[k, 0], case.factors[k, 0, 0], *numbers)]
                )
            else:
                latent = case.latent[u].copy()
                messages.draw_latent(rng, case.means[k], latent, message)
                draws.append(latent)
        deviations = np.array(draws) - mean
        check_mean(deviations, 0.0)
        check_mean(deviations[:, :, None] * deviations[:, None, :], covariance)
        check_law(
            np.einsum("ni,ij,nj->n", deviations, np.linalg.inv(covariance), deviations),
            chi2(n_dims).cdf,
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_along_the_common_growth_of_all_deviations(n_dims, kind):
    case = Case(n_dims, kind)
    slope, curvature, effect = messages.along(*case.along)
    centres = case.means[case.z]
    observations, here = case.observations, case.observations.log_likelihood(case.latent)
    for growth in (-1.0, -0.3, 0.2, 2.0):
        grown = case.latent + growth * (case.latent - centres)
        np.testing.assert_allclose(
            observations.residual(grown),
            case.terms.residual - growth * effect,
            rtol=1e-11,
            atol=1e-12,
        )
        change = slope * growth - 0.5 * curvature * growth**2
        assert change == pytest.approx(
            observations.log_likelihood(grown) - here, rel=1e-11, abs=1e-11
        )


@pytest.mark.parametrize("n", range(1, 10))
def test_a_row_times_latent_numbers(n):
    rng = np.random.default_rng(n)
    matrix, latent = rng.standard_normal((n, n)), rng.standard_normal((n, 1))
    for u in range(n):
        assert messages.row_times(matrix, u, latent) == pytest.approx(
            matrix[u] @ latent[:, 0], rel=1e-13, abs=1e-14
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_gram_matrix_says_the_same_as_residuals(seed):
    """Gradients, and the slope and curvature of common growth."""
    by_gram, by_residual = Case(1, "gram", seed), Case(1, "common", seed)
    for u in range(N_USERS):
        gradients = [
            messages.gradient_of_one(u, case.latent, case.terms) for case in (by_gram, by_residual)
        ]
        assert gradients[0] == pytest.approx(gradients[1], rel=1e-11, abs=1e-12)
    expected = messages.along(*by_residual.along)
    assert messages.along_gram(*by_gram.along) == pytest.approx(expected[:2], rel=1e-11)
    assert messages.along_gram(*by_gram.along) == python_of(messages.along_gram)(*by_gram.along)


@pytest.mark.parametrize("kind", KINDS)
def test_one_dimension_has_the_same_gradient_and_curvature_as_plain_numbers(kind):
    case = Case(1, kind)
    for u in range(N_USERS):
        gradient, curvature = np.empty(1), np.empty((1, 1))
        messages.gradient_of(u, case.terms, gradient)
        messages.curvature_of(u, case.terms, curvature)
        assert messages.gradient_of_one(u, case.latent, case.terms) == pytest.approx(
            gradient[0], rel=1e-13, abs=1e-14
        )
        assert messages.curvature_of_one(u, case.terms) == pytest.approx(
            curvature[0, 0], rel=1e-13, abs=1e-14
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims, kind, monkeypatch):
    case = Case(n_dims, kind)
    compiled = [(case.message(u), *case.evidence(u, 1)) for u in range(N_USERS)]
    for name in ("gradient_of", "curvature_of", "gradient_of_one", "curvature_of_one"):
        monkeypatch.setattr(messages, name, python_of(getattr(messages, name)))
    for u, (message, value, after) in enumerate(compiled):
        plain, plain_after = case.message(u, python_of(messages.read_message)), case.message(u)
        assert (
            python_of(messages.evidence)(case.means[1], case.factors[1], 1.0, plain_after) == value
        )
        for got, wanted in zip((*message, *after), (*plain, *plain_after), strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert messages.gain(case.means[0], message) == python_of(messages.gain)(
            case.means[0], message
        )
    for got, wanted in zip(
        messages.along(*case.along), python_of(messages.along)(*case.along), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    numbers = 0.3, 1.2, -0.4, 2.0, 0.9
    assert messages.evidence_of_one(*numbers) == python_of(messages.evidence_of_one)(*numbers)
    compiled, plain = (
        f(np.random.default_rng(5), *numbers)
        for f in (messages.draw_one, python_of(messages.draw_one))
    )
    assert compiled == plain

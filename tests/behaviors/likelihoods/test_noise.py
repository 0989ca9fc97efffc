"""Noise of each cluster's own: its conditional, and the books it keeps."""

import numpy as np
import pytest
from scipy.stats import gamma

from dualview.behaviors.likelihoods import cluster_noise as noise
from numerics.observations import Observations
from yardsticks import N_DRAWS, check_law, python_of

Z = np.array([0, 2, 2, 0, 1])
N_COLUMNS = 5  # three clusters, two columns of nobody


class Case:
    """Users in clusters with outcomes of their own; user 3 has none, and cluster 1 is one
    user's."""

    def __init__(self, seed=3):
        self.rng = np.random.default_rng(seed)
        self.latent = self.rng.standard_normal((5, 2))
        self.observations = Observations(self.rng, 5, 2, "cluster", n_outcomes=12)
        self.noises = 0.3 + self.rng.gamma(1.0, size=N_COLUMNS)
        self.observations.set_noise(self.noises[Z])

    def log_joint(self, noises):
        """ln p(outcomes, noises of the clusters | latent vectors), each noise with its gamma prior,
        of mean 1."""
        self.observations.set_noise(noises[Z])
        half = 0.5 * self.observations.noise_dof
        return (
            self.observations.log_likelihood(self.latent)
            + gamma.logpdf(noises, half, scale=1.0 / half).sum()
        )

    def law(self, k):
        """Of the kernel, as SciPy has it."""
        mine = Z[np.abs(self.observations.design).sum(axis=2).argmax(axis=1)] == k
        misfit = (self.observations.residual(self.latent)[mine] ** 2).sum()
        dof, inverse_scale = noise.noise_law(1.0 * mine.sum(), misfit, self.observations.noise_dof)
        return gamma(0.5 * dof, scale=2.0 / inverse_scale)


@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_the_conditional_is_the_joint_up_to_a_constant(k):
    case = Case()
    ratios = []
    for value in [0.01, 0.4, 1.0, 7.0]:
        noises = case.noises.copy()
        noises[k] = value
        ratios.append(case.log_joint(noises) - case.law(k).logpdf(value))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)


def test_noises_are_drawn_from_their_conditionals():
    case = Case()
    laws, drawn = [case.law(k) for k in range(N_COLUMNS)], []
    for _ in range(N_DRAWS // 5):
        terms = case.observations.terms(case.latent)
        drawn.append(noise.redraw_noises(case.rng, Z, terms, N_COLUMNS))
    for k, law in enumerate(laws):
        check_law(np.array(drawn)[:, k], law.cdf)


def test_users_and_their_observations_have_the_noise_of_their_cluster():
    case = Case()
    terms = case.observations.terms(case.latent)
    noises = noise.redraw_noises(case.rng, Z, terms, N_COLUMNS)
    np.testing.assert_array_equal(terms.noise, noises[Z])
    case.observations.set_noise(noises[Z])
    np.testing.assert_array_equal(terms.precision, case.observations.precision)


def test_there_is_nothing_to_draw_where_noise_is_shared():
    observations = Observations(np.random.default_rng(1), 5, 2, "own")
    rng = np.random.default_rng(2)
    assert len(noise.redraw_noises(rng, Z, observations.terms(np.zeros((5, 2))), N_COLUMNS)) == 0
    assert rng.random() == np.random.default_rng(2).random()


@pytest.mark.parametrize("ratio", [1e-6, 0.3, 1.0, 5e8])
def test_the_gain_is_that_of_the_likelihood(ratio):
    case = Case()
    terms = case.observations.terms(case.latent)
    misfit, n_observations = noise.misfit_of(1, terms), terms.starts[2] - terms.starts[1]
    before = case.observations.log_likelihood(case.latent)
    noises = case.observations.noise.copy()
    noises[1] *= ratio
    case.observations.set_noise(noises)
    wanted = case.observations.log_likelihood(case.latent) - before
    assert noise.noise_gain(ratio, n_observations, misfit) == pytest.approx(
        wanted, rel=1e-9, abs=1e-9
    )


def test_compiled_draws_are_those_of_python():
    drawn = []
    for kernel in (noise.redraw_noises, python_of(noise.redraw_noises)):
        case = Case()
        drawn.append(
            kernel(np.random.default_rng(4), Z, case.observations.terms(case.latent), N_COLUMNS)
        )
    np.testing.assert_allclose(*drawn, rtol=1e-12)

"""The likelihood of several behaviors: a sum of log densities, blocks of terms, and blocks of
vectors given the others."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.likelihoods.several import Layout, SeveralLikelihoods
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.likelihoods.vector_blocks import (
    Block,
    block_factors,
    block_latent_prior,
    block_locations,
    block_prior,
    follow,
)
from dualview.behaviors.records import LatentPrior, Panel, Prior
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.messages import new_message, read_message
from dualview.units import Whitening
from rows import logit_rows, normal_rows

N_USERS = 4
USER = np.array([0, 2, 2, 3, 0, 2])  # user 1 has no observations of its own


def panel(n_dims: int, seed: int, outcome: np.ndarray) -> Panel:
    return Panel.of(
        USER, np.random.default_rng(seed).standard_normal((len(USER), n_dims)), outcome, N_USERS
    )


def regression() -> UserRows:
    return normal_rows(panel(2, 1, np.linspace(-1.0, 2.0, len(USER))), NoisePrior(1.0, 3.0))


def answers() -> UserRows:
    yes = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    return logit_rows(panel(1, 2, yes), sparse.csr_array((len(USER), 0)), np.zeros(len(USER)))


def threads() -> ThreadRegression:
    took_part = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    nothing = Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
    return ThreadRegression(took_part, np.empty((3, 0)), np.array([0.5, -1.0, 2.0]), 1.0, nothing)


PAIRS: dict[str, dict[str, Any]] = {
    "regression and answers": {"a": regression(), "b": answers()},
    "threads and regression": {"a": threads(), "b": regression()},
    "all three": {"a": answers(), "b": threads(), "c": regression()},
}


@pytest.fixture(params=PAIRS)
def likelihood(request: pytest.FixtureRequest) -> SeveralLikelihoods:
    return SeveralLikelihoods.of(PAIRS[request.param])


def start(likelihood: SeveralLikelihoods) -> tuple[np.ndarray, dict[str, Any]]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((N_USERS, likelihood.n_dims)), likelihood.draw_prior(
        rng, np.zeros(N_USERS, dtype=np.int64)
    )


def of_part(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {key.split(".")[1]: value for key, value in params.items() if key.split(".")[0] == name}


def test_log_density_is_the_sum(likelihood: SeveralLikelihoods) -> None:
    latent, params = start(likelihood)
    found = likelihood.log_density(latent, params)
    first, total = 0, 0.0
    for name, part in likelihood.parts.items():
        own = np.ascontiguousarray(latent[:, first : first + part.n_dims])
        total += part.log_density(own, of_part(name, params))
        first += part.n_dims
    assert first == likelihood.n_dims
    assert found == pytest.approx(total, rel=1e-14)


def test_terms_are_those_of_each_behavior_in_blocks(likelihood: SeveralLikelihoods) -> None:
    latent, params = start(likelihood)
    terms = likelihood.terms(np.random.default_rng(5), latent, params)
    rng, first = np.random.default_rng(5), 0
    gradients, curvatures = (
        np.zeros((N_USERS, likelihood.n_dims)),
        np.zeros((N_USERS, likelihood.n_dims, likelihood.n_dims)),
    )
    for name, part in likelihood.parts.items():
        own = slice(first, first + part.n_dims)
        vectors = np.ascontiguousarray(latent[:, own])
        own_terms = part.terms(rng, vectors, of_part(name, params))
        for u in range(N_USERS):
            message = new_message(part.n_dims, 0)
            read_message(u, vectors, own_terms, message)
            gradients[u, own], curvatures[u, own, own] = message.gradient, message.curvature
        first += part.n_dims
    for u in range(N_USERS):
        message = new_message(likelihood.n_dims, 0)
        read_message(u, latent, terms, message)
        np.testing.assert_allclose(message.gradient, gradients[u], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(message.curvature, curvatures[u], rtol=1e-12, atol=1e-12)
        assert np.all(
            np.diff(terms.rows[terms.starts[u] : terms.starts[u + 1]].astype(int)) > 0
        )  # the moves rely on it


def test_observations_of_one_user_each_stand_in_the_order_of_users() -> None:
    together = SeveralLikelihoods.of(PAIRS["regression and answers"])
    terms = together.terms(np.random.default_rng(5), *start(together))
    assert together.one_user_each
    assert terms.rows.tolist() == list(range(2 * len(USER)))
    assert not SeveralLikelihoods.of(PAIRS["threads and regression"]).one_user_each


def test_each_behavior_finds_its_own_terms_again(likelihood: SeveralLikelihoods) -> None:
    latent, params = start(likelihood)
    parts = [
        part.terms(
            np.random.default_rng(1), likelihood.blocks[name].of(latent), of_part(name, params)
        )
        for name, part in likelihood.parts.items()
    ]
    layout = Layout.of(parts, list(likelihood.blocks.values()), likelihood.one_user_each)
    whole = layout.joined(parts)
    for place, part in enumerate(parts):
        for found, wanted in zip(layout.of_part(whole, place), part, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_parameters_have_the_name_of_their_behavior() -> None:
    together = SeveralLikelihoods.of({"posts": threads(), "visits": regression()})
    latent, params = together.start(np.random.default_rng(0))
    assert latent.shape == (N_USERS, 3)
    assert set(params) == {"posts.noise_precision", "posts.coefficients", "visits.noise_precision"}
    assert set(together.reported(params)) == {"posts.noise_precision", "visits.noise_precision"}
    draws = {name: np.ones(5) for name in ("posts.noise_precision", "visits.noise_precision")}
    assert set(together.log_priors(draws, np.zeros((5, N_USERS), dtype=int))) == set(draws)


def test_the_lightest_tails_that_one_asks_for() -> None:
    assert SeveralLikelihoods.of(PAIRS["regression and answers"]).hyperprior == FINITE_VARIANCES
    assert (
        SeveralLikelihoods.of(PAIRS["threads and regression"]).hyperprior == regression().hyperprior
    )


def precisions(n: int, n_dims: int, seed: int = 0) -> np.ndarray:
    roots = np.random.default_rng(seed).standard_normal((n, n_dims, n_dims))
    return roots @ np.swapaxes(roots, -1, -2) + 0.3 * np.eye(n_dims)


BLOCKS = Block.all_of([1, 2, 1])


@pytest.mark.parametrize("block", BLOCKS)
def test_block_given_the_rest_by_the_joint_density(block: Block) -> None:
    """Log joint minus log conditional is constant along the block."""
    rng = np.random.default_rng(1)
    matrices, means, z = precisions(2, 4), rng.standard_normal((2, 4)), np.array([0, 1, 1])
    shift, latent = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    upper = np.linalg.cholesky(matrices[:, ::-1, ::-1])[:, ::-1, ::-1]
    own = block_prior(Prior(z, means, upper, False, shift), block, latent)
    np.testing.assert_array_equal(own.factors, np.triu(own.factors))
    assert (np.diagonal(own.factors, axis1=1, axis2=2) > 0.0).all()
    assert own.shift is not None
    for u, k in enumerate(z):
        joint = multivariate_normal(means[k] + shift[u], np.linalg.inv(matrices[k]))
        conditional = multivariate_normal(
            own.means[k] + own.shift[u], np.linalg.inv(own.factors[k] @ own.factors[k].T)
        )
        differences = []
        for point in rng.standard_normal((5, len(block.own))):
            moved = latent[u].copy()
            moved[block.own] = point
            differences.append(joint.logpdf(moved) - conditional.logpdf(point))
        np.testing.assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", BLOCKS)
def test_factors_of_a_block(block: Block) -> None:
    matrices = precisions(3, 4, 2)
    upper = np.linalg.cholesky(matrices[:, ::-1, ::-1])[:, ::-1, ::-1]
    factors, follows = block_factors(upper, block)
    np.testing.assert_allclose(
        factors @ np.swapaxes(factors, -1, -2), matrices[:, block.own][..., block.own], rtol=1e-9
    )
    np.testing.assert_allclose(follows, follow(matrices, block), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("block", BLOCKS)
def test_locations_in_a_block_have_the_density_of_the_means(block: Block) -> None:
    rng = np.random.default_rng(4)
    means, base_mean, base_precision = (
        rng.standard_normal((3, 4)),
        rng.standard_normal(4),
        precisions(1, 4, 5)[0],
    )
    own = block_locations(
        Locations(np.zeros(2, dtype=np.int64), means, base_mean, base_precision), block
    )
    joint = multivariate_normal(base_mean, np.linalg.inv(base_precision))
    given = multivariate_normal(own.base_mean, np.linalg.inv(own.base_precision))
    for k in range(3):
        differences = []
        for step in rng.standard_normal((4, len(block.own))):
            moved = means[k].copy()
            moved[block.own] += step
            differences.append(joint.logpdf(moved) - given.logpdf(own.means[k] + step))
        np.testing.assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", BLOCKS)
def test_latent_prior_of_a_block_by_the_joint_covariance(block: Block) -> None:
    """Two users of a cluster: everything normal, so conditioning is linear algebra on means and
    vectors together."""
    rng, q = np.random.default_rng(6), 4
    base_mean, base_precision, own_precision = (
        rng.standard_normal(q),
        precisions(1, q, 7)[0],
        precisions(1, q, 8)[0],
    )
    shift, latent, means = (
        rng.standard_normal((2, q)),
        rng.standard_normal((2, q)),
        rng.standard_normal((1, q)),
    )
    prior = LatentPrior(
        np.zeros(2, dtype=np.int64), means, own_precision[None], base_mean, base_precision, shift
    )
    found = block_latent_prior(prior, block, latent)

    of_means, of_users = np.linalg.inv(base_precision), np.linalg.inv(own_precision)
    covariance = np.block(
        [
            [of_means, of_means, of_means],
            [of_means, of_means + of_users, of_means],
            [of_means, of_means, of_means + of_users],
        ]
    )
    centre = np.concatenate([base_mean, base_mean + shift[0], base_mean + shift[1]])
    known = np.concatenate([block.rest, q + block.rest, 2 * q + block.rest])
    wanted = np.concatenate([q + block.own, 2 * q + block.own])
    values = np.concatenate([means[0, block.rest], latent[0, block.rest], latent[1, block.rest]])
    gain = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, wanted)]).T
    mean = centre[wanted] + gain @ (values - centre[known])
    spread = covariance[np.ix_(wanted, wanted)] - gain @ covariance[np.ix_(known, wanted)]

    assert found.precisions is not None
    np.testing.assert_allclose((found.base_mean + found.shift).ravel(), mean, rtol=1e-8, atol=1e-8)
    together, alone = np.linalg.inv(found.base_precision), np.linalg.inv(found.precisions[0])
    np.testing.assert_allclose(
        spread, np.kron(np.ones((2, 2)), together) + np.kron(np.eye(2), alone), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(
        found.means[found.z] + found.shift, latent_mean(prior, block, latent), rtol=1e-8, atol=1e-8
    )


def latent_mean(prior: LatentPrior, block: Block, latent: np.ndarray) -> np.ndarray:
    """The mean of each user's block given the mean of its cluster and the rest of its vector."""
    assert prior.precisions is not None
    result = []
    for u, k in enumerate(prior.z):
        covariance, centre = np.linalg.inv(prior.precisions[k]), prior.means[k] + prior.shift[u]
        gain = covariance[np.ix_(block.own, block.rest)] @ np.linalg.inv(
            covariance[np.ix_(block.rest, block.rest)]
        )
        result.append(centre[block.own] + gain @ (latent[u] - centre)[block.rest])
    return np.array(result)

"""Splits and merges: the weights by ratio, the chances of sides by enumeration, and moves from the prior that stay in it."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, multigammaln
from scipy.stats import multivariate_normal, norm, wishart

import naive
from checks import mutate, rebind
from dualview.engines.gibbs import split_merge as splits
from dualview.views.gaussian.conditionals import draw_from_base
from yardsticks import positive_definite, python_of, upper_factor

Z = np.array([0, 2, 1, 0, 2, 2, 1, 0, 2, 2])
COUNTS = np.array([3, 2, 5, 0, -1, -1])


def random_base(rng, n_dims, dof=None):
    if n_dims == 0:
        return np.empty(0), np.empty((0, 0)), np.empty((0, 0)), 1.0
    dof = n_dims + 1.3 if dof is None else dof
    return rng.standard_normal(n_dims), positive_definite(rng, n_dims), positive_definite(rng, n_dims), dof


class Case:
    def __init__(self, n_dims, dof=None):
        rng = np.random.default_rng([5, n_dims])
        self.vectors, self.base = rng.standard_normal((len(Z), n_dims)), random_base(rng, n_dims, dof)
        self.factors = np.array([upper_factor(positive_definite(rng, n_dims)) for _ in COUNTS])
        self.view = splits.view_of(self.vectors, self.base, Z, COUNTS)
        self.rng = rng

    def inverse_scale(self, users):
        """M of some users."""
        away = self.vectors[users] - self.vectors[users].mean(axis=0)
        return self.base[3] * self.base[2] + away.T @ away


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_sets_have_the_averages_and_scatters_of_their_users(n_dims):
    case = Case(n_dims)
    splits.of_column(0, 0, case.factors, case.view)
    splits.of_column(1, 2, case.factors, case.view)
    splits.of_both(3, 2, 5, case.view)
    average, spread, precisions, _ = case.view[4]
    for s, users in enumerate((Z == 0, Z == 2, Z != 1)):
        np.testing.assert_allclose(average[s], case.vectors[users].mean(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(spread[s] @ spread[s].T, case.inverse_scale(users), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(np.triu(spread[s], 1), 0.0)
    np.testing.assert_array_equal(precisions[:2], case.factors[[0, 2]])
    splits.of_one(0, 4, case.view)
    np.testing.assert_array_equal(average[0], case.vectors[4])
    np.testing.assert_allclose(spread[0] @ spread[0].T, case.base[3] * case.base[2], rtol=1e-12)


def test_a_cluster_that_has_changed_is_learnt_again():
    case, z = Case(2), Z.copy()
    z[[0, 3]] = 5
    splits.learn(5, z, case.view)
    splits.learn(0, z, case.view)
    fresh = splits.view_of(case.vectors, case.base, z, COUNTS)
    for known, wanted in zip(case.view[3], fresh[3], strict=True):
        np.testing.assert_allclose(known, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("dof", [None, 40.0, 1e7])
def test_weights_are_prior_times_likelihood_over_proposal(n_dims, dof):
    """p(S) p(vectors | S) / q(S) up to a power of π that all partitions share; a dense normal law, without the mean."""
    case = Case(n_dims, dof)
    base_mean, base_precision, base_covariance, dof = case.base
    for users in (Z == 1, Z == 2, np.arange(len(Z)) == 4):
        n, x = users.sum(), case.vectors[users]
        scale = case.inverse_scale(users)
        for _ in range(3):
            precision = np.atleast_2d(wishart.rvs(dof + n - 1, np.linalg.inv(scale), random_state=case.rng))
            case.view[4][0][0], case.view[4][1][0] = x.mean(axis=0), np.linalg.cholesky(scale)
            case.view[4][2][0] = upper_factor(precision)
            inside = np.kron(np.eye(n), np.linalg.inv(precision)) + np.kron(np.ones((n, n)), np.linalg.inv(base_precision))
            expected = multivariate_normal.logpdf(x.ravel(), np.tile(base_mean, n), inside)
            expected += wishart.logpdf(precision, dof, np.linalg.inv(dof * base_covariance))
            expected -= wishart.logpdf(precision, dof + n - 1, np.linalg.inv(scale))
            expected += 0.5 * n * n_dims * np.log(np.pi)
            np.testing.assert_allclose(splits.log_weight(0, n, case.view), expected, rtol=1e-8, atol=1e-15 * dof)


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_chances_of_sides_add_up_to_one(n_dims, n_latent):
    """Over all sides of four users in one order. What is drawn has the chance that is said: E 1/q is the number of sides."""
    features, latent = Case(n_dims), Case(n_latent)

    def chance(z, seed, drawn):
        """The sides of users 2 to 5, with 0 and 1 where they begin, and their chance."""
        others, sides, sizes = (np.zeros(6, dtype=np.int64) for _ in range(3))
        rng = np.random.default_rng(seed)
        value = splits.allocate(rng, drawn, 0, 1, z, others, sides, sizes, features.view, latent.view)
        np.testing.assert_array_equal(sizes[:2], 1 + np.bincount(sides[:4], minlength=2))
        return sides[np.argsort(others[:4])], np.exp(value)

    total = 0.0
    for sides in itertools.product((0, 1), repeat=4):
        told, said = chance(np.array([0, 1, *sides]), 7, drawn=False)
        np.testing.assert_array_equal(told, sides)
        total += said
    assert total == pytest.approx(1.0, rel=1e-12)
    inverse = []
    for seed in range(3000):
        sides, said = chance(np.zeros(6, dtype=np.int64), seed, drawn=True)
        assert said == pytest.approx(chance(np.array([0, 1, *sides]), seed, drawn=False)[1], rel=1e-12)
        inverse.append(1.0 / said)
    assert abs(np.mean(inverse) - 16.0) < 4.5 * np.std(inverse) / np.sqrt(len(inverse))


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_clusters_to_merge_with_are_chosen_by_nearness(n_dims, n_latent):
    """With the chance that is said, and that a split which is the way back would say."""
    features, latent, near, n = Case(n_dims), Case(n_latent), np.empty(len(COUNTS)), 3000
    rng = np.random.default_rng(4)
    drawn = [splits.choose_other(rng, 0, COUNTS, near, features.view, latent.view) for _ in range(n)]
    chosen, chances = np.array([c for c, _ in drawn]), dict(drawn)
    assert set(chances) == {1, 2}
    assert sum(chances.values()) == pytest.approx(1.0)
    square = 0.0
    for case in (features, latent):
        if case.vectors.shape[1]:
            away = case.vectors[Z == 0].mean(axis=0) - np.array([case.vectors[k == Z].mean(axis=0) for k in (1, 2)])
            square = square + np.einsum("ki,ij,kj->k", away, np.linalg.inv(case.base[2]), away)
    weights = 1e-6 + (1.0 + square / 10) ** -4.0
    np.testing.assert_allclose([chances[1], chances[2]], weights / weights.sum(), rtol=1e-10)
    assert abs(np.mean(chosen == 2) - chances[2]) < 4.5 * np.sqrt(chances[1] * chances[2] / n)
    merged, counts = np.where(Z == 2, 0, Z), np.array([8, 2, 0, -1, -1, -1])
    for case in (features, latent):
        view = splits.view_of(case.vectors, case.base, merged, counts)
        for s, column in enumerate((0, 2)):
            splits.of_column(s, column, case.factors, case.view)
            view[4][0][s] = case.view[4][0][s]
        case.view = view
    assert splits.chance_of_other(0, counts, features.view, latent.view) == pytest.approx(chances[2], rel=1e-10)
    alone = np.array([10, -1, 0, -1, -1, -1])
    assert splits.choose_other(rng, 0, alone, near, features.view, latent.view) == (-1, 0.0)


def test_members_are_alike_but_for_one():
    rng = np.random.default_rng(0)
    drawn = [splits.choose_member(rng, 2, 4, 4, Z) for _ in range(4000)]
    users, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(users, [1, 5, 8, 9])
    assert np.abs(counts - 1000).max() < 4.5 * np.sqrt(750)
    assert {splits.choose_member(rng, 1, 2, 0, Z) for _ in range(50)} == {2, 6}


def test_the_weight_of_a_cluster_is_made_once():
    features, latent, log_weights = Case(2), Case(1), np.full(len(COUNTS), np.nan)
    arguments = log_weights, features.factors, latent.factors, features.view, latent.view
    weight = splits.weight_of_column(1, 2, 5, *arguments)
    splits.of_column(0, 2, features.factors, features.view)
    splits.of_column(0, 2, latent.factors, latent.view)
    expected = splits.log_weight(0, 5, features.view) + splits.log_weight(0, 5, latent.view) + np.log(24.0)
    assert weight == pytest.approx(expected, rel=1e-12)
    assert log_weights[2] == weight
    log_weights[2] = 7.0
    assert splits.weight_of_column(1, 2, 5, *arguments) == 7.0
    assert np.isnan(log_weights[[0, 1, 3, 4, 5]]).all()


class Prior:
    """Clusters by the Chinese restaurant, components and vectors given them, from fixed bases."""

    def __init__(self, n_dims, n_latent, n_users=5, alpha=0.8):
        rng = np.random.default_rng([9, n_dims, n_latent])
        self.bases = random_base(rng, n_dims), random_base(rng, n_latent)
        self.n_users, self.alpha = n_users, alpha

    def draw(self, rng, n_moves):
        z = naive.draw_labels(rng, self.n_users, self.alpha, ("dp", None))
        counts = np.concatenate([np.bincount(z), np.full(n_moves + 1, -1)])
        columns = [part for base in self.bases for part in draw_from_base(rng, len(counts), *base)]
        vectors = []
        for means, factors in (columns[:2], columns[2:]):
            noise = rng.standard_normal((self.n_users, means.shape[1]))
            vectors.append(means[z] + np.linalg.solve(np.swapaxes(factors[z], 1, 2), noise[..., None])[..., 0])
        return z, counts, *vectors, tuple(columns)

    def statistics(self, z, counts, features, latent, columns):
        """Of the partition and, in each view, of precisions, means about the base, and vectors about their means."""
        result = [np.count_nonzero(counts > 0), counts.max(), z[0] == z[1]]
        for x, means, factors, base in ((features, *columns[:2], self.bases[0]), (latent, *columns[2:], self.bases[1])):
            if x.shape[1]:
                own = np.unique(z)
                scale = [np.log(np.linalg.slogdet(factors[k] @ factors[k].T)[1] ** 2 + 1.0) for k in own]
                away = np.einsum("ki,ij,kj->k", means[own] - base[0], base[1], means[own] - base[0])
                inside = np.einsum("uji,uj->ui", factors[z], x - means[z])
                result += [np.mean(scale), np.arctan(away).mean(), np.arctan(inside**2).mean()]
        return np.array(result, dtype=float)


def scores(prior, kernel, n=4000, n_moves=3):
    """z-scores of how statistics change by moves."""
    rng, changes, accepted = np.random.default_rng(2), [], np.zeros(2)
    for _ in range(n):
        z, counts, features, latent, columns = prior.draw(rng, n_moves)
        before = prior.statistics(z, counts, features, latent, columns)
        accepted += kernel(rng, n_moves, z, counts, prior.alpha, features, latent, columns, prior.bases)
        np.testing.assert_array_equal(np.bincount(z, minlength=len(counts)), np.maximum(counts, 0))
        changes.append(prior.statistics(z, counts, features, latent, columns) - before)
    assert (accepted > 0.05 * n).all()
    return np.mean(changes, axis=0) / (np.std(changes, axis=0) / np.sqrt(n))


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1), (1, 2)])
def test_moves_from_the_prior_stay_in_it(n_dims, n_latent):
    for prior, n_moves in ((Prior(n_dims, n_latent), 3), (Prior(n_dims, n_latent, n_users=8, alpha=2.0), 6)):
        assert np.abs(scores(prior, splits.split_and_merge, n_moves=n_moves)).max() < 4.5


def log_marginal(x, base):
    """ln of the law of some users' vectors, the precision integrated out by its Wishart law and the mean on a grid."""
    (base_mean, base_precision, base_covariance, dof), n_dims, step = base, x.shape[1], 0.05
    if n_dims == 0:
        return 0.0
    axis = np.arange(-8.0, 8.0 + step, step)
    standard = np.stack(np.meshgrid(*[axis] * n_dims, indexing="ij"), axis=-1).reshape(-1, n_dims)
    away = x - (base_mean + standard @ np.linalg.inv(np.linalg.cholesky(base_precision)))[:, None]
    scale = dof * base_covariance + np.einsum("gui,guj->gij", away, away)
    log_terms = np.sum(norm.logpdf(standard), axis=1) - 0.5 * (dof + len(x)) * np.linalg.slogdet(scale)[1]
    constant = multigammaln(0.5 * (dof + len(x)), n_dims) - multigammaln(0.5 * dof, n_dims) - 0.5 * x.size * np.log(np.pi)
    constant += 0.5 * dof * np.linalg.slogdet(dof * base_covariance)[1] + n_dims * np.log(step)
    return constant + logsumexp(log_terms)


def in_order(z):
    """Labels in the order of their first users."""
    return tuple(np.unique(z, return_index=True)[1][np.unique(z, return_inverse=True)[1]])


def errors_of_partitions(kernel, n_dims, n_latent, n_users=4, alpha=0.9, n_chains=8, n_calls=5000):
    """How often chains of nothing but splits and merges have each partition, less its probability, in standard errors."""
    rng = np.random.default_rng([3, n_dims, n_latent])
    bases = random_base(rng, n_dims), random_base(rng, n_latent)
    features, latent = 1.5 * rng.standard_normal((n_users, n_dims)), 1.5 * rng.standard_normal((n_users, n_latent))
    logs = {}
    for labels in itertools.product(range(n_users), repeat=n_users):
        z = np.array(labels)
        if in_order(z) not in logs:
            clusters = [z == k for k in np.unique(z)]
            logs[in_order(z)] = sum(
                np.log(alpha) + gammaln(own.sum()) + log_marginal(features[own], bases[0]) + log_marginal(latent[own], bases[1])
                for own in clusters
            )
    chances = np.exp(np.array([*logs.values()]) - logsumexp([*logs.values()]))
    places = {partition: place for place, partition in enumerate(logs)}
    found = np.zeros((n_chains, len(chances)))
    for chain in found:
        z, counts = np.zeros(n_users, dtype=np.int64), np.array([n_users, -1, 0, *[-1] * (n_users + 8)])
        columns = tuple(part for base in bases for part in draw_from_base(rng, len(counts), *base))
        for _ in range(n_calls):
            kernel(rng, 4, z, counts, alpha, features, latent, columns, bases)
            chain[places[in_order(z)]] += 1.0 / n_calls
    assert chances.max() < 0.5
    return (found.mean(axis=0) - chances) / (found.std(axis=0, ddof=1) / np.sqrt(n_chains))


@pytest.mark.parametrize(
    ("n_dims", "n_latent"), [(2, 1), *(pytest.param(*dims, marks=pytest.mark.slow) for dims in ((1, 1), (0, 1)))]
)
def test_partitions_come_as_often_as_they_are_likely(n_dims, n_latent):
    """All partitions of four users by enumeration, and moves that start from one cluster, with a pool's column among them."""
    assert np.abs(errors_of_partitions(splits.split_and_merge, n_dims, n_latent)).max() < 6.0


def sides_are_free():
    return mutate(splits.split_and_merge, "ratio - log_sides if splitting", "ratio if splitting")


def weights_without_means():
    wrong = mutate(splits.log_weight, "0.5 * pulled[i] * held[i]", "0.0")
    return rebind(splits.split_and_merge, log_weight=wrong)


def miscounted_proposal():
    wrong = mutate(splits.propose, "+ n - 1.0", "+ n")
    return rebind(splits.split_and_merge, propose=wrong)


def means_forget_their_users():
    wrong = mutate(splits.settle, "work[3, i] = n * average[s, i]", "work[3, i] = 0.0")
    return rebind(splits.split_and_merge, settle=wrong)


def merges_weigh_alpha_twice():
    return mutate(splits.split_and_merge, "else log_sides - ratio", "else log_sides - ratio + math.log(0.5)")


def splits_forget_how_merges_are_chosen():
    return mutate(splits.split_and_merge, "ratio += math.log(chance_of_other(first, counts, x, f))", "ratio += 0.0")


def merges_forget_how_they_are_chosen():
    return mutate(splits.split_and_merge, "chance * (sizes[2] - 1.0)", "(sizes[2] - 1.0)")


def members_weigh_nothing():
    return mutate(splits.split_and_merge, " * (sizes[2] - 1.0) / sizes[1]", "")


def weights_outlive_their_clusters():
    return mutate(splits.split_and_merge, "log_weights[column] = math.nan", "log_weights[column] += 0.0")


MUTANTS = [
    sides_are_free,
    splits_forget_how_merges_are_chosen,
    merges_forget_how_they_are_chosen,
    members_weigh_nothing,
    weights_outlive_their_clusters,
    weights_without_means,
    miscounted_proposal,
    means_forget_their_users,
    merges_weigh_alpha_twice,
]


@pytest.mark.parametrize("mutant", [MUTANTS[0], *(pytest.param(mutant, marks=pytest.mark.slow) for mutant in MUTANTS[1:])])
def test_mutant_is_rejected(mutant):
    assert np.abs(scores(Prior(2, 1, n_users=8, alpha=2.0), mutant(), n_moves=6)).max() > 6.0


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant is not means_forget_their_users])
def test_mutant_has_partitions_too_often(mutant):
    assert np.abs(errors_of_partitions(mutant(), 2, 1)).max() > 9.0


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_compiled_is_plain(n_dims, n_latent):
    prior = Prior(n_dims, n_latent, n_users=8)
    for seed in range(20):
        results = []
        for kernel in (splits.split_and_merge, python_of(splits.split_and_merge)):
            rng = np.random.default_rng(seed)
            state = prior.draw(rng, 4)
            results.append(
                [kernel(rng, 4, *state[:2], 0.8, *state[2:4], state[4], prior.bases), *state[:2], *state[4], rng.random()]
            )
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("dof", [1.5, 1e11])
def test_no_moves_where_they_would_lose_digits_or_there_is_nobody_to_move(dof):
    base = (np.zeros(1), np.eye(1), np.eye(1), dof)
    n_users = 1 if dof < 1e10 else 6
    z, counts = np.zeros(n_users, dtype=np.int64), np.array([n_users, -1, -1, -1])
    columns = (*draw_from_base(np.random.default_rng(0), 4, *base), np.empty((4, 0)), np.empty((4, 0, 0)))
    x, nothing = np.linspace(-9.0, 9.0, n_users)[:, None], random_base(None, 0)
    rng = np.random.default_rng(1)
    made = splits.split_and_merge(rng, 3, z, counts, 1.0, x, np.empty((n_users, 0)), columns, (base, nothing))
    assert made == (0, 0)
    assert rng.random() == np.random.default_rng(1).random()


def test_how_many_moves_a_sweep_has():
    rng, nothing = np.random.default_rng(0), np.empty(0)
    drawn = [splits.draw_moves(rng, 0, nothing) for _ in range(2000)]
    assert set(drawn) == {0, splits.MOVES}
    assert abs(np.mean(drawn) / splits.MOVES - splits.SHARE) < 0.05
    assert splits.draw_moves(rng, 3, nothing) == splits.draw_moves(rng, 0, np.ones(2)) == 0

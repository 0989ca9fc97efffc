"""Splits and merges: the chances of sides by enumeration, and moves from the prior that stay in
it."""

import copy
import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, multigammaln
from scipy.stats import norm

import naive
from checks import changed, mutate
from dualview.engines.gibbs.moves import split_merge
from dualview.engines.gibbs.moves.split_merge import new_proposal, split_and_merge
from dualview.engines.gibbs.working import Outcome, WorkingLabels, WorkingState
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.messages import Terms
from dualview.views.base import Base, Components
from dualview.views.gaussian import splitting
from dualview.views.gaussian.conditionals import draw_from_base
from dualview.views.gaussian.kind import Gaussian
from engines.gibbs.columns import finite, process, random_base
from views.gaussian.test_splitting import COUNTS, Case, Z
from yardsticks import python_of


def working_state(z, counts, views, alpha, n_auxiliary=0):
    """With a Dirichlet process and without observations."""
    labels = WorkingLabels.shared(z, len(views))
    columns = labels, counts, tuple(views), Terms.none(len(z)), np.empty(0)
    return WorkingState(*columns, process(alpha), n_auxiliary, False, Outcome.none())


def gaussian_view(vectors, components, base):
    n_dims = vectors.shape[1]
    return Gaussian(
        vectors,
        np.ascontiguousarray(vectors.T),
        components,
        np.empty((0, n_dims, n_dims)),
        base,
        PUBLISHED,
    )


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_chances_of_sides_add_up_to_one(n_dims, n_latent):
    """Over all sides of four users in one order. What is drawn has the chance that is said: E 1/q
    is the number of sides."""
    splits = Case(n_dims).split, Case(n_latent).split

    def chance(z, seed, drawn):
        """The sides of users 2 to 5, with 0 and 1 where they begin, and their chance."""
        proposal, labels = new_proposal(1, 6), WorkingLabels.shared(z, 2)
        rng = np.random.default_rng(seed)
        value = split_merge.allocate(rng, drawn, 0, 1, proposal, splits, labels)
        sizes = 1 + np.bincount(proposal.sides[:4], minlength=2)
        for own in (proposal.sizes.customers, proposal.sizes.agreeing, proposal.sizes.users[0]):
            np.testing.assert_array_equal(own[:2], sizes)
        return proposal.sides[np.argsort(proposal.users[:4])], np.exp(value)

    total = 0.0
    for sides in itertools.product((0, 1), repeat=4):
        told, said = chance(np.array([0, 1, *sides]), 7, drawn=False)
        np.testing.assert_array_equal(told, sides)
        total += said
    assert total == pytest.approx(1.0, rel=1e-12)
    inverse = []
    for seed in range(1000):
        sides, said = chance(np.zeros(6, dtype=np.int64), seed, drawn=True)
        assert said == pytest.approx(
            chance(np.array([0, 1, *sides]), seed, drawn=False)[1], rel=1e-12
        )
        inverse.append(1.0 / said)
    assert abs(np.mean(inverse) - 16.0) < 4.5 * np.std(inverse) / np.sqrt(len(inverse))


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_clusters_to_merge_with_are_chosen_by_nearness(n_dims, n_latent):
    """With the chance that is said, and that a split which is the way back would say."""
    cases, near, n = (Case(n_dims), Case(n_latent)), np.empty(len(COUNTS)), 3000
    splits, rng = tuple(case.split for case in cases), np.random.default_rng(4)
    drawn = [split_merge.choose_other(rng, 0, COUNTS, near, splits) for _ in range(n)]
    chosen, chances = np.array([c for c, _ in drawn]), dict(drawn)
    assert set(chances) == {1, 2}
    assert sum(chances.values()) == pytest.approx(1.0)
    square = 0.0
    for case in cases:
        if case.vectors.shape[1]:
            away = case.vectors[Z == 0].mean(axis=0) - np.array(
                [case.vectors[k == Z].mean(axis=0) for k in (1, 2)]
            )
            square = square + np.einsum(
                "ki,ij,kj->k", away, np.linalg.inv(case.base.covariance), away
            )
    weights = 1e-6 + (1.0 + square / 10) ** -4.0
    np.testing.assert_allclose([chances[1], chances[2]], weights / weights.sum(), rtol=1e-10)
    assert abs(np.mean(chosen == 2) - chances[2]) < 4.5 * np.sqrt(chances[1] * chances[2] / n)
    merged, counts = np.where(Z == 2, 0, Z), np.array([8, 2, 0, -1, -1, -1])
    back = tuple(case.split_of(merged, counts) for case in cases)
    for split, own in zip(splits, back, strict=True):
        for s, column in enumerate((0, 2)):
            splitting.set_column(s, column, split)
            own.sets.averages[s] = split.sets.averages[s]
    assert split_merge.chance_of_other(0, counts, back) == pytest.approx(chances[2], rel=1e-10)
    alone = np.array([10, -1, 0, -1, -1, -1])
    assert split_merge.choose_other(rng, 0, alone, near, splits) == (-1, 0.0)


def test_members_are_alike_but_for_one():
    rng = np.random.default_rng(0)
    labels = WorkingLabels.shared(Z, 2)
    drawn = [split_merge.choose_member(rng, 2, 4, 4, labels) for _ in range(4000)]
    users, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(users, [1, 5, 8, 9])
    assert np.abs(counts - 1000).max() < 4.5 * np.sqrt(750)
    assert {split_merge.choose_member(rng, 1, 2, 0, labels) for _ in range(50)} == {2, 6}
    everybody = {split_merge.choose_member(rng, -1, len(Z), -1, labels) for _ in range(400)}
    assert everybody == set(range(len(Z)))


def test_the_weight_of_a_cluster_is_made_once():
    splits, log_weights = (Case(2).split, Case(1).split), np.full(len(COUNTS), np.nan)
    labels, proposal = WorkingLabels.shared(Z, 2), new_proposal(1, len(Z))
    counts = split_merge.count_columns(len(COUNTS), proposal.part, labels)
    arguments = log_weights, counts, proposal.whole, labels.groups, process(0.8), splits
    weight = split_merge.weight_of_column(1, 2, *arguments)
    for split in splits:
        splitting.set_column(0, 2, split)
    expected = sum(splitting.log_weight(0, 5, split) for split in splits) + np.log(24.0)
    assert weight == pytest.approx(expected, rel=1e-12)
    assert log_weights[2] == weight
    log_weights[2] = 7.0
    assert split_merge.weight_of_column(1, 2, *arguments) == 7.0
    assert np.isnan(log_weights[[0, 1, 3, 4, 5]]).all()


class Prior:
    """Clusters by the Chinese restaurant, components and vectors given them, from fixed bases."""

    def __init__(self, n_dims, n_latent, n_users=5, alpha=0.8):
        rng = np.random.default_rng([9, n_dims, n_latent])
        self.bases = [random_base(rng, n, n + 1.3) for n in (n_dims, n_latent)]
        self.n_users, self.alpha = n_users, alpha

    def draw(self, rng, n_free):
        """A state with this many free columns."""
        z = naive.draw_labels(rng, self.n_users, self.alpha, ("dp", None))
        counts = np.concatenate([np.bincount(z), np.full(n_free, -1)])
        components = [draw_from_base(rng, len(counts), base) for base in self.bases]
        views = []
        for (means, factors), base in zip(components, self.bases, strict=True):
            noise = rng.standard_normal((self.n_users, means.shape[1]))
            vectors = (
                means[z] + np.linalg.solve(np.swapaxes(factors[z], 1, 2), noise[..., None])[..., 0]
            )
            views.append(gaussian_view(vectors, Components(means, factors), base))
        return working_state(z, counts, views, self.alpha)


def statistics(state):
    """Of the partition and, in each view, of precisions, means about the base, and vectors about
    their means."""
    z, counts = state.z, state.counts
    result = [np.count_nonzero(counts > 0), counts.max(), z[0] == z[1]]
    for view in state.views:
        x, (means, factors), base, own = view.vectors, view.components, view.base, np.unique(z)
        if x.shape[1]:
            scale = np.log(
                (2.0 * np.log(np.diagonal(factors[own], axis1=1, axis2=2)).sum(axis=1)) ** 2 + 1.0
            )
            away = np.einsum(
                "ki,ij,kj->k", means[own] - base.mean, base.precision, means[own] - base.mean
            )
            inside = np.einsum("uji,uj->ui", factors[z], x - means[z])
            result += [np.mean(scale), np.arctan(away).mean(), np.arctan(inside**2).mean()]
    return np.array(result, dtype=float)


def scores(prior, kernel, n=4000, n_moves=3):
    """z-scores of how statistics change by moves."""
    rng, changes, accepted = np.random.default_rng(2), [], np.zeros(2)
    for _ in range(n):
        state = prior.draw(rng, n_moves + 1)
        before = statistics(state)
        accepted += kernel(rng, n_moves, state)
        np.testing.assert_array_equal(
            np.bincount(state.z, minlength=len(state.counts)), np.maximum(state.counts, 0)
        )
        changes.append(statistics(state) - before)
    assert (accepted > 0.05 * n).all()
    return np.mean(changes, axis=0) / (np.std(changes, axis=0) / np.sqrt(n))


@pytest.mark.parametrize(
    ("n_dims", "n_latent"),
    [pytest.param(*dims, marks=pytest.mark.slow) for dims in ((2, 1), (1, 0), (0, 1), (1, 2))],
)
def test_moves_from_the_prior_stay_in_it(n_dims, n_latent):
    for prior, n_moves in (
        (Prior(n_dims, n_latent), 3),
        (Prior(n_dims, n_latent, n_users=8, alpha=2.0), 6),
    ):
        assert np.abs(scores(prior, split_and_merge, n_moves=n_moves)).max() < 4.5


def same_labels(kernel, n_tables, n_moves=40, n_seeds=30):
    """From how many seeds moves with one label and with several, where everybody agrees, come to
    the same clusters; and how often these are new.

    With several tables the features are those of the last, and the others have none.
    """
    prior, n_same, n_new = Prior(2, 1, n_users=12, alpha=2.0), 0, 0
    for seed in range(n_seeds):
        state = prior.draw(np.random.default_rng(seed), n_moves + 1)
        before, twin = state.z.copy(), copy.deepcopy(state)
        z = np.tile(before, (1 + n_tables, 1))
        everybody, groups = np.ones((n_tables, 12), dtype=np.int64), np.array([n_tables, 0])
        shares, priors = np.full(n_tables, 0.9), np.zeros((n_tables, 2))
        twin = twin._replace(labels=WorkingLabels(z, groups, everybody, shares, priors))
        split_and_merge(np.random.default_rng([seed, 1]), n_moves, state)
        kernel(np.random.default_rng([seed, 1]), n_moves, twin)
        assert (z == z[0]).all()
        n_same += np.array_equal(twin.z, state.z) and np.array_equal(twin.counts, state.counts)
        n_new += not np.array_equal(state.z, before)
    return n_same / n_seeds, n_new / n_seeds


@pytest.mark.parametrize("n_tables", [1, 3])
def test_users_who_agree_are_split_and_merged_as_with_one_label(n_tables):
    same, new = same_labels(split_and_merge, n_tables)
    assert same == 1.0
    assert new > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        (split_merge.set_levels, "proposal.only[g]", "proposal.only[0]"),
        (
            split_and_merge,
            "groups, partition = proposal.whole,",
            "groups, partition = proposal.only[0],",
        ),
        (split_merge.find_part, "group == 0 and ", "group < 0 and "),
    ],
    ids=["levels of one group", "weights of one group", "nobody agrees"],
)
def test_a_group_that_is_forgotten_is_seen(change):
    same, _ = same_labels(mutate(split_and_merge, changed(*change)), 1)
    assert same < 1.0


def log_marginal(x, base):
    """ln of the law of some users' vectors, the precision integrated out by its Wishart law and the
    mean on a grid."""
    dof, n_dims, step = base.dof, x.shape[1], 0.05
    if n_dims == 0:
        return 0.0
    axis = np.arange(-8.0, 8.0 + step, step)
    standard = np.stack(np.meshgrid(*[axis] * n_dims, indexing="ij"), axis=-1).reshape(-1, n_dims)
    away = x - (base.mean + standard @ np.linalg.inv(np.linalg.cholesky(base.precision)))[:, None]
    scale = dof * base.covariance + np.einsum("gui,guj->gij", away, away)
    log_terms = (
        np.sum(norm.logpdf(standard), axis=1) - 0.5 * (dof + len(x)) * np.linalg.slogdet(scale)[1]
    )
    constant = (
        multigammaln(0.5 * (dof + len(x)), n_dims)
        - multigammaln(0.5 * dof, n_dims)
        - 0.5 * x.size * np.log(np.pi)
    )
    constant += 0.5 * dof * np.linalg.slogdet(dof * base.covariance)[1] + n_dims * np.log(step)
    return constant + logsumexp(log_terms)


def in_order(z):
    """Labels in the order of their first users."""
    return tuple(np.unique(z, return_index=True)[1][np.unique(z, return_inverse=True)[1]])


def errors_of_partitions(kernel, n_dims, n_latent, n_users=4, alpha=0.9, n_chains=8, n_calls=5000):
    """How often chains of nothing but splits and merges have each partition, less its probability,
    in standard errors."""
    rng = np.random.default_rng([3, n_dims, n_latent])
    bases = [random_base(rng, n, n + 1.3) for n in (n_dims, n_latent)]
    vectors = [1.5 * rng.standard_normal((n_users, n)) for n in (n_dims, n_latent)]
    logs = {}
    for labels in itertools.product(range(n_users), repeat=n_users):
        z = np.array(labels)
        if in_order(z) not in logs:
            logs[in_order(z)] = 0.0
            for own in (z == k for k in np.unique(z)):
                logs[in_order(z)] += np.log(alpha) + gammaln(own.sum())
                logs[in_order(z)] += sum(
                    log_marginal(x[own], base) for x, base in zip(vectors, bases, strict=True)
                )
    chances = np.exp(np.array([*logs.values()]) - logsumexp([*logs.values()]))
    places = {partition: place for place, partition in enumerate(logs)}
    found = np.zeros((n_chains, len(chances)))
    for chain in found:
        z, counts = (
            np.zeros(n_users, dtype=np.int64),
            np.array([n_users, -1, 0, *[-1] * (n_users + 8)]),
        )
        views = [
            gaussian_view(x, draw_from_base(rng, len(counts), base), base)
            for x, base in zip(vectors, bases, strict=True)
        ]
        state = working_state(z, counts, views, alpha, n_auxiliary=1)
        for _ in range(n_calls):
            kernel(rng, 4, state)
            chain[places[in_order(z)]] += 1.0 / n_calls
    assert chances.max() < 0.5
    return (found.mean(axis=0) - chances) / (found.std(axis=0, ddof=1) / np.sqrt(n_chains))


@pytest.mark.parametrize(
    ("n_dims", "n_latent", "n_calls"),
    [
        (2, 1, 2000),
        *(pytest.param(*dims, 5000, marks=pytest.mark.slow) for dims in ((2, 1), (1, 1), (0, 1))),
    ],
)
def test_partitions_come_as_often_as_they_are_likely(n_dims, n_latent, n_calls):
    """All partitions of four users by enumeration, and moves from one cluster on, with an auxiliary
    column among them."""
    assert (
        np.abs(errors_of_partitions(split_and_merge, n_dims, n_latent, n_calls=n_calls)).max() < 6.0
    )


def sides_are_free():
    return mutate(split_and_merge, "ratio - log_sides if splitting", "ratio if splitting")


def merges_weigh_alpha_twice():
    return mutate(
        split_and_merge, "else log_sides - ratio", "else log_sides - ratio + math.log(0.5)"
    )


def splits_forget_how_merges_are_chosen():
    return mutate(
        split_and_merge,
        "ratio += math.log(chance_of_other(first, counts.agreeing, splits))",
        "ratio += 0.0",
    )


def merges_forget_how_they_are_chosen():
    return mutate(
        split_and_merge, "chance * (sizes.agreeing[2] - 1.0)", "(sizes.agreeing[2] - 1.0)"
    )


def members_weigh_nothing():
    return mutate(split_and_merge, " * (sizes.agreeing[2] - 1.0) / sizes.agreeing[1]", "")


def weights_outlive_their_clusters():
    return mutate(
        split_and_merge,
        changed(
            split_merge.accept,
            "log_weights[column] = sizes.customers[s], math.nan",
            "log_weights[column] = sizes.customers[s], log_weights[column]",
        ),
    )


def weights_without_means():
    return mutate(
        split_and_merge, changed(splitting.log_weight, "0.5 * pulled[i] * held[i]", "0.0")
    )


def miscounted_proposal():
    return mutate(split_and_merge, changed(splitting.propose, "+ n - 1.0", "+ n"))


def means_forget_their_users():
    return mutate(
        split_and_merge, changed(splitting.accept, "= n * split.sets.averages[s, i]", "= 0.0")
    )


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


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_rejected(mutant):
    prior = Prior(2, 1, n_users=8, alpha=2.0)
    assert np.abs(scores(prior, mutant(), n_moves=6)).max() > 6.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant is not means_forget_their_users]
)
def test_mutant_has_partitions_too_often(mutant):
    assert np.abs(errors_of_partitions(mutant(), 2, 1)).max() > 9.0


@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (2, 1)])
def test_compiled_is_plain(n_dims, n_latent):
    prior = Prior(n_dims, n_latent, n_users=8)
    for seed in range(20):
        results = []
        for kernel in (split_and_merge, python_of(split_and_merge)):
            rng = np.random.default_rng(seed)
            state = prior.draw(rng, 5)
            made = kernel(rng, 4, state)
            components = [part for view in state.views for part in view.components]
            results.append([made, state.z, state.counts, *components, rng.random()])
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("dof", [1.5, 1e11])
def test_no_moves_where_they_would_lose_digits_or_there_is_nobody_to_move(dof):
    base, nothing = Base(np.zeros(1), np.eye(1), np.eye(1), dof), random_base(None, 0)
    n_users = 1 if dof < 1e10 else 6
    z, counts = np.zeros(n_users, dtype=np.int64), np.array([n_users, -1, -1, -1])
    x, drawn = np.linspace(-9.0, 9.0, n_users)[:, None], np.random.default_rng(0)
    views = [
        gaussian_view(v, draw_from_base(drawn, 4, b), b)
        for v, b in ((x, base), (np.empty((n_users, 0)), nothing))
    ]
    rng = np.random.default_rng(1)
    assert split_and_merge(rng, 3, working_state(z, counts, views, 1.0)) == (0, 0)
    assert rng.random() == np.random.default_rng(1).random()


def test_how_many_moves_a_sweep_has():
    rng = np.random.default_rng(0)
    state = Prior(1, 0).draw(rng, 1)
    drawn = [split_merge.draw_moves(rng, state) for _ in range(2000)]
    assert set(drawn) == {0, split_merge.MOVES}
    assert abs(np.mean(drawn) / split_merge.MOVES - split_merge.SHARE) < 0.05
    noisy = state._replace(terms=state.terms._replace(noise=np.ones(2)))
    assert {split_merge.draw_moves(rng, noisy) for _ in range(50)} == {0}


def test_where_no_cluster_can_be_opened_nothing_happens():
    rng = np.random.default_rng(0)
    before = Prior(1, 0).draw(rng, 1)._replace(partition=finite(3, 0.5))
    left = rng.bit_generator.state
    after = python_of(split_merge.run_with_moves)(rng, before)
    assert after.counts is before.counts
    assert rng.bit_generator.state == left


def test_a_sweep_has_auxiliary_and_free_columns_after_the_moves():
    """As many auxiliary ones as were asked for, and room."""
    rng, prior, run, seen = (
        np.random.default_rng(6),
        Prior(2, 1, n_users=8),
        python_of(split_merge.run_with_moves),
        set(),
    )
    for _ in range(80):
        before = prior.draw(rng, 0)._replace(n_auxiliary=2)
        n_clusters = len(before.counts)
        state = run(rng, before)
        np.testing.assert_array_equal(
            np.bincount(state.z, minlength=len(state.counts)), np.maximum(state.counts, 0)
        )
        np.testing.assert_array_equal(
            np.flatnonzero(state.counts == 0), [n_clusters, n_clusters + 1]
        )
        assert (state.counts[-split_merge.ROOM :] == -1).all()
        for view in state.views:
            assert all(len(part) >= len(state.counts) for part in (*view.components, view.cores))
            for part in view.components:
                assert np.isfinite(part[: len(state.counts)][state.counts >= 0]).all()
            assert np.isfinite(view.cores[n_clusters : n_clusters + 2]).all()
        seen.add(np.count_nonzero(state.counts > 0) - n_clusters)
    assert {-1, 0, 1} <= seen


def test_a_fixed_number_of_clusters_has_its_columns_only():
    rng, before = (np.random.default_rng(6) for _ in range(2))
    state = Prior(2, 1, n_users=8).draw(rng, 0)
    after = python_of(split_merge.run_with_moves)(
        rng, state._replace(partition=finite(len(state.counts), 0.5), n_auxiliary=0)
    )
    wanted = Prior(2, 1, n_users=8).draw(before, 0)
    np.testing.assert_array_equal(after.z, wanted.z)
    np.testing.assert_array_equal(after.counts, wanted.counts)
    for view, old in zip(after.views, wanted.views, strict=True):
        assert len(view.cores) == 0
        for part, was in zip(view.components, old.components, strict=True):
            np.testing.assert_array_equal(part, was)
    assert rng.random() == before.random()

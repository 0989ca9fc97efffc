"""The assignment sweep: a naive twin with the same random numbers, the probabilities of (C11), and the books of the columns."""

import itertools
import math
from collections import Counter
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import naive
from dualview.behaviors.likelihoods.noise import draw_noise
from dualview.engines.gibbs import assignment as kernels
from dualview.engines.gibbs.sweep import grow, reassign
from dualview.numerics.streams import stream_random
from dualview.views.gaussian.auxiliary import cover
from dualview.views.gaussian.conditionals import draw_from_base
from dualview.views.gaussian.density import log_likelihood
from numerics.observations import Observations
from yardsticks import N_DRAWS, check_counts, check_law, positive_definite, python_of, upper_factor

LAST = math.nextafter(1.0, 0.0)
EXPONENTS = st.lists(st.one_of(st.floats(-900, 900), st.just(-math.inf)), min_size=1, max_size=8)
WORD = 2**64


@pytest.fixture(autouse=True)
def numbers_run_over():
    """Plain Python warns of what is meant: words of streams that wrap around, infinities that make NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        yield


def choose(weights, exponents, uniform):
    """The kernel on copies."""
    return kernels.choose(np.array(weights, dtype=float), np.array(exponents, dtype=float), uniform)


def implied(option, n_options):
    """Probabilities of options 0, 1, … that are chosen by inversion of a uniform number: from the borders between them."""
    borders = np.ones(n_options + 1)
    borders[0] = 0.0
    for j in range(n_options - 1):
        low, high = borders[j], 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if option(middle) <= j else (low, middle)
        borders[j + 1] = low
    return np.diff(borders)


@settings(derandomize=True, deadline=None)
@given(EXPONENTS, st.floats(0.0, LAST), st.randoms(use_true_random=False))
def test_a_chosen_index_has_positive_weight(exponents, uniform, random):
    weights = [random.choice([0.0, 0.5, 3.0]) for _ in exponents]
    chosen, top = (
        choose(weights, exponents, uniform),
        max(e if w else -math.inf for w, e in zip(weights, exponents, strict=True)),
    )
    if top == -math.inf:
        assert chosen == kernels.NO_WEIGHT
    else:
        assert weights[chosen] * math.exp(exponents[chosen] - top) > 0.0


@settings(derandomize=True, deadline=None)
@given(EXPONENTS, st.floats(0.0, LAST), st.floats(-1e3, 1e3))
def test_a_choice_does_not_depend_on_the_scale_of_weights(exponents, uniform, shift):
    exponents, weights = np.array(exponents), np.arange(1.0, len(exponents) + 1)
    chosen, moved = choose(weights, exponents, uniform), choose(7.0 * weights, exponents + shift, uniform)
    if chosen != moved:  # only a uniform number on the border of two cells may tip over
        shares = weights * np.exp(exponents - exponents.max())
        borders = np.cumsum(shares) / shares.sum()
        assert np.abs(borders - uniform).min() < 1e-9


def test_choices_have_their_probabilities():
    weights, exponents = np.array([2.0, 0.0, 0.3, 1.0, 5.0]), np.array([-701.0, 90.0, -700.0, -702.5, -math.inf])
    shares = weights * np.exp(np.where(weights > 0, exponents, 0.0) + 700.0)
    probabilities = implied(lambda uniform: choose(weights, exponents, uniform), 5)
    np.testing.assert_allclose(probabilities, shares / shares.sum(), atol=1e-15)


def test_the_ends_of_the_uniform_range_choose_the_first_and_last_positive_weight():
    for weights, exponents in [([1, 1, 1, 1], [-math.inf, 0.7, 0.1, -math.inf]), ([0, 1, 2, 0], [9.0, 0.7, 0.1, 9.0])]:
        assert choose(weights, exponents, 0.0) == 1
        assert choose(weights, exponents, LAST) == 2


@pytest.mark.parametrize("bad", [[-math.inf, -math.inf], [-math.inf], []])
def test_no_choice_where_every_density_is_zero(bad):
    assert choose(np.ones(len(bad)), bad, 0.5) == kernels.NO_WEIGHT


@pytest.mark.parametrize(
    ("exponents", "column"),
    [([0.0, math.nan], 1), ([math.nan, 900.0, 0.0], 0), ([900.0, math.inf, math.nan], 1), ([-math.inf, math.nan], 1)],
)
def test_an_exponent_that_is_no_density_is_named(exponents, column):
    lost = kernels.Lost(3, choose(np.ones(len(exponents)), exponents, 0.5))
    assert lost.column == column


def test_what_has_no_weight_may_be_anything():
    assert choose([0.0, 1.0, 0.0], [math.nan, -3.0, math.inf], 0.5) == 1


def test_a_lost_user_without_any_weight_has_no_column():
    assert kernels.Lost(3, kernels.NO_WEIGHT).column is None


def test_no_choice_without_weight():
    assert choose([0.0, 0.0], [0.0, 1.0], 0.5) == kernels.NO_WEIGHT


def random_base(rng, n_dims):
    """μ_0, R_0, W_0, β."""
    if n_dims == 0:
        return np.empty(0), np.empty((0, 0)), np.empty((0, 0)), 1.0
    return rng.standard_normal(n_dims), positive_definite(rng, n_dims), positive_definite(rng, n_dims), n_dims + 2.5


class Columns:
    """Users with features (U, D) and latent vectors (U, q), clusters, a pool and free room, as the sweep has them."""

    def __init__(self, seed, z, n_dims, n_latent, *, n_components=None, n_pool=2, room=3, kind="common", covered=False):
        self.covered = covered
        self.rng = np.random.default_rng([seed, n_dims, n_latent])
        self.z, n_users = np.array(z), len(z)
        self.features = self.rng.standard_normal((n_users, n_dims))
        self.latent = self.rng.standard_normal((n_users, n_latent))
        self.observations = Observations(self.rng, n_users, n_latent, kind, n_outcomes=6)
        self.noises = np.empty(0)
        self.base, self.latent_base = random_base(self.rng, n_dims), random_base(self.rng, n_latent)
        self.set_columns(n_components or self.z.max() + 1, n_pool, room)

    def set_columns(self, n_components, n_pool, room):
        """Fresh components for all columns."""
        n_columns = n_components + n_pool + room
        self.columns = (*self.from_base(n_columns, self.base), *self.from_base(n_columns, self.latent_base))
        if self.observations.kind == "cluster":
            self.noises = 0.2 + self.rng.gamma(2.0, size=n_columns)
            self.observations.set_noise(self.noises[self.z])
        self.terms = self.observations.terms(self.latent)
        self.start(n_components, n_pool, room)

    def from_base(self, n, base):
        return draw_from_base(self.rng, n, *base)

    def start(self, n_components, n_pool, room):
        """Counts, pool and table at the beginning of a sweep."""
        n_columns = n_components + n_pool + room
        self.counts = kernels.column_counts(self.z, n_components, n_pool, n_columns)
        self.pool = np.arange(n_components, n_components + n_pool)
        self.table = np.full((n_columns, len(self.z)), np.nan)
        self.x = np.ascontiguousarray(self.features.T)
        sizes = [part.shape[1] if self.covered else 0 for part in (self.features, self.latent)]
        self.cores = tuple(np.zeros((n_columns if size else 0, size, size)) for size in sizes)
        for column in self.pool:
            cover(column, *self.columns[:2], self.cores[0], self.base)
            cover(column, *self.columns[2:], self.cores[1], self.latent_base)
        kernels.fill(self.table, 0, n_columns, self.x, self.counts, *self.columns[:2])

    def arguments(self, weights):
        """What ``assign`` takes after rng and first."""
        sums = self.x, self.latent, self.terms, self.columns, self.noises, self.cores, (self.base, self.latent_base)
        return self.z, self.counts, self.pool, self.table, weights, *sums

    def sweep(self, rng, weights, first=0, kernel=kernels.assign, most=-1):
        done, opened, self.lost = kernel(rng, first, *self.arguments(weights), most)
        return done, opened

    def check_books(self):
        """Clusters, pool and free room share out the columns; counts are those of z; residuals those of the latent vectors."""
        check_counts_and_pool(self.z, self.counts, self.pool)
        if self.observations.kind != "gram":
            residual = self.observations.residual(self.latent)
            np.testing.assert_allclose(self.terms[4], residual, rtol=1e-10, atol=1e-10)
        if self.observations.kind == "cluster":
            np.testing.assert_array_equal(self.terms[8], self.noises[self.z])
            self.observations.set_noise(self.noises[self.z])
            np.testing.assert_array_equal(self.terms[5], self.observations.precision)


def check_counts_and_pool(z, counts, pool):
    clusters = np.flatnonzero(counts > 0)
    np.testing.assert_array_equal(clusters, np.unique(z))
    np.testing.assert_array_equal(counts[clusters], np.bincount(z)[clusters])
    assert (counts[counts < 0] == -1).all()
    np.testing.assert_array_equal(np.sort(pool), np.flatnonzero(counts == 0))


class Twin:
    """The same sweep with lists: a column is the set of its users, a pool member "pool", or None."""

    def __init__(self, case):
        self.case, self.z = case, case.z.tolist()
        self.means, self.factors, self.latent_means, self.latent_factors = (part.copy() for part in case.columns)
        self.holders = [None if count < 0 else "pool" if count == 0 and len(case.pool) else set() for count in case.counts]
        for u, column in enumerate(self.z):
            self.holders[column] = self.holders[column] | {u}
        self.pool, self.latent, self.opened = case.pool.tolist(), case.latent.copy(), 0
        self.noises, self.covered = case.noises.copy(), case.covered
        for factors, core in zip((self.factors, self.latent_factors), case.cores, strict=True):
            if len(core) and self.pool:
                factors[self.pool] = core[self.pool]

    def weight(self, column, spread, new_weight):
        holder = self.holders[column]
        if holder is None:
            return 0.0
        return new_weight if holder == "pool" else len(holder) + spread

    def law(self, column):
        """Mean and precision of the features, then of the latent vector; the mean of a member of a covered pool is unknown."""
        laws = []
        for means, factors, base in (
            (self.means, self.factors, self.case.base),
            (self.latent_means, self.latent_factors, self.case.latent_base),
        ):
            mean, own = means[column], precision(factors[column])
            if self.covered and self.holders[column] == "pool":
                mean, own = base[0], np.linalg.inv(np.linalg.inv(own) + np.linalg.inv(base[1]))
            laws += [mean, own]
        return laws

    def log_density(self, u, column):
        """Of u's features, and of the observations with u's latent vector integrated out."""
        mean, own, latent_mean, latent_own = self.law(column)
        total = naive.log_normal(self.case.features[u], mean, own)
        if self.latent.shape[1]:
            total += self.alone(u, column).log_marginal(latent_mean[None], latent_own[None])
        return total

    def draw_mean(self, rng, vector, means, factors, base, column):
        """(C2) of a cluster with one vector."""
        own = precision(factors[column])
        total = own + base[1]
        means[column] = naive.draw_normal(rng, np.linalg.solve(total, own @ vector + base[1] @ base[0]), total)

    def alone(self, u, column):
        """The observations as they are for u in a column, all others' latent vectors known."""
        if len(self.noises):
            return self.case.observations.alone_under(u, self.latent, self.noises[column])
        return self.case.observations.alone(u, self.latent)

    def leave(self, rng, u):
        own = self.z[u]
        self.holders[own] = self.holders[own] - {u}
        if not self.holders[own] and self.pool:
            slot = int(rng.random() * len(self.pool))
            self.holders[self.pool[slot]], self.holders[own], self.pool[slot] = None, "pool", own

    def choose(self, rng, u, weights):
        weights = np.array([self.weight(c, *weights) for c in range(len(self.holders))])
        logs = np.array([self.log_density(u, c) if weight > 0 else -math.inf for c, weight in enumerate(weights)])
        shares = weights * np.exp(logs - logs.max())
        return int(np.searchsorted(np.cumsum(shares), rng.random() * shares.sum(), side="right"))

    def join(self, rng, u, column):
        if self.holders[column] == "pool":
            fresh = self.holders.index(None)
            self.pool[self.pool.index(column)] = fresh
            self.holders[column], self.holders[fresh] = set(), "pool"
            self.opened += 1
            (self.means[fresh],), (self.factors[fresh],) = draw_from_base(rng, 1, *self.case.base)
            (self.latent_means[fresh],), (self.latent_factors[fresh],) = draw_from_base(rng, 1, *self.case.latent_base)
            if len(self.noises):
                self.noises[fresh] = draw_noise(rng, 0.0, 0.0, self.case.observations.noise_dof)
        self.holders[column] = self.holders[column] | {u}
        self.z[u] = column

    def sweep(self, rng, weights):
        """Until all are done or there is no free column for the next user."""
        for u in range(len(self.z)):
            if self.pool and None not in self.holders:
                return u
            self.leave(rng, u)
            column = self.choose(rng, u, weights)
            opens, (*_, mean, own) = self.holders[column] == "pool", self.law(column)
            self.join(rng, u, column)
            if self.latent.shape[1]:
                self.latent[u] = naive.draw_normal(rng, *self.alone(u, column).posterior(mean[None], own[None]))
            if opens and self.covered:
                case = self.case
                if len(case.x):
                    self.draw_mean(rng, case.features[u], self.means, self.factors, case.base, column)
                if self.latent.shape[1]:
                    self.draw_mean(rng, self.latent[u], self.latent_means, self.latent_factors, case.latent_base, column)
        return len(self.z)


def precision(factor):
    return factor @ np.swapaxes(factor, -1, -2)


VIEWS = [(2, 0), (0, 1), (0, 2), (2, 1), (1, 3)]
KINDS = [(*views, kind) for views in VIEWS for kind in ("common", "own", "gram") if kind != "gram" or views[1] == 1]
KINDS += [(0, 1, "cluster"), (2, 1, "cluster"), (1, 3, "cluster")]
Z = [0, 2, 1, 0, 3, 0, 1, 0, 4]


@pytest.mark.parametrize(("n_dims", "n_latent", "kind"), KINDS)
@pytest.mark.parametrize(("n_pool", "new_weight"), [(1, 0.3), (3, 0.8), (2, 40.0)])
@pytest.mark.parametrize("covered", [True, False])
def test_the_dirichlet_process_sweep_is_the_naive_one(n_dims, n_latent, kind, n_pool, new_weight, covered):
    for seed in range(4):
        case = Columns(seed, Z, n_dims, n_latent, n_pool=n_pool, kind=kind, covered=covered)
        twin = Twin(case)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        done = twin.sweep(other, (0.0, new_weight))
        assert case.sweep(rng, (0.0, new_weight)) == (done, twin.opened)
        np.testing.assert_array_equal(case.z, twin.z)
        np.testing.assert_array_equal(case.pool, twin.pool)
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(case.noises, twin.noises)
        for c in np.flatnonzero(case.counts >= 0):
            means, factors, latent_means, latent_factors = (part[c] for part in case.columns)
            laws = means, precision(factors), latent_means, precision(latent_factors)
            for got, wanted in zip(laws, twin.law(c), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)
        case.check_books()
        assert rng.random() == other.random()


@pytest.mark.parametrize(("n_dims", "n_latent", "kind"), KINDS)
@pytest.mark.parametrize("spread", [0.01, 1.5])
def test_the_sweep_over_a_fixed_number_is_the_naive_one(n_dims, n_latent, kind, spread):
    for seed in range(4):
        case = Columns(seed, Z, n_dims, n_latent, n_components=6, n_pool=0, room=0, kind=kind)
        twin = Twin(case)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        assert case.sweep(rng, (spread, 0.0)) == (twin.sweep(other, (spread, 0.0)), 0)
        np.testing.assert_array_equal(case.z, twin.z)
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(case.counts, np.bincount(case.z, minlength=6))
        assert rng.random() == other.random()


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
def test_compiled_labels_are_those_of_python(n_dims, n_latent):
    for seed in range(3):
        cases = [Columns(seed, Z, n_dims, n_latent, covered=seed > 0) for _ in range(2)]
        for case, kernel in zip(cases, (kernels.assign, python_of(kernels.assign)), strict=True):
            case.sweep(np.random.default_rng(seed), (0.0, 0.8), kernel=kernel)
        for name in ("z", "counts", "pool", "latent", "table"):
            np.testing.assert_allclose(*(getattr(case, name) for case in cases), rtol=1e-12)


@pytest.mark.parametrize("n_pool", [0, 2])
@pytest.mark.parametrize("n_latent", [0, 1, 2])
@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_a_user_with_no_weight_anywhere_is_reported(value, n_latent, n_pool):
    case = Columns(1, [0, 1, 2, 0, 1, 0], 2, n_latent, n_pool=n_pool, room=9)
    case.features[4] = value
    case.start(3, n_pool, 9)
    weights = (0.0, 1.0) if n_pool else (0.5, 0.0)
    assert case.sweep(np.random.default_rng(2), weights)[0] == 4
    assert case.lost.user == 4


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize("n_latent", [1, 2])
@pytest.mark.parametrize("view", [0, 1])
def test_a_pool_member_too_wide_for_numbers_is_left_out(view, n_latent, covered, observed):
    """Its factor has a 0 on the diagonal. Of what is latent a user without observations says nothing."""
    for seed in range(20):
        case = Columns(seed, [0, 1, 0, 1, 0, 1], 2, n_latent, room=9)
        if not observed:
            begin, end = case.terms[0][5:]
            case.terms[2][begin:end], case.terms[3][5] = 0.0, 0.0
        case.columns[2 * view + 1][2, 0, 0] = 0.0
        case.covered = covered
        case.start(2, 2, 9)
        assert case.sweep(np.random.default_rng(seed), (0.0, 1e6), first=5)[0] == 6
        assert case.lost.user == -1
        assert case.z[5] != 2
        assert np.isfinite(case.latent).all()


@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_user_whose_observations_are_no_numbers_is_reported(n_latent):
    case = Columns(1, [0, 1, 2, 0, 1, 0], 2, n_latent, room=9)
    case.terms[4][:] = math.nan
    case.sweep(np.random.default_rng(2), (0.0, 1.0))
    assert (case.lost.user, case.lost.column) == (0, 0)


def test_a_sweep_stops_when_so_many_clusters_were_opened():
    case, whole = (Columns(11, [0] * 20, 1, 0, room=60) for _ in range(2))
    rng, other = np.random.default_rng(12), np.random.default_rng(12)
    done, opened = 0, []
    while done < 20:
        done, n = case.sweep(rng, (0.0, 5.0), first=done, most=1)
        opened.append(n)
    assert whole.sweep(other, (0.0, 5.0)) == (20, sum(opened))
    assert set(opened[:-1]) == {1}
    np.testing.assert_array_equal(case.z, whole.z)


def test_users_before_the_first_are_left_alone():
    case, other = (Columns(3, Z, 1, 1, room=30) for _ in range(2))
    rng = np.random.default_rng(4)
    assert case.sweep(rng, (0.0, 0.5), first=4)[0] == len(Z)
    np.testing.assert_array_equal(case.z[:4], Z[:4])
    np.testing.assert_array_equal(case.latent[:4], other.latent[:4])
    case.check_books()


# What one user does.


def turned(word, by):
    return (word << by | word >> (64 - by)) % WORD


def stream_with(first, second):
    """A stream whose first two uniform numbers are these: the steps of xoshiro256++ solved for its state."""
    words = [int(uniform * 2**53) << 11 for uniform in (first, second)]
    a = turned(words[1], 60)
    d = (turned((words[0] - a) % WORD, 41) - a) % WORD
    return np.array([a, a ^ d, 12345, d], dtype=np.uint64)


def test_a_stream_can_be_made_to_order():
    for first, second in [(0.0, 0.25), (0.7, LAST), (0.123, 0.456)]:
        stream = stream_with(first, second)
        assert stream_random(stream) == pytest.approx(first, abs=2**-53)
        assert stream_random(stream) == pytest.approx(second, abs=2**-53)


class JointCase(Columns):
    """Two views and outcomes; the last user is to be assigned. Every column is an option, none of them free."""

    def __init__(self, z, n_components, partition, n_latent=1, kind="common"):
        super().__init__(3, z, 2, n_latent, n_components=n_components, n_pool=0, room=0, kind=kind)
        self.alpha, self.partition, self.last = 0.7, partition, len(z) - 1
        self.constants = {"features": (np.zeros(2), np.eye(2)), "behavior": (np.zeros(n_latent), np.eye(n_latent))}

    def views(self, kept):
        """Both views with these components only."""
        means, factors, latent_means, latent_factors = (part[kept] for part in self.columns)
        return {
            "features": naive.ViewState(means, precision(factors), *self.base),
            "behavior": naive.ViewState(latent_means, precision(latent_factors), *self.latent_base),
        }

    def log_joint(self, label, kept):
        """With the last user at label, its latent vector integrated out, and only the kept components in being.

        ln p(z, rest) = ln p(z, f_u, rest) − ln p(f_u | z, rest), for any f_u.
        """
        views = self.views(kept)
        state = naive.State(np.append(self.z[:-1], label), self.alpha, views, self.latent)
        constants = {"feature_constants": self.constants["features"], "behavior_constants": self.constants["behavior"]}
        total = naive.log_joint(state, features=self.features, **constants, partition=self.partition)
        total += self.observations.log_likelihood(self.latent)
        prior = views["behavior"].means[[label]], views["behavior"].precisions[[label]]
        posterior = self.observations.alone(self.last, self.latent).posterior(*prior)
        return total - naive.log_normal(self.latent[self.last], *posterior)

    def log_base(self, k):
        """ln p(θ_k | base) of both views."""
        total = 0.0
        for sign, kept in ((1, [k]), (-1, [])):
            for name, view in self.views(kept).items():
                total += sign * naive.log_view_prior(view, self.constants[name])
        return total

    def probabilities(self, n_components, n_pool, first, weights, room=3):
        """Of every column of the last user, by inversion; first: uniform numbers it needs before its choice."""

        def option(uniform):
            case = copy(self)
            case.z, case.latent, case.terms = self.z.copy(), self.latent.copy(), self.observations.terms(self.latent)
            case.columns = tuple(np.concatenate([part, np.zeros((room, *part.shape[1:]))]) for part in self.columns)
            case.start(n_components, n_pool, room)
            case.sweep(stream_with(*(*first, uniform, 0.5)[:2]), weights, first=self.last)
            return case.z[-1]

        return implied(option, n_components + n_pool)


def shares(joints):
    return np.exp(joints - np.logaddexp.reduce(joints))


@pytest.mark.parametrize(("n_latent", "kind"), [(1, "gram"), *itertools.product([1, 2], ["common", "own"])])
def test_a_fixed_number_of_clusters_has_the_joints_probabilities(n_latent, kind):
    """(C11), empty clusters included."""
    case = JointCase([0, 0, 0, 1, 1, 0], 3, ("finite", 3), n_latent, kind)
    joints = np.array([case.log_joint(k, np.arange(3)) for k in range(3)])
    probabilities = case.probabilities(3, 0, (), (case.alpha / 3, 0.0), room=0)
    np.testing.assert_allclose(probabilities, shares(joints), atol=1e-11)


@pytest.mark.parametrize("n_latent", [1, 2])
def test_the_dirichlet_process_has_the_joints_probabilities(n_latent):
    """(C11): auxiliary components stand for an integral over the base, so each shares α and sheds its base density."""
    case, m = JointCase([0, 0, 0, 1, 1, 0], 4, ("dp", None), n_latent), 2
    joints = [case.log_joint(k, [0, 1]) for k in (0, 1)]
    joints += [case.log_joint(2, [0, 1, new]) - case.log_base(new) - math.log(m) for new in (2, 3)]
    probabilities = case.probabilities(2, m, (), (0.0, case.alpha / m))
    np.testing.assert_allclose(probabilities, shares(joints), atol=1e-11)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_user_alone_brings_its_cluster_in_place_of_a_pool_member(n_latent, slot):
    case, m = JointCase([0, 0, 0, 1, 1, 2], 5, ("dp", None), n_latent), 2
    left = 4 - slot  # of the pool's columns 3 and 4
    joints = [case.log_joint(k, [0, 1]) for k in (0, 1)]
    joints += [case.log_joint(2, [0, 1, new]) - case.log_base(new) - math.log(m) for new in (2, left)]
    probabilities = case.probabilities(3, m, ((slot + 0.3) / m,), (0.0, case.alpha / m))
    np.testing.assert_allclose(probabilities[[0, 1, 2, left]], shares(joints), atol=1e-11)
    assert probabilities[3 + slot] < 1e-15


# Many sweeps.


def check_exactly(law, draws):
    """Labels drawn once for each of many independent starts have these probabilities."""
    counts = Counter(map(tuple, np.asarray(draws).tolist()))
    assert set(counts) <= set(law)
    check_counts(np.array([counts[labels] for labels in law]), np.array(list(law.values())))


@pytest.mark.parametrize(
    ("n_dims", "n_latent", "kind"),
    [(1, 1, "gram"), (1, 1, "common"), (1, 1, "own"), (0, 2, "common"), (0, 2, "own"), (2, 2, "common")],
)
def test_a_sweep_from_the_exact_posterior_of_fixed_components_stays_in_it(n_dims, n_latent, kind):
    """All labels of four users are enumerated, the latent vectors integrated out of one dense normal law."""
    n_users, n_components, spread = 4, 2, 0.4
    case = Columns(5, [0, 1, 0, 1], n_dims, n_latent, n_components=n_components, n_pool=0, room=0, kind=kind)
    for part in (case.features, case.columns[0], case.columns[2], case.observations.outcome, case.observations.precision):
        part *= 0.3  # nothing is sure
    means, factors, latent_means, latent_factors = case.columns
    likelihood, latent_precisions = log_likelihood(case.features, means, factors), precision(latent_factors)
    law, posteriors = {}, {}
    for labels in np.ndindex(*n_users * [n_components]):
        z = np.array(labels)
        law[labels] = naive.log_partition(z, n_components * spread, ("finite", n_components))
        law[labels] += likelihood[np.arange(n_users), z].sum() if n_dims else 0.0
        law[labels] += case.observations.log_marginal(latent_means[z], latent_precisions[z])
        posteriors[labels] = case.observations.posterior(latent_means[z], latent_precisions[z])
    law = dict(zip(law, shares(np.array(list(law.values()))), strict=True))
    assert sorted(law.values())[-5] > 0.015
    rng, drawn, distances = np.random.default_rng(6), [], []
    for start in rng.choice(len(law), N_DRAWS, p=list(law.values())):
        labels = list(law)[start]
        case.z[:] = labels
        case.latent[:] = naive.draw_normal(rng, *posteriors[labels]).reshape(n_users, n_latent)
        case.terms = case.observations.terms(case.latent)
        case.start(n_components, 0, 0)
        case.sweep(rng, (spread, 0.0))
        mean, total = posteriors[tuple(case.z.tolist())]
        drawn.append(case.z.copy())
        distances.append((case.latent.ravel() - mean) @ total @ (case.latent.ravel() - mean))
    check_exactly(law, drawn)
    check_law(distances, chi2(n_users * n_latent).cdf)


@pytest.mark.parametrize("n_pool", [1, 3])
@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (1, 2)])
@pytest.mark.parametrize("covered", [True, False])
def test_sweeps_from_the_prior_stay_in_it(n_dims, n_latent, n_pool, covered):
    """Clusters by the Chinese restaurant, components, vectors and outcomes given them; then sweeps, each with a fresh pool.

    Every state is again a draw from the prior: of partitions, of means about the base, of vectors about their means.
    """
    n_users, alpha = 4, 0.9
    law = {labels: math.exp(naive.log_partition(np.array(labels), alpha, ("dp", None))) for labels in naive.partitions(n_users)}
    assert sum(law.values()) == pytest.approx(1.0)
    case = Columns(7, [0, 0, 0, 0], n_dims, n_latent, covered=covered)
    rng, drawn, fits = np.random.default_rng(8), [], []
    for _ in range(N_DRAWS // 2):
        case.z = naive.draw_labels(rng, n_users, alpha, ("dp", None))
        n_components = case.z.max() + 1
        case.set_columns(n_components, n_pool, 8)
        means, factors, latent_means, latent_factors = case.columns
        case.features, case.latent = vectors(rng, case.z, means, factors), vectors(rng, case.z, latent_means, latent_factors)
        case.observations.redraw(rng, case.latent)
        case.terms = case.observations.terms(case.latent)
        for _ in range(3):
            kept = kernels.compact(case.z, case.counts, case.columns)
            fresh = [case.from_base(n_pool + 8, base) for base in (case.base, case.latent_base)]
            for part in (*fresh[0], *fresh[1]):
                part[n_pool:] = np.nan  # room
            case.columns = tuple(np.concatenate(pair) for pair in zip(kept, (*fresh[0], *fresh[1]), strict=True))
            case.start(len(kept[0]), n_pool, 8)
            assert case.sweep(rng, (0.0, alpha / n_pool))[0] == n_users
        drawn.append(relabelled(case.z))
        fits.append(fit(case))
    check_exactly(law, drawn)
    for column in np.array(fits).T:
        check_law(column, chi2(1).cdf)


def vectors(rng, z, means, factors):
    """One for each user, given its component."""
    return np.array([means[k] + np.linalg.solve(factors[k].T, rng.standard_normal(means.shape[1])) for k in z])


def relabelled(z):
    """Labels by first appearance."""
    order = {}
    return [order.setdefault(int(k), len(order)) for k in z]


def fit(case):
    """Squared standard normal numbers under the prior: of the first user, its cluster's mean, and its outcomes."""
    means, factors, latent_means, latent_factors = case.columns
    numbers = []
    for vector, mean, factor, base in [
        (case.features[0], means[case.z[0]], factors[case.z[0]], case.base),
        (case.latent[0], latent_means[case.z[0]], latent_factors[case.z[0]], case.latent_base),
    ]:
        if len(vector):
            numbers.append((factor.T @ (vector - mean))[0] ** 2)
            numbers.append((np.linalg.cholesky(base[1]).T @ (mean - base[0]))[0] ** 2)
    residual = case.observations.residual(case.latent)
    return [*numbers, residual[0] ** 2 * case.observations.weights[0]]


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
@pytest.mark.parametrize("alpha", [0.05, 1.0, 30.0])
def test_books_stay_in_order_over_many_sweeps(n_dims, n_latent, alpha):
    """Without a fresh pool in between: there is room for everybody alone."""
    case, rng = Columns(9, [0] * 15, n_dims, n_latent, n_pool=3, room=20), np.random.default_rng(10)
    sizes = Counter()
    for _ in range(40):
        before = set(case.z)
        done, opened = case.sweep(rng, (0.0, alpha / 3))
        assert done == 15
        assert opened >= len(set(case.z) - before)
        case.check_books()
        for part in case.columns:
            assert np.isfinite(part[case.counts >= 0]).all()
        kernels.fill(case.table, 0, len(case.counts), case.x, case.counts, *case.columns[:2])
        sizes[len(set(case.z))] += 1
    assert len(sizes) > 1


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
@pytest.mark.parametrize("room", [0, 1, 5])
def test_columns_are_added_as_they_run_out(n_dims, n_latent, room):
    """With so large an α nearly everybody opens a cluster. The room there was makes no difference to what is drawn."""
    tight, wide = (Columns(11, [0] * 20, n_dims, n_latent, room=n) for n in (room, 60))
    for part, roomy in zip(tight.columns, wide.columns, strict=True):
        part[:3] = roomy[:3]  # the cluster and the pool
    tight.covered = wide.covered = True
    wide.start(1, 2, 60)
    tight.features[:], tight.latent[:], tight.observations = wide.features, wide.latent, wide.observations
    tight.terms, tight.base, tight.latent_base = wide.observations.terms(wide.latent), wide.base, wide.latent_base
    tight.start(1, 2, room)
    weights = (0.0, 1e7)
    counts, columns, _, _, opened, lost = reassign(np.random.default_rng(12), *tight.arguments(weights))
    assert wide.sweep(np.random.default_rng(12), weights) == (20, opened)
    assert opened >= 17
    assert lost.user == -1
    assert len(counts) in (3 + room) * 2 ** np.arange(1, 6)
    for got, wanted in zip((tight.z, tight.pool, tight.latent), (wide.z, wide.pool, wide.latent), strict=True):
        np.testing.assert_array_equal(got, wanted)
    check_counts_and_pool(tight.z, counts, tight.pool)
    tight.counts = counts
    tight.check_books()
    for got, wanted in zip(columns, wide.columns, strict=True):
        np.testing.assert_array_equal(got[counts >= 0], wanted[: len(counts)][counts >= 0])


def test_a_user_with_no_weight_is_reported_after_columns_were_added():
    case = Columns(13, [0] * 20, 1, 0, room=1)
    case.features[17] = math.nan
    case.start(1, 2, 1)
    *_, lost = reassign(np.random.default_rng(12), *case.arguments((0.0, 1e7)))
    assert lost.user == 17


def test_grown_columns_are_the_old_ones_and_free_ones():
    case = Columns(14, Z, 2, 1)
    cores = np.arange(4.0 * len(case.counts)).reshape(-1, 2, 2), np.empty((0, 0, 0))
    counts, table, columns, noises, grown = grow(case.counts, case.table, case.columns, case.noises, cores)
    n = len(case.counts)
    assert len(noises) == 0
    assert [core.shape for core in grown] == [(2 * n, 2, 2), (0, 0, 0)]
    np.testing.assert_array_equal(grown[0][:n], cores[0])
    noises = grow(case.counts, case.table, case.columns, np.arange(1.0 * n), cores)[3]
    assert len(noises) == 2 * n
    np.testing.assert_array_equal(noises[:n], np.arange(n))
    np.testing.assert_array_equal(counts, np.append(case.counts, np.full(n, -1)))
    np.testing.assert_array_equal(table[:n], case.table)
    for part, old in zip(columns, case.columns, strict=True):
        assert part.shape == (2 * n, *old.shape[1:])
        np.testing.assert_array_equal(part[:n], old)


# The pieces.


def test_a_user_who_leaves_others_behind_changes_one_count():
    counts, pool, rng = np.array([3, 1, 0, 0, -1]), np.array([2, 3]), np.random.default_rng(15)
    assert kernels.leave(rng, 0, counts, pool) == -1
    np.testing.assert_array_equal(counts, [2, 1, 0, 0, -1])
    np.testing.assert_array_equal(pool, [2, 3])
    assert rng.random() == np.random.default_rng(15).random()


def test_an_emptied_cluster_takes_the_place_of_any_pool_member_alike():
    rng, freed = np.random.default_rng(16), []
    for _ in range(N_DRAWS):
        counts, pool = np.array([3, 1, 0, 0, 0, -1]), np.array([4, 2, 3])
        freed.append(kernels.leave(rng, 1, counts, pool))
        slot = [4, 2, 3].index(freed[-1])
        assert pool[slot] == 1
        assert counts[freed[-1]] == -1
        assert counts[1] == 0
        np.testing.assert_array_equal(np.delete(pool, slot), np.delete([4, 2, 3], slot))
    check_counts(np.bincount(freed, minlength=5)[2:], np.full(3, 1 / 3))


def test_without_a_pool_an_emptied_component_stays():
    counts, pool = np.array([3, 1, 0]), np.empty(0, dtype=np.int64)
    assert kernels.leave(np.random.default_rng(17), 1, counts, pool) == -1
    np.testing.assert_array_equal(counts, [3, 0, 0])


def test_the_first_free_column_replaces_a_chosen_pool_member():
    counts, pool = np.array([3, 0, -1, 0, 2, -1, 0]), np.array([3, 1, 6])
    assert kernels.replace_in_pool(1, counts, pool) == 2
    np.testing.assert_array_equal(pool, [3, 2, 6])
    np.testing.assert_array_equal(counts, [3, 0, 0, 0, 2, -1, 0])


@pytest.mark.parametrize("n_dims", [0, 1, 2, 5])
@pytest.mark.parametrize("first", [0, 2, 6])
def test_a_table_holds_log_likelihoods_from_the_first_user_on(n_dims, first):
    rng = np.random.default_rng(18)
    x, mean, factor = rng.standard_normal((6, n_dims)), rng.standard_normal(n_dims), np.zeros((n_dims, n_dims))
    if n_dims:
        factor = upper_factor(positive_definite(rng, n_dims))
    table = np.full((3, 6), 9.0)
    kernels.tabulate(table, first, 1, np.ascontiguousarray(x.T), mean, factor)
    expected = np.full((3, 6), 9.0)
    expected[1, first:] = log_likelihood(x, mean[None], factor[None])[first:, 0]
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=1e-13)


def test_a_table_is_filled_for_columns_in_use_within_bounds():
    case = Columns(19, Z, 2, 0)
    expected = log_likelihood(case.features, *case.columns[:2]).T
    used = np.flatnonzero(case.counts >= 0)
    np.testing.assert_allclose(case.table[used], expected[used], rtol=1e-12)
    assert np.isnan(case.table[case.counts < 0]).all()
    table = np.full_like(case.table, np.nan)
    kernels.fill(table, 2, 4, case.x, case.counts, *case.columns[:2])
    np.testing.assert_allclose(table[2:4], expected[2:4], rtol=1e-12)
    assert np.isnan(np.delete(table, [2, 3], axis=0)).all()


def test_counts_of_columns():
    np.testing.assert_array_equal(kernels.column_counts(np.array([0, 2, 2, 0, 0]), 3, 2, 7), [3, 0, 2, 0, 0, -1, -1])
    np.testing.assert_array_equal(kernels.column_counts(np.array([1, 1]), 3, 0, 3), [0, 2, 0])


def test_room_is_added_at_the_end():
    rng = np.random.default_rng(20)
    means, factors = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))
    wide_means, wide_factors = kernels.with_room(means, factors, 4)
    assert (wide_means.shape, wide_factors.shape) == ((6, 3), (6, 3, 3))
    np.testing.assert_array_equal(wide_means[:2], means)
    np.testing.assert_array_equal(wide_factors[:2], factors)


def test_compact_columns_are_the_occupied_ones_in_their_order():
    case = Columns(21, [5, 2, 2, 7, 5, 2], 2, 1, n_components=9, n_pool=0, room=0)
    kept, z = kernels.compact(case.z, case.counts, case.columns), case.z
    np.testing.assert_array_equal(z, [1, 0, 0, 2, 1, 0])
    for part, old in zip(kept, case.columns, strict=True):
        np.testing.assert_array_equal(part, old[[2, 5, 7]])


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
def test_renewed_columns_come_from_both_bases(n_dims, n_latent):
    case = Columns(22, Z, n_dims, n_latent)
    before = [part.copy() for part in case.columns]
    kernels.renew(np.random.default_rng(23), 2, case.columns, case.noises, 3.0, case.cores, (case.base, case.latent_base))
    rng = np.random.default_rng(23)
    drawn = [part[0] for base in (case.base, case.latent_base) for part in draw_from_base(rng, 1, *base)]
    for part, old, new in zip(case.columns, before, drawn, strict=True):
        np.testing.assert_array_equal(part[2], new)
        np.testing.assert_array_equal(np.delete(part, 2, axis=0), np.delete(old, 2, axis=0))


@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_component_that_is_no_number_is_reported(n_latent):
    """As one of the features is: the table then holds NaN."""
    case = Columns(24, Z, 1, n_latent)
    case.columns[3][1] = math.nan
    case.sweep(np.random.default_rng(25), (0.0, 1.0))
    assert (case.lost.user, case.lost.column) == (0, 1)

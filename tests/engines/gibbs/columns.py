"""Users, clusters, auxiliary components and free room as the assignment sweep has them, and the
same sweep in plain Python."""

import math
from functools import cache

import numpy as np

import naive
from dualview.behaviors.likelihoods.cluster_noise import draw_noise
from dualview.engines.gibbs.moves import assignment
from dualview.engines.gibbs.working import Outcome, WorkingLabels, WorkingState, extended
from dualview.numerics.hyperprior import PUBLISHED
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.views.base import Base, Components
from dualview.views.gaussian.conditionals import draw_from_base
from dualview.views.gaussian.kind import Gaussian
from dualview.views.verbs import retire_each
from numerics.observations import Observations
from yardsticks import positive_definite

Z = [0, 2, 1, 0, 3, 0, 1, 0, 4]
WORD = 2**64


def random_base(rng, n_dims, dof=None):
    if n_dims == 0:
        return Base(np.empty(0), np.empty((0, 0)), np.empty((0, 0)), 1.0)
    dof = n_dims + 2.5 if dof is None else dof
    return Base(
        rng.standard_normal(n_dims),
        positive_definite(rng, n_dims),
        positive_definite(rng, n_dims),
        dof,
    )


@cache
def process(alpha):
    """The Dirichlet process for compiled code."""
    return ChineseRestaurant().record(alpha)


@cache
def finite(n_components, spread):
    """Components that weigh this much beyond their users."""
    return FiniteDirichlet(n_components).record(n_components * spread)


class Columns:
    """Users with features (U, D) and latent vectors (U, q), clusters, auxiliary components and free
    room."""

    def __init__(
        self,
        seed,
        z,
        n_dims,
        n_latent,
        *,
        n_components=None,
        n_auxiliary=2,
        room=3,
        kind="common",
        marginal=False,
    ):
        self.marginal = marginal
        self.rng = np.random.default_rng([seed, n_dims, n_latent])
        self.z, n_users = np.array(z), len(z)
        self.features = self.rng.standard_normal((n_users, n_dims))
        self.latent = self.rng.standard_normal((n_users, n_latent))
        self.observations = Observations(self.rng, n_users, n_latent, kind, n_outcomes=6)
        self.noises = np.empty(0)
        self.base, self.latent_base = random_base(self.rng, n_dims), random_base(self.rng, n_latent)
        self.set_columns(n_components or self.z.max() + 1, n_auxiliary, room)

    def set_columns(self, n_components, n_auxiliary, room):
        """Fresh components for all columns."""
        n_columns = n_components + n_auxiliary + room
        self.components = draw_from_base(self.rng, n_columns, self.base)
        self.latent_components = draw_from_base(self.rng, n_columns, self.latent_base)
        if self.observations.kind == "cluster":
            self.noises = 0.2 + self.rng.gamma(2.0, size=n_columns)
            self.observations.set_noise(self.noises[self.z])
        self.terms = self.observations.terms(self.latent)
        self.start(n_components, n_auxiliary, room)

    def start(self, n_components, n_auxiliary, room):
        """Counts, auxiliary columns and table at the beginning of a sweep."""
        n_columns = n_components + n_auxiliary + room
        counts = np.bincount(self.z, minlength=n_components)
        self.counts = extended(counts, n_auxiliary, n_columns)
        self.auxiliary = np.arange(n_components, n_components + n_auxiliary)
        self.table = np.full((n_columns, len(self.z)), np.nan)
        sizes = [part.shape[1] if self.marginal else 0 for part in (self.features, self.latent)]
        self.cores = tuple(np.zeros((n_columns if size else 0, size, size)) for size in sizes)
        for column in self.auxiliary:
            retire_each(column, self.views)
        assignment.fill(self.log_likelihood, 0, 0, n_columns, self.state())

    @property
    def log_likelihood(self):
        """The table as moves take it, for one group of views, in the same memory."""
        return self.table[None]

    @property
    def views(self):
        rows = np.ascontiguousarray(self.features.T)
        return Gaussian(
            self.features, rows, self.components, self.cores[0], self.base, PUBLISHED
        ), self.latent_view

    @property
    def latent_view(self):
        rows = np.empty((0, len(self.z)))
        return Gaussian(
            self.latent, rows, self.latent_components, self.cores[1], self.latent_base, PUBLISHED
        )

    def state(self, partition=None, *, tabulated=False):
        """What moves take; they change the arrays of this."""
        partition, n_auxiliary = partition or process(1.0), len(self.auxiliary)
        labels = WorkingLabels.shared(self.z, len(self.views))
        columns = labels, self.counts, self.views, self.terms, self.noises
        return WorkingState(*columns, partition, n_auxiliary, tabulated, Outcome.none())

    def sweep(self, rng, partition, first=0, kernel=assignment.assign, *, tabulated=False):
        """The user after the last who is done, and the number of clusters opened."""
        state = self.state(partition, tabulated=tabulated)
        users = first, len(self.z)
        done, self.outcome = kernel(
            rng, *users, self.log_likelihood, 0, self.auxiliary, assignment.all_parts(state), state
        )
        return done, self.outcome.n_opened

    def check_books(self):
        """Clusters, auxiliary components and free room share out the columns.

        Counts are those of z, residuals those of the latent vectors.
        """
        check_counts_and_auxiliary(self.z, self.counts, self.auxiliary)
        if self.observations.kind != "gram":
            residual = self.observations.residual(self.latent)
            np.testing.assert_allclose(self.terms.residual, residual, rtol=1e-10, atol=1e-10)
        if self.observations.kind == "cluster":
            np.testing.assert_array_equal(self.terms.noise, self.noises[self.z])
            self.observations.set_noise(self.noises[self.z])
            np.testing.assert_array_equal(self.terms.precision, self.observations.precision)


def check_counts_and_auxiliary(z, counts, auxiliary):
    clusters = np.flatnonzero(counts > 0)
    np.testing.assert_array_equal(clusters, np.unique(z))
    np.testing.assert_array_equal(counts[clusters], np.bincount(z)[clusters])
    assert (counts[counts < 0] == -1).all()
    np.testing.assert_array_equal(np.sort(auxiliary), np.flatnonzero(counts == 0))


class Twin:
    """The same sweep with lists: a column is the set of its users, "auxiliary", or None."""

    def __init__(self, case):
        self.case, self.z = case, case.z.tolist()
        self.components, self.latent_components = (
            Components(part.means.copy(), part.factors.copy())
            for part in (case.components, case.latent_components)
        )
        stands = "auxiliary" if len(case.auxiliary) else set()
        self.holders = [
            None if count < 0 else stands if count == 0 else set() for count in case.counts
        ]
        for u, column in enumerate(self.z):
            self.holders[column] = self.holders[column] | {u}
        self.auxiliary, self.latent, self.opened = case.auxiliary.tolist(), case.latent.copy(), 0
        self.noises, self.marginal = case.noises.copy(), case.marginal
        for part, cores in zip((self.components, self.latent_components), case.cores, strict=True):
            if len(cores) and self.auxiliary:
                part.factors[self.auxiliary] = cores[self.auxiliary]

    def weight(self, column, partition):
        holder = self.holders[column]
        if holder is None:
            return 0.0
        return (
            partition.alpha / len(self.auxiliary)
            if holder == "auxiliary"
            else len(holder) + partition.spread
        )

    def law(self, column):
        """Mean and precision of the features, then of the latent vector; auxiliary means may be
        integrated out."""
        laws = []
        for part, base in (
            (self.components, self.case.base),
            (self.latent_components, self.case.latent_base),
        ):
            mean, own = part.means[column], precision(part.factors[column])
            if self.marginal and self.holders[column] == "auxiliary":
                mean, own = (
                    base.mean,
                    np.linalg.inv(np.linalg.inv(own) + np.linalg.inv(base.precision)),
                )
            laws += [mean, own]
        return laws

    def log_density(self, u, column):
        """Of u's features, and of the observations with u's latent vector integrated out."""
        mean, own, latent_mean, latent_own = self.law(column)
        total = naive.log_normal(self.case.features[u], mean, own)
        if self.latent.shape[1]:
            total += self.alone(u, column).log_marginal(latent_mean[None], latent_own[None])
        return total

    def draw_mean(self, rng, vector, components, base, column):
        """(C2) of a cluster with one vector."""
        own = precision(components.factors[column])
        total = own + base.precision
        mean = np.linalg.solve(total, own @ vector + base.precision @ base.mean)
        components.means[column] = naive.draw_normal(rng, mean, total)

    def alone(self, u, column):
        """The observations as they are for u in a column, all others' latent vectors known."""
        if len(self.noises):
            return self.case.observations.alone_under(u, self.latent, self.noises[column])
        return self.case.observations.alone(u, self.latent)

    def leave(self, rng, u):
        own = self.z[u]
        self.holders[own] = self.holders[own] - {u}
        if not self.holders[own] and self.auxiliary:
            slot = int(rng.random() * len(self.auxiliary))
            self.holders[self.auxiliary[slot]], self.holders[own], self.auxiliary[slot] = (
                None,
                "auxiliary",
                own,
            )

    def choose(self, rng, u, partition):
        weights = np.array([self.weight(c, partition) for c in range(len(self.holders))])
        logs = np.array(
            [
                self.log_density(u, c) if weight > 0 else -math.inf
                for c, weight in enumerate(weights)
            ]
        )
        shares = weights * np.exp(logs - logs.max())
        return int(np.searchsorted(np.cumsum(shares), rng.random() * shares.sum(), side="right"))

    def renew(self, rng, column):
        """A column's components from both bases."""
        for part, base in (
            (self.components, self.case.base),
            (self.latent_components, self.case.latent_base),
        ):
            (part.means[column],), (part.factors[column],) = draw_from_base(rng, 1, base)

    def join(self, rng, u, column):
        if self.holders[column] == "auxiliary":
            fresh = self.holders.index(None)
            self.auxiliary[self.auxiliary.index(column)] = fresh
            self.holders[column], self.holders[fresh] = set(), "auxiliary"
            self.opened += 1
            self.renew(rng, fresh)
            if len(self.noises):
                self.noises[fresh] = draw_noise(rng, 0.0, 0.0, self.case.observations.noise_dof)
        self.holders[column] = self.holders[column] | {u}
        self.z[u] = column

    def sweep(self, rng, partition):
        """Until all are done or there is no free column for the next user."""
        for u in range(len(self.z)):
            if self.auxiliary and None not in self.holders:
                return u
            self.leave(rng, u)
            column = self.choose(rng, u, partition)
            opens, (*_, mean, own) = self.holders[column] == "auxiliary", self.law(column)
            self.join(rng, u, column)
            if self.latent.shape[1]:
                self.latent[u] = naive.draw_normal(
                    rng, *self.alone(u, column).posterior(mean[None], own[None])
                )
            if opens and self.marginal:
                case = self.case
                if case.features.shape[1]:
                    self.draw_mean(rng, case.features[u], self.components, case.base, column)
                if self.latent.shape[1]:
                    self.draw_mean(
                        rng, self.latent[u], self.latent_components, case.latent_base, column
                    )
        return len(self.z)


def precision(factor):
    return factor @ np.swapaxes(factor, -1, -2)


def implied(option, n_options):
    """Probabilities of options 0, 1, … that are chosen by inversion of a uniform number: from the
    borders between them."""
    borders = np.ones(n_options + 1)
    borders[0] = 0.0
    for j in range(n_options - 1):
        low, high = borders[j], 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if option(middle) <= j else (low, middle)
        borders[j + 1] = low
    return np.diff(borders)


def shares(joints):
    return np.exp(joints - np.logaddexp.reduce(joints))


def turned(word, by):
    return (word << by | word >> (64 - by)) % WORD


def stream_with(first, second):
    """A stream whose first two uniform numbers are these: the steps of xoshiro256++ solved for its
    state."""
    words = [int(uniform * 2**53) << 11 for uniform in (first, second)]
    a = turned(words[1], 60)
    d = (turned((words[0] - a) % WORD, 41) - a) % WORD
    return np.array([a, a ^ d, 12345, d], dtype=np.uint64)

"""The assignment sweep: a naive twin with the same random numbers, the probabilities of (C11), and
the books of the columns."""

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
from dualview.behaviors.likelihoods.cluster_noise import draw_noise
from dualview.engines.gibbs.moves import assignment as moves
from dualview.engines.gibbs.working import (
    NO_WEIGHT,
    Outcome,
    compacted,
    extended,
    grown,
)
from dualview.numerics.streams import stream_random
from dualview.views.base import Components
from dualview.views.gaussian.conditionals import draw_from_base
from dualview.views.gaussian.density import log_likelihood
from engines.gibbs.columns import (
    Columns,
    Twin,
    Z,
    finite,
    implied,
    precision,
    process,
    shares,
    stream_with,
)
from yardsticks import N_DRAWS, check_counts, check_law, python_of

LAST = math.nextafter(1.0, 0.0)
NORMAL = np.empty(0)  # no degrees of freedom
EXPONENTS = st.lists(st.one_of(st.floats(-900, 900), st.just(-math.inf)), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def numbers_run_over():
    """Plain Python warns of what is meant: words of streams that wrap around, infinities that make
    NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        yield


def choose(weights, exponents, uniform):
    """The kernel on copies."""
    return moves.choose(np.array(weights, dtype=float), np.array(exponents, dtype=float), uniform)


@settings(derandomize=True, deadline=None)
@given(EXPONENTS, st.floats(0.0, LAST), st.randoms(use_true_random=False))
def test_a_chosen_index_has_positive_weight(exponents, uniform, random):
    weights = [random.choice([0.0, 0.5, 3.0]) for _ in exponents]
    chosen, top = (
        choose(weights, exponents, uniform),
        max(e if w else -math.inf for w, e in zip(weights, exponents, strict=True)),
    )
    if top == -math.inf:
        assert chosen == NO_WEIGHT
    else:
        assert weights[chosen] * math.exp(exponents[chosen] - top) > 0.0


@settings(derandomize=True, deadline=None)
@given(EXPONENTS, st.floats(0.0, LAST), st.floats(-1e3, 1e3))
def test_a_choice_does_not_depend_on_the_scale_of_weights(exponents, uniform, shift):
    exponents, weights = np.array(exponents), np.arange(1.0, len(exponents) + 1)
    chosen, moved = (
        choose(weights, exponents, uniform),
        choose(7.0 * weights, exponents + shift, uniform),
    )
    if chosen != moved:  # only a uniform number on the border of two cells may tip over
        shares = weights * np.exp(exponents - exponents.max())
        borders = np.cumsum(shares) / shares.sum()
        assert np.abs(borders - uniform).min() < 1e-9


def test_choices_have_their_probabilities():
    weights, exponents = (
        np.array([2.0, 0.0, 0.3, 1.0, 5.0]),
        np.array([-701.0, 90.0, -700.0, -702.5, -math.inf]),
    )
    shares = weights * np.exp(np.where(weights > 0, exponents, 0.0) + 700.0)
    probabilities = implied(lambda uniform: choose(weights, exponents, uniform), 5)
    np.testing.assert_allclose(probabilities, shares / shares.sum(), atol=1e-15)


def test_the_ends_of_the_uniform_range_choose_the_first_and_last_positive_weight():
    for weights, exponents in [
        ([1, 1, 1, 1], [-math.inf, 0.7, 0.1, -math.inf]),
        ([0, 1, 2, 0], [9.0, 0.7, 0.1, 9.0]),
    ]:
        assert choose(weights, exponents, 0.0) == 1
        assert choose(weights, exponents, LAST) == 2


@pytest.mark.parametrize("bad", [[-math.inf, -math.inf], [-math.inf], []])
def test_no_choice_where_every_density_is_zero(bad):
    assert choose(np.ones(len(bad)), bad, 0.5) == NO_WEIGHT


@pytest.mark.parametrize(
    ("exponents", "column"),
    [
        ([0.0, math.nan], 1),
        ([math.nan, 900.0, 0.0], 0),
        ([900.0, math.inf, math.nan], 1),
        ([-math.inf, math.nan], 1),
    ],
)
def test_an_exponent_that_is_no_density_is_named(exponents, column):
    outcome = Outcome(0, 3, choose(np.ones(len(exponents)), exponents, 0.5))
    assert outcome.column == column


def test_what_has_no_weight_may_be_anything():
    assert choose([0.0, 1.0, 0.0], [math.nan, -3.0, math.inf], 0.5) == 1


def test_a_lost_user_without_any_weight_has_no_column():
    assert Outcome(0, 3, NO_WEIGHT).column is None


def test_no_choice_without_weight():
    assert choose([0.0, 0.0], [0.0, 1.0], 0.5) == NO_WEIGHT


VIEWS = [(2, 0), (0, 1), (0, 2), (2, 1), (1, 3)]
KINDS = [
    (*views, kind)
    for views in VIEWS
    for kind in ("common", "own", "gram")
    if kind != "gram" or views[1] == 1
]
KINDS += [(0, 1, "cluster"), (2, 1, "cluster"), (1, 3, "cluster")]


@pytest.mark.parametrize(("n_dims", "n_latent", "kind"), KINDS)
@pytest.mark.parametrize(("n_auxiliary", "alpha"), [(1, 0.3), (3, 2.4), (2, 80.0)])
@pytest.mark.parametrize("marginal", [True, False])
def test_the_dirichlet_process_sweep_is_the_naive_one(
    n_dims, n_latent, kind, n_auxiliary, alpha, marginal
):
    for seed in range(2):
        case = Columns(
            seed, Z, n_dims, n_latent, n_auxiliary=n_auxiliary, kind=kind, marginal=marginal
        )
        twin = Twin(case)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        done = twin.sweep(other, process(alpha))
        assert case.sweep(rng, process(alpha)) == (done, twin.opened)
        np.testing.assert_array_equal(case.z, twin.z)
        np.testing.assert_array_equal(case.auxiliary, twin.auxiliary)
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(case.noises, twin.noises)
        for c in np.flatnonzero(case.counts >= 0):
            laws = [
                law for part in (case.components, case.latent_components) for law in law_of(part, c)
            ]
            for got, wanted in zip(laws, twin.law(c), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)
        case.check_books()
        assert rng.random() == other.random()


def law_of(components, column):
    """Mean and precision."""
    return components.means[column], precision(components.factors[column])


@pytest.mark.parametrize(("n_dims", "n_latent", "kind"), KINDS)
@pytest.mark.parametrize("spread", [0.01, 1.5])
def test_the_sweep_over_a_fixed_number_is_the_naive_one(n_dims, n_latent, kind, spread):
    for seed in range(2):
        case = Columns(seed, Z, n_dims, n_latent, n_components=6, n_auxiliary=0, room=0, kind=kind)
        twin, partition = Twin(case), finite(6, spread)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        assert case.sweep(rng, partition) == (twin.sweep(other, partition), 0)
        np.testing.assert_array_equal(case.z, twin.z)
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(case.counts, np.bincount(case.z, minlength=6))
        assert rng.random() == other.random()


@pytest.mark.slow
@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
def test_compiled_labels_are_those_of_python(n_dims, n_latent):
    for seed in range(3):
        cases = [Columns(seed, Z, n_dims, n_latent, marginal=seed > 0) for _ in range(2)]
        for case, kernel in zip(cases, (moves.assign, python_of(moves.assign)), strict=True):
            case.sweep(np.random.default_rng(seed), process(1.6), kernel=kernel)
        for name in ("z", "counts", "auxiliary", "latent", "table"):
            np.testing.assert_allclose(*(getattr(case, name) for case in cases), rtol=1e-12)


@pytest.mark.parametrize("n_auxiliary", [0, 2])
@pytest.mark.parametrize("n_latent", [0, 1, 2])
@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_a_user_with_no_weight_anywhere_is_reported(value, n_latent, n_auxiliary):
    case = Columns(1, [0, 1, 2, 0, 1, 0], 2, n_latent, n_auxiliary=n_auxiliary, room=9)
    case.features[4] = value
    case.start(3, n_auxiliary, 9)
    assert (
        case.sweep(np.random.default_rng(2), process(2.0) if n_auxiliary else finite(3, 0.5))[0]
        == 4
    )
    assert case.outcome.user_without_weight == 4


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("marginal", [True, False])
@pytest.mark.parametrize("n_latent", [1, 2])
@pytest.mark.parametrize("view", [0, 1])
def test_an_auxiliary_component_too_wide_for_numbers_is_left_out(
    view, n_latent, marginal, observed
):
    """Its factor has a 0 on the diagonal. Of what is latent a user without observations says
    nothing."""
    for seed in range(20):
        case = Columns(seed, [0, 1, 0, 1, 0, 1], 2, n_latent, room=9)
        if not observed:
            begin, end = case.terms.starts[5:]
            case.terms.loads[begin:end], case.terms.squares[5] = 0.0, 0.0
        (case.components, case.latent_components)[view].factors[2, 0, 0] = 0.0
        case.marginal = marginal
        case.start(2, 2, 9)
        assert case.sweep(np.random.default_rng(seed), process(2e6), first=5)[0] == 6
        assert case.outcome.user_without_weight == -1
        assert case.z[5] != 2
        assert np.isfinite(case.latent).all()


@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_user_whose_observations_are_no_numbers_is_reported(n_latent):
    case = Columns(1, [0, 1, 2, 0, 1, 0], 2, n_latent, room=9)
    case.terms.residual[:] = math.nan
    case.sweep(np.random.default_rng(2), process(2.0))
    assert (case.outcome.user_without_weight, case.outcome.column) == (0, 0)


def test_a_sweep_with_all_in_its_table_stops_when_a_cluster_was_opened():
    """The caller then scores the fresh column; it may be any of the auxiliary ones."""
    case, whole = (Columns(11, [0] * 20, 1, 0, room=60) for _ in range(2))
    rng, other = np.random.default_rng(12), np.random.default_rng(12)
    done, opened = 0, []
    while done < 20:
        done, n = case.sweep(rng, process(10.0), first=done, tabulated=True)
        opened.append(n)
        for column in case.auxiliary:
            moves.rescore(
                case.log_likelihood, 0, done, 20, column, np.zeros(2, int), case.views[:-1]
            )
    assert whole.sweep(other, process(10.0)) == (20, sum(opened))
    assert len(opened) > 2
    assert set(opened[:-1]) == {1}
    np.testing.assert_array_equal(case.z, whole.z)


def test_users_before_the_first_and_from_the_end_on_are_left_alone():
    case, other = (Columns(3, Z, 1, 1, room=30) for _ in range(2))
    table = case.log_likelihood[:, :, 4:7].copy()
    done, _ = moves.assign(
        np.random.default_rng(4), 4, 7, table, 4, case.auxiliary, (0, 1), case.state(process(1.0))
    )
    assert done == 7
    for got, old in ((case.z, other.z), (case.latent, other.latent)):
        np.testing.assert_array_equal(got[:4], old[:4])
        np.testing.assert_array_equal(got[7:], old[7:])
    assert (case.latent[4:7] != other.latent[4:7]).all()
    case.check_books()


# What one user does.


def test_a_stream_can_be_made_to_order():
    for first, second in [(0.0, 0.25), (0.7, LAST), (0.123, 0.456)]:
        stream = stream_with(first, second)
        assert stream_random(stream) == pytest.approx(first, abs=2**-53)
        assert stream_random(stream) == pytest.approx(second, abs=2**-53)


class JointCase(Columns):
    """Two views and outcomes; the last user is to be assigned. Every column is an option, none of
    them free."""

    def __init__(self, z, n_components, partition, n_latent=1, kind="common"):
        super().__init__(
            3, z, 2, n_latent, n_components=n_components, n_auxiliary=0, room=0, kind=kind
        )
        self.alpha, self.partition, self.last = 0.7, partition, len(z) - 1
        self.constants = {
            "features": (np.zeros(2), np.eye(2)),
            "behavior": (np.zeros(n_latent), np.eye(n_latent)),
        }

    def naive_views(self, kept):
        """Both views with these components only."""
        (means, factors), (latent_means, latent_factors) = self.components, self.latent_components
        return {
            "features": naive.ViewState(means[kept], precision(factors[kept]), *self.base),
            "behavior": naive.ViewState(
                latent_means[kept], precision(latent_factors[kept]), *self.latent_base
            ),
        }

    def log_joint(self, label, kept):
        """With the last user at label, its latent vector integrated out, and only the kept
        components in being.

        ln p(z, rest) = ln p(z, f_u, rest) − ln p(f_u | z, rest), for any f_u.
        """
        views = self.naive_views(kept)
        state = naive.State(np.append(self.z[:-1], label), self.alpha, views, self.latent)
        constants = {
            "feature_constants": self.constants["features"],
            "behavior_constants": self.constants["behavior"],
        }
        total = naive.log_joint(
            state, features=self.features, **constants, partition=self.partition
        )
        total += self.observations.log_likelihood(self.latent)
        prior = views["behavior"].means[[label]], views["behavior"].precisions[[label]]
        posterior = self.observations.alone(self.last, self.latent).posterior(*prior)
        return total - naive.log_normal(self.latent[self.last], *posterior)

    def log_base(self, k):
        """ln p(θ_k | base) of both views."""
        total = 0.0
        for sign, kept in ((1, [k]), (-1, [])):
            for name, view in self.naive_views(kept).items():
                total += sign * naive.log_view_prior(view, self.constants[name])
        return total

    def probabilities(self, n_components, n_auxiliary, first, partition, room=3):
        """Of every column of the last user, by inversion; first: uniform numbers it needs before
        its choice."""

        def option(uniform):
            case = copy(self)
            case.z, case.latent, case.terms = (
                self.z.copy(),
                self.latent.copy(),
                self.observations.terms(self.latent),
            )
            case.components, case.latent_components = (
                Components(
                    *(
                        np.concatenate([part, np.zeros((room, *part.shape[1:]))])
                        for part in components
                    )
                )
                for components in (self.components, self.latent_components)
            )
            case.start(n_components, n_auxiliary, room)
            case.sweep(stream_with(*(*first, uniform, 0.5)[:2]), partition, first=self.last)
            return case.z[-1]

        return implied(option, n_components + n_auxiliary)


@pytest.mark.parametrize(
    ("n_latent", "kind"), [(1, "gram"), *itertools.product([1, 2], ["common", "own"])]
)
def test_a_fixed_number_of_clusters_has_the_joints_probabilities(n_latent, kind):
    """(C11), empty clusters included."""
    case = JointCase([0, 0, 0, 1, 1, 0], 3, ("finite", 3), n_latent, kind)
    joints = np.array([case.log_joint(k, np.arange(3)) for k in range(3)])
    probabilities = case.probabilities(3, 0, (), finite(3, case.alpha / 3), room=0)
    np.testing.assert_allclose(probabilities, shares(joints), atol=1e-11)


@pytest.mark.parametrize("n_latent", [1, 2])
def test_the_dirichlet_process_has_the_joints_probabilities(n_latent):
    """(C11): auxiliary components stand for an integral over the base, so each shares α and sheds
    its base density."""
    case, m = JointCase([0, 0, 0, 1, 1, 0], 4, ("dp", None), n_latent), 2
    joints = [case.log_joint(k, [0, 1]) for k in (0, 1)]
    joints += [case.log_joint(2, [0, 1, new]) - case.log_base(new) - math.log(m) for new in (2, 3)]
    probabilities = case.probabilities(2, m, (), process(case.alpha))
    np.testing.assert_allclose(probabilities, shares(joints), atol=1e-11)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_user_alone_brings_its_cluster_in_place_of_an_auxiliary_component(n_latent, slot):
    case, m = JointCase([0, 0, 0, 1, 1, 2], 5, ("dp", None), n_latent), 2
    left = 4 - slot  # of the auxiliary columns 3 and 4
    joints = [case.log_joint(k, [0, 1]) for k in (0, 1)]
    joints += [
        case.log_joint(2, [0, 1, new]) - case.log_base(new) - math.log(m) for new in (2, left)
    ]
    probabilities = case.probabilities(3, m, ((slot + 0.3) / m,), process(case.alpha))
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
    [
        (1, 1, "gram"),
        (0, 2, "own"),
        (2, 2, "common"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1, 1, "common"), (1, 1, "own"), (0, 2, "common"))
        ),
    ],
)
def test_a_sweep_from_the_exact_posterior_of_fixed_components_stays_in_it(n_dims, n_latent, kind):
    """All labels of four users are enumerated, the latent vectors integrated out of one dense
    normal law."""
    n_users, n_components, spread = 4, 2, 0.4
    case = Columns(
        5,
        [0, 1, 0, 1],
        n_dims,
        n_latent,
        n_components=n_components,
        n_auxiliary=0,
        room=0,
        kind=kind,
    )
    means, latent_means = case.components.means, case.latent_components.means
    for part in (
        case.features,
        means,
        latent_means,
        case.observations.outcome,
        case.observations.precision,
    ):
        part *= 0.3  # nothing is sure
    likelihood, latent_precisions = (
        log_likelihood(case.features, *case.components, NORMAL),
        precision(case.latent_components.factors),
    )
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
        case.sweep(rng, finite(n_components, spread))
        mean, total = posteriors[tuple(case.z.tolist())]
        drawn.append(case.z.copy())
        distances.append((case.latent.ravel() - mean) @ total @ (case.latent.ravel() - mean))
    check_exactly(law, drawn)
    check_law(distances, chi2(n_users * n_latent).cdf)


@pytest.mark.slow
@pytest.mark.parametrize("n_auxiliary", [1, 3])
@pytest.mark.parametrize(("n_dims", "n_latent"), [(1, 0), (0, 1), (1, 2)])
@pytest.mark.parametrize("marginal", [True, False])
def test_sweeps_from_the_prior_stay_in_it(n_dims, n_latent, n_auxiliary, marginal):
    """Clusters by the Chinese restaurant, components, vectors and outcomes given them; then sweeps,
    with fresh auxiliary ones.

    Every state is again a draw from the prior: of partitions, of means about the base, of vectors
    about their means.
    """
    n_users, alpha, room = 4, 0.9, 8
    law = {
        labels: math.exp(naive.log_partition(np.array(labels), alpha, ("dp", None)))
        for labels in naive.partitions(n_users)
    }
    assert sum(law.values()) == pytest.approx(1.0)
    case = Columns(7, [0, 0, 0, 0], n_dims, n_latent, marginal=marginal)
    rng, drawn, fits = np.random.default_rng(8), [], []
    for _ in range(N_DRAWS // 2):
        case.z = naive.draw_labels(rng, n_users, alpha, ("dp", None))
        case.set_columns(case.z.max() + 1, n_auxiliary, room)
        case.features, case.latent = (
            vectors(rng, case.z, case.components),
            vectors(rng, case.z, case.latent_components),
        )
        case.observations.redraw(rng, case.latent)
        case.terms = case.observations.terms(case.latent)
        for _ in range(3):
            kept = compacted(case.state())
            observed, latent = kept.views
            case.components = with_fresh(case.rng, observed, n_auxiliary, room)
            case.latent_components = with_fresh(case.rng, latent, n_auxiliary, room)
            case.start(len(kept.counts), n_auxiliary, room)
            assert case.sweep(rng, process(alpha))[0] == n_users
        drawn.append(relabelled(case.z))
        fits.append(fit(case))
    check_exactly(law, drawn)
    for column in np.array(fits).T:
        check_law(column, chi2(1).cdf)


def vectors(rng, z, components):
    """One for each user, given its component."""
    means, factors = components
    return np.array(
        [means[k] + np.linalg.solve(factors[k].T, rng.standard_normal(means.shape[1])) for k in z]
    )


def with_fresh(rng, view, n_auxiliary, room):
    """The components of a view, auxiliary ones from its base, and room that must not be read."""
    fresh = draw_from_base(rng, n_auxiliary + room, view.base)
    for part in fresh:
        part[n_auxiliary:] = np.nan
    return Components(
        *(np.concatenate(parts) for parts in zip(view.components, fresh, strict=True))
    )


def relabelled(z):
    """Labels by first appearance."""
    order = {}
    return [order.setdefault(int(k), len(order)) for k in z]


def fit(case):
    """Squared standard normal numbers under the prior: of the first user, its cluster's mean, and
    its outcomes."""
    numbers = []
    for view in case.views:
        vector, mean, factor = view.vectors[0], *(part[case.z[0]] for part in view.components)
        if len(vector):
            numbers.append((factor.T @ (vector - mean))[0] ** 2)
            numbers.append(
                (np.linalg.cholesky(view.base.precision).T @ (mean - view.base.mean))[0] ** 2
            )
    residual = case.observations.residual(case.latent)
    return [*numbers, residual[0] ** 2 * case.observations.weights[0]]


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
@pytest.mark.parametrize("alpha", [0.05, 1.0, 30.0])
def test_books_stay_in_order_over_many_sweeps(n_dims, n_latent, alpha):
    """Without fresh auxiliary components in between: there is room for everybody alone."""
    case, rng = (
        Columns(9, [0] * 15, n_dims, n_latent, n_auxiliary=3, room=20),
        np.random.default_rng(10),
    )
    sizes = Counter()
    for _ in range(40):
        before = set(case.z)
        done, opened = case.sweep(rng, process(alpha))
        assert done == 15
        assert opened >= len(set(case.z) - before)
        case.check_books()
        for part in (*case.components, *case.latent_components):
            assert np.isfinite(part[case.counts >= 0]).all()
        moves.fill(case.log_likelihood, 0, 0, len(case.counts), case.state())
        sizes[len(set(case.z))] += 1
    assert len(sizes) > 1


@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
@pytest.mark.parametrize("room", [0, 1, 5])
def test_columns_are_added_as_they_run_out(n_dims, n_latent, room):
    """With so large an α nearly everybody opens a cluster. The room there was makes no difference
    to what is drawn."""
    tight, wide = (Columns(11, [0] * 20, n_dims, n_latent, room=n) for n in (room, 60))
    for own, roomy in (
        (tight.components, wide.components),
        (tight.latent_components, wide.latent_components),
    ):
        for part, wanted in zip(own, roomy, strict=True):
            part[:3] = wanted[:3]  # the cluster and the auxiliary components
    tight.marginal = wide.marginal = True
    wide.start(1, 2, 60)
    tight.features[:], tight.latent[:], tight.observations = (
        wide.features,
        wide.latent,
        wide.observations,
    )
    tight.terms, tight.base, tight.latent_base = (
        wide.observations.terms(wide.latent),
        wide.base,
        wide.latent_base,
    )
    tight.start(1, 2, room)
    partition = process(2e7)
    state = moves.assign_block(
        np.random.default_rng(12), tight.log_likelihood, 0, tight.auxiliary, tight.state(partition)
    )
    assert wide.sweep(np.random.default_rng(12), partition) == (20, state.outcome.n_opened)
    assert state.outcome.n_opened >= 17
    assert state.outcome.user_without_weight == -1
    assert len(state.counts) in (3 + room) * 2 ** np.arange(1, 6)
    for name in ("z", "auxiliary", "latent"):
        np.testing.assert_array_equal(getattr(tight, name), getattr(wide, name))
    tight.counts = state.counts
    tight.check_books()
    for view, wanted in zip(state.views, wide.views, strict=True):
        for part, whole in zip(view.components, wanted.components, strict=True):
            np.testing.assert_array_equal(
                part[state.counts >= 0], whole[: len(state.counts)][state.counts >= 0]
            )


def test_a_user_with_no_weight_is_reported_after_columns_were_added():
    case = Columns(13, [0] * 20, 1, 0, room=1)
    case.features[17] = math.nan
    case.start(1, 2, 1)
    state = moves.assign_block(
        np.random.default_rng(12), case.log_likelihood, 0, case.auxiliary, case.state(process(2e7))
    )
    assert state.outcome.user_without_weight == 17
    assert state.outcome.n_opened > 4
    assert len(state.counts) > 4


def test_grown_columns_are_the_old_ones_and_free_ones():
    case = Columns(14, Z, 2, 1)
    n = len(case.counts)
    case.cores = np.arange(4.0 * n).reshape(n, 2, 2), np.empty((0, 1, 1))
    state = grown(case.state())
    assert len(state.noises) == 0
    assert [view.cores.shape for view in state.views] == [(2 * n, 2, 2), (0, 1, 1)]
    np.testing.assert_array_equal(state.views[0].cores[:n], case.cores[0])
    np.testing.assert_array_equal(state.counts, np.append(case.counts, np.full(n, -1)))
    for view, old in zip(state.views, case.views, strict=True):
        for part, before in zip(view.components, old.components, strict=True):
            assert part.shape == (2 * n, *before.shape[1:])
            np.testing.assert_array_equal(part[:n], before)
    case.noises = np.arange(1.0 * n)
    noises = grown(case.state()).noises
    assert len(noises) == 2 * n
    np.testing.assert_array_equal(noises[:n], np.arange(n))
    table = moves.widened(case.log_likelihood)
    assert table.shape == (1, 2 * n, len(Z))
    np.testing.assert_array_equal(table[0, :n], case.table)


# The pieces.


def test_a_user_who_leaves_others_behind_changes_one_count():
    counts, auxiliary, rng = np.array([3, 1, 0, 0, -1]), np.array([2, 3]), np.random.default_rng(15)
    assert moves.leave(rng, 0, counts, auxiliary) == -1
    np.testing.assert_array_equal(counts, [2, 1, 0, 0, -1])
    np.testing.assert_array_equal(auxiliary, [2, 3])
    assert rng.random() == np.random.default_rng(15).random()


def test_an_emptied_cluster_takes_the_place_of_any_auxiliary_component_alike():
    rng, freed = np.random.default_rng(16), []
    for _ in range(N_DRAWS):
        counts, auxiliary = np.array([3, 1, 0, 0, 0, -1]), np.array([4, 2, 3])
        freed.append(moves.leave(rng, 1, counts, auxiliary))
        slot = [4, 2, 3].index(freed[-1])
        assert auxiliary[slot] == 1
        assert counts[freed[-1]] == -1
        assert counts[1] == 0
        np.testing.assert_array_equal(np.delete(auxiliary, slot), np.delete([4, 2, 3], slot))
    check_counts(np.bincount(freed, minlength=5)[2:], np.full(3, 1 / 3))


def test_without_auxiliary_components_an_emptied_one_stays():
    counts, auxiliary = np.array([3, 1, 0]), np.empty(0, dtype=np.int64)
    assert moves.leave(np.random.default_rng(17), 1, counts, auxiliary) == -1
    np.testing.assert_array_equal(counts, [3, 0, 0])


def test_the_first_free_column_replaces_a_chosen_auxiliary_one():
    counts, auxiliary = np.array([3, 0, -1, 0, 2, -1, 0]), np.array([3, 1, 6])
    assert moves.replace_auxiliary(1, counts, auxiliary) == 2
    np.testing.assert_array_equal(auxiliary, [3, 2, 6])
    np.testing.assert_array_equal(counts, [3, 0, 0, 0, 2, -1, 0])


def test_auxiliary_columns_are_the_empty_ones():
    case = Columns(14, Z, 1, 0)
    np.testing.assert_array_equal(moves.auxiliary_columns(case.state()), case.auxiliary)
    case = Columns(14, Z, 1, 0, n_components=6, n_auxiliary=0, room=0)
    assert len(moves.auxiliary_columns(case.state())) == 0


def test_columns_weigh_their_users_or_a_share_of_alpha():
    case = Columns(14, [0, 2, 2, 0], 1, 0, n_components=3, n_auxiliary=2, room=1)
    weights = np.empty(6)
    case.counts[:] = [2, -1, 2, 0, 0, -1]
    moves.weigh_columns(2, 4, weights, case.state(process(0.6)))
    np.testing.assert_array_equal(weights, [2.0, 0.0, 2.0, 0.3, 0.3, 0.0])
    case.counts[:], case.auxiliary = [2, 0, 2, 0, 0, -1], np.empty(0, dtype=np.int64)
    moves.weigh_columns(2, 4, weights, case.state(finite(5, 0.25)))
    np.testing.assert_array_equal(weights, [2.25, 0.25, 2.25, 0.25, 0.25, 0.0])


@pytest.mark.parametrize("n_dims", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("offset", "first", "end"), [(0, 0, 6), (0, 2, 6), (0, 6, 6), (0, 2, 5), (2, 2, 6), (2, 3, 5)]
)
def test_a_row_holds_log_likelihoods_of_users_within_bounds(n_dims, offset, first, end):
    """Of the users whom the table has, the first of them at offset."""
    case = Columns(18, [0, 1, 0, 1, 0, 1], n_dims, 0, n_auxiliary=0, room=1)
    table = np.full((3, 6 - offset), 9.0)
    moves.rescore(table[None], offset, first, end, 1, np.zeros(2, int), case.views[:-1])
    expected = np.full((3, 6), 9.0)
    expected[1, first:end] = log_likelihood(case.features, *case.components, NORMAL)[first:end, 1]
    np.testing.assert_allclose(table, expected[:, offset:], rtol=1e-12, atol=1e-13)


def test_a_row_sums_up_what_all_observed_views_say():
    case, other = Columns(18, Z, 2, 0), Columns(19, Z, 3, 0)
    table = np.full_like(case.table, 9.0)
    views = case.views[0], other.views[0]
    moves.rescore(table[None], 0, 0, len(Z), 3, np.zeros(3, int), views)
    np.testing.assert_allclose(table[3], case.table[3] + other.table[3], rtol=1e-12)
    assert (np.delete(table, 3, axis=0) == 9.0).all()
    apart = np.full((3, *table.shape), 9.0)
    moves.rescore(apart, 0, 0, len(Z), 3, np.array([2, 1, 0]), views)
    expected = [np.zeros(len(Z)), other.table[3], case.table[3]]
    np.testing.assert_allclose(apart[:, 3], expected, rtol=1e-12)


def test_a_table_is_filled_for_columns_in_use_within_bounds():
    case = Columns(19, Z, 2, 0)
    expected = log_likelihood(case.features, *case.components, NORMAL).T
    used = np.flatnonzero(case.counts >= 0)
    np.testing.assert_allclose(case.table[used], expected[used], rtol=1e-12)
    assert np.isnan(case.table[case.counts < 0]).all()
    table = np.full((len(case.counts), 5), np.nan)
    moves.fill(table[None], 3, 2, 4, case.state())
    np.testing.assert_allclose(table[2:4], expected[2:4, 3:8], rtol=1e-12)
    assert np.isnan(np.delete(table, [2, 3], axis=0)).all()


def test_counts_of_columns():
    np.testing.assert_array_equal(extended(np.array([3, 0, 2]), 2, 7), [3, 0, 2, 0, 0, -1, -1])
    np.testing.assert_array_equal(extended(np.array([0, 2, 0]), 0, 3), [0, 2, 0])


def test_compact_columns_are_the_occupied_ones_in_their_order():
    case = Columns(21, [5, 2, 2, 7, 5, 2], 2, 1, n_components=9, n_auxiliary=0, room=0)
    state = compacted(case.state())
    np.testing.assert_array_equal(state.z, [1, 0, 0, 2, 1, 0])
    np.testing.assert_array_equal(state.counts, [3, 2, 1])
    for view, old in zip(state.views, case.views, strict=True):
        for part, before in zip(view.components, old.components, strict=True):
            np.testing.assert_array_equal(part, before[[2, 5, 7]])


@pytest.mark.parametrize("kind", ["common", "cluster"])
@pytest.mark.parametrize(("n_dims", "n_latent"), VIEWS)
def test_the_fresh_component_beside_an_opened_cluster_comes_from_both_bases(n_dims, n_latent, kind):
    case = Columns(22, Z, n_dims, n_latent, kind=kind)
    before, noises = (
        [[part.copy() for part in view.components] for view in case.views],
        case.noises.copy(),
    )
    rng, other = np.random.default_rng(23), np.random.default_rng(23)
    fresh = moves.open_cluster(rng, 5, case.auxiliary, case.state())
    assert fresh == 7
    np.testing.assert_array_equal(case.auxiliary, [7, 6])
    for view, old in zip(case.views, before, strict=True):
        drawn = draw_from_base(other, 1, view.base)
        for part, was, new in zip(view.components, old, drawn, strict=True):
            np.testing.assert_array_equal(part[fresh], new[0])
            np.testing.assert_array_equal(
                np.delete(part, fresh, axis=0), np.delete(was, fresh, axis=0)
            )
    if kind == "cluster":
        assert case.noises[fresh] == draw_noise(other, 0.0, 0.0, case.terms.noise_dof)
        np.testing.assert_array_equal(np.delete(case.noises, fresh), np.delete(noises, fresh))
    assert rng.random() == other.random()


@pytest.mark.parametrize("n_latent", [1, 2])
def test_a_component_that_is_no_number_is_reported(n_latent):
    """As one of the features is: the table then holds NaN."""
    case = Columns(24, Z, 1, n_latent)
    case.latent_components.factors[1] = math.nan
    case.sweep(np.random.default_rng(25), process(2.0))
    assert (case.outcome.user_without_weight, case.outcome.column) == (0, 1)

"""The assignment sweep: exactly what a naive twin does with the same uniforms, and the probabilities of (C11)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from dualview.kernels.assign import assign, choose
from dualview.kernels.densities import log_likelihood
from yardsticks import positive_definite, python_of, upper_factor

LAST = math.nextafter(1.0, 0.0)
LOG_WEIGHTS = st.lists(st.one_of(st.floats(-900, 900), st.just(-math.inf)), min_size=1, max_size=8)


@settings(derandomize=True, deadline=None)
@given(LOG_WEIGHTS, st.floats(0.0, LAST))
def test_a_chosen_index_has_positive_weight(log_weights, uniform):
    chosen = choose(np.array(log_weights), uniform)
    top = max(log_weights)
    if top == -math.inf:
        assert chosen == -1
    else:
        assert math.exp(log_weights[chosen] - top) > 0.0


@settings(derandomize=True, deadline=None)
@given(LOG_WEIGHTS, st.floats(0.0, LAST), st.floats(-1e3, 1e3))
def test_a_choice_does_not_depend_on_the_scale_of_weights(log_weights, uniform, shift):
    weights = np.array(log_weights)
    chosen, moved = choose(weights, uniform), choose(weights + shift, uniform)
    if chosen != moved:  # only a uniform number on the border of two cells may tip over
        shares = np.exp(weights - weights.max())
        borders = np.cumsum(shares) / shares.sum()
        assert np.abs(borders - uniform).min() < 1e-9


def test_the_ends_of_the_uniform_range_choose_the_first_and_last_positive_weight():
    weights = np.array([-math.inf, 0.7, 0.1, -math.inf])
    assert choose(weights, 0.0) == 1
    assert choose(weights, LAST) == 2


@pytest.mark.parametrize("bad", [[-math.inf, -math.inf], [0.0, math.nan], [math.inf, 0.0], []])
def test_no_choice_without_finite_weights(bad):
    assert choose(np.array(bad, dtype=float), 0.5) == -1


class Table:
    """Random log likelihoods of users under components, and under what each user may open (U openers, m, U users)."""

    def __init__(self, seed, n_users, n_components, n_auxiliary, impossible=0.0):
        rng = np.random.default_rng(seed)
        self.components = self._random(rng, (n_users, n_components), impossible)
        self.births = self._random(rng, (n_users, n_auxiliary, n_users), impossible)
        self.uniforms = rng.random(n_users)
        self.z = np.append(np.arange(n_components), rng.integers(0, n_components, n_users))[:n_users]
        rng.shuffle(self.z)

    def _random(self, rng, shape, impossible):
        values = 3.0 * rng.standard_normal(shape)
        values[rng.random(shape) < impossible] = -math.inf
        return values

    @property
    def own(self):
        """ln p(x_u | u's own auxiliary components), (U, m)."""
        return np.ascontiguousarray(np.einsum("uju->uj", self.births))


def sweep(table, spread, new_weight, kernel=assign):
    """A whole sweep by the kernel, births added by the caller."""
    z, components, u = table.z.copy(), table.components, 0
    counts = np.bincount(z, minlength=components.shape[1])
    while u < len(z):
        u, chosen = kernel(u, table.uniforms, components, table.own, z, counts, spread, new_weight)
        if chosen == -2:
            return u, z
        if chosen >= 0:
            assert z[u] == -1
            components = np.column_stack([components, table.births[u, chosen]])
            z[u] = len(counts)
            counts = np.append(counts, 1)
            u += 1
    np.testing.assert_array_equal(counts, np.bincount(z, minlength=len(counts)))
    return u, z


def naive_sweep(table, spread, new_weight):
    """The same with lists: drop user u, list what it may join and what it may open, draw."""
    z, columns = list(table.z), list(table.components.T)
    for u in range(len(z)):
        others = z[:u] + z[u + 1 :]
        options = [(k, others.count(k) + spread, columns[k]) for k in range(len(columns))]
        openings = [(len(columns), new_weight, column) for column in table.births[u]]
        if openings and z[u] not in others:
            options[z[u]] = (z[u], new_weight, columns[z[u]])
            openings.pop()
        options += openings
        weights = np.array([weight for _, weight, _ in options])
        logs = np.array([column[u] for _, _, column in options])
        with np.errstate(divide="ignore"):
            logs = logs + np.log(weights)
        if logs.max() == -math.inf:
            return u, np.array(z)
        shares = np.exp(logs - logs.max())
        chosen = int(np.searchsorted(np.cumsum(shares), table.uniforms[u] * shares.sum(), side="right"))
        z[u] = options[chosen][0]
        if z[u] == len(columns):
            columns.append(options[chosen][2])
    return len(z), np.array(z)


@pytest.mark.parametrize("impossible", [0.0, 0.4])
@pytest.mark.parametrize("n_auxiliary", [1, 3])
@pytest.mark.parametrize("new_weight", [0.05, 2.0])
def test_the_dirichlet_process_sweep_is_the_naive_one(impossible, n_auxiliary, new_weight):
    for seed in range(25):
        table = Table(seed, 14, 5, n_auxiliary, impossible)
        done, z = sweep(table, 0.0, new_weight)
        expected_done, expected = naive_sweep(table, 0.0, new_weight)
        assert done == expected_done
        if done == 14:
            np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize("impossible", [0.0, 0.4])
@pytest.mark.parametrize("spread", [0.01, 1.5])
def test_the_sweep_over_a_fixed_number_is_the_naive_one(impossible, spread):
    for seed in range(25):
        table = Table(seed, 14, 4, 0, impossible)
        done, z = sweep(table, spread, 0.0)
        expected_done, expected = naive_sweep(table, spread, 0.0)
        assert done == expected_done
        if done == 14:
            np.testing.assert_array_equal(z, expected)


def test_compiled_labels_are_those_of_python():
    for seed in range(10):
        table = Table(seed, 12, 4, 2)
        np.testing.assert_array_equal(sweep(table, 0.0, 0.8)[1], sweep(table, 0.0, 0.8, python_of(assign))[1])


@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_a_user_with_no_weight_anywhere_is_reported(value):
    table = Table(1, 6, 3, 2)
    table.components[4] = value
    table.births[:, :, 4] = value
    assert sweep(table, 0.0, 1.0)[0] == 4


def test_an_emptied_cluster_is_open_to_its_last_user_only():
    z, counts = np.array([1, 0, 0]), np.array([2, 1])
    components = np.array([[0.0, -50.0], [-50.0, 50.0], [-50.0, 50.0]])
    own = np.full((3, 1), -math.inf)
    assign(0, np.full(3, 0.5), components, own, z, counts, 0.0, 1.0)
    np.testing.assert_array_equal(z, [0, 0, 0])
    z, counts = np.array([1, 0, 0]), np.array([2, 1])
    components[0] = [-50.0, 0.0]
    assign(0, np.full(3, 0.5), components, own, z, counts, 0.0, 1.0)
    np.testing.assert_array_equal(z, [1, 1, 1])


def implied_probabilities(case, own_table, spread, new_weight):
    """Probabilities of every option of the last user, from the borders between its uniform numbers."""
    table, z = case
    n_users, n_components = table.shape
    n_options = n_components + own_table.shape[1]

    def option(uniform):
        labels, counts = z.copy(), np.bincount(z, minlength=n_components)
        _, chosen = assign(n_users - 1, np.full(n_users, uniform), table, own_table, labels, counts, spread, new_weight)
        return labels[-1] if chosen == -1 else n_components + chosen

    borders = np.ones(n_options + 1)
    borders[0] = 0.0
    for j in range(n_options - 1):
        low, high = borders[j], 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if option(middle) <= j else (low, middle)
        borders[j + 1] = low
    return np.diff(borders)


class JointCase:
    """A feature view with a few users; the last one is to be assigned."""

    def __init__(self, z, n_components, alpha, partition):
        rng = np.random.default_rng(3)
        self.z, self.alpha, self.partition = np.array(z), alpha, partition
        self.x = rng.standard_normal((len(z), 2))
        matrices = [positive_definite(rng, 2) for _ in range(n_components + 2)]
        self.view = naive.ViewState(
            rng.standard_normal((n_components, 2)), np.array(matrices[2:]), rng.standard_normal(2), *matrices[:2], 4.5
        )

    def likelihood(self, kept):
        return log_likelihood(self.x, self.view.means[kept], upper_factor(self.view.precisions[kept]))

    def log_joint(self, label, kept):
        """With the last user at label, and only the kept components in being; labels are positions among them."""
        z = np.append(self.z[:-1], label)
        view = replace(self.view, means=self.view.means[kept], precisions=self.view.precisions[kept])
        state = naive.State(z, self.alpha, {"features": view})
        return naive.log_joint(state, features=self.x, feature_constants=(np.zeros(2), np.eye(2)), partition=self.partition)

    def log_base(self, k):
        """ln p(μ_k, S_k | base)."""
        constants = np.zeros(2), np.eye(2)
        alone = replace(self.view, means=self.view.means[[k]], precisions=self.view.precisions[[k]])
        empty = replace(self.view, means=self.view.means[:0], precisions=self.view.precisions[:0])
        return naive.log_view_prior(alone, constants) - naive.log_view_prior(empty, constants)


def test_a_fixed_number_of_clusters_has_the_joints_probabilities():
    """(C11), empty clusters included."""
    case = JointCase([0, 0, 0, 1, 1, 0], 3, 0.7, ("finite", 3))
    everything = np.arange(3)
    joints = np.array([case.log_joint(k, everything) for k in everything])
    probabilities = implied_probabilities((case.likelihood(everything), case.z), np.empty((6, 0)), 0.7 / 3, 0.0)
    np.testing.assert_allclose(probabilities, np.exp(joints - np.logaddexp.reduce(joints)), atol=1e-12)


def test_the_dirichlet_process_has_the_joints_probabilities():
    """(C11): auxiliary components stand for an integral over the base, so each shares α and sheds its base density."""
    case, m = JointCase([0, 0, 0, 1, 1, 0], 4, 0.7, ("dp", None)), 2
    occupied = np.array([0, 1])
    joints = [case.log_joint(k, occupied) for k in occupied]
    joints += [case.log_joint(2, np.array([0, 1, new])) - case.log_base(new) - math.log(m) for new in (2, 3)]
    own = np.ascontiguousarray(case.likelihood(np.array([2, 3])))
    probabilities = implied_probabilities((case.likelihood(occupied), case.z), own, 0.0, case.alpha / m)
    np.testing.assert_allclose(probabilities, np.exp(joints - np.logaddexp.reduce(joints)), atol=1e-12)


def test_a_user_alone_brings_its_cluster_as_an_auxiliary_one():
    case, m = JointCase([0, 0, 0, 1, 1, 2], 5, 0.7, ("dp", None)), 2
    components = np.array([0, 1, 2])
    joints = [case.log_joint(k, components[:2]) for k in (0, 1)]
    joints += [case.log_joint(2, np.array([0, 1, new])) - case.log_base(new) - math.log(m) for new in (2, 3)]
    own = np.ascontiguousarray(case.likelihood(np.array([3, 4])))
    probabilities = implied_probabilities((case.likelihood(components), case.z), own, 0.0, case.alpha / m)
    np.testing.assert_allclose(probabilities[:4], np.exp(joints - np.logaddexp.reduce(joints)), atol=1e-12)
    assert probabilities[4] < 1e-15  # the user's own cluster stands in for the last auxiliary component

"""Splits and merges in nominal columns: levels of sets of users, and weights with the shares
integrated out."""

import numpy as np
import pytest
from scipy import stats

from dualview.numerics.streams import stream_of
from dualview.views.nominal import kind, splitting
from dualview.views.nominal.view import NominalView
from yardsticks import check_mean

VIEW = NominalView(((0.5, 0.3, 0.2), (0.6, 0.4)))
Z = np.array([0, 1, 0, 0, 1, 1, 0, 2])
CODES = np.array([[0, 1], [2, -1], [0, 0], [1, 0], [-1, -1], [2, 1], [0, 1], [1, 1]])
COUNTS, GAMMA = np.array([4, 3, 1, 0]), np.array([0.7, 3.0])


def split_of(z):
    logs = np.zeros((len(COUNTS), len(VIEW.flat)))
    view = kind.Nominal(np.ascontiguousarray(CODES.T), VIEW.starts, VIEW.flat, logs, GAMMA, False)
    return splitting.split_start(z, COUNTS, view)


def levels_of(users):
    """How many of some users have each level."""
    found = np.zeros(len(VIEW.flat))
    for row in CODES[users]:
        for first, code in zip(VIEW.starts, row, strict=False):
            found[first + code] += code >= 0
    return found


def one_after_the_other(users):
    """ln p(levels of some users in a cluster): each given those before, whose shares are (γ g_l +
    n_l)/(γ + n)."""
    total = 0.0
    for j, codes in enumerate(CODES[users].T):
        seen = np.zeros(VIEW.starts[j + 1] - VIEW.starts[j])
        for code in codes[codes >= 0]:
            total += np.log(
                (GAMMA[j] * VIEW.shares[j][code] + seen[code]) / (GAMMA[j] + seen.sum())
            )
            seen[code] += 1
    return total


def test_sets_have_the_levels_of_their_users():
    split = split_of(Z)
    splitting.set_column(0, 0, split)
    splitting.set_column(1, 1, split)
    splitting.set_both(4, 1, 3, split)
    for s, users in enumerate((Z == 0, Z == 1, Z < 2)):
        np.testing.assert_array_equal(split.sets[s], levels_of(users))
    splitting.set_user(0, 3, split)
    splitting.join(6, 0, 1, split)
    np.testing.assert_array_equal(split.sets[0], levels_of([3, 6]))
    z = Z.copy()
    z[[0, 3]] = 3
    splitting.learn(3, z, split)
    splitting.learn(0, z, split)
    np.testing.assert_array_equal(split.clusters, split_of(z).clusters)


@pytest.mark.parametrize("users", [[0, 2, 3, 6], [1, 4, 5], [4], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_weights_are_probabilities_of_the_levels(users):
    split = split_of(Z)
    split.sets[1] = levels_of(users)
    assert splitting.log_weight(1, len(users), split) == pytest.approx(
        one_after_the_other(users), abs=1e-12
    )


def test_distances_are_predictive_probabilities():
    split = split_of(Z)
    splitting.set_column(0, 0, split)
    for u in (1, 4, 7):
        wanted = one_after_the_other([0, 2, 3, 6, u]) - one_after_the_other([0, 2, 3, 6])
        assert splitting.distance(u, 0, 4, split) == pytest.approx(-wanted, abs=1e-12)


def test_an_accepted_set_draws_its_shares():
    """(C17)"""
    split, rng, drawn = split_of(Z), stream_of(np.random.default_rng(1)), []
    splitting.set_column(0, 0, split)
    for _ in range(2000):
        splitting.accept(rng, 2, 0, 4, split)
        drawn.append(np.exp(split.logs[2]))
    levels = levels_of(Z == 0)
    for j, gamma in enumerate(GAMMA):
        own = slice(VIEW.starts[j], VIEW.starts[j + 1])
        check_mean(
            np.array(drawn)[:, own], stats.dirichlet(gamma * VIEW.flat[own] + levels[own]).mean()
        )

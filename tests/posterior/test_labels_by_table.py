"""Weights of clusters by behavior given several tables of features, against all labels in turn."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from checks import ACCEPT
from dualview.posterior.prediction.labels_by_table import LabelsByTable, partitions
from dualview.posterior.prediction.new_users import levels_of


def one_by_one(
    weights: np.ndarray, shares: np.ndarray, tables: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """p(features, acts like r) over what r weighs, (R,): every table agrees or is one more
    customer, label by label. And p(features, labels of the tables), (R,) * T, times what all weigh.

    Rows are clusters that are known: no cluster is opened, as with a fixed number of clusters.
    """
    n_tables, n_rows = tables.shape
    found, of_labels = np.zeros(n_rows), np.zeros((n_rows,) * n_tables)
    for r in range(n_rows):
        for agrees in itertools.product((True, False), repeat=n_tables):
            apart = [t for t in range(n_tables) if not agrees[t]]
            for labels in itertools.product(range(n_rows), repeat=len(apart)):
                own, total = weights.copy(), 1.0
                own[r] += 1.0
                for t in range(n_tables):
                    total *= shares[t] if agrees[t] else 1.0 - shares[t]
                    total *= tables[t, r] if agrees[t] else 1.0
                for t, label in zip(apart, labels, strict=True):
                    total *= own[label] / own.sum() * tables[t, label]
                    own[label] += 1.0
                found[r] += total
                every = dict.fromkeys(range(n_tables), r) | dict(zip(apart, labels, strict=True))
                of_labels[tuple(every.values())] += weights[r] * total
    return found, of_labels


@pytest.mark.parametrize("n_tables", [1, 2, 3])
def test_all_labels_in_turn(n_tables: int) -> None:
    rng = np.random.default_rng(n_tables)
    sizes, n_users = (3, 2), 2
    draw = np.repeat(np.arange(2), sizes)
    weights, shares = rng.gamma(2.0, 1.0, 5), rng.uniform(0.1, 0.9, (2, n_tables))
    total = np.add.reduceat(weights, [0, 3])
    densities = rng.gamma(1.0, 1.0, (n_tables, n_users, 5))
    looks = LabelsByTable(weights, total, draw, np.array([0, 3]), shares)
    found = np.exp(looks.log_features(list(np.log(densities))))
    for user, own in itertools.product(range(n_users), (0, 1)):
        rows = draw == own
        expected = one_by_one(weights[rows], shares[own], densities[:, user, rows])[0]
        np.testing.assert_allclose(found[user, rows], expected, rtol=1e-12)


@pytest.mark.parametrize("n_tables", [1, 2, 3])
def test_labels_of_the_tables_are_drawn_together(n_tables: int) -> None:
    """Their probabilities are exact, and pairs of labels come as often as they should."""
    rng, n = np.random.default_rng(n_tables), 20_000
    draw, first = np.repeat(np.arange(2), (3, 2)), np.array([0, 3])
    weights, shares = rng.gamma(2.0, 1.0, 5), rng.uniform(0.1, 0.9, (2, n_tables))
    weights[1] = 0.0
    total = np.add.reduceat(weights, first)
    densities = rng.gamma(1.0, 1.0, (n_tables, 5))
    labels = LabelsByTable(weights, total, draw, first, shares)
    rows, chances = labels.draw_rows(rng, list(np.log(densities)), levels_of(rng, n, False))
    joint = np.zeros((5,) * n_tables)
    for own in (0, 1):
        places = np.flatnonzero(draw == own)
        found = one_by_one(weights[places], shares[own], densities[:, places])[1]
        joint[np.ix_(*[places] * n_tables)] = found / total[own]
    joint /= joint.sum()
    for t in range(n_tables):
        others = tuple(other for other in range(n_tables) if other != t)
        np.testing.assert_allclose(chances[t], joint.sum(axis=others), atol=1e-12)
    counts = np.zeros(joint.shape)
    np.add.at(counts, tuple(rows), 1.0 / n)
    error = np.sqrt(joint * (1.0 - joint) / n)
    assert (np.abs(counts - joint) < ACCEPT * error + 1e-12).all()


def test_a_new_cluster_is_opened_at_most_once_for_each_label() -> None:
    """With one known cluster of weight w and a new one of weight α, of density f_t for table t,
    added up by hand."""
    w, alpha, share = 2.0, 0.7, np.array([[0.3, 0.6]])
    known, fresh = np.array([0.5, 1.4]), np.array([0.9, 0.2])
    tables = [np.log([[known[t], fresh[t]]]) for t in range(2)]
    looks = LabelsByTable(
        np.array([w, alpha]),
        np.array([w + alpha]),
        np.zeros(2, dtype=np.int64),
        np.array([0]),
        share,
    )
    found = np.exp(looks.log_features(tables)[0])
    total = w + alpha
    expected = np.zeros(2)
    for r, (own, here) in enumerate(((w + 1.0, known), (1.0, fresh))):
        # the label of a table apart: the known cluster, the user's own new one where behavior has
        # opened it, a new one
        for first, second in itertools.product((True, False), repeat=2):
            chance = (share[0, 0] if first else 1.0 - share[0, 0]) * (
                share[0, 1] if second else 1.0 - share[0, 1]
            )
            if first and second:
                expected[r] += chance * here[0] * here[1]
                continue
            seats = [(own, here)] + ([(w, known)] if r == 1 else []) + [(alpha, fresh)]
            alone = [t for t, agrees in enumerate((first, second)) if not agrees]
            factor = math.prod(here[t] for t in range(2) if t not in alone)
            if len(alone) == 1:
                expected[r] += (
                    chance * factor * sum(n * f[alone[0]] for n, f in seats) / (total + 1.0)
                )
                continue
            for i, (n, f) in enumerate(seats):
                again = [(m + (i == k and k < len(seats) - 1), g) for k, (m, g) in enumerate(seats)]
                again += (
                    [(1.0, f)] if i == len(seats) - 1 else []
                )  # the new cluster that the first table has opened
                inner = sum(m * g[1] for m, g in again) / (total + 2.0)
                expected[r] += chance * n * f[0] / (total + 1.0) * inner
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_tables_that_always_agree_are_one() -> None:
    rng = np.random.default_rng(0)
    tables = list(np.log(rng.gamma(1.0, 1.0, (2, 3, 4))))
    looks = LabelsByTable(
        np.ones(4), np.array([4.0]), np.zeros(4, dtype=np.int64), np.array([0]), np.ones((1, 2))
    )
    np.testing.assert_allclose(looks.log_features(tables), tables[0] + tables[1])


def test_sums_over_rows_are_the_density_of_the_features() -> None:
    """Where no table agrees, by the urn of all customers: with one row everything is its
    density."""
    looks = LabelsByTable(
        np.array([2.0]),
        np.array([2.0]),
        np.zeros(1, dtype=np.int64),
        np.array([0]),
        np.array([[0.4, 0.1]]),
    )
    tables = [np.array([[-1.0]]), np.array([[-2.5]])]
    assert logsumexp(looks.log_features(tables)) == pytest.approx(-3.5)


def test_partitions() -> None:
    assert [len(list(partitions(tuple(range(n))))) for n in range(5)] == [1, 1, 2, 5, 15]

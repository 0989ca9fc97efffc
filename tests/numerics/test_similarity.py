"""Counts over pairs against all pairs written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from dualview.numerics.partition_search import (
    distances,
    growth_of,
    memberships,
    overlap,
    overlaps,
    renumbered,
    similarity,
    squared_losses,
)
from yardsticks import python_of

N_LABELS = 5
DRAWS = arrays(
    np.int64, st.tuples(st.integers(1, 6), st.integers(1, 7)), elements=st.integers(0, N_LABELS - 1)
)
SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)


def once(z):
    """How often each draw is counted where none is counted for several."""
    return np.ones(len(z))


def naive_losses(z, together):
    """Σ_ij (1[z_i = z_j] − π_ij)² of each draw."""
    return np.array([((np.equal.outer(draw, draw) - together) ** 2).sum() for draw in z])


@SETTINGS
@given(DRAWS)
def test_similarity_is_the_share_of_draws_together(z):
    together = similarity(z, once(z))
    np.testing.assert_allclose(together, naive.similarity(z), rtol=1e-14)
    np.testing.assert_array_equal(together, together.T)
    np.testing.assert_array_equal(np.diagonal(together), 1.0)


@SETTINGS
@given(DRAWS)
def test_losses_are_the_plain_sums_less_a_constant(z):
    together = naive.similarity(z)
    losses = naive_losses(z, together) - (together**2).sum()
    np.testing.assert_allclose(squared_losses(z, together), losses, atol=1e-12)
    sums, own = overlaps(z, once(z), N_LABELS, growth_of(z.shape[1], False), 0, 1)
    np.testing.assert_allclose(own - 2 * sums / len(z), losses, atol=1e-12)


@SETTINGS
@given(arrays(np.int64, (2, 9), elements=st.integers(0, N_LABELS - 1)))
def test_overlap_counts_pairs_in_both_one_by_one(z):
    a, b = z
    expected = sum(a[i] == a[j] and b[i] == b[j] for i in range(9) for j in range(9))
    table = np.zeros((N_LABELS, N_LABELS), dtype=np.int64)
    assert overlap(a, b, table, growth_of(9, False)) == expected
    assert not table.any()


@SETTINGS
@given(arrays(np.int64, (4, 9), elements=st.integers(0, N_LABELS - 1)))
def test_distances_are_entropies_of_each_given_the_other(z):
    candidate, *draws = z

    def entropy(*labels):
        share = np.unique(np.stack(labels), axis=1, return_counts=True)[1] / 9
        return -(share * np.log(share)).sum()

    expected = [2 * entropy(candidate, draw) - entropy(candidate) - entropy(draw) for draw in draws]
    np.testing.assert_allclose(
        distances(candidate, z[1:], N_LABELS, growth_of(9, True)) / 9, expected, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
def test_names_of_clusters_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, N_LABELS, (8, 20))
    renamed = np.array([rng.permutation(N_LABELS)[draw] for draw in z])
    together = similarity(z, once(z))
    np.testing.assert_array_equal(similarity(renamed, once(z)), together)
    np.testing.assert_array_equal(squared_losses(renamed, together), squared_losses(z, together))
    growth = growth_of(20, True)
    np.testing.assert_allclose(
        overlaps(renamed, once(z), N_LABELS, growth, 0, 1),
        overlaps(z, once(z), N_LABELS, growth, 0, 1),
    )


def test_permuting_users_permutes_the_similarity():
    rng = np.random.default_rng(9)
    z, order = rng.integers(0, 3, (6, 12)), rng.permutation(12)
    permuted = np.ascontiguousarray(z[:, order])
    np.testing.assert_array_equal(
        similarity(permuted, once(z)), similarity(z, once(z))[np.ix_(order, order)]
    )


@SETTINGS
@given(DRAWS)
def test_renumbered_clusters_go_by_their_first_members(z):
    expected = [[list(dict.fromkeys(draw)).index(label) for label in draw] for draw in z.tolist()]
    np.testing.assert_array_equal(renumbered(z.astype(np.int32)), expected)


@SETTINGS
@given(DRAWS, st.data())
def test_counted_draws_are_as_good_as_repeated_ones(z, data):
    """Each sum over draws with counts equals that over the draws written out."""
    counts = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(z), max_size=len(z))))
    often, weights, growth = np.repeat(z, counts, axis=0), counts.astype(float), growth_of(7, True)
    first = np.cumsum(counts) - counts
    np.testing.assert_array_equal(similarity(z, weights), similarity(often, once(often)))
    sums, own = overlaps(z, weights, N_LABELS, growth, 0, 1)
    sums_often, own_often = overlaps(often, once(often), N_LABELS, growth, 0, 1)
    np.testing.assert_allclose(sums, sums_often[first], atol=1e-12)
    np.testing.assert_array_equal(own, own_often[first])
    sizes = np.bincount(z[0])
    np.testing.assert_allclose(
        memberships(z, weights, z[0], sizes, N_LABELS),
        memberships(often, once(often), z[0], sizes, N_LABELS),
    )


def test_compiled_numbers_are_those_of_python():
    z = np.random.default_rng(10).integers(0, 3, (6, 12))
    together, growth = similarity(z, once(z)), growth_of(12, True)
    for kernel, *arguments in [
        (renumbered, z.astype(np.int32)),
        (memberships, z, 2 * once(z), z[0], np.bincount(z[0]), 3),
        (similarity, z, once(z)),
        (squared_losses, z, together),
        (distances, z[0], z, 3, growth),
    ]:
        np.testing.assert_array_equal(kernel(*arguments), python_of(kernel)(*arguments))

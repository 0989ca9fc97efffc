"""Splits and merges with a label for each view: where all users agree they are those with one
label, draw for draw."""

import copy
from typing import Any

import numpy as np
import pytest

from checks import mutate
from dualview.engines.gibbs.apart import split_merge as apart_split_merge
from dualview.engines.gibbs.apart.labels import Apart
from dualview.engines.gibbs.moves import split_merge
from engines.gibbs.test_split_merge import Prior

N_MOVES, SEEDS = 40, range(30)


def same_labels(apart_kernel: Any, n_tables: int = 1) -> tuple[int, int]:
    """From how many seeds both kernels, of one label and of several, come to the same clusters; and
    how often these are new.

    With several tables the features are those of the last, and the others have none.
    """
    prior, n_same, n_new = Prior(2, 1, n_users=12, alpha=2.0), 0, 0
    for seed in SEEDS:
        state = prior.draw(np.random.default_rng(seed), N_MOVES + 1)
        before, twin = state.z.copy(), copy.deepcopy(state)
        looks = np.tile(twin.z, (n_tables, 1))
        everybody, places = np.ones(looks.shape, dtype=np.int64), np.array([n_tables - 1])
        twin = twin._replace(z=looks[0])
        apart = Apart(
            twin,
            twin.z.copy(),
            looks,
            everybody,
            places,
            np.full(n_tables, 0.9),
            np.zeros((n_tables, 2)),
        )
        split_merge.split_and_merge(np.random.default_rng([seed, 1]), N_MOVES, state)
        apart_kernel(np.random.default_rng([seed, 1]), N_MOVES, apart)
        for own in looks:
            np.testing.assert_array_equal(apart.acts, own)
        n_same += np.array_equal(twin.z, state.z) and np.array_equal(twin.counts, state.counts)
        n_new += not np.array_equal(state.z, before)
    return n_same, n_new


@pytest.mark.parametrize("n_tables", [1, 3])
def test_users_who_agree_are_split_and_merged_as_with_one_label(n_tables: int) -> None:
    n_same, n_new = same_labels(apart_split_merge.split_and_merge, n_tables)
    assert n_same == len(SEEDS)
    assert n_new > len(SEEDS) // 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("math.log(chance_of_other(first, counts.agreeing, splits.seen + splits.acting))", "0.0"),
        ("chance * (sizes.agreeing[2] - 1.0)", "(sizes.agreeing[2] - 1.0)"),
        ("ratio - log_sides if splitting", "ratio if splitting"),
    ],
    ids=[
        "splits forget how merges are chosen",
        "merges forget how they are chosen",
        "sides are free",
    ],
)
def test_a_changed_ratio_is_seen(old: str, new: str) -> None:
    n_same, _ = same_labels(mutate(apart_split_merge.split_and_merge, old, new))
    assert n_same < len(SEEDS)

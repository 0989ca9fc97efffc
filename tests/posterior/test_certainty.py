"""How settled a partition estimate is, in words."""

import numpy as np
import pytest

from dualview.posterior import partition
from dualview.posterior.partition.certainty import certainty_text, moved

LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])


def text_of(z: np.ndarray, labels: np.ndarray = LABELS, finished: bool = True) -> str:
    return certainty_text(z, partition.estimate(z, partition.Found(labels, finished), "vi", 0.95))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (LABELS, 0),
        (5 - LABELS, 0),  # other names
        (np.where(np.arange(10) == 3, 1, LABELS), 1),
        (np.where(LABELS == 2, 1, LABELS), 3),
        (np.arange(10), 7),
        (np.zeros(10, dtype=int), 6),
    ],
)
def test_users_who_move(other: np.ndarray, expected: int) -> None:
    assert moved(LABELS, other) == expected


def test_draws_that_agree() -> None:
    assert text_of(np.tile(LABELS, (40, 1))) == "95% of the draws have exactly these clusters."


def test_a_cluster_that_falls_apart_and_two_that_are_one() -> None:
    other = np.array([0, 0, 3, 3, 1, 1, 1, 1, 1, 1])
    z = np.array([other if i % 4 == 0 else LABELS for i in range(40)])
    text = text_of(z)
    assert text.startswith(
        "Half of the draws have exactly these clusters, and 95% but for at most 5 of 10;"
    )
    assert text.endswith("clusters 1 and 2 are one, cluster 0 falls into 2 parts.")


def test_a_partition_that_is_one_of_many() -> None:
    z = np.random.default_rng(0).integers(0, 4, (60, 10))
    assert text_of(z, partition.least_loss(z, "vi").labels).startswith(
        "These clusters are not settled"
    )


def test_a_search_that_was_cut_short_is_said_first() -> None:
    z = np.random.default_rng(0).integers(0, 4, (60, len(LABELS)))
    text = text_of(z, finished=False)
    assert text.startswith("The search for these clusters was cut short")
    assert text.endswith(text_of(z))

"""When chains are looked at, and which of their draws are kept: numbers of iterations alone
decide."""

from itertools import pairwise

import numpy as np
import pytest

from dualview.chains.schedule import FixedLength, Spacing, UntilGood, check_length, most_draws
from dualview.chains.storage import Piece, Record, joined
from dualview.errors import InputError

CHOSEN = [
    UntilGood(0, n, thin, max_draws=70 * n) for n, thin in ((1000, 1), (100, 3), (7, 1), (1, 2))
]
GIVEN = [
    UntilGood(w, n, thin, max_draws=70 * n, chosen=False)
    for w, n, thin in ((500, 1000, 1), (0, 100, 3), (30, 7, 2))
]


def kept(schedule: UntilGood, stop: int, stride: int) -> tuple[int, int]:
    """Draws before those that count, and those that count."""
    n = schedule.spacing.n_by(stop, stride)
    dropped = schedule.dropped(n, stride)
    return dropped, n - dropped


@pytest.mark.parametrize("schedule", CHOSEN, ids=repr)
def test_a_chosen_warm_up_leaves_the_draws_that_were_asked_for_at_every_look(
    schedule: UntilGood,
) -> None:
    looks = [part for part in schedule.rounds() if part.look]
    for part in looks[:-1]:
        dropped, counted = kept(schedule, part.stop, part.stride)
        assert counted == schedule.n_draws
        assert (
            dropped * part.stride * 5 >= part.stop - part.stride * 5
        )  # a fifth at least, but for rounding
        assert dropped <= schedule.n_draws
    assert looks[-1].stop == schedule.n_iterations


@pytest.mark.parametrize("schedule", GIVEN, ids=repr)
def test_a_given_warm_up_is_all_that_is_dropped(schedule: UntilGood) -> None:
    looks = [part for part in schedule.rounds() if part.look]
    assert looks[0].stop == schedule.n_warmup + schedule.n_draws * schedule.thin
    for part in looks:
        dropped, counted = kept(schedule, part.stop, part.stride)
        assert dropped == 0
        assert schedule.n_draws / 2 <= counted <= schedule.n_draws


@pytest.mark.parametrize("schedule", CHOSEN + GIVEN, ids=repr)
def test_looks_come_four_times_while_a_chain_doubles_and_strides_only_double(
    schedule: UntilGood,
) -> None:
    parts = list(schedule.rounds())
    assert all(one.stop < other.stop for one, other in pairwise(parts) if schedule.n_draws > 7)
    made = [part.stop - schedule.n_warmup for part in parts if part.look]
    if schedule.n_draws >= 100:
        assert all(1.1 <= other / one <= 1.26 for one, other in pairwise(made[:-1]))
    strides = [part.stride for part in parts]
    assert strides[0] == schedule.thin
    assert all(other in (one, 2 * one) for one, other in pairwise(strides))


def test_the_limit_is_the_last_look() -> None:
    for limit in (3, 1000, 1250, 1300, 5555):
        *_, last = UntilGood(0, 1000, max_draws=limit).rounds()
        assert last == (limit, 1 if limit <= 2000 else 4, True)


def test_chains_that_are_cut_short_lose_half() -> None:
    schedule = UntilGood(0, 1000, max_draws=9999)
    assert kept(schedule, 100, 1) == (50, 50)
    assert kept(schedule, 1249, 1) == (624, 625)
    assert kept(schedule, 1250, 1) == (250, 1000)
    assert kept(schedule, 2100, 2) == (210, 840)  # between two looks


def test_a_fixed_length_is_one_round_unless_somebody_looks() -> None:
    assert list(FixedLength(10, 20, 3).rounds()) == [(70, 3, False)]
    assert list(FixedLength(10, 20, 3, looks=4).rounds()) == [
        (25, 3, True),
        (40, 3, True),
        (55, 3, True),
        (70, 3, True),
    ]


@pytest.mark.parametrize("every", [1, 3])
def test_draws_that_are_thinned_later_are_those_that_lie_further_apart(every: int) -> None:
    """However a chain was cut into pieces, and with whatever stride each was kept."""
    spacing = Spacing(5, 2, every)
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = [0, *sorted(rng.choice(np.arange(1, 300), 6, replace=False)), 300]
        strides = np.sort(rng.choice([2, 4, 8], 7))
        pieces = [
            piece(one, other, int(s), spacing)
            for (one, other), s in zip(pairwise(ends), strides, strict=True)
        ]
        whole = joined(pieces, 8, spacing)
        np.testing.assert_array_equal(whole.fixed["n_clusters"], np.arange(5, 301, 8 * every)[1:])
        np.testing.assert_array_equal(
            whole.ragged["count"], np.repeat(np.arange(5, 301, 8 * every)[1:], 2)
        )
        np.testing.assert_array_equal(whole.scalars["n_clusters"], np.arange(5, 301, 8)[1:])


def piece(start: int, stop: int, stride: int, spacing: Spacing) -> Piece:
    """Draws whose values are the iterations they were made at, each with two components."""
    at = 1 + start + np.flatnonzero(spacing.mask(start, stop - start, stride))
    whole = at[(at - spacing.n_warmup) % (stride * spacing.every) == 0]
    fixed = {"n_clusters": whole, "n_components": np.full(len(whole), 2)} if len(whole) else {}
    return Piece(
        start,
        stop,
        stride,
        Record(fixed, {"count": np.repeat(whole, 2)} if fixed else {}, {"n_clusters": at}),
    )


def test_a_stretch_of_a_record() -> None:
    record = piece(0, 100, 10, Spacing(0, 10)).record
    cut = record.between(slice(3, 6), slice(2, 4))
    assert cut.fixed["n_clusters"].tolist() == [40, 50, 60]
    assert cut.ragged["count"].tolist() == [40, 40, 50, 50, 60, 60]
    assert cut.scalars["n_clusters"].tolist() == [30, 40]


def test_the_usual_limit() -> None:
    assert most_draws(1000, 1, 50) == 100_000
    assert most_draws(1000, 1, 1000) == 50_000
    assert most_draws(1000, 2, 1000) == 25_000
    assert most_draws(1000, 1, 10**6) == 2000


def test_lengths_without_end_are_refused() -> None:
    check_length(None, 1000, 1, 4, 10**9)
    with pytest.raises(InputError, match="max_draws × thin must be at most 1,000,000,000"):
        check_length(None, 1000, 2, 4, 10**9)
    with pytest.raises(InputError, match="n_draws × thin must be at most 1,000,000,000"):
        check_length(5, 10**9, 1, 4)

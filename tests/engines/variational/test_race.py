"""Several starts: those that are the same or far behind end early, none of which is the best; time
that is over inside a step."""

from types import SimpleNamespace

import numpy as np
import pytest

from dualview.engines.variational import VariationalEngine, clock, engine, moves
from dualview.engines.variational.ascent import ascend
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.responsibilities import bimodality, two_means
from dualview.model import Model
from dualview.partitions.choice import partition_prior
from dualview.posterior.draws.approximated import ApproximationFacts, StartFacts

CLOSE = 0.01  # nats: what ascents leave, with room
CORNERS = np.array([[6.0, 3.0], [6.0, -3.0], [-6.0, 3.0], [-6.0, -3.0]])
PLACE = np.arange(40) % 4
FAR, NEAR, ONE = PLACE // 2, PLACE % 2, np.zeros(40, dtype=np.int64)  # cuts across each direction


@pytest.fixture(scope="module")
def model() -> Model:
    """Users in the corners of a rectangle, in two clusters: cut across the longer direction."""
    x = CORNERS[PLACE] + 0.5 * np.random.default_rng(0).standard_normal((40, 2))
    return Model(partition_prior(2), x, None, 40)


def _alone(model: Model, z: np.ndarray) -> float:
    return VariationalEngine().fit(model, [z]).best.evidence


def test_a_start_that_is_behind_goes_on_where_a_split_helps(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [_alone(model, z) for z in (NEAR, ONE)]
    assert alone[1] > alone[0] + 5.0  # nothing leads from the wrong cut to the other
    together = VariationalEngine().fit(model, [NEAR, ONE])
    assert together.best.evidence == pytest.approx(max(alone), abs=CLOSE)
    monkeypatch.setattr(engine, "_LAST", 0)  # a race that looks at the evidence alone loses it
    lost = VariationalEngine().fit(model, [NEAR, ONE])
    assert [found.ended_early for found in lost.found] == [False, True]
    assert lost.best.evidence < max(alone) - 5.0


def test_a_start_that_is_far_behind_ends_early_and_gives_no_draws(model: Model) -> None:
    fitted = VariationalEngine().fit(model, [NEAR, FAR])
    assert [found.ended_early for found in fitted.found] == [False, True]
    assert [found.converged for found in fitted.found] == [True, False]
    assert len(fitted.modes[0]) == 1
    assert fitted.best.evidence == pytest.approx(_alone(model, FAR), abs=CLOSE)


def test_starts_at_the_same_partition_are_followed_once(model: Model) -> None:
    first, second = VariationalEngine().fit(model, [FAR, 1 - FAR]).found
    assert first.q is second.q
    assert second.converged
    assert second.n_steps < first.n_steps


def test_the_verdict_says_that_starts_ended_early() -> None:
    good, early = StartFacts(-10.0, 3, 20, True, 1.0), StartFacts(-30.0, 3, 9, False, 0.1, True)
    found, text = ApproximationFacts([good, early, early], 1, 0.3).verdict()
    assert not found
    assert "2 of 3 starts ended at other clusters with a lower bound, 2 of them early" in text
    facts = ApproximationFacts([good, early], 1, None)
    assert ApproximationFacts.from_json(facts.to_json()) == facts


class Ticks:
    """A clock that is a second later each time it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def test_time_is_looked_at_between_the_updates_of_a_step(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_updates = len(list(MeanField.start(model, FAR).updates()))
    ends = []
    for seconds in range(1, 2 * n_updates + 3):
        ticks = Ticks()
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=ticks.monotonic))
        [found] = VariationalEngine().fit(model, [FAR], max_time=seconds).found
        assert not found.converged
        assert ticks.now == seconds + 1.0  # nothing was begun after the time was over
        ends.append(found.q.bound)
    assert (np.diff(ends) >= 0.0).all()
    assert len(set(ends)) == 2  # the last whole q: that of the start, then after two steps


def test_without_time_there_is_what_the_first_start_begins_with(model: Model) -> None:
    fitted = VariationalEngine().fit(model, [FAR, NEAR, ONE], max_time=0.0)
    assert len(fitted.found) == 1
    assert not fitted.found[0].converged
    assert np.isfinite(fitted.best.evidence)


def test_nothing_is_tried_twice_from_the_same_place(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(partition_prior(None), model.features, None, 40)
    tried: list[MeanField] = []
    improved = moves.improved

    def counted(q: MeanField, trial: MeanField) -> MeanField | None:
        tried.append(q)
        return improved(q, trial)

    monkeypatch.setattr(moves, "improved", counted)
    q = moves.rounds(ascend(MeanField.start(model, PLACE // 2), 0.05, 12).q, lambda _: None)
    ways = [*moves._smaller(q, None), *moves._larger(q, None)]
    assert sum(own is q for own in tried) <= len(ways)
    assert q.n_components == 4


def test_moves_raise_the_evidence(model: Model) -> None:
    model = Model(partition_prior(None), model.features, None, 40)
    rng = np.random.default_rng(1)
    q = ascend(MeanField.start(model, rng.integers(0, 6, 40)), 0.05, 12).q
    heights = [q.evidence]
    moves.rounds(q, lambda found: heights.append(found.evidence))
    assert len(heights) > 1
    assert (np.diff(heights) > 0.0).all()


def test_bimodality_is_what_two_normal_clusters_explain_better() -> None:
    rng = np.random.default_rng(0)
    side = rng.random(3000) < 0.3
    x = np.column_stack([np.where(side, 4.0, -1.0), np.zeros(3000)]) + rng.standard_normal(
        (3000, 2)
    )
    plane = two_means(x, np.ones(3000))
    above = plane.is_above(x)
    along = x @ plane.normal
    within = np.where(above, along[above].mean(), along[~above].mean())

    def height(residual: np.ndarray) -> float:
        return -0.5 * 3000 * np.log(np.mean(residual**2))

    share = above.mean()
    of_sides = 3000 * (share * np.log(share) + (1 - share) * np.log(1 - share))
    naive = height(along - within) - height(along - along.mean()) + of_sides
    assert bimodality(x, np.ones(3000), plane) == pytest.approx(naive, rel=0.01)
    one = rng.standard_normal((3000, 2))
    assert bimodality(one, np.ones(3000), two_means(one, np.ones(3000))) < 0.0 < naive

"""Forums with other features than the paper's."""

import numpy as np
import pytest

from dualview.errors import InputError
from reproduction.baselines import BASELINES, CLUSTERINGS, measure_baseline
from reproduction.cells import Cell, Effort
from reproduction.forums import SHAPES, forum_of
from reproduction.results import FLOOR, truth_nll

EFFORT = Effort(1, 1, 1, 1)


def cell(scenario="agreement", **others):
    return Cell(scenario, "single", 60, 0, 0, EFFORT, **others)


def test_shuffled_features_are_the_same_rows_for_other_users():
    plain, shuffled = forum_of(cell()), forum_of(cell(data=(("shuffled", 1),)))
    assert sorted(map(tuple, plain.features)) == sorted(map(tuple, shuffled.features))
    assert (plain.features != shuffled.features).any(axis=1).mean() > 0.8
    assert np.array_equal(plain.outcome, shuffled.outcome)


def test_shapes_change_the_features_only():
    plain = forum_of(cell())
    for shape in SHAPES:
        other = forum_of(cell(data=(("shape", shape),)))
        assert not np.allclose(plain.features, other.features)
        assert np.array_equal(plain.latent, other.latent)
        assert np.array_equal(plain.participation, other.participation)


def test_rings_lie_inside_each_other():
    forum = forum_of(cell(n_users=100, data=(("shape", "rings"),)))
    radius = np.linalg.norm(forum.features, axis=1)
    means = [radius[forum.labels == k].mean() for k in range(5)]
    assert np.allclose(means, 0.15 * np.arange(1, 6), atol=0.03)


def test_an_unknown_shape_is_an_error():
    with pytest.raises(InputError, match="bananas, rings, tails"):
        forum_of(cell(data=(("shape", "stars"),)))


def test_who_knows_everything_scores_about_the_floor():
    scores = [truth_nll(Cell("agreement", "single", 10, 0, seed, EFFORT)) for seed in range(40)]
    assert pytest.approx(0.5 * np.log(2 * np.pi * np.e * 5)) == FLOOR
    assert abs(np.mean(scores) - FLOOR) < 4.5 * np.std(scores) / np.sqrt(len(scores))


def test_clusterings_find_clusters_that_are_far_apart():
    forum = forum_of(cell(data=(("radius", 30.0),)))
    for name in CLUSTERINGS:
        scores = measure_baseline(name, forum, 0)
        assert scores["ari"] == 1.0 if not name.startswith("Bayesian") else scores["ari"] > 0.7
        assert np.isnan(scores["nll"])


def test_regressions_come_near_the_floor_with_many_threads():
    forum = forum_of(Cell("agreement", "single", 2000, 0, 0, EFFORT, n_users=20))
    for name in set(BASELINES) - set(CLUSTERINGS):
        scores = measure_baseline(name, forum, 0)
        assert scores["nll"] == pytest.approx(truth_nll(cell(n_users=20)), abs=0.1)
        assert np.isnan(scores["ari"])

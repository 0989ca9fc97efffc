"""The forum of a cell: one of the paper's scenarios, perhaps with other features than the paper's.

Options of a cell's data: those of the scenario itself (radius and so on), and

- shuffled 1: features dealt to other users at random, so that the two views have nothing to do with
  each other;
- shape bananas, rings or tails: features of the agreement scenario that no Gaussian fits. Bananas
  bend around the cluster's
  center, rings lie inside each other around the origin, tails are Student's t with two degrees of
  freedom.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from dualview.datasets import Forum, agreement, disagreement, iris
from dualview.errors import InputError
from reproduction.cells import Cell

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

SCENARIOS: dict[str, Callable[..., Forum]] = {
    "agreement": agreement,
    "disagreement": disagreement,
    "iris": iris,
}
NOISE_VARIANCE = 5.0

_CHANGES = 1001  # spawn key of the stream that changes features, far from those of the scenarios
_RADIUS = 0.45


def forum_of(cell: Cell) -> Forum:
    """Draw the forum; the same cell gives the same one."""
    options = dict(cell.data)
    shape, shuffled = options.pop("shape", None), options.pop("shuffled", 0)
    scenario = SCENARIOS[cell.scenario]
    forum = scenario(
        cell.n_users, cell.n_threads, seed=cell.seed, repetition=cell.repetition, **options
    )
    rng = default_rng(SeedSequence(cell.seed, spawn_key=(_CHANGES,)))
    features = forum.features
    if shape is not None:
        if shape not in SHAPES:
            raise InputError(f"shape must be one of {', '.join(SHAPES)}; got {shape!r}.")
        features = SHAPES[str(shape)](rng, forum.labels)
    if shuffled:
        features = features[rng.permutation(len(features))]
    return replace(forum, features=features)


def n_true_clusters(forum: Forum) -> int:
    """Clusters of the truth."""
    return len(np.unique(forum.labels))


def _centers(labels: Labels) -> Array:
    """Each user's place on the circle of the agreement scenario."""
    angle = 2 * np.pi * (labels + 1) / (labels.max() + 1)
    return _RADIUS * np.column_stack([np.cos(angle), np.sin(angle)])


def _bananas(rng: Generator, labels: Labels) -> Array:
    along, across = rng.standard_normal((2, len(labels)))
    bent = np.column_stack([0.1 * along, 0.08 * (along**2 - 1) + 0.025 * across])
    return np.asarray(_centers(labels) + bent)


def _rings(rng: Generator, labels: Labels) -> Array:
    angle = 2 * np.pi * rng.random(len(labels))
    radius = 0.15 * (labels + 1) + 0.02 * rng.standard_normal(len(labels))
    return np.asarray(radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]))


def _tails(rng: Generator, labels: Labels) -> Array:
    scale = np.sqrt(2 / rng.chisquare(2, len(labels)))
    return np.asarray(
        _centers(labels) + 0.07 * scale[:, None] * rng.standard_normal((len(labels), 2))
    )


SHAPES: dict[str, Callable[[Generator, Labels], Array]] = {
    "bananas": _bananas,
    "rings": _rings,
    "tails": _tails,
}

"""Permutations with fixed seeds: the same for all models, another one for each split."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.worth.sets import Study
from dualview.forum import ForumData

Order = NDArray[np.int64]

_SEED = 31


@dataclass(frozen=True)
class Control:
    """What is done to data before they are split. words: in tables."""

    words: str
    of_study: Callable[[Study, int], Study]
    of_forum: Callable[[ForumData, int], ForumData]


def permutation(split: int, n: int) -> Order:
    """The permutation of n users or observations in a split."""
    return np.random.default_rng([_SEED, split]).permutation(n)


def permute_features(study: Study, split: int) -> Study:
    """Each user gets the features of another one."""
    order = permutation(split, study.n_users)
    return replace(study, features=study.features.iloc[order].reset_index(drop=True))


def permute_outcomes(study: Study, split: int) -> Study:
    """Each observation gets the outcome of another one, of whatever user."""
    return replace(study, outcome=study.outcome[permutation(split, len(study.outcome))])


def permute_forum_features(data: ForumData, split: int) -> ForumData:
    """Each user gets the features of another one."""
    order = permutation(split, len(data.numbers))
    return replace(
        data,
        features=data.features.iloc[order].set_axis(data.features.index),
        numbers=data.numbers.iloc[order].set_axis(data.numbers.index),
    )


def permute_forum_outcomes(data: ForumData, split: int) -> ForumData:
    """Each thread gets the outcome of another one, training and test threads alike."""
    outcome = np.concatenate([data.training.outcome, data.test.outcome])
    outcome = outcome[permutation(split, len(outcome))]
    n_training = len(data.training.outcome)
    return replace(
        data,
        training=replace(data.training, outcome=outcome[:n_training]),
        test=replace(data.test, outcome=outcome[n_training:]),
    )


CONTROLS = {
    "none": Control("as they are", lambda study, _: study, lambda data, _: data),
    "features": Control("features permuted", permute_features, permute_forum_features),
    "outcomes": Control("outcomes permuted", permute_outcomes, permute_forum_outcomes),
}

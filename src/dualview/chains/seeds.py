"""The seed of a fit, from which every chain gets its own random stream."""

import numbers as abstract
from typing import Any

import numpy as np

from dualview.errors import InputError


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """What ``random_state`` of the estimator stands for; None is another seed each time."""
    if random_state is None:
        return np.random.SeedSequence()
    if (
        isinstance(random_state, abstract.Integral)
        and not isinstance(random_state, bool)
        and int(random_state) >= 0
    ):
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    raise InputError(
        "random_state must be an int from 0, a Generator, a RandomState or None; got "
        f"{random_state!r}."
    )

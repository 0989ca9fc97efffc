"""Models of five users for joint tests, with a feature or without, linked or not; one user has no
observations."""

from typing import Any

import numpy as np

from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.model import Model
from dualview.units import GaussianPrior, Whitening

N_USERS = 5
USER = np.array([1, 2, 2, 3, 4, 1, 4, 4, 2])  # user 0 has no observations


def model(
    partition: Any, likelihood: Any, with_features: bool = True, pooled: bool = False
) -> Model:
    return Model(
        partition, np.zeros((N_USERS, 1)) if with_features else None, likelihood, N_USERS, pooled
    )


def linked(partition: Any, likelihood: Any, pooled: bool = False, n_features: int = 2) -> Model:
    x, q = np.zeros((N_USERS, n_features)), likelihood.n_dims
    units, feature_units = (
        Whitening.of(GaussianPrior(np.zeros(n), np.eye(n))) for n in (q, n_features)
    )
    return Model(
        partition, x, LinkedLikelihood.of(likelihood, x, units, feature_units), N_USERS, pooled
    )

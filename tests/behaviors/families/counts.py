"""Poisson counts of each user, as docs/families.md makes them of the family."""

from typing import Any

import numpy as np

from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.families.poisson import PoissonFamily, PoissonOutcome
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.units import GaussianPrior


class Counts(PerUser):
    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: Any = None,
        exposure: Any = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, True)
        counts = None if outcome is None else np.asarray(outcome, dtype=float)
        self._set(user, matrix, counts, names, None, n_users)
        self._set_effects(offset=None if exposure is None else np.log(exposure))

    def _learned(self) -> Family:
        return PoissonFamily()

    def family(self, new: Any, params: Any, n_draws: int) -> Outcome:  # noqa: ARG002
        return PoissonOutcome()

    def left_out(self) -> None:
        """There is no augmentation to leave rows out with."""

    def _latent_prior(self) -> GaussianPrior:
        typical = np.log(self.observed.mean() / np.exp(self.effects.offset).mean())
        return GaussianPrior(np.append(typical, np.zeros(self.n_dims - 1)), np.eye(self.n_dims))

"""q of latent vectors and of the components' means where rows are not normal given the family's
factor: by steps, of which none lowers the bound.

A step goes towards the messages that follow from q itself (``families.expected``), in natural
parameters; the whole way first, then half of it and so on, until the objective of q(f, μ) given the
other factors does not fall. That is a step along the natural gradient, so that a short enough one
raises it. Where ln p(y | η) is concave in η the objective has one maximum.

latent vectors (U, q); K components.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.latent import LatentApproximation, SoftPrior
from dualview.behaviors.approximation.rows import SoftRows
from dualview.behaviors.families.expected import ExpectedFactor

Array = NDArray[np.float64]

_MOST_STEPS = 50
_MOST_HALVINGS = 12
_LITTLE = 1e-3  # nats by which a step may raise the objective, and be the last


@dataclass(frozen=True)
class StepwiseRows(SoftRows):
    """q(f, μ), and the family's factor, of rows of one user each whose messages are expectations
    under q."""

    factor: ExpectedFactor

    def with_latent(self, prior: SoftPrior) -> "StepwiseRows":
        """A better q(f, μ): a step from here, or where it has other components the best one."""
        if self.component_means.shape != prior.means.shape:
            return self._solved(self.factor, prior)._risen(prior)
        return self._step(prior) or self

    def _risen(self, prior: SoftPrior) -> "StepwiseRows":
        """The best q(f, μ), to within little of its objective."""
        found = self
        for _ in range(_MOST_STEPS):
            after = found._step(prior)
            if after is None:
                break
            gain = after._objective(prior) - found._objective(prior)
            found = after
            if gain < _LITTLE:
                break
        return found

    def _solved(self, factor: ExpectedFactor, prior: SoftPrior) -> "StepwiseRows":
        """The best q(f, μ) given messages."""
        found = SoftRows.with_latent(replace(self, factor=factor), prior)
        assert isinstance(found, StepwiseRows)
        return found

    def _step(self, prior: SoftPrior) -> "StepwiseRows | None":
        """The next q(f, μ); None where no step raises the objective."""
        height = self._objective(prior)
        aim = self.factor.towards(self.likelihood.observed, self._moments)
        for n_halvings in range(_MOST_HALVINGS):
            share = 0.5**n_halvings
            found = self._solved(self.factor.between(aim, share), prior)
            if found._objective(prior) >= height:
                return found
        return None

    def _objective(self, prior: SoftPrior) -> float:
        """What the bound of all data has of q(f, μ), up to a constant that depends on the prior."""
        weights, means, total = prior.responsibilities, self.component_means, 0.0
        for k, precision in enumerate(prior.precisions):
            away = self.means - means[k]
            spread = self.covariances - self.crosses[k] - np.swapaxes(self.crosses[k], 1, 2)
            own = np.einsum("u,uij->ij", weights[k], spread) + (weights[k] * away.T) @ away
            own += weights[k].sum() * self.component_covariances[k]
            total -= 0.5 * float(np.sum(precision * own))
        away = means - prior.base_mean
        spread = self.component_covariances.sum(axis=0) + away.T @ away
        return total - 0.5 * float(np.sum(prior.base_precision * spread)) + self._bound

    def bound(self) -> float:
        return self._bound

    @cached_property
    def _bound(self) -> float:
        return super().bound()


def stepwise(latent: LatentApproximation) -> LatentApproximation:
    """q that is found by steps where its rows need that; else as it is."""
    if isinstance(latent, SoftRows) and isinstance(latent.factor, ExpectedFactor):
        return StepwiseRows(**{each.name: getattr(latent, each.name) for each in fields(SoftRows)})
    return latent

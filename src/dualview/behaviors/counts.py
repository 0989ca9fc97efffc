"""Counts of each user: events, purchases, visits.

user (n,), design (n, q), outcome (n,) of whole numbers from 0, latent (U, q).
"""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.families.negative_binomial import (
    NegativeBinomialFamily,
    NegativeBinomialOutcome,
)
from dualview.behaviors.families.poisson import PoissonFamily, PoissonOutcome
from dualview.behaviors.leave_one_out import LeaveOneOut, LeftOutPart
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.behaviors.records import Array, Params
from dualview.checks import index_names, numbers
from dualview.errors import InputError
from dualview.settings import check_choice
from dualview.units import GaussianPrior

CountFamily = Literal["negative binomial", "poisson"]
COUNT_FAMILIES: tuple[CountFamily, ...] = ("negative binomial", "poisson")
_MOST = 2.0**53  # beyond it not all whole numbers are numbers


class CountOutcomes(PerUser):
    """Counts, with a rate of each user's own: E y_i = exposure_i exp(x_iᵀ f_{u(i)}).

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: ids, or rows of X counted from 0.
    design : array or DataFrame (n, q)
        What rates depend on: a column for each part of the latent vector f_u.
    outcome : array (n,), optional
        The counts. Leave them out for observations to be predicted.
    exposure : array (n,), optional
        For how long, or how many, each row was counted, such as days or person-years: its logarithm
        is added to the location. Rows to be predicted need theirs, too.
    family : "negative binomial" or "poisson"
        "negative binomial": counts vary about their means with variance μ + μ²/r, and r is learned:
        ``posterior_["dispersion"]``. "poisson": with variance μ. ``check()`` says which will do.
    common, groups, offset : as in :class:`UserRegression`
        Coefficients, effects and offsets are on the scale of logarithms of rates.
    coefficient_prior : GaussianPrior, optional
        Over the coefficients of ``common``; by default N(0, 2.5² / variance of the column).
    intercept : bool
        Put a column of ones before the design, so that f_u begins with the logarithm of the user's
        rate.
    users, n_users : as in :class:`UserRegression`

    Notes
    -----
    Latent vectors have the constants Σ = I for columns scaled to a standard deviation of 1, and m =
    0 but for the coefficient of a constant column, which has the logarithm of the rate of all
    counts together. ``behavior_prior`` of the estimator gives others.

    Examples
    --------
    >>> behavior = CountOutcomes(["ann", "ann", "bob"], [[0.0], [1.0], [1.0]], [3, 0, 12],
    ...                          exposure=[1.0, 0.5, 2.0], intercept=True)
    >>> behavior.names, behavior.family_name
    (['intercept', 'x0'], 'negative binomial')
    """

    family_name: CountFamily

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        family: CountFamily = "negative binomial",
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        check_choice("family", family, COUNT_FAMILIES)
        self.family_name = family
        counts = None if outcome is None else _counts(outcome, len(matrix))
        known = None if offset is None else numbers(offset, "offset", n_dims=1)
        if exposure is not None:
            known = _log_exposure(exposure, len(matrix)) + (0.0 if known is None else known)
        self._set(user, matrix, counts, names, users, n_users)
        self._set_effects(common, groups, known, coefficient_prior)
        self.observation_ids = index_names(design)

    @property
    def scored_as(self) -> str:
        return "counts"

    @property
    def _is_poisson(self) -> bool:
        return self.family_name == "poisson"

    def _learned(self) -> Family:
        return PoissonFamily() if self._is_poisson else NegativeBinomialFamily()

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Locations are logarithms of means."""
        if self._is_poisson:
            return PoissonOutcome()
        return NegativeBinomialOutcome(params["dispersion"])

    def _latent_prior(self) -> GaussianPrior:
        prior, design = super()._latent_prior(), self.design
        constant = np.flatnonzero((np.ptp(design, axis=0) == 0.0) & (design[:1] != 0.0).any(axis=0))
        if not len(constant):
            return prior
        rate = (self.observed.sum() + 0.5) / np.exp(self.effects.offset).sum()
        mean = np.zeros(self.n_dims)
        mean[constant[0]] = np.log(rate) / design[0, constant[0]]
        return GaussianPrior(mean, prior.covariance)

    def left_out(self) -> LeaveOneOut | None:
        """Each observation given all others; None for Poisson counts, which have no augmentation to
        integrate vectors out with."""
        return None if self._is_poisson else super().left_out()

    def checked_parts(self) -> list[LeftOutPart]:
        """Poisson counts are checked given the latent vectors."""
        if not self._is_poisson:
            return super().checked_parts()
        return self._given_vectors()

    @property
    def advice_on_spread(self) -> str:
        if self._is_poisson:
            return 'family="negative binomial", for counts that vary more than their means say'
        return "what counts depend on besides: columns in design or common, or groups"

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> Self:
        """These counts and new ones, which are known too."""
        return self._joined(new, n_new, users)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        own = [] if self._is_poisson else ["dispersion"]
        return [*own, *super().param_names]

    def described(self) -> dict[str, Any]:
        return super().described() | {"family": self.family_name}

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.family_name = description["family"]
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {"family": self.family_name}


def _counts(outcome: Any, n: int) -> Array:
    values = numbers(outcome, "outcome", n_dims=1)
    if len(values) != n:
        raise InputError(f"outcome must have a value per row of design, {n}; got {len(values)}.")
    odd = np.flatnonzero((values < 0) | (values != np.floor(values)) | (values > _MOST))
    if len(odd):
        raise InputError(
            f"outcome must hold counts, whole numbers from 0 on; got {values[odd[0]]:g} in row "
            f"{odd[0]}. For other numbers use UserRegression."
        )
    return values


def _log_exposure(exposure: Any, n: int) -> Array:
    values = numbers(exposure, "exposure", n_dims=1)
    if len(values) != n:
        raise InputError(f"exposure must have a value per row of design, {n}; got {len(values)}.")
    odd = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(odd):
        raise InputError(
            f"exposure must hold finite numbers above 0; got {values[odd[0]]:g} in row {odd[0]}. "
            "Leave out rows in which nothing was counted."
        )
    return np.log(values)

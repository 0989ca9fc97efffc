"""Times until something happens, of which some are censored.

user (n,), design (n, q), outcome (n,) or ends (n, 2) of times, latent (U, q).
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dualview.behaviors.families.base import Outcome
from dualview.behaviors.families.interval import IntervalFamily
from dualview.behaviors.families.times import ERRORS, FAMILIES, TimeFamily, outcome_of
from dualview.behaviors.leave_one_out import LeaveOneOut, LeftOutPart
from dualview.behaviors.recorded import RecordedTimes, recorded_times
from dualview.behaviors.records import Array, Params
from dualview.behaviors.user_regression import UserRegression
from dualview.errors import InputError
from dualview.units import GaussianPrior


class SurvivalOutcomes(UserRegression):
    """Times until something happens, each user with a regression of its own of their logarithms:
    ln t_i = x_iᵀ f_{u(i)} + Z_i / k.

    Parameters
    ----------
    user : array (n,)
        Whose time it is: ids, or rows of X counted from 0.
    design : array or DataFrame (n, q)
        What times depend on: a column for each part of the latent vector f_u. One more of a column
        makes times longer by the factor e^f.
    time : array (n,) or Censored, optional
        Times above 0. ``Censored(low, high)`` where each is known to lie between two: without the
        low end it happened before the high one, without the high one it had not happened by the low
        one. Leave them out for times to be predicted.
    event : array (n,), optional
        1 or True where the time was seen, 0 or False where it is right-censored: it had not
        happened by then. All were seen by default.
    family : "weibull", "log-logistic" or "log-normal"
        The distribution of the errors Z: with "weibull" hazards rise or fall as powers of time,
        with the others they rise and then fall. k is learned.
    common, groups, offset, coefficient_prior, intercept : as in :class:`UserRegression`
        On the scale of the logarithms.
    users, n_users, noise_variance, ridge : as in :class:`UserRegression`
        noise_variance is that of ln t about its location.

    Notes
    -----
    ``posterior_["noise_precision"]`` is the precision of ln t about its location, for each family;
    the Weibull shape k is 1.283 times its root, the log-logistic one 1.814 times. Predictions are
    in the units of ``time``; ``survival(t)`` is the probability of a time beyond t.

    Examples
    --------
    >>> design, times, seen = [[0.0], [1.0], [1.0]], [1.5, 2.0, 3.0], [1, 1, 0]
    >>> behavior = SurvivalOutcomes([0, 0, 1], design, times, seen, intercept=True, n_users=3)
    >>> behavior.facts()["outcome"]
    '3 times, 2 of them seen, 1 right-censored'
    """

    observations = "times"
    times_family: str
    recorded: RecordedTimes

    def __init__(
        self,
        user: Any,
        design: Any,
        time: Any = None,
        event: Any = None,
        *,
        family: str = "weibull",
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
        noise_variance: float | None = None,
        ridge: float = 0.01,
    ) -> None:
        if family not in FAMILIES:
            raise InputError(f"family must be one of {', '.join(FAMILIES)}; got {family!r}.")
        super().__init__(
            user,
            design,
            common=common,
            groups=groups,
            offset=offset,
            coefficient_prior=coefficient_prior,
            intercept=intercept,
            users=users,
            n_users=n_users,
            noise_variance=noise_variance,
            ridge=ridge,
        )
        self.times_family, self.recorded = family, RecordedTimes()
        self.outcome = recorded_times(time, event, len(self.design))

    def described(self) -> dict[str, Any]:
        return super().described() | {"family": self.times_family}

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.times_family, behavior.recorded = description["family"], RecordedTimes()
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {"family": self.times_family}

    def _of_intervals(
        self, is_open: bool, record: Callable[[Array], tuple[Array, Array]]
    ) -> IntervalFamily:
        if self.times_family == "log-normal":
            return super()._of_intervals(is_open, record)
        return TimeFamily(self._noise(), is_open, record, ERRORS[self.times_family])

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Times about their locations, as they are recorded."""
        precision = np.asarray(params["noise_precision"], dtype=float)
        return outcome_of(self.times_family, precision, self.recorded)

    def left_out(self) -> LeaveOneOut | None:
        """Each time given all others, where the family has an augmentation."""
        return None if self.times_family == "weibull" else super().left_out()

    def checked_parts(self) -> list[LeftOutPart]:
        """Weibull times are checked given the latent vectors."""
        return self._given_vectors() if self.times_family == "weibull" else super().checked_parts()

    @property
    def advice_on_spread(self) -> str:
        others = [f'"{family}"' for family in FAMILIES if family != self.times_family]
        return f"family={' or '.join(others)}, which dv.compare tells apart"

"""A regression of each user's own: repeated measures, growth curves, doses and responses.

user (n,), design (n, q), outcome (n,), latent (U, q).
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import ledoit_wolf

from dualview.behaviors.base import Likelihood
from dualview.behaviors.effects import Scales
from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.families.gaussian import GaussianFamily, NormalOutcome
from dualview.behaviors.families.interval import Ends, IntervalFamily, IntervalOutcome
from dualview.behaviors.families.noise import (
    TYPICAL,
    KnownNoise,
    Noise,
    NoiseByCluster,
    NoiseByUser,
    NoisePrior,
    SharedNoise,
    Tails,
)
from dualview.behaviors.families.student import StudentFamily, StudentOutcome
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.behaviors.recorded import Recorded, inside, recorded_outcome
from dualview.behaviors.records import (
    Array,
    ClusterNoise,
    Evidence,
    Panel,
    Params,
    SampledEvidence,
    UserNoise,
    posterior_means,
)
from dualview.behaviors.regression_noise import (
    WITH_DOF,
    checked_noise,
    positive_rows,
    refuse_learned_noise,
    residual_variance,
    worth,
)
from dualview.checks import index_names, positive_number, varies
from dualview.errors import DataWarning, InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening

_MOST_SCORES = 11  # different whole numbers that are taken for scores
_ONE_EACH = 1.25  # observations per user, up to which users are said to have about one


class UserRegression(PerUser):
    """Each user has a regression of its own: y_i = x_iᵀ f_{u(i)} + noise, with effects outside the
    mixture where there are any.

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: ids, or rows of X counted from 0. Ids are matched with the index of
        X. Whole numbers are ids if X is None or its index holds whole numbers other than 0, 1, 2,
        …; else they count the rows of X. If both are possible and differ, the fit raises an error.
    design : array or DataFrame (n, q)
        What the outcome depends on: a column for each part of the latent vector f_u.
    outcome : array (n,) or Censored, optional
        The outcomes; ``Censored(low, high)`` where they are known to lie between two numbers. Leave
        them out for observations to be predicted.
    outcome_kind : "continuous", "rounded", "count" or dict
        Whether the numbers are exact, rounded, or counts, as ``columns=`` says of features: the
        step of rounded numbers is found, or given as {"kind": "rounded", "step": 0.5}; the
        regression is of counts, or of log1p of them where they are skewed or {"kind": "count",
        "scale": "log1p"} says so. Each number is then known to an interval: to half a step, and 0
        is anything below a half.
    common : array or DataFrame (n, C), optional
        Columns with one coefficient for everybody, outside the mixture:
        ``posterior_["coefficients"]``.
    groups : dict or DataFrame, optional
        Groups of observations that cut across users, as ``{"item": items, "lecturer": lecturers}``,
        each (n,): every level has an effect of its own, b ~ N(0, τ²), with τ of each group learned.
        ``posterior_["group_effects"]``, ``posterior_["group_sd"]``. Predictions for a level that
        the fit has not seen take its effect from N(0, τ²).
    offset : array (n,), optional
        Known numbers that are added to what is expected.
    weights : array (n,), optional
        Observation i has the noise variance 1/(s w_i), as means of w_i measurements have.
    standard_errors : array (n,), optional
        Known standard deviations of the noise, as in a meta-analysis: there is no noise to learn
        then.
    coefficient_prior : GaussianPrior, optional
        Over the coefficients of ``common``; by default N(0, variance of y / variance of the
        column).
    intercept : bool
        Put a column of ones before the design, so that f_u begins with the user's level.
    users : sequence, optional
        Ids of all users, those without observations included, in the order of the rows of an X
        without ids; by default those in ``user``, or the index of X. It says that whole numbers in
        ``user`` are ids.
    n_users : int, optional
        Number of users. It says that whole numbers in ``user`` are positions from 0.
    noise_variance : float, optional
        σ_0² of the noise's prior s ~ G(ν, 1/(ν σ_0²)): a guess, not a known noise. By default the
        variance around the users' own ridge estimates; where these leave too few degrees of
        freedom, half the variance around one regression for everybody. ν = 1, unless users have
        fewer observations than coefficients and outcomes repeat, as scores do: see
        docs/behaviors.md.
    noise : "shared", "cluster", "user" or "student"
        Whether all observations have the same noise, or those of each cluster's users their own:
        then clusters differ in how well their regressions fit, too, and ``noise_precision`` has a
        value for each user, that of its cluster. "user": each user has its own, around a typical
        one, ``posterior_["typical_noise_precision"]``. "student": all have the same noise with a
        Student-t distribution, under which a few outcomes may be far off; ``noise_precision`` is
        that of its scale.
    degrees_of_freedom : float, optional
        Above 1. Of Student-t noise: fewer, heavier tails. Of users' own noises: fewer, the more
        they differ. By default they are learned, ``posterior_["degrees_of_freedom"]``.
    ridge : float
        λ of the users' ridge estimates, which give the behavior view's constants.

    Examples
    --------
    >>> design, outcome = [[0.0], [1.0], [1.0]], [1.0, 2.0, 3.0]
    >>> behavior = UserRegression([0, 0, 1], design, outcome, intercept=True, n_users=3)
    >>> len(behavior), behavior.n_observations, behavior.names
    (3, 3, ['intercept', 'x0'])
    """

    observations = "observations"

    recorded: Recorded | None

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: Any = None,
        *,
        outcome_kind: Any = "continuous",
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        standard_errors: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
        noise_variance: float | None = None,
        noise: str = "shared",
        degrees_of_freedom: float | None = None,
        ridge: float = 0.01,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        y, self.recorded = recorded_outcome(outcome, outcome_kind, len(matrix))
        self._set(user, matrix, y, names, users, n_users)
        self._set_effects(common, groups, offset, coefficient_prior)
        self.observation_ids = index_names(design)
        self.noise_variance = (
            None if noise_variance is None else positive_number(noise_variance, "noise_variance")
        )
        self.ridge = positive_number(ridge, "ridge")
        self.noise, self.degrees_of_freedom = checked_noise(
            noise, degrees_of_freedom, self.recorded is None
        )
        self.weights = None if weights is None else positive_rows(weights, "weights", len(matrix))
        self.standard_errors = (
            None
            if standard_errors is None
            else positive_rows(standard_errors, "standard_errors", len(matrix))
        )
        if self.standard_errors is not None:
            learned = {
                "weights": weights,
                "noise_variance": noise_variance,
                f'noise="{noise}"': noise != "shared" or None,
            }
            refuse_learned_noise(learned)
        self._known_dof: float | None = None  # of a behavior that was saved

    def _copy(self) -> Self:
        other = super()._copy()
        for name in ("_ends", "_numbers", "_noise_prior"):
            other.__dict__.pop(name, None)
        return other

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Lower and upper ends of the outcomes (n,), on the scale of the regression."""
        return (
            (self.observed, self.observed)
            if self.recorded is None
            else self.recorded.intervals(self.observed)
        )

    @cached_property
    def _numbers(self) -> Array:
        """The outcomes on the scale of the regression; of an interval, about where in it they are
        expected."""
        return self.observed if self.recorded is None else inside(*self._ends)

    @property
    def _roots(self) -> Array | None:
        """By what rows are multiplied so that all have one noise, (n,): √weights, or 1/standard
        errors; None for 1."""
        if self.standard_errors is not None:
            return 1.0 / self.standard_errors
        return None if self.weights is None else np.sqrt(self.weights)

    def _scaled(self, values: Array) -> Array:
        """Rows (n, …) multiplied by their roots."""
        roots = self._roots
        return values if roots is None else values * roots.reshape(-1, *[1] * (values.ndim - 1))

    def _take_rest(self, rows: Any) -> None:
        self.weights = None if self.weights is None else self.weights[rows]
        self.standard_errors = None if self.standard_errors is None else self.standard_errors[rows]

    def like(self, new: Any, n_new: int) -> Self:
        """New observations; with known standard errors in the fit, they have some too.

        What was recorded of them is read as in the fit.
        """
        matched = super().like(new, n_new)
        matched.recorded = self._recorded_like(new)
        if (matched.standard_errors is None) != (self.standard_errors is None):
            raise InputError(
                "New observations must have standard_errors where those of the fit have, and "
                "only there: they say how much "
                "noise is around what is predicted. For the users' latent vectors alone use "
                "latent_ or predict_latent."
            )
        return matched

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> Self:
        """These observations and new ones, which have outcomes too; options are those of these
        observations."""
        if self.recorded is not None:
            raise self._takes_no_more("whose outcomes are not exact numbers")
        both = self._joined(new, n_new, users)
        if new is not None:
            sizes = (self.n_observations, new.n_observations)
            both.weights = _joined_rows(sizes, (self.weights, new.weights))
            errors = (self.standard_errors, new.standard_errors)
            both.standard_errors = _joined_rows(sizes, errors)
        return both

    def _recorded_like(self, new: Self) -> Recorded | None:
        if new.outcome is None or new.recorded is None:
            if self.recorded is not None and new.outcome is not None:
                self.recorded.checked(new.outcome, len(new.outcome))
            return self.recorded
        mine, theirs = (
            None if part is None else part.column.kind for part in (self.recorded, new.recorded)
        )
        if mine != theirs:
            raise InputError(
                "New outcomes must be recorded as those of the fit, which are "
                f"{mine or 'continuous'}; got {theirs}. Give "
                "outcome_kind and Censored as in the fit, or leave the outcomes out."
            )
        return self.recorded

    def fingerprint(self) -> dict[str, Any]:
        options: dict[str, Any] = {} if self.recorded is None else self.recorded.described()
        options |= {"noise_variance": self.noise_variance, "noise": self.noise, "ridge": self.ridge}
        if self.noise in WITH_DOF:
            options["degrees_of_freedom"] = self.degrees_of_freedom
        of_rows = {"weights": self.weights, "standard_errors": self.standard_errors}
        options |= {name: digest(values) for name, values in of_rows.items() if values is not None}
        return super().fingerprint() | options

    @property
    def noise_owner(self) -> NDArray[np.integer] | None:
        """The users of exact numbers with a noise that is learned and not the users' own."""
        is_learned = self.recorded is None and self.standard_errors is None
        return self.user if is_learned and self.noise in ("shared", "cluster") else None

    def described(self) -> dict[str, Any]:
        """Whether clusters have a noise of their own, and its prior, besides."""
        description = super().described() | (
            {} if self.recorded is None else self.recorded.described()
        )
        if self.standard_errors is not None:
            return description | {"standard_errors": True}
        if self.noise == "shared":
            return description
        if self.noise in WITH_DOF:
            return description | {
                "noise": self.noise,
                "degrees_of_freedom": self.degrees_of_freedom,
            }
        prior = self._noise_prior
        return description | {
            "noise": self.noise,
            "noise_variance": prior.variance,
            "noise_dof": prior.dof,
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.recorded = Recorded.from_description(description)
        behavior.noise = description.get("noise", "shared")
        behavior.degrees_of_freedom = description.get("degrees_of_freedom")
        behavior.noise_variance = description.get("noise_variance")
        behavior._known_dof = description.get("noise_dof", 1.0)
        behavior.weights, behavior.standard_errors = (
            None,
            np.empty(0) if description.get("standard_errors") else None,
        )
        return behavior

    @property
    def scored_as(self) -> str:
        return super().scored_as if self.recorded is None else self.recorded.scored_as

    def facts(self) -> dict[str, object]:
        """Users, those with observations, latent vector, outcome and how it is recorded."""
        found = super().facts()
        if self.recorded is not None and self.outcome is not None and len(self.outcome):
            found["outcome"] = self.recorded.facts(self.outcome)
        return found

    def ridge_estimate(self) -> Array:
        """Each user's own ridge estimate, (U,) or (U, q); 0 for users without observations."""
        estimate = self._ridge()
        return estimate[:, 0] if self.n_dims == 1 else estimate

    @cached_property
    def _panel(self) -> Panel:
        """Observations less a quick estimate of what acts outside the mixture."""
        outcome = self._numbers
        if not self.effects.none or self.effects.offset.any():
            outcome = outcome - self.effects.quick_estimate(self.design, outcome)
        return Panel.of(self.user, self._scaled(self.design), self._scaled(outcome), len(self))

    @property
    def _penalty(self) -> float:
        roots = self._roots
        return self.ridge if roots is None else self.ridge * float((roots**2).mean())

    def _ridge(self) -> Array:
        return posterior_means(self._panel.squares, self._panel.weighted, self._penalty)

    @property
    def is_one_each(self) -> bool:
        """With known standard errors one observation says how users of a cluster differ."""
        return self._one_each and self.standard_errors is None

    def _latent_prior(self) -> GaussianPrior:
        """Mean and shrunk covariance of the ridge estimates of those who have observations."""
        if self._share_vectors:
            return self._prior_of_shared()
        estimates = self._ridge()[self._panel.counts > 0]
        flat = [
            name
            for name, column in zip(self.names, estimates.T, strict=True)
            if len(estimates) < 2 or not varies(column)
        ]
        if flat:
            raise InputError(
                f"The users' own estimates of {', '.join(flat)} do not vary ({len(estimates)} "
                "user(s) with observations), so "
                "the behavior view has no scale. Give behavior_prior=GaussianPrior(mean, "
                "covariance)."
            )
        scale = estimates.std(axis=0, ddof=1)
        shrunk = ledoit_wolf((estimates - estimates.mean(axis=0)) / scale)[0]
        return GaussianPrior(estimates.mean(axis=0), shrunk * np.outer(scale, scale))

    def _prior_of_shared(self) -> GaussianPrior:
        """One regression for everybody, with what one observation says of it where all that varies
        is noise."""
        panel, roots = self._panel, self._roots
        squares = panel.squares.sum(axis=0) + self._penalty * np.eye(self.n_dims)
        mean = np.linalg.solve(squares, panel.weighted.sum(axis=0))
        weights = np.ones(self.n_observations) if roots is None else roots[self._order] ** 2
        variance = float(np.var(panel.outcome / np.sqrt(weights), ddof=1))
        covariance = variance * weights.sum() * np.linalg.solve(squares, np.eye(self.n_dims))
        return GaussianPrior(mean, 0.5 * (covariance + covariance.T))

    def _of_some_users(self) -> Self:
        """With one noise for all."""
        part = super()._of_some_users()
        part.noise = self.noise if self.noise == "student" else "shared"
        return part

    @cached_property
    def _noise_prior(self) -> NoisePrior:
        """σ_0² and ν."""
        if self.standard_errors is not None:
            return NoisePrior(1.0, 1.0)
        variance = self.noise_variance or residual_variance(
            self._panel, self._ridge(), self._penalty
        )
        return NoisePrior(
            variance,
            worth(self._panel, *self._ends) if self._known_dof is None else self._known_dof,
        )

    def _warn_of_few(self) -> None:
        """Warn where users have fewer observations than coefficients."""
        active = int((self._panel.counts > 0).sum())
        if self.n_dims > 1 and self.n_observations < self.n_dims * active:
            warnings.warn(
                f"{active} users have {self.n_observations} observations and {self.n_dims} "
                "coefficients each: a user's own "
                "regression can fit them exactly, so only what users of a cluster share tells "
                "the noise from differences "
                'between users. Give the design fewer columns, or use pooling="cluster", which '
                "gives a cluster one regression.",
                DataWarning,
                stacklevel=6,
            )

    def _warn_of_scores(self) -> None:
        """Warn of scores, about one from each user, whose noise only the prior tells."""
        if self.recorded is not None or self._roots is not None or self.noise_variance is not None:
            return
        active, y = int((self._panel.counts > 0).sum()), self.observed
        is_short = 2 < len(np.unique(y)) <= min(_MOST_SCORES, len(y) // 2)
        if len(y) > _ONE_EACH * active or not is_short or (y != np.round(y)).any():
            return
        warnings.warn(
            f"The outcomes are whole numbers from {y.min():g} to {y.max():g}, and {active} users "
            f"have {len(y)} of them: with "
            "about one each, nothing tells the noise from differences between users, so the "
            "noise is about its prior's. Use "
            'UserRegression(..., outcome_kind="rounded"), which takes scores for rounded '
            "numbers, or OrdinalOutcomes.",
            DataWarning,
            stacklevel=6,
        )

    def _check_fit(self) -> None:
        super()._check_fit()
        outcome = self._numbers
        if not (self.noise_variance or varies(outcome)):
            raise InputError(
                f"outcome is constant ({outcome[0]:g} throughout): there is nothing to explain."
            )
        if not self._share_vectors:
            self._warn_of_few()
        self._warn_of_scores()

    @property
    def _common_scale(self) -> float:
        return float(np.std(self._numbers, ddof=1))

    def _scales(self) -> Scales:
        return Scales(np.sqrt(self._noise_prior.variance), self._common_scale, self._roots)

    def _likelihood(self, units: Whitening, known: Array) -> Likelihood:
        sd = np.sqrt(self._noise_prior.variance)
        panel = Panel.of(
            self.user,
            self._scaled(self.design @ units.factor / sd),
            self._scaled((self._numbers - known) / sd),
            len(self),
        )
        if self.recorded is None:
            return UserRows(panel, self._learned())
        roots, order, low, high = self._roots, self._order, *self._ends
        sds = np.full(len(known), sd) if roots is None else sd / roots

        def working(values: Array) -> Array:
            return np.asarray(((values - known) / sds)[order])

        def record(numbers: Array) -> tuple[Array, Array]:
            """The ends of other numbers in working units."""
            assert self.recorded is not None
            outcome = np.empty(len(numbers))
            outcome[order] = numbers
            again = self.recorded.observed_again(outcome * sds + known, low, high)
            return working(again[0]), working(again[1])

        is_open = not np.isfinite([low, high]).all()
        family = self._of_intervals(is_open, record)
        return UserRows(panel, family, values=Ends(working(low), working(high), panel.outcome))

    def _of_intervals(
        self, is_open: bool, record: Callable[[Array], tuple[Array, Array]]
    ) -> IntervalFamily:
        """Of numbers that are known to intervals, in working units."""
        return IntervalFamily(self._noise(), is_open, record)

    def _learned(self) -> Family:
        """Of exact numbers."""
        if self.noise == "student":
            return StudentFamily(SharedNoise(self._noise_prior), Tails(self.degrees_of_freedom))
        return GaussianFamily(self._noise())

    def _noise(self) -> Noise:
        if self.standard_errors is not None:
            return KnownNoise()
        if self.noise == "user":
            return NoiseByUser(self._noise_prior, Tails(self.degrees_of_freedom))
        kind = NoiseByCluster if self.noise == "cluster" else SharedNoise
        return kind(self._noise_prior)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        own = [] if self.standard_errors is not None else ["noise_precision"]
        own += [TYPICAL] if self.noise == "user" else []
        own += (
            ["degrees_of_freedom"]
            if self.noise in WITH_DOF and self.degrees_of_freedom is None
            else []
        )
        return own + super().param_names

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:
        """Numbers about their locations, as they are recorded."""
        sds = np.asarray(params.get("noise_precision", np.ones(n_draws))) ** -0.5
        spread: Array | Callable[[slice], Array] = sds
        roots = new._roots
        if self.noise == "student":
            return StudentOutcome(sds, self._dof(params, n_draws), roots)
        if sds.ndim == 2:  # every user has its own; that of new users is added elsewhere
            theirs = np.column_stack([sds, np.zeros((len(sds), max(len(new) - len(self), 0)))])
            by_row = np.ones(len(new.user)) if roots is None else roots

            def spread(cases: slice) -> Array:
                return theirs[:, new.user[cases]] / by_row[cases]
        elif roots is not None:

            def spread(cases: slice) -> Array:
                return np.asarray(sds[:, None] / roots[cases])

        return (
            NormalOutcome(spread)
            if self.recorded is None
            else IntervalOutcome(spread, self.recorded)
        )

    def _noise_of_new(
        self, new: Self, params: Params, n_draws: int
    ) -> ClusterNoise | UserNoise | None:
        if self.noise in ("shared", "student"):
            return None
        unknown = new.user >= len(self)
        if new._roots is not None and (new._roots[unknown] != 1.0).any():
            raise InputError(
                f'With noise="{self.noise}", observations of users new to the fit cannot have '
                "weights: leave them out."
            )
        return self._own_noise(params, n_draws)

    def _own_noise(self, params: Params, n_draws: int) -> ClusterNoise | UserNoise:
        if self.noise == "user":
            return UserNoise(np.asarray(params[TYPICAL]), self._dof(params, n_draws))
        return ClusterNoise(np.asarray(params["noise_precision"]), *self._noise_prior)

    def _dof(self, params: Params, n_draws: int) -> Array:
        """Degrees of freedom of Student-t noise in S draws, (S,)."""
        known = self.degrees_of_freedom
        return np.asarray(
            params["degrees_of_freedom"] if known is None else np.full(n_draws, known), dtype=float
        )

    def evidence(
        self, new: Any, latent: Array, params: Params, n_new: int
    ) -> Evidence | SampledEvidence:
        """What observations of new users say of each one's vector, given the effects outside the
        mixture."""
        new = self.like(new, n_new)
        if self.recorded is not None and self.noise == "cluster":
            raise InputError(
                'With noise="cluster", observations of users new to the fit must be exact '
                "numbers; here intervals are known. "
                'Use noise="shared", or predict these users by their features alone.'
            )
        if self.recorded is not None or self.noise == "student":
            return super().evidence(new, latent, params, n_new)
        panel, rows = self._panel_of_new(new, n_new)
        roots = np.ones(len(rows)) if new._roots is None else new._roots[rows]
        design, outcome = panel.design * roots[:, None], (roots * panel.outcome)[None]
        if not new.effects.none or new.effects.offset.any():
            outcome = outcome - roots * new.effects.drawn_locations(params)[:, rows]
        linear = np.stack([panel.sums(design * own[:, None]) for own in outcome])
        squares = panel._replace(design=design).squares
        height = None if new._roots is None else panel.sums(np.log(roots))
        by_one = Evidence(
            -0.5 * panel.sums(outcome.T**2).T,
            linear,
            squares[None],
            1.0 * panel.counts,
            height=height,
        )
        if self.standard_errors is not None:
            return by_one.under(np.ones(len(outcome)), slice(None))
        precision = np.asarray(params["noise_precision"])
        if self.noise == "shared":
            return by_one.under(precision, slice(None))
        return by_one._replace(noise=self._own_noise(params, len(latent)))


def _joined_rows(sizes: tuple[int, int], parts: tuple[Array | None, ...]) -> Array | None:
    """Numbers of the rows of both, 1 where one has none; None where both have none."""
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(n) if part is None else part for n, part in zip(sizes, parts, strict=True)]
    )

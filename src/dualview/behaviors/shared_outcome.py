"""Outcomes shared by those who took part: thread lengths and their participants, (M8) to (M11).

participation (T, U) dense or sparse, outcome (T,), covariates (T, C), latent (U, 1).
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dualview.behaviors.effects import Effects
from dualview.behaviors.families.gaussian import NormalOutcome
from dualview.behaviors.ids import (
    Rows,
    counted,
    has_numbers,
    joined_ids,
    known_and_new,
    places_among,
)
from dualview.behaviors.leave_one_out import MOST_WHOLE, ThreadsLeaveOneOut
from dualview.behaviors.likelihoods.restricted import likely_noise
from dualview.behaviors.likelihoods.restricted import likely_prior as restricted_prior
from dualview.behaviors.likelihoods.ridge import ridge_estimate
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.predictor import LinearBehavior
from dualview.behaviors.records import Evidence, LatentPrior, Params, SampledEvidence
from dualview.behaviors.threads_given import (
    Named,
    check_coefficient_prior,
    checked_covariates,
    checked_noise_variance,
    checked_outcome,
    checked_users,
    coefficient_units,
    column_ids,
    column_numbers,
    outcome_variance,
    stacked,
    width_message,
)
from dualview.checks import (
    chosen_rows,
    column_names,
    index_names,
    listed,
    participation_matrix,
    positive_number,
    rows_text,
    varies,
)
from dualview.errors import AbsentError, DataWarning, InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

_NOISE_IN_MANIFESTS: dict[Any, str | None] = {
    None: "likelihood",
    "paper": None,
}  # as versions wrote it that had the paper's prior only
# threads × levels², up to which the noise's constant has the effects of groups projected out
_MOST_OF_GROUPS = 5e9
_SOLVER_TOLERANCE = 1e-8  # relative differences between ridge estimates that are rounding
_MOST_DENSE = 2_000_000  # cells of a participation matrix that is handed out whole


class SharedOutcome(LinearBehavior):
    """Each observation is the sum of the latent coefficients of those who took part, plus noise:
    y_t ~ N(P_t f, 1/s_y).

    Parameters
    ----------
    participation : array or scipy.sparse matrix (T, U)
        Who took part in each thread, with weights (0/1, counts, shares).
    outcome : array (T,), optional
        The outcomes. Leave them out for threads to be predicted.
    covariates : array or DataFrame (T, C), optional
        Properties of the threads, with a slope each, outside the mixture.
    intercept : bool
        Add a constant to the covariates.
    groups : dict or DataFrame, optional
        Groups of threads, as ``{"section": sections}``, each (T,): every level has an effect of its
        own, b ~ N(0, τ²), with τ of each group learned. ``posterior_["group_effects"]``,
        ``posterior_["group_sd"]``. Predictions for a level that the fit has not seen take its
        effect from N(0, τ²).
    noise_variance : float or "paper", optional
        σ_0² of the prior s_y ~ G(1, 1/σ_0²): a guess worth one observation, not a known noise. By
        default the noise that the restricted likelihood of one cluster estimates (docs/model.md).
        "paper": the outcome's sample variance, which inflates the noise where users explain most of
        it and threads are few.
    coefficient_prior : GaussianPrior, optional
        Over (intercept, slopes); by default N(mean of y, variance of y) and N(0, variance of y /
        variance of the column).
    users : sequence, optional
        Ids of the users, one per column of participation; by default its column names, where it is
        a DataFrame whose columns are called by anything other than 0, 1, 2, … They are matched with
        the index of X.
    ridge : float
        λ of the ridge estimate that gives the behavior view's constants, (M11), for weights in
        units of a thread's mean total weight: where rows sum to one, as in the paper, it is λ
        itself, and the unit in which participation is given does not matter.

    Examples
    --------
    >>> behavior = SharedOutcome([[1, 1, 0], [0, 1, 1]], outcome=[3.0, 5.0])
    >>> len(behavior), behavior.n_observations
    (3, 2)
    """

    observations = "threads"
    _names_all = True

    def __init__(
        self,
        participation: Any,
        outcome: ArrayLike | None = None,
        covariates: Any = None,
        intercept: bool = False,
        *,
        groups: Any = None,
        noise_variance: float | str | None = None,
        coefficient_prior: GaussianPrior | None = None,
        users: Sequence[Any] | None = None,
        ridge: float = 0.01,
    ) -> None:
        self.participation = participation_matrix(participation)
        names = column_ids(participation) if users is None else users
        self._user_numbers = column_numbers(participation) if users is None else None
        if names is None and self._user_numbers is not None and not self._user_numbers.count_from_0:
            names = self._user_numbers.ids
        self.users = checked_users(names, self.participation.shape[1])
        self.observation_ids = index_names(participation)
        self.outcome = (
            None if outcome is None else checked_outcome(outcome, self.participation.shape)
        )
        self.covariate_names = column_names(covariates)
        self.covariates = (
            None
            if covariates is None
            else checked_covariates(covariates, self.covariate_names, self.n_observations)
        )
        if not isinstance(intercept, bool | np.bool_):
            raise InputError(f"intercept must be True or False; got {intercept!r}.")
        self.intercept = bool(intercept)
        self.noise_variance = checked_noise_variance(noise_variance)
        self.coefficient_prior = coefficient_prior
        self.ridge = positive_number(ridge, "ridge")
        self.effects = Effects.of(self.n_observations, None, groups, None, None)
        if coefficient_prior is not None:
            check_coefficient_prior(coefficient_prior, self.coefficient_names)

    @property
    def has_ids(self) -> bool:
        """Whether columns are called by ids: text, or numbers other than those that pandas counts
        columns by."""
        return self.users is not None or (
            self._user_numbers is not None and self._user_numbers.labeled
        )

    def _seen(self) -> range:
        return range(len(self))

    def _on_ids(self, rows: Rows, ids: list[str]) -> "SharedOutcome":
        if self.has_ids:
            return self.aligned(ids)
        self._refuse_counted(ids)
        return self._renamed(ids if len(self) == rows.n else None)

    def _refuse_counted(self, ids: Sequence[str]) -> None:
        """Raise where columns that pandas has counted may as well be called by these ids, and the
        two differ."""
        numbers = counted(len(self))
        if self._user_numbers is not None and list(ids) != numbers and set(ids) == set(numbers):
            raise InputError(
                "The columns of participation are called 0, 1, 2, …, and the index of X holds "
                "the same numbers in another "
                "order. If they are ids, say users=participation.columns. If columns are in the "
                "order of the rows of X, pass "
                "participation.to_numpy()."
            )

    def _on_rows(self, rows: Rows) -> "SharedOutcome":
        if self._user_numbers is None or self._user_numbers.increase or len(self) != rows.n:
            return self._renamed(self.users)
        if not rows.is_table or set(self._user_numbers.ids) != set(counted(rows.n)):
            raise InputError(
                "The columns of participation are called by numbers, "
                f"{listed(self._user_numbers.ids[:3])}, …, and X has no "
                "ids. If columns are in the order of the rows of X, pass "
                "participation.to_numpy(). If they are ids, give X "
                "ids: a DataFrame with ids as its index."
            )
        return self.aligned(counted(rows.n)).without_ids()

    def called_as(self, known: Sequence[str] | None) -> "SharedOutcome":
        """The same new threads, with numbers as names of columns read as the users of a fit are
        called."""
        numbers = self._user_numbers
        if numbers is None:
            return self
        if not numbers.labeled:
            self._refuse_counted(known or ())
        if not numbers.labeled or (numbers.count_from_0 and not has_numbers(known or ())):
            return self.without_ids()
        if known is not None:
            return self._renamed(numbers.ids)
        return self.with_users(numbers.values.tolist(), None, int(numbers.values.max()) + 1)

    def with_users(
        self, places: Sequence[int], users: list[str] | None, n_users: int | None = None
    ) -> "SharedOutcome":
        n = len(users) if users is not None else n_users or len(self)
        matrix, order = self.participation, np.asarray(places, dtype=np.int64)
        if not np.array_equal(order, np.arange(n)):
            given = sparse.coo_array(matrix)
            shape = (given.shape[0], n)
            matrix = sparse.csr_array((given.data, (given.row, order[given.col])), shape=shape)
        return self._with_participation(matrix, users)

    def aligned(self, users: Sequence[str]) -> "SharedOutcome":
        """The same threads with the users in this order; columns stay dense where they are."""
        found = super().aligned(users)
        if found is not self:
            place = {user: u for u, user in enumerate(self.ids or ())}
            found.participation = self.participation[:, [place[user] for user in users]]
        return found

    def _with_participation(self, participation: Any, users: list[str] | None) -> "SharedOutcome":
        """The same threads with other columns of users, and their ids."""
        other = copy.copy(self)
        other.__dict__.pop("noise_constant", None)
        other.participation, other.users, other._user_numbers = participation, users, None
        return other

    def advice(self, n_rows: int) -> str:
        """What to do when X has another number of rows than there are users."""
        if self.n_observations == n_rows:
            return (
                f"It has {n_rows} threads: if participation is (n_users, n_threads), it is "
                "transposed and participation.T is "
                "right; else give X a row per user, not per thread."
            )
        return "Give both the same users, in the same order."

    def coords(self) -> dict[str, Any]:
        """Names of the coefficients outside the mixture, and of the levels of groups."""
        return {"coefficient": self.coefficient_names} | self.effects.coords()

    def described(self) -> dict[str, Any]:
        """Number of users and of threads, and names of the coefficients."""
        covariates = self.coefficient_names[int(self.intercept) :]
        size = {"n_users": len(self), "n_observations": self.n_observations}
        told = {
            "kind": "SharedOutcome",
            **size,
            "intercept": self.intercept,
            "covariates": covariates,
        }
        if self.outcome is not None or isinstance(self.noise_variance, float):
            told["noise_variance"] = self.noise_constant
        return told | self.effects.described()

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> "SharedOutcome":
        """A behavior with one empty thread, that predicts."""
        names = description["covariates"]
        covariates = Named(np.zeros((1, len(names))), names) if names else None
        nobody = sparse.csr_array((1, description["n_users"]))
        options = {"intercept": description["intercept"], "users": description["users"]}
        behavior = cls(
            nobody,
            covariates=covariates,
            noise_variance=description.get("noise_variance"),
            **options,
        )
        behavior.effects = Effects.from_description(description)
        return behavior

    def __len__(self) -> int:
        return int(self.participation.shape[1])

    def __getitem__(self, key: object) -> Any:
        raise InputError(
            "A behavior cannot be cut by users, because observations are shared between them: to "
            "cross-validate, cut over "
            "observations with behavior.split(n_splits), fit on the first and predict the second."
        )

    def __repr__(self) -> str:
        outcome = "no outcome" if self.outcome is None else "outcome"
        return f"SharedOutcome({self.n_observations} threads, {len(self)} users, {outcome})"

    def facts(self) -> dict[str, object]:
        """Users, threads, coefficients outside the mixture, outcome."""
        found = super().facts()
        outside = ", ".join(self.coefficient_names) or "none"
        return {
            "users": found["users"],
            "threads": f"{self.n_observations:,}",
            "latent": found["latent"],
        } | {
            "outside the mixture": outside,
            "outcome": found["outcome"],
        }

    @property
    def n_observations(self) -> int:
        """The number of threads."""
        return int(self.participation.shape[0])

    @property
    def coefficient_names(self) -> list[str]:
        """Names of what stands outside the mixture: the intercept, then the covariates."""
        n_covariates = 0 if self.covariates is None else self.covariates.shape[1]
        names = self.covariate_names or [f"x{c}" for c in range(n_covariates)]
        return (["intercept"] if self.intercept else []) + names

    @cached_property
    def coefficient_design(self) -> Array:
        """(T, C) with the intercept's ones first."""
        parts = [np.ones((self.n_observations, 1))] if self.intercept else []
        if self.covariates is not None:
            parts.append(self.covariates)
        return np.hstack(parts) if parts else np.empty((self.n_observations, 0))

    def take(self, threads: ArrayLike) -> "SharedOutcome":
        """The behavior of some threads only, by position or mask; everybody stays a user."""
        rows = chosen_rows(threads, self.n_observations, "threads")
        part = SharedOutcome(
            self.participation[rows],
            None if self.outcome is None else self.outcome[rows],
            covariates=self._named_covariates(rows),
            intercept=self.intercept,
            noise_variance=self.noise_variance,
            coefficient_prior=self.coefficient_prior,
            users=self.users,
            ridge=self.ridge,
        )
        part.observation_ids = (
            None
            if self.observation_ids is None
            else np.asarray(self.observation_ids)[rows].tolist()
        )
        part.effects, part._user_numbers = self.effects.take(rows), self._user_numbers
        return part

    def left_out(self) -> ThreadsLeaveOneOut:
        """Each thread given all others, (L1), and the effects of groups."""
        groups = None if self.effects.none else self.effects.locations
        return ThreadsLeaveOneOut(
            self.participation,
            self.coefficient_design,
            self.observed,
            self.coefficient_units(),
            groups,
        )

    def as_new(self, user: int) -> "SharedOutcome":
        """The threads of one user, whose column is a new one behind those of the users of the
        fit."""
        columns = sparse.csc_array(self.participation)
        own = columns[:, [user]]
        rest = columns - sparse.csc_array(
            (own.data, (own.indices, np.full(own.nnz, user))), shape=columns.shape
        )
        rest.eliminate_zeros()
        wide = self._with_participation(sparse.csr_array(sparse.hstack([rest, own])), None)
        return wide.take(np.sort(own.indices))

    def evidence_of_users(
        self, priors: Sequence[LatentPrior], latent: Array, params: Params
    ) -> Callable[[int], Evidence | SampledEvidence]:
        """With the vectors of all users integrated out, where they have one each and threads are
        not very many."""
        if (
            priors[0].precisions is None
            or self.n_observations > MOST_WHOLE
            or not self.effects.none
        ):
            return super().evidence_of_users(priors, latent, params)
        threads = self.left_out()
        found = [
            threads.evidence(prior, float(s))
            for prior, s in zip(priors, params["noise_precision"], strict=True)
        ]
        constant, linear, precision = (np.array(part) for part in zip(*found, strict=True))
        return lambda user: Evidence(
            constant[:, [user]], linear[:, [user], None], precision[:, [user], None, None]
        )

    def user_weights(self) -> Any:
        """The participation matrix."""
        return self.participation

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Participants of each thread, the participation matrix, as triplets where it is large, and
        the covariates."""
        matrix = sparse.coo_array(self.participation)
        data: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {
            "n_participants": (
                ("observation",),
                np.bincount(matrix.row, minlength=self.n_observations),
            )
        }
        if self.n_observations * len(self) <= _MOST_DENSE:
            data["participation"] = (("observation", "user"), matrix.toarray())
        else:
            parts = {"thread": matrix.row, "user": matrix.col, "weight": matrix.data}
            data |= {
                f"participation_{name}": (("participant",), np.asarray(part))
                for name, part in parts.items()
            }
        if self.coefficient_names:
            data["covariates"] = (("observation", "coefficient"), self.coefficient_design)
        return data | self.effects.constant_data()

    def _named_covariates(self, rows: NDArray[Any]) -> Any:
        if self.covariates is None:
            return None
        return Named(self.covariates[rows], self.covariate_names)

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the threads and the options, by name."""
        prior = self.coefficient_prior
        return {
            "participation": digest(self.participation),
            "outcome": None if self.outcome is None else digest(self.outcome),
            "covariates": None if self.covariates is None else digest(self.covariates),
            "intercept": self.intercept,
            "noise_variance": _NOISE_IN_MANIFESTS.get(self.noise_variance, self.noise_variance),
            "coefficient_prior": None if prior is None else digest(prior.mean, prior.covariance),
            "ridge": self.ridge,
        } | self.effects.fingerprint()

    def ridge_estimate(self) -> Array:
        """f̂ of (M11), (U,); intercept and covariates enter unpenalised."""
        penalty = self.ridge * self._weight_unit() ** 2
        return ridge_estimate(
            self.participation, self._ungrouped(), self.coefficient_design, penalty
        )

    def _ridge_prior(self) -> GaussianPrior:
        """Mean and variance of the ridge estimate, (M11)."""
        estimate = self.ridge_estimate()
        if not varies(estimate, _SOLVER_TOLERANCE):
            outcome_variance(self.observed)
            raise InputError(
                "The ridge estimates of the latent coefficients are all equal, so the behavior "
                "view has no scale: does participation differ between users? To fit anyway, give "
                "behavior_prior=GaussianPrior(m, variance)."
            )
        return GaussianPrior(estimate.mean(), float(np.var(estimate, ddof=1)))

    @cached_property
    def noise_constant(self) -> float:
        """σ_0² of (M9): as given, the outcome's variance as in the paper, or what the restricted
        likelihood estimates."""
        if isinstance(self.noise_variance, float):
            return self.noise_variance
        variance = outcome_variance(self.observed)
        if self.noise_variance == "paper":
            return variance
        outcome, outside, n_levels = (
            self.observed,
            self.coefficient_design,
            int(self.effects.bounds[-1]),
        )
        if (
            n_levels > self.n_observations // 2
            or self.n_observations * n_levels**2 > _MOST_OF_GROUPS
        ):
            outcome = self._ungrouped()
        elif n_levels:
            outside = np.hstack(
                [outside, *(levels.toarray() for levels in self.effects.indicators())]
            )
        found = likely_noise(self.participation, outcome, outside)
        return variance if found is None else found

    def _ungrouped(self) -> Array:
        """The outcomes less a quick estimate of the effects of groups."""
        if self.effects.none:
            return self.observed
        totals = np.asarray(self.participation.sum(axis=1)).reshape(-1, 1)
        design = np.hstack([totals, self.coefficient_design])
        return self.observed - self.effects.quick_estimate(design, self.observed)

    def _weight_unit(self) -> float:
        """Mean total weight of a thread, to 12 digits: 1 exactly where rows sum to one up to
        rounding."""
        unit = float(abs(self.participation).sum()) / self.n_observations
        return float(f"{unit:.12g}") if unit > 0.0 else 1.0

    def _warn_of_confounding(self) -> None:
        """Warn of an intercept that adding a number to every coefficient would replace, unless its
        prior was chosen."""
        totals = np.asarray(self.participation.sum(axis=1)).ravel()
        if (
            self.intercept
            and self.coefficient_prior is None
            and totals.any()
            and not varies(totals)
        ):
            warnings.warn(
                f"The weights of every thread add up to the same total ({totals[0]:.3g}), so an "
                "intercept cannot be told apart "
                "from the mean of the users' coefficients: only their sum is known, and both mix "
                "slowly. Predictions are not "
                "affected. Use intercept=False, or weights that are not divided by their sum.",
                DataWarning,
                stacklevel=5,
            )

    @property
    def observed(self) -> Array:
        """The outcomes; an error where there are none."""
        if self.outcome is None:
            raise AbsentError(
                "Outcomes are needed here: pass SharedOutcome(participation, outcome)."
            )
        return self.outcome

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:
        """Constants of the behavior view by restricted likelihood, in place of mean and variance of
        ridge estimates.

        Users' coefficients are taken for draws from one normal distribution, around slopes on the
        features (U, D) where these are given; its mean and variance are those under which the
        outcomes are most likely. Ridge estimates vary with the noise too, and when users have few
        threads most of their variance is that.
        """
        outcome_variance(self.observed)
        return restricted_prior(
            self.participation, self._ungrouped(), self.coefficient_design, features
        )

    def coefficient_units(self) -> Whitening:
        """The units in which intercept and slopes have the prior N(0, I); from the data where no
        prior is given."""
        if self.coefficient_prior is not None:
            return Whitening.of(self.coefficient_prior)
        covariates = (
            np.empty((self.n_observations, 0)) if self.covariates is None else self.covariates
        )
        return coefficient_units(self.observed, self.intercept, covariates, self.coefficient_names)

    @property
    def param_names(self) -> list[str]:
        """The likelihood's parameters that predictions need, by their names in the posterior."""
        return (
            ["noise_precision"]
            + (["coefficients"] if self.coefficient_names else [])
            + self.effects.param_names
        )

    @property
    def _acts_outside(self) -> bool:
        return bool(self.coefficient_names) or super()._acts_outside

    def outside(self, params: Params, cases: slice = slice(None), drawn: bool = False) -> Array:
        """Intercept and slopes besides."""
        found = super().outside(params, cases, drawn)
        if not self.coefficient_names:
            return found
        return np.asarray(params["coefficients"] @ self.coefficient_design[cases].T + found)

    def family(self, new: "SharedOutcome", params: Params, n_draws: int) -> NormalOutcome:  # noqa: ARG002
        """Numbers with normal noise."""
        return NormalOutcome(1.0 / np.sqrt(params["noise_precision"]))

    def _known_locations(
        self, new: "SharedOutcome", latent: Array, params: Params | None = None
    ) -> Callable[[slice], Array]:
        known = new.participation[:, : len(self)]

        def locations(cases: slice) -> Array:
            expected = np.asarray(known[cases] @ latent.T).T
            return expected + new.outside(params or {}, cases) if new._acts_outside else expected

        return locations

    def _loads(self, new: "SharedOutcome", n_new: int) -> Any:  # noqa: ARG002
        return sparse.csr_array(new.participation[:, len(self) :])

    def evidence(self, new: Any, latent: Array, params: Params, n_new: int) -> Evidence:
        """What outcomes of threads with new users say of each one's coefficient, given S draws of
        everybody else's."""
        threads = self.like(new, n_new)
        loads = self._loads(threads, n_new)
        crowded = np.diff(loads.indptr) > 1
        if crowded.any():
            raise InputError(
                f"Each thread may have one new user; {rows_text(crowded)} of behavior_new have "
                "more. Without a new fit their coefficients cannot be told apart: leave those "
                "threads out, or fit again with these users."
            )
        everything = slice(0, threads.n_observations)
        residual = threads.observed - self._known_locations(threads, latent, params)(everything)
        if threads.effects.has_unseen:
            residual = residual - (threads.outside(params, drawn=True) - threads.outside(params))
        precision = params["noise_precision"][:, None]
        squares = np.asarray(loads.multiply(loads).sum(axis=0))
        taking_part = np.asarray((loads != 0).astype(float).toarray())
        log_density = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * residual**2
        linear, curvature = precision * (residual @ loads), precision * squares
        return Evidence(log_density @ taking_part, linear[..., None], curvature[..., None, None])

    def like(self, new: Any, n_new: int) -> "SharedOutcome":
        """New threads, checked to be of the users of the fit and n_new others, with the same
        covariates."""
        threads = self.threads(new).called_as(self.users)
        if self.users is not None and threads.users is not None:
            everybody = known_and_new(threads.users, self.users, n_new, "threads")
            threads = threads.with_users(
                places_among(threads.users, everybody, "threads"), everybody
            )
        n_known, (n_threads, width) = len(self), threads.participation.shape
        alone = n_new > 0 and width == n_new
        if not alone and width != n_known + n_new:
            raise InputError(width_message(threads.participation.shape, n_known, n_new))
        if threads.coefficient_names != self.coefficient_names:
            raise InputError(
                "New threads must have the coefficients of the fit, "
                f"{self.coefficient_names or 'none'}; got "
                f"{threads.coefficient_names or 'none'}. Pass SharedOutcome(participation, "
                "covariates=..., intercept=...)."
            )
        participation = threads.participation
        if alone:
            silent = sparse.csr_array((n_threads, n_known))
            participation = sparse.hstack([silent, sparse.csr_array(participation)], format="csr")
        matched = threads._with_participation(participation, threads.users)
        matched.effects = self.effects.like(threads.effects)
        return matched

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> "SharedOutcome":
        """These threads and new ones, which have outcomes too; covariates and options are those of
        these threads."""
        if not self.effects.none:
            raise self._takes_no_more("with groups")
        everybody = None if users is None else list(users)
        if new is None:
            nothing = sparse.csr_array((0, len(self) + n_new))
            return self._with_participation(stacked(self.participation, nothing, n_new), everybody)
        new = self.threads(new).called_as(users)
        if new.users is not None and users is not None:
            new = new.with_users(places_among(new.users, users, "threads"), None, len(users))
        threads = self.like(new, n_new)
        both = self._with_participation(
            stacked(self.participation, threads.participation, n_new), everybody
        )
        both.__dict__.pop("coefficient_design", None)
        both.outcome = np.concatenate([self.observed, threads.observed])
        if self.covariates is not None and threads.covariates is not None:
            both.covariates = np.vstack([self.covariates, threads.covariates])
        both.observation_ids = joined_ids(self.observation_ids, threads.observation_ids, "threads")
        both.effects = Effects.of(both.n_observations, None, None, None, None)
        return both

    def threads(self, new: Any) -> "SharedOutcome":
        """New threads; a bare matrix is short for those without covariates."""
        return (
            new if isinstance(new, SharedOutcome) else SharedOutcome(new, intercept=self.intercept)
        )

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, ThreadRegression]:
        """Units of the latent coefficients, and the regression in working units."""
        if self.n_observations < 2:
            raise InputError(f"A fit needs at least two threads; got {self.n_observations}.")
        self._warn_of_confounding()
        if prior is None:
            prior = self._ridge_prior()
        prior.check_size(1, "behavior_prior")
        return self._regression(prior)

    def _regression(self, prior: GaussianPrior) -> tuple[Whitening, ThreadRegression]:
        """Units of the latent coefficients, and the regression in working units."""
        noise_variance = self.noise_constant
        units = Whitening.of(prior)
        coefficient_units = self.coefficient_units()
        sd = np.sqrt(noise_variance)
        self.effects.check_columns()
        expected = self.participation @ np.full(len(self), prior.mean[0])
        expected = expected + self.coefficient_design @ coefficient_units.mean
        regression = ThreadRegression(
            design=self.participation * (units.factor[0, 0] / sd),
            coefficient_design=self.coefficient_design @ coefficient_units.factor / sd,
            outcome=(self.observed - expected) / sd,
            noise_variance=noise_variance,
            coefficient_units=coefficient_units,
        )
        if self.effects.none:
            return units, regression
        n_common, effects = regression.n_coefficients, self.effects
        columns = [sparse.csr_array(regression.coefficient_design), *effects.indicators()]
        spread = float(np.std(regression.outcome, ddof=1))
        return units, replace(
            regression,
            design=sparse.csr_array(regression.design),
            coefficient_design=sparse.hstack(columns, format="csr"),
            bounds=n_common + effects.bounds,
            scales=np.full(len(effects.factors), spread),
        )

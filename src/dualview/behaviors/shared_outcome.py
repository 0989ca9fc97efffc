"""Outcomes shared by those who took part: thread lengths and their participants, (M8) to (M11).

participation (T, U) dense or sparse, outcome (T,), covariates (T, C), latent (U, 1).
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dualview.behaviors.base import Behavior, fold_positions, joined_ids
from dualview.behaviors.effects import Effects
from dualview.behaviors.likelihoods.grouped_threads import GroupedThreads
from dualview.behaviors.likelihoods.restricted import likely_prior
from dualview.behaviors.likelihoods.ridge import ridge_estimate
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.records import Evidence, Forecast, LatentPrior, Params, SampledEvidence
from dualview.behaviors.threads_given import (
    Named,
    check_coefficient_prior,
    checked_covariates,
    checked_outcome,
    checked_users,
    coefficient_units,
    matched_columns,
    outcome_variance,
    placed_columns,
    stacked_threads,
    width_message,
)
from dualview.behaviors.threads_left_out import MOST_WHOLE, ThreadsLeftOut
from dualview.checks import (
    column_names,
    index_names,
    participation_matrix,
    positive_number,
    rows_text,
    varies,
)
from dualview.errors import DataWarning, InputError
from dualview.files.digests import digest
from dualview.outcomes import NormalOutcome
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]

_MOST_DENSE = 2_000_000  # cells of a participation matrix that is handed out whole
_SOLVER_TOLERANCE = 1e-8  # relative differences between ridge estimates that are rounding


class SharedOutcome(Behavior):
    """Each observation is the sum of the latent coefficients of those who took part, plus noise: y_t ~ N(P_t f, 1/s_y).

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
        Groups of threads, as ``{"section": sections}``, each (T,): every level has an effect of its own, b ~ N(0, τ²), with τ
        of each group learnt. ``posterior_["group_effects"]``, ``posterior_["group_sd"]``. Predictions for a level that the fit
        has not seen take its effect from N(0, τ²).
    noise_variance : float, optional
        σ_0² of the prior s_y ~ G(1, 1/σ_0²); the outcome's sample variance by default. Not a known noise.
    coefficient_prior : GaussianPrior, optional
        Over (intercept, slopes); by default N(mean of y, variance of y) and N(0, variance of y / variance of the column).
    users : sequence, optional
        Ids of the users, one per column of participation; by default its column names, where it is a DataFrame with names.
    ridge : float
        λ of the ridge estimate that gives the behavior view's constants, (M11), for weights in units of a thread's mean total
        weight: where rows sum to one, as in the paper, it is λ itself, and the unit in which participation is given does not
        matter.

    Examples
    --------
    >>> behavior = SharedOutcome([[1, 1, 0], [0, 1, 1]], outcome=[3.0, 5.0])
    >>> len(behavior), behavior.n_observations
    (3, 2)
    """

    def __init__(
        self,
        participation: Any,
        outcome: ArrayLike | None = None,
        covariates: Any = None,
        intercept: bool = False,
        *,
        groups: Any = None,
        noise_variance: float | None = None,
        coefficient_prior: GaussianPrior | None = None,
        users: Sequence[Any] | None = None,
        ridge: float = 0.01,
    ) -> None:
        self.participation = participation_matrix(participation)
        names = column_names(participation) if users is None else users
        self.users = checked_users(names, self.participation.shape[1])
        self.observation_ids = index_names(participation)
        self.outcome = None if outcome is None else checked_outcome(outcome, self.participation.shape)
        self.covariate_names = column_names(covariates)
        self.covariates = (
            None if covariates is None else checked_covariates(covariates, self.covariate_names, self.n_observations)
        )
        if not isinstance(intercept, bool | np.bool_):
            raise InputError(f"intercept must be True or False; got {intercept!r}.")
        self.intercept = bool(intercept)
        self.noise_variance = None if noise_variance is None else positive_number(noise_variance, "noise_variance")
        self.coefficient_prior = coefficient_prior
        self.ridge = positive_number(ridge, "ridge")
        self.effects = Effects.of(self.n_observations, None, groups, None, None)
        if coefficient_prior is not None:
            check_coefficient_prior(coefficient_prior, self.coefficient_names)

    def aligned(self, users: Sequence[str]) -> "SharedOutcome":
        """The same threads with the users in this order."""
        if self.users is None or self.users == list(users):
            return self
        place = {user: u for u, user in enumerate(self.users)}
        missing = [user for user in users if user not in place]
        extra = sorted(set(self.users) - set(users))
        if missing or extra:
            parts = [f"only in X: {', '.join(missing[:5])}"] if missing else []
            parts += [f"only in the behavior: {', '.join(extra[:5])}"] if extra else []
            raise InputError(f"X and behavior must be of the same users, by their ids; {'; '.join(parts)}.")
        result = replace_participation(self, self.participation[:, [place[user] for user in users]])
        result.users = list(users)
        return result

    def advice(self, n_rows: int) -> str:
        """What to do when X has another number of rows than there are users."""
        if self.n_observations == n_rows:
            return (
                f"It has {n_rows} threads: if participation is (n_users, n_threads), it is transposed and participation.T is "
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
        told = {"kind": "SharedOutcome", **size, "intercept": self.intercept, "covariates": covariates}
        return told | self.effects.described()

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> "SharedOutcome":
        """A behavior with one empty thread, that predicts."""
        names = description["covariates"]
        covariates = Named(np.zeros((1, len(names))), names) if names else None
        nobody = sparse.csr_array((1, description["n_users"]))
        behavior = cls(nobody, covariates=covariates, intercept=description["intercept"], users=description["users"])
        behavior.effects = Effects.from_description(description)
        return behavior

    def __len__(self) -> int:
        return int(self.participation.shape[1])

    def __getitem__(self, key: object) -> Any:
        raise InputError(
            "A behavior cannot be cut by users, because observations are shared between them: to cross-validate, cut over "
            "observations with behavior.split(n_splits), fit on the first and predict the second."
        )

    def __repr__(self) -> str:
        outcome = "no outcome" if self.outcome is None else "outcome"
        return f"SharedOutcome({self.n_observations} threads, {len(self)} users, {outcome})"

    def facts(self) -> dict[str, object]:
        """Users, threads, coefficients outside the mixture, outcome."""
        found = super().facts()
        outside = ", ".join(self.coefficient_names) or "none"
        return {"users": found["users"], "threads": f"{self.n_observations:,}", "latent": found["latent"]} | {
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
        rows = np.asarray(threads)
        if rows.ndim != 1 or rows.dtype.kind not in "iub":
            raise InputError(f"take needs positions or a mask of the {self.n_observations} threads; got {threads!r}.")
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
        part.observation_ids = None if self.observation_ids is None else np.asarray(self.observation_ids)[rows].tolist()
        part.effects = self.effects.take(rows)
        return part

    def left_out(self) -> ThreadsLeftOut:
        """Each thread given all others, (L1), and the effects of groups."""
        groups = None if self.effects.none else self.effects.locations
        return ThreadsLeftOut(self.participation, self.coefficient_design, self.observed, self.coefficient_units(), groups)

    def as_new(self, user: int) -> "SharedOutcome":
        """The threads of one user, whose column is a new one behind those of the users of the fit."""
        columns = sparse.csc_array(self.participation)
        own = columns[:, [user]]
        rest = columns - sparse.csc_array((own.data, (own.indices, np.full(own.nnz, user))), shape=columns.shape)
        rest.eliminate_zeros()
        wide = replace_participation(self, sparse.csr_array(sparse.hstack([rest, own])))
        wide.users = None
        return wide.take(np.sort(own.indices))

    def evidence_of_users(
        self, priors: Sequence[LatentPrior], latent: Array, params: Params
    ) -> Callable[[int], Evidence | SampledEvidence]:
        """With the vectors of all users integrated out, where they have one each and threads are not very many."""
        if priors[0].precisions is None or self.n_observations > MOST_WHOLE or not self.effects.none:
            return super().evidence_of_users(priors, latent, params)
        threads = self.left_out()
        found = [threads.evidence(prior, float(s)) for prior, s in zip(priors, params["noise_precision"], strict=True)]
        constant, linear, precision = (np.array(part) for part in zip(*found, strict=True))
        return lambda user: Evidence(constant[:, [user]], linear[:, [user], None], precision[:, [user], None, None])

    def user_weights(self) -> Any:
        """The participation matrix."""
        return self.participation

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Participants of each thread, the participation matrix, as triplets where it is large, and the covariates."""
        matrix = sparse.coo_array(self.participation)
        data: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {
            "n_participants": (("observation",), np.bincount(matrix.row, minlength=self.n_observations))
        }
        if self.n_observations * len(self) <= _MOST_DENSE:
            data["participation"] = (("observation", "user"), matrix.toarray())
        else:
            parts = {"thread": matrix.row, "user": matrix.col, "weight": matrix.data}
            data |= {f"participation_{name}": (("participant",), np.asarray(part)) for name, part in parts.items()}
        if self.coefficient_names:
            data["covariates"] = (("observation", "coefficient"), self.coefficient_design)
        return data | self.effects.constant_data()

    def _named_covariates(self, rows: NDArray[Any]) -> Any:
        if self.covariates is None:
            return None
        return Named(self.covariates[rows], self.covariate_names)

    def split(self, n_splits: int = 5, *, seed: int = 0) -> Iterator[tuple["SharedOutcome", "SharedOutcome"]]:
        """Pairs (training threads, held-out threads) for cross-validation over observations."""
        for training, held_out in self.folds(n_splits, seed=seed):
            yield self.take(training), self.take(held_out)

    def folds(self, n_splits: int = 5, *, seed: int = 0) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The positions of the observations that :meth:`split` cuts into, as scikit-learn's ``cv`` takes them."""
        return fold_positions(self.n_observations, n_splits, seed, "threads")

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the threads and the options, by name."""
        prior = self.coefficient_prior
        return {
            "participation": digest(self.participation),
            "outcome": None if self.outcome is None else digest(self.outcome),
            "covariates": None if self.covariates is None else digest(self.covariates),
            "intercept": self.intercept,
            "noise_variance": self.noise_variance,
            "coefficient_prior": None if prior is None else digest(prior.mean, prior.covariance),
            "ridge": self.ridge,
        } | self.effects.fingerprint()

    def ridge_estimate(self) -> Array:
        """f̂ of (M11), (U,); intercept and covariates enter unpenalised."""
        return ridge_estimate(self.participation, self._ungrouped, self.coefficient_design, self.ridge * self._weight_unit**2)

    @property
    def _ungrouped(self) -> Array:
        """The outcomes less a quick estimate of the effects of groups."""
        if self.effects.none:
            return self.observed
        totals = np.asarray(self.participation.sum(axis=1)).reshape(-1, 1)
        return self.observed - self.effects.quick_estimate(np.hstack([totals, self.coefficient_design]), self.observed)

    @property
    def _weight_unit(self) -> float:
        """Mean total weight of a thread, to 12 digits: 1 exactly where rows sum to one up to rounding."""
        unit = float(abs(self.participation).sum()) / self.n_observations
        return float(f"{unit:.12g}") if unit > 0.0 else 1.0

    @property
    def observed(self) -> Array:
        """The outcomes; an error where there are none."""
        if self.outcome is None:
            raise InputError("Outcomes are needed here: pass SharedOutcome(participation, outcome).")
        return self.outcome

    def _latent_prior(self) -> GaussianPrior:
        """Mean and variance of the ridge estimate, (M11)."""
        estimate = self.ridge_estimate()
        if not varies(estimate, _SOLVER_TOLERANCE):
            outcome_variance(self.observed)
            raise InputError(
                "The ridge estimates of the latent coefficients are all equal, so the behavior view has no scale: does "
                "participation differ between users? To fit anyway, give behavior_prior=GaussianPrior(m, variance)."
            )
        return GaussianPrior(estimate.mean(), float(np.var(estimate, ddof=1)))

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:
        """Constants of the behavior view by restricted likelihood, in place of mean and variance of ridge estimates.

        Users' coefficients are taken for draws from one normal distribution, around slopes on the features (U, D) where these
        are given; its mean and variance are those under which the outcomes are most likely. Ridge estimates vary with the noise
        too, and when users have few threads most of their variance is that.
        """
        outcome_variance(self.observed)
        return likely_prior(self.participation, self._ungrouped, self.coefficient_design, features)

    def coefficient_units(self) -> Whitening:
        """The units in which intercept and slopes have the prior N(0, I); from the data where no prior is given."""
        if self.coefficient_prior is not None:
            return Whitening.of(self.coefficient_prior)
        covariates = np.empty((self.n_observations, 0)) if self.covariates is None else self.covariates
        return coefficient_units(self.observed, self.intercept, covariates, self.coefficient_names)

    @property
    def param_names(self) -> list[str]:
        """The likelihood's parameters that predictions need, by their names in the posterior."""
        return ["noise_precision"] + (["coefficients"] if self.coefficient_names else []) + self.effects.param_names

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The distribution of new outcomes given S draws: latent (S, U) and params in the user's units.

        new: a SharedOutcome or a bare participation matrix, columns the users of the fit and then n_new unknown ones.
        """
        threads = self._like(new, n_new)
        known = threads.participation[:, : len(self)]

        def locations(cases: slice) -> Array:
            expected = np.asarray(known[cases] @ latent.T).T
            if self.coefficient_names:
                expected = expected + params["coefficients"] @ threads.coefficient_design[cases].T
            if not self.effects.none:
                expected = expected + threads.effects.locations(params, cases)
            return np.asarray(expected)

        unsure = (lambda cases: threads.effects.variances(params, cases)) if threads.effects.has_unseen else None
        loads, outcome = (
            sparse.csr_array(threads.participation[:, len(self) :]),
            NormalOutcome(1.0 / np.sqrt(params["noise_precision"])),
        )
        return Forecast(threads.n_observations, locations, outcome, loads, unsure=unsure)

    def evidence(self, new: Any, latent: Array, params: Params, n_new: int) -> Evidence:
        """What outcomes of threads with new users say of each one's coefficient, given S draws of everybody else's."""
        threads = self._like(new, n_new)
        forecast = self.forecast(threads, latent, params, n_new)
        loads = forecast.loads
        crowded = np.flatnonzero(np.diff(loads.indptr) > 1)
        if len(crowded):
            raise InputError(
                f"Each thread may have one new user; {rows_text(np.diff(loads.indptr) > 1)} of behavior_new have more. Without "
                "a new fit their coefficients cannot be told apart: leave those threads out, or fit again with these users."
            )
        residual = threads.observed - forecast.known(slice(0, forecast.n))  # (S, n)
        if threads.effects.has_unseen:
            residual = residual - (threads.effects.drawn_locations(params) - threads.effects.locations(params))
        precision = params["noise_precision"][:, None]
        squares = np.asarray(loads.multiply(loads).sum(axis=0))
        taking_part = np.asarray((loads != 0).astype(float).toarray())
        log_density = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * residual**2
        linear, curvature = precision * (residual @ loads), precision * squares
        return Evidence(log_density @ taking_part, linear[..., None], curvature[..., None, None])

    def _like(self, new: Any, n_new: int) -> "SharedOutcome":
        """New threads, checked to be of the users of the fit and n_new others, with the same covariates."""
        threads = new if isinstance(new, SharedOutcome) else SharedOutcome(new, intercept=self.intercept)
        if self.users is not None and threads.users is not None:
            columns, users = matched_columns(threads.participation, threads.users, self.users, n_new)
            threads = replace_participation(threads, columns)
            threads.users = users
        n_known, width = len(self), len(threads)
        alone = n_new > 0 and width == n_new
        if not alone and width != n_known + n_new:
            raise InputError(width_message(threads.participation.shape, n_known, n_new))
        if threads.coefficient_names != self.coefficient_names:
            raise InputError(
                f"New threads must have the coefficients of the fit, {self.coefficient_names or 'none'}; got "
                f"{threads.coefficient_names or 'none'}. Pass SharedOutcome(participation, covariates=..., intercept=...)."
            )
        threads = replace_participation(threads, threads.participation)
        threads.effects = self.effects.like(threads.effects)
        if alone:
            silent = sparse.csr_array((threads.n_observations, n_known))
            wide = sparse.hstack([silent, sparse.csr_array(threads.participation)], format="csr")
            return replace_participation(threads, wide)
        return threads

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> "SharedOutcome":
        """These threads and new ones, which have outcomes too; covariates and options are those of these threads."""
        if not self.effects.none:
            raise self._lacks("extended", "take in more threads where they have groups")
        everybody = None if users is None else list(users)
        if new is None:
            nothing = sparse.csr_array((0, len(self) + n_new))
            wider = replace_participation(self, stacked_threads(self.participation, nothing, n_new))
            wider.users = everybody
            return wider
        if isinstance(new, SharedOutcome) and new.users is not None and users is not None:
            new = replace_participation(new, placed_columns(new.participation, new.users, users))
            new.users = None
        threads, both = self._like(new, n_new), copy.copy(self)
        both.__dict__.pop("coefficient_design", None)
        both.participation = stacked_threads(self.participation, threads.participation, n_new)
        both.outcome = np.concatenate([self.observed, threads.observed])
        if self.covariates is not None and threads.covariates is not None:
            both.covariates = np.vstack([self.covariates, threads.covariates])
        both.users = everybody
        both.observation_ids = joined_ids(self.observation_ids, threads.observation_ids, "threads")
        both.effects = Effects.of(both.n_observations, None, None, None, None)
        return both

    def _warn_of_confounding(self) -> None:
        """Warn of an intercept that adding the same number to every coefficient would replace, unless its prior was chosen."""
        totals = np.asarray(self.participation.sum(axis=1)).ravel()
        if self.intercept and self.coefficient_prior is None and totals.any() and not varies(totals):
            warnings.warn(
                f"The weights of every thread add up to the same total ({totals[0]:.3g}), so an intercept cannot be told apart "
                "from the mean of the users' coefficients: only their sum is known, and both mix slowly. Predictions are not "
                "affected. Use intercept=False, or weights that are not divided by their sum.",
                DataWarning,
                stacklevel=5,
            )

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, ThreadRegression]:
        """Units of the latent coefficients, and the regression in working units."""
        if self.n_observations < 2:
            raise InputError(f"A fit needs at least two threads; got {self.n_observations}.")
        self._warn_of_confounding()
        if prior is None:
            prior = self._latent_prior()
        prior.check_size(1, "behavior_prior")
        noise_variance = self.noise_variance or outcome_variance(self.observed)
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
            noise_variance=float(noise_variance),
            coefficient_units=coefficient_units,
        )
        return units, regression if self.effects.none else self._grouped(regression)

    def _grouped(self, regression: ThreadRegression) -> GroupedThreads:
        """The regression with the groups."""
        parts = {field.name: getattr(regression, field.name) for field in fields(regression)}
        n_common, effects = regression.n_coefficients, self.effects
        columns = [sparse.csr_array(regression.coefficient_design), *effects.indicators()]
        parts |= {"design": sparse.csr_array(regression.design), "coefficient_design": sparse.hstack(columns, format="csr")}
        spread = float(np.std(regression.outcome, ddof=1))
        return GroupedThreads(**parts, bounds=n_common + effects.bounds, scales=np.full(len(effects.factors), spread))


def replace_participation(threads: SharedOutcome, participation: Any) -> SharedOutcome:
    """The same threads with other columns of users."""
    wider = copy.copy(threads)
    wider.participation = participation
    return wider

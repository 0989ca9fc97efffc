"""A regression of each user's own: repeated measures, growth curves, doses and responses.

user (n,), design (n, q), outcome (n,), latent (U, q).
"""

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import ledoit_wolf

from dualview.behaviors.base import Array, ClusterNoise, Evidence, Forecast, Params
from dualview.behaviors.left_out import PanelLeftOut
from dualview.behaviors.likelihoods.panel import NoisePrior, PanelRegression
from dualview.behaviors.panel import Panel, PerUser, check_rank, posterior_means
from dualview.checks import column_names, index_names, numbers, positive_number, refuse_repeated_columns, varies
from dualview.errors import DataWarning, InputError
from dualview.outcomes import NormalOutcome
from dualview.units import GaussianPrior, Whitening

_LEAST_LEFT = 0.05  # of the observations, as degrees of freedom after the users' own estimates
_LEAST_SHARE = 1e-10  # of the outcome's variance; less is rounding


class UserRegression(PerUser):
    """Each user has a regression of its own: y_i = x_iᵀ f_{u(i)} + noise.

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: positions from 0, or ids.
    design : array or DataFrame (n, q)
        What the outcome depends on: a column for each part of the latent vector f_u.
    outcome : array (n,), optional
        The outcomes. Leave them out for observations to be predicted.
    intercept : bool
        Put a column of ones before the design, so that f_u begins with the user's level.
    users : sequence, optional
        Ids of all users, those without observations included; by default those in ``user``, or the index of X.
    n_users : int, optional
        Their number, where ``user`` holds positions.
    noise_variance : float, optional
        σ_0² of the noise's prior s ~ G(ν, 1/(ν σ_0²)): a guess, not a known noise. By default the variance around the users'
        own ridge estimates; where these leave too few degrees of freedom, half the variance around one regression for
        everybody. ν = 1, unless users have fewer observations than coefficients and outcomes repeat, as scores do: see
        docs/behaviors.md.
    noise : "shared" or "cluster"
        Whether all observations have the same noise, or those of each cluster's users their own: then clusters differ in how
        well their regressions fit, too, and ``noise_precision`` has a value for each user, that of its cluster.
    ridge : float
        λ of the users' ridge estimates, which give the behaviour view's constants.

    Examples
    --------
    >>> behavior = UserRegression([0, 0, 1], [[0.0], [1.0], [1.0]], [1.0, 2.0, 3.0], intercept=True, n_users=3)
    >>> len(behavior), behavior.n_observations, behavior.names
    (3, 3, ['intercept', 'x0'])
    """

    observations = "observations"

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: ArrayLike | None = None,
        *,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
        noise_variance: float | None = None,
        noise: str = "shared",
        ridge: float = 0.01,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        y = None if outcome is None else numbers(outcome, "outcome", n_dims=1)
        if y is not None and len(y) != len(matrix):
            raise InputError(f"outcome must have a value per row of design, {len(matrix)}; got {len(y)}.")
        self._set(user, matrix, y, names, users, n_users)
        self.observation_ids = index_names(design)
        self.noise_variance = None if noise_variance is None else positive_number(noise_variance, "noise_variance")
        self.ridge = positive_number(ridge, "ridge")
        if noise not in ("shared", "cluster"):
            raise InputError(f'noise must be "shared" or "cluster"; got {noise!r}.')
        self.noise = noise
        self._known_dof: float | None = None  # of a behaviour that was saved

    def fingerprint(self) -> dict[str, Any]:
        options = {"noise_variance": self.noise_variance, "noise": self.noise, "ridge": self.ridge}
        return super().fingerprint() | options

    def described(self) -> dict[str, Any]:
        """Whether clusters have a noise of their own, and its prior, besides."""
        description = super().described()
        if self.noise == "shared":
            return description
        prior = self._noise_prior
        return description | {"noise": self.noise, "noise_variance": prior.variance, "noise_dof": prior.dof}

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.noise = description.get("noise", "shared")
        behavior.noise_variance = description.get("noise_variance")
        behavior._known_dof = description.get("noise_dof", 1.0)
        return behavior

    def ridge_estimate(self) -> Array:
        """Each user's own ridge estimate, (U,) or (U, q); 0 for users without observations."""
        estimate = self._ridge()
        return estimate[:, 0] if self.n_dims == 1 else estimate

    @cached_property
    def _panel(self) -> Panel:
        return Panel.of(self.user, self.design, self.observed, len(self))

    def _ridge(self) -> Array:
        return posterior_means(self._panel.squares, self._panel.weighted, self.ridge)

    def _latent_prior(self) -> GaussianPrior:
        """Mean and shrunk covariance of the ridge estimates of those who have observations."""
        estimates = self._ridge()[self._panel.counts > 0]
        flat = [name for name, column in zip(self.names, estimates.T, strict=True) if len(estimates) < 2 or not varies(column)]
        if flat:
            raise InputError(
                f"The users' own estimates of {', '.join(flat)} do not vary ({len(estimates)} user(s) with observations), so "
                "the behaviour view has no scale. Give behavior_prior=GaussianPrior(mean, covariance)."
            )
        scale = estimates.std(axis=0, ddof=1)
        shrunk = ledoit_wolf((estimates - estimates.mean(axis=0)) / scale)[0]
        return GaussianPrior(estimates.mean(axis=0), shrunk * np.outer(scale, scale))

    def _residual_variance(self) -> float:
        """The guess σ_0² of the noise's variance."""
        panel = self._panel
        residual = panel.outcome - panel.expected(self._ridge())
        spent = np.trace(np.linalg.solve(panel.squares + self.ridge * np.eye(self.n_dims), panel.squares), axis1=1, axis2=2)
        left, variance = len(residual) - float(spent.sum()), float(np.var(panel.outcome, ddof=1))
        if left >= max(2.0, _LEAST_LEFT * len(residual)):
            guess = float(residual @ residual) / left
        else:
            guess = 0.5 * self._common_variance()
        return guess if guess > _LEAST_SHARE * variance else variance

    def _common_variance(self) -> float:
        """The variance around one regression for everybody, or the outcome's where that leaves no degrees of freedom."""
        panel = self._panel
        coefficients, _, rank, _ = np.linalg.lstsq(panel.design, panel.outcome)
        residual, left = panel.outcome - panel.design @ coefficients, len(panel.outcome) - int(rank)
        return float(residual @ residual) / left if left >= 1 else float(np.var(panel.outcome, ddof=1))

    @property
    def _noise_prior(self) -> NoisePrior:
        """σ_0² and ν.

        Each user's own vector can fit up to q of its observations exactly; they say nothing about the noise. Where outcomes
        repeat, clusters can fit them exactly too, and the likelihood grows without bound as the noise vanishes. So the surplus
        of such observations over all others counts in ν, times the share of outcomes that repeat. Where all do, this keeps the
        noise variance near σ_0²/2 or above however well clusters fit.
        """
        variance = self.noise_variance or self._residual_variance()
        if self._known_dof is not None:
            return NoisePrior(variance, self._known_dof)
        panel = self._panel
        n_exact = int(np.minimum(panel.counts, self.n_dims).sum())
        _, place, counts = np.unique(panel.outcome, return_inverse=True, return_counts=True)
        repeated = float((counts[place] > 1).mean()) if len(place) else 0.0
        return NoisePrior(variance, 1.0 + repeated * max(0, 2 * n_exact - len(place)))

    def _warn_of_few(self) -> None:
        """Warn where users have fewer observations than coefficients."""
        active = int((self._panel.counts > 0).sum())
        if self.n_dims > 1 and self.n_observations < self.n_dims * active:
            warnings.warn(
                f"{active} users have {self.n_observations} observations and {self.n_dims} coefficients each: a user's own "
                "regression can fit them exactly, so only what users of a cluster share tells the noise from differences "
                'between users. Give the design fewer columns, or use pooling="cluster", which gives a cluster one regression.',
                DataWarning,
                stacklevel=5,
            )

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, PanelRegression]:
        """Units of the latent vectors, and the regression in working units."""
        outcome = self.observed
        if self.n_observations < 2:
            raise InputError(f"A fit needs at least two observations; got {self.n_observations}.")
        check_rank(self.design, self.names)
        if prior is None:
            prior = self._latent_prior()
        prior.check_size(self.n_dims, "behavior_prior")
        if not (self.noise_variance or varies(outcome)):
            raise InputError(f"outcome is constant ({outcome[0]:g} throughout): there is nothing to explain.")
        self._warn_of_few()
        noise_prior = self._noise_prior
        units, sd = Whitening.of(prior), np.sqrt(noise_prior.variance)
        centred = (outcome - self.design @ prior.mean) / sd
        panel = Panel.of(self.user, self.design @ units.factor / sd, centred, len(self))
        return units, PanelRegression(panel, noise_prior, self.noise == "cluster")

    def left_out(self) -> PanelLeftOut:
        """Each observation given all others, exactly: users are independent."""
        return PanelLeftOut(self.user, self.design, self.observed)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        return ["noise_precision"]

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The distribution of new outcomes given S draws of latent vectors and params in the user's units."""
        new = self.like(new, n_new)
        known, loads, sds = self._known_locations(new, latent), self._loads(new, n_new), params["noise_precision"] ** -0.5
        if self.noise == "shared":
            return Forecast(new.n_observations, known, NormalOutcome(sds), loads)
        theirs = np.column_stack([sds, np.zeros((len(sds), n_new))])
        noise = ClusterNoise(params["noise_precision"], *self._noise_prior)
        outcome = NormalOutcome(lambda cases: theirs[:, new.user[cases]])
        return Forecast(new.n_observations, known, outcome, loads, noise)

    def evidence(self, new: Any, latent: Array, params: Params, n_new: int) -> Evidence:  # noqa: ARG002
        """What observations of new users say of each one's vector."""
        panel, _ = self._panel_of_new(self.like(new, n_new), n_new)
        by_one = Evidence(
            -0.5 * panel.sums(panel.outcome**2)[None], panel.weighted[None], panel.squares[None], 1.0 * panel.counts
        )
        precision = np.asarray(params["noise_precision"])
        if self.noise == "shared":
            return by_one.under(precision, slice(None))
        return by_one._replace(noise=ClusterNoise(precision, *self._noise_prior))


def design_matrix(design: Any, intercept: bool) -> tuple[Array, list[str]]:
    """The design as numbers with the names of its columns, an intercept first."""
    refuse_repeated_columns(design, "design")
    matrix = numbers(design, "design", n_dims=2)
    if not isinstance(intercept, bool | np.bool_):
        raise InputError(f"intercept must be True or False; got {intercept!r}.")
    names = column_names(design) or [f"x{j}" for j in range(matrix.shape[1])]
    if intercept:
        matrix, names = np.column_stack([np.ones(len(matrix)), matrix]), ["intercept", *names]
    if matrix.shape[1] == 0:
        raise InputError("design must have at least one column, or intercept=True.")
    return np.ascontiguousarray(matrix), names

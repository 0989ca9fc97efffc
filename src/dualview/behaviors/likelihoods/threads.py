"""The likelihood of shared outcomes in working units, (M8) and (M9), and its draws, (C7) and (C8).

design (T, U) dense or sparse, outcome (T,), latent (U, 1).
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.approximation.many_threads import ManyEquations, SoftManyThreads
from dualview.behaviors.approximation.threads import SoftThreads, ThreadEquations
from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.regression import (
    ByCoefficients,
    ByConjugateGradients,
    CoefficientDraw,
    coefficient_draw,
    normal_equations,
)
from dualview.behaviors.likelihoods.with_effects import Confounded, EffectPrior
from dualview.behaviors.records import Params, Prior, Recentered, with_field
from dualview.distributions import G, Normal
from dualview.numerics.messages import Terms
from dualview.units import Whitening

Array = NDArray[np.float64]

# The sweep moves latent coefficients one user at a time; an occasional joint draw lets users who
# always appear together mix well. With covariates the joint draw is made in every step, unless so
# many coefficients would make it the slowest part by far; the other steps then draw the
# coefficients of covariates given those of users.
_JOINT_SHARE = 0.1
_JOINT_SHARE_WITH_COVARIATES = 0.3
_ALWAYS_TOGETHER = 300  # coefficients of users and covariates
_MOST_WITH_GRAM = 1000  # users
_GRAM_COST = 0.5  # a number of the gram matrix against one of the participation's
_MOST_FACTORISED = 1000  # coefficients whose precision a variational approximation factorises
_NOTHING = np.empty(0)
_OF_OUTCOMES = ("_draw", "_gram", "_equations")  # what is computed from outcomes too


@dataclass(frozen=True)
class ThreadRegression(Likelihood):
    """The regression of (M8) in working units: outcome = design g + coefficient_design e + noise, e
    ~ N(0, I), s ~ G(1, 1).

    Parameters are a dict: noise_precision (float) and coefficients (C,). With groups of threads
    coefficient_design is sparse and has the effects of levels after the columns of covariates,
    bounds and scales as in :class:`EffectPrior`; everything is drawn together, given group_sd.
    """

    design: Any
    coefficient_design: Array
    outcome: Array
    noise_variance: float
    coefficient_units: Whitening
    n_dims: int = 1
    by_gram: bool = True  # terms may have a gram matrix in place of residuals
    bounds: NDArray[np.int64] | None = None
    scales: Array = field(default_factory=lambda: np.empty(0))

    @cached_property
    def _draw(self) -> CoefficientDraw:
        return self._way(self._with_covariates(self.design), self.outcome)

    @property
    def has_groups(self) -> bool:
        return self.bounds is not None

    @property
    def effect_prior(self) -> EffectPrior:
        """Of all coefficients outside the mixture."""
        bounds = np.array([self.n_coefficients]) if self.bounds is None else self.bounds
        return EffectPrior(bounds, self.scales)

    def _way(self, design: Any, outcome: Array) -> CoefficientDraw:
        """How all coefficients are drawn."""
        if not self.has_groups:
            return coefficient_draw(design, outcome)
        small = design.shape[1] <= _MOST_FACTORISED
        return ByCoefficients(design, outcome) if small else ByConjugateGradients(design, outcome)

    @staticmethod
    def _spreads(params: Params) -> Array:
        """τ of each group, (G,)."""
        return np.array(params.get("group_sd", ()), dtype=float)

    def _with_covariates(self, design: Any) -> Any:
        """A design (T, N) with the columns of the covariates beside it."""
        if not self.n_coefficients:
            return design
        if sparse.issparse(design):
            return sparse.hstack([design, sparse.csr_array(self.coefficient_design)], format="csr")
        return np.hstack([design, self.coefficient_design])

    @cached_property
    def n_coefficients(self) -> int:
        return int(self.coefficient_design.shape[1])

    @property
    def n_users(self) -> int:
        return int(self.design.shape[1])

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From the prior's centre."""
        n_users = self.n_users
        centre = Prior(np.zeros(n_users, dtype=np.int64), np.zeros((1, 1)), np.ones((1, 1, 1)))
        latent, coefficients = self._draw_jointly(rng, 1.0, centre, np.ones(self.n_coefficients))
        noise_precision = self.noise_law(self.residual(latent, coefficients)).draw(rng)
        params = self.params_of(noise_precision, coefficients)
        return latent, params | ({"group_sd": self.effect_prior.start()} if self.has_groups else {})

    @cached_property
    def _loads(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], Array, Array]:
        """The design by users: starts, rows, loads and squares of the terms."""
        columns = sparse.csc_array(self.design)
        columns.sort_indices()
        squares = np.asarray(columns.multiply(columns).sum(axis=0)).reshape(-1, 1, 1)
        loads = np.ascontiguousarray(columns.data, dtype=float).reshape(-1, 1)
        return columns.indptr.astype(np.int64), columns.indices.astype(np.uint32), loads, squares

    @cached_property
    def _gram(self) -> tuple[Array, Array] | None:
        """designᵀ design and designᵀ outcome, where going through them is quicker than through the
        threads."""
        n_users, n_loads = self.n_users, len(self._loads[1])
        if (
            not self.by_gram
            or n_users > _MOST_WITH_GRAM
            or _GRAM_COST * n_users * n_users > n_loads
        ):
            return None
        return normal_equations(self.design, self.outcome)

    @cached_property
    def _equations(self) -> tuple[Array, Array]:
        """The same of users and covariates together, for a call of many sweeps; empty where there
        is none for users."""
        if self._gram is None:
            return np.empty((0, 0)), np.empty(0)
        return normal_equations(self._with_covariates(self.design), self.outcome)

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:
        """Terms whose residuals and weighted outcomes are made in the call; None where every step
        has a draw outside it."""
        if self.has_groups or (
            self.n_coefficients and (self._gram is None or not self._always_together)
        ):
            return None
        residual, precision = np.empty(len(self.outcome)), np.array([params["noise_precision"]])
        terms = Terms(*self._loads, residual, precision)
        if self._gram is not None:
            terms = terms._replace(gram=self._gram[0], weighted=np.empty(self.n_users))
        share = 1.0 if self.n_coefficients else _JOINT_SHARE
        coefficients = np.array(params["coefficients"])
        return terms, Conjugate(
            self.outcome,
            np.ascontiguousarray(self.coefficient_design),
            coefficients,
            *self._equations,
            share,
        )

    def params_of(self, noise_precision: float, coefficients: Array) -> Params:
        return {"noise_precision": noise_precision, "coefficients": coefficients}

    def with_residuals(self) -> "ThreadRegression":
        """The same with residuals in its terms always."""
        return replace(self, by_gram=False)

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:  # noqa: ARG002
        """One row per thread; they share the noise."""
        precision = np.array([params["noise_precision"]])
        if self._gram is None:
            return Terms(*self._loads, self.residual(latent, params["coefficients"]), precision)
        gram, weighted = self._gram
        if self.n_coefficients:
            weighted = weighted - self.design.T @ (self.coefficient_design @ params["coefficients"])
        return Terms(*self._loads, _NOTHING, precision, gram, weighted)

    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """Now and then all coefficients together, (C7), else those of covariates; then the noise,
        (C8).

        Clusters that share one coefficient do without a joint draw if there are no covariates.
        """
        share = _JOINT_SHARE_WITH_COVARIATES if self.n_coefficients else _JOINT_SHARE
        always = self.n_coefficients > 0 and (prior.pooled or self._always_together)
        if always or (not prior.pooled and rng.random() < share):
            return self.redraw_together(rng, latent, params, terms, prior)
        coefficients = params["coefficients"]
        if self.n_coefficients:
            coefficients = self._draw_of_covariates(rng, latent, params["noise_precision"])
        kept = not (self.n_coefficients or terms.gram.size)
        residual = terms.residual if kept else self.residual(latent, coefficients)
        return latent, self.params_of(self.noise_law(residual).draw(rng), coefficients)

    @property
    def _always_together(self) -> bool:
        """Whether a joint draw of all coefficients is cheap enough for every step."""
        return self.has_groups or self.n_users + self.n_coefficients <= _ALWAYS_TOGETHER

    def _draw_of_covariates(
        self, rng: np.random.Generator, latent: Array, noise_precision: float
    ) -> Array:
        """Their coefficients given those of users, (C7)."""
        left = self.outcome - self.design.dot(latent.ravel())
        n = self.n_coefficients
        return self._covariates.of(left).draw(rng, noise_precision, np.zeros(n), np.ones(n))

    @cached_property
    def _covariates(self) -> ByCoefficients:
        return ByCoefficients(self.coefficient_design, self.outcome)

    def redraw_together(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,
    ) -> tuple[Array, Params]:
        """All coefficients, (C7), how much the levels of each group vary, then the noise, (C8)."""
        noise, sds, effects = params["noise_precision"], self._spreads(params), self.effect_prior
        latent, coefficients = self._draw_jointly(rng, noise, prior, effects.precision(sds))
        residual = self.residual(latent, coefficients)
        if self.has_groups:
            weights = np.full(len(residual), noise)

            def added(own: slice) -> Array:
                return np.asarray(self._columns[:, own] @ coefficients[own])

            effects.redraw_spreads(rng, coefficients, sds, added, weights, residual)
        drawn = self.params_of(self.noise_law(residual).draw(rng), coefficients)
        return latent, drawn | ({"group_sd": sds} if self.has_groups else {})

    @cached_property
    def _columns(self) -> Any:
        return sparse.csc_array(self.coefficient_design)

    def recenter(
        self, rng: np.random.Generator, params: Params, base_mean: Array
    ) -> Recentered | None:
        """A step between effects of groups and the coefficients of all users where threads cannot
        tell them apart."""
        law = self.recentering_law(params, base_mean) if self.has_groups else None
        if law is None:
            return None
        step, coefficients = self._confounded.move(rng, law, params["coefficients"])
        return Recentered(step, params | {"coefficients": coefficients})

    def recentering_law(self, params: Params, base_mean: Array) -> Normal | None:
        """The distribution of that step, (C21)."""
        precision = self.effect_prior.precision(params["group_sd"])
        return self._confounded.step_law(params["coefficients"], precision, base_mean)

    @cached_property
    def _confounded(self) -> Confounded:
        totals = np.asarray(self.design.sum(axis=1)).reshape(-1, 1)
        return Confounded.of(sparse.csr_array(self.coefficient_design), totals)

    @property
    def can_approximate(self) -> bool:
        """Without groups."""
        return not self.has_groups

    def _draw_jointly(
        self,
        rng: np.random.Generator,
        noise_precision: float,
        prior: Prior,
        coefficient_precision: Array,
    ) -> tuple[Array, Array]:
        """Latent coefficients and coefficients of covariates, (C7); those of a cluster as one where
        users share it."""
        owner = np.arange(len(prior.means)) if prior.pooled else prior.z
        shift = np.zeros(self.n_users) if prior.shift is None else prior.shift[:, 0]
        mean, precision = prior.means[owner, 0], prior.factors[owner, 0, 0] ** 2
        if not prior.pooled:
            mean = mean + shift
        if self.n_coefficients:
            mean = np.concatenate([mean, np.zeros(self.n_coefficients)])
            precision = np.concatenate([precision, coefficient_precision])
        draw = self._draw_of_clusters(prior, shift) if prior.pooled else self._draw
        joint = draw.draw(rng, noise_precision, mean, precision)
        latent, coefficients = joint[: len(owner), None], joint[len(owner) :]
        return latent[prior.z] + shift[:, None] if prior.pooled else latent, coefficients

    def _draw_of_clusters(self, prior: Prior, shift: Array) -> CoefficientDraw:
        """The same with one column for each cluster, the sum of its users'."""
        places = (np.arange(self.n_users), prior.z)
        members = sparse.csr_array(
            (np.ones(self.n_users), places), (self.n_users, len(prior.means))
        )
        return self._way(
            self._with_covariates(self.design @ members), self.outcome - self.design @ shift
        )

    def approximate(self) -> SoftThreads | SoftManyThreads:
        """q of all coefficients together: by a factor of their precision where they are few, else
        by conjugate gradients."""
        design = self._with_covariates(self.design)
        if design.shape[1] > _MOST_FACTORISED:
            return SoftManyThreads.start(ManyEquations.of(self, design))
        return SoftThreads.start(ThreadEquations(self, *normal_equations(design, self.outcome)))

    def expected(self, latent: Array, coefficients: Array) -> Array:
        """Expected outcomes (T,)."""
        expected: Array = self.design.dot(latent.ravel())  # quicker than @ for few users
        if self.n_coefficients:
            expected = expected + self.coefficient_design @ coefficients
        return expected

    def residual(self, latent: Array, coefficients: Array) -> Array:
        """Outcomes minus what was expected (T,)."""
        return self.outcome - self.expected(latent, coefficients)

    def noise_law(self, residual: Array) -> G:
        """s_y | rest, (C8)."""
        return G(1.0 + len(residual), 1.0 + float(residual @ residual))

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s_y, coefficients | latent) up to a constant, (M8) and (M9)."""
        precision, coefficients = params["noise_precision"], params["coefficients"]
        residual = self.residual(latent, coefficients)
        likelihood = 0.5 * len(residual) * math.log(precision) - 0.5 * precision * float(
            residual @ residual
        )
        prior = self.effect_prior.log_density(coefficients, self._spreads(params))
        return float(likelihood + prior + G(1.0, 1.0).log_density(precision))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Of the noise, (M9), of the coefficients of covariates, and of how much levels vary."""
        noise = np.asarray(reported["noise_precision"])
        found = {"noise_precision": -0.5 * np.log(noise) - 0.5 * self.noise_variance * noise}
        if self.effect_prior.n_common:
            standard = self.coefficient_units.to_working(np.asarray(reported["coefficients"]))
            found["coefficients"] = -0.5 * (standard**2).sum(axis=-1)
        if self.has_groups:
            sds = reported["group_sd"] / np.sqrt(self.noise_variance)
            found |= self.effect_prior.log_spreads(sds)
        return found

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:  # noqa: ARG002
        """s_y from (M9), coefficients from their prior, (M17) and (M18)."""
        params = self.params_of(G(1.0, 1.0).draw(rng), rng.standard_normal(self.n_coefficients))
        if self.has_groups:
            sds = params["group_sd"] = self.effect_prior.draw_spreads(rng)
            params["coefficients"] /= np.sqrt(self.effect_prior.precision(sds))
        return params

    def simulate(
        self, rng: np.random.Generator, latent: Array, params: Params
    ) -> "ThreadRegression":
        """New outcomes from (M8)."""
        noise = rng.standard_normal(len(self.outcome)) / np.sqrt(params["noise_precision"])
        outcome = self.expected(latent, params["coefficients"]) + noise
        return with_field(self, "outcome", outcome, _OF_OUTCOMES)

    def reported(self, params: Params) -> Params:
        """noise_precision and coefficients in the user's units."""
        result: Params = {
            "noise_precision": np.asarray(params["noise_precision"]) / self.noise_variance
        }
        sd, coefficients, n = (
            np.sqrt(self.noise_variance),
            np.asarray(params["coefficients"]),
            self.effect_prior.n_common,
        )
        if n:
            result["coefficients"] = self.coefficient_units.vectors(coefficients[..., :n])
        if self.has_groups:
            result["group_effects"] = sd * coefficients[..., n:]
            result["group_sd"] = sd * np.asarray(params["group_sd"])
        return result

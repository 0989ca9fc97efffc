"""The likelihood of observations that belong to one user each, of any family, in working units:
η_i = x_iᵀ f_{u(i)} + c_iᵀ e + constant_i + offset_i, e ~ N(0, I).

latent (U, q).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.rows import SoftRows
from dualview.behaviors.base import Likelihood
from dualview.behaviors.families.base import Family, Given, Rows
from dualview.behaviors.likelihoods import logit_location, metropolis
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.effects_draw import redraw_vectors
from dualview.behaviors.likelihoods.logit_location import Answers, Locations
from dualview.behaviors.likelihoods.regression import coefficient_draw
from dualview.behaviors.records import (
    Array,
    Panel,
    Params,
    Prior,
    Users,
    posterior_means,
    with_field,
)
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.units import GaussianPrior, Whitening

_SEARCH, _AVERAGE = 200, 200  # iterations that follow the last draw, that average over all since
_WEIGHT = 2.0  # users whose vectors the prior of Σ is worth
_SEED = 24


@dataclass(frozen=True)
class UserRows(Likelihood):
    """Rows of one user each, with a design and a family. Given the clusters, users are independent,
    so the sweep draws them exactly.

    constant (n,): what is known of the locations; offset (n,): what effects outside the mixture
    add. values: what was observed, where it is not a number for each row; else the panel's outcome.
    covariates: sparse (n, C), what coefficients e count for.
    """

    panel: Panel
    family: Family
    constant: Array | None = None
    values: Any = None
    covariates: Any = None
    offset: Array | None = None

    one_user_each = True

    @property
    def n_dims(self) -> int:
        return int(self.panel.design.shape[1])

    @property
    def n_coefficients(self) -> int:
        return 0 if self.covariates is None else int(self.covariates.shape[1])

    @property
    def hyperprior(self) -> Hyperprior:
        return self.family.hyperprior

    @property
    def per_user(self) -> tuple[str, ...]:
        return self.family.per_user

    @cached_property
    def _loads(self) -> tuple[Users, NDArray[np.uint32], Array, Array]:
        return self.panel.starts, self.panel.rows, self.panel.design, self.panel.squares

    @cached_property
    def _answer_design(self) -> Array:
        n_answers = self.family.n_answers
        return self.panel.design if n_answers == 1 else np.repeat(self.panel.design, n_answers, 0)

    def with_offset(self, offset: Array) -> Self:
        _ = self._loads, self._answer_design  # made once for all offsets
        return with_field(self, "offset", offset)

    @property
    def observed(self) -> Any:
        """What was observed of the rows, as the family takes it."""
        return self.panel.outcome if self.values is None else self.values

    def predictor(self, latent: Array) -> Array:
        """Locations of all rows without coefficients, (n,)."""
        eta = self.panel.expected(latent)
        for known in (self.constant, self.offset):
            eta = eta if known is None else eta + known
        return eta

    def rows(self, latent: Array, params: Params) -> Rows:
        """The rows with their locations."""
        eta = self.predictor(latent)
        if self.n_coefficients:
            eta = np.asarray(eta + self.covariates @ params["coefficients"])
        return Rows(self.observed, eta, self.panel.user, len(latent))

    def _phi(self, params: Params) -> Params:
        """The family's parameters."""
        return {name: value for name, value in params.items() if name != "coefficients"}

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From a Newton step under a prior N(0, I)."""
        n, n_users = len(self.panel.user), len(self.panel.starts) - 1
        slopes, curvature = self.family.pull(
            self.observed, np.zeros(n) if self.constant is None else self.constant
        )
        pulls = self.panel._replace(outcome=slopes).weighted
        latent = posterior_means(curvature * self.panel.squares, pulls, 1.0)
        params = {"coefficients": np.zeros(self.n_coefficients)} if self.n_coefficients else {}
        rows = Rows(self.observed, self.predictor(latent), self.panel.user, n_users)
        return latent, self.family.start(rng, rows) | params

    def relocate(
        self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations
    ) -> Array | None:
        """Steps of every cluster's mean with its users' vectors, for rows that count as answers."""
        n_answers = self.family.n_answers
        if not n_answers or not logit_location.is_due(rng, n_answers * len(self.panel.user)):
            return None
        signs, odds = self.family.answers(self.rows(latent, params), self._phi(params))
        answers = Answers(n_answers * self.panel.starts, self._answer_design, signs, odds)
        return np.asarray(logit_location.draw_steps(stream_of(rng), locations, answers))

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """The rows as normal observations, by the family's augmentation; without one, held where
        they are."""
        density = self.density(latent, params) if self.held else None
        if density is not None:
            return Terms(*self._loads, *metropolis.hold(rng, density))
        phi = self._phi(params)
        residual, precision = self.family.augment(rng, self.rows(latent, params), phi)
        return Terms(*self._loads, residual, precision, **self.family.for_sweep(phi))

    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """Latent vectors where there is no augmentation, or where they move besides; coefficients
        given it; the family's parameters."""
        if self.held:
            latent = self._moved(rng, latent, params, prior)
        if self.n_coefficients:
            before, after = params["coefficients"], self._coefficients(rng, params, terms)
            params = params | {"coefficients": after}
            residual = terms.residual - self.covariates @ (after - before)
            terms = terms._replace(residual=residual)
        if self.family.also_steps:  # the terms are of the vectors before, and are not used again
            latent = self._moved(rng, latent, params, prior)
        given = Given(self.rows(latent, params), self._phi(params), terms, prior.z)
        kept = {"coefficients": params["coefficients"]} if "coefficients" in params else {}
        return latent, self.family.redraw(rng, given) | kept

    def _coefficients(self, rng: np.random.Generator, params: Params, terms: Terms) -> Array:
        if not self.family.has_augmentation:
            raise self._lacks("augment", "cannot have covariates")
        root, n = np.sqrt(terms.precision), self.n_coefficients
        target = root * (terms.residual + self.covariates @ params["coefficients"])
        draw = coefficient_draw(self.covariates.multiply(root[:, None]).tocsr(), target)
        return draw.draw(rng, 1.0, np.zeros(n), np.ones(n))

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:
        """With normal numbers whose noise is shared there is nothing else to redraw."""
        moved = self.offset is not None or self.constant is not None or self.n_coefficients
        if not self.family.is_conjugate or moved:
            return None
        noise, outcome = np.array([params["noise_precision"]]), self.panel.outcome
        fields = self.family.for_sweep(self._phi(params))
        terms = Terms(*self._loads, np.empty(len(outcome)), noise, **fields)
        return terms, Conjugate.none()._replace(outcome=outcome)

    def params_of(self, noise_precision: float, coefficients: Array) -> Params:
        if not self.family.is_conjugate:
            return super().params_of(noise_precision, coefficients)
        return {"noise_precision": noise_precision}

    @property
    def can_approximate(self) -> bool:
        """Where the family can, and nothing is learned outside the mixture."""
        outside = self.n_coefficients or self.offset is not None
        return not outside and self.family.expect(self.observed) is not None

    def approximate(self) -> SoftRows:
        """q of all latent vectors together."""
        factor = self.family.expect(self.observed)
        if factor is None or not self.can_approximate:
            raise NotImplementedError(
                f"{type(self.family).__name__} has no variational approximation, or none with "
                "effects outside the mixture."
            )
        return SoftRows.start(self, factor)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(observations, parameters | latent) up to a constant; an augmentation is integrated
        out."""
        rows, phi = self.rows(latent, params), self._phi(params)
        coefficients = params.get("coefficients", np.zeros(0))
        own = self.family.log_likelihood(rows, phi) + self.family.log_prior(phi)
        return float(own - 0.5 * coefficients @ coefficients)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Of the family's parameters, and of the coefficients where there are any."""
        found = self.family.log_priors(self._phi(reported), z)
        if self.n_coefficients:
            found["coefficients"] = -0.5 * (reported["coefficients"] ** 2).sum(axis=-1)
        return found

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        n = self.n_coefficients
        own = {"coefficients": rng.standard_normal(n)} if n else {}
        return self.family.draw_prior(rng, z) | own

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> Self:
        """Other observations."""
        made = self.family.sample(rng, self.rows(latent, params), self._phi(params))
        if self.values is None:
            return with_field(self, "panel", self.panel._replace(outcome=made))
        return with_field(self, "values", made)

    def reported(self, params: Params) -> Params:
        found = self.family.reported(self._phi(params))
        if self.n_coefficients:
            found["coefficients"] = np.asarray(params["coefficients"])
        return found

    @property
    def held(self) -> bool:
        return not self.family.has_augmentation

    def density(self, latent: Array, params: Params) -> metropolis.RowDensity | None:
        if not (self.held or self.family.also_steps):
            return None
        rows = self.rows(latent, params)
        return metropolis.RowDensity(rows.y, rows.eta, self.family.outcome(self._phi(params), rows))

    def log_table(
        self, vectors: Array, params: Params, users: slice, shift: Array | None = None
    ) -> Array:
        """By the density of the rows, (users, C)."""
        n_users = len(self.panel.starts) - 1
        first, end, _ = users.indices(n_users)
        own = slice(int(self.panel.starts[first]), int(self.panel.starts[end]))
        density = self.density(np.zeros((n_users, self.n_dims)) if shift is None else shift, params)
        assert density is not None
        eta = density.eta[own] + vectors @ self.panel.design[own].T
        with np.errstate(over="ignore", invalid="ignore"):
            y = self.family.rows_of(density.y, own)
            found = density.outcome.log_density(y, eta, own)
        table = np.zeros((end - first, len(vectors)))
        np.add.at(table, self.panel.user[own] - first, found.T)
        return table

    def _moved(
        self, rng: np.random.Generator, latent: Array, params: Params, prior: Prior
    ) -> Array:
        """Latent vectors after a Metropolis step; that of the users of a cluster, where they share
        it, as one."""
        density, panel = self.density(latent, params), self.panel
        assert density is not None
        shift = np.zeros_like(latent) if prior.shift is None else prior.shift
        precisions = prior.factors @ np.swapaxes(prior.factors, 1, 2)
        own = latent - shift
        rest = density.eta - panel.expected(own)
        rows = panel.design, rest, density.y, density.outcome
        if not prior.pooled:
            z = prior.z
            target = metropolis.Target(prior.means[z], precisions[z], panel.user, *rows)
            return metropolis.step(rng, target, own) + shift
        shared = prior.means.copy()
        shared[prior.z] = own
        target = metropolis.Target(prior.means, precisions, prior.z[panel.user], *rows)
        return np.asarray(metropolis.step(rng, target, shared)[prior.z] + shift)

    def _lacks(self, ability: str, consequence: str) -> NotImplementedError:
        name = type(self.family).__name__
        return NotImplementedError(f"UserRows of a {name} {consequence}: it lacks `{ability}`.")


def likely_prior(units: Whitening, likelihood: Likelihood) -> GaussianPrior:
    """The prior under which observations of one user each are most likely, in the user's units; the
    likelihood is in those of a first guess, which a weak prior of Σ is centred at.

    All users are taken for one cluster, f_u ~ N(m, Σ), with the effects outside the mixture as in
    the model. m and Σ maximise the likelihood times that prior, by stochastic approximation of the
    EM algorithm (Delyon, Lavielle and Moulines 1999): the likelihood's own draws of vectors and
    parameters stand for the expectation.
    """
    rng = np.random.default_rng(_SEED)
    latent, params = likelihood.start(rng)
    n_users, n_dims = latent.shape
    mean, covariance = np.zeros(n_dims), np.eye(n_dims)
    first, second = np.zeros(n_dims), np.zeros((n_dims, n_dims))
    for iteration in range(_SEARCH + _AVERAGE):
        prior = _prior(n_users, mean, covariance)
        terms = likelihood.terms(rng, latent, params)
        latent = redraw_vectors(rng, terms, prior, latent)
        latent, params = likelihood.redraw(rng, latent, params, terms, prior)
        gain = 1.0 / max(1, iteration - _SEARCH + 1)
        first += gain * (latent.mean(axis=0) - first)
        second += gain * (latent.T @ latent / n_users - second)
        mean = first.copy()
        spread = second - np.outer(first, first)
        covariance = (n_users * spread + _WEIGHT * np.eye(n_dims)) / (n_users + _WEIGHT)
    return GaussianPrior(units.vectors(mean), units.covariances(covariance))


def _prior(n_users: int, mean: Array, covariance: Array) -> Prior:
    factor = np.linalg.cholesky(np.linalg.solve(covariance, np.eye(len(mean))))
    return Prior(np.zeros(n_users, dtype=np.int64), mean[None], factor[None])

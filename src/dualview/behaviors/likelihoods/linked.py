"""The link: behaviors that follow features inside a cluster, f_u ~ N(μ_k + Γ ã_u, S_k⁻¹), (M12) and
(M13).

Everything in working units. features ã (U, D), slopes Γ (q, D), latent f (U, q), z (U,). In the
user's units the entries of Γ have variances Σ_jj/t; in working units each column of Γ has
covariance ``spread``/t, with spread = F⁻¹ diag(Σ) F⁻ᵀ, which is 1 for q = 1. Vectors of q D numbers
hold Γ row by row.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Around, Likelihood
from dualview.behaviors.likelihoods import metropolis
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.records import Params, Prior, Recentered
from dualview.distributions import G, Normal
from dualview.numerics.messages import Terms
from dualview.units import Whitening

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Slopes(NamedTuple):
    """What the link learns: Γ (q, D), and t, which says how small its entries are."""

    slopes: Array
    precision: float

    def params(self) -> Params:
        """As parameters of a likelihood."""
        return {"slopes": self.slopes, "slope_precision": self.precision}


@dataclass(frozen=True)
class LinearLink:
    """Slopes of latent vectors on features that are common to all clusters.

    dof: n of t ~ G(n, D/n), the degrees of freedom of a slope's t distribution without t; (M13) has
    1.
    """

    features: Array
    spread: Array
    dof: float = 1.0

    @classmethod
    def of(cls, features: Array, units: Whitening, dof: float = 1.0) -> "LinearLink":
        """For latent vectors in these units."""
        variances = np.diagonal(units.prior[1])
        return cls(features, units.inverse @ np.diag(variances) @ units.inverse.T, dof)

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_dims(self) -> int:
        return len(self.spread)

    @cached_property
    def _roughness(self) -> Array:
        """spread⁻¹."""
        return np.asarray(np.linalg.solve(self.spread, np.eye(self.n_dims)), dtype=float)

    def shift(self, link: Slopes) -> Array:
        """Γ ã_u of every user, (U, q)."""
        return np.asarray(self.features @ link.slopes.T)

    def start(self) -> Slopes:
        """No slopes yet."""
        return Slopes(np.zeros((self.n_dims, self.n_features)), 1.0)

    def log_density(self, link: Slopes) -> float:
        """ln p(Γ, t), (M13)."""
        size = link.slopes.size
        prior = 0.5 * size * np.log(link.precision) - 0.5 * link.precision * self._size(link.slopes)
        return float(prior + self._precision_prior.log_density(link.precision))

    @property
    def _precision_prior(self) -> G:
        return G(self.dof, self.dof / self.n_features)

    def _size(self, slopes: Array) -> float:
        """Σ_jd Γ_jd²/Σ_jj of the user's units."""
        return float(np.einsum("jd,jk,kd->", slopes, self._roughness, slopes))

    def draw_prior(self, rng: np.random.Generator) -> Slopes:
        """(M13)."""
        precision = self._precision_prior.draw(rng)
        noise = rng.standard_normal((self.n_dims, self.n_features)) / np.sqrt(precision)
        return Slopes(np.asarray(np.linalg.cholesky(self.spread) @ noise, dtype=float), precision)

    def precision_law(self, slopes: Array) -> G:
        """t | Γ, (C14)."""
        return G(self.dof + slopes.size, self.dof / self.n_features + self._size(slopes))

    def _prior_precision(self, precision: float) -> Array:
        return np.asarray(
            precision * np.kron(self._roughness, np.eye(self.n_features)), dtype=float
        )

    def law_given_latent(
        self, latent: Array, z: Labels, means: Array, factors: Array, precision: float
    ) -> Normal:
        """Γ | f, clusters and t, (C13); precisions S_k = factor factorᵀ."""
        matrix = self._prior_precision(precision).reshape(2 * (self.n_dims, self.n_features))
        components = (factors @ np.swapaxes(factors, 1, 2))[z]
        for j, k in np.ndindex(self.n_dims, self.n_dims):
            matrix[j, :, k] += self.features.T @ (components[:, j, k, None] * self.features)
        linear = np.einsum("ujk,uk->ju", components, latent - means[z]) @ self.features
        size = linear.size
        return Normal(linear.ravel(), matrix.reshape(size, size))

    def law_given_observations(self, effects: Array, link: Slopes, terms: Terms) -> Normal:
        """Γ | f − Γ ã, observations and t; effects (N, q D): how each observation depends on Γ."""
        weights = (
            terms.precision
            if len(terms.precision) > 1
            else np.full(len(terms.residual), terms.precision[0])
        )
        partial = terms.residual + effects @ link.slopes.ravel()
        weighted = effects * weights[:, None]
        return Normal(
            weighted.T @ partial, self._prior_precision(link.precision) + weighted.T @ effects
        )

    def effects(self, terms: Terms) -> Array:
        """How each observation depends on Γ, (N, q D): Σ_u d_iu ⊗ ã_u."""
        result = np.zeros((len(terms.residual), self.n_dims * self.n_features))
        users = np.repeat(np.arange(len(terms.starts) - 1), np.diff(terms.starts))
        outer = terms.loads[:, :, None] * self.features[users][:, None, :]
        np.add.at(result, terms.rows, outer.reshape(len(users), -1))
        return result


@dataclass(frozen=True)
class LinkedLikelihood(Around):
    """A likelihood of f = g + Γ ã, seen by the sampler as one of g, with Γ and t among its
    parameters.

    Given Γ the mixture over g is the paper's: the sweep is the same. Γ is redrawn twice in a step,
    once with g held, where it moves the observations, and once with f held, (C13), where it moves
    g; each is slow where the other is quick.
    """

    inner: Likelihood
    link: LinearLink
    units: Whitening
    feature_units: Whitening

    @classmethod
    def of(
        cls, inner: Likelihood, features: Array, units: Whitening, feature_units: Whitening
    ) -> "LinkedLikelihood":
        """For features in working units."""
        inner = inner.with_residuals()
        return cls(
            inner,
            LinearLink.of(features, units, float(inner.hyperprior.of_slopes)),
            units,
            feature_units,
        )

    _outer = ("slopes", "slope_precision")

    @property
    def follows_features(self) -> bool:
        """They are in the mean of f."""
        return True

    def with_features(self, features: Array) -> "LinkedLikelihood":
        """The same with other features."""
        return replace(self, link=replace(self.link, features=features))

    @staticmethod
    def _slopes(params: Params) -> Slopes:
        return Slopes(params["slopes"], params["slope_precision"])

    def functions(self, deviations: Array, params: Params) -> Array:
        """f = g + Γ ã."""
        return deviations + self.link.shift(self._slopes(params))

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        latent, params = self.inner.start(rng)
        return latent, params | self.link.start().params()

    def relocate(
        self, rng: np.random.Generator, deviations: Array, params: Params, locations: Locations
    ) -> Array | None:
        """As the likelihood inside does: moving g moves f as much."""
        return self.inner.relocate(
            rng, self.functions(deviations, params), self._own(params), locations
        )

    def recenter(
        self, rng: np.random.Generator, params: Params, base_mean: Array
    ) -> Recentered | None:
        """As the likelihood inside does: a step of g is one of f."""
        moved = self.inner.recenter(rng, self._own(params), base_mean)
        return (
            None
            if moved is None
            else moved._replace(params=moved.params | self._slopes(params).params())
        )

    def terms(self, rng: np.random.Generator, deviations: Array, params: Params) -> Terms:
        """Those of f: moving g moves f as much."""
        return self.inner.terms(rng, self.functions(deviations, params), self._own(params))

    def redraw(
        self,
        rng: np.random.Generator,
        deviations: Array,
        params: Params,
        terms: Terms,
        prior: Prior,
    ) -> tuple[Array, Params]:
        """Γ given g, Γ given f, (C13), t, (C14), then the likelihood's own parameters."""
        link, old = self.link, self._slopes(params)
        slopes = self._slopes_given_observations(rng, deviations, params, terms)
        latent = deviations + link.shift(Slopes(slopes, old.precision))
        if not prior.pooled:
            law = link.law_given_latent(latent, prior.z, prior.means, prior.factors, old.precision)
            slopes = draw_slopes(rng, law, slopes.shape)
        new = Slopes(slopes, link.precision_law(slopes).draw(rng))
        shift = link.shift(new)
        latent, own = self.inner.redraw(
            rng, latent, self._own(params), terms, prior._replace(shift=shift)
        )
        return latent - shift, own | new.params()

    def _slopes_given_observations(
        self, rng: np.random.Generator, deviations: Array, params: Params, terms: Terms
    ) -> Array:
        """Γ given g; in place on the residual of the terms. By a Metropolis step where observations
        are held."""
        old, effects = self._slopes(params), self._effects(terms)
        density = None
        if self.inner.held:
            density = self.inner.density(self.functions(deviations, params), self._own(params))
        if density is not None:
            everybody = np.zeros(len(effects), dtype=np.int64)
            precision = self.link._prior_precision(old.precision)[None]
            standing = old.slopes.reshape(1, -1)
            moved, _ = metropolis.move(rng, density, everybody, effects, standing, precision)
            return moved.reshape(old.slopes.shape)
        law = self.link.law_given_observations(effects, old, terms)
        slopes = draw_slopes(rng, law, old.slopes.shape)
        terms.residual[:] -= effects @ (slopes - old.slopes).ravel()
        return slopes

    def log_table(
        self, vectors: Array, params: Params, users: slice, shift: Array | None = None
    ) -> Array:
        """That of the likelihood inside, of f = g + Γ ã."""
        by_features = self.link.shift(self._slopes(params))
        whole = by_features if shift is None else shift + by_features
        return self.inner.log_table(vectors, self._own(params), users, whole)

    def _effects(self, terms: Terms) -> Array:
        """Kept from the first time: they depend on the design and the features only."""
        effects: Array | None = self.__dict__.get("_kept_effects")
        if effects is None:
            effects = self.__dict__["_kept_effects"] = self.link.effects(terms)
        return effects

    def log_density(self, deviations: Array, params: Params) -> float:
        inside = self.inner.log_density(self.functions(deviations, params), self._own(params))
        return inside + self.link.log_density(self._slopes(params))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Those of the likelihood inside, and of Γ and t, (M13)."""
        slopes = np.asarray(reported["slopes"])
        slopes = slopes.reshape(len(slopes), -1, slopes.shape[-1])
        working = self.units.inverse @ slopes @ self.feature_units.factor
        of_slopes = [
            self.link.log_density(Slopes(*one))
            for one in zip(working, reported["slope_precision"], strict=True)
        ]
        return self.inner.log_priors(self._own(reported), z) | {"slopes": np.array(of_slopes)}

    def draw_prior(self, rng: np.random.Generator, z: Labels) -> Params:
        return self.inner.draw_prior(rng, z) | self.link.draw_prior(rng).params()

    def simulate(
        self, rng: np.random.Generator, deviations: Array, params: Params
    ) -> "LinkedLikelihood":
        return replace(
            self,
            inner=self.inner.simulate(rng, self.functions(deviations, params), self._own(params)),
        )

    def reported(self, params: Params) -> Params:
        """Γ in the user's units: change of the latent vector for a unit of each feature."""
        slopes = self.units.factor @ np.asarray(params["slopes"]) @ self.feature_units.inverse
        own = self.inner.reported(self._own(params))
        return own | {"slopes": slopes, "slope_precision": np.asarray(params["slope_precision"])}


def draw_slopes(rng: np.random.Generator, law: Normal, shape: tuple[int, int]) -> Array:
    """A draw of Γ."""
    factor = np.linalg.cholesky(law.precision)
    half = np.linalg.solve(factor, law.linear)
    return np.asarray(
        np.linalg.solve(factor.T, half + rng.standard_normal(len(half))).reshape(shape)
    )

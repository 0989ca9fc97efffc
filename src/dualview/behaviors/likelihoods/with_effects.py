"""Effects outside the mixture around any likelihood of one user's observations each: common
coefficients and groups.

    (M17) location of observation i = x_iᵀ f_{u(i)} + c_iᵀ γ + Σ_g b_{g, l_g(i)},   γ ~ N(0, I),
    b_gl ~ N(0, τ_g²), (M18) τ_g ~ A_g |t_3|, the half-t distribution with three degrees of freedom.

Everything in working units. Effects e are γ, then the b of one group after the other. latent (U,
q).
"""

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dualview.behaviors.base import Around, Likelihood
from dualview.behaviors.likelihoods.common_step import CommonStep
from dualview.behaviors.likelihoods.effects_draw import (
    Drawn,
    SparseDesign,
    draw_with_vectors,
    times,
)
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.likelihoods.metropolis import RowDensity, move
from dualview.behaviors.records import Array, Params, Prior, Recentered
from dualview.distributions import Normal
from dualview.numerics.compiling import compiled
from dualview.numerics.messages import Terms
from dualview.numerics.slice_sampling import sampler, slice_sample
from dualview.numerics.streams import stream_of
from dualview.units import Whitening

_ROUNDING = 1e-9  # of a column of the latent design: what effects that stand for it may leave of it
_DOF = 3.0
_WIDTH = 1.0  # of slices of ln τ


class TauParameters(NamedTuple):
    """What ln τ is drawn given: number and sum of squares of effects; or how the log likelihood
    changes with τ.

    slope, curvature: where the effects grow by a factor c with τ, it changes by (c − 1) slope − (c
    − 1)² curvature/2. start: ln τ as it stands. scale: A of (M18).
    """

    n_effects: float
    squares: float
    slope: float
    curvature: float
    start: float
    scale: float


@compiled
def log_tau_density(x, parameters):
    """ln p(ln τ | effects), or ln p(ln τ | effects/τ, observations), up to a constant; the prior is
    (M18)."""
    tau = math.exp(x) / parameters.scale
    growth = math.exp(x - parameters.start) - 1.0
    given_effects = -parameters.n_effects * x - 0.5 * parameters.squares * math.exp(-2.0 * x)
    by_growth = growth * (parameters.slope - 0.5 * parameters.curvature * growth)
    return x - 2.0 * math.log1p(tau * tau / 3.0) + given_effects + by_growth


_sample_tau = sampler(log_tau_density)


@compiled
def draw_log_tau(rng, parameters):
    """The next ln τ."""
    return _sample_tau(rng, parameters, parameters.start, _WIDTH)


def log_half_t(sd: Any, scale: Any) -> Any:
    """ln p(τ) of (M18) up to a constant that depends on A only."""
    return -2.0 * np.log1p((sd / scale) ** 2 / _DOF)


class GroupSpread(NamedTuple):
    """τ of a group as it stands, and A of (M18)."""

    sd: float
    scale: float

    def redraw(
        self,
        rng: np.random.Generator,
        effects: Array,
        by_group: Array,
        weights: Array,
        residual: Array,
    ) -> tuple[float, float]:
        """The factor by which the effects (L,) grow, and the next τ; in place on the residual (n,).

        by_group (n,): what the effects add to the locations. First τ moves with the effects, given
        effects/τ, then given them: one is slow where the other is quick.
        """
        sd = math.exp(
            draw_log_tau(stream_of(rng), self.given_observations(by_group, weights, residual))
        )
        growth = sd / self.sd
        residual -= (growth - 1.0) * by_group
        own = self._replace(sd=sd).given_effects(growth * effects)
        return growth, math.exp(draw_log_tau(stream_of(rng), own))

    def redraw_by(
        self, rng: np.random.Generator, effects: Array, by_group: Array, density: RowDensity
    ) -> tuple[float, float]:
        """:meth:`redraw` from the density of rows, whatever their family."""
        prior = self.given_effects(effects)._replace(n_effects=0.0, squares=0.0)

        def log_density(x: float) -> float:
            return (
                float(log_tau_density(x, prior))
                + density.moved((math.exp(x) / self.sd - 1.0) * by_group).total
            )

        sd = math.exp(slice_sample(rng, log_density, math.log(self.sd), _WIDTH))
        growth = sd / self.sd
        own = self._replace(sd=sd).given_effects(growth * effects)
        return growth, math.exp(draw_log_tau(stream_of(rng), own))

    def given_observations(self, by_group: Array, weights: Array, residual: Array) -> TauParameters:
        """Of ln τ | effects/τ and everything else: observations change with τ."""
        slope, curvature = (
            float((weights * by_group) @ residual),
            float((weights * by_group) @ by_group),
        )
        return TauParameters(0.0, 0.0, slope, curvature, math.log(self.sd), self.scale)

    def given_effects(self, effects: Array) -> TauParameters:
        """Of ln τ | effects."""
        return TauParameters(
            float(len(effects)), float(effects @ effects), 0.0, 0.0, math.log(self.sd), self.scale
        )


class EffectPrior(NamedTuple):
    """The prior of coefficients outside the mixture: common ones γ ~ N(0, I), then the effects of
    one group after the other.

    bounds (G + 1,): the effects of group g are coefficients bounds[g] to bounds[g + 1]. scales
    (G,): A of (M18).
    """

    bounds: NDArray[np.int64]
    scales: Array

    @property
    def n_common(self) -> int:
        return int(self.bounds[0])

    def start(self) -> Array:
        """τ of each group to start from, (G,)."""
        return 0.3 * self.scales

    def precision(self, sds: Any) -> Array:
        """Of each coefficient, (C,)."""
        of_groups = np.repeat(np.asarray(sds, dtype=float) ** -2.0, np.diff(self.bounds))
        return np.concatenate([np.ones(self.n_common), of_groups])

    def log_density(self, effects: Array, sds: Array) -> float:
        """ln p(γ, b, τ) up to a constant."""
        precision = self.precision(sds)
        own = 0.5 * float(np.log(precision).sum() - precision @ effects**2)
        return own + float(np.sum(log_half_t(sds, self.scales)))

    def log_spreads(self, sds: Array) -> dict[str, Array]:
        """ln p(τ) in S draws, (S,) up to a constant, by its name; nothing where there are no
        groups."""
        if not len(self.scales):
            return {}
        return {"group_sd": log_half_t(sds, self.scales).sum(axis=-1)}

    def draw_spreads(self, rng: np.random.Generator) -> Array:
        """τ of each group, (M18)."""
        return self.scales * np.abs(rng.standard_t(_DOF, len(self.scales)))

    def redraw_spreads(
        self,
        rng: np.random.Generator,
        effects: Array,
        sds: Array,
        added: Callable[[slice], Array],
        weights: Array,
        residual: Array,
    ) -> None:
        """In place on effects (C,), sds (G,) and the residual (n,): τ of every group in turn.

        added(own): what the effects in a slice add to the locations, (n,).
        """
        for group in range(len(self.scales)):
            own = slice(int(self.bounds[group]), int(self.bounds[group + 1]))
            spread = GroupSpread(float(sds[group]), float(self.scales[group]))
            growth, sds[group] = spread.redraw(rng, effects[own], added(own), weights, residual)
            effects[own] *= growth

    def move_spreads(
        self,
        rng: np.random.Generator,
        effects: Array,
        sds: Array,
        added: Callable[[slice], Array],
        density: RowDensity,
    ) -> None:
        """:meth:`redraw_spreads` from the density of rows at their locations, whatever their
        family."""
        for group in range(len(self.scales)):
            own = slice(int(self.bounds[group]), int(self.bounds[group + 1]))
            spread, by_group = GroupSpread(float(sds[group]), float(self.scales[group])), added(own)
            growth, sds[group] = spread.redraw_by(rng, effects[own], by_group, density)
            effects[own] *= growth
            density = density.moved((growth - 1.0) * by_group)


class Confounded(NamedTuple):
    """Vectors v (R, q) and effects d (R, n_columns) with X v = D d: what of the latent design
    effects make up as well.

    An intercept is the sum of all levels of a group; features of items are sums of effects of
    items.
    """

    vectors: Array
    effects: Array

    @classmethod
    def of(cls, matrix: Any, loads: Array) -> "Confounded":
        """From D, sparse (n, n_columns), and X (n, q)."""
        limit = 10 * matrix.shape[1] + 100
        made = np.column_stack(
            [lsmr(matrix, x, atol=1e-14, btol=1e-14, conlim=0.0, maxiter=limit)[0] for x in loads.T]
        )
        _, left, directions = np.linalg.svd(loads - matrix @ made, full_matrices=False)
        vectors = directions[left <= _ROUNDING * np.linalg.norm(loads)]
        return cls(vectors, vectors @ made.T)

    def step_law(self, effects: Array, prior_precision: Array, base_mean: Array) -> Normal | None:
        """(C21) The steps δ along v and d: μ_0, all μ_k and all f_u grow by δ v, and e falls by δ
        d; None for no directions.

        Observations stay, and so do all f_u − μ_k and μ_k − μ_0. What is left is N(μ_0 + δ v; 0, I)
        N(e − δ d; 0, diag(p)⁻¹).
        """
        if not len(self.vectors):
            return None
        weighted = self.effects * prior_precision
        linear = weighted @ effects - self.vectors @ base_mean
        return Normal(linear, self.vectors @ self.vectors.T + weighted @ self.effects.T)

    def move(self, rng: np.random.Generator, law: Normal, effects: Array) -> tuple[Array, Array]:
        """A step (q,) of all latent vectors, and the effects after it."""
        step = law.draw(rng)
        return step @ self.vectors, effects - step @ self.effects


class EffectBlock(NamedTuple):
    """Effects that move at once, given the others and the latent vectors: those of own. Where every
    row has one of them at most, owner (n,) says which, and they are independent; else there is one
    owner, of all. design (n, C): what the owner's effects count for."""

    own: slice
    owner: NDArray[np.int64]
    design: Array

    @classmethod
    def of(cls, design: SparseDesign, own: slice) -> "EffectBlock":
        """Some columns of a design."""
        rows, entries = np.nonzero((design.columns >= own.start) & (design.columns < own.stop))
        n, place = len(design.columns), design.columns[rows, entries] - own.start
        values = design.values[rows, entries]
        owner = np.zeros(n, dtype=np.int64)
        if len(np.unique(rows)) == len(rows):
            single = np.zeros((n, 1))
            owner[rows], single[rows, 0] = place, values
            return cls(own, owner, single)
        dense = np.zeros((n, own.stop - own.start))
        np.add.at(dense, (rows, place), values)
        return cls(own, owner, dense)

    def move(
        self, rng: np.random.Generator, density: RowDensity, effects: Array, precision: Array
    ) -> tuple[Array, RowDensity]:
        """The effects (C,), a priori N(0, diag(precision)⁻¹), after a Metropolis step, and the
        rows."""
        n_each = self.design.shape[1]
        standing, each = effects.reshape(-1, n_each), precision.reshape(-1, n_each)
        precisions = each[:, :, None] * np.eye(n_each)
        moved, density = move(rng, density, self.owner, self.design, standing, precisions)
        return moved.ravel(), density


class EffectUnits(NamedTuple):
    """From working units to the user's: those of γ, the names of which predictions see, and what a
    location of 1 is."""

    common: Whitening
    location: float


@dataclass(frozen=True)
class WithEffects(Around):
    """A likelihood with effects outside the mixture.

    inner: the likelihood without them, which takes them as an offset. design: D of all effects,
    rows as in its terms. n_common: of γ. bounds (G + 1,): the effects of group g are columns
    bounds[g] to bounds[g + 1]. scales (G,): A of (M18).
    """

    inner: Likelihood
    design: SparseDesign
    n_common: int
    bounds: NDArray[np.int64]
    scales: Array
    units: EffectUnits

    _outer = ("common", "group_effects", "group_sd")

    @property
    def prior(self) -> EffectPrior:
        """Of all effects."""
        return EffectPrior(self.bounds, self.scales)

    @staticmethod
    def effects(params: Params) -> Array:
        """All effects, (n_columns,)."""
        return np.concatenate([params["common"], params["group_effects"]])

    def _params(self, effects: Array, sds: Array) -> Params:
        return {
            "common": effects[: self.n_common],
            "group_effects": effects[self.n_common :],
            "group_sd": sds,
        }

    def _inside(self, params: Params) -> tuple[Likelihood, Params]:
        """The likelihood inside with the effects as they stand, and its parameters."""
        return self.inner.with_offset(times(self.design, self.effects(params))), self._own(params)

    def prior_precision(self, sds: Array) -> Array:
        """Of each effect, (n_columns,)."""
        return self.prior.precision(sds)

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """No effects yet."""
        latent, own = self.inner.start(rng)
        return latent, own | self._params(np.zeros(self.design.n_columns), self.prior.start())

    def relocate(
        self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations
    ) -> Array | None:
        """As the likelihood inside does."""
        inner, own = self._inside(params)
        return inner.relocate(rng, latent, own, locations)

    def recenter(
        self, rng: np.random.Generator, params: Params, base_mean: Array
    ) -> Recentered | None:
        """A step between effects and all latent vectors along the directions in which observations
        cannot tell them apart."""
        law = self.recentering_law(params, base_mean)
        if law is None:
            return None
        step, effects = self.confounded.move(rng, law, self.effects(params))
        return Recentered(step, params | self._params(effects, params["group_sd"]))

    def recentering_law(self, params: Params, base_mean: Array) -> Normal | None:
        """The distribution of that step; None where there is no such direction."""
        return self.confounded.step_law(
            self.effects(params), self.prior_precision(params["group_sd"]), base_mean
        )

    @cached_property
    def confounded(self) -> "Confounded":
        """The directions in which effects and latent vectors cannot be told apart."""
        rng = np.random.default_rng(0)  # of an augmentation that is not looked at
        terms = self.inner.terms(rng, *self.inner.start(rng))
        n, m = self.design.columns.shape
        loads = np.empty((n, self.n_dims))
        loads[terms.rows] = terms.loads
        places = (np.repeat(np.arange(n), m), self.design.columns.ravel())
        return Confounded.of(
            sparse.csr_array(
                (self.design.values.ravel(), places), shape=(n, self.design.n_columns)
            ),
            loads,
        )

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """Those of the likelihood inside."""
        inner, own = self._inside(params)
        return inner.terms(rng, latent, own)

    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """Effects and latent vectors together, (C20), how much effects vary, then what the
        likelihood inside has. Where observations have a density to move by, effects move by it:
        common coefficients with the vectors that make up for them, then all given the vectors."""
        sds, effects = np.array(params["group_sd"], dtype=float), self.effects(params).copy()
        if not self.held:
            precision, standing = self.prior_precision(sds), Drawn(latent, effects)
            latent, effects = draw_with_vectors(rng, self.design, precision, terms, prior, standing)
            weights = np.broadcast_to(terms.precision, terms.residual.shape)
            added = self._added(effects)
            self.prior.redraw_spreads(rng, effects, sds, added, weights, terms.residual)
        density = self.density(latent, params | self._params(effects, sds))
        if density is not None and self.n_common:
            shift = np.zeros_like(latent) if prior.shift is None else prior.shift
            step = CommonStep.of(self._blocks[0].design, density, terms, prior, latent - shift)
            effects[: self.n_common], own_vectors, density = step.move(
                rng, effects[: self.n_common]
            )
            latent = own_vectors + shift
        if density is not None:
            self._move(rng, effects, sds, density)
        inner = self.inner.with_offset(times(self.design, effects))
        latent, own = inner.redraw(rng, latent, self._own(params), terms, prior)
        return latent, own | self._params(effects, sds)

    def _move(
        self, rng: np.random.Generator, effects: Array, sds: Array, density: RowDensity
    ) -> None:
        """In place on effects and sds: effects given latent vectors, block after block by
        Metropolis steps, and how much they vary."""
        precision = self.prior_precision(sds)
        for block in self._blocks:
            effects[block.own], density = block.move(
                rng, density, effects[block.own], precision[block.own]
            )
        self.prior.move_spreads(rng, effects, sds, self._added(effects), density)

    def _added(self, effects: Array) -> Callable[[slice], Array]:
        """What the effects in a slice add to the locations, (n,)."""

        def added(own: slice) -> Array:
            alone = np.zeros_like(effects)
            alone[own] = effects[own]
            return times(self.design, alone)

        return added

    @cached_property
    def _blocks(self) -> list["EffectBlock"]:
        """Common coefficients, then the effects of each group."""
        ends = itertools.pairwise([0, *map(int, self.bounds)])
        return [EffectBlock.of(self.design, slice(*own)) for own in ends if own[1] > own[0]]

    def density(self, latent: Array, params: Params) -> RowDensity | None:
        """That of the likelihood inside."""
        inner, own = self._inside(params)
        return inner.density(latent, own)

    def log_table(
        self, vectors: Array, params: Params, users: slice, shift: Array | None = None
    ) -> Array:
        """That of the likelihood inside."""
        inner, own = self._inside(params)
        return inner.log_table(vectors, own, users, shift)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(observations, parameters | latent) up to a constant, (M17) and (M18)."""
        inner, own = self._inside(params)
        return inner.log_density(latent, own) + self.prior.log_density(
            self.effects(params), params["group_sd"]
        )

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Those of the likelihood inside, of common coefficients, and of how much the effects of
        groups vary."""
        found: dict[str, Array] = {}
        if self.n_common:
            found["coefficients"] = -0.5 * (
                self.units.common.to_working(reported["coefficients"]) ** 2
            ).sum(axis=-1)
        if len(self.scales):
            found |= self.prior.log_spreads(reported["group_sd"] / self.units.location)
        return found | self.inner.log_priors(
            {name: reported[name] for name in reported if name != "coefficients"}, z
        )

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        """(M17) and (M18)."""
        sds = self.prior.draw_spreads(rng)
        effects = rng.standard_normal(self.design.n_columns) / np.sqrt(self.prior_precision(sds))
        return self.inner.draw_prior(rng, z) | self._params(effects, sds)

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "WithEffects":
        """New observations."""
        inner, own = self._inside(params)
        made = copy.copy(self)  # with what depends on the design only
        object.__setattr__(made, "inner", inner.simulate(rng, latent, own))
        return made

    def reported(self, params: Params) -> Params:
        """Coefficients and effects in the user's units."""
        found = self.inner.reported(self._own(params))
        if self.n_common:
            found["coefficients"] = self.units.common.vectors(np.asarray(params["common"]))
        if len(self.scales):
            if "group_effects" in params:  # a summary has them of some draws only
                found["group_effects"] = self.units.location * np.asarray(params["group_effects"])
            found["group_sd"] = self.units.location * np.asarray(params["group_sd"])
        return found

"""A mixture of Gaussians over one vector per user, observed or latent, in working units (m = 0, Σ =
I).

x (U, D), z (U,), means (K, D), factors (K, D, D) upper triangular with S_k = T_k T_kᵀ.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import multigammaln

from dualview.numerics.hyperprior import PUBLISHED, Hyperprior, draw_tail_prior
from dualview.numerics.streams import stream_of
from dualview.views.approximation import Approximation
from dualview.views.base import Array, Base, Components, Labels, View
from dualview.views.gaussian import conditionals, density
from dualview.views.gaussian.approximation import (
    GaussianApproximation,
    GaussianFactors,
    SoftSums,
    centres_at,
)
from dualview.views.gaussian.cells import Cells
from dualview.views.gaussian.interval_kind import IntervalGaussian
from dualview.views.gaussian.intervals import Intervals
from dualview.views.gaussian.kind import Gaussian, GaussianState
from dualview.views.gaussian.linked_cells import Followers, draw_with_latent, draw_with_observations
from dualview.views.gaussian.soft_cells import SoftCells
from dualview.views.gaussian.student_kind import StudentGaussian, draw_weights, squares_of
from dualview.views.gaussian.tails import log_tail_prior
from dualview.views.soft_vectors import SoftVectors

_START_DOF = 5.0  # ν to start from
_NO_SPREAD = 1e-24  # a variance that is rounding, in working units
_SPARE = np.geomspace(0.1, 1e6, 50)  # values of β − D + 1 to start from


@dataclass(frozen=True)
class GaussianView(View):
    """(M1) to (M7) for vectors of n_dims dimensions, with the paper's R_0 and β or, by the
    hyperprior, lighter tails.

    heavy_tails: clusters are t distributions, (M19).
    """

    n_dims: int
    hyperprior: Hyperprior = PUBLISHED
    intervals: Intervals | None = None
    heavy_tails: bool = False

    @property
    def base_shapes(self) -> dict[str, tuple[int, ...]]:
        n = self.n_dims
        shapes: dict[str, tuple[int, ...]] = {
            "base_mean": (n,),
            "base_precision": (n, n),
            "base_covariance": (n, n),
            "base_dof": (),
        }
        if self.heavy_tails:
            shapes["tail_dof"] = ()
        n_cells = 0 if self.intervals is None else self.intervals.n_cells
        return shapes | {"cells": (n_cells,)} if n_cells else shapes

    @property
    def component_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"means": (self.n_dims,), "factors": (self.n_dims, self.n_dims)}

    def log_joint(self, state: GaussianState, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""
        x = self.completed(state, x)
        return float(
            density.log_view(
                x, z, state.components, state.base, self.hyperprior, float(state.tail_dof)
            )
        )

    def log_base(self, parts: Mapping[str, Any]) -> float:
        """ln p(μ_0, R_0, W_0, β), (M4) to (M7), and of ν."""
        tails = log_tail_prior(float(parts.get("tail_dof", math.inf)))
        return float(density.log_base_prior(_base_of(parts), self.hyperprior) + tails)

    def start(
        self, rng: np.random.Generator, x: Array, z: Labels, n_components: int
    ) -> GaussianState:
        """A state to start from: W_0 and β as the clusters suggest, μ_0 and R_0 at their priors'
        centers, components drawn.

        Nothing here changes the posterior. Were W_0 at its center too, which is the spread of all
        vectors, and clusters well apart, then the precisions would be unlike W_0⁻¹ in most
        directions; the first sweep would explain that by a β next to its bound D − 1, where
        components of any shape are likely, and take many sweeps to come back. From a β that is very
        unlikely a slice is very wide, and the first sweep would take β anywhere.
        """
        means = np.zeros((n_components, self.n_dims))
        for k in range(n_components):
            if (z == k).any():
                means[k] = x[z == k].mean(axis=0)
        sums = conditionals.cluster_sums(np.ascontiguousarray(x), z, means, np.empty(0))
        within = _within_clusters(sums.counts, sums.scatters)
        dof = _likely_dof(sums.counts, sums.scatters, within, self.hyperprior.least_of_vectors)
        base = Base(np.zeros(self.n_dims), np.eye(self.n_dims), within, dof)
        components = conditionals.draw_components(stream_of(rng), sums, base)
        tail_dof = _START_DOF if self.heavy_tails else math.inf
        return GaussianState(components, base, self.start_cells(x), tail_dof)

    def soft_vectors(self, x: Array, n_components: int) -> SoftVectors:
        """The vectors, with q of cells that are not exact."""
        if self.intervals is None or not self.intervals.n_cells:
            return SoftVectors(x)
        return SoftVectors(x, hidden=SoftCells.start(self.intervals, n_components))

    def approximate(self, x: Array, responsibilities: Array, joint: bool) -> Approximation:
        """q to start from; cells that are not exact are where complete vectors have them."""
        return GaussianApproximation.start(x, responsibilities, self.hyperprior, joint)

    def centres_at(self, means: Array) -> GaussianFactors:
        """Factors for sums over users about these means."""
        return centres_at(means)

    def approximate_sums(self, n_users: int, spread: Array, sums: SoftSums) -> Approximation:
        """q to start from, given sums over n_users users, as ``GaussianApproximation.begun`` takes
        them."""
        return GaussianApproximation.begun(n_users, spread, sums, self.hyperprior)

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> GaussianState:
        """Base and components from (M2) to (M7), and ν."""
        n_dims = self.n_dims
        base_mean = rng.standard_normal(n_dims)
        base_precision = draw_unit_wishart(rng, n_dims, n_dims - 1 + self.hyperprior.of_means)
        base_covariance = draw_unit_wishart(rng, n_dims, n_dims - 1 + self.hyperprior.of_spreads)
        base_dof = n_dims - 1 + self.hyperprior.least_of_vectors + n_dims / rng.chisquare(1.0)
        base = Base(base_mean, base_precision, base_covariance, base_dof)
        components = conditionals.draw_from_base(stream_of(rng), n_components, base)
        tail_dof = draw_tail_prior(rng) if self.heavy_tails else math.inf
        return GaussianState(components, base, tail_dof=tail_dof)

    def design(self, x: Array) -> Array:
        """The vectors themselves."""
        return x

    def start_vectors(self, x: Array) -> Array:
        """The vectors themselves."""
        return x

    def simulate(self, rng: np.random.Generator, state: GaussianState, z: Labels) -> Array:
        """Vectors given their components, (M1) or (M19)."""
        noise = rng.standard_normal((len(z), self.n_dims))
        if self.heavy_tails:
            noise /= np.sqrt(rng.chisquare(state.tail_dof, (len(z), 1)) / state.tail_dof)
        means, factors = state.components
        deviations = np.linalg.solve(np.swapaxes(factors[z], -1, -2), noise[..., None])[..., 0]
        return np.asarray(means[z] + deviations)

    def start_cells(self, x: Array) -> Array:
        """The values of the cells that are not exact in complete vectors."""
        return np.empty(0) if self.intervals is None else self.intervals.values(x)

    def completed(self, state: GaussianState, x: Array) -> Array:
        """The vectors with the cells that are not exact as they stand."""
        if self.intervals is None or not self.intervals.n_cells:
            return x
        return self.intervals.record(state.cells, x)[1]

    def redraw_cells(
        self,
        rng: np.random.Generator,
        state: GaussianState,
        x: Array,
        z: Labels,
        followers: Followers,
    ) -> tuple[GaussianState, Array]:
        """The state with cells drawn given latent vectors that follow features, and the g (U, q)
        that this leaves."""
        record = self.record(state, x, np.empty((self.n_dims, 0)))
        slopes, deviations, prior, terms, acts = followers
        stream, deviations, weights = stream_of(rng), deviations.copy(), np.empty(0)
        if isinstance(record, StudentGaussian):
            draw_weights(stream, z, record.tail_dof, squares_of(z, record), record)
            weights = record.weights
        if terms is not None:
            draw_with_observations(stream, z, record, weights, slopes, terms)
        else:
            draw_with_latent(stream, z, acts, record, weights, slopes, prior, deviations)
        return self.state(record), deviations

    def observed(self, x: Array, before: Array) -> tuple["GaussianView", Array]:  # noqa: ARG002
        """Complete vectors as they would be observed."""
        return self if self.intervals is None else replace(
            self, intervals=self.intervals.observe(x)
        ), x

    def record(
        self, state: GaussianState, x: Array, rows: Array
    ) -> Gaussian | IntervalGaussian | StudentGaussian:
        """The state with its vectors as the sampler sees it; the vectors of a table, which change,
        copied."""
        cores, cells = np.empty((0, self.n_dims, self.n_dims)), no_cells(*x.shape)
        if self.intervals is not None:
            cells, x, rows = self.intervals.record(state.cells, x)
        own = x, rows, state.components, cores, state.base, self.hyperprior
        if self.heavy_tails:
            return StudentGaussian(*own, cells, np.ones(len(x)), float(state.tail_dof))
        return Gaussian(*own) if self.intervals is None else IntervalGaussian(*own, cells)

    def state(self, record: Gaussian | IntervalGaussian | StudentGaussian) -> GaussianState:
        """What a sweep has left, as a state."""
        drawn, tail_dof = np.empty(0), math.inf
        if self.intervals is not None and not isinstance(record, Gaussian):
            drawn = self.intervals.drawn(record.cells)
        if isinstance(record, StudentGaussian):
            tail_dof = float(record.tail_dof)
        return GaussianState(record.components, record.base, drawn, tail_dof)

    def restored(self, parts: dict[str, Any]) -> GaussianState:
        """The state with these parts, by name."""
        cells = np.asarray(parts.get("cells", np.empty(0)))
        components = Components(parts["means"], parts["factors"])
        tail_dof = float(parts.get("tail_dof", math.inf))
        return GaussianState(components, _base_of(parts), cells, tail_dof)

    def latent_prior(self, record: Gaussian) -> Components:
        """The prior of the latent vectors of each cluster."""
        return record.components

    def is_narrow(self, record: Gaussian, least: float) -> bool:
        """Whether clusters are so narrow in some direction that their variance is below the least,
        or is no number."""
        covariance = record.base.covariance
        return bool(covariance.size) and not (
            np.isfinite(covariance).all() and np.linalg.eigvalsh(covariance)[0] >= least
        )


def _base_of(parts: Mapping[str, Any]) -> Base:
    """What components share, by name, as a record."""
    mean, precision, covariance = (
        np.ascontiguousarray(parts[name])
        for name in ("base_mean", "base_precision", "base_covariance")
    )
    return Base(mean, precision, covariance, float(parts["base_dof"]))


def no_cells(n_users: int, n_dims: int) -> Cells:
    """Cells of a table that are all exact."""
    none, nowhere = np.empty(0), np.empty(0, dtype=np.int64)
    starts, missing = np.zeros(n_users + 1, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    units = np.zeros(n_dims), np.eye(n_dims)
    return Cells(starts, nowhere, none, none, missing, np.empty((0, n_dims)), *units)


def no_table(n_users: int, n_components: int) -> IntervalGaussian:
    """The record of a table's view of no dimensions."""
    return IntervalGaussian(*no_view(n_users, n_components), no_cells(n_users, 0))


def no_tails(n_users: int, n_components: int) -> StudentGaussian:
    """The record of a view of no dimensions with heavy tails."""
    own = no_table(n_users, n_components)
    return StudentGaussian(*own, np.ones(n_users), _START_DOF)


def no_view(n_users: int, n_components: int) -> Gaussian:
    """The record of a view of no dimensions."""
    base = Base(np.empty(0), np.empty((0, 0)), np.empty((0, 0)), 1.0)
    components = Components(np.empty((n_components, 0)), np.empty((n_components, 0, 0)))
    return Gaussian(
        np.empty((n_users, 0)),
        np.empty((0, n_users)),
        components,
        np.empty((0, 0, 0)),
        base,
        PUBLISHED,
    )


def _within_clusters(counts: Array, scatters: Array) -> Array:
    """A covariance like that within the clusters, from their counts (K,) and scatter factors (K, D,
    D).

    Its logarithm is that of the pooled covariance, drawn towards 0 the more the fewer vectors there
    are for its D dimensions: with no more than D beyond one for each cluster it is I, the center of
    the prior. So it is in a direction in which no cluster has any spread, and where it would be
    wider than the prior's center: W_0's prior has light tails there, and from a start far out in
    them the first slices would be as wide as numbers are.
    """
    n_dims, n_spare = scatters.shape[1], counts.sum() - np.count_nonzero(counts)
    directions, roots = np.linalg.svd(np.concatenate(list(scatters), axis=1), full_matrices=False)[
        :2
    ]
    variances = roots**2 / max(n_spare, 1.0)
    variances[variances < _NO_SPREAD] = 1.0
    powers = np.minimum(variances, 1.0) ** max(0.0, 1.0 - n_dims / max(n_spare, 1.0))
    covariance = (directions * powers) @ directions.T
    return np.asarray(0.5 * (covariance + covariance.T))


def _likely_dof(counts: Array, scatters: Array, base_covariance: Array, least: float) -> float:
    """The most likely β of some, without the S_k: as in ``scale``, with a vector less in each
    cluster for its mean.

    least: β_min − D + 1 of the prior.
    """
    n_dims, used = scatters.shape[1], counts > 1
    whitened = np.linalg.solve(np.linalg.cholesky(base_covariance), scatters[used])
    roots = np.linalg.svd(whitened, compute_uv=False) ** 2
    dof = _SPARE + n_dims - 1 + least
    own = multigammaln(0.5 * dof, n_dims)
    density = -0.5 * np.log(_SPARE) - 0.5 * n_dims / _SPARE
    for n_spare, own_roots in zip(counts[used] - 1, roots, strict=True):
        density += (
            multigammaln(0.5 * (dof + n_spare), n_dims) - own - 0.5 * n_spare * n_dims * np.log(dof)
        )
        density -= 0.5 * (dof + n_spare) * np.log1p(own_roots / dof[:, None]).sum(axis=1)
    return float(dof[density.argmax()])


def draw_unit_wishart(rng: np.random.Generator, n_dims: int, dof: int) -> Array:
    """W(ν, I/ν) for whole ν ≥ D: the sum of ν outer products."""
    sample = rng.standard_normal((n_dims, dof))
    return np.asarray(sample @ sample.T / dof)

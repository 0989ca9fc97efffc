"""What is kept of a state: a row of numbers for each draw, its labels and who agrees, and a row for
each of its components.

The row of a draw: α, the discount, the noise, ln p(data, state), the number of clusters;
coefficients (C,); what each view's components share, view after view; latent vectors (U, q). The
row of a component: its users, then what each view has of it. ``record_of`` takes the rows apart.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.conjugate import log_conjugate
from dualview.chains.storage import Record, labels_by_name
from dualview.model import Model
from dualview.numerics.compiling import compiled, standalone
from dualview.numerics.linalg import put
from dualview.partitions.verbs import concentration, discount, log_density
from dualview.views.verbs import (
    base_widths,
    component_widths,
    log_densities_by,
    put_bases,
    put_components,
)

N_SCALARS = 5


class Pack(NamedTuple):
    """rows (draws, …), labels (draws, G, U), agrees (draws, G − 1, U), shares (draws, G − 1),
    n_components (draws,), components (rows, …), of which n_used are filled."""

    rows: NDArray[np.float64]
    labels: NDArray[np.int32]
    agrees: NDArray[np.bool_]
    shares: NDArray[np.float64]
    n_components: NDArray[np.int64]
    components: NDArray[np.float64]
    n_used: int


@compiled
def new_pack(n_draws, conjugate, state):
    """Room for some draws."""
    n_users, n_latent = state.views[-1].vectors.shape
    width = (
        N_SCALARS + conjugate.coefficients.shape[0] + base_widths(state.views) + n_users * n_latent
    )
    components = np.empty(
        (n_draws * (state.counts.shape[0] + 2), 1 + component_widths(state.views))
    )
    n_groups = state.labels.z.shape[0]
    return Pack(
        np.empty((n_draws, width)),
        np.empty((n_draws, n_groups, n_users), dtype=np.int32),
        np.empty((n_draws, n_groups - 1, n_users), dtype=np.bool_),
        np.empty((n_draws, n_groups - 1)),
        np.empty(n_draws, dtype=np.int64),
        components,
        0,
    )


@compiled
def log_agreement(agrees, share, a, b):
    """ln p(who agrees | ρ) + ln p(ρ)."""
    n_agree, total = 0, 0.0
    for u in range(agrees.shape[0]):
        n_agree += agrees[u]
    n_differ = agrees.shape[0] - n_agree
    if n_agree > 0:
        total += n_agree * math.log(share)
    if n_differ > 0:
        total += n_differ * math.log1p(-share)
    if a > 0.0:
        total += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        total += (a - 1.0) * math.log(share) + (b - 1.0) * math.log1p(-share)
    return total


@compiled
def log_joint(state, conjugate):
    """ln p(data, state) up to a constant that depends on nothing learned."""
    labels, start = state.labels, log_density(state.counts, state.partition)
    total = log_densities_by(labels.z, start, labels.groups, state.views)
    if conjugate.outcome.shape[0] > 0:
        total += log_conjugate(state.terms, conjugate)
    for g in range(labels.shares.shape[0]):
        a, b = labels.priors[g]
        total += log_agreement(labels.agrees[g], labels.shares[g], a, b)
    return total


@compiled
def with_rows(components, n_used, n_more):
    """With room for n_more rows after those in use."""
    if n_used + n_more <= components.shape[0]:
        return components
    more = np.empty((2 * (n_used + n_more), components.shape[1]))
    for k in range(n_used):
        for i in range(components.shape[1]):
            more[k, i] = components[k, i]
    return more


@standalone(returns="kept", work=4)
def pack(draw, kept, state, conjugate):
    """The pack with one more draw: the state as it stands, without empty clusters where users can
    open them."""
    counts, labels, n_clusters = state.counts, state.labels, 0
    components = with_rows(kept.components, kept.n_used, counts.shape[0])
    for k in range(counts.shape[0]):
        n_clusters += counts[k] > 0
        row = components[kept.n_used + k]
        row[0] = counts[k]
        put_components(row, np.int64(1), k, state.views)
    for g in range(labels.z.shape[0]):
        for u in range(labels.z.shape[1]):
            kept.labels[draw, g, u] = labels.z[g, u]
    for g in range(labels.shares.shape[0]):
        kept.shares[draw, g] = labels.shares[g]
        for u in range(labels.z.shape[1]):
            kept.agrees[draw, g, u] = labels.agrees[g, u] == 1
    row = kept.rows[draw]
    row[0], row[1], row[2], row[3], row[4] = (
        concentration(state.partition),
        discount(state.partition),
        state.terms.precision[0],
        log_joint(state, conjugate),
        n_clusters,
    )
    at = put_bases(row, put(row, np.int64(N_SCALARS), conjugate.coefficients), state.views)
    put(row, at, state.views[-1].vectors)
    kept.n_components[draw] = counts.shape[0]
    return Pack(
        kept.rows,
        kept.labels,
        kept.agrees,
        kept.shares,
        kept.n_components,
        components,
        kept.n_used + counts.shape[0],
    )


def record_of(model: Model, kept: Pack, n_draws: int) -> Record:
    """The first draws of a pack by name."""
    take = _Columns(kept.rows[:n_draws])
    alpha, discounts, noise, log_joint, n_clusters = (take(()) for _ in range(N_SCALARS))
    fixed: dict[str, NDArray[Any]] = {
        "n_clusters": n_clusters.astype(np.int64),
        "log_joint": log_joint,
    }
    if model.partition.has_alpha:
        fixed["alpha"] = alpha
    if model.partition.discount_prior is not None:
        fixed["discount"] = discounts
    if model.likelihood is not None:
        coefficients = take((model.likelihood.n_coefficients,))
        fixed |= {
            f"params.{name}": value
            for name, value in model.likelihood.params_of(noise, coefficients).items()
        }
    of_component = _Columns(kept.components[: kept.n_used])
    ragged: dict[str, NDArray[Any]] = {"count": of_component(()).astype(np.int64)}
    for name, view in model.views.items():
        base = [
            {part: take(shape) for part, shape in own.base_shapes.items()} for own in view.parts
        ]
        parts = [
            {part: of_component(shape) for part, shape in own.component_shapes.items()}
            for own in view.parts
        ]
        fixed |= {f"{name}.{part}": values for part, values in view.joined(base).items()}
        ragged |= {f"{name}.{part}": values for part, values in view.joined(parts).items()}
    fixed["n_components"] = kept.n_components[:n_draws]
    fixed |= labels_by_name(kept.labels[:n_draws], kept.agrees[:n_draws], kept.shares[:n_draws])
    if model.likelihood is not None:
        fixed["latent"] = take((model.n_users, model.likelihood.n_dims))
    return Record(fixed, ragged)


class _Columns:
    """Takes the columns of a table one after the other, in shapes of their own."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._table, self._at = table, 0

    def __call__(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        width = math.prod(shape)
        part = self._table[:, self._at : self._at + width]
        self._at += width
        return np.ascontiguousarray(part).reshape(len(part), *shape)

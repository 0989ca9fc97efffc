"""Profiles with their uncertainty: averages over a cluster's users of the parameters that each of
them has in a draw, and contrasts of two such averages (Molitor et al. 2010).

S draws, R components of all draws, U users, Q parameters. z (S, U) holds each user's component, as
one of the R.

The average of θ over the users of a set C in a draw is 1/|C| Σ_{u∈C} θ_{z_u}. Numbering the
components of the draw otherwise, z'_u = π(z_u) and θ'_{π(k)} = θ_k, gives θ'_{z'_u} = θ_{z_u} for
every user, and so the same average: nothing here depends on how a draw numbers its components.

Averages are taken on the scale on which the model sees a column, and then shown in the user's
units: of counts on the scale of log1p, exp of a sum would be decided by single wide components.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from dualview.checks import interval_ends, listed
from dualview.columns import Column
from dualview.errors import AbsentError, InputError
from dualview.posterior.draws.fit_facts import FitFacts
from dualview.posterior.prediction.user_features import rows_by_table
from dualview.views.features import FeatureBlock
from dualview.views.gaussian.block import MOST_CELLS, GaussianBlock
from dualview.views.gaussian.fresh import components_at
from dualview.views.gaussian.user_cells import gaussians_at

Array = NDArray[np.float64]
Users = NDArray[np.intp]
Labels = NDArray[np.int64]

EVERYBODY = "everybody"
_ROUNDING = 1e-13  # of an average of equal numbers


@dataclass(frozen=True)
class Parameter:
    """A number that every user has in every draw. column: what it is of. level: whose probability
    it is, "" of other numbers. quantity: "mean", "typical count", "probability" or "latent"."""

    column: str
    level: str
    quantity: str
    described: Column | None = None

    def shown(self, values: Array) -> Array:
        """Values on the model's scale in the user's units, as far as they can be recorded."""
        if self.described is None or self.level:
            return values
        with np.errstate(over="ignore"):
            raw = self.described.unscaled(values)
        if self.described.kind == "count":
            return np.maximum(raw, self.described.lowest or 0.0)
        return np.clip(raw, *self.described.limits) if self.described.limits else raw


class Averages(ABC):
    """Parameters of users in every draw, on the scale of the model."""

    @abstractmethod
    def over(self, users: Users) -> Array:
        """Their averages over some users, (S, Q)."""

    @abstractmethod
    def between(self, users: Users, others: Users) -> Array:
        """The same less those over others, (S, Q); exactly 0 where a draw does not tell the two
        apart."""

    @property
    @abstractmethod
    def spread(self) -> Array:
        """The standard deviation among all users of what the parameters are about, (S, Q)."""

    def standardized(self, users: Users, others: Users) -> Array:
        """Contrasts in standard deviations among all users, (S, Q)."""
        return np.asarray(
            self.between(users, others) / np.where(self.spread > 0, self.spread, np.inf)
        )


class ComponentAverages(Averages):
    """Averages where users have the parameters (R, Q) of their components.

    first (S,): each draw's first row. variances (R, Q): those inside each component.
    """

    def __init__(self, z: Labels, first: Users, parameters: Array, variances: Array) -> None:
        self._z, self._first = z, first
        self._parameters, self._variances = parameters, variances

    def over(self, users: Users) -> Array:
        return self._sums(self._shares(users), self._parameters)

    def between(self, users: Users, others: Users) -> Array:
        return self._sums(self._shares(users) - self._shares(others), self._parameters)

    def _shares(self, users: Users) -> Array:
        """The share of the users that is in each component, (R,)."""
        counts = np.bincount(self._z[:, users].ravel(), minlength=len(self._parameters))
        return np.asarray(counts / len(users))

    def _sums(self, weights: Array, values: Array) -> Array:
        """Weighted sums over the components of each draw, (S, Q)."""
        return np.asarray(np.add.reduceat(weights[:, None] * values, self._first, axis=0))

    @cached_property
    def spread(self) -> Array:
        """By the variances inside components and that between them."""
        shares = self._shares(np.arange(self._z.shape[1]))
        n_rows = np.diff(self._first, append=len(self._parameters))
        centers = np.repeat(self._sums(shares, self._parameters), n_rows, axis=0)
        squares = self._variances + (self._parameters - centers) ** 2
        return np.sqrt(self._sums(shares, squares))


class UserAverages(Averages):
    """Averages where users have parameters (S, U, Q) of their own."""

    def __init__(self, draws: Array) -> None:
        self._draws = draws

    def over(self, users: Users) -> Array:
        return np.asarray(self._draws[:, users].mean(axis=1))

    def between(self, users: Users, others: Users) -> Array:
        own, other = self.over(users), self.over(others)
        rounding = _ROUNDING * (np.abs(own) + np.abs(other))
        return np.where(np.abs(own - other) > rounding, own - other, 0.0)

    @cached_property
    def spread(self) -> Array:
        return np.asarray(self._draws.std(axis=1))


def share_above(away: Array) -> Any:
    """The share of differences (S, …) that are above zero, those that are zero counted half."""
    return np.heaviside(away, 0.5).mean(axis=0)


class _Source(NamedTuple):
    """Parameters whose averages are taken together."""

    parameters: list[Parameter]
    averages: Averages


def _sources(post: FitFacts) -> list[_Source]:
    """All that users of a fit have parameters of: columns of features, then latent vectors.

    Kinds of columns from outside the package have no parameters here.
    """
    found = list(_of_features(post))
    if "latent" in post:
        names = post.latent_names
        draws = post.flat("latent").reshape(-1, post.n_users, len(names))
        several = len(names) > 1
        parameters = [
            Parameter(f"latent {name}" if several else "latent", "", "latent") for name in names
        ]
        found.append(_Source(parameters, UserAverages(draws)))
    if not found:
        others = [column.name for block in post.blocks for column in block.columns]
        unknown = f" Kinds from outside the package are left out: {listed(others)}."
        raise AbsentError(
            "This fit has nothing that profiles could tell: neither columns of numbers or of "
            f"categories, nor a behavior.{unknown if others else ''}"
        )
    return found


def _of_features(post: FitFacts) -> Iterator[_Source]:
    if "features" not in post.spec.units and post.spec.codebook is None:
        return
    if "components" not in post.tree.children:
        raise AbsentError(
            "These draws came without the components of each draw, whose parameters profiles are "
            "averages of. Take the posterior of the fit, or a file that Posterior.save wrote."
        )
    readers = {"features": _numbers, "categories": _categories}
    blocks = [block for block in post.blocks if block.view in readers]
    n_draws = post.n_chains * post.n_draws
    z = rows_by_table(post, np.arange(n_draws))
    first = np.searchsorted(post.components["owner"], np.arange(n_draws))
    places = dict.fromkeys(readers, 0)  # of a block's first column among all of its view
    for block in blocks:
        at = places[block.view]
        places[block.view] += len(block.columns)
        parameters, values, variances = readers[block.view](post, block, at)
        averages = ComponentAverages(z[min(block.table, len(z) - 1)], first, values, variances)
        yield _Source(parameters, averages)


def _numbers(post: FitFacts, block: FeatureBlock, at: int) -> tuple[list[Parameter], Array, Array]:
    """Means of numbers and their variances in each component, on the scale of the view;
    probabilities of levels in order. Of clusters with heavy tails the squared scale is taken for
    the variance, which may be infinite."""
    assert isinstance(block, GaussianBlock)
    columns, dofs = block.columns, block.tail_dofs(post.components["owner"])
    units, own = post.spec.units["features"], slice(at, at + len(columns))
    n_rows, step = len(post.components["owner"]), max(1, MOST_CELLS // max(1, units.n_dims) ** 2)
    means, variances = np.empty((2, n_rows, len(columns)))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        found = gaussians_at(components_at(post, "features", rows), slice(None))
        means[rows] = units.mean[own] + found.means @ units.factor[own].T
        variances[rows] = ((units.factor[own] @ found.roots) ** 2).sum(axis=-1)
    parameters: list[Parameter] = []
    parts: list[Array] = []
    for column, mean, variance in zip(columns, means.T, variances.T, strict=True):
        if column.levels:
            bounds = np.array([-np.inf, *column.cuts, np.inf])
            away = (bounds - mean[:, None]) / np.sqrt(variance)[:, None]
            below = stdtr(dofs[:, None], away) if len(dofs) else ndtr(away)
            shares = np.diff(below, axis=1)
            parts += [shares, shares * (1.0 - shares)]
            parameters += _levels(column)
        else:
            parts += [mean[:, None], variance[:, None]]
            name = "typical count" if column.scale == "log1p" else "mean"
            parameters.append(Parameter(column.name, "", name, column))
    return parameters, np.hstack(parts[::2]), np.hstack(parts[1::2])


def _categories(
    post: FitFacts, block: FeatureBlock, at: int
) -> tuple[list[Parameter], Array, Array]:
    """Probabilities of levels in each component, and the variances of their indicators."""
    assert post.spec.codebook is not None
    columns = block.columns
    before = post.spec.codebook.of("categories")[:at]
    first = sum(len(column.levels) for column in before)
    n_levels = sum(len(column.levels) for column in columns)
    shares = np.exp(post.components["categories.log_shares"][:, first : first + n_levels])
    parameters = [parameter for column in columns for parameter in _levels(column)]
    return parameters, shares, shares * (1.0 - shares)


def _levels(column: Column) -> list[Parameter]:
    return [Parameter(column.name, str(level), "probability", column) for level in column.levels]


def profiles_of(
    post: FitFacts, labels: Labels, clusters: Any, against: Any, probability: float
) -> pd.DataFrame:
    """A row for each cluster and parameter, those of the columns that distinguish it most first;
    see ``DualViewMixture.profiles``."""
    ends = interval_ends(probability)
    groups = _groups(labels, clusters)
    others = np.arange(len(labels))
    if against is not None:
        ((_, others),) = _groups(labels, [against])
    sources = _sources(post)
    return pd.DataFrame(
        [
            {"cluster": name, **row}
            for name, users in groups
            for row in _rows(sources, users, others, against is not None, ends)
        ]
    )


def _groups(labels: Labels, clusters: Any) -> list[tuple[int | str, Users]]:
    """Clusters by their numbers in the estimate, or everybody, with their users."""
    n_clusters = int(labels.max()) + 1
    asked = clusters if isinstance(clusters, (list, tuple, range, np.ndarray)) else [clusters]
    if clusters is None:
        asked = range(n_clusters)
    found: list[tuple[int | str, Users]] = []
    for one in asked:
        if isinstance(one, str) and one == EVERYBODY:
            found.append((EVERYBODY, np.arange(len(labels))))
            continue
        is_number = isinstance(one, (int, np.integer)) and not isinstance(one, bool)
        if not is_number or not 0 <= one < n_clusters:
            raise InputError(
                f"A cluster is a number from 0 to {n_clusters - 1}, as in labels_, or "
                f'"{EVERYBODY}"; got {one!r}.'
            )
        found.append((int(one), np.flatnonzero(labels == one)))
    if not found:
        raise InputError("profiles needs at least one cluster; got an empty list.")
    return found


def _rows(
    sources: Sequence[_Source],
    users: Users,
    others: Users,
    is_contrast: bool,
    ends: tuple[float, float],
) -> list[dict[str, Any]]:
    """What is told of one cluster, by column; columns that distinguish it most come first."""
    by_column: list[list[dict[str, Any]]] = []
    for parameters, averages in sources:
        own, away = averages.over(users), averages.standardized(users, others)
        other = averages.over(others) if is_contrast else own
        for q, parameter in enumerate(parameters):
            draws = parameter.shown(own[:, q])
            if is_contrast:
                draws = np.where(away[:, q] == 0, 0.0, draws - parameter.shown(other[:, q]))
            told = {
                "column": parameter.column,
                "level": parameter.level,
                "quantity": parameter.quantity,
                **_summary(draws, ends),
                "above": float(share_above(away[:, q])),
                "standardized": float(away[:, q].mean()),
            }
            if q and parameters[q - 1].column == parameter.column:
                by_column[-1].append(told)
            else:
                by_column.append([told])
    by_column.sort(key=lambda rows: -max(abs(row["standardized"]) for row in rows))
    return [row for rows in by_column for row in rows]


def _summary(draws: Array, ends: tuple[float, float]) -> dict[str, float]:
    """Mean, standard deviation, median and interval of draws."""
    low, median, high = np.quantile(draws, [ends[0], 0.5, ends[1]])
    with np.errstate(invalid="ignore", over="ignore"):
        mean, sd = draws.mean(), draws.std(ddof=1) if len(draws) > 1 else 0.0
    found = {"mean": mean, "sd": sd, "median": median, "low": low, "high": high}
    return {name: float(value) for name, value in found.items()}

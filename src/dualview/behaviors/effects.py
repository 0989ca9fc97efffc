"""What acts on observations outside the mixture: columns with one coefficient for everybody, and
groups of levels.

n observations, C columns, S draws. A group has an effect for each of its levels, such as items or
lecturers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.effects_draw import SparseDesign
from dualview.behaviors.likelihoods.with_effects import EffectUnits, WithEffects
from dualview.behaviors.records import Array, Params
from dualview.checks import (
    as_array,
    check_range,
    column_names,
    names_text,
    numbers,
    refuse_repeated_columns,
    varies,
)
from dualview.errors import InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening

_SEED = 23  # of effects drawn for levels that the fit has not seen


class Factor(NamedTuple):
    """A group: the levels of each observation (n, m), as positions in ``levels``; signs (m,) with
    which their effects count.

    A position below 0 is a level that the fit has not seen: another number, another level.
    """

    name: str
    levels: list[str]
    places: NDArray[np.int64]
    signs: Array


@dataclass(frozen=True)
class Effects:
    """Columns (n, C) with their names, and groups; offset (n,): known numbers. prior: of the
    columns' coefficients."""

    columns: Array
    names: list[str]
    factors: tuple[Factor, ...]
    offset: Array
    prior: GaussianPrior | None = None

    @classmethod
    def of(
        cls, n: int, common: Any, groups: Any, offset: Any, prior: GaussianPrior | None
    ) -> "Effects":
        """From what a behavior was given, with a row for each of n observations."""
        columns, names = np.empty((n, 0)), []
        if common is not None:
            refuse_repeated_columns(common, "common")
            columns = numbers(common, "common", n_dims=2)
            names = column_names(common) or [f"c{j}" for j in range(columns.shape[1])]
            check_range(np.abs(columns).max(axis=0, initial=0.0), "common", names)
            _check_rows(len(columns), n, "common")
        if prior is not None and not isinstance(prior, GaussianPrior):
            raise InputError(
                "coefficient_prior must be a GaussianPrior(mean, covariance) or None; got "
                f"{type(prior).__name__}."
            )
        if prior is not None and not names:
            raise InputError(
                "coefficient_prior is over the columns of common; there are none. Give common, "
                "or drop it."
            )
        if prior is not None:
            prior.check_size(len(names), f"coefficient_prior over ({', '.join(names)})")
        known = np.zeros(n) if offset is None else numbers(offset, "offset", n_dims=1)
        _check_rows(len(known), n, "offset")
        return cls(columns, names, _factors(groups, n), known, prior)

    @property
    def none(self) -> bool:
        """Whether nothing is learned outside the mixture."""
        return not self.names and not self.factors

    def with_factor(self, factor: Factor) -> "Effects":
        """The same with one more group, the first."""
        if factor.name in [other.name for other in self.factors]:
            raise InputError(
                f"groups must not have one called {factor.name!r} here: the behavior has it "
                "already. Rename it."
            )
        return replace(self, factors=(factor, *self.factors))

    def take(self, rows: Any) -> "Effects":
        """Those of some observations."""
        factors = tuple(factor._replace(places=factor.places[rows]) for factor in self.factors)
        return replace(self, columns=self.columns[rows], offset=self.offset[rows], factors=factors)

    def like(self, new: "Effects") -> "Effects":
        """Those of new observations, checked to be of the same columns and groups; levels by their
        names in the fit."""
        if new.names != self.names:
            raise InputError(
                "New observations must have the common columns of the fit, "
                f"{', '.join(self.names) or 'none'}; got "
                f"{', '.join(new.names) or 'none'}."
            )
        mine, theirs = ([factor.name for factor in part.factors] for part in (self, new))
        if sorted(mine) != sorted(theirs):
            raise InputError(
                "New observations must have the groups of the fit, "
                f"{', '.join(mine) or 'none'}; got "
                f"{', '.join(theirs) or 'none'}."
            )
        by_name = {factor.name: factor for factor in new.factors}
        return replace(
            new, factors=tuple(_matched(factor, by_name[factor.name]) for factor in self.factors)
        )

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Where the effects of each group begin among those of all groups, and their number, (G +
        1,)."""
        return np.concatenate(
            [[0], np.cumsum([len(factor.levels) for factor in self.factors])]
        ).astype(np.int64)

    @property
    def param_names(self) -> list[str]:
        """Names in the posterior of what predictions need."""
        return (["coefficients"] if self.names else []) + (
            ["group_effects", "group_sd"] if self.factors else []
        )

    def coords(self) -> dict[str, Any]:
        """Names along the axes of coefficients, groups, and levels of all groups."""
        found: dict[str, Any] = {"coefficient": self.names} if self.names else {}
        if self.factors:
            found["group"] = [factor.name for factor in self.factors]
            found["group_level"] = [
                f"{factor.name}: {level}" for factor in self.factors for level in factor.levels
            ]
        return found

    def described(self) -> dict[str, Any]:
        """Names of columns, groups and levels, where there are some."""
        if self.none:
            return {}
        groups = [
            {"name": factor.name, "levels": factor.levels, "signs": factor.signs.tolist()}
            for factor in self.factors
        ]
        return {"effects": {"common": self.names, "groups": groups}}

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> "Effects":
        """Those of no observations."""
        told = description.get("effects", {"common": [], "groups": []})
        factors = tuple(
            Factor(
                group["name"],
                group["levels"],
                np.empty((0, len(group["signs"])), dtype=np.int64),
                np.array(group["signs"]),
            )
            for group in told["groups"]
        )
        return cls(np.empty((0, len(told["common"]))), told["common"], factors, np.empty(0))

    def fingerprint(self) -> dict[str, Any]:
        """Digests by name, of what there is."""
        found: dict[str, Any] = {}
        if self.names:
            found["common"] = digest(self.columns)
        for factor in self.factors:
            found[f"group {factor.name}"] = [digest(factor.places), factor.levels]
        if self.offset.any():
            found["offset"] = digest(self.offset)
        if self.prior is not None:
            found["coefficient_prior"] = digest(self.prior.mean, self.prior.covariance)
        return found

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Columns, levels and offset of each observation, where there are some."""
        found: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
        if self.names:
            found["common"] = (("observation", "coefficient"), self.columns)
        for factor in self.factors:
            if factor.places.shape[1] == 1:
                found[f"group_{factor.name}"] = (
                    ("observation",),
                    np.asarray(factor.levels)[factor.places[:, 0]],
                )
        if self.offset.any():
            found["offset"] = (("observation",), self.offset)
        return found

    def locations(self, params: Params, cases: slice = slice(None)) -> Array:
        """What is added to the locations of some observations in S draws, (S, cases) or (1, cases);
        unseen levels add 0."""
        total = self.offset[None, cases]
        if self.names:
            total = total + np.asarray(params["coefficients"]) @ self.columns[cases].T
        for first, factor in zip(self.bounds, self.factors, strict=False):
            places, drawn = factor.places[cases], np.asarray(params["group_effects"])
            for column, sign in zip(places.T, factor.signs, strict=True):
                total = total + sign * np.where(
                    column >= 0, drawn[:, first + np.maximum(column, 0)], 0.0
                )
        return np.asarray(total)

    @property
    def has_unseen(self) -> bool:
        """Whether some observation has a level that the fit has not seen."""
        return any(bool((factor.places < 0).any()) for factor in self.factors)

    def variances(self, params: Params, cases: slice = slice(None)) -> Array:
        """Of the effects of unseen levels, (S, cases): they come from the group's distribution."""
        unseen = np.column_stack(
            [(factor.places[cases] < 0) @ factor.signs**2 for factor in self.factors]
        )
        return np.asarray(np.asarray(params["group_sd"]) ** 2 @ unseen.T)

    def drawn_locations(self, params: Params) -> Array:
        """:meth:`locations` of all observations with an effect drawn for each unseen level in each
        draw, (S, n)."""
        total = self.locations(params)
        if not self.has_unseen:
            return total
        sds, rng = np.asarray(params["group_sd"]), np.random.default_rng(_SEED)
        for group, factor in enumerate(self.factors):
            effects = sds[:, [group]] * rng.standard_normal(
                (len(sds), 1 - int(factor.places.min(initial=0)))
            )
            for column, sign in zip(factor.places.T, factor.signs, strict=True):
                total = total + sign * np.where(column < 0, effects[:, np.maximum(-column, 0)], 0.0)
        return np.asarray(total)

    def check_columns(self) -> None:
        """Raise where a fit could not tell coefficients or effects."""
        constant = np.array([not varies(column) for column in self.columns.T], dtype=bool)
        if constant.any() and self.prior is None:
            raise InputError(
                "common must vary between observations; constant: "
                f"{names_text(self.names, constant)}. Use intercept=True, "
                "which gives each user a level of its own, or give coefficient_prior."
            )
        for factor in self.factors:
            if len(factor.levels) < 2:
                raise InputError(
                    f"The group {factor.name!r} must have at least two levels; it has "
                    f"{len(factor.levels)}. Drop it."
                )

    def units(self, scale: float) -> Whitening:
        """Units in which the columns' coefficients have the prior N(0, I); by default their sd is
        scale / sd of the column."""
        if not self.names:
            return Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
        if self.prior is not None:
            return Whitening.of(self.prior)
        variances = scale**2 / self.columns.var(axis=0, ddof=1)
        return Whitening.of(GaussianPrior(np.zeros(len(self.names)), np.diag(variances)))

    def known(self, units: Whitening) -> Array:
        """What the locations have of offsets and of the mean of the coefficients' prior, (n,)."""
        return np.asarray(self.offset + self.columns @ units.mean)

    def around(
        self, likelihood: Likelihood, units: Whitening, order: NDArray[np.intp], scales: "Scales"
    ) -> Likelihood:
        """A likelihood with these effects around it, where there are some; its observations are in
        this order."""
        if self.none:
            return likelihood
        n_common, n_groups = len(self.names), len(self.factors)
        columns = self.columns @ units.factor / scales.location
        roots = np.ones(len(order)) if scales.roots is None else scales.roots
        values = (
            np.hstack(
                [columns, *(np.tile(factor.signs, (len(order), 1)) for factor in self.factors)]
            )
            * roots[:, None]
        )
        places = [np.tile(np.arange(n_common), (len(order), 1))]
        places += [
            n_common + first + factor.places
            for first, factor in zip(self.bounds, self.factors, strict=False)
        ]
        design = SparseDesign(
            np.hstack(places)[order].astype(np.int64),
            np.ascontiguousarray(values[order]),
            self.n_columns,
        )
        prior_scales = np.full(n_groups, scales.groups / scales.location)
        made_of = EffectUnits(units, scales.location)
        return WithEffects(
            likelihood, design, n_common, n_common + self.bounds, prior_scales, made_of
        )

    @property
    def n_columns(self) -> int:
        """Coefficients and effects of levels."""
        return len(self.names) + int(self.bounds[-1])

    def indicators(self) -> list[Any]:
        """What the effects of each group's levels count for, sparse (n, levels)."""
        n, found = len(self.offset), []
        for factor in self.factors:
            rows, values = np.repeat(np.arange(n), factor.places.shape[1]), np.tile(factor.signs, n)
            found.append(
                sparse.csr_array(
                    (values, (rows, factor.places.ravel())), shape=(n, len(factor.levels))
                )
            )
        return found

    def quick_estimate(self, design: Array, outcome: Array) -> Array:
        """What the effects add to outcomes (n,), by one regression on them and on the design
        together, for starting values."""
        if self.none:
            return self.offset
        own = sparse.hstack([sparse.csr_array(self.columns), *self.indicators()], format="csr")
        whole = sparse.hstack([own, sparse.csr_array(design)], format="csr")
        found = lsmr(whole, outcome - self.offset, damp=1.0, maxiter=200)[0]
        return np.asarray(self.offset + own @ found[: own.shape[1]])


class Scales(NamedTuple):
    """A location of 1 in the user's units (location); how much effects of groups may vary (groups,
    A of (M18), likewise).

    roots (n,): by what the rows of observations are multiplied, for their weights; None for 1.
    """

    location: float
    groups: float
    roots: Array | None = None


def _check_rows(n_given: int, n: int, name: str) -> None:
    if n_given != n:
        raise InputError(f"{name} must have a value per observation, {n}; got {n_given}.")


def _factors(groups: Any, n: int) -> tuple[Factor, ...]:
    if groups is None:
        return ()
    names = list(groups) if isinstance(groups, Mapping) else column_names(groups)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            "groups must be a dict or a DataFrame with a column per group, the level of each "
            "observation: "
            f"groups={{'item': items}}; got {type(groups).__name__}."
        )
    refuse_repeated_columns(groups, "groups")
    return tuple(_factor(name, groups[name], n) for name in names)


def _factor(name: str, given: Any, n: int) -> Factor:
    values = as_array(given, f"groups[{name!r}]")
    if values.ndim != 1 or len(values) != n:
        raise InputError(
            f"groups[{name!r}] must have a level per observation, ({n},); got shape {values.shape}."
        )
    if values.dtype.kind == "f" or (
        values.dtype.kind == "O" and any(v is None or v != v for v in values.tolist())
    ):
        raise InputError(
            f"groups[{name!r}] must hold names or whole numbers; got fractions or missing values."
        )
    found, places = np.unique(
        values if values.dtype.kind in "iub" else values.astype(str), return_inverse=True
    )
    return Factor(
        name,
        [str(level) for level in found.tolist()],
        places.reshape(-1, 1).astype(np.int64),
        np.ones(1),
    )


def _matched(known: Factor, new: Factor) -> Factor:
    """The new observations' levels by their positions in the fit; those that are matched already
    stay as they are."""
    if new.places.shape[1] != known.places.shape[1]:
        raise InputError(f"The group {known.name!r} must be given as in the fit.")
    place = {level: i for i, level in enumerate(known.levels)}
    unseen = {
        level: -1 - i for i, level in enumerate(level for level in new.levels if level not in place)
    }
    positions = np.array(
        [place.get(level, unseen.get(level, -1)) for level in new.levels] or [-1], dtype=np.int64
    )
    matched = positions[np.maximum(new.places, 0)]
    return known._replace(places=np.where(new.places < 0, new.places, matched))

"""Rankings: which of several items come first, second, third, …

A row for each item of a ranking: user (n,), ranking (n,), design (n, q), place (n,); latent (U, q).
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dualview.behaviors.base import Likelihood, fold_positions
from dualview.behaviors.families.base import Outcome
from dualview.behaviors.families.ranking import Orders, RankedRows, RankingFamily, RankingOutcome
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.behaviors.records import Array, Panel, Params
from dualview.checks import as_array, index_names, names_text
from dualview.errors import AbsentError, InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening


class Rankings(PerUser):
    """Rankings by what the items are: u orders them by utilities x_jᵀ f_u + ε_j, ε_j ~ N(0, 1)
    (Thurstone's model).

    Parameters
    ----------
    user : array (n,)
        Whose ranking it is, in a row for each item of a ranking: ids, or rows of X counted from 0.
    ranking : array (n,)
        Which ranking the item is in: whole numbers or ids. A ranking belongs to one user; a user
        may have several.
    design : array or DataFrame (n, q)
        Features of the item: a column for each part of the latent vector f_u. Only differences
        between the items of a ranking matter.
    place : array (n,), optional
        Places 1, 2, 3, … of the items of a ranking, without ties. NaN for an item that could have
        been ranked and was not: it is below all that were. Leave ``place`` out for rankings to be
        predicted.
    common, groups, offset, coefficient_prior : as in :class:`BinaryOutcomes`
        Of each item in each ranking, on the scale of the utilities. ``groups={"item": items}``
        gives each item an appeal of its own.
    users, n_users : as in :class:`UserRegression`

    Notes
    -----
    A ranking counts as one observation: ``split``, ``folds`` and ``take`` keep its rows together,
    and scores are of whole rankings. Latent vectors have the constants m = 0 and Σ = I for columns
    with a standard deviation of 1 inside rankings.

    Examples
    --------
    >>> users, design = ["ann"] * 3 + ["bob"] * 3, [[0.0], [1.0], [2.0]] * 2
    >>> rankings = Rankings(users, [1, 1, 1, 2, 2, 2], design, [1, 2, 3, None, 1, None])
    >>> len(rankings), rankings.n_rankings, rankings.n_observations
    (2, 2, 6)
    """

    observations = "ranked items"

    ranking: NDArray[np.int64]
    ranking_ids: list[str]

    def __init__(
        self,
        user: Any,
        ranking: Any,
        design: Any,
        place: ArrayLike | None = None,
        *,
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, False)
        self.ranking, self.ranking_ids = _rankings(ranking, len(matrix))
        self._set(user, matrix, None, names, users, n_users)
        self._check_rankings()
        self.outcome = None if place is None else self._ranked.places(place)
        self._set_effects(common, groups, offset, coefficient_prior)
        self.observation_ids = index_names(design)

    def _check_rankings(self) -> None:
        """Each of one user, and of two items at least."""
        sizes = np.bincount(self.ranking, minlength=len(self.ranking_ids))
        if (sizes < 2).any():
            first = self.ranking_ids[int(np.argmax(sizes < 2))]
            raise InputError(
                f"A ranking needs two items at least, a row each; ranking {first} has one. Leave "
                "it out."
            )
        owner = np.empty(len(self.ranking_ids), dtype=np.int64)
        owner[self.ranking] = self.user
        strange = np.flatnonzero(owner[self.ranking] != self.user)
        if len(strange):
            name = self.ranking_ids[self.ranking[strange[0]]]
            raise InputError(
                f"A ranking belongs to one user; ranking {name} has rows of several. Give the "
                "rankings of different users "
                "different ids."
            )

    def __repr__(self) -> str:
        outcome = "no outcome" if self.outcome is None else "outcome"
        return (
            f"Rankings({self.n_rankings} rankings of {self.n_observations} items, "
            f"{len(self)} users, {outcome})"
        )

    @property
    def n_rankings(self) -> int:
        return len(self.ranking_ids)

    @property
    def _ranked(self) -> RankedRows:
        return RankedRows.of(self.ranking, self.ranking_ids)

    @property
    def scored_as(self) -> str:
        return "rankings"

    @property
    def observed(self) -> Array:
        """Places, inf for items that were not ranked; an error where there are none."""
        if self.outcome is None:
            raise AbsentError(
                "Places are needed here: pass Rankings(user, ranking, design, place)."
            )
        return self.outcome

    def facts(self) -> dict[str, object]:
        """Users, rankings, latent vector, and how many items have a place."""
        found = super().facts() if self.outcome is None else self._without_outcome().facts()
        what = "none: to be predicted"
        if self.outcome is not None:
            what = (
                f"{int(np.isfinite(self.outcome).sum()):,} places in {self.n_rankings:,} rankings"
            )
        return found | {"outcome": what}

    def _without_outcome(self) -> Self:
        other = self._copy()
        other.outcome = None
        return other

    def _take_rest(self, rows: NDArray[Any]) -> None:
        sizes = np.bincount(self.ranking, minlength=self.n_rankings)
        left = np.bincount(self.ranking[rows], minlength=self.n_rankings)
        cut = np.flatnonzero((left != 0) & (left != sizes))
        if len(cut):
            raise InputError(
                f"Rankings are taken as a whole; of ranking {self.ranking_ids[cut[0]]} "
                f"{left[cut[0]]} rows of {sizes[cut[0]]} "
                "were asked for. split and folds keep rankings together."
            )
        kept = np.flatnonzero(left)
        self.ranking = np.searchsorted(kept, self.ranking[rows])
        self.ranking_ids = [self.ranking_ids[r] for r in kept]

    def whole(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """All rows of the rankings whose first row is among these; of one ranking at least."""
        first = np.unique(self.ranking, return_index=True)[1]
        chosen = np.isin(first, rows)
        chosen[0] |= not chosen.any()
        return np.flatnonzero(chosen[self.ranking])

    def folds(
        self, n_splits: int = 5, *, seed: int = 0
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The positions of the rows that :meth:`split` cuts into: whole rankings."""
        parts = fold_positions(self.n_rankings, n_splits, seed, "rankings")
        return [(self._rows_of(training), self._rows_of(held_out)) for training, held_out in parts]

    def _rows_of(self, rankings: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.flatnonzero(np.isin(self.ranking, rankings))

    @property
    def _order(self) -> NDArray[np.intp]:
        """The rows by user, those of a ranking together."""
        return np.lexsort((self.ranking, self.user))

    def _inside(self, columns: Array) -> Array:
        """Columns (n, m) minus their means in each ranking: all of them that a ranking depends
        on."""
        sizes = np.bincount(self.ranking, minlength=self.n_rankings)
        sums = np.zeros((self.n_rankings, columns.shape[1]))
        np.add.at(sums, self.ranking, columns)
        inside = columns - (sums / sizes[:, None])[self.ranking]
        tiny = 1e-12 * np.abs(columns).max(axis=0, initial=0.0)
        return np.where(np.abs(inside) <= tiny, 0.0, inside)

    def _check_columns(self) -> None:
        for columns, names, what in (
            (self.design, self.names, "design"),
            (self.effects.columns, self.effects.names, "common"),
        ):
            constant = ~np.any(self._inside(columns) != 0.0, axis=0)
            if constant.any():
                raise InputError(
                    f"{what} must differ between the items of a ranking; the same for all items "
                    "of each: "
                    f"{names_text(names, constant)}. Only differences matter in a ranking: leave "
                    "it out, or multiply it by a "
                    "feature of the items."
                )

    def _scaled_by(self) -> Array:
        return self._rows_design

    @property
    def _rows_design(self) -> Array:
        return self._inside(self.design)

    def _panel_in(self, order: NDArray[np.intp], factor: Array) -> tuple[Panel, Orders]:
        """Rows in this order with a design in working units, and the rankings as orders of them."""
        design, n = self._rows_design[order] @ factor, len(order)
        panel = Panel.of(self.user[order], design, np.zeros(n), len(self))
        codes = np.unique(self.ranking[order], return_inverse=True)[1]
        return panel, Orders.of(codes.astype(np.int64), self.observed[order])

    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's vector from normal scores of the places, (U,) or (U,
        q)."""
        units = Whitening.of(self._latent_prior())
        panel, orders = self._panel_in(self._order, units.factor)
        scored = panel._replace(outcome=orders.scores())
        return self._estimates(units, scored.squares, scored.weighted)

    def _check_fit(self) -> None:
        _ = self.observed
        if self.n_rankings < 2:
            raise InputError(f"A fit needs at least two rankings; got {self.n_rankings}.")
        self._check_columns()

    def _likelihood(self, units: Whitening, known: Array) -> Likelihood:
        order = self._order
        panel, orders = self._panel_in(order, units.factor)
        return UserRows(panel, RankingFamily(), known[order], orders)

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The ranking of each row besides."""
        return super().constant_data() | {
            "ranking_of": (("observation",), np.asarray(self.ranking_ids)[self.ranking])
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.ranking, behavior.ranking_ids = np.empty(0, dtype=np.int64), []
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {"ranking": digest(self.ranking)}

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Locations are expected utilities."""
        return RankingOutcome(new._ranked)

    def left_out(self) -> None:
        """Items of a ranking have one density together."""


def _rankings(given: Any, n: int) -> tuple[NDArray[np.int64], list[str]]:
    """The ranking of each row as a number from 0 in the order of appearance, and their ids."""
    values = as_array(given, "ranking")
    if values.shape != (n,):
        raise InputError(
            f"ranking must have a value per row of design, ({n},); got shape {values.shape}."
        )
    if values.dtype.kind == "f" or any(
        value is None or value != value for value in values.tolist()
    ):
        raise InputError(
            "ranking must hold whole numbers, or ids as text; got fractions or missing values."
        )
    names = [str(value) for value in values.tolist()]
    place = {name: r for r, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.int64), list(place)

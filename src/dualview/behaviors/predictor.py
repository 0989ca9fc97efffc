"""Observations whose locations are linear in the users' latent vectors, η_r = Σ_u w_ru d_r·f_u +
what acts outside the mixture, with a family of distributions about them."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.effects import Effects
from dualview.behaviors.families.base import Outcome
from dualview.behaviors.ids import Rows
from dualview.behaviors.records import Array, ClusterNoise, Forecast, Params, UserNoise
from dualview.checks import listed
from dualview.errors import InputError


class LinearBehavior(Behavior):
    """A behavior with a linear predictor. A subclass says what users' vectors count for, and its
    family."""

    effects: Effects
    _names_all: ClassVar[bool] = False  # whether observations name every user, as columns do

    @abstractmethod
    def with_users(
        self, places: Sequence[int], users: list[str] | None, n_users: int | None = None
    ) -> Self:
        """The same observations, user u now at places[u], or nowhere where that is −1."""

    @abstractmethod
    def _seen(self) -> Sequence[int] | NDArray[np.int64]:
        """Positions of the users who have observations."""

    @abstractmethod
    def _on_rows(self, rows: Rows) -> Self:
        """The same observations of the rows of an X without ids."""

    @abstractmethod
    def _on_ids(self, rows: Rows, ids: list[str]) -> Self:
        """The same observations of the rows of an X with these ids."""

    def matched(self, rows: Rows | None) -> Self:
        """The same observations of the rows of X: by ids, or by position where one side has none.
        Without X, of those named here."""
        if rows is None:
            return self if self._user_numbers is None else self._renamed(self.users)
        return self._on_rows(rows) if rows.ids is None else self._on_ids(rows, rows.ids)

    def _renamed(self, users: list[str] | None) -> Self:
        """The same observations, of users in the same order with these ids."""
        return self.with_users(range(len(self)), users, len(self))

    def without_ids(self) -> Self:
        """The same observations, of users who are known by position."""
        return self._renamed(None)

    def aligned(self, users: Sequence[str]) -> Self:
        """The same observations with the users in this order; users without observations may be
        missing, unless observations name everybody."""
        return self._arranged(users, self._names_all)

    def among(self, users: Sequence[str]) -> Self:
        """The same observations among these users, by their ids; who is missing here has none."""
        return self._arranged(users, False)

    def _arranged(self, users: Sequence[str], all_named: bool) -> Self:
        own = self.ids
        if own is None or self.users == list(users):
            return self
        place, named = {user: u for u, user in enumerate(users)}, set(own)
        missing = [user for user in users if all_named and user not in named]
        extra = [own[u] for u in self._seen() if own[u] not in place]
        if missing or extra:
            parts = [f"only in X: {listed(missing)}"] if missing else []
            parts += [f"only in the behavior: {listed(extra)}"] if extra else []
            raise InputError(
                f"X and behavior must be of the same users, by their ids; {'; '.join(parts)}."
                f"{self._advice_on_positions(len(users))}"
            )
        return self.with_users([place.get(user, -1) for user in own], list(users))

    def _advice_on_positions(self, n: int) -> str:  # noqa: ARG002
        """How to say that numbers that are no ids count the rows of X, where they can."""
        return ""

    @abstractmethod
    def like(self, new: Any, n_new: int) -> Self:
        """New observations, checked to be of the fit's users and n_new others."""

    @abstractmethod
    def _known_locations(
        self, new: Self, latent: Array, params: Params | None = None
    ) -> Callable[[slice], Array]:
        """cases → (S, cases): known users' latent vectors, (S, U) or (S, U, q), and what acts
        outside the mixture."""

    @abstractmethod
    def _loads(self, new: Self, n_new: int) -> Any:
        """What new users' vectors count for, sparse (n, J q)."""

    @property
    def _acts_outside(self) -> bool:
        """Whether anything but the users' vectors moves the locations."""
        return not self.effects.none or bool(self.effects.offset.any())

    def outside(self, params: Params, cases: slice = slice(None), drawn: bool = False) -> Array:
        """What acts on the locations of some observations outside the mixture, (S, cases) or (1,
        cases).

        Levels that the fit has not seen add 0, or an effect that is drawn.
        """
        if drawn:
            return self.effects.drawn_locations(params)[:, cases]
        return self.effects.locations(params, cases)

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """The distribution of observations given their locations, in S draws of this fit.

        With it a behavior has forecasts, evidence about new users and leave-one-out scores.
        """
        raise self._lacks("family", "predict outcomes")

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The distribution of new outcomes given S draws of latent vectors and params in the user's
        units.

        Effects of levels that the fit has not seen add their variance to that of the locations, or
        are drawn where several observations have one density together.
        """
        self.check_who_is_new(new, n_new)
        found = self.like(new, n_new)
        outcome, known = (
            self.family(found, params, len(latent)),
            self._known_locations(found, latent, params),
        )
        unsure: Callable[[slice], Array] | None = None
        if found.effects.has_unseen and outcome.is_joint:
            seen, unseen = known, found.outside(params, drawn=True) - found.outside(params)

            def known(cases: slice) -> Array:
                return np.asarray(seen(cases) + unseen[:, cases])
        elif found.effects.has_unseen:

            def unsure(cases: slice) -> Array:
                return found.effects.variances(params, cases)

        noise = self._noise_of_new(found, params, len(latent))
        return Forecast(
            found.n_observations, known, outcome, self._loads(found, n_new), noise, unsure
        )

    def _noise_of_new(
        self,
        new: Self,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        n_draws: int,  # noqa: ARG002
    ) -> ClusterNoise | UserNoise | None:
        """Of new users, where the noise is each cluster's or user's own; None by default."""
        return None

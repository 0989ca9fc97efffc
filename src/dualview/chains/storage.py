"""Storage of draws: one row per kept draw, and a table of components with one row per cluster of
each draw.

With very many users it leaves a summary instead: every draw's scalars, clusters and latent vectors
of some users, running moments of the latent vectors of all, and a few whole draws.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.schedule import Spacing
from dualview.model import Model, State

_WHOLE = {
    "z",
    "n_components",
    "latent",
    "features.cells",
    "z_behavior",
    "z_tables",
    "agrees",
}  # of a draw that is kept whole, besides its components
_WHOLE_ENDING = ".group_effects"  # and parameters with such names
_N_ANCHORS = 200
_BATCH = 50_000  # users of all the states that wait to be packed together

Row = dict[str, Any]


def anchors(n_users: int) -> NDArray[np.int64]:
    """Users, spread evenly, whose clusters and latent vectors a summary keeps of every draw."""
    return np.unique(np.linspace(0, n_users - 1, min(n_users, _N_ANCHORS)).astype(np.int64))


@dataclass(frozen=True)
class Moments:
    """Number, mean (U, q) and summed outer products of deviations (U, q, q) of vectors that came
    one by one (Welford 1962)."""

    n: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def none(cls, like: NDArray[np.float64]) -> "Moments":
        return cls(0, np.zeros_like(like), np.zeros((*like.shape, like.shape[-1])))

    @classmethod
    def joined(cls, parts: list["Moments"]) -> "Moments":
        """The moments of several sets of vectors together."""
        n = sum(part.n for part in parts)
        mean = np.sum([part.n * part.mean for part in parts], axis=0) / n
        squares = np.zeros_like(parts[0].squares)
        for part in parts:
            away = part.mean - mean
            squares += part.squares + part.n * away[:, :, None] * away[:, None, :]
        return cls(n, mean, squares)

    def with_one(self, value: NDArray[np.float64]) -> "Moments":
        """The moments with one more; the arrays are taken over."""
        n = self.n + 1
        away = value - self.mean
        mean = np.add(self.mean, away / n, out=self.mean)
        squares = away[..., None] * (value - mean)[..., None, :]
        return Moments(n, mean, np.add(self.squares, squares, out=self.squares))


@dataclass(frozen=True)
class Record:
    """The draws of one chain in working units.

    fixed: arrays (draws, …). ragged: arrays (rows, …) of components, n_components (draws,) rows to
    each draw in turn. In a summary these are the whole draws, and scalars: arrays (all draws, …)
    has what is kept of every one, with z (draws, anchors) and latent (draws, anchors, q) of some
    users; moments of the latent vectors are over all of them.
    """

    fixed: dict[str, NDArray[Any]]
    ragged: dict[str, NDArray[Any]]
    scalars: dict[str, NDArray[Any]] = field(default_factory=dict)
    moments: Moments | None = None

    @property
    def n_draws(self) -> int:
        return len(self.fixed["n_clusters"]) if self.fixed else 0

    @classmethod
    def joined(cls, records: Iterable["Record"]) -> "Record":
        """Records of one chain after each other; empty ones are passed over. The moments are the
        last ones'."""
        parts = list(records)
        fixed, ragged = (
            _joined([part.fixed for part in parts]),
            _joined([part.ragged for part in parts]),
        )
        moments = next((part.moments for part in reversed(parts) if part.moments is not None), None)
        return cls(fixed, ragged, _joined([part.scalars for part in parts]), moments)

    def only(self, draws: NDArray[np.intp]) -> "Record":
        """Some of the whole draws, by position."""
        owner = np.repeat(np.arange(self.n_draws), self.fixed["n_components"])
        rows = np.isin(owner, draws)
        fixed = {name: values[draws] for name, values in self.fixed.items()}
        return Record(fixed, {name: values[rows] for name, values in self.ragged.items()})

    def between(self, draws: slice, scalars: slice) -> "Record":
        """A stretch of the whole draws and one of the scalars; moments are over all that were
        made."""
        before, rows = (
            int(self.fixed["n_components"][part].sum()) for part in (slice(draws.start), draws)
        )
        fixed = {name: values[draws] for name, values in self.fixed.items()}
        ragged = {name: values[before : before + rows] for name, values in self.ragged.items()}
        return Record(
            fixed,
            ragged,
            {name: values[scalars] for name, values in self.scalars.items()},
            self.moments,
        )


@dataclass(frozen=True)
class Piece:
    """What a chain kept in the iterations after start, up to stop, with draws that lie stride
    iterations apart."""

    start: int
    stop: int
    stride: int
    record: Record

    def thinned(self, stride: int, spacing: Spacing) -> "Piece":
        """The same with draws that lie further apart."""
        if stride == self.stride:
            return self
        times, record = stride // self.stride, self.record
        whole = spacing.numbers(self.start, self.stop, self.stride * spacing.every) % times == 0
        kept = record.only(np.flatnonzero(whole)) if record.fixed else Record({}, {})
        every = spacing.numbers(self.start, self.stop, self.stride) % times == 0
        scalars = {name: values[every] for name, values in record.scalars.items()}
        return Piece(
            self.start, self.stop, stride, Record(kept.fixed, kept.ragged, scalars, record.moments)
        )


def joined(pieces: Iterable[Piece], stride: int, spacing: Spacing) -> Record:
    """All draws of pieces that follow each other, with draws that lie stride iterations apart."""
    return Record.joined([piece.thinned(stride, spacing).record for piece in pieces])


def _joined(tables: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    parts = [table for table in tables if table]
    if len(parts) <= 1:
        return parts[0] if parts else {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass
class Store:
    """Collects states and makes a record of them, a batch at a time.

    every: None to keep all draws; else a summary with every such draw whole. Of a summary, times:
    draws are kept, whole or as scalars, only at every such one that comes; the moments are of all
    that come.
    """

    model: Model
    every: int | None = None
    moments: Moments | None = None
    n_seen: int = 0
    times: int = 1
    _states: list[tuple[State, Row]] = field(default_factory=list)
    _records: list[Record] = field(default_factory=list)
    _scalars: list[Row] = field(default_factory=list)

    def append(self, state: State) -> None:
        """Keep a draw."""
        self.n_seen += 1
        row, per_user = _scalars(self.model, state)
        if self.every is not None:
            latent = self.model.functions(state)
            if latent is not None:
                self.moments = (self.moments or Moments.none(latent)).with_one(latent)
            if self.n_seen % self.times == 0:
                self._scalars.append(row | self._anchored(state.z, latent))
        if self.every is None or self.n_seen % (self.every * self.times) == 0:
            self._states.append((state, row | per_user))
            if len(self._states) * len(state.z) >= _BATCH:
                self._pack()

    def add(self, draws: Record | None, last: State | None) -> None:
        """Keep what some steps have left: the draws of a compiled call, then the last state, where
        there is one."""
        if draws is not None:
            self._extend(draws)
        if last is not None:
            self.append(last)

    def _extend(self, record: Record) -> None:
        if not record.n_draws:
            return
        self._pack()
        whole = np.arange(record.n_draws)
        if self.every is not None:
            per_user = {f"params.{name}" for name in self.model.per_user}
            named = {
                name: values
                for name, values in record.fixed.items()
                if name not in per_user | _WHOLE
            }
            named |= self._anchored(record.fixed["z"], record.fixed.get("latent"))
            number = self.n_seen + 1 + whole
            self._scalars += [
                {name: values[i] for name, values in named.items()}
                for i in whole[number % self.times == 0]
            ]
            for latent in record.fixed.get("latent", ()):
                self.moments = (self.moments or Moments.none(latent)).with_one(latent)
            whole = whole[number % (self.every * self.times) == 0]
        self.n_seen += record.n_draws
        if len(whole):
            self._records.append(record if self.every is None else record.only(whole))

    def _anchored(self, z: NDArray[Any], latent: NDArray[np.float64] | None) -> Row:
        """Clusters (…, U) and latent vectors (…, U, q) of the anchors alone."""
        users = anchors(self.model.n_users)
        return {"z": z[..., users].astype(np.int32)} | (
            {} if latent is None else {"latent": latent[..., users, :]}
        )

    def _pack(self) -> None:
        if self._states:
            self._records.append(_packed(self.model, self._states))
            self._states.clear()

    def drain(self) -> Record:
        """Everything kept since the last time; moments since the first."""
        self._pack()
        record = Record.joined(
            [*self._records, Record({}, {}, _stacked(self._scalars), self.moments)]
        )
        self._records.clear()
        self._scalars.clear()
        return record


def _scalars(model: Model, state: State) -> tuple[Row, Row]:
    """The numbers of a draw that do not depend on how clusters are numbered, by name; apart, those
    of which users have one."""
    row: Row = {
        "n_clusters": int(np.count_nonzero(state.counts)),
        "log_joint": model.log_joint(state),
    }
    if model.partition.has_alpha:
        row["alpha"] = state.alpha
    if state.discount is not None:
        row["discount"] = state.discount
    params = {f"params.{name}": value for name, value in state.params.items()}
    per_user = {f"params.{name}": params.pop(f"params.{name}") for name in model.per_user}
    row |= params
    shares = state.labels.shares
    if len(shares):
        row["agreement"] = shares if len(shares) > 1 else shares[0]
    for name, view in state.views.items():
        row |= {f"{name}.{part}": value for part, value in view.base_parts.items()}
    whole = [name for name in row if name in _WHOLE or name.endswith(_WHOLE_ENDING)]
    return row, per_user | {name: row.pop(name) for name in whole}


def labels_by_name(
    z: NDArray[np.int32], agrees: NDArray[np.bool_], shares: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """Labels (n, G, U), who agrees (n, G − 1, U) and ρ (n, G − 1) in n draws, as they are kept.

    With one table that need not agree z are its labels, and z_behavior those of behavior; else z
    are those of behavior.
    """
    n_groups = z.shape[1]
    if n_groups == 1:
        return {"z": z[:, 0]}
    if n_groups == 2:
        found = {"z": z[:, 1], "z_behavior": z[:, 0], "agrees": agrees[:, 0]}
        return found | {"agreement": shares[:, 0]}
    return {"z": z[:, 0], "z_tables": z[:, 1:], "agrees": agrees, "agreement": shares}


def _stacked(rows: list[Row]) -> dict[str, NDArray[Any]]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _packed(model: Model, draws: list[tuple[State, Row]]) -> Record:
    """The record of some draws of one chain."""
    states = [state for state, _ in draws]
    first, counts = states[0], [state.counts for state in states]
    fixed = _stacked([row for _, row in draws])
    z, agrees, shares = (
        np.array(part) for part in zip(*(state.labels for state in states), strict=True)
    )
    fixed |= labels_by_name(z.astype(np.int32), agrees, shares)
    fixed["n_components"] = np.array([len(row) for row in counts])
    if first.latent is not None:
        fixed["latent"] = np.array([model.functions(state) for state in states])
    ragged: dict[str, Any] = {"count": np.concatenate(counts)}
    for name in first.views:
        parts = [state.views[name].component_parts for state in states]
        ragged |= {
            f"{name}.{part}": np.concatenate([view[part] for view in parts]) for part in parts[0]
        }
    return Record(fixed, ragged)

"""Columns in independent blocks: a view for each, which together are one view to everything but the
sampler.

Vectors of the blocks stand side by side, and so do means; matrices are block diagonal. Where a
table of features is one of several, its blocks are those of the tables, and labels may be of each
table: z (U,), or (T, U).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.columns.layout import Layout
from dualview.numerics.kinds import register
from dualview.views import verbs
from dualview.views.approximation import Approximation
from dualview.views.base import Array, Labels, View, ViewState
from dualview.views.gaussian.intervals import Intervals
from dualview.views.gaussian.linked_cells import Followers
from dualview.views.gaussian.view import GaussianView


class BlockedState(NamedTuple):
    """Everything that the blocks have learned."""

    view: "BlockedView"
    parts: tuple[Any, ...]

    @property
    def component_parts(self) -> dict[str, Array]:
        return self.view.joined([part.component_parts for part in self.parts])

    @property
    def base_parts(self) -> dict[str, Any]:
        return self.view.joined([part.base_parts for part in self.parts])

    @property
    def n_components(self) -> int:
        return int(self.parts[0].n_components)


@dataclass(frozen=True)
class BlockedView(View):
    """blocks: a view for each. owners: the table of each. intervals: of all columns, where some
    cells are not exact."""

    blocks: tuple[View, ...]
    owners: tuple[int, ...]
    intervals: Intervals | None = None

    @property
    def n_dims(self) -> int:  # type: ignore[override]
        """Of all vectors side by side."""
        return sum(block.n_dims for block in self.blocks)

    @property
    def tables(self) -> tuple[int, ...]:
        """The table of each block."""
        return self.owners

    @property
    def parts(self) -> tuple[View, ...]:
        """The blocks."""
        return self.blocks

    @property
    def component_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is joined."""
        return _sums(block.component_shapes for block in self.blocks)

    @property
    def base_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is joined; a number of each block becomes a vector."""
        shapes = _sums(block.base_shapes for block in self.blocks)
        return {name: shape or (len(self.blocks),) for name, shape in shapes.items()}

    def joined(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What there is of the blocks, by name, as what there is of them all; arrays may have
        leading axes."""
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: self._join(name, [part.get(name) for part in parts]) for name in names}

    def _join(self, name: str, parts: Sequence[Any]) -> Array:
        if name == "cells":
            known = next(part for part in parts if part is not None)
            found = np.empty((*known.shape[:-1], sum(map(len, self._cells))))
            for part, places in zip(parts, self._cells, strict=True):
                if part is not None:
                    found[..., places] = part
            return found
        n_axes = len(self._shapes[name][0])
        if n_axes == 0:
            return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=-1)
        if n_axes == 1:
            return np.concatenate(parts, axis=-1)
        found = np.zeros(
            (*parts[0].shape[:-2], *(sum(shape[0] for shape in self._shapes[name]),) * 2)
        )
        for part, own in zip(parts, _slices(self._shapes[name]), strict=True):
            found[..., own, own] = part
        return found

    def _taken(self, name: str, values: Any, block: int) -> Any:
        """What a block has of something that was joined."""
        if name == "cells":
            return np.asarray(values)[self._cells[block]]
        shapes = self._shapes[name]
        if not shapes[0]:
            return float(np.asarray(values)[block])
        own = _slices(shapes)[block]
        return np.ascontiguousarray(
            values[..., own] if len(shapes[0]) == 1 else values[..., own, own]
        )

    @cached_property
    def _shapes(self) -> dict[str, list[tuple[int, ...]]]:
        shapes = [dict(block.base_shapes) | dict(block.component_shapes) for block in self.blocks]
        return {name: [own[name] for own in shapes] for name in shapes[0] if name != "cells"}

    @cached_property
    def _columns(self) -> list[slice]:
        return _slices([(block.n_dims,) for block in self.blocks])

    @cached_property
    def _cells(self) -> list[NDArray[np.intp]]:
        """Places of each block's cells that are not exact among those of all."""
        if self.intervals is None:
            return [np.empty(0, dtype=np.intp) for _ in self.blocks]
        columns = self.intervals.cells[1]
        return [
            np.flatnonzero((columns >= own.start) & (columns < own.stop)) for own in self._columns
        ]

    def _labels(self, z: Labels, block: int) -> Labels:
        return z if z.ndim == 1 else z[self.tables[block]]

    def by_block(self, x: Array) -> list[Array]:
        """The vectors of each block."""
        return [np.ascontiguousarray(x[:, own]) for own in self._columns]

    def log_joint(self, state: BlockedState, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""
        own = zip(self.blocks, state.parts, self.by_block(x), strict=True)
        return sum(
            block.log_joint(part, vectors, self._labels(z, b))
            for b, (block, part, vectors) in enumerate(own)
        )

    def log_base(self, parts: Mapping[str, Any]) -> float:
        """The sum over blocks."""
        return sum(
            block.log_base({name: self._taken(name, parts[name], b) for name in parts})
            for b, block in enumerate(self.blocks)
        )

    def start(
        self, rng: np.random.Generator, x: Array, z: Labels, n_components: int
    ) -> BlockedState:
        """A state to start from, block by block."""
        own = enumerate(zip(self.blocks, self.by_block(x), strict=True))
        return BlockedState(
            self,
            tuple(
                block.start(rng, vectors, self._labels(z, b), n_components)
                for b, (block, vectors) in own
            ),
        )

    def soft_vectors(self, x: Array, n_components: int) -> Any:
        """What q says of the vectors of the blocks to start from."""
        own = zip(self.blocks, self.by_block(x), strict=True)
        return BlockedVectors(tuple(block.soft_vectors(part, n_components) for block, part in own))

    def approximate(self, x: Array, responsibilities: Array, joint: bool) -> "BlockedApproximation":
        """q to start from, block by block."""
        own = zip(self.blocks, self.by_block(x), strict=True)
        parts = (block.approximate(part, responsibilities, joint) for block, part in own)
        return BlockedApproximation(self, tuple(parts))

    def completed(self, state: BlockedState, x: Array) -> Array:
        """The vectors of numbers with the cells that are not exact as they stand."""
        own = zip(self.blocks, state.parts, self.by_block(x), strict=True)
        return np.hstack(
            [
                block.completed(part, vectors)
                for block, part, vectors in own
                if isinstance(block, GaussianView)
            ]
        )

    def redraw_cells(
        self,
        rng: np.random.Generator,
        state: BlockedState,
        x: Array,
        z: Labels,
        followers: Followers,
    ) -> tuple[BlockedState, Array]:
        """The state with cells drawn given latent vectors that follow features, block after block,
        and the g (U, q) that this leaves."""
        parts: list[ViewState] = []
        own = zip(self.blocks, state.parts, self.by_block(x), self._columns, strict=True)
        for b, (block, part, vectors, columns) in enumerate(own):
            assert isinstance(block, GaussianView)
            slopes = np.ascontiguousarray(followers.slopes[:, columns])
            drawn, deviations = block.redraw_cells(
                rng, part, vectors, self._labels(z, b), followers._replace(slopes=slopes)
            )
            parts.append(drawn)
            followers = followers._replace(deviations=deviations)
        return BlockedState(self, tuple(parts)), followers.deviations

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> BlockedState:
        """Every block from its prior."""
        return BlockedState(
            self, tuple(block.draw_prior(rng, n_components) for block in self.blocks)
        )

    def simulate(self, rng: np.random.Generator, state: BlockedState, z: Labels) -> Array:
        """Vectors given their components."""
        own = enumerate(zip(self.blocks, state.parts, strict=True))
        return np.hstack(
            [block.simulate(rng, part, self._labels(z, b)) for b, (block, part) in own]
        )

    def observed(self, x: Array, before: Array) -> tuple["BlockedView", Array]:
        """Complete vectors as they would be observed, block by block."""
        found = [
            block.observed(*own)
            for block, *own in zip(
                self.blocks, self.by_block(x), self.by_block(before), strict=True
            )
        ]
        intervals = None if self.intervals is None else self.intervals.observe(x)
        blocks = tuple(view for view, _ in found)
        return replace(self, blocks=blocks, intervals=intervals), np.hstack(
            [vectors for _, vectors in found]
        )

    def design(self, x: Array) -> Array:
        """What a link lets latent vectors follow, block by block."""
        return np.hstack(
            [block.design(own) for block, own in zip(self.blocks, self.by_block(x), strict=True)]
        )

    def start_vectors(self, x: Array) -> Array:
        """Those of the blocks, side by side."""
        parts = zip(self.blocks, self.by_block(x), strict=True)
        return np.hstack([block.start_vectors(own) for block, own in parts])

    def records(self, state: BlockedState, x: Array, rows: Array) -> tuple[Any, ...]:
        """A record for every block."""
        own = zip(self.blocks, state.parts, self.by_block(x), self._columns, strict=True)
        return tuple(
            block.record(part, vectors, rows[columns]) for block, part, vectors, columns in own
        )

    def record(self, state: BlockedState, x: Array, rows: Array) -> tuple[Any, ...]:
        """The same."""
        return self.records(state, x, rows)

    def of_records(self, records: Sequence[Any]) -> BlockedState:
        """What a sweep has left in the records of all blocks."""
        own = zip(self.blocks, records, strict=True)
        return BlockedState(self, tuple(block.state(record) for block, record in own))

    def state(self, record: Sequence[Any]) -> BlockedState:
        """The same."""
        return self.of_records(record)

    def restored(self, parts: dict[str, Any]) -> BlockedState:
        """The state with these component and base parts, by name."""
        restored: list[ViewState] = []
        for b, block in enumerate(self.blocks):
            names = [name for name in parts if name != "cells" or len(self._cells[b])]
            restored.append(
                block.restored({name: self._taken(name, parts[name], b) for name in names})
            )
        return BlockedState(self, tuple(restored))


class BlockedVectors(NamedTuple):
    """What q says of the users' vectors in every block (``SoftVectors``)."""

    parts: tuple[Any, ...]

    @property
    def means(self) -> Array:
        """(U, D)."""
        return np.hstack([part.means for part in self.parts])

    def of_component(self, k: int) -> Array:
        """E x_u given that u is in component k, (U, D)."""
        return np.hstack([part.of_component(k) for part in self.parts])

    def take(self, components: NDArray[np.intp]) -> "BlockedVectors":
        """With these components only, in this order."""
        return BlockedVectors(tuple(part.take(components) for part in self.parts))


class BlockedFactors(NamedTuple):
    """What scores and sums need of q in every block."""

    parts: tuple[Any, ...]


def expected_score(table: Array, vectors: BlockedVectors, factors: BlockedFactors) -> None:
    """In place: table (K, U) gains what it gains by every block."""
    for own, part in zip(vectors.parts, factors.parts, strict=True):
        verbs.expected_score(table, own, part)


def absorb(
    responsibilities: Array, vectors: BlockedVectors, factors: BlockedFactors
) -> tuple[Any, ...]:
    """The sums of every block."""
    own = zip(vectors.parts, factors.parts, strict=True)
    return tuple(verbs.absorb(responsibilities, *pair) for pair in own)


register(BlockedFactors, expected_score=expected_score, absorb=absorb)


@dataclass(frozen=True)
class BlockedApproximation(Approximation):
    """q of the components of every block, which are independent."""

    view: BlockedView
    parts: tuple[Approximation, ...]

    @property
    def factors(self) -> BlockedFactors:
        return BlockedFactors(tuple(part.factors for part in self.parts))

    def updates(self) -> tuple[str, ...]:
        return ("with_blocks",)

    def with_blocks(self, sums: Sequence[Any]) -> "BlockedApproximation":
        """All factors of one block after the other."""
        parts = []
        for part, own in zip(self.parts, sums, strict=True):
            updated: Any = part
            for update in part.updates():
                updated = getattr(updated, update)(own)
            parts.append(updated)
        return replace(self, parts=tuple(parts))

    def fitted(self, sums: Sequence[Any]) -> float:
        return sum(part.fitted(own) for part, own in zip(self.parts, sums, strict=True))

    def bound(self) -> float:
        return sum(part.bound() for part in self.parts)

    def draws(self, rng: np.random.Generator, n: int) -> list[BlockedState]:
        drawn = zip(*(part.draws(rng, n) for part in self.parts), strict=True)
        return [BlockedState(self.view, states) for states in drawn]

    def from_base(self, rng: np.random.Generator, state: BlockedState, n: int) -> BlockedState:
        own = zip(self.parts, state.parts, strict=True)
        return BlockedState(self.view, tuple(part.from_base(rng, one, n) for part, one in own))

    def log_ratio(self, state: BlockedState) -> float:
        own = zip(self.parts, state.parts, strict=True)
        return sum(part.log_ratio(one) for part, one in own)

    def scores(self, state: BlockedState, vectors: Any) -> Array:
        own = zip(self.parts, state.parts, vectors.parts, strict=True)
        return np.asarray(sum(part.scores(one, seen) for part, one, seen in own))

    def completed(self, vectors: Any) -> Any:
        own = zip(self.parts, vectors.parts, strict=True)
        return BlockedVectors(tuple(part.completed(seen) for part, seen in own))

    def with_hidden(
        self, rng: np.random.Generator, state: BlockedState, z: Labels, vectors: Any
    ) -> BlockedState:
        own = zip(self.parts, state.parts, vectors.parts, strict=True)
        parts = (part.with_hidden(rng, one, z, seen) for part, one, seen in own)
        return BlockedState(self.view, tuple(parts))

    def take(self, components: NDArray[np.intp]) -> "BlockedApproximation":
        return replace(self, parts=tuple(part.take(components) for part in self.parts))

    def whitened(self, component: int, x: Array) -> Array:
        own = zip(self.parts, self.view.by_block(x), strict=True)
        return np.hstack([part.whitened(component, vectors) for part, vectors in own])

    def numbers(self) -> Array:
        return np.concatenate([part.numbers() for part in self.parts])

    def with_numbers(self, numbers: Array) -> "BlockedApproximation":
        ends = np.cumsum([len(part.numbers()) for part in self.parts])
        own = zip(self.parts, np.split(numbers, ends[:-1]), strict=True)
        return replace(self, parts=tuple(part.with_numbers(values) for part, values in own))


def feature_view(
    n_dims: int, layout: Layout | None, intervals: Intervals | None, heavy_tails: bool = False
) -> GaussianView | BlockedView:
    """The view of numbers of n_dims dimensions in working units; with several tables, of them
    all."""
    if layout is None:
        return GaussianView(n_dims, intervals=intervals, heavy_tails=heavy_tails)
    blocks = (
        GaussianView(
            own.stop - own.start,
            intervals=None if intervals is None else intervals.columns(own),
            heavy_tails=heavy_tails,
        )
        for _, own in layout.of_numbers
    )
    return BlockedView(tuple(blocks), tuple(table for table, _ in layout.of_numbers), intervals)


def _slices(shapes: Iterable[tuple[int, ...]]) -> list[slice]:
    """Where blocks of these shapes lie, one after the other."""
    ends = np.cumsum([0, *(shape[0] for shape in shapes)])
    return [slice(int(first), int(end)) for first, end in pairwise(ends)]


def _sums(shapes: Iterable[Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of things that stand side by side, by name."""
    found: dict[str, tuple[int, ...]] = {}
    for own in shapes:
        for name, shape in own.items():
            before = found.get(name, (0,) * len(shape))
            found[name] = tuple(first + second for first, second in zip(before, shape, strict=True))
    return found

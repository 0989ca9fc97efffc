"""The likelihood of several behaviors of the same users: latent vectors laid end to end,
observations one set after another.

Every behavior has a block of the latent vector (U, q), and its observations depend on that block
alone. Given the vectors the behaviors are independent, so densities multiply. Parameters are those
of the behaviors, with the behavior's name and a dot before them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.likelihoods.metropolis import RowDensity
from dualview.behaviors.likelihoods.vector_blocks import Block, block_locations, block_prior
from dualview.behaviors.records import (
    Array,
    Params,
    Prior,
    Recentered,
    own_params,
    with_name,
)
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.messages import Terms


class Layout(NamedTuple):
    """Where the observations of every behavior are among all N.

    terms: those of all, of which residual and precision are still to be filled in. parts: those of
    each behavior, likewise. places: of each behavior's observations, (n,). In each behavior they
    have one precision, or one each.
    """

    terms: Terms
    parts: list[Terms]
    places: list[NDArray[np.intp]]

    @classmethod
    def of(cls, parts: list[Terms], blocks: list[Block], in_order: bool) -> "Layout":
        """in_order: observations are of one user each, and are numbered in the order of their
        users, as the moves like it."""
        counts, n_users = [len(part.residual) for part in parts], len(parts[0].starts) - 1
        user = np.concatenate(
            [np.repeat(np.arange(n_users), np.diff(part.starts)) for part in parts]
        )
        order = np.argsort(user, kind="stable")
        offsets = np.cumsum([0, *counts])
        if in_order:
            rank = np.empty(len(order), dtype=np.intp)
            rank[order] = np.arange(len(order))
            places = [np.empty(n, dtype=np.intp) for n in counts]
            for part, own, first in zip(parts, places, offsets, strict=False):
                own[part.rows] = rank[first : first + len(own)]
        else:
            places = [
                np.arange(first, first + n) for first, n in zip(offsets, counts, strict=False)
            ]
        n_dims, n_entries = (
            sum(len(block.own) for block in blocks),
            [len(part.rows) for part in parts],
        )
        loads, squares = np.zeros((sum(n_entries), n_dims)), np.zeros((n_users, n_dims, n_dims))
        ends = np.cumsum([0, *n_entries])
        for part, block, first, end in zip(parts, blocks, ends, ends[1:], strict=False):
            loads[first:end, block.own] = part.loads
            squares[:, block.own[:, None], block.own] = part.squares
        rows = np.concatenate([own[part.rows] for own, part in zip(places, parts, strict=True)])
        starts = np.asarray(np.sum([part.starts for part in parts], axis=0), dtype=np.int64)
        whole = Terms(
            starts, rows[order].astype(np.uint32), loads[order], squares, np.empty(0), np.empty(0)
        )
        return cls(whole, parts, places)

    def joined(self, parts: list[Terms]) -> Terms:
        """The terms of all behaviors from those of each."""
        residual, precision = np.empty((2, sum(len(own) for own in self.places)))
        for part, own in zip(parts, self.places, strict=True):
            residual[own], precision[own] = part.residual, part.precision
        return self.terms._replace(residual=residual, precision=precision)

    def of_part(self, terms: Terms, place: int) -> Terms:
        """The terms of one behavior, from those of all after a sweep."""
        own, kept = self.places[place], self.parts[place]
        return kept._replace(
            residual=terms.residual[own], precision=terms.precision[own[: len(kept.precision)]]
        )


@dataclass(frozen=True)
class SeveralLikelihoods(Likelihood):
    """Likelihoods of several behaviors by their names. That of a single one makes the same draws as
    by itself."""

    parts: Mapping[str, Likelihood]

    @classmethod
    def of(cls, parts: Mapping[str, Likelihood]) -> "SeveralLikelihoods":
        """With residuals in the terms of all, where they are several: their observations are put
        together."""
        several = len(parts) > 1
        return cls(
            {name: part.with_residuals() if several else part for name, part in parts.items()}
        )

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """The block of each behavior in a latent vector."""
        return dict(
            zip(
                self.parts, Block.all_of([part.n_dims for part in self.parts.values()]), strict=True
            )
        )

    @property
    def _single(self) -> Likelihood | None:
        return next(iter(self.parts.values())) if len(self.parts) == 1 else None

    def _merged(self, found: Callable[[str, Likelihood], Params]) -> Params:
        """Parameters of every behavior, by their names among those of all."""
        return {
            key: value
            for name, part in self.parts.items()
            for key, value in with_name(found(name, part), name).items()
        }

    @property
    def n_dims(self) -> int:
        return sum(part.n_dims for part in self.parts.values())

    @property
    def one_user_each(self) -> bool:
        """Where it is so in all of them."""
        return all(part.one_user_each for part in self.parts.values())

    @property
    def per_user(self) -> tuple[str, ...]:
        return tuple(f"{name}.{own}" for name, part in self.parts.items() for own in part.per_user)

    @property
    def n_coefficients(self) -> int:
        """Those of a single behavior, which may be redrawn inside the sweep."""
        return 0 if self._single is None else self._single.n_coefficients

    @property
    def hyperprior(self) -> Hyperprior:
        """The lightest tails that one of them asks for."""
        return Hyperprior(
            *(
                max(values)
                for values in zip(*(part.hyperprior for part in self.parts.values()), strict=True)
            )
        )

    def with_residuals(self) -> "SeveralLikelihoods":
        return replace(
            self, parts={name: part.with_residuals() for name, part in self.parts.items()}
        )

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """Every behavior starts by itself."""
        started = {name: part.start(rng) for name, part in self.parts.items()}
        latent = np.hstack([own for own, _ in started.values()])
        return latent, self._merged(lambda name, _: started[name][1])

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """An observation of one behavior says nothing about the blocks of the others."""
        parts = [
            part.terms(rng, self.blocks[name].of(latent), own_params(params, name))
            for name, part in self.parts.items()
        ]
        return parts[0] if len(parts) == 1 else self._layout.joined(parts)

    @cached_property
    def _layout(self) -> Layout:
        """It depends on the designs only."""
        rng = np.random.default_rng(0)  # of augmentations that are not looked at
        parts = [part.terms(rng, *part.start(rng)) for part in self.parts.values()]
        return Layout.of(parts, list(self.blocks.values()), self.one_user_each)

    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """Every behavior in turn, given the blocks of the others."""
        if self._single is not None:
            return self._of_single(
                lambda part, own: part.redraw(rng, latent, own, terms, prior), params
            )
        latent, found = latent.copy(), {}
        for place, (name, part) in enumerate(self.parts.items()):
            block = self.blocks[name]
            own_prior = block_prior(prior, block, latent)
            latent[:, block.own], found[name] = part.redraw(
                rng,
                block.of(latent),
                own_params(params, name),
                self._layout.of_part(terms, place),
                own_prior,
            )
        return latent, self._merged(lambda name, _: found[name])

    def _of_single(
        self, drawn: Callable[[Likelihood, Params], tuple[Array, Params]], params: Params
    ) -> tuple[Array, Params]:
        """Latent vectors and parameters as a single behavior draws them."""
        ((name, part),) = self.parts.items()
        latent, own = drawn(part, own_params(params, name))
        return latent, with_name(own, name)

    @property
    def held(self) -> bool:
        return self._single is not None and self._single.held

    def density(self, latent: Array, params: Params) -> RowDensity | None:
        """That of a single behavior."""
        if self._single is None:
            return None
        (name,) = self.parts
        return self._single.density(latent, own_params(params, name))

    def log_table(
        self, vectors: Array, params: Params, users: slice, shift: Array | None = None
    ) -> Array:
        """That of a single behavior."""
        if self._single is None:
            return super().log_table(vectors, params, users, shift)
        (name,) = self.parts
        return self._single.log_table(vectors, own_params(params, name), users, shift)

    def relocate(
        self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations
    ) -> Array | None:
        """Steps of every behavior in turn, each in its block and given the means of the others."""
        steps, moved = np.zeros_like(locations.means), False
        for name, part in self.parts.items():
            block = self.blocks[name]
            where = locations._replace(means=locations.means + steps)
            own = where if self._single is not None else block_locations(where, block)
            made = part.relocate(rng, block.of(latent), own_params(params, name), own)
            if made is not None:
                steps[:, block.own], moved = made, True
        return steps if moved else None

    def recenter(
        self, rng: np.random.Generator, params: Params, base_mean: Array
    ) -> Recentered | None:
        """Steps of every behavior, each in its block: the prior of the base mean has independent
        numbers."""
        step, moved = np.zeros_like(base_mean), dict(params)
        made = False
        for name, part in self.parts.items():
            block = self.blocks[name]
            own = part.recenter(rng, own_params(params, name), block.of(base_mean))
            if own is not None:
                step[block.own], made = own.step, True
                moved |= with_name(own.params, name)
        return Recentered(step, moved) if made else None

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:
        """That of a single behavior; several are redrawn between sweeps."""
        if self._single is None:
            return None
        (name,) = self.parts
        return self._single.conjugate(own_params(params, name))

    def params_of(self, noise_precision: Any, coefficients: Array) -> Params:
        return self._merged(lambda _, part: part.params_of(noise_precision, coefficients))

    def redraw_together(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """That of a single behavior."""
        return self._of_single(
            lambda part, own: part.redraw_together(rng, latent, own, terms, prior), params
        )

    def log_density(self, latent: Array, params: Params) -> float:
        """The sum over the behaviors."""
        return sum(
            part.log_density(self.blocks[name].of(latent), own_params(params, name))
            for name, part in self.parts.items()
        )

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        return self._merged(lambda name, part: part.log_priors(own_params(reported, name), z))

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        return self._merged(lambda _, part: part.draw_prior(rng, z))

    def simulate(
        self, rng: np.random.Generator, latent: Array, params: Params
    ) -> "SeveralLikelihoods":
        """New observations of every behavior."""
        parts = {
            name: part.simulate(rng, self.blocks[name].of(latent), own_params(params, name))
            for name, part in self.parts.items()
        }
        made = replace(self, parts=parts)
        if self._single is None:
            made.__dict__["_layout"] = self._layout  # designs are the same
        return made

    def reported(self, params: Params) -> Params:
        return self._merged(lambda name, part: part.reported(own_params(params, name)))

"""Observations of several behaviors left out one at a time.

The vectors of the behavior that an observation belongs to are integrated out, given those of the
other behaviors, which are part of the draw and which the observation tells little about.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dualview.behaviors.likelihoods.several import own_params
from dualview.behaviors.likelihoods.vector_blocks import Block, block_latent_prior
from dualview.behaviors.records import Array, LatentPrior, LeftOut, LeftOutLaws, Params
from dualview.errors import InputError


class SeveralLaws(LeftOutLaws):
    """The distributions of all observations, those of one behavior after those of another; shapes:
    of their outcomes."""

    def __init__(self, parts: list[LeftOutLaws], shapes: list[tuple[int, ...]]) -> None:
        self.parts, self.shapes = parts, shapes

    def _split(self, values: Array) -> list[Array]:
        """Outcomes of each behavior; where some are ends of intervals, numbers came as two equal
        ends."""
        found = np.split(values, np.cumsum([shape[0] for shape in self.shapes])[:-1])
        return [
            own[:, 0] if own.ndim > len(shape) else own
            for own, shape in zip(found, self.shapes, strict=True)
        ]

    def log_density(self, values: Array) -> Array:
        return np.concatenate(
            [law.log_density(own) for law, own in zip(self.parts, self._split(values), strict=True)]
        )

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:
        return np.concatenate(
            [
                law.standardised(rng, own)
                for law, own in zip(self.parts, self._split(values), strict=True)
            ]
        )


@dataclass(frozen=True)
class SeveralLeftOut(LeftOut):
    """Those of each behavior by name, the block of each in a latent vector, and the outcomes of
    each."""

    parts: Mapping[str, LeftOut]
    blocks: Mapping[str, Block]
    outcomes: Mapping[str, Array]

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> SeveralLaws:
        found = [
            part.laws(*self.given_others(name, prior, params, latent))
            for name, part in self.parts.items()
        ]
        return SeveralLaws(found, [np.shape(values) for values in self.outcomes.values()])

    def given_others(
        self, name: str, prior: LatentPrior, params: Params, latent: Array
    ) -> tuple[LatentPrior, Params, Array]:
        """Of one behavior the prior of its vectors given those of the others, its parameters, and
        its vectors."""
        if prior.precisions is None and len(self.blocks) > 1:
            raise InputError(
                "Observations of several behaviors can be left out only where users have a "
                "latent vector each."
            )
        block = self.blocks[name]
        own = prior if len(self.blocks) == 1 else block_latent_prior(prior, block, latent)
        return own, own_params(params, name), block.of(latent)

"""A cell of the grid: one forum, one model, one fit. Everything that decides its numbers is in the
record."""

import hashlib
import json
from dataclasses import asdict, dataclass

import numpy as np

Options = tuple[tuple[str, float | int | str], ...]


@dataclass(frozen=True)
class Effort:
    """How long the chains of a cell run."""

    n_chains: int
    n_warmup: int
    n_draws: int
    thin: int

    @property
    def n_iterations(self) -> int:
        """Of all chains, warm-up included."""
        return self.n_chains * (self.n_warmup + self.n_draws * self.thin)


@dataclass(frozen=True)
class Cell:
    """One fit.

    Attributes
    ----------
    scenario : agreement, disagreement or iris
    model : a name of ``models.MODELS`` or ``baselines.BASELINES``
    n_users, n_threads, repetition, seed : of the forum
    effort : of the sampler
    data : what is different about the forum, such as ("radius", 0.3)
    fit : what is different about the fit, such as ("init", "one")
    extras : what is kept besides the scores, names of ``extras.EXTRAS``
    """

    scenario: str
    model: str
    n_threads: int
    repetition: int
    seed: int
    effort: Effort
    n_users: int = 50
    data: Options = ()
    fit: Options = ()
    extras: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """What is different, in words."""
        return ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in (*self.data, *self.fit)
        )

    @property
    def name(self) -> str:
        """Of the cell's file: equal for equal cells only."""
        text = json.dumps(asdict(self), sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{self.scenario}-{self.model}-{self.n_users}x{self.n_threads}-{self.repetition}-{short}"  # noqa: E501

    @property
    def sampler_seed(self) -> int:
        """Another stream for each repetition."""
        return int(np.random.SeedSequence([self.seed, self.repetition]).generate_state(1)[0])

    def __str__(self) -> str:
        variant = f", {self.variant}" if self.variant else ""
        return (
            f"{self.scenario}, {self.model}, {self.n_users} users, {self.n_threads} "
            f"threads{variant}, no. {self.repetition}"
        )

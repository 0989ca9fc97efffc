"""q of families whose observations no augmentation makes normal: expectations by quadrature.

The bound has E ln p(y_i | η_i, φ) itself, over η_i ~ N(m_i, v_i) by Gauss and Hermite's rule. What
rows tell of latent vectors is a normal message each, which nonconjugate variational message passing
makes of the same expectations (Knowles and Minka 2011): precision h_i = −E ∂² ln p, working
response m_i + E ∂ ln p / h_i. The best q(f, μ) has the messages that follow from itself, so that it
is found by steps (``behaviors.approximation.stepwise``).

Of a parameter φ > 0, q(ln φ) has any shape, on a grid of places as far apart as it is wide: sums
over these are integrals, as Gauss's are, to eight digits. The best q(ln φ) is proportional to
exp(E ln p(y | η, φ)) p(ln φ).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.interpolate import CubicSpline

from dualview.behaviors.families.base import (
    Array,
    Family,
    FamilyFactor,
    Moments,
    Outcome,
    Params,
    Rows,
)
from dualview.behaviors.families.quadrature import QuadratureOutcome

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LEAST = 1e-200  # a precision that says nothing, by which one can still divide
_FALL = 16.0  # nats by which q(ln φ) has fallen where its grid ends
_FURTHEST = 100.0  # |ln φ| that is looked at
_WIDEST = 0.5  # spacing: tails of ln φ are long, and its flanks steep
_MOST_GRIDS = 40
_CELLS = 1_000_000  # nodes × rows held at once
_FINER = 16  # places for one of the grid, where q is drawn from


class Parameter(NamedTuple):
    """What a family learns besides locations: a number above 0, by its name; log_constant: what
    ``Family.log_prior`` lacks of its log density."""

    name: str
    log_constant: float = 0.0


@dataclass(frozen=True)
class Grid:
    """q(x) on a grid: places (J,) with their shares (J,), which sum to 1."""

    places: Array
    shares: Array
    spacing: float

    @classmethod
    def start(cls) -> "Grid":
        """At x = 0 alone."""
        return cls(np.zeros(1), np.ones(1), _WIDEST)

    @classmethod
    def of(cls, log_density: Callable[[float], float], start: "Grid") -> "Grid":
        """q(x) ∝ exp(log density), which has one peak, sought from another grid."""
        found = _sampled(log_density, start.mean, start.spacing)
        for _ in range(_MOST_GRIDS):
            most, is_seen = min(found.sd, _WIDEST), found.sd > 0.3 * found.spacing
            if 0.75 * most <= found.spacing <= most:
                break
            spacing = 0.9 * most if is_seen else 0.25 * found.spacing
            found = _sampled(log_density, found.mean, spacing)
        return found

    @cached_property
    def mean(self) -> float:
        return float(self.shares @ self.places)

    @property
    def sd(self) -> float:
        return float(np.sqrt(self.shares @ (self.places - self.mean) ** 2))

    @property
    def entropy(self) -> float:
        """−E ln q(x)."""
        return -float(self.shares @ np.log(self.shares / self.spacing))

    def at(self, mean: float) -> "Grid":
        """The same shape about another mean."""
        return replace(self, places=self.places + (mean - self.mean))

    @cached_property
    def _log_shape(self) -> Callable[[Any], Array]:
        if len(self.places) < 3:
            return lambda x: np.zeros(np.shape(x))
        spline: Callable[[Any], Array] = CubicSpline(self.places, np.log(self.shares))
        return spline

    def log_density(self, x: float) -> float:
        """ln q(x) up to a constant."""
        return float(self._log_shape(x))

    def draw(self, rng: np.random.Generator) -> float:
        """A draw of x, between the places too."""
        n = _FINER * (len(self.places) - 1) + 1
        fine = np.linspace(self.places[0], self.places[-1], n)
        heights = self._log_shape(fine)
        shares = np.exp(heights - heights.max())
        width = self.spacing / _FINER
        return float(rng.choice(fine, p=shares / shares.sum()) + width * (rng.random() - 0.5))


def _sampled(log_density: Callable[[float], float], middle: float, spacing: float) -> Grid:
    """A grid from the peak, on both sides as far as there is any density."""
    known: dict[int, float] = {}

    def at(j: int) -> float:
        x = middle + j * spacing
        if j not in known:
            known[j] = log_density(x) if abs(x) < _FURTHEST else -np.inf
        return known[j]

    peak = 0
    for way in (1, -1):
        while at(peak + way) > at(peak):
            peak += way
    if not np.isfinite(at(peak)):
        raise np.linalg.LinAlgError("a parameter has no density")
    for way in (1, -1):
        j = peak
        while at(j) > at(peak) - _FALL:
            j += way
    kept = np.array(sorted(j for j in known if known[j] > at(peak) - _FALL))
    heights = np.array([known[j] for j in kept])
    shares = np.exp(heights - heights.max())
    return Grid(middle + spacing * kept, shares / shares.sum(), spacing)


@dataclass(frozen=True)
class ExpectedFactor(FamilyFactor):
    """q(φ), and the messages of rows.

    family: its outcome has ``log_density`` and ``derivatives``, and depends on no rows. precision
    and linear (n,): row i says exp(linear_i η_i − precision_i η_i²/2). grid: q of the logarithm of
    the parameter, where there is one.
    """

    family: Family
    precision: Array
    linear: Array
    parameter: Parameter | None = None
    grid: Grid = Grid.start()  # noqa: RUF009

    @classmethod
    def start(cls, family: Family, y: Any, n: int, parameter: Parameter | None = None) -> Self:
        """With the messages from which the sampler starts too."""
        linear, typical = family.pull(y, np.zeros(n))
        return cls(family, np.full(n, typical), np.asarray(linear, dtype=float), parameter)

    def messages(self, y: Any) -> tuple[Array | float, Array]:  # noqa: ARG002
        return self.precision, self.linear / self.precision

    def towards(self, y: Any, moments: Moments) -> Self:
        """The messages that follow from q of the locations, and from q(φ)."""
        slope, bend = np.zeros((2, len(moments.mean)))
        weights = np.outer(self.grid.shares, _WEIGHTS).ravel()
        for rows, values, outcome, eta in self._at_nodes(y, moments, self.grid.places):
            first, second = outcome.derivatives(values, eta)
            slope[rows], bend[rows] = weights @ first, weights @ second
        precision = np.maximum(bend, _LEAST)
        return replace(self, precision=precision, linear=slope + precision * moments.mean)

    def between(self, other: Self, share: float) -> Self:
        """Messages a share of the way to others, in their natural parameters."""
        precision = (1.0 - share) * self.precision + share * other.precision
        linear = (1.0 - share) * self.linear + share * other.linear
        return replace(self, precision=precision, linear=linear)

    def updated(self, y: Any, moments: Moments) -> Self:
        """The best q(φ)."""
        if self.parameter is None:
            return self

        def log_density(x: float) -> float:
            return float(self._log_joint(y, moments, np.array([x]))[0])

        return replace(self, grid=Grid.of(log_density, self.grid))

    def bound(self, y: Any, moments: Moments) -> float:
        found = float(self.grid.shares @ self._log_joint(y, moments, self.grid.places))
        return found if self.parameter is None else found + self.grid.entropy

    def numbers(self) -> Array:
        """E ln φ."""
        return np.array([] if self.parameter is None else [self.grid.mean])

    def with_numbers(self, numbers: Array) -> Self:
        if self.parameter is None:
            return self
        return replace(self, grid=self.grid.at(float(np.clip(numbers[0], -_FURTHEST, _FURTHEST))))

    def draw(self, rng: np.random.Generator) -> Params:
        return self._params(self.grid.draw(rng))

    def log_density(self, phi: Params) -> float:
        logarithms = [float(np.log(value)) for value in phi.values()]
        return sum(self.grid.log_density(x) - x for x in logarithms)

    def _params(self, x: float) -> Params:
        return {} if self.parameter is None else {self.parameter.name: float(np.exp(x))}

    def _log_joint(self, y: Any, moments: Moments, places: Array) -> Array:
        """E ln p(y | η, φ) + ln p(x) at each place x = ln φ, (J,)."""
        found = np.zeros(len(places))
        with np.errstate(over="ignore"):
            for _, values, outcome, eta in self._at_nodes(y, moments, places):
                own = outcome.log_density(values, eta, slice(0, eta.shape[1])).sum(axis=1)
                found += own.reshape(-1, len(_NODES)) @ _WEIGHTS
        if self.parameter is None:
            return found
        log_prior = [self.family.log_prior(self._params(x)) for x in places]
        return found + log_prior + places + self.parameter.log_constant

    def _at_nodes(
        self, y: Any, moments: Moments, places: Array
    ) -> Iterator[tuple[slice, Any, Outcome, Array]]:
        """Rows, batch by batch: which, what was observed of them, and their locations at each node
        for each place of φ, (J nodes, rows), with the distribution there."""
        nobody = Rows(y, np.zeros(0), np.zeros(0, dtype=np.int64), 0)
        made = [self.family.outcome(self._params(x), nobody) for x in places]
        first, *others = (each for each in made if isinstance(each, QuadratureOutcome))
        each = np.repeat(np.arange(len(places)), len(_NODES))
        outcome = first.joined(others).of_draws(each)
        sds, n = np.sqrt(moments.variance), len(moments.mean)
        size = max(1, _CELLS // len(each))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            eta = moments.mean[rows] + _NODES[:, None] * sds[rows]
            yield rows, self.family.rows_of(y, rows), outcome, np.tile(eta, (len(places), 1))

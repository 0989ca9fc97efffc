"""The interface of a family, p(y | η, φ): the distribution of an observation given its location η.

A location is linear in the users' latent vectors. A family is one file with three classes. Its
:class:`Outcome` is the distribution given η and φ. Its :class:`Mixture` is the predictive
distribution: a mixture over the draws of a posterior and what each draw leaves open. Its
:class:`Family` is what a fit learns about φ, in working units.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from dualview.checks import interval_ends, numbers
from dualview.errors import InputError
from dualview.numerics.hyperprior import PUBLISHED, Hyperprior
from dualview.numerics.messages import Terms

Array = NDArray[np.float64]
Users = NDArray[np.int64]
Params = dict[str, Any]

_CELLS = 2_000_000  # components × cases held at once
_LEAST = 1e-300  # probability that still has a normal quantile


class Parts(NamedTuple):
    """Components of some cases: log weights, locations and standard deviations, each (S, cases) or
    (S, 1)."""

    log_weights: Array
    locations: Array
    sds: Array


def join_parts(parts: Sequence[tuple[Array, Array, Array]], weights: Array) -> Iterator[Array]:
    """The components of distributions side by side, with weights (M,) of the distributions; log
    weights come first in the parts of each."""
    log_weights, *others = zip(*parts, strict=True)
    shifted = [own + np.log(share) for own, share in zip(log_weights, weights, strict=True)]
    return map(np.concatenate, (shifted, *others))


class Mixture(ABC):
    """n cases of S components each; ``parts(cases)`` gives those of a slice, so that only a batch
    of cases is ever held.

    has_gaps: single values have probabilities, as 0 and 1 do.
    """

    has_gaps = False

    def __init__(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> None:
        self._n = n
        self._n_components = n_components
        self._parts = parts

    @classmethod
    def over_draws(cls, n: int, locations: Callable[[slice], Array], sds: Array) -> Self:
        """One component per draw, all alike in weight: locations (S, cases) of a slice of the
        cases, sds (S,)."""
        log_weights = np.full((len(sds), 1), -np.log(len(sds)))
        return cls(n, len(sds), lambda cases: Parts(log_weights, locations(cases), sds[:, None]))

    def joined(self, others: Sequence["Mixture"], weights: Array) -> "Mixture":
        """The mixture of this distribution and of others of the same cases and the same kind, with
        weights (M,) that sum to one: the components of all, side by side."""
        everything = (self, *others)

        def parts(cases: slice) -> Parts:
            return Parts(*join_parts([own._full_parts(cases) for own in everything], weights))

        n_components = sum(own._n_components for own in everything)
        return type(self)(self._n, n_components, parts, *self._besides(everything))

    def _full_parts(self, cases: slice) -> Parts:
        """Components of some cases, each array (S, cases)."""
        parts = self._parts(cases)
        shape = (self._n_components, parts.locations.shape[1])
        return Parts(*(np.broadcast_to(part, shape) for part in parts))

    def _besides(self, sources: Sequence["Mixture"]) -> tuple[Any, ...]:  # noqa: ARG002
        """What this kind of distribution is made from besides the components of all sources."""
        return ()

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._n} cases, {self._n_components} components each)"

    def _batches(self) -> Iterator[tuple[slice, Parts]]:
        size = max(1, _CELLS // self._n_components)
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._parts(cases)

    def _values(self, y: ArrayLike) -> Array:
        values = numbers(y, "y", n_dims=1)
        if len(values) != self._n:
            raise InputError(f"y must have one value per case, {self._n}; got {len(values)}.")
        return values

    @property
    @abstractmethod
    def mean(self) -> Array:
        """Expected value of each case, (n,)."""

    @cached_property
    def median(self) -> Array:
        """Median of each case, (n,)."""
        return self.quantile(0.5)

    @property
    @abstractmethod
    def std(self) -> Array:
        """Standard deviation of each case, (n,)."""

    def quantile(self, probability: float) -> Array:  # noqa: ARG002
        """Quantile of each case, (n,)."""
        raise InputError(f"{type(self).__name__} has no quantiles: it lacks `quantile`.")

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2), between quantiles of the distribution; that of
        values with gaps holds at least this probability."""
        return np.stack([self.quantile(end) for end in interval_ends(probability)], axis=-1)

    @abstractmethod
    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""

    @abstractmethod
    def log_density(self, y: ArrayLike) -> Array:
        """Log density, or log probability, of the outcomes y (n,)."""

    def nll(self, y: ArrayLike) -> float:
        """Negative log-likelihood per case: minus the mean of ``log_density``."""
        return -float(self.log_density(y).mean())

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:  # noqa: ARG002
        """Probabilities of less than y and of more than y, (n,) each."""
        raise InputError(f"{type(self).__name__} has no distribution function: it lacks `_tails`.")

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of an outcome up to y (n,)."""
        below, above = self._tails(y)
        return 1.0 - above if self.has_gaps else below

    def standardized(self, rng: np.random.Generator, y: ArrayLike) -> Array:
        """Outcomes y as standard normal numbers, (n,): normal quantiles of the distribution
        function.

        Where single values have probabilities, a place inside that of y is drawn.
        """
        below, above = self._tails(y)
        place = rng.random(self._n) if self.has_gaps else 0.5
        inside = np.maximum(1.0 - below - above, 0.0)
        low, high = below + place * inside, above + (1.0 - place) * inside
        level = ndtri(np.maximum(np.minimum(low, high), _LEAST))
        return np.asarray(np.where(low < high, level, -level))


class Outcome(ABC):
    """The distribution of observations given their locations, in S draws of a posterior.

    case: what a log density is of. is_joint: several observations have one log density together, as
    the items of a ranking do; predictions for new users then draw latent vectors, where they would
    otherwise add their variance to that of a location. n_locations: of each observation, side by
    side; more than one for levels that have a utility each.
    """

    case = "observation"
    is_joint = False
    n_locations = 1

    def spread(self, cases: slice) -> Array:  # noqa: ARG002
        """Standard deviations of noise that is added to the locations of some observations, (S,
        cases), (S, 1) or (1, 1).

        Predictions add its variance to that of the locations. The default is none: the location is
        a parameter of the observation's distribution, as log odds are.
        """
        return np.zeros((1, 1))

    @abstractmethod
    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """Log density, or log probability, of values (cases,) given their locations (S, cases); (S,
        cases)."""

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Observations given their locations (S, cases), one for each; (S, cases). Predictive
        checks need it."""
        raise InputError(
            f"{type(self).__name__} cannot draw observations given their locations: it lacks "
            "`draw`."
        )

    def draw_again(self, rng: np.random.Generator, values: Array, locations: Array) -> Array:  # noqa: ARG002
        """Other observations, recorded as values are, given their locations (n,) in one draw."""
        return np.asarray(self.draw(rng, locations[None], slice(0, len(locations)))[0])

    def augment(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        values: Array,  # noqa: ARG002
        locations: Array,  # noqa: ARG002
    ) -> tuple[Array, Array]:
        """Working residuals and precisions (n,) of observations given their locations (n,) in one
        draw.

        Given these, each observation counts as normal: location + residual about its location.
        Observations that are left out one at a time need it.
        """
        raise InputError(
            f"{type(self).__name__} has no normal form of its observations: it lacks `augment`."
        )

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """First derivatives of the log density by the locations (n,) in one draw, and second ones
        with the sign changed.

        For an outcome without ``augment``: they guide the Metropolis step of latent vectors.
        """
        raise InputError(
            f"{type(self).__name__} cannot be learned from: it lacks `augment` and `derivatives`."
        )

    def of_draws(self, draws: NDArray[np.intp]) -> "Outcome":  # noqa: ARG002
        """The same for components that belong to these draws, (R,); itself by default, where draws
        have nothing of their own."""
        return self

    @abstractmethod
    def predictive(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> Mixture:
        """The predictive distribution of n observations whose locations, with their noise, are
        mixtures of normals."""


class Rows(NamedTuple):
    """Observations as a family sees them: what was observed of n of them, their locations (n,),
    whose they are (n,), and the number of users."""

    y: Any
    eta: Array
    user: Users
    n_users: int

    @property
    def every(self) -> slice:
        """All rows."""
        return slice(0, len(self.eta))

    @property
    def counts(self) -> Users:
        """Rows of each user, (U,)."""
        return np.bincount(self.user, minlength=self.n_users).astype(np.int64)

    def sums(self, values: Array) -> Array:
        """Sums of values (n,) over each user's rows, (U,)."""
        return np.asarray(np.bincount(self.user, values, self.n_users), dtype=float)


class Given(NamedTuple):
    """What φ is redrawn given: the rows with fresh locations, φ as it stands, the terms of the
    sweep before, and the users' clusters z (U,)."""

    rows: Rows
    phi: Params
    terms: Terms
    z: Users


class Family(ABC):
    """What a fit learns about p(y | η, φ), in working units; φ are parameters by name.

    Only :meth:`outcome` and :meth:`pull` are needed. The other methods have defaults for a family
    without parameters. A family whose outcome has no ``augment`` sets ``has_augmentation`` to
    False; latent vectors then move by a Metropolis step (``likelihoods.metropolis``), and y is an
    array with a row for each observation.
    """

    has_augmentation = True
    # Whether vectors and effects move by the Metropolis step besides: an augmentation may hold them
    # so that they would creep.
    also_steps = False
    n_answers = 0  # yes-or-no answers that a row counts as in moves of location; 0 for none

    @property
    def hyperprior(self) -> Hyperprior:
        """How heavy the tails of the latent vectors' prior may be; the paper's by default."""
        return PUBLISHED

    @property
    def is_conjugate(self) -> bool:
        """Whether the sweep's call can draw the noise of all rows; by default it cannot."""
        return False

    def outcome(self, phi: Params, rows: Rows) -> Outcome:
        """The distribution of the rows in one draw, S = 1."""
        raise NotImplementedError(f"{type(self).__name__} lacks `outcome`.")

    def rows_of(self, y: Any, rows: Any) -> Any:
        """What was observed of some rows, by a slice or by position."""
        return y[rows]

    @abstractmethod
    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        """Slopes (n,) of ln p(y | η), and a typical curvature: latent vectors start after one
        Newton step from η."""

    @property
    def per_user(self) -> tuple[str, ...]:
        """Names of the parameters of which every user has one; none by default."""
        return ()

    def start(self, rng: np.random.Generator, rows: Rows) -> Params:  # noqa: ARG002
        """φ to start from."""
        return {}

    def augment(self, rng: np.random.Generator, rows: Rows, phi: Params) -> tuple[Array, Array]:
        """Working residuals (n,) and precisions, (n,) or (1,): given these, rows are normal."""
        return self.outcome(phi, rows).augment(rng, rows.y, rows.eta)

    def for_sweep(self, phi: Params) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of :class:`Terms` about the noise, which the sweep may draw; none by default."""
        return {}

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:  # noqa: ARG002
        """φ given the locations, with the augmentation integrated out where that is possible."""
        return given.phi

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        """ln p(y | η, φ) of all rows up to a constant."""
        outcome = self.outcome(phi, rows)
        return float(outcome.log_density(rows.y, rows.eta[None], rows.every).sum())

    def log_prior(self, phi: Params) -> float:  # noqa: ARG002
        """ln p(φ) up to a constant."""
        return 0.0

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """ln p(φ) in S draws, by name, each (S,); reported: φ in the user's units, z (S, U)."""
        return {}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:  # noqa: ARG002
        """φ from its prior, with users in clusters z (U,)."""
        return {}

    def sample(self, rng: np.random.Generator, rows: Rows, phi: Params) -> Any:
        """Other observations at the same locations, in the form of y."""
        return self.outcome(phi, rows).draw(rng, rows.eta[None], rows.every)[0]

    def reported(self, phi: Params) -> Params:
        """φ in the user's units; arrays may have leading axes."""
        return {name: np.asarray(value) for name, value in phi.items()}

    def answers(self, rows: Rows, phi: Params) -> "RowAnswers":
        """The rows as answers by yes or no, for moves of clusters without the augmentation."""
        raise NotImplementedError(f"{type(self).__name__} lacks `answers`.")

    def expect(self, y: Any) -> "FamilyFactor | None":  # noqa: ARG002
        """The variational factor of φ and the augmentation to start from; None by default, where
        there is none."""
        return None


class RowAnswers(NamedTuple):
    """Each row as m answers by yes or no, one after the other: signs (m n,), 0 for an answer that
    says nothing, and log odds of yes (m n,)."""

    signs: Array
    odds: Array


class Moments:
    """Expectation (n,) and variance (n,) of the locations under q; total: the sum of the variances,
    which is cheaper than all of them."""

    def __init__(self, mean: Array, total: Callable[[], float], each: Callable[[], Array]) -> None:
        self.mean, self._total, self._each = mean, total, each

    @cached_property
    def total(self) -> float:
        return self._total()

    @cached_property
    def variance(self) -> Array:
        return self._each()


class FamilyFactor(ABC):
    """q of φ and of the augmentation, in variational fits. Every method returns a new object."""

    @abstractmethod
    def messages(self, y: Any) -> tuple[Array | float, Array]:
        """Expected precisions, (n,) or one for all, and working responses (n,)."""

    @abstractmethod
    def updated(self, y: Any, moments: Moments) -> Self:
        """The best q given that of the locations, (V4)."""

    @abstractmethod
    def bound(self, y: Any, moments: Moments) -> float:
        """E ln p(y, φ, augmentation | η) + the entropy of this factor."""

    @abstractmethod
    def numbers(self) -> Array:
        """Numbers without constraints that change slowly, for extrapolation."""

    @abstractmethod
    def with_numbers(self, numbers: Array) -> Self:
        """q with these numbers in the place of its own."""

    def draw(self, rng: np.random.Generator) -> Params:  # noqa: ARG002
        """A draw of φ; nothing by default."""
        return {}

    def log_density(self, phi: Params) -> float:  # noqa: ARG002
        """ln q(φ) up to a constant."""
        return 0.0

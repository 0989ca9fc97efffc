"""The likelihood of ordered levels in working units: cumulative logits, P(y_i ≤ l) = σ(c_l − x_iᵀ
f_{u(i)}).

With h = c_y and l = c_{y−1} the cut points about the level of an observation and η = x_iᵀ f_u,

    σ(h − η) − σ(l − η) = σ(η − l) σ(h − η) (1 − e^{−(h − l)}).

So, given the cut points, an observation counts as two answers: yes to "above l", no to "above h";
one of them at the ends. The Pólya–Gamma augmentation and the moves of location are those of
yes-or-no answers (``logit``). Cut points are drawn with the augmentation integrated out, given the
latent vectors, by slices: given an augmentation they would hardly move. latent (U, q).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit

from dualview.behaviors.likelihoods import logit_location
from dualview.behaviors.likelihoods.logit_location import Answers, Locations
from dualview.behaviors.likelihoods.panel import UserRows
from dualview.behaviors.panel import Panel, Users, posterior_means
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample
from dualview.numerics.streams import stream_of

_NOTHING = 1e-200  # a precision far below round-off whose root can still be divided by


class Known(NamedTuple):
    """A cut point that is not learnt: its place and its value."""

    place: int
    value: float


class CutPrior(NamedTuple):
    """Cut points (n,) are ordered draws from the logistic distribution, given the one that is
    known, if any is."""

    n: int
    known: Known | None = None

    @property
    def free(self) -> list[int]:
        """Places of the cut points that are learnt."""
        return [place for place in range(self.n) if self.known is None or place != self.known.place]

    def log_density(self, cuts: Array) -> Any:
        """Up to a constant, of cut points (…, n) in order."""
        return log_logistic(np.asarray(cuts)[..., self.free]).sum(axis=-1)

    def draw(self, rng: np.random.Generator) -> Array:
        if self.known is None:
            return np.asarray(np.sort(logit(rng.random(self.n))))
        place, value = self.known
        share = expit(value)
        below, above = (
            rng.random(place) * share,
            share + rng.random(self.n - 1 - place) * (1.0 - share),
        )
        return np.concatenate([np.sort(logit(below)), [value], np.sort(logit(above))])


def log_logistic(x: Array) -> Array:
    """Log density of the logistic distribution."""
    return np.asarray(log_expit(x) + log_expit(-x))


def log_gap(width: Array) -> Array:
    """ln(1 − e^{−width}), −inf where cut points are not in order."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(width > 0.0, np.log(-np.expm1(-np.maximum(width, 0.0))), -np.inf)


class AnswerRows(NamedTuple):
    """Each observation as two answers, one after the other: the observation (2n,), the cut point
    asked about (2n,), sign (2n,).

    A sign is +1 for above the cut point, −1 for below it, and 0 for an answer that says nothing:
    the lowest level has no cut point below it, the highest none above.
    """

    observation: NDArray[np.intp]
    cut: NDArray[np.int64]
    sign: Array

    @classmethod
    def of(cls, level: NDArray[np.int64], n_cuts: int) -> "AnswerRows":
        cut = np.column_stack([np.maximum(level - 1, 0), np.minimum(level, n_cuts - 1)])
        sign = np.column_stack([1.0 * (level > 0), -1.0 * (level < n_cuts)])
        return cls(np.repeat(np.arange(len(level)), 2), cut.ravel(), sign.ravel())

    def log_probabilities(self, odds: Array) -> Array:
        """Of the answers given log odds (…, 2n) of above; 0 for those that say nothing."""
        return np.asarray(np.where(self.sign == 0.0, 0.0, log_expit(self.sign * odds)))


@dataclass(frozen=True)
class OrdinalPanel(UserRows):
    """Levels of one user each; the panel's outcome holds 0 to n.

    constant (n,): what else η holds, in the panel's order; offset (n,): what effects outside the
    mixture add to it.
    """

    panel: Panel
    constant: Array
    cut_prior: CutPrior
    offset: Array | None = None

    _kept = ("_loads", "_by_level", "rows")
    # lowest and highest levels throughout leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES

    @cached_property
    def _level(self) -> NDArray[np.int64]:
        return self.panel.outcome.astype(np.int64)

    @cached_property
    def rows(self) -> AnswerRows:
        """The observations as answers."""
        return AnswerRows.of(self._level, self.cut_prior.n)

    @cached_property
    def _answers(self) -> Panel:
        """The answers as observations, with signs as outcomes."""
        own = self.rows.observation
        return Panel(
            2 * self.panel.starts, self.panel.user[own], self.panel.design[own], self.rows.sign
        )

    @cached_property
    def _loads(self) -> tuple[Users, NDArray[np.uint32], Array, Array]:
        answers = self._answers
        return answers.starts, answers.rows, answers.design, answers.squares

    @cached_property
    def _by_level(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(self._level == level) for level in range(self.cut_prior.n + 1)]

    def with_offset(self, offset: Array) -> Self:
        """Numbers added to η are those of both answers of an observation alike, (2n,)."""
        return super().with_offset(offset[::2])

    def answer_odds(self, latent: Array, cuts: Array) -> Array:
        """Log odds of above in every answer, (2n,)."""
        return np.asarray(np.repeat(self.predictor(latent), 2) - cuts[self.rows.cut])

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:  # noqa: ARG002
        """Cut points from the shares of the levels, vectors from a step towards the mode under a
        prior N(0, I)."""
        counts = np.array([len(own) for own in self._by_level]) + 0.5
        cuts = np.asarray(logit(np.cumsum(counts)[:-1] / counts.sum()))
        if self.cut_prior.known is not None:
            cuts = cuts - cuts[self.cut_prior.known.place] + self.cut_prior.known.value
        sign = self.rows.sign
        at_zero = np.repeat(self.constant, 2) - cuts[self.rows.cut]
        pulls = self._answers._replace(outcome=sign * expit(-sign * at_zero))
        return posterior_means(0.25 * self._answers.squares, pulls.weighted, 1.0), {
            "cut_points": cuts
        }

    def relocate(
        self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations
    ) -> Array | None:
        """Steps of every cluster's mean with its users' vectors, by slices of the logistic
        likelihood."""
        if not logit_location.is_due(rng, len(self.rows.sign)):
            return None
        odds = self.answer_odds(latent, params["cut_points"])
        answers = Answers(self._answers.starts, self._answers.design, self.rows.sign, odds)
        return np.asarray(logit_location.draw_steps(stream_of(rng), locations, answers))

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """Two answers for each observation, each with a precision of its own, which is as good as 0
        where it says nothing."""
        odds, sign = self.answer_odds(latent, params["cut_points"]), self.rows.sign
        precision = np.empty(len(odds))
        polya_gamma.draw_into(stream_of(rng), odds, precision)
        residual = np.where(sign == 0.0, 0.0, 0.5 * sign / precision - odds)
        return Terms(*self._loads, residual, np.where(sign == 0.0, _NOTHING, precision))

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """The cut points, one after the other, given the latent vectors and without the
        augmentation."""
        predictor, cuts = self.predictor(latent), np.array(params["cut_points"])
        for place in self.cut_prior.free:
            width = 4.0 / np.sqrt(
                1.0 + 0.2 * (len(self._by_level[place]) + len(self._by_level[place + 1]))
            )
            cuts[place] = slice_sample(
                rng, self.cut_density(predictor, cuts, place), cuts[place], width
            )
        return latent, {"cut_points": cuts}

    def cut_density(self, predictor: Array, cuts: Array, place: int) -> Any:
        """Log density of one cut point given the others and η, up to a constant, as a function of
        its value."""
        below, above = predictor[self._by_level[place]], predictor[self._by_level[place + 1]]
        low = cuts[place - 1] if place > 0 else -np.inf
        high = cuts[place + 1] if place + 1 < len(cuts) else np.inf

        def log_density(value: float) -> float:
            if not low < value < high:
                return -np.inf
            total = (
                log_expit(value - below).sum()
                + log_expit(above - value).sum()
                + log_logistic(np.asarray(value))
            )
            if place > 0 and len(below):
                total += len(below) * log_gap(np.asarray(value - low))
            if place + 1 < len(cuts) and len(above):
                total += len(above) * log_gap(np.asarray(high - value))
            return float(total)

        return log_density

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(levels, cut points | latent) up to a constant; the augmentation is integrated
        out."""
        cuts = np.asarray(params["cut_points"])
        answers = self.rows.log_probabilities(self.answer_odds(latent, cuts))
        gaps = log_gap(np.diff(cuts))
        if np.isneginf(gaps).any():
            return -np.inf
        inner = self._level[(self._level > 0) & (self._level < len(cuts))]
        return float(answers.sum() + gaps[inner - 1].sum() + self.cut_prior.log_density(cuts))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Of the cut points."""
        return {"cut_points": np.asarray(self.cut_prior.log_density(reported["cut_points"]))}

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:  # noqa: ARG002
        return {"cut_points": self.cut_prior.draw(rng)}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "OrdinalPanel":
        """New levels."""
        utility = self.predictor(latent) + logit(rng.random(len(self.panel.outcome)))
        level = np.searchsorted(params["cut_points"], utility).astype(float)
        return self.with_outcome(level)

    def reported(self, params: Params) -> Params:
        return {"cut_points": np.asarray(params["cut_points"])}

"""The likelihood of yes-or-no observations in working units: log odds x_iᵀ f_{u(i)} + c_iᵀ e, e ~
N(0, I).

By Pólya–Gamma augmentation (Polson, Scott and Windle 2013): given ω_i ~ PG(1, log odds), y_i counts
as a normal observation (y_i − ½)/ω_i of the log odds with precision ω_i. The ω are drawn before
each sweep and forgotten after it. Without them, between two sweeps, clusters' means move with their
users' vectors (``logit_location``). latent (U, q).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from dualview.behaviors.likelihoods import logit_location
from dualview.behaviors.likelihoods.logit_location import Answers, Locations
from dualview.behaviors.likelihoods.panel import UserRows
from dualview.behaviors.likelihoods.regression import coefficient_draw
from dualview.behaviors.likelihoods.soft_users import SoftLogit
from dualview.behaviors.panel import Panel, posterior_means
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of


@dataclass(frozen=True)
class LogitPanel(UserRows):
    """Binary observations of one user each, outcome 0 or 1.

    offsets: sparse (n, C), what the coefficients e count for. constant (n,): what else the log odds
    hold, in the panel's order; offset (n,): what effects outside the mixture add to it.
    """

    panel: Panel
    offsets: Any
    constant: Array
    offset: Array | None = None

    _kept = ("_loads", "_signs")
    hyperprior = FINITE_VARIANCES  # answers all alike leave latent vectors the tails of their prior

    @property
    def n_coefficients(self) -> int:
        return int(self.offsets.shape[1])

    @cached_property
    def _signs(self) -> Array:
        """+1 for yes, −1 for no."""
        return np.asarray(2.0 * self.panel.outcome - 1.0)

    def log_odds(self, latent: Array, coefficients: Array) -> Array:
        """Of every observation, (n,)."""
        odds = self.predictor(latent)
        return np.asarray(odds + self.offsets @ coefficients) if self.n_coefficients else odds

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:  # noqa: ARG002
        """From the mode under a prior N(0, I), with the logistic curve's precision at ½."""
        pulls = self.panel._replace(outcome=self.panel.outcome - 0.5).weighted
        latent = posterior_means(0.25 * self.panel.squares, pulls, 1.0)
        return latent, {"coefficients": np.zeros(self.n_coefficients)}

    def relocate(
        self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations
    ) -> Array | None:
        """Steps of every cluster's mean with its users' vectors, by slices of the logistic
        likelihood."""
        if not logit_location.is_due(rng, len(self.panel.outcome)):
            return None
        odds = self.log_odds(latent, params["coefficients"])
        answers = Answers(self.panel.starts, self.panel.design, self._signs, odds)
        return np.asarray(logit_location.draw_steps(stream_of(rng), locations, answers))

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """Each observation with a precision of its own."""
        odds = self.log_odds(latent, params["coefficients"])
        precision = np.empty(len(odds))
        polya_gamma.draw_into(stream_of(rng), odds, precision)
        return Terms(*self._loads, (self.panel.outcome - 0.5) / precision - odds, precision)

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """The coefficients, given the augmentation."""
        if not self.n_coefficients:
            return latent, params
        root = np.sqrt(terms.precision)
        target = root * (terms.residual + self.offsets @ params["coefficients"])
        draw = coefficient_draw(self.offsets.multiply(root[:, None]).tocsr(), target)
        centre = np.zeros(self.n_coefficients)
        return latent, {"coefficients": draw.draw(rng, 1.0, centre, np.ones(self.n_coefficients))}

    @property
    def can_approximate(self) -> bool:
        """Without coefficients outside the mixture."""
        return not self.n_coefficients and self.offset is None

    def approximate(self) -> SoftLogit:
        """q of all latent vectors together, by the Pólya–Gamma bound."""
        if not self.can_approximate:
            raise NotImplementedError(
                f"{type(self).__name__} has a variational approximation only without effects "
                "outside the mixture."
            )
        return SoftLogit.start(self)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, coefficients | latent) up to a constant; the augmentation is integrated
        out."""
        odds, coefficients = self.log_odds(latent, params["coefficients"]), params["coefficients"]
        return float(log_expit(self._signs * odds).sum() - 0.5 * coefficients @ coefficients)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Of the coefficients, where there are any."""
        return (
            {"coefficients": -0.5 * (reported["coefficients"] ** 2).sum(axis=-1)}
            if self.n_coefficients
            else {}
        )

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:  # noqa: ARG002
        return {"coefficients": rng.standard_normal(self.n_coefficients)}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "LogitPanel":
        """New outcomes."""
        probability = expit(self.log_odds(latent, params["coefficients"]))
        outcome = (rng.random(len(probability)) < probability).astype(float)
        return self.with_outcome(outcome)

    def reported(self, params: Params) -> Params:
        return {"coefficients": np.asarray(params["coefficients"])} if self.n_coefficients else {}

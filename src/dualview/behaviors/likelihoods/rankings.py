"""The likelihood of rankings in working units: Thurstone's, the order of utilities u_i ~ N(x_iᵀ
f_{u(i)} + c_i, 1).

Of a ranking the first places are known, in order; the items without a place are below all of these.
The utilities are drawn given the ranking before each sweep, all those of a ranking together, and
count as observations with noise 1. They are forgotten after it. latent (U, q).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.panel import UserRows
from dualview.behaviors.panel import Panel, posterior_means
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.messages import Terms
from dualview.outcomes.ranking import Orders


@dataclass(frozen=True)
class RankingPanel(UserRows):
    """Rankings of one user each. The panel has a row for each item of a ranking; its outcome is not
    looked at.

    constant (n,): what else the utilities' expectations hold, in the panel's order; offset (n,):
    what effects outside the mixture add to them.
    """

    panel: Panel
    orders: Orders
    constant: Array
    offset: Array | None = None

    # rankings that follow a column strictly leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:  # noqa: ARG002
        """From the mode under a prior N(0, I) with rough utilities."""
        panel = self.panel._replace(outcome=self.orders.scores() - self.constant)
        return posterior_means(panel.squares, panel.weighted, 1.0), {}

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:  # noqa: ARG002
        """Utilities, drawn here, with noise 1."""
        eta = self.predictor(latent)
        return Terms(*self._loads, self.orders.drawn_utilities(rng, eta) - eta, np.ones(1))

    def redraw(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """Nothing: there are no parameters."""
        return latent, params

    def log_density(self, latent: Array, params: Params) -> float:  # noqa: ARG002
        """ln p(rankings | latent); the utilities are integrated out."""
        return float(self.orders.log_probabilities(self.predictor(latent)[None]).sum())

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:  # noqa: ARG002
        return {}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "RankingPanel":  # noqa: ARG002
        """New rankings, of which as many places are known."""
        eta = self.predictor(latent)
        return replace(self, orders=self.orders.sorted_by(eta + rng.standard_normal(len(eta))))

    def reported(self, params: Params) -> Params:  # noqa: ARG002
        return {}

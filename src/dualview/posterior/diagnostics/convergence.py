"""Whether the draws of all chains can be trusted: diagnostics by scalar, and a verdict in words."""

from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.chains.schedule import Look
from dualview.posterior import diagnostics
from dualview.posterior import partition as partitions
from dualview.posterior.diagnostics.scalars import scalars
from dualview.posterior.draws.fit_facts import FitFacts

Array = NDArray[np.float64]

_ANCHORS = 50  # users whose latent coefficients diagnostics() looks at one by one
_FEW_ANCHORS = 6  # and for the verdict after each fit


class Convergence(FitFacts):
    """Draws and how far they can be trusted."""

    def diagnostics(self) -> pd.DataFrame:
        """A row per scalar that does not depend on how clusters are numbered.

        Columns: mean, sd, r_hat, ess_bulk, ess_tail, geweke_z, autocorrelation_time (in draws).
        """
        return diagnostics.table(self.scalars())

    def scalars(self, n_anchors: int = _ANCHORS) -> dict[str, Array]:
        """What diagnostics look at, by name, each (chain, draw); latent coefficients of n_anchors
        users, spread evenly."""
        return scalars(self, n_anchors)

    def verdict(self) -> str:
        """One paragraph: has it converged, and if not, what to do; and which chains failed, where
        some did."""
        text = self.judged[1]
        return text if self.failures is None else f"{text} {self.failures}"

    @property
    def converged(self) -> bool:
        """Whether every diagnostic is within its limits."""
        return self.judged[0]

    def look(self) -> Look:
        """Whether all diagnostics are within the limits of the verdict, largest R̂ and least
        effective size."""
        return diagnostics.look(self._looked_at)

    @cached_property
    def few_scalars(self) -> dict[str, Array]:
        """What the verdict looks at: :meth:`scalars` with latent coefficients of six users."""
        return self.scalars(n_anchors=_FEW_ANCHORS)

    @cached_property
    def _looked_at(self) -> pd.DataFrame:
        return diagnostics.table(self.few_scalars, brief=True)

    @cached_property
    def judged(self) -> tuple[bool, str]:
        """Whether the draws have converged, and that in words, of the chains that came to their
        end."""
        if self.approximation is not None:
            return self.approximation.verdict()
        fixed = self.length is None or self.length.ended == "length"
        lengths = "n_warmup, n_draws" if fixed else "max_time, max_draws"
        return diagnostics.verdict(self._looked_at, self.n_chains, self.chain_distance(), lengths)

    def chain_distance(self) -> float | None:
        """Mean variation of information between the chains' own partition estimates, as a share of
        ln U; None for one chain."""
        if self.n_chains == 1:
            return None
        own = np.array([chain[partitions.dahl(chain)] for chain in self["z"]])
        draws = partitions.Draws(own, "vi")
        distances = np.array([draws.distances(labels.astype(np.int64)) for labels in draws.z])
        off = ~np.eye(len(own), dtype=bool)
        return float(distances[off].mean() / np.log(self.n_users))

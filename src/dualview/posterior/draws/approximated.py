"""Diagnostics of the variational approximation that a posterior's draws come from."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

# k-hat up to which importance sampling corrects an approximation (Vehtari et al. 2024).
_GOOD_K = 0.7
_CLOSE = 1.0  # nats of evidence
_ALIKE = 0.9  # adjusted Rand index


class StartFacts(NamedTuple):
    """One start: the bound of ln p(data) it came to, its clusters, its steps, whether it converged,
    how much its partition is like the first one's (adjusted Rand index), and whether it ended
    early, far behind another one."""

    bound: float
    n_clusters: int
    n_steps: int
    converged: bool
    agreement: float
    ended_early: bool = False


class ApproximationFacts(NamedTuple):
    """The starts from the highest bound, how many different partitions have a share of the draws,
    and k̂ of the best q.

    k̂ is that of the importance weights of draws from q. Up to 0.7 q is close to the posterior as a
    whole. Beyond, which is the rule with more than a few users, means are mostly good and spreads
    often too small. None: not worked out, which it is not for more than 5,000 users, nor where
    cells of a table are known to an interval.

    continued: whether more data came to an earlier fit (``partial_fit``), so that its approximation
    was the start. due: why a fit from scratch is due, in words.
    """

    starts: list[StartFacts]
    n_modes: int
    pareto_k: float | None
    continued: bool = False
    due: str | None = None

    @property
    def bound(self) -> float:
        """The highest bound."""
        return self.starts[0].bound

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> "ApproximationFacts":
        content: Mapping[str, Any] = json.loads(text)
        return cls(**{**content, "starts": [StartFacts(*start) for start in content["starts"]]})

    @property
    def n_agreeing(self) -> int:
        """Starts whose bound or partition is about that of the best."""
        return sum(
            self.bound - start.bound <= _CLOSE or start.agreement >= _ALIKE for start in self.starts
        )

    @property
    def _early(self) -> str:
        """How many starts ended early, in words."""
        n_early = sum(start.ended_early for start in self.starts)
        return f", {n_early} of them early" if n_early else ""

    def verdict(self) -> tuple[bool, str]:
        """Whether the approximation was found, and one paragraph on how far to trust it."""
        n, best = len(self.starts), self.starts[0]
        parts = []
        if not best.converged:
            parts.append(
                f"the bound was still growing after {best.n_steps} steps (give more max_time)"
            )
        if self.due is not None:
            parts.append(f"a fit from scratch is due: {self.due} (call fit with all data)")
        if n == 1 and not self.continued:
            parts.append(
                "one start cannot show whether others would find a better bound (n_chains)"
            )
        elif 2 * self.n_agreeing < n + 1 and not self.continued:
            parts.append(
                f"{n - self.n_agreeing} of {n} starts ended at other clusters with a lower bound"
                f"{self._early} (use more starts: n_chains)"
            )
        whence = (
            "from the fit before"
            if self.continued
            else f"and {self.n_agreeing} of {n} starts agree"
        )
        found = (
            f"Not found for certain: {'; '.join(parts)}."
            if parts
            else f"Found: the bound has converged ({self.bound:.2f} nats), {whence}."
        )
        modes = (
            ""
            if self.n_modes == 1
            else f" Draws come from {self.n_modes} partitions that explain the data about as well."
        )
        return not parts, f"{found}{modes} {self._trust()}"

    def _trust(self) -> str:
        if self.pareto_k is not None and self.pareto_k <= _GOOD_K:
            return f"Draws are close to the posterior's (Pareto k-hat {self.pareto_k:.2f})."
        known = (
            "" if self.pareto_k is None else f" (Pareto k-hat {self.pareto_k:.2f}, above {_GOOD_K})"
        )
        return (
            f"Draws are from an approximation{known}: means are mostly good, intervals often too "
            "narrow. For exact draws: "
            'engine="gibbs", init="variational".'
        )

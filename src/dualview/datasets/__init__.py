"""Example data: simulated forums with a known truth."""

from dualview.datasets.scenarios import Forum, Threads, agreement, disagreement, iris

__all__ = ["Forum", "Threads", "agreement", "disagreement", "iris"]

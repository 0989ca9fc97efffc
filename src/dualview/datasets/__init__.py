"""Data to try the model on: synthetic forums whose truth is known."""

from dualview.datasets.scenarios import Forum, Threads, agreement, disagreement, iris

__all__ = ["Forum", "Threads", "agreement", "disagreement", "iris"]

"""The posterior: named draws, estimates of the partition, predictions, diagnostics."""

from dualview.posterior.posterior import Posterior, load

__all__ = ["Posterior", "load"]

"""The posterior: named draws, estimates of the partition, predictions, diagnostics."""

from dualview.posterior.posterior import Posterior

__all__ = ["Posterior"]

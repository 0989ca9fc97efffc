"""Clusters of users from features you can see and behaviours you can only see through their effects."""

from dualview import datasets
from dualview.behaviors import SharedOutcome
from dualview.mixture import DualViewMixture
from dualview.posterior import Posterior
from dualview.units import GaussianPrior

__version__ = "0.1.0"

__all__ = ["DualViewMixture", "GaussianPrior", "Posterior", "SharedOutcome", "__version__", "datasets"]

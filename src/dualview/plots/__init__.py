"""Plots of a fitted model, with matplotlib.

Each function draws on the axes it is given, or makes its own, and returns them.
"""

from dualview.plots.canvas import require_matplotlib
from dualview.plots.chains import traces
from dualview.plots.checks import checks, ranks
from dualview.plots.columns import dependence
from dualview.plots.levels import levels
from dualview.plots.partition import clusters, similarity
from dualview.plots.predictive import calibration, predictions
from dualview.plots.profiles import profiles
from dualview.plots.users import features, latent, overview

__all__ = [
    "calibration",
    "checks",
    "clusters",
    "dependence",
    "features",
    "latent",
    "levels",
    "overview",
    "predictions",
    "profiles",
    "ranks",
    "require_matplotlib",
    "similarity",
    "traces",
]

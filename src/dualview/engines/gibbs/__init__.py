"""The Gibbs engine."""

from dualview.engines.gibbs.engine import GibbsEngine

__all__ = ["GibbsEngine"]

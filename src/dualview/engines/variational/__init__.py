"""The variational engine: the best approximation q of the posterior in a family, by coordinate
ascent, and draws from it."""

from dualview.engines.variational.engine import VariationalEngine

__all__ = ["VariationalEngine"]

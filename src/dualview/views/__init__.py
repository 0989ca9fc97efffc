"""Views: how likely a user's vector is under each component, and how components are redrawn."""

from dualview.views.gaussian import GaussianState, GaussianView

__all__ = ["GaussianState", "GaussianView"]

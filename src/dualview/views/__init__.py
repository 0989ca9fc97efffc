"""Views: how likely a user's vector is under each component, and how components are redrawn."""

from dualview.views.base import View, ViewState
from dualview.views.gaussian.view import GaussianState, GaussianView, no_view
from dualview.views.shared.view import SharedVectorState, SharedVectorView

__all__ = ["GaussianState", "GaussianView", "SharedVectorState", "SharedVectorView", "View", "ViewState", "no_view"]

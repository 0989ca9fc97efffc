"""Views: how likely a user's vector is under each component, and how components are redrawn."""

from dualview.views.base import Components, View, ViewState
from dualview.views.blocked import BlockedView
from dualview.views.gaussian import block as _numbers  # noqa: F401  (registers its columns)
from dualview.views.gaussian.intervals import Intervals
from dualview.views.gaussian.linked_cells import Followers
from dualview.views.gaussian.state import GaussianState
from dualview.views.gaussian.view import GaussianView, no_table, no_view
from dualview.views.nominal import block as _levels  # noqa: F401  (registers its columns)
from dualview.views.nominal.state import NominalState, level_indicators
from dualview.views.nominal.view import NominalView, no_columns
from dualview.views.shared.view import SharedVectorState, SharedVectorView

__all__ = [
    "BlockedView",
    "Components",
    "Followers",
    "GaussianState",
    "GaussianView",
    "Intervals",
    "NominalState",
    "NominalView",
    "SharedVectorState",
    "SharedVectorView",
    "View",
    "ViewState",
    "level_indicators",
    "no_columns",
    "no_table",
    "no_view",
]

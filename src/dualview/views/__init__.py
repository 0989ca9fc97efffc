"""Views: how likely a user's vector is under each component, and how components are redrawn."""

from dualview.views.base import Components, Observed, View, ViewState
from dualview.views.blocked import BlockedView, feature_view
from dualview.views.gaussian import columns as _numbers  # noqa: F401  (registers its kind)
from dualview.views.gaussian.intervals import Intervals
from dualview.views.gaussian.kind import GaussianState
from dualview.views.gaussian.linked_cells import Followers
from dualview.views.gaussian.view import GaussianView, no_table, no_tails, no_view
from dualview.views.nominal import columns as _levels  # noqa: F401  (registers its kind)
from dualview.views.nominal.state import NominalState
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
    "Observed",
    "SharedVectorState",
    "SharedVectorView",
    "View",
    "ViewState",
    "feature_view",
    "no_columns",
    "no_table",
    "no_tails",
    "no_view",
]

"""Views of ``naive`` as records of the package."""

from dualview.views.base import Base, Components
from yardsticks import upper_factor


def base_of(view):
    """What the components share."""
    return Base(view.base_mean, view.base_precision, view.base_covariance, view.base_dof)


def components_of(view):
    """Means and factors of the precisions."""
    return Components(view.means, upper_factor(view.precisions))

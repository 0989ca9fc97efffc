"""Cross-validation over observations with scikit-learn's own tools.

scikit-learn splits X and y by rows, which are users here; the observations of a behavior are shared
between users and must be split differently. An estimator whose rows are the observations lets
``cross_val_score`` and ``GridSearchCV`` split them.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors.base import Behavior
from dualview.behaviors.naming import is_several
from dualview.behaviors.several import SeveralBehaviors
from dualview.errors import InputError
from dualview.inputs.data import rows_of


class ObservationKFold(BaseEstimator):  # type: ignore[misc]
    """Estimator whose samples are the observations of a behavior, for scikit-learn's searches and
    splitters.

    Its X is ``over.positions``, the positions of the observations, which a splitter divides.
    ``score`` is the mean log predictive density of the held-out outcomes,
    ``estimator.score(features, behavior.take(positions))``.

    Parameters
    ----------
    estimator : DualViewMixture or a pipeline that ends in one
        The model; a clone is fitted. In a search its parameters are ``estimator__n_clusters`` and
        so on.
    features : array or DataFrame (U, D), optional
        Features of the users, the same in every fit.
    behavior : behavior
        The observations with their outcomes.

    Attributes
    ----------
    estimator_ : the fitted clone

    Examples
    --------
    >>> import dualview as dv
    >>> from sklearn.model_selection import cross_val_score
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(2, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> over = dv.ObservationKFold(model, forum.features, behavior)
    >>> cross_val_score(over, over.positions, cv=behavior.folds(3)).shape
    (3,)
    """

    def __init__(self, estimator: Any, features: Any = None, behavior: Any = None) -> None:
        self.estimator = estimator
        self.features = features
        self.behavior = behavior

    @property
    def positions(self) -> NDArray[np.intp]:
        """All observations by position, (n, 1): the X of searches."""
        return np.arange(self._observations.n_observations)[:, None]

    @property
    def _observations(self) -> Any:
        if is_several(self.behavior):
            return SeveralBehaviors.of(self.behavior, rows_of(self.features))
        if not isinstance(self.behavior, Behavior):
            got = type(self.behavior).__name__
            raise InputError(
                "behavior must have outcomes, such as SharedOutcome(participation, outcome); "
                f"got {got}."
            )
        return self.behavior

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit a clone of the estimator to all users and to the observations at these positions."""
        self.estimator_ = clone(self.estimator).fit(self.features, self._taken(X))
        return self

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Mean log predictive density of the outcomes at these positions."""
        check_is_fitted(self, "estimator_")
        return float(self.estimator_.score(self.features, self._taken(X)))

    def _taken(self, X: Any) -> Any:
        observations, positions = self._observations, np.asarray(X)
        n = observations.n_observations
        whole = positions.dtype.kind in "iu" and positions.ndim == 2 and positions.shape[1] == 1
        if not whole or positions.min(initial=0) < 0 or positions.max(initial=0) >= n:
            raise InputError(
                f"X must be positions of observations, (n, 1) whole numbers from 0 to {n - 1}: "
                "over.positions or a part of it. "
                "The users' features go to ObservationKFold(estimator, features, behavior)."
            )
        return observations.take(positions[:, 0])

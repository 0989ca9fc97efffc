"""Predictions of a fitted mixture: new outcomes, and users it has not seen."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors import Behavior
from dualview.errors import InputError
from dualview.inputs.features import checked_features, feature_names, row_ids, warn_of_projection
from dualview.outcomes import Mixture, NormalMixture
from dualview.posterior import Posterior
from dualview.posterior.new_users import Candidates, NewUsers, outcomes, outcomes_given
from dualview.posterior.predictive import VectorMixture, WeightedDraws

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Placement:
    """Keeps the candidates of a posterior beside the estimator, whose attributes a prediction may not change."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior

    @cached_property
    def candidates(self) -> Candidates:
        return Candidates(self.posterior)


class Predictions:
    """The predictions of an estimator with posterior_, behavior_ and n_clusters_."""

    if TYPE_CHECKING:
        posterior_: Posterior
        behavior_: Behavior | None
        n_clusters_: int
        _placement: Placement

    def predict(self, X: Any) -> Labels:
        """The most probable cluster of each new user, by its features; −1: a cluster of its own."""
        probabilities = self.predict_proba(X)
        chosen = np.argmax(probabilities, axis=1)
        return np.where(chosen < self.n_clusters_, chosen, -1)

    def predict_proba(self, X: Any) -> Array:
        """Probability that each new user belongs to each cluster of ``labels_``, by its features, (J, n_clusters_).

        When the number of clusters is inferred there is one more column: a cluster that nobody of the fit is in.
        """
        check_is_fitted(self, "posterior_")
        if "features" not in self.posterior_.units:
            raise InputError("This model was fitted without features, so it cannot place users by them: call fit(X, behavior).")
        return self._new_users(X, None).probabilities()

    def score_samples(self, X: Any) -> Array:
        """Log density of each new user's features under the posterior predictive distribution, in the units of X, (J,).

        The density is the mean over all draws of the mixture's density, a new cluster included where one can be opened. Where
        the features of the fit span fewer dimensions than they have columns, it is the density inside that space.
        """
        check_is_fitted(self, "posterior_")
        units = self.posterior_.units
        if "features" not in units:
            raise InputError(
                "This model was fitted without features, so they have no density: call fit(X, behavior). To score outcomes, "
                "call score(None, behavior)."
            )
        return self._new_users(X, None).log_density() - units["features"].log_volume

    def score(self, X: Any = None, y: Any = None) -> float:
        """Mean log predictive density: of outcomes where y is a behaviour, else of the users' features. More is better.

        Parameters
        ----------
        X : array or DataFrame (J, D), optional
            Features of new users, whose :meth:`score_samples` are averaged. With a behaviour they are those of the users of the
            fit, which the outcomes are predicted from already, and are ignored.
        y : behaviour of the kind that was fitted, with outcomes, optional
            Observations of the users of the fit that it has not seen; the log densities of ``predict_outcome`` are averaged.
            Anything else in the place of y is ignored, as scikit-learn's mixtures do.
        """
        check_is_fitted(self, "posterior_")
        if isinstance(y, Behavior):
            if y.outcome is None:
                raise InputError("score compares predictions with outcomes, and this behaviour has none: give it some.")
            return -self.predict_outcome(y).nll(y.outcome)
        if X is None:
            raise InputError("score needs features X of new users, or a behaviour with outcomes as y; got neither.")
        return float(self.score_samples(X).mean())

    def predict_latent(self, X_new: Any = None, behavior_new: Any = None) -> NormalMixture | VectorMixture | WeightedDraws:
        """Predictive distribution of the latent behaviour of users new to the fit.

        Parameters
        ----------
        X_new : array or DataFrame (J, D)
            Their features. None when the fit had no features.
        behavior_new : behaviour of the kind that was fitted, optional
            What they did so far. Its users are those of the fit, then the new ones; with X_new, or for fewer new users than the
            fit has, the new ones alone are enough. An outcome may be shared with users of the fit but not by two new ones.
        """
        check_is_fitted(self, "posterior_")
        self._fitted_behavior()
        return self._new_users(X_new, behavior_new).latent()

    def predict_outcome(self, new: Any, X_new: Any = None, behavior_new: Any = None) -> Mixture:
        """Predictive distribution of new outcomes.

        Parameters
        ----------
        new : behaviour of the kind that was fitted, without outcome
            What is to be predicted; for threads a participation matrix (T, U) is enough. With X_new its users are those of the
            fit, then the J new ones.
        X_new : array or DataFrame (J, D), optional
            Features of J users unknown to the fit, whose behaviour is then predicted from them.
        behavior_new : behaviour of the kind that was fitted, optional
            What those users did so far, as in :meth:`predict_latent`.
        """
        check_is_fitted(self, "posterior_")
        behavior = self._fitted_behavior()
        known = self._known
        n_draws = len(known[0])
        if X_new is None and behavior_new is None:
            return outcomes(behavior.forecast(new, *known, 0), n_draws)
        users = self._new_users(X_new, behavior_new)
        forecast = behavior.forecast(new, *known, len(users))
        return outcomes(forecast, n_draws, users) if behavior_new is None else outcomes_given(forecast, n_draws, users)

    def _fitted_behavior(self) -> Behavior:
        if self.behavior_ is None:
            raise InputError("This model was fitted without a behaviour, so it predicts no outcomes: call fit(X, behavior).")
        return self.behavior_

    @property
    def _known(self) -> tuple[Array, dict[str, Array]]:
        """Draws of the latent behaviour of the fit's users, and of what predictions need besides."""
        post = self.posterior_
        return post.flat("latent"), {name: post.flat(name) for name in self._fitted_behavior().param_names}

    def _new_users(self, X: Any, behavior: Any) -> NewUsers:
        post = self.posterior_
        x = None
        if "features" in post.units:
            if X is None:
                raise InputError("This model was fitted with features: give those of the new users too.")
            features, units = checked_features(self, X, reset=False), post.units["features"]
            warn_of_projection(features, feature_names(self), units, row_ids(X) or [f"row {j}" for j in range(len(features))])
            x = np.ascontiguousarray(units.to_working(features))
            n_users = len(x)
        elif X is not None:
            raise InputError("This model was fitted without features: X_new must be None.")
        elif behavior is None:
            raise InputError("Without features, a new user is known only by its behaviour: give behavior_new.")
        else:
            n_users = len(behavior) if len(behavior) < post.n_users else len(behavior) - post.n_users
        if n_users == 0:
            raise InputError(f"behavior_new has the {post.n_users} users of the fit and no new one: add the new users.")
        evidence = None if behavior is None else self._fitted_behavior().evidence(behavior, *self._known, n_users)
        return NewUsers(self._candidates, x, n_users, evidence)

    @property
    def _candidates(self) -> Candidates:
        """Made when first asked for, and kept with the posterior it belongs to."""
        if self._placement.posterior is not self.posterior_:
            self._placement = Placement(self.posterior_)
        return self._placement.candidates

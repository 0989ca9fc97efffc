"""Predictions of a fitted mixture: new outcomes, and users it has not seen."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dualview.behaviors.base import Behavior
from dualview.behaviors.families.base import Mixture
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.naming import is_several
from dualview.behaviors.records import Forecast
from dualview.behaviors.several import SeveralBehaviors
from dualview.checks import listed, whole_number
from dualview.columns import Cells
from dualview.errors import InputError
from dualview.inputs.features import feature_names
from dualview.inputs.from_long import is_table
from dualview.inputs.new_rows import new_observations
from dualview.inputs.new_users import among_new_users, new_features, new_ids
from dualview.posterior import Posterior
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.imputation import Imputation, imputed_of_fit, imputed_of_new
from dualview.posterior.prediction.looks import Looks
from dualview.posterior.prediction.new_outcomes import outcomes, outcomes_given
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.thinning import thinned
from dualview.posterior.prediction.user_features import Features
from dualview.queries import Queries

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Unknown = Literal["error", "missing"]

_FEW_DRAWS = 200  # of all chains
_FEW_FRESH = 10  # clusters that may be opened, in each of these


class Placement:
    """Keeps the candidates of a posterior beside the estimator, whose attributes a prediction may
    not change."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        self._last: tuple[Cells, ReferenceType[Looks]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"posterior": self.posterior, "_last": None}

    @cached_property
    def candidates(self) -> Candidates:
        return Candidates(self.posterior)

    @cached_property
    def few_candidates(self) -> Candidates:
        """In some of the draws, for what takes long."""
        return Candidates(thinned(self.posterior, _FEW_DRAWS), n_fresh=_FEW_FRESH)

    def looks(self, cells: Cells) -> Looks:
        """Those of users with these cells; the same ones again while there is a prediction that
        has them."""
        last, found = self._last, None
        if last is not None and last[0].equals(cells):
            found = last[1]()
        if found is None:
            own = cells.take(np.arange(cells.n_users))  # which stay as they are
            found = Looks(self.candidates, Features.of(self.posterior, own.data), own.n_users)
            self._last = own, ref(found)
        return found


class Predictions(Queries):
    """The predictions of an estimator with posterior_, behavior_ and n_clusters_.

    Missing cells of new users are integrated out. If the fit was to a table, new users are read by
    its codebook, with columns matched by name. ``unknown`` sets how levels that the fit has not
    seen are handled: "error" raises an error, "missing" treats them as missing cells.
    """

    if TYPE_CHECKING:
        posterior_: Posterior
        behavior_: Behavior | None
        _placement: Placement

        @property
        def n_clusters_(self) -> int: ...

    def predict(
        self, X: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Labels:
        """Most probable cluster of each new user; −1 for a new cluster.

        Parameters
        ----------
        X : array or table (J, D)
            Features of new users; cells may be missing (NaN, None). None if the fit had no
            features.
        behavior_new : behavior of the kind that was fitted, or long table, optional
            What the new users did so far, as in :meth:`predict_latent`.
        unknown : "error" or "missing"
            How to handle a level of a category that the fit has not seen: raise an error, or treat
            it as a missing cell.
        """
        probabilities = self.predict_proba(X, behavior_new, unknown=unknown)
        chosen = np.argmax(probabilities, axis=1)
        return np.where(chosen < self.n_clusters_, chosen, -1)

    def predict_proba(
        self, X: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Array:
        """Probability that each new user belongs to each cluster of ``labels_``, given the features
        and what the user did so far, (J, K).

        If the number of clusters is inferred, there is one more column: a new cluster without users
        of the fit. Parameters are those of :meth:`predict`.
        """
        check_is_fitted(self, "posterior_")
        if behavior_new is None and not self.posterior_.has_features:
            raise InputError(
                "This model was fitted without features, so it cannot place users by them: give "
                "what they did so far, predict_proba(None, behavior_new)."
            )
        if behavior_new is not None:
            behavior_new, X = self._from_table(behavior_new, X, with_outcomes=True)
        return self._new_users(X, behavior_new, unknown).probabilities()

    def score_samples(self, X: Any, *, unknown: Unknown = "error") -> Array:
        """Log density of each new user's features under the posterior predictive distribution, in
        the units of X, (J,).

        The density is the mean of the mixture's density over all draws, including a new cluster if
        the number is inferred. Cells known up to an interval (rounded numbers, counts, ratings) and
        categories count with their probability, missing cells not at all. If the features of the
        fit span fewer dimensions than they have columns, it is the density inside that subspace. X
        and unknown are as in :meth:`predict`.
        """
        check_is_fitted(self, "posterior_")
        units = self.posterior_.spec.units
        if not self.posterior_.has_features:
            raise InputError(
                "This model was fitted without features, so they have no density: call fit(X, "
                "behavior). To score outcomes, "
                "call score(None, behavior)."
            )
        volume = units["features"].log_volume if "features" in units else 0.0
        return self._new_users(X, None, unknown).log_density() - volume

    def score(self, X: Any = None, y: Any = None, *, unknown: Unknown = "error") -> float:
        """Mean log predictive density: of outcomes if y is a behavior, else of the users' features.
        Higher is better.

        Parameters
        ----------
        X : array or DataFrame (J, D), optional
            Features of new users, whose :meth:`score_samples` are averaged. Ignored if y is a
            behavior: its users are those of the fit, whose features are already known.
        y : behavior of the kind that was fitted, with outcomes, or long table, optional
            New observations of the users of the fit; the log densities of ``predict_outcome`` are
            averaged, with several behaviors those of all observations alike. Any other y is
            ignored, as in scikit-learn's mixtures.
        unknown : "error" or "missing"
            As in :meth:`predict`.
        """
        check_is_fitted(self, "posterior_")
        if self.behavior_ is not None and self.behavior_.table is not None and is_table(y):
            y, new = new_observations(self.behavior_, y, with_outcomes=True)
            if new is not None:
                raise InputError(
                    "score is of outcomes of the fit's users; the table has others: "
                    f"{listed(new.index.tolist())}. Leave out their rows."
                )
        if isinstance(y, Behavior) or is_several(y):
            return float(np.concatenate(self._log_densities(y)).mean())
        if X is None:
            raise InputError(
                "score needs features X of new users, or a behavior with outcomes as y; got "
                "neither."
            )
        return float(self.score_samples(X, unknown=unknown).mean())

    def _log_densities(self, y: Any) -> list[Array]:
        """Of outcomes that were not in the fit; with several behaviors those of each."""
        behavior = self._fitted_behavior()
        if is_several(y) and not isinstance(behavior, SeveralBehaviors):
            raise InputError(
                f"This model was fitted to one behavior, a {type(behavior).__name__}: give one "
                "as y, not several."
            )
        fitted: Mapping[str, Behavior] = {"": behavior}
        given: Mapping[str, Behavior] = {"": y}
        if isinstance(behavior, SeveralBehaviors):
            fitted, given = behavior.parts, behavior.new(y).parts
        if any(part.outcome is None for part in given.values()):
            raise InputError(
                "score compares predictions with outcomes, and this behavior has none: give "
                "it some."
            )
        law = self.predict_outcome(y)
        laws = law if isinstance(behavior, SeveralBehaviors) else {"": law}
        return [
            laws[name].log_density(fitted[name].outcome_of(part)) for name, part in given.items()
        ]

    def predict_latent(
        self, X_new: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Any:
        """Predictive distribution of the latent behavior of users new to the fit; by name where
        there are several behaviors.

        Parameters
        ----------
        X_new : array or DataFrame (J, D)
            Features of the new users. None if the fit had no features.
        behavior_new : behavior of the kind that was fitted, or long table, optional
            What the new users did so far; a table is read as in the fit. Its users are those of the
            fit, then the new ones; with X_new, or for fewer new users than the fit has, the new
            ones alone are enough. An outcome may involve users of the fit, but only one new user.
        unknown : "error" or "missing"
            As in :meth:`predict`.
        """
        check_is_fitted(self, "posterior_")
        behavior = self._fitted_behavior()
        behavior_new, X_new = self._from_table(behavior_new, X_new, with_outcomes=True)
        latent = self._new_users(X_new, behavior_new, unknown).latent()
        if not isinstance(behavior, SeveralBehaviors):
            return latent
        if isinstance(latent, NormalMixture):
            return dict.fromkeys(behavior.parts, latent)
        return {name: latent.block(block.own) for name, block in behavior.blocks.items()}

    def predict_outcome(
        self, new: Any, X_new: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Any:
        """Predictive distribution of new outcomes; by name where there are several behaviors.

        Parameters
        ----------
        new : behavior of the kind that was fitted, without outcome, or long table
            The observations to predict; for threads a participation matrix (T, U) is enough. After
            a fit to the behavior of ``from_long``, or by ``dualview.fit``, a table is enough: its
            columns are read as in the fit, and users who are new are predicted from its columns of
            features. With
            X_new its users are those of the fit, then the J new ones. With several behaviors a list
            of all, or a dictionary of some by name; the result is then a dictionary with a
            distribution for each.
        X_new : array or DataFrame (J, D), optional
            Features of J users unknown to the fit.
        behavior_new : behavior of the kind that was fitted, or long table, optional
            What the new users did so far, as in :meth:`predict_latent`.
        unknown : "error" or "missing"
            As in :meth:`predict`.
        """
        check_is_fitted(self, "posterior_")
        behavior = self._fitted_behavior()
        known = self._known()
        are_tables = behavior.table is not None and is_table(new) and is_table(behavior_new)
        behavior_new, X_new = self._from_table(behavior_new, X_new, with_outcomes=True)
        new, X_new = self._from_table(new, X_new)
        by_position = are_tables and new_ids(self.posterior_, X_new) is None
        if by_position and new.users != behavior_new.users:
            raise InputError(
                "X_new must name its users, since new and behavior_new have different ones: give a "
                "pandas table with ids as its index."
            )
        users = (
            None
            if X_new is None and behavior_new is None
            else self._new_users(X_new, behavior_new, unknown)
        )
        new = among_new_users(behavior, new, new_ids(self.posterior_, X_new))

        def predicted(forecast: Forecast) -> Mixture:
            if users is not None and behavior_new is not None:
                return outcomes_given(forecast, len(known[0]), users)
            return outcomes(forecast, len(known[0]), users)

        n_new = 0 if users is None else len(users)
        if isinstance(behavior, SeveralBehaviors):
            return {
                name: predicted(own) for name, own in behavior.forecasts(new, *known, n_new).items()
            }
        return predicted(behavior.forecast(new, *known, n_new))

    def _fitted_behavior(self) -> Behavior:
        if self.behavior_ is None:
            raise InputError(
                "This model was fitted without a behavior, so it predicts no outcomes: call "
                "fit(X, behavior)."
            )
        return self.behavior_

    def _feature_columns(self) -> list[str] | None:
        """Names of the columns of features; None for a fit without features."""
        if not self.posterior_.has_features:
            return None
        return feature_names(self)

    def _from_table(self, given: Any, X_new: Any, with_outcomes: bool = False) -> tuple[Any, Any]:
        """Observations and features of new users, where the observations are a long table; else as
        they are."""
        behavior = self._fitted_behavior()
        if behavior.table is None or not is_table(given):
            return given, X_new
        ids, names = new_ids(self.posterior_, X_new), self._feature_columns()
        return new_observations(behavior, given, X_new, ids, names, with_outcomes)

    def _known(self) -> tuple[Array, dict[str, Array]]:
        """Draws of the latent behavior of the fit's users, and of what predictions need besides."""
        post = self.posterior_
        return post.flat("latent"), {
            name: post.flat(name) for name in self._fitted_behavior().param_names
        }

    def impute(
        self, X: Any = None, *, n_draws: int = 1000, unknown: Unknown = "error", seed: int = 0
    ) -> Imputation:
        """Fill in missing and censored cells: medians or most probable levels, intervals and draws.

        Parameters
        ----------
        X : table or array, optional
            New users, one row each, with cells to fill in. None, or the table of the fit: its own
            users, from the posterior's draws.
        n_draws : int
            Draws of each new user's cells. For users of the fit there are as many as the posterior
            has.
        unknown : "error" or "missing"
            As in :meth:`predict`.
        seed : int
            Seed; the same seed gives the same draws.

        Returns
        -------
        Imputation
            ``frame`` is the completed table as a pandas data frame, ``table`` the same as the kind
            of X: pandas with its index, polars, an array; ``cells`` has one row for each cell that
            was filled in, ``draws(user, column)`` has the draws of one cell.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> import dualview as dv
        >>> rng = np.random.default_rng(0)
        >>> income = rng.normal(3000.0, 400.0, 30)
        >>> rent = 0.3 * income + rng.normal(0.0, 20.0, 30)
        >>> users = pd.DataFrame({"income": income, "rent": rent})
        >>> users.loc[3, "rent"] = None
        >>> model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=100), n_draws=200, n_chains=1)
        >>> model = model.fit(users)
        >>> filled = model.impute()
        >>> filled.cells[["user", "column"]].to_numpy().tolist()
        [[3, 'rent']]
        >>> bool(abs(filled.frame.loc[3, "rent"] - 0.3 * users.loc[3, "income"]) < 50.0)
        True
        """
        check_is_fitted(self, "posterior_")
        whole_number(n_draws, "n_draws", 1)
        whole_number(seed, "seed", 0)
        post, rng = self.posterior_, np.random.default_rng(seed)
        if not post.has_features:
            raise InputError(
                "This model was fitted without features, so it has no cells to fill in: call "
                "fit(X, behavior)."
            )
        if X is None:
            return imputed_of_fit(rng, post)
        features = new_features(self, post, X, unknown)
        if post.cells is not None and features.cells.equals(post.cells):
            return imputed_of_fit(rng, post, X)
        users = NewUsers(self._candidates(), features.seen, len(features))
        return imputed_of_new(rng, post, users, features.seen, n_draws, features.names, X)

    def _new_users(self, X: Any, behavior: Any, unknown: Unknown = "error") -> NewUsers:
        post, fitted = self.posterior_, self.behavior_
        x, looks = None, None
        if post.has_features:
            if X is None:
                raise InputError(
                    "This model was fitted with features: give those of the new users too."
                )
            features = new_features(self, post, X, unknown)
            x, n_users = features.seen, len(features)
            looks = self._kept_placement().looks(features.cells) if n_users else None
            behavior = (
                behavior if fitted is None else among_new_users(fitted, behavior, features.ids)
            )
        elif X is not None:
            if np.shape(X)[1:] != (0,):
                raise InputError(
                    "This model was fitted without features: X_new must be None, or have a row for "
                    "each new user and no columns."
                )
            n_users = len(X)
            behavior = among_new_users(self._fitted_behavior(), behavior, new_ids(post, X))
        elif behavior is None:
            raise InputError(
                "Without features, a new user is known only by its behavior: give behavior_new."
            )
        else:
            n_users = self._n_new(behavior)
        if n_users == 0:
            raise InputError(
                f"behavior_new has the {post.n_users} users of the fit and no new one: add the "
                "new users."
            )
        evidence = (
            None
            if behavior is None
            else self._fitted_behavior().evidence(behavior, *self._known(), n_users)
        )
        return NewUsers(self._candidates(), x, n_users, evidence, looks)

    def _n_new(self, behavior: Any) -> int:
        """Number of users who are new to a fit without features: by their ids, or those behind the
        users of the fit."""
        fitted, n_known = self._fitted_behavior(), self.posterior_.n_users
        named = fitted.new(behavior) if isinstance(fitted, SeveralBehaviors) else behavior
        named = named.called_as(fitted.users) if isinstance(named, Behavior) else named
        n, users = len(named), getattr(named, "users", None)
        if fitted.users is not None and users is not None:
            return len(set(users) - set(fitted.users))
        return n if n < n_known else n - n_known

    def _candidates(self) -> Candidates:
        """Made when first asked for, and kept with the posterior it belongs to."""
        return self._kept_placement().candidates

    def _few_candidates(self) -> Candidates:
        return self._kept_placement().few_candidates

    def _kept_placement(self) -> Placement:
        if self._placement.posterior is not self.posterior_:
            self._placement = Placement(self.posterior_)
        return self._placement

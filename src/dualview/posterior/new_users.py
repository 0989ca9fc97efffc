"""Users the fit has not seen: their clusters and latent behaviour from their features, and from a few outcomes.

A new user updates the posterior, so draws are reweighted: draw i counts in proportion to p(a* | draw i), the sum over its
clusters and a new cluster, whose density is averaged over components drawn from the base. Equal weights would be wrong.
"""

import warnings
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.base import Evidence, Forecast
from dualview.errors import DataWarning
from dualview.kernels import densities, gaussian
from dualview.kernels.streams import stream_of
from dualview.posterior.posterior import Posterior
from dualview.posterior.predictive import NormalMixture, Parts

Array = NDArray[np.float64]

_BASE_DRAWS = 20_000  # components drawn from the base, over all draws of the posterior
_LEAST_FRESH = 4  # and at least so many per draw
_CELLS = 4_000_000
_FEW = 50  # an effective number of draws below this is worth a warning


class Candidates:
    """The clusters a new user may belong to, in all draws: every component of each draw, then fresh ones from its base.

    Rows are sorted by draw. draw (R,), log_prior (R,) = ln c_k or ln(c_new / m), component (R,) is the row in the posterior's
    table of components, −1 for a fresh one.
    """

    def __init__(self, post: Posterior, seed: int = 0) -> None:
        self._post = post
        rng = np.random.default_rng(seed)
        table = post.components
        partition = post.partition_prior
        alpha = post.flat("alpha") if partition.has_alpha else np.ones(post.n_chains * post.n_draws)
        n_draws = len(alpha)
        owner = table["owner"]
        spread = np.array([partition.spread(a) for a in alpha])
        new_weight = np.array([partition.new_weight(a) for a in alpha])
        n_fresh = max(_LEAST_FRESH, -(-_BASE_DRAWS // n_draws)) if new_weight.any() else 0
        total = np.bincount(owner, weights=table["count"] + spread[owner], minlength=n_draws) + new_weight
        self.n_draws = n_draws
        self.n_fresh = n_fresh
        draw = np.concatenate([owner, np.repeat(np.arange(n_draws), n_fresh)])
        weight = np.concatenate([table["count"] + spread[owner], np.repeat(new_weight / max(n_fresh, 1), n_fresh)])
        order = np.argsort(draw, kind="stable")
        self.draw = draw[order]
        self.weight = weight[order]
        self.total = total
        self.new_weight = new_weight
        self.component = np.concatenate([np.arange(len(owner)), np.full(n_draws * n_fresh, -1)])[order]
        self.first = np.searchsorted(self.draw, np.arange(n_draws))
        self._parameters = {
            view: tuple(
                np.concatenate(pair)[order]
                for pair in zip((table[f"{view}.means"], table[f"{view}.factors"]), self._fresh(rng, view), strict=True)
            )
            for view in post.units
            if f"{view}.factors" in table
        }
        self.pooled = post.pooling is not None

    def _fresh(self, rng: np.random.Generator, view: str) -> tuple[Array, Array]:
        stream = stream_of(rng)
        drawn = [gaussian.draw_from_base(stream, self.n_fresh, *base) for base in self._post.working_base(view)]
        return np.concatenate([means for means, _ in drawn]), np.concatenate([factors for _, factors in drawn])

    @property
    def log_prior(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight / self.total[self.draw]))

    def log_features(self, x: Array | None, n_users: int) -> Array:
        """ln p(a_j | row), (J, R); 0 without a feature view. x in working units."""
        if x is None or "features" not in self._parameters:
            return np.zeros((n_users, len(self.draw)))
        return np.asarray(densities.log_likelihood(x, *self._parameters["features"]))

    @cached_property
    def latent(self) -> tuple[Array, Array]:
        """Mean and variance of the latent coefficient in each row, in the user's units.

        Where users share it a known cluster has one value and no variance, and a fresh one has the base's.
        """
        if self.pooled:
            return self._pooled_latent
        means, factors = self._parameters["behavior"]
        units = self._post.units["behavior"]
        scale = float(units.factor[0, 0])
        return units.vectors(means)[:, 0], (scale / factors[:, 0, 0]) ** 2

    @property
    def _pooled_latent(self) -> tuple[Array, Array]:
        post, known = self._post, self.component >= 0
        means, variances = post.flat("behavior.base_mean")[self.draw], 1.0 / post.flat("behavior.base_precision")[self.draw]
        means[known] = post.units["behavior"].vectors(post.components["behavior.means"])[self.component[known], 0]
        variances[known] = 0.0
        return means, variances

    @cached_property
    def overlap(self) -> Array:
        """Share of each row's users that is in each cluster of the estimate, (R, C + 1); the last column is a fresh cluster."""
        labels = self._post.partition("dahl")
        table = self._post.components
        z = self._post.flat("z")
        offsets = np.searchsorted(table["owner"], np.arange(self.n_draws))
        counts = np.zeros((len(table["owner"]), int(labels.max()) + 1))
        for draw in range(self.n_draws):
            np.add.at(counts, (offsets[draw] + z[draw], labels), 1.0)
        shares = counts / np.maximum(table["count"], 1)[:, None]
        result = np.zeros((len(self.draw), counts.shape[1] + 1))
        known = self.component >= 0
        result[known, :-1] = shares[self.component[known]]
        result[~known, -1] = 1.0
        return result


class NewUsers:
    """J new users with features x (J, D) in working units, and what is known of their outcomes."""

    def __init__(self, candidates: Candidates, x: Array | None, n_users: int, evidence: Evidence | None = None) -> None:
        self._candidates = candidates
        self._x = x
        self._n = n_users
        self._evidence = evidence
        self._warned = False

    def __len__(self) -> int:
        return self._n

    @property
    def _batch(self) -> int:
        return max(1, _CELLS // len(self._candidates.draw))

    def _log_weights(self, users: slice) -> Array:
        """ln of the joint weight of (draw, cluster), (J, R), summing to one over R for each user."""
        rows = self._candidates
        x = None if self._x is None else self._x[users]
        n = len(range(*users.indices(self._n)))
        log_weights = rows.log_prior + rows.log_features(x, n)
        if self._evidence is not None:
            log_weights = log_weights + self._log_marginal(users)
        return np.asarray(log_weights - logsumexp(log_weights, axis=1, keepdims=True))

    def _given_outcomes(self, users: slice) -> tuple[Array, Array]:
        """Mean and variance of each user's latent coefficient in each row, given outcomes too: (J, R) each."""
        means, variances = self._candidates.latent
        if self._evidence is None:
            return means[None, :], variances[None, :]
        draw = self._candidates.draw
        linear, precision = self._evidence.linear[draw][:, users].T, self._evidence.precision[draw][:, users].T
        shrinkage = 1.0 / (1.0 + variances * precision)
        return shrinkage * (means + variances * linear), shrinkage * variances

    def _log_marginal(self, users: slice) -> Array:
        """ln p(outcomes of j | row), with the latent coefficient integrated out."""
        assert self._evidence is not None
        means, variances = self._candidates.latent
        draw = self._candidates.draw
        constant, linear, precision = (part[draw][:, users].T for part in self._evidence)
        widening = 1.0 + variances * precision
        exponent = (means * (2.0 * linear - precision * means) + variances * linear**2) / widening
        return np.asarray(constant - 0.5 * np.log(widening) + 0.5 * exponent)

    def _warn_of_few_draws(self, users: slice, log_weights: Array) -> None:
        by_draw = np.add.reduceat(np.exp(log_weights), self._candidates.first, axis=1)
        effective = 1.0 / (by_draw**2).sum(axis=1)
        few = np.flatnonzero(effective < min(_FEW, 0.1 * self._candidates.n_draws))
        if len(few) and not self._warned:
            self._warned = True
            names = ", ".join(str(users.start + j) for j in few[:5]) + (" and more" if len(few) > 5 else "")
            warnings.warn(
                f"The prediction for new user(s) {names} rests on few of the posterior's draws (effective number "
                f"{effective.min():.0f} of {self._candidates.n_draws}): they are unlike the users of the fit, or the fit is "
                "too short. Draw more, or fit again with them included.",
                DataWarning,
                stacklevel=2,
            )

    def probabilities(self) -> Array:
        """Probability of each cluster of the estimate, (J, C), with a last column for a new cluster where one can be opened."""
        overlap = self._candidates.overlap
        result = np.empty((self._n, overlap.shape[1]))
        for first in range(0, self._n, self._batch):
            users = slice(first, min(first + self._batch, self._n))
            log_weights = self._log_weights(users)
            self._warn_of_few_draws(users, log_weights)
            result[users] = np.exp(log_weights) @ overlap
        if self._candidates.n_fresh == 0:
            result = result[:, :-1]
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def latent(self) -> NormalMixture:
        """Predictive distribution of each user's latent coefficient."""

        def parts(users: slice) -> Parts:
            log_weights = self._log_weights(users)
            self._warn_of_few_draws(users, log_weights)
            means, variances = (np.broadcast_to(part, log_weights.shape) for part in self._given_outcomes(users))
            return Parts(log_weights.T, means.T, np.sqrt(variances).T)

        return NormalMixture(self._n, len(self._candidates.draw), parts)

    def impute(self, rng: np.random.Generator, members: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Clusters of some new users together, one after the other, in every draw.

        Returns ln p(their features | draw) (N,), and the mean and variance of each one's latent coefficient, (members, N). A
        user who follows another sees it in its cluster, a fresh cluster included.
        """
        rows = self._candidates
        weight = rows.weight.copy()
        total = rows.total.copy()
        vacant = rows.component < 0
        latent_means, latent_variances = rows.latent
        if rows.pooled:  # two who meet in a fresh cluster have the same coefficient there
            latent_means = latent_means + np.sqrt(latent_variances) * rng.standard_normal(len(latent_means))
            latent_variances = np.zeros(len(latent_means))
        log_density = np.zeros(rows.n_draws)
        means, variances = np.empty((len(members), rows.n_draws)), np.empty((len(members), rows.n_draws))
        for position, j in enumerate(members):
            x = None if self._x is None else self._x[j : j + 1]
            likelihood = rows.log_features(x, 1)[0]
            top = np.maximum.reduceat(likelihood, rows.first)
            mass = weight * np.exp(likelihood - top[rows.draw])
            cumulative = np.cumsum(mass)
            by_draw = np.add.reduceat(mass, rows.first)
            start = cumulative[rows.first] - mass[rows.first]
            chosen = np.searchsorted(cumulative, start + rng.random(rows.n_draws) * by_draw, side="right")
            last = np.append(rows.first[1:], len(mass)) - 1
            chosen = np.clip(chosen, rows.first, last)
            log_density += top + np.log(by_draw / total)
            means[position], variances[position] = latent_means[chosen], latent_variances[chosen]
            opened = vacant[chosen]
            weight[chosen] = np.where(opened, 1.0, weight[chosen] + 1.0)
            vacant[chosen] = False
            n_vacant = np.bincount(rows.draw[vacant], minlength=rows.n_draws)
            weight[vacant] = (rows.new_weight / np.maximum(n_vacant, 1))[rows.draw[vacant]]
            total += 1.0
        return log_density, means, variances


def outcomes(forecast: Forecast, new_users: NewUsers, seed: int = 0) -> NormalMixture:
    """Predictive distribution of outcomes that users new to the fit have a part in."""
    n_draws = len(forecast.sds)
    even = np.full(n_draws, -np.log(n_draws))

    def parts(cases: slice) -> Parts:
        locations = forecast.known(cases).copy()
        log_weights = np.repeat(even[:, None], locations.shape[1], axis=1)
        variances = np.repeat(forecast.sds[:, None] ** 2, locations.shape[1], axis=1)
        for column, case in enumerate(range(*cases.indices(forecast.n))):
            row = forecast.loads[[case]]
            if row.nnz == 0:
                continue
            rng = np.random.default_rng([seed, case])
            log_density, means, spreads = new_users.impute(rng, row.indices)
            log_weights[:, column] = log_density - logsumexp(log_density)
            locations[:, column] += row.data @ means
            variances[:, column] += row.data**2 @ spreads
        return Parts(log_weights, locations, np.sqrt(variances))

    return NormalMixture(forecast.n, n_draws, parts)

"""Users the fit has not seen: their clusters and latent behavior from their features, and from a
few outcomes.

A new user updates the posterior, so draws are reweighted: draw i counts in proportion to p(a* |
draw i), the sum over its clusters and a new cluster, whose mean and precision are integrated out
(``fresh``). Equal weights would be wrong.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.records import ClusterNoise, Evidence, SampledEvidence, UserNoise
from dualview.errors import DataWarning, InputError
from dualview.numerics.linalg import log_determinants, solved, times
from dualview.posterior.prediction.candidates import SEED, Candidates
from dualview.posterior.prediction.looks import Looks
from dualview.posterior.prediction.predictive import VectorMixture, VectorParts, WeightedDraws
from dualview.posterior.prediction.user_features import Features, Opened

Array = NDArray[np.float64]
Answer = TypeVar("Answer")

_KEPT = 50_000_000  # numbers kept, of each kind, of new users who are asked for again
_FEW = 50  # an effective number of draws below this is worth a warning


class Given(NamedTuple):
    """Each row's weight for some new users, (R, J), and their latent vectors' distribution in it:
    (R, J, q), (R, J, q, q)."""

    log_weights: Array
    means: Array
    covariances: Array


class Imputed(NamedTuple):
    """Clusters of M new users in every draw.

    log_density (N,): ln p(their features | draw). means (M, N, q) and covariances (M, N, q, q) of
    their latent vectors. places (M, N): the rows of their clusters.
    """

    log_density: Array
    means: Array
    covariances: Array
    places: NDArray[np.int64]


class Arrivals:
    """What the rows weigh while new users arrive in them, one in each draw at a time: weight (R,),
    total (N,)."""

    def __init__(self, rows: Candidates) -> None:
        self._rows = rows
        self.weight, self.total, self._vacant = rows.weight.copy(), rows.total.copy(), ~rows.known
        self._n_opened, self._n_joined = np.zeros((2, rows.n_draws))

    def seat(self, chosen: NDArray[np.int64], arrives: NDArray[np.bool_]) -> None:
        """One more customer in the rows chosen (N,), in those draws in which one arrives (N,)."""
        rows, seats = self._rows, chosen[arrives]
        opens = self._vacant[seats]
        self.weight[seats] = np.where(opens, 1.0 + rows.offset[arrives], self.weight[seats] + 1.0)
        self._vacant[seats] = False
        self._n_opened[arrives] += opens
        n_vacant = np.bincount(rows.draw[self._vacant], minlength=rows.n_draws)
        self._n_joined += arrives
        new = rows.new_weight(self._n_opened, self._n_joined)
        by_draw = new / np.maximum(n_vacant, 1)
        self.weight[self._vacant] = by_draw[rows.draw[self._vacant]]
        known = np.where(self._vacant, 0.0, self.weight)
        self.total = np.add.reduceat(known, rows.first) + new

    def act(self, rng: np.random.Generator, looks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows (N,) by behavior of users who look like these (N,) and have been seated
        there."""
        rows = self._rows
        if rows.share is None:
            return looks
        apart = rng.random(rows.n_draws) >= rows.share
        acts = np.where(
            apart, _choose(rng, rows, self.weight, np.zeros(len(self.weight)))[0], looks
        )
        self.seat(acts, apart)
        return acts


class ClustersOf(NamedTuple):
    """Clusters of a new user with features x: weights (T, R) of all rows by each table, and rows
    (T, n) that were drawn by them; T is 1 where there is one label for all."""

    candidates: Candidates
    x: Features
    weights: Array
    rows: NDArray[np.int64]

    def fill(
        self, rng: np.random.Generator, columns: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[Any], list[Array] | None] | None]:
        """The user's cells in some columns of each block, drawn in the rows, as ``BlockRows.fill``
        has them."""
        features = self.candidates.features
        return features.fill(rng, self.rows, self.weights, self.x, columns)


class Kept(Generic[Answer]):
    """What was asked for last, by what was asked, and of no more than so many. It holds nobody who
    could answer: those who keep it are let go, with all that they hold, once nobody needs them."""

    def __init__(self, most: int) -> None:
        self._most, self._found = max(1, most), OrderedDict[Any, Answer]()

    def get(self, asked: Any, answer: Callable[[], Answer]) -> Answer:
        """The answer, which is worked out if it is not there."""
        if asked not in self._found:
            if len(self._found) == self._most:
                self._found.popitem(last=False)
            self._found[asked] = answer()
        self._found.move_to_end(asked)
        return self._found[asked]


class NewUsers:
    """J new users with features x, and what is known of their observations."""

    def __init__(
        self,
        candidates: Candidates,
        x: Features | None,
        n_users: int,
        evidence: Evidence | SampledEvidence | None = None,
        looks: Looks | None = None,
    ) -> None:
        """looks: those of x, where other predictions of the same users have them too."""
        self._candidates = candidates
        self._x = x
        self._n = n_users
        self._evidence = evidence
        self._looks = Looks(candidates, x, n_users) if looks is None else looks
        self._warned, self._looked_at = False, np.zeros(n_users, dtype=np.bool_)
        self._customers = candidates.customers(candidates.weight)
        n_dims = candidates.latent.n_dims
        n_rows, n_numbers = len(candidates), 1 + n_dims + n_dims**2
        self._features: Kept[Array] = Kept(_KEPT // n_rows)
        self._imputed: Kept[Imputed] = Kept(_KEPT // (2 * n_numbers * candidates.n_draws))
        self._given: Kept[Given] = Kept(_KEPT // (n_numbers * n_rows))

    def __len__(self) -> int:
        return self._n

    @property
    def n_rows(self) -> int:
        return len(self._candidates)

    @property
    def draw(self) -> NDArray[np.int64]:
        """The draw of the posterior that each row belongs to."""
        return self._candidates.draw

    def noise(self, noise: ClusterNoise | UserNoise) -> Array:
        """The noise precision of each row's cluster, or of a new user in it, (R,)."""
        return self._candidates.noise(noise)

    def _batches(self) -> Iterator[slice]:
        """All users, as many as are worked on at a time."""
        for first in range(0, self._n, self._looks.batch):
            yield slice(first, min(first + self._looks.batch, self._n))

    def _log_weights(self, users: slice, *, with_others: bool = False) -> Array:
        """ln of the joint weight of (draw, cluster by features), (J, R), summing to one over R for
        each user."""
        looks = self._looks.of(users, with_others=with_others)
        if self._evidence is None:
            return looks.normalized
        log_looks = looks.log_weights
        log_marginal = np.asarray(np.broadcast_to(self._observed(users)[0].T, log_looks.shape))
        if self._customers is None:
            log_looks = log_looks + log_marginal
        else:
            log_looks = self._customers.looking(log_looks, log_marginal)
        return _normalised(log_looks.T).T

    def _log_features(self, user: int) -> Array:
        """ln p(features of a new user | row), (R,), kept for when it is asked for again."""
        x = None if self._x is None else self._x[user : user + 1]
        return self._features.get(user, lambda: np.asarray(self._candidates.log_features(x, 1)[0]))

    def given_one(self, user: int) -> Given:
        """Everything that is known of one of the new users, kept for when it is asked for again."""
        return self._given.get(user, lambda: self.given(slice(user, user + 1)))

    def given(self, users: slice) -> Given:
        """Everything that is known of some of the new users, in the rows of their clusters by
        behavior."""
        looks, (log_marginal, means, covariances) = self._looks.of(users), self._observed(users)
        if self._customers is None and self._evidence is None:
            return Given(looks.normalized.T, means, covariances)
        log_weights = looks.log_weights
        if self._customers is not None:
            log_weights = self._customers.acting(log_weights)
        return Given(_normalised(log_weights.T + log_marginal), means, covariances)

    def _observed(self, users: slice) -> tuple[Array, Array, Array]:
        """ln p(observations of some users | row), (R, J), and their latent vectors' distribution
        given these."""
        latent = self._candidates.latent
        means, covariances = latent.means[:, None], latent.covariances[:, None]
        if isinstance(self._evidence, SampledEvidence):
            means, log_likelihood = self._sampled(users)
            return log_likelihood, means, np.zeros((1, 1, *covariances.shape[2:]))
        means = means + self._shifted(users)
        if self._evidence is None:
            return np.zeros((1, 1)), means, covariances
        if self._evidence.noise is None:
            part = self._evidence.of_draws(self._candidates.draw, users)
        else:
            part = self._evidence.under(
                self.noise(self._evidence.noise), users, self._candidates.draw
            )
        return updated(means, covariances, part)

    def _shifted(self, users: slice) -> Array:
        """What a link adds to some users' latent vectors in each row, (R, J, q)."""
        x = None if self._x is None else self._x[users]
        self._candidates.link.require_cells(x)
        return self._candidates.link.by_row(x)

    def _sampled(self, users: slice) -> tuple[Array, Array]:
        """A latent vector of each user drawn in each row, (R, J, q), and ln p(observations | it),
        (R, J)."""
        assert isinstance(self._evidence, SampledEvidence)
        means, roots = self._candidates.latent.means, self._candidates.latent.roots
        vectors, log_likelihoods = [], []
        for j in range(*users.indices(self._n)):
            noise = np.random.default_rng([SEED, j]).standard_normal((*means.shape, 1))
            shift = self._shifted(slice(j, j + 1))[:, 0]
            vectors.append(means + shift + (roots @ noise)[..., 0])
            log_likelihoods.append(
                self._evidence.log_likelihood(j, self._candidates.draw, vectors[-1])
            )
        return np.stack(vectors, axis=1), np.stack(log_likelihoods, axis=1)

    def _warn_of_few_draws(self, users: slice, log_weights: Array) -> None:
        if self._warned or self._looked_at[users].all():
            return
        self._looked_at[users] = True
        by_draw = np.add.reduceat(np.exp(log_weights), self._candidates.first, axis=1)
        effective = 1.0 / (by_draw**2).sum(axis=1)
        few = np.flatnonzero(effective < min(_FEW, 0.1 * self._candidates.n_draws))
        if len(few):
            self._warned = True
            names = ", ".join(str(users.start + j) for j in few[:5]) + (
                " and more" if len(few) > 5 else ""
            )
            warnings.warn(
                f"The prediction for new user(s) {names} rests on few of the posterior's draws "
                "(effective number "
                f"{effective.min():.0f} of {self._candidates.n_draws}): they are unlike the "
                "users of the fit, or the fit is "
                "too short. Draw more, or fit again with them included.",
                DataWarning,
                stacklevel=2,
            )

    def clusters_of(
        self,
        rng: np.random.Generator,
        user: int,
        n: int,
        *,
        independent: bool = False,
        with_others: bool = False,
    ) -> "ClustersOf":
        """n rows of one user by their weights: spread evenly over these, or independent draws.
        with_others: the other users will be asked for as well."""
        assert self._x is not None
        users = slice(user, user + 1)
        if self._candidates.has_labels_by_table:
            rows, weights = self._candidates.rows_by_table(
                rng, self._x[users], levels_of(rng, n, independent)
            )
            with np.errstate(divide="ignore"):
                self._warn_of_few_draws(users, np.log(weights[:1]))
            return ClustersOf(self._candidates, self._x[users], weights, rows)
        log_weights = self._log_weights(users, with_others=with_others)
        self._warn_of_few_draws(users, log_weights)
        weights = np.exp(log_weights)
        cumulative = np.cumsum(weights)
        levels = levels_of(rng, n, independent) * cumulative[-1]
        chosen = np.minimum(np.searchsorted(cumulative, levels, side="right"), len(cumulative) - 1)
        return ClustersOf(self._candidates, self._x[users], weights, rng.permutation(chosen)[None])

    def probabilities(self) -> Array:
        """Probability of each cluster of the estimate, (J, C), with a last column for a new cluster
        where one can be opened."""
        overlap = self._candidates.overlap
        result = np.empty((self._n, overlap.shape[1]))
        for users in self._batches():
            log_weights = self._log_weights(users)
            self._warn_of_few_draws(users, log_weights)
            result[users] = np.exp(log_weights) @ overlap
        if self._candidates.n_fresh == 0:
            result = result[:, :-1]
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def log_density(self) -> Array:
        """ln of the posterior predictive density of each user's features in working units, (J,).

        It is the mean over the draws, all alike in weight, of Σ_k c_k N(a*; μ_k, S_k⁻¹) + c_new
        times the base's density.
        """
        result = np.empty(self._n)
        for users in self._batches():
            result[users] = self._looks.of(users).log_sums
        return np.asarray(result - np.log(self._candidates.n_draws))

    def latent(self) -> NormalMixture | VectorMixture | WeightedDraws:
        """Predictive distribution of each user's latent vector."""
        self._candidates.link.require_cells(self._x)

        def parts(users: slice) -> VectorParts:
            known = self.given(users)
            self._warn_of_few_draws(users, known.log_weights.T)
            shape = (*known.log_weights.shape, known.means.shape[-1])
            return VectorParts(
                known.log_weights, np.broadcast_to(known.means, shape), known.covariances
            )

        n_dims = self._candidates.latent.means.shape[1]
        if isinstance(self._evidence, SampledEvidence):
            log_weights, means, _ = parts(slice(0, self._n))
            return WeightedDraws(means[..., 0] if n_dims == 1 else means, log_weights)
        mixture = VectorMixture(self._n, n_dims, self.n_rows, parts)
        return mixture.marginal(0) if n_dims == 1 else mixture

    def imputed(self, seed: int, members: tuple[int, ...]) -> "Imputed":
        """:meth:`impute` from a seed, kept for the next outcome that the same users have a part
        in."""

        def impute() -> Imputed:
            return self.impute(np.random.default_rng([seed, *members]), np.array(members))

        return self._imputed.get((seed, members), impute)

    def impute(self, rng: np.random.Generator, members: NDArray[np.intp]) -> "Imputed":
        """Clusters of some new users together, one after the other, in every draw.

        A user who follows another sees it in its cluster, a fresh cluster included: whoever opens
        one draws its parameters, for those who follow.
        """
        rows, arrivals = self._candidates, Arrivals(self._candidates)
        if rows.has_labels_by_table and len(members) > 1:
            raise InputError(
                "Outcomes of several new users together cannot be predicted where several tables "
                "of features may disagree with "
                "behavior: predict them for one new user at a time, or fit with agreement=None."
            )
        fresh_look, fresh_act = ~rows.known, ~rows.known
        latent_means, latent_covariances = rows.latent.means.copy(), rows.latent.covariances.copy()
        if rows.latent.is_shared:  # two who meet in a fresh cluster have the same vector there
            latent_means += times(rows.latent.roots, rng.standard_normal(latent_means.shape))
            latent_covariances[:] = 0.0
        log_density = np.zeros(rows.n_draws)
        means, covariances = (
            np.empty((len(members), rows.n_draws, *part.shape[1:]))
            for part in (latent_means, latent_covariances)
        )
        places = np.empty((len(members), rows.n_draws), dtype=np.int64)
        taken: list[tuple[NDArray[np.int64], Opened]] = []
        for position, j in enumerate(members):
            x = None if self._x is None else self._x[j : j + 1]
            likelihood = self._log_features(int(j)).copy()
            for opened_rows, opened in taken:
                assert x is not None
                likelihood[opened_rows] = rows.features.log_opened(x, opened_rows, opened)
            chosen, log_sums = _choose(rng, rows, arrivals.weight, likelihood)
            log_density += log_sums - np.log(arrivals.total)
            arrivals.seat(chosen, np.ones(rows.n_draws, dtype=np.bool_))
            acting = arrivals.act(rng, chosen)
            places[position] = acting
            values, shift = self._followed(rng, chosen, x, taken)
            shift = np.broadcast_to(shift, means.shape[1:])
            means[position], covariances[position] = (
                latent_means[acting] + shift,
                latent_covariances[acting],
            )
            new = fresh_look[chosen]
            if position + 1 < len(members) and new.any():
                drawn = [None if own is None else own[new] for own in values]
                features = rows.features.opened(rng, chosen[new], x, drawn)
                if features is not None:
                    taken.append((chosen[new], features))
            fresh_look[chosen] = False
            new = fresh_act[acting]
            if position + 1 < len(members) and new.any():
                latent = rows.latent.opened(rng, acting[new])
                if latent is not None:
                    means[position, new], covariances[position, new] = (
                        latent.first + shift[new],
                        0.0,
                    )
                    latent_means[acting[new]], latent_covariances[acting[new]] = (
                        latent.means,
                        latent.covariances,
                    )
            fresh_act[acting] = False
        return Imputed(log_density, means, covariances, places)

    def _followed(
        self,
        rng: np.random.Generator,
        chosen: NDArray[np.int64],
        x: Features | None,
        taken: Sequence[tuple[NDArray[np.int64], Opened]],
    ) -> tuple[list[Array | None], Array]:
        """What a link adds to one user's latent vector in its row of every draw, (N, q) or (1, 1).

        And, where it follows cells that are not exact, complete values of its blocks (N, columns),
        which are drawn for it.
        """
        rows = self._candidates
        if x is None or rows.link.complete(x).all():
            n_blocks = 0 if x is None else len(x.cells)
            return [None] * n_blocks, rows.link.by_draw(x)[:, 0]
        values = rows.features.draw(rng, chosen, x, taken)
        return values, rows.link.of_values(np.arange(rows.n_draws), values, x)


def levels_of(rng: np.random.Generator, n: int, independent: bool) -> Array:
    """n numbers between 0 and 1, at which quantiles are draws: spread evenly, or independent."""
    return rng.random(n) if independent else (rng.random() + np.arange(n)) / n


def _choose(
    rng: np.random.Generator, rows: Candidates, weight: Array, likelihood: Array
) -> tuple[NDArray[np.int64], Array]:
    """A row in every draw in proportion to weight × likelihood, (N,), and ln of the sum of these in
    the draw, (N,)."""
    top = np.maximum.reduceat(likelihood, rows.first)
    mass = weight * np.exp(likelihood - top[rows.draw])
    cumulative = np.cumsum(mass)
    by_draw = np.add.reduceat(mass, rows.first)
    start = cumulative[rows.first] - mass[rows.first]
    chosen = np.searchsorted(cumulative, start + rng.random(rows.n_draws) * by_draw, side="right")
    last = np.append(rows.first[1:], len(mass)) - 1
    return np.clip(chosen, rows.first, last), top + np.log(by_draw)


def updated(means: Array, covariances: Array, evidence: Evidence) -> tuple[Array, Array, Array]:
    """ln of the integral of N(f; m, C) times the evidence, and the distribution of f given both; C
    may be singular."""
    linear, precision = evidence.linear, evidence.precision
    surprise = linear - times(precision, means)
    matrix = np.eye(means.shape[-1]) + precision @ covariances
    posterior = np.swapaxes(
        solved(np.swapaxes(matrix, -1, -2), np.broadcast_to(covariances, matrix.shape)), -1, -2
    )
    step = times(posterior, surprise)
    log_marginal = evidence.constant + (means * (linear - 0.5 * times(precision, means))).sum(
        axis=-1
    )
    log_marginal += 0.5 * (surprise * step).sum(axis=-1) - 0.5 * log_determinants(matrix)
    return log_marginal, means + step, posterior


def _normalised(log_weights: Array) -> Array:
    """Summing to one over the rows, (R, J)."""
    return np.asarray(log_weights - logsumexp(log_weights, axis=0, keepdims=True))

"""Users left out one at a time: the density of everything known about a user, given all others, in
every draw.

Without user u a draw has the clusters of the others. u joins one of them, or opens a new one, with
the prior's weights; its latent vector is integrated out in each. A cluster in which u is alone in
the draw does not exist without it. Where users need not act as they look, u leaves one customer or
two, and its two labels are summed over.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.base import Behavior
from dualview.behaviors.records import Evidence, SampledEvidence, UserNoise
from dualview.errors import InputError
from dualview.numerics.linalg import inverse_factors, times
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.disagreement import Customers, Rows
from dualview.posterior.prediction.left_out import LatentPriors
from dualview.posterior.prediction.looks import features_in_batches
from dualview.posterior.prediction.new_users import updated
from dualview.posterior.prediction.user_features import Features, features_of

Array = NDArray[np.float64]

MOST_DRAWS = 1000  # of all chains
_NODES = {1: 31, 2: 15, 3: 7}  # along each dimension, where observations have no closed form
_N_POINTS = 512  # with more dimensions
_VECTORS = 20_000  # latent vectors whose observations are weighed at a time
_DIFFERENCE = 1e-3  # of numerical derivatives, in spreads of the latent vectors
_MOST_STEPS = 50  # of Newton's method


class UserDensities(NamedTuple):
    """ln p(features and observations of u | everybody else, draw) and ln p(features of u | ...),
    each (chain, draw, U)."""

    joint: Array
    features: Array


def user_densities(post: Posterior, behavior: Behavior | None) -> UserDensities:
    """The densities in up to ``MOST_DRAWS`` draws, evenly spread."""
    per_chain = (
        np.linspace(0, post.n_draws - 1, min(post.n_draws, max(1, MOST_DRAWS // post.n_chains)))
        .round()
        .astype(int)
    )
    chosen = (np.arange(post.n_chains)[:, None] * post.n_draws + per_chain).ravel()
    if "z_tables" in post:
        raise InputError(
            "Users cannot be left out one at a time where several tables of features may "
            "disagree with behavior. Score "
            "observations, or fit with agreement=None."
        )
    candidates = Candidates(post)
    rows = LeftOutRows(
        candidates, chosen, post.flat("noise_precision") if "noise_precision" in post else None
    )
    x = features_of(post)
    candidates.link.require_cells(x)
    evidence = None
    if behavior is not None:
        priors = LatentPriors(post)
        params = {name: post.flat(name)[chosen] for name in behavior.param_names}
        evidence = behavior.evidence_of_users(
            [priors[draw] for draw in chosen], post.flat("latent")[chosen], params
        )
    members, second = post.flat("z")[chosen], post.flat_acts[chosen]
    agrees = post.flat("agrees")[chosen] if "agrees" in post else np.ones(members.shape, dtype=bool)
    joint, features = np.empty((2, len(chosen), post.n_users))
    for user, log_features in rows.log_features(x, post.n_users):
        others = rows.without(members[:, user], second[:, user], agrees[:, user])
        log_weights = rows.log_weights(others) + log_features
        features[:, user] = rows.by_draw(log_weights)
        if evidence is not None:
            own = None if x is None else x[user : user + 1]
            log_weights = rows.log_acting(log_weights, others) + rows.log_observations(
                evidence(user), own
            )
        joint[:, user] = rows.by_draw(log_weights)
    shape = (post.n_chains, len(per_chain), post.n_users)
    constant = post.spec.units["features"].log_volume if "features" in post.spec.units else 0.0
    return UserDensities(joint.reshape(shape) - constant, features.reshape(shape) - constant)


class Others(NamedTuple):
    """What rows weigh without a user: weight (R,), fresh rows included; total (S,) of each draw;
    n_gone (S,) clusters gone; n_joined (S,) customers more, which is less than 0."""

    weight: Array
    total: Array
    n_gone: NDArray[np.int64]
    n_joined: NDArray[np.int64]


class LeftOutRows:
    """The candidates of some draws: every component of each draw and fresh ones. noise: of all
    draws, where users have one."""

    def __init__(
        self, candidates: Candidates, chosen: NDArray[np.intp], noise: Array | None
    ) -> None:
        self._all, self._noise, self._chosen = candidates, noise, chosen
        place = np.full(candidates.n_draws, -1)
        place[chosen] = np.arange(len(chosen))
        self._kept = place[candidates.draw] >= 0
        self._draw = place[candidates.draw[self._kept]]
        self._first = np.searchsorted(self._draw, np.arange(len(chosen)))

    def without(
        self, looks: NDArray[np.integer], acts: NDArray[np.integer], agrees: NDArray[np.bool_]
    ) -> Others:
        """The others of a user in components looks (S,) and, where it does not agree, also in acts
        (S,)."""
        known, own = self._all.known[self._kept], np.zeros(len(self._draw))
        own[self._first + looks] += 1.0
        np.add.at(own, self._first[~agrees] + acts[~agrees], 1.0)
        offset = self._all.offset[self._chosen][self._draw]
        n_left = self._all.weight[self._kept] - offset - own
        gone = known & (own > 0.0) & (n_left < 0.5)
        n_gone = np.bincount(self._draw[gone], minlength=len(self._chosen))
        n_left_customers = -1 - (~agrees).astype(np.int64)
        new = self._new_weight(-n_gone, n_left_customers) / max(self._all.n_fresh, 1)
        weight = np.where(known, n_left + offset, new[self._draw])
        if self._all.n_fresh:  # clusters that nobody is in do not exist
            weight[gone] = 0.0
        total = np.add.reduceat(weight, self._first)
        return Others(weight, total, n_gone, n_left_customers)

    def _new_weight(self, n_opened: NDArray[np.integer], n_joined: NDArray[np.integer]) -> Array:
        """What a new cluster weighs in the draws (S,) once this many clusters and customers more
        are there."""
        opened, joined = np.zeros((2, self._all.n_draws))
        opened[self._chosen], joined[self._chosen] = n_opened, n_joined
        return self._all.new_weight(opened, joined)[self._chosen]

    def log_weights(self, others: Others) -> Array:
        """ln of the prior weight of each row."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(others.weight / others.total[self._draw]))

    def log_acting(self, log_looks: Array, others: Others) -> Array:
        """ln of each row's weight by behavior, from that by features; the same where users act as
        they look."""
        if self._all.share is None:
            return log_looks
        offset, share = (part[self._chosen] for part in (self._all.offset, self._all.share))
        rows = Rows(self._draw, self._first, self._all.known[self._kept], offset, share)
        new = [self._new_weight(n - others.n_gone, 1 + others.n_joined) for n in (0, 1)]
        customers = Customers.of(rows, others.weight, new)
        return np.asarray(customers.acting(log_looks[None])[0])

    def log_features(self, x: Features | None, n_users: int) -> Iterator[tuple[int, Array]]:
        """Each of the users with ln p(its features | row), (R,), not in their order."""
        for users, found in features_in_batches(self._all, x, n_users):
            yield from zip(users.tolist(), found[:, self._kept], strict=True)

    def by_draw(self, log_weights: Array) -> Array:
        """ln of the sum over the rows of each draw."""
        top = np.maximum.reduceat(log_weights, self._first)
        return np.asarray(
            top + np.log(np.add.reduceat(np.exp(log_weights - top[self._draw]), self._first))
        )

    def log_observations(self, evidence: Evidence | SampledEvidence, x: Features | None) -> Array:
        """ln p(observations of a user | row), its latent vector integrated out."""
        latent = self._all.latent
        means, covariances = latent.means[self._kept], latent.covariances[self._kept]
        shifts = self._all.link.by_row(x)[:, 0]
        means = means + (shifts if len(shifts) == 1 else shifts[self._kept])
        if isinstance(evidence, SampledEvidence):
            return self._by_nodes(evidence, means)
        if isinstance(evidence.noise, UserNoise):
            return self._by_nodes(evidence.without_noise(evidence.noise), means)
        if evidence.noise is None:
            part = evidence.of_draws(self._draw, slice(0, 1))
        else:
            assert self._noise is not None
            whole = evidence.noise._replace(precision=self._noise)
            part = evidence.under(self._all.noise(whole)[self._kept], slice(0, 1), self._draw)
        return updated(means[:, None], covariances[:, None], part)[0][:, 0]

    def _by_nodes(self, evidence: SampledEvidence, means: Array) -> Array:
        """By nodes where the integrand is large: f = mean + root u, with u ~ N(0, I), has about the
        density N(v, M⁻¹) given the observations, if these are expanded to second order."""
        nodes, log_weights = _nodes(means.shape[1])
        roots = self._all.latent.roots[self._kept]
        slope, curvature = _expansion(evidence, self._draw[len(means) // 2], means, roots)
        factor = np.linalg.cholesky(
            np.eye(means.shape[1]) + np.swapaxes(roots, 1, 2) @ curvature @ roots
        )
        inverse = inverse_factors(np.ascontiguousarray(np.swapaxes(factor, 1, 2)))
        steps = np.swapaxes(inverse, 1, 2)
        pull = np.einsum("rji,rj->ri", roots, slope - means @ curvature)
        center = times(steps, times(inverse, pull))
        log_volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        values = np.empty((len(nodes), len(means)))
        size = max(1, _VECTORS // len(means))
        for first in range(0, len(nodes), size):
            own = nodes[first : first + size]
            u = center + np.einsum("rij,mj->mri", steps, own)
            vectors = means + np.einsum("rij,mrj->mri", roots, u)
            draws = np.tile(self._draw, len(own))
            found = evidence.log_likelihood(0, draws, vectors.reshape(len(draws), -1))
            away = (own**2).sum(axis=1)[:, None] - (u**2).sum(axis=2)
            values[first : first + size] = found.reshape(away.shape) + 0.5 * away - log_volume
        return np.asarray(logsumexp(values + log_weights[:, None], axis=0))


def _nodes(n_dims: int) -> tuple[Array, Array]:
    """Points (M, q) and log weights of a mean over a standard normal vector."""
    if n_dims in _NODES:
        points, weights = np.polynomial.hermite_e.hermegauss(_NODES[n_dims])
        grid = np.array(list(product(points, repeat=n_dims)))
        return grid, np.log(np.array(list(product(weights / weights.sum(), repeat=n_dims)))).sum(
            axis=1
        )
    half = np.random.default_rng(0).standard_normal((_N_POINTS // 2, n_dims))
    return np.concatenate([half, -half]), np.full(_N_POINTS, -np.log(_N_POINTS))


def _expansion(
    evidence: SampledEvidence, draw: int, means: Array, roots: Array
) -> tuple[Array, Array]:
    """b (q,) and H (q, q): about where they are most likely, the observations say bᵀ f − fᵀ H f / 2
    of a vector f, up to a constant.

    In one draw, with derivatives from differences: it only says where nodes are. Zeros where the
    observations have no such place, so that nodes are those of the prior.
    """
    q = means.shape[1]
    center = np.median(means, axis=0)
    spread = np.median(np.abs(means - center), axis=0)
    scale = np.sqrt(np.median((roots**2).sum(axis=2), axis=0) + spread**2)
    scale[scale == 0.0] = 1.0
    steps = _DIFFERENCE * np.array(list(product((-1.0, 0.0, 1.0), repeat=2)))
    pairs = [(i, j) for i in range(q) for j in range(i + 1)]
    stencil = np.zeros((len(pairs), len(steps), q))
    for own, (i, j) in zip(stencil, pairs, strict=True):
        own[:, i] += steps[:, 0]
        own[:, j] += steps[:, 1]
    points = np.vstack([np.zeros((1, q)), stencil.reshape(-1, q)])

    def says(x: Array) -> Array:
        return evidence.log_likelihood(0, np.full(len(x), draw), center + x * scale)

    def derivatives(x: Array) -> tuple[Array, Array]:
        found = says(x + points)[1:].reshape(len(pairs), 3, 3)
        slope, curvature = np.empty(q), np.empty((q, q))
        for own, (i, j) in zip(found, pairs, strict=True):
            if i == j:
                slope[i] = (own[2, 1] - own[0, 1]) / (2.0 * _DIFFERENCE)
                curvature[i, i] = -(own[2, 1] - 2.0 * own[1, 1] + own[0, 1]) / _DIFFERENCE**2
            else:
                mixed = own[2, 2] - own[2, 0] - own[0, 2] + own[0, 0]
                curvature[i, j] = curvature[j, i] = -mixed / (4.0 * _DIFFERENCE**2)
        if not np.isfinite(curvature).all():
            return slope, curvature
        values, vectors = np.linalg.eigh(curvature)
        return slope, (vectors * np.maximum(values, 0.0)) @ vectors.T

    x = ahead = np.zeros(q)
    with np.errstate(invalid="ignore", over="ignore"):
        for _ in range(_MOST_STEPS):
            x = ahead
            slope, curvature = derivatives(x)
            if not (np.isfinite(slope).all() and np.isfinite(curvature).all()):
                return np.zeros(q), np.zeros((q, q))
            move = np.linalg.solve(curvature + np.eye(q), slope - x)
            if np.abs(move).max() < 0.01:
                break
            tried = x + move * 0.5 ** np.arange(10)[:, None]
            heights = says(np.vstack([x, tried])) - 0.5 * (np.vstack([x, tried]) ** 2).sum(axis=1)
            ahead = np.vstack([x, tried])[np.nanargmax(heights)]
            if (ahead == x).all():
                break
    linear, curvature = slope / scale, curvature / np.outer(scale, scale)
    return linear + curvature @ (center + x * scale), curvature

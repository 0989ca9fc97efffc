"""What a prior of the spread costs where users do not differ, and what it gains where they do:
``python -m benchmarks.spread_prior [--worlds 40] [--users 60] [--threads 200]``.

Threads with a Poisson number of participants, the first of whom is sure, have outcomes with an
intercept, a part f_u ~ N(0, sd²) of each participant and noise of variance 1. The model is the
mixture with one cluster: intercept and mean of f flat, noise as by default, and a prior of the
spread τ², the variance of f. Given τ² and the noise everything is normal, so the posterior is a sum
over a grid of these two, without any sampler. The mixture itself gives the same costs to .001 in a
test, in seconds for each world where the grid takes a tenth of one.

Printed are the mean negative log density of 1,000 test threads less that of the model without users
(``mean``: intercept and number of participants alone), and how many of the f and of the test
outcomes are in their central 80 % intervals.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.special import logsumexp, ndtr

Array = NDArray[np.float64]
LogPrior = Callable[[Array], Array]  # of ln τ², where Σ = 1

N_TEST = 1000
RATIOS = np.linspace(-14.0, 6.0, 101)  # ln τ² less ln of the noise's variance
NOISES = np.linspace(-2.5, 2.5, 81)  # ln of its variance
_N_DRAWS = 400_000  # of the prior
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_LEAST = 1e-5  # weight of a point of the grid
_PENALTY = 0.01  # of the ridge regression whose estimates' variance is Σ


class World(NamedTuple):
    """Threads to learn from and to predict, and the f of all users."""

    participation: Array
    outcome: Array
    later: Array
    to_come: Array
    f: Array

    @classmethod
    def draw(
        cls, rng: np.random.Generator, sizes: tuple[int, int], mean: float, sd: float
    ) -> "World":
        n_users, n_threads = sizes
        f = sd * rng.standard_normal(n_users)

        def threads(n: int) -> tuple[Array, Array]:
            who = np.zeros((n, n_users))
            for row, size in zip(who, rng.poisson(mean - 1.0, n) + 1, strict=True):
                row[rng.choice(n_users, min(size, n_users), replace=False)] = 1.0
            return who, 10.0 + who @ f + rng.standard_normal(n)

        return cls(*threads(n_threads), *threads(N_TEST), f)


class Fit(NamedTuple):
    """Of every point of the grid: log likelihood (R, S), means of test outcomes (n, R) and their
    variances over that of the noise; of the f, (R, U) both. without: the same without users."""

    log_likelihood: Array
    means: Array
    variances: Array
    f_means: Array
    f_variances: Array
    without: tuple[Array, Array, Array]
    scale: float  # Σ


def fit(world: World) -> Fit:
    """All that does not depend on the prior of τ²."""
    who, y = world.participation, world.outcome
    n = len(y)
    fixed, later = (np.column_stack([np.ones(len(p)), p.sum(axis=1)]) for p in (who, world.later))
    basis = np.linalg.qr(fixed)[0]
    left, rest = who - basis @ (basis.T @ who), y - basis @ (basis.T @ y)
    u, s, vt = np.linalg.svd(left, full_matrices=False)
    u, s, vt = (part for part in (u[:, s > 1e-8 * s[0]], s[s > 1e-8 * s[0]], vt[s > 1e-8 * s[0]]))
    along, df = u.T @ rest, n - 2
    r = np.exp(RATIOS)[:, None]
    shrunk = r * s / (1.0 + r * s**2)
    height = -0.5 * np.log1p(r * s**2).sum(axis=1)
    squares = rest @ rest - (shrunk * s * along**2).sum(axis=1)
    noise = np.exp(NOISES)
    restricted = height - 0.5 * df * np.log(squares)
    constant = squares[restricted.argmax()] / df  # σ_0² of the noise's prior
    prior = -0.5 * NOISES - 0.5 * constant / noise
    log_likelihood = height[:, None] - 0.5 * squares[:, None] / noise + (prior - 0.5 * df * NOISES)
    inverse = np.linalg.pinv(fixed)
    away = world.later - later @ (inverse @ who)
    seen = away @ vt.T
    spent = (later @ (inverse @ inverse.T) * later).sum(axis=1)
    unseen = (away**2).sum(axis=1) - (seen**2).sum(axis=1)
    base = later @ (inverse @ y)
    variances = 1.0 + spent + r * unseen + (r / (1.0 + r * s**2)) @ (seen**2).T
    without = prior - 0.5 * df * NOISES - 0.5 * (rest @ rest) / noise, base, 1.0 + spent
    centered = who - who.mean(axis=0)
    gram = centered.T @ centered + _PENALTY * np.eye(who.shape[1])
    ridge = np.linalg.solve(gram, centered.T @ (y - y.mean()))
    return Fit(
        log_likelihood,
        base[:, None] + seen @ (shrunk * along).T,
        variances.T,
        (shrunk * along) @ vt,
        r * (1.0 - (shrunk * s) @ vt**2),
        without,
        float(ridge.var(ddof=1)),
    )


def spread_prior(shape: float) -> LogPrior:
    """ln of the density of ln τ² by (M3), (M6′) and (M7) with q = 1, ω = shape and Σ = 1: by draws,
    and below them by its power at 0, ω/2."""
    rng = np.random.default_rng(0)
    beta = 1.0 / rng.gamma(0.5, 2.0, _N_DRAWS)
    spread = rng.gamma(0.5 * shape, 2.0 / shape, _N_DRAWS)
    found = -np.log(rng.gamma(0.5 * beta, 2.0 / (beta * spread)) + 1e-300)
    heights, ends = np.histogram(found, bins=240, range=(-18.0, 10.0), density=True)
    places, smooth = 0.5 * (ends[1:] + ends[:-1]), gaussian_filter1d(heights, 2)
    seen = smooth > 1e-3
    places, logs = places[seen], np.log(smooth[seen])
    return lambda x: np.interp(x, places, logs) + 0.5 * shape * np.minimum(x - places[0], 0.0)


class Score(NamedTuple):
    """Of one world."""

    cost: float
    f_inside: float
    outcomes_inside: float
    sd: float


def score(world: World, made: Fit, log_prior: Array) -> Score:
    """log_prior (R, S): of the points of the grid."""
    log_weights = made.log_likelihood + log_prior
    weights = np.exp(log_weights - logsumexp(log_weights))
    i, j = np.nonzero(weights > _LEAST)
    w, noise = weights[i, j] / weights[i, j].sum(), np.exp(NOISES[j])
    standard = (world.to_come[:, None] - made.means[:, i]) / np.sqrt(made.variances[:, i] * noise)
    density = np.exp(-0.5 * standard**2) / np.sqrt(made.variances[:, i] * noise)
    f_standard = (world.f - made.f_means[i]) / np.sqrt(made.f_variances[i] * noise[:, None])
    levels = w @ ndtr(f_standard), ndtr(standard) @ w
    inside = [float((np.abs(level - 0.5) < 0.4).mean()) for level in levels]
    sd = float(w @ np.sqrt(np.exp(RATIOS[i]) * noise))
    return Score(_HALF_LOG_2PI - float(np.log(density @ w).mean()), *inside, sd)


def cost_without(world: World, made: Fit) -> float:
    """The mean negative log density without users, as ``score`` has it."""
    log_weights, means, variances = made.without
    w = np.exp(log_weights - logsumexp(log_weights))
    sds = np.sqrt(variances[:, None] * np.exp(NOISES))
    standard = (world.to_come - means)[:, None] / sds
    return _HALF_LOG_2PI - float(np.log((np.exp(-0.5 * standard**2) / sds) @ w).mean())


SHAPES = {"flat (ω = 2)": 2.0, "ω = 3/2": 1.5, "paper (ω = 1)": 1.0, "ω = 1/2": 0.5}
_GRID = RATIOS[:, None] + NOISES  # ln τ²


def or_none(log_prior: Array) -> Array:
    """Half of a prior's mass, and half on users who do not differ, for whom the grid's least τ²
    stands."""
    found = log_prior - np.log(2.0)
    found[0] = np.logaddexp(found[0], -np.log(2.0 * (RATIOS[1] - RATIOS[0])))
    return found


def rows(sizes: tuple[int, int], mean: float, sd: float, n_worlds: int) -> list[str]:
    """A line of the table for each prior."""
    priors = {name: spread_prior(shape) for name, shape in SHAPES.items()}
    either = "flat, or no differences"
    found: dict[str, list[Score]] = {name: [] for name in [*priors, either]}
    for number in range(n_worlds):
        world = World.draw(np.random.default_rng([41, number]), sizes, mean, sd)
        made = fit(world)
        reference = cost_without(world, made)
        logs = {name: prior(_GRID - np.log(made.scale)) for name, prior in priors.items()}
        logs[either] = or_none(logs["flat (ω = 2)"])
        for name, log_prior in logs.items():
            own = score(world, made, log_prior)
            found[name].append(own._replace(cost=own.cost - reference))
    lines = []
    for name, scores in found.items():
        costs, f, outcomes, sds = np.array(scores).T
        error = costs.std(ddof=1) / np.sqrt(n_worlds)
        covered = f"{100 * f.mean():.0f}" if sd else ""
        lines.append(
            f"| {sd:g} | {name} | {costs.mean():+.4f} ± {error:.4f} | {covered} | "
            f"{100 * outcomes.mean():.0f} | {sds.mean():.2f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Priors of the spread with and without signal.")
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--users", type=int, default=60)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--participants", type=float, default=4.0)
    parser.add_argument("--sds", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.5])
    given = parser.parse_args()
    print(
        "| sd of users | prior | against no users | f in 80 % | outcomes in 80 % | sd found |\n"
        "|---:|---|---:|---:|---:|---:|"
    )
    for sd in given.sds:
        sizes = given.users, given.threads
        print("\n".join(rows(sizes, given.participants, sd, given.worlds)), flush=True)


if __name__ == "__main__":
    main()

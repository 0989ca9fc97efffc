"""Does it help to know more of somebody's choices? ``python -m benchmarks.choices`` prints the
table of docs/behavior-evidence.md.

Rankings of ten items by 300 users, made up: an item has an appeal that is common to all, and two
features; users have two features and belong to one of three clusters, which differ in both and in
how they value the items' features, around which users vary. Of half of the users ten choices
between two items are known, of the others 0, 1, 3 or 10; what these would have chosen in the pairs
that are never known is predicted. Utilities have Gumbel noise, so each pair follows the logit that
models have.
"""

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

import dualview as dv

Array = NDArray[np.float64]

N_USERS, N_ITEMS, N_KNOWN = 300, 10, 10
COUNTS = (0, 1, 3, 10)
SETTINGS: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=300),
    "n_draws": 300,
    "n_chains": 2,
    "n_jobs": 1,
}


class Rankings(NamedTuple):
    """The truth and what was chosen: users' features, the items', appeals, vectors, and pairs (U,
    P, 2), the winner first."""

    users: Array
    items: Array
    appeal: Array
    latent: Array
    pairs: NDArray[np.int64]


class Choices(NamedTuple):
    """Some choices: whose they are, and what was chosen over what."""

    user: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]


def made_up(seed: int) -> Rankings:
    """Rankings as the module says."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 3, N_USERS)
    users = 2.0 * np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])[cluster] + rng.normal(
        size=(N_USERS, 2)
    )
    items, appeal = rng.normal(size=(N_ITEMS, 2)), rng.normal(size=N_ITEMS)
    latent = 0.7 * np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])[cluster] + 0.4 * rng.normal(
        size=(N_USERS, 2)
    )
    utility = appeal + latent @ items.T + rng.gumbel(size=(N_USERS, N_ITEMS))
    first, second = np.triu_indices(N_ITEMS, 1)
    pairs = np.empty((N_USERS, len(first), 2), dtype=np.int64)
    for user in range(N_USERS):
        order = rng.permutation(len(first))
        one, other = first[order], second[order]
        wins = utility[user, one] > utility[user, other]
        pairs[user] = np.column_stack([np.where(wins, one, other), np.where(wins, other, one)])
    return Rankings(users, items, appeal, latent, pairs)


def chosen(pairs: NDArray[np.int64], users: NDArray[np.int64], places: slice) -> Choices:
    """The choices of some users at some places of their lists."""
    own = pairs[users, places]
    return Choices(np.repeat(users, own.shape[1]), own[..., 0].ravel(), own[..., 1].ravel())


def joined(one: Choices, other: Choices) -> Choices:
    return Choices(*(np.concatenate(parts) for parts in zip(one, other, strict=True)))


def items_alone(known: Choices, asked: Choices) -> Array:
    """Log probabilities by the items' appeals alone, at the mode under N(0, 1)."""

    def objective(appeal: Array) -> tuple[float, Array]:
        odds = appeal[known.winner] - appeal[known.loser]
        pull = expit(-odds)
        gradient = np.bincount(known.winner, pull, N_ITEMS) - np.bincount(
            known.loser, pull, N_ITEMS
        )
        return float(0.5 * appeal @ appeal - log_expit(odds).sum()), appeal - gradient

    found = minimize(objective, np.zeros(N_ITEMS), jac=True).x
    return np.asarray(log_expit(found[asked.winner] - found[asked.loser]))


def mixture(
    data: Rankings, known: Choices, asked: Choices, prior: Any, item_intercept: bool | str
) -> Array:
    """Log probabilities by the mixture."""
    options: dict[str, Any] = {
        "items": data.items,
        "item_intercept": item_intercept,
        "n_users": N_USERS,
    }
    model = dv.DualViewMixture(behavior_prior=prior, **SETTINGS).fit(
        data.users, dv.PairwiseChoices(*known, **options)
    )
    return model.predict_outcome(dv.PairwiseChoices(*asked, **options)).log_density(
        np.ones(len(asked.user))
    )


def log_losses(seed: int, n_known: int) -> dict[str, Array]:
    """Of every method, the log loss of each pair that is asked."""
    data, half = made_up(seed), N_USERS // 2
    others, ours = np.arange(half), np.arange(half, N_USERS)
    known = joined(
        chosen(data.pairs, others, slice(0, N_KNOWN)), chosen(data.pairs, ours, slice(0, n_known))
    )
    asked = chosen(data.pairs, ours, slice(N_KNOWN, None))
    standard = dv.GaussianPrior(np.zeros(2), np.diag(data.items.var(axis=0, ddof=1) ** -1.0))
    utility = data.appeal + data.latent @ data.items.T
    truth = log_expit(utility[asked.user, asked.winner] - utility[asked.user, asked.loser])
    found = {
        "items alone": items_alone(known, asked),
        "mixture, no appeals, Σ = I": mixture(data, known, asked, standard, False),
        "mixture, appeals, Σ = I": mixture(data, known, asked, standard, "learned"),
        "mixture, appeals, Σ from the data": mixture(data, known, asked, "likelihood", "learned"),
        "the truth": truth,
    }
    return {name: -values for name, values in found.items()}


def table(n_sets: int, first: int = 0) -> str:
    """Log losses by known choices, and how far each is from that of items alone, over users'
    means."""
    rows: dict[str, list[str]] = {}
    for n_known in COUNTS:
        sets = [log_losses(seed, n_known) for seed in range(first, first + n_sets)]
        losses = {
            name: np.concatenate([own[name].reshape(N_USERS // 2, -1).mean(axis=1) for own in sets])
            for name in sets[0]
        }
        alone = losses["items alone"]
        for name, values in losses.items():
            away = values - alone
            error = away.std(ddof=1) / np.sqrt(len(away))
            more = "" if name == "items alone" else f" ({away.mean():+.3f} ± {error:.3f})"
            rows.setdefault(name, []).append(f"{values.mean():.3f}{more}")
    head = ["method", *(f"{count} known" for count in COUNTS)]
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2, help="sets that are made up")
    parser.add_argument("--first", type=int, default=0, help="seed of the first set")
    given = parser.parse_args()
    warnings.simplefilter("ignore", dv.errors.ConvergenceWarning)
    print(table(given.sets, given.first))

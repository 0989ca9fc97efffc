"""Would exact sampling over shards pay? ``python -m benchmarks.split_noise [users threads]``:
autocorrelation times by algebra.

Users are dealt to S shards, and each thread's outcome is split into unseen parts, one for each
shard with a participant: y_t = Σ_s y_ts, y_ts ~ N(P_ts f_s, σ²/S_t). Given the parts the shards are
independent; given everything else the parts are normal with a known sum. The chain that alternates
between both has the right posterior. Given clusters and variances it is linear in f:

    E[f' | f] = f − Λ_S⁻¹ Λ (f − m),  Λ = D + PᵀP/σ²,  Λ_S = D + Σ_ts S_t P_tsᵀP_ts/σ²

so that the autocorrelation time of a number w·f is exactly 2 wᵀΛ⁻¹Λ_SΛ⁻¹w / wᵀΛ⁻¹w − 1: how many
sweeps count for one independent draw. Sampling f as a whole has 1. The forum has six participants a
thread and skewed activity; "local" is the share of a thread's participants who are of the community
it begins in, of which each shard has one.
"""

import sys

import numpy as np
from scipy import linalg

PRECISION = 10.0  # of coefficients inside clusters; the noise has 1
N_PARTICIPANTS = 6


def forum(
    n_users: int, n_threads: int, n_shards: int, local: float
) -> tuple[np.ndarray, np.ndarray]:
    """Participation (T, U), and the shard of each user."""
    rng = np.random.default_rng(0)
    shard = np.arange(n_users) % n_shards
    activity = 1.0 / (10.0 + rng.permutation(n_users))
    participation = np.zeros((n_threads, n_users))
    for row in participation:
        at_home = activity * (shard == rng.integers(n_shards))
        weights = (1.0 - local) * activity / activity.sum() + local * at_home / at_home.sum()
        row[rng.choice(n_users, N_PARTICIPANTS, replace=False, p=weights)] = 1.0
    return participation, shard


def times(participation: np.ndarray, shard: np.ndarray) -> tuple[float, float, float]:
    """Autocorrelation times: of the median user, of the slowest one in a hundred, and of the mean
    over all users."""
    n_users = participation.shape[1]
    members = np.eye(shard.max() + 1)[shard]
    n_parts = ((participation @ members) > 0).sum(axis=1)
    prior = PRECISION * np.eye(n_users)
    whole = prior + participation.T @ participation
    apart = prior + (participation.T @ (n_parts[:, None] * participation)) * (members @ members.T)
    covariance = linalg.inv(whole)
    through = covariance @ apart @ covariance
    of_users = 2.0 * np.diag(through) / np.diag(covariance) - 1.0
    return (
        float(np.median(of_users)),
        float(np.quantile(of_users, 0.99)),
        float(2.0 * through.sum() / covariance.sum() - 1.0),
    )


def main(n_users: int = 1000, n_threads: int = 10_000) -> None:
    print(
        "| shards | local | sweeps per draw: median user | slowest 1 % of users | mean of all "
        "users |\n|---|---|---|---|---|"
    )
    for n_shards in (1, 2, 4, 8, 16):
        for local in (0.0, 0.9, 1.0) if n_shards > 1 else (0.0,):
            found = times(*forum(n_users, n_threads, n_shards, local))
            print(
                f"| {n_shards} | {local:.0%} | {' | '.join(f'{value:.1f}' for value in found)} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(word.replace("_", "")) for word in sys.argv[1:]))

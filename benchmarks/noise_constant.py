"""What the constant of the noise's prior does with few threads per user: ``python -m
benchmarks.noise_constant [worlds]``.

Draws six worlds, or as many as are asked for, of 40 users in three clusters and 60 threads of about
three of them, with a noise variance of 4. Prints for the paper's constant, the variance of the
outcomes, and for the default: the constant, the posterior median of the noise variance with its 90
% interval, and the mean negative log density of 300 test threads.
"""

import argparse
import warnings

import numpy as np

import dualview as dv

N_USERS, N_THREADS, N_TEST, RATE = 40, 60, 300, 0.08
NOISE_VARIANCE = 4.0


def draw_world(seed: int) -> tuple[np.ndarray, dv.SharedOutcome, dv.SharedOutcome]:
    """Features, training threads and test threads."""
    rng = np.random.default_rng([18, seed])
    labels = np.arange(N_USERS) % 3
    features = (
        rng.standard_normal((N_USERS, 2))
        + 5.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[labels]
    )
    latent = np.array([-10.0, 0.0, 10.0])[labels] + 2.0 * rng.standard_normal(N_USERS)
    parts = []
    for n in (N_THREADS, N_TEST):
        participation = (rng.random((n, N_USERS)) < RATE).astype(float)
        noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n)
        parts.append(dv.SharedOutcome(participation, participation @ latent + noise))
    return features, parts[0], parts[1]


def row(seed: int, noise_variance: str | None) -> str:
    features, training, test = draw_world(seed)
    behavior = dv.SharedOutcome(
        training.participation, training.outcome, noise_variance=noise_variance
    )
    model = dv.DualViewMixture(
        engine=dv.Gibbs(n_warmup=200), n_draws=400, n_chains=2, n_jobs=1, random_state=seed
    ).fit(features, behavior)
    low, median, high = np.quantile(
        1.0 / model.posterior_.flat("noise_precision"), [0.05, 0.5, 0.95]
    )
    cost = -float(np.mean(model.predict_outcome(test).log_density(test.observed)))
    cells = [str(seed), noise_variance or "default", f"{behavior.noise_constant:.1f}"]
    return (
        "| " + " | ".join([*cells, f"{median:.1f} ({low:.1f} to {high:.1f})", f"{cost:.3f}"]) + " |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Noise under two constants of its prior; the true variance is 4."
    )
    parser.add_argument("worlds", type=int, nargs="?", default=6)
    warnings.simplefilter("ignore")
    print(
        "| world | constant | its value | noise variance | cost of outcomes "
        "|\n|---:|---|---:|---|---|"
    )
    for seed in range(parser.parse_args().worlds):
        for noise_variance in ("paper", None):
            print(row(seed, noise_variance), flush=True)


if __name__ == "__main__":
    main()

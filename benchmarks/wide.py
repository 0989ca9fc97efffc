"""Many features and few users: ``python -m benchmarks.wide [--seeds 3] [--draws 200]`` prints a
table in Markdown.

60 users in three clusters of 20. In each feature the clusters' means are −1.5, 0 and 1.5 standard
deviations, in random order. Adjusted Rand index of the partition estimate and its number of
clusters, with the units of the features by their covariance, by a covariance shrunk toward its
diagonal, and by their variances alone.
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

import dualview as dv

N_USERS, MEANS = 60, (-1.5, 0.0, 1.5)
DIMENSIONS = (5, 10, 20, 30)
PRIORS = (None, "shrunk", "diagonal")


def wide(seed: int, n_dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (U, D) and true clusters (U,)."""
    rng = np.random.default_rng([seed, n_dims])
    labels = np.arange(N_USERS) % len(MEANS)
    means = np.column_stack([rng.permutation(MEANS) for _ in range(n_dims)])
    return means[labels] + rng.standard_normal((N_USERS, n_dims)), labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="data sets of each size")
    parser.add_argument(
        "--draws",
        type=int,
        default=200,
        help="draws of the chain of a fit, after as many to warm up",
    )
    parser.add_argument(
        "--dimensions", type=int, nargs="+", default=DIMENSIONS, help="numbers of features"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # there are warnings of just this, and of short chains
    print(
        "| features | "
        f"{' | '.join(f'{prior}: ARI, clusters' for prior in ('default', *PRIORS[1:]))} |"
    )
    print(f"|---:|{'---:|' * len(PRIORS)}")
    for n_dims in arguments.dimensions:
        cells = []
        for prior in PRIORS:
            rand, found = [], []
            for seed in range(arguments.seeds):
                features, labels = wide(seed, n_dims)
                model = dv.DualViewMixture(
                    feature_prior=prior,
                    engine=dv.Gibbs(n_warmup=arguments.draws),
                    n_draws=arguments.draws,
                    n_chains=1,
                    random_state=seed,
                ).fit(features)
                rand.append(adjusted_rand_score(labels, model.labels_))
                found.append(model.n_clusters_)
            cells.append(f"{np.mean(rand):.2f}, {np.median(found):g}")
        print(f"| {n_dims} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""Compiles what many tests share, into the cache on disk: else test workers would compile it side by side.

``python tests/warm_up.py features|table``; each is quick once it has run.
"""

import sys
import warnings

import numpy as np

import dualview as dv


def main(what: str) -> None:
    warnings.simplefilter("ignore")
    forum = dv.datasets.agreement(16, 30, n_clusters=2, seed=0)
    X, behavior = forum.features.copy(), dv.SharedOutcome(forum.participation, forum.outcome)
    if what == "table":
        X[0, 0] = np.nan
    model = dv.DualViewMixture(n_warmup=5, n_draws=10, n_chains=1, n_jobs=1, random_state=0).fit(X, behavior)
    model.predict_latent(forum.features[:2])
    _ = model.labels_


if __name__ == "__main__":
    main(*sys.argv[1:])

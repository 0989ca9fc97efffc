"""Compiles what many tests share, into the cache on disk: else test workers would compile it side
by side.

``python tests/warm_up.py [features] [table] [pooled] [agreement]``, one after the other; each is
quick once it has run.
"""

import sys
import warnings
from typing import Any

import numpy as np

import dualview as dv

_OPTIONS: dict[str, dict[str, Any]] = {
    "features": {},
    "table": {},
    "pooled": {"pooling": "cluster"},
    "agreement": {"agreement": "learned"},
}


def main(*what: str) -> None:
    warnings.simplefilter("ignore")
    forum = dv.datasets.agreement(16, 30, n_clusters=2, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    for name in what:
        X = forum.features.copy()
        if name == "table":
            X[0, 0] = np.nan
        settings = {"n_warmup": 5, "n_draws": 10, "n_chains": 1, "n_jobs": 1, "random_state": 0}
        model = dv.DualViewMixture(**settings, **_OPTIONS[name]).fit(X, behavior)
        model.predict_latent(forum.features[:2])
        _ = model.labels_


if __name__ == "__main__":
    main(*sys.argv[1:])

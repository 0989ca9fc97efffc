"""Short fits that cover the sampler: what a change of its structure must leave as it is, bit for
bit.

    python tests/golden/cases.py record draws.json     before a change
    python tests/golden/cases.py compare draws.json    after it, on the same machine

The first writes a digest of every array that each fit draws, the second names the fits and arrays
that differ. Other machines round differently, so such a file is not kept. ``numbers.json`` beside
this file has the last draw of the smaller fits in short, which ``test_golden.py`` compares up to
rounding; where draws change on purpose,

    python tests/golden/cases.py numbers tests/golden/numbers.json

writes it anew.
"""

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import dualview as dv

Arrays = dict[str, np.ndarray]
SHORT: dict[str, Any] = {"n_warmup": 4, "n_draws": 6, "n_chains": 2, "spread_prior": "paper"}
FORUM = dv.datasets.agreement(20, 30, seed=3)
N_MANY = 6100  # more than fit in one block


def shared(**options: Any) -> dv.SharedOutcome:
    return dv.SharedOutcome(
        FORUM.participation, FORUM.outcome, **({"noise_variance": "paper"} | options)
    )


def sparse_threads() -> dv.SharedOutcome:
    rng = np.random.default_rng(5)
    cells = np.where(rng.random((60, 20)) < 0.15, 1.0, 0.0)
    covariates = rng.standard_normal((60, 2))
    options = {"covariates": covariates, "intercept": True, "noise_variance": "paper"}
    return dv.SharedOutcome(sparse.csr_array(cells), rng.normal(10.0, 3.0, 60), **options)


def regression(n_users: int = 20, **options: Any) -> dv.UserRegression:
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(n_users), 5)
    design = rng.standard_normal((len(user), 3))
    return dv.UserRegression(
        user, design, design @ [1.0, -2.0, 0.5] + rng.standard_normal(len(user)), **options
    )


def binary() -> dv.BinaryOutcomes:
    rng = np.random.default_rng(7)
    user = np.repeat(np.arange(20), 6)
    return dv.BinaryOutcomes(
        user, rng.standard_normal((len(user), 2)), rng.integers(0, 2, len(user))
    )


def choices() -> dv.PairwiseChoices:
    rng = np.random.default_rng(8)
    user = np.repeat(np.arange(20), 6)
    items = rng.standard_normal((5, 2))
    pairs = np.array([rng.choice(5, 2, replace=False) for _ in user])
    return dv.PairwiseChoices(user, pairs[:, 0], pairs[:, 1], items)


def many_threads() -> dv.SharedOutcome:
    rng = np.random.default_rng(9)
    rows, columns = np.repeat(np.arange(8000), 4), rng.integers(0, N_MANY, 32000)
    cells = sparse.csr_array((np.ones(32000), (rows, columns)), shape=(8000, N_MANY))
    return dv.SharedOutcome(cells, rng.normal(4.0, 2.0, 8000), noise_variance="paper")


def many_features() -> np.ndarray:
    rng = np.random.default_rng(10)
    return rng.standard_normal((N_MANY, 2)) + 4.0 * rng.integers(0, 3, (N_MANY, 1))


def drawn(posterior: dv.Posterior) -> Arrays:
    """Everything a fit has drawn, by name."""
    arrays = {name: np.asarray(posterior[name]) for name in posterior}
    return arrays | {
        f"components.{name}": np.asarray(values) for name, values in posterior.components.items()
    }


def fitted(features: Any, behavior: Any, **options: Any) -> Arrays:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return drawn(dv.DualViewMixture(**(SHORT | options)).fit(features, behavior).posterior_)


def resumed() -> Arrays:
    """A run that stops after two draws and continues from its files."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"checkpoint": folder, "checkpoint_interval": 1e-9}
        fitted(FORUM.features, shared(), n_draws=2, **options)
        return fitted(FORUM.features, shared(), **options)


X = FORUM.features
QUARTER = dv.Gamma(0.25, 0.25)  # the default of α when these numbers were drawn
CASES: dict[str, Callable[[], Arrays]] = {
    "dual-DP": lambda: fitted(X, shared()),
    "noise by likelihood": lambda: fitted(X, shared(noise_variance=None)),
    "dual-fixed": lambda: fitted(X, shared(), n_clusters=4, alpha=QUARTER),
    "single": lambda: fitted(None, shared(), n_clusters=1),
    "IGMM": lambda: fitted(X, None),
    "GMM": lambda: fitted(X, None, n_clusters=4, alpha=QUARTER),
    "latent-IGMM": lambda: fitted(None, shared()),
    "latent-GMM": lambda: fitted(None, shared(), n_clusters=4, alpha=QUARTER),
    "sparse, intercept, covariates": lambda: fitted(X, sparse_threads()),
    "regression": lambda: fitted(X, regression()),
    "regression, noise by cluster": lambda: fitted(X, regression(noise="cluster")),
    "binary": lambda: fitted(X, binary()),
    "choices": lambda: fitted(X, choices()),
    "link": lambda: fitted(X, shared(), link="linear"),
    "link, regression": lambda: fitted(X, regression(), link="linear"),
    "pooled threads": lambda: fitted(X, shared(), pooling="cluster"),
    "pooled regression": lambda: fitted(
        X, regression(), pooling="cluster", n_clusters=4, alpha=QUARTER
    ),
    "summary": lambda: fitted(X, shared(), keep="summary", n_whole=2),
    "resumed": resumed,
    "flat prior of spread": lambda: fitted(X, regression(), spread_prior="flat"),
    "blocks": lambda: fitted(many_features(), many_threads(), n_chains=1),
    "blocks, users on threads": lambda: fitted(many_features(), regression(N_MANY), n_chains=1),
    "blocks, features alone": lambda: fitted(many_features(), None, n_chains=1),
}


def digests(name: str) -> dict[str, str]:
    """A digest of every array of one fit."""
    arrays = CASES[name]()
    return {
        key: hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        for key, value in arrays.items()
    }


SMALL = [name for name in CASES if not name.startswith("blocks")]


def numbers(name: str) -> dict[str, float]:
    """The sum of the last draw of each array of one fit."""
    return {
        key: float(np.sum(values[-1, -1]))
        for key, values in CASES[name]().items()
        if not key.startswith("components.") and values.dtype.kind == "f"
    }


def main(command: str, path: str) -> int:
    if command == "numbers":
        Path(path).write_text(
            json.dumps({name: numbers(name) for name in SMALL}, indent=1) + "\n", encoding="utf-8"
        )
        return 0
    found = {name: digests(name) for name in CASES}
    if command == "record":
        Path(path).write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(f"{len(found)} fits recorded in {path}")
        return 0
    before = json.loads(Path(path).read_text(encoding="utf-8"))
    changed = {
        name: [key for key in arrays if before[name].get(key) != arrays[key]]
        for name, arrays in found.items()
    }
    for name, keys in changed.items():
        print(f"{name}: {'the same' if not keys else 'differs in ' + ', '.join(keys)}")
    return 1 if any(changed.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

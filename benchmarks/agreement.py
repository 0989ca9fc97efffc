"""What is it worth to let views disagree? ``python -m benchmarks.agreement [worlds] [--only
NAME]``.

Forums of 50 users with 60 training and 200 test threads, in 8 worlds or as many as are asked for.
The paper's three scenarios; the first of them with a share of users who act like a cluster drawn at
random; and one whose eight features have four clusters of their own that have nothing to do with
behavior. On the same worlds: the dual model, the dual model with agreement learned, and the single
model, which sees no features and puts all users into one cluster. Worlds are the independent units
of standard errors.
"""

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from benchmarks.coverage import threads, with_error

Array = NDArray[np.float64]

N_USERS, N_TRAINING, N_TEST = 50, 60, 200
SHARES = (0.1, 0.25, 0.5)
N_NOISE, N_NOISE_CLUSTERS = 8, 4
MODELS: dict[str, dict[str, Any]] = {
    "dual": {},
    "agreement learned": {"agreement": "learned"},
    "single": {"n_clusters": 1},
}
NAMES = (
    "agreement",
    "disagreement",
    "iris",
    *(f"{share:.0%} act at random" for share in SHARES),
    "unrelated features",
)


class World(NamedTuple):
    """features (U, D); looks (U,) and acts (U,), the true clusters; training and test threads."""

    features: Array
    looks: NDArray[np.intp]
    acts: NDArray[np.intp]
    training: dv.SharedOutcome
    test: dv.SharedOutcome


class Found(NamedTuple):
    """Of one fit: mean negative log density of test outcomes, clusters by behavior, time, and what
    is said of agreement."""

    cost: float
    acts: float
    seconds: float
    share: float
    caught: float
    blamed: float


def draw_world(name: str, seed: int) -> World:
    rng = np.random.default_rng([seed, 7])
    scenario = name if name in ("agreement", "disagreement", "iris") else "agreement"
    forum = getattr(dv.datasets, scenario)(N_USERS, 1, seed=seed)
    features, latent, looks = forum.features, forum.latent, forum.labels
    acts = looks.copy()
    if name.endswith("at random"):
        share = float(name.split("%")[0]) / 100.0
        chosen = rng.random(N_USERS) < share
        acts[chosen] = rng.integers(0, 5, int(chosen.sum()))
        latent = 25.0 * acts + 5.0 * rng.standard_normal(N_USERS)
    elif name == "unrelated features":
        looks = rng.permutation(np.arange(N_USERS) % N_NOISE_CLUSTERS)
        features = 3.0 * rng.standard_normal((N_NOISE_CLUSTERS, N_NOISE))[
            looks
        ] + rng.standard_normal((N_USERS, N_NOISE))
    return World(
        features, looks, acts, threads(rng, N_TRAINING, latent), threads(rng, N_TEST, latent)
    )


def found(world: World, seed: int, options: dict[str, Any]) -> Found:
    start = time.process_time()
    model = dv.DualViewMixture(
        engine=dv.Gibbs(n_warmup=500, thin=2),
        n_draws=500,
        n_chains=2,
        n_jobs=1,
        random_state=seed,
        **options,
    )
    model.fit(None if options.get("n_clusters") == 1 else world.features, world.training)
    seconds, post = time.process_time() - start, model.posterior_
    cost = -float(
        np.mean(model.predict_outcome(world.test).log_density(np.asarray(world.test.outcome)))
    )
    acts = adjusted_rand_score(world.acts, model.behavior_labels_)
    if "agreement" not in post:
        return Found(cost, acts, seconds, np.nan, np.nan, np.nan)
    apart, truly = (
        (post.flat("z") != post.flat("z_behavior")).mean(axis=0) > 0.5,
        world.looks != world.acts,
    )
    caught = float(apart[truly].mean()) if truly.any() else np.nan
    return Found(
        cost,
        acts,
        seconds,
        float(np.median(post.flat("agreement"))),
        caught,
        float(apart[~truly].mean()),
    )


def report(name: str, results: dict[str, list[Found]]) -> list[str]:
    """A line of the table for each model."""
    lines = []
    dual = np.array([one.cost for one in results["dual"]])
    for model, fits in results.items():
        table = np.array(fits)
        costs, acts, seconds, share, caught, blamed = table.T
        cells = [
            name,
            model,
            with_error(costs, 3),
            "" if model == "dual" else with_error(costs - dual, 3),
            f"{acts.mean():.2f}",
        ]
        agreement = ["", "", ""]
        if model == "agreement learned":
            known = caught[~np.isnan(caught)]
            agreement = [
                f"{share.mean():.2f}",
                f"{known.mean():.2f}" if len(known) else "",
                f"{blamed.mean():.2f}",
            ]
        lines.append("| " + " | ".join([*cells, *agreement, f"{seconds.mean():.1f}"]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", type=int, nargs="?", default=8)
    parser.add_argument("--only", choices=NAMES)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [asked.only] if asked.only else NAMES
    print(
        "| Forum | Model | NLL of test outcomes | less that of dual | ARI of acts | ρ | Found "
        "among those who act otherwise | "
        "Named among the others | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        worlds = [draw_world(name, seed) for seed in range(asked.worlds)]
        results = {
            model: [found(world, seed, options) for seed, world in enumerate(worlds)]
            for model, options in MODELS.items()
        }
        print("\n".join(report(name, results)), flush=True)


if __name__ == "__main__":
    main()

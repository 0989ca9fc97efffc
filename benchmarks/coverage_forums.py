"""Coverage on real forums: ``python -m benchmarks.coverage_forums --forum NAME POSTS OPTION=VALUE …
[--seconds 120]``.

Each forum as ``dualview forum`` reads it, its main model with default settings and a limit in
seconds, once for each prior of the spread inside clusters: shares of the test threads' outcomes
inside central 50, 80 and 95 % intervals, and the mean negative log density. Coefficients of users
are not known here, so only intervals of outcomes can be judged. They are also wrong where test
threads differ from training threads, or where the noise is not normal, whatever the prior; hence
the single model beside, which has all users in one cluster.
"""

import argparse
import warnings
from typing import Any

import numpy as np

import dualview as dv
from benchmarks.coverage import LEVELS
from benchmarks.link import forum_of
from dualview.forum import ForumData

MODELS: dict[str, dict[str, Any]] = {
    "flat (default)": {},
    "paper": {"spread_prior": "paper"},
    "flat, one cluster": {"n_clusters": 1},
}


def line(name: str, data: ForumData, model: str, seconds: float) -> str:
    """A row of the table."""
    settings = MODELS[model]
    features = None if settings.get("n_clusters") == 1 else data.features
    fitted = dv.DualViewMixture(random_state=0, max_time=seconds, **settings).fit(
        features, data.behavior
    )
    predicted = fitted.predict_outcome(data.test.behavior)
    levels = predicted.cdf(data.test.outcome)
    inside = ", ".join(
        f"{100 * np.mean(np.abs(levels - 0.5) < 0.5 * level):.1f}" for level in LEVELS
    )
    r_hat = float(fitted.posterior_.diagnostics()["r_hat"].max())
    return (
        f"| {name} | {model} | {len(levels):,} | {inside} | "
        f"{predicted.nll(data.test.outcome):.4f} | {r_hat:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage_forums", description=__doc__
    )
    parser.add_argument(
        "--forum", nargs="+", action="append", required=True, metavar="NAME POSTS OPTION=VALUE"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of each fit")
    asked = parser.parse_args()
    print(
        "| forum | prior of spread | test threads | outcomes, % | cost of outcomes | largest "
        "R-hat |\n|---|---|---|---|---|---|"
    )
    for name, path, options in map(forum_of, asked.forum):
        data = dv.read_forum(path, **options)
        for model in MODELS:
            print(line(name, data, model, asked.seconds), flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

"""Time to a passed verdict on real forums: ``python -m benchmarks.finished_forums --forum NAME
POSTS OPTION=VALUE …``.

Each forum as ``dualview forum`` reads it, with the options given, and its main model with default
settings, until the verdict passes or a limit in seconds is reached; as many chains at a time as
there are cores. What is compiled is compiled before. Besides the verdict: the least effective size
and the largest R-hat of what it looks at, and whose that is.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np

import dualview as dv
from benchmarks.link import forum_of

HEAD = (
    "| Forum | Users | Threads | Features | Verdict | Seconds | Iterations a chain | Largest "
    "R-hat | of | Least effective size "
    "| of | Clusters |"
)


def line(name: str, path: Any, options: dict[str, Any], limit: float) -> str:
    """A row of the table."""
    data = dv.read_forum(path, **options)
    dv.DualViewMixture(engine=dv.Gibbs(n_warmup=2), n_draws=2, n_chains=1).fit(
        data.features, data.behavior
    )  # compiles
    began = time.monotonic()
    post = (
        dv.DualViewMixture(random_state=0, max_time=limit)
        .fit(data.features, data.behavior)
        .posterior_
    )
    seconds = time.monotonic() - began
    table = post.diagnostics()
    sizes = table[["ess_bulk", "ess_tail"]].min(axis=1)
    assert post.length is not None
    cells = [
        name,
        f"{len(data.features):,}",
        f"{len(data.training.outcome):,}",
        f"{data.features.shape[1]}",
        "passed" if post.converged else "not passed",
        f"{seconds:.0f}",
        f"{post.length.n_iterations:,}",
        f"{table['r_hat'].max():.3f}",
        str(table["r_hat"].idxmax()),
        f"{sizes.min():.0f}",
        str(sizes.idxmin()),
        f"{np.mean(post['n_clusters']):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.finished_forums", description=__doc__
    )
    parser.add_argument(
        "--forum", nargs="+", action="append", required=True, metavar="NAME POSTS OPTION=VALUE"
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of each fit")
    asked = parser.parse_args()
    print(f"{HEAD}\n|{'---|' * 12}")
    for name, path, options in map(forum_of, asked.forum):
        print(line(name, path, options, asked.seconds), flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

"""Real forums, each read as ``dualview forum`` reads it:

    python -m benchmarks.forums STUDY --forum NAME POSTS [OPTION=VALUE ...] [--forum ...]

Options of a forum are those of ``dualview.read_forum``. The studies:

- finished: time to a passed verdict. The main model with default settings, until the verdict passes
  or a limit in seconds is reached (--seconds); as many chains at a time as there are cores. What is
  compiled is compiled before. Besides the verdict: the least effective size and the largest R-hat
  of what it looks at, and whose that is.
- coverage: the main model with default settings and a limit in seconds, once for each prior of the
  spread inside clusters: shares of the test threads' outcomes inside central 50, 80 and 95 %
  intervals, and the mean negative log density. Coefficients of users are not known here, so only
  intervals of outcomes can be judged. They are also wrong where test threads differ from training
  threads, or where the noise is not normal, whatever the prior; hence the single model beside,
  which has all users in one cluster.
- agreement: about a hundred of the most active users (--users), the same random training subsets
  for all models (--threads, --subsets), as in ``benchmarks.link``. On each: the dual model, the
  dual model with agreement learned, and the single model, which sees no features and puts all users
  into one cluster. Subsets of a forum share its test threads, so the standard errors are over
  subsets only.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualview as dv
from benchmarks import agreement
from benchmarks.coverage import LEVELS, with_error
from dualview.forum import ForumData
from dualview.forum.data import ForumThreads

Options = dict[str, Any]
SPREAD: dict[str, Options] = {
    "flat (default)": {},
    "paper": {"spread_prior": "paper"},
    "flat, one cluster": {"n_clusters": 1},
}


def add_forums(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The option --forum, for which :func:`forum_of` reads what follows it."""
    parser.add_argument(
        "--forum", nargs="+", action="append", required=required, metavar="NAME POSTS OPTION=VALUE"
    )


def add_subsets(parser: argparse.ArgumentParser, threads: list[int], subsets: int) -> None:
    """Options of random training subsets, with these defaults."""
    parser.add_argument(
        "--threads", nargs="+", type=int, default=threads, help="numbers of training threads"
    )
    parser.add_argument(
        "--subsets", type=int, default=subsets, help="random training subsets of each size"
    )
    parser.add_argument("--users", type=int, default=100, help="about this many, the most active")


def forum_of(words: list[str]) -> tuple[str, Path, Options]:
    """NAME POSTS OPTION=VALUE …: options as in ``dualview forum``, lists with commas."""
    name, path, *pairs = words
    options: Options = {}
    for key, value in (pair.split("=", 1) for pair in pairs):
        if key in ("covariates", "deleted_names", "bot_names"):
            options[key] = tuple(part for part in value.split(",") if part not in ("", "none"))
        elif key in ("relative_time", "normalize", "skip_bad_rows"):
            options[key] = value == "yes"
        else:
            options[key] = int(value) if value.isdigit() else value
    return name, Path(path), options


def read(path: Path, options: Options, n_users: int) -> ForumData:
    """The forum with about this many users: those who were early in the most training threads."""
    first = dv.forum.read_forum(path, **options)
    counts = np.sort(np.asarray((first.training.participation > 0).sum(axis=0)).ravel())[::-1]
    if len(counts) <= n_users:
        return first
    return dv.forum.read_forum(path, **{**options, "min_threads": int(counts[n_users - 1])})


def subset(threads: ForumThreads, rows: NDArray[np.intp]) -> ForumThreads:
    """Some of the threads."""
    return replace(
        threads,
        ids=[threads.ids[i] for i in rows],
        start=threads.start[rows],
        length=threads.length[rows],
        participation=threads.participation[rows],
        outcome=threads.outcome[rows],
        covariates=threads.covariates.iloc[rows].reset_index(drop=True),
    )


def finished_row(name: str, data: ForumData, limit: float) -> str:
    """A row of the table of times to a verdict."""
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


def coverage_row(name: str, data: ForumData, model: str, seconds: float) -> str:
    """A row of the table of coverage."""
    settings = SPREAD[model]
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


class Found(NamedTuple):
    """Of one fit: mean negative log density of test threads, ρ, share of users who act otherwise,
    clusters, largest R-hat."""

    nll: float
    share: float
    apart: float
    n_clusters: float
    r_hat: float


def found(data: ForumData, rows: NDArray[np.intp], seed: int, options: Options) -> Found:
    train = subset(data.training, rows)
    model = dv.DualViewMixture(
        engine=dv.Gibbs(n_warmup=500, thin=4), n_draws=500, n_chains=4, random_state=seed, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(
            None if options.get("n_clusters") == 1 else data.numbers.to_numpy(), train.behavior
        )
    post = model.posterior_
    nll = float(model.predict_outcome(data.test.behavior).nll(data.test.outcome))
    share = float(np.median(post.flat("agreement"))) if "agreement" in post else np.nan
    apart = float((post.flat("z") != post.flat_acts).mean())
    return Found(
        nll,
        share,
        apart,
        float(post["n_clusters"].mean()),
        float(post.diagnostics()["r_hat"].max()),
    )


def agreement_rows(name: str, n_threads: int, results: dict[str, list[Found]]) -> list[str]:
    """A line of the table for each model."""
    lines, dual = [], np.array([one.nll for one in results["dual"]])
    for model, fits in results.items():
        nll, share, apart, n_clusters, r_hat = np.array(fits).T
        cells = [
            name,
            str(n_threads),
            model,
            with_error(nll, 3),
            "" if model == "dual" else with_error(nll - dual, 3),
        ]
        cells += (
            [f"{share.mean():.2f}", f"{apart.mean():.2f}"]
            if model == "agreement learned"
            else ["", ""]
        )
        lines.append(
            "| " + " | ".join([*cells, f"{n_clusters.mean():.1f}", f"{r_hat.max():.2f}"]) + " |"
        )
    return lines


def finished(asked: argparse.Namespace) -> Iterator[str]:
    yield (
        "| Forum | Users | Threads | Features | Verdict | Seconds | Iterations a chain | Largest "
        "R-hat | of | Least effective size | of | Clusters |"
    )
    for name, path, options in map(forum_of, asked.forum):
        yield finished_row(name, dv.forum.read_forum(path, **options), asked.seconds or 600.0)


def coverage(asked: argparse.Namespace) -> Iterator[str]:
    yield (
        "| forum | prior of spread | test threads | outcomes, % | cost of outcomes | "
        "largest R-hat |"
    )
    for name, path, options in map(forum_of, asked.forum):
        data = dv.forum.read_forum(path, **options)
        for model in SPREAD:
            yield coverage_row(name, data, model, asked.seconds or 120.0)


def agreement_of_subsets(asked: argparse.Namespace) -> Iterator[str]:
    yield (
        "| Forum | Threads | Model | NLL of test threads | less that of dual | ρ | Users apart | "
        "Clusters | Largest R-hat |"
    )
    for name, path, options in map(forum_of, asked.forum):
        data = read(path, options, asked.users)
        n_all = len(data.training.outcome)
        for n in (min(n_threads, n_all) for n_threads in asked.threads):
            chosen = [
                np.sort(np.random.default_rng([n, s]).choice(n_all, n, replace=False))
                for s in range(asked.subsets)
            ]
            results = {
                model: [found(data, rows, seed, settings) for seed, rows in enumerate(chosen)]
                for model, settings in agreement.MODELS.items()
            }
            yield from agreement_rows(name, n, results)


STUDIES = {"finished": finished, "coverage": coverage, "agreement": agreement_of_subsets}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forums",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", choices=STUDIES)
    add_forums(parser)
    parser.add_argument(
        "--seconds", type=float, help="limit of each fit: 600 (finished) or 120 (coverage)"
    )
    add_subsets(parser, threads=[200, 1000], subsets=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = STUDIES[asked.study](asked)
    head = next(rows)
    print(f"{head}\n|{'---|' * (head.count('|') - 1)}")
    for row in rows:
        print(row, flush=True)


if __name__ == "__main__":
    main()

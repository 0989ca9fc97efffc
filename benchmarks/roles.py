"""Which prior of α, and which partition estimate, find the roles? ``python -m benchmarks.roles
RECORDS [--worlds 20] [--threads 10 30 50 100]``.

The paper's scenarios with 50 users, by number of training threads, with the number of clusters
inferred and fixed to the true one, under several priors of α: adjusted Rand index of every
partition estimate, clusters found, and negative log density of test threads. Two more cases have
features alone: 60 users in twelve clusters of five, and 50 users without any structure, where one
cluster is right (with a fixed number: five may be used, one is right).

Each fit is a line of RECORDS, a file that is continued where it exists; the tables are made of all
of its lines. Errors are standard errors over worlds, differences are within worlds, from the
default.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from benchmarks import mixing
from dualview.posterior.partition import DEFAULT, METHODS

N_USERS = 50
N_FIXED = {"agreement": 5, "disagreement": 5, "iris": 3, "twelve clusters": 12, "no clusters": 5}
CASE = ["scenario", "threads", "clusters"]
WORLD = ["data", "world"]

Prior = Callable[[int], Any]  # of α, given the number of clusters where it is fixed
INFERRED: dict[str, Prior] = {
    "Gamma(1/4, 1/4)": lambda _: dv.Gamma(0.25, 0.25),
    "paper": lambda _: "paper",
    "Gamma(1, 1)": lambda _: dv.Gamma(1, 1),
}
FIXED = INFERRED | {"α/K ~ Gamma(1, 1)": lambda k: dv.Gamma(1, 1 / k)}
PRIORS = {"inferred": INFERRED, "fixed": FIXED}
DEFAULTS = {"inferred": "Gamma(1/4, 1/4)", "fixed": "paper"}


class World(NamedTuple):
    """Users with features, threads or None, and the truth."""

    features: Any
    labels: Any
    forum: Any


class Case(NamedTuple):
    """What is fitted: no threads are 0; clusters are "inferred" or "fixed"."""

    scenario: str
    threads: int
    clusters: str
    prior: str
    world: int


def world(scenario: str, n_threads: int, seed: int) -> World:
    """The data of a case."""
    rng = np.random.default_rng(seed)
    if scenario == "no clusters":
        n_dims = 2 + seed % 5
        x = np.random.default_rng([seed, n_dims]).standard_normal((N_USERS, n_dims))
        return World(x, np.zeros(N_USERS, dtype=int), None)
    if scenario == "twelve clusters":
        labels = np.repeat(np.arange(12), 5)
        centers = 4.0 * rng.standard_normal((12, 2))
        return World(centers[labels] + 0.5 * rng.standard_normal((60, 2)), labels, None)
    forum = getattr(dv.datasets, scenario)(N_USERS, n_threads, seed=seed)
    return World(forum.features, forum.labels, forum)


def fit(case: Case, data: World, n_draws: int) -> dv.DualViewMixture:
    """Two chains, half of whose length again is warm-up."""
    k = N_FIXED[case.scenario]
    model = dv.DualViewMixture(
        n_clusters=k if case.clusters == "fixed" else None,
        alpha=PRIORS[case.clusters][case.prior](k),
        engine=dv.Gibbs(n_warmup=n_draws // 2),
        n_draws=n_draws,
        n_chains=2,
        n_jobs=1,
        random_state=case.world,
    )
    if data.forum is None:
        return model.fit(data.features)
    behavior = dv.SharedOutcome(data.forum.participation, data.forum.outcome)
    return model.fit(data.features, behavior)


def found(case: Case, n_draws: int) -> dict[str, Any]:
    """What a fit finds."""
    data = world(case.scenario, case.threads, case.world)
    model = fit(case, data, n_draws)
    estimates = {method: model.posterior_.partition(method) for method in METHODS}
    record = case._asdict() | {
        name: value
        for method, labels in estimates.items()
        for name, value in (
            (f"{method} index", float(adjusted_rand_score(data.labels, labels))),
            (f"{method} clusters", int(labels.max()) + 1),
        )
    }
    if data.forum is not None:
        test = data.forum.test
        record["nll"] = float(model.predict_outcome(test.participation).nll(test.outcome))
    return record


def cases(n_worlds: int, threads: list[int]) -> Iterator[Case]:
    """World by world, so that a run that is stopped has all cases of the first worlds."""
    settings = [(scenario, n) for scenario in mixing.SCENARIOS for n in threads]
    settings += [("twelve clusters", 0), ("no clusters", 0)]
    for number in range(n_worlds):
        for scenario, n in settings:
            for clusters, priors in PRIORS.items():
                for prior in priors:
                    yield Case(scenario, n, clusters, prior, number)


def with_error(values: pd.Series, signed: bool = False) -> str:
    if values.isna().all():
        return ""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{'+' if signed else ''}.3f} ± {error:.3f}"


def of_priors(records: pd.DataFrame) -> Iterator[str]:
    """Priors of α, by the default estimate."""
    index, n_found = f"{DEFAULT} index", f"{DEFAULT} clusters"
    yield (
        "| scenario | threads | clusters | prior of α | adjusted Rand index | less the default's "
        "| clusters found | NLL, less the default's |"
    )
    yield "|---|---:|---|---|---:|---:|---:|---:|"
    for (scenario, threads, clusters), group in records.groupby(CASE, sort=False):
        own = group[group["prior"] == DEFAULTS[clusters]].set_index(WORLD)
        for prior, rows in group.groupby("prior", sort=False):
            rows = rows.set_index(WORLD)
            is_default = prior == DEFAULTS[clusters]
            index_change, nll_change = (
                "" if is_default else with_error(rows[name] - own[name], True)
                for name in (index, "nll")
            )
            yield (
                f"| {scenario} | {threads or '–'} | {clusters} | {prior}"
                f"{' (default)' if is_default else ''} | {with_error(rows[index])} | "
                f"{index_change} | {rows[n_found].mean():.1f} | {nll_change} |"
            )


def of_estimates(records: pd.DataFrame) -> Iterator[str]:
    """Partition estimates under the default priors: the default's index, and differences to it."""
    names = [f"{method}{' (default)' if method == DEFAULT else ''}" for method in METHODS]
    yield f"| threads | clusters | {' | '.join(names)} |"
    yield "|---:|---|" + "---:|" * len(METHODS)
    is_default = records["prior"] == records["clusters"].map(DEFAULTS)
    for (threads, clusters), rows in records[is_default].groupby(CASE[1:], sort=False):
        own = rows[f"{DEFAULT} index"]
        cells = [
            with_error(
                own if method == DEFAULT else rows[f"{method} index"] - own, method != DEFAULT
            )
            for method in METHODS
        ]
        yield f"| {threads} | {clusters} | {' | '.join(cells)} |"


def tables(records: pd.DataFrame) -> Iterator[str]:
    """In Markdown: priors over all scenarios, estimates, and priors by scenario."""
    records = records.assign(data=records["scenario"])
    with_threads = records["threads"] > 0
    everything = records.assign(scenario=records["scenario"].where(~with_threads, "all"))
    yield from of_priors(everything)
    yield ""
    yield from of_estimates(everything[with_threads])
    yield ""
    yield from of_priors(records[with_threads])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path)
    parser.add_argument("--worlds", type=int, default=20, help="of each scenario")
    parser.add_argument("--threads", type=int, nargs="+", default=[10, 30, 50, 100])
    parser.add_argument("--draws", type=int, default=600, help="of each of two chains")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # chains of a fixed length may be too short, and say so
    lines = arguments.records.read_text().splitlines() if arguments.records.exists() else []
    known = {Case(*(json.loads(line)[name] for name in Case._fields)) for line in lines}
    for case in cases(arguments.worlds, arguments.threads):
        if case not in known:
            with arguments.records.open("a") as file:
                print(json.dumps(found(case, arguments.draws), ensure_ascii=False), file=file)
            print(*case, file=sys.stderr)
    lines = arguments.records.read_text().splitlines()
    print("\n".join(tables(pd.DataFrame([json.loads(line) for line in lines]))))


if __name__ == "__main__":
    main()

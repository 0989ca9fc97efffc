"""What queries of a table cost: ``python -m benchmarks.queries [USERS [DRAWS]]``.

The table has two numbers, two counts, ratings and two categories, with missing cells, and its users
are of 25 groups. The fit has four chains. CPU milliseconds a row after the first call, which
compiles; dependence and surprising cells are of the whole table. Lace, where it is installed, does
the same with counts and ratings as categories.
"""

import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dualview as dv
from benchmarks import new_users

COLUMNS = ["number0", "number1", "posts0", "posts1", "rating0", "town0", "town1"]
NUMBERS = ["number0", "number1"]
N_CHAINS, N_ROWS, N_MADE, N_STATES = 4, 100, 1000, 8


class Query(NamedTuple):
    """What is asked, of how many rows, and how; both by None where Lace does not have it."""

    name: str
    n_rows: int
    own: Callable[[], Any]
    lace: Callable[[], Any] | None


def tables(n_users: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The users of the fit, and others who are asked about."""
    rng = np.random.default_rng(1)
    users, _ = new_users.table(rng, n_users + N_ROWS)
    return users[COLUMNS][:n_users], users[COLUMNS][n_users:].reset_index(drop=True)


def fitted(users: pd.DataFrame, n_draws: int) -> dv.DualViewMixture:
    """A fit of fixed length: what is measured is the cost of queries, not their quality."""
    kinds = {name: kind for name, kind in new_users.KINDS.items() if name in users}
    engine = dv.Gibbs(n_warmup=200)
    model = dv.DualViewMixture(columns=kinds, engine=engine, n_draws=n_draws, n_chains=N_CHAINS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(users)


def seconds(ask: Callable[[], Any]) -> float:
    """CPU seconds of the second time."""
    ask()
    began = time.process_time()
    ask()
    return time.process_time() - began


def queries(model: dv.DualViewMixture, rows: pd.DataFrame, other: Any) -> list[Query]:
    """All that is asked; other: Lace's engine, or None."""
    n_users = len(model.labels_)
    towns, others = {"town0": rows["town0"]}, rows.drop(columns="number0")
    given = rows[["number1", "town0", "town1"]]
    return [
        Query("`sample(1000)`", N_MADE, lambda: model.sample(N_MADE), _simulated(other)),
        Query(
            "`log_density` of numbers and categories",
            N_ROWS,
            lambda: model.log_density(rows[[*NUMBERS, "town0", "town1"]]),
            _logp(other, rows[[*NUMBERS, "town0", "town1"]]),
        ),
        Query(
            "`log_density` of whole rows",
            N_ROWS,
            lambda: model.log_density(rows),
            _logp(other, rows),
        ),
        Query(
            "`predict_cells`, a number given numbers and categories",
            N_ROWS,
            lambda: model.predict_cells("number0", given).median,
            _predicted(other, "number0", given),
        ),
        Query(
            "`predict_cells`, a number given the rest of the row",
            N_ROWS,
            lambda: model.predict_cells("number0", others).median,
            _predicted(other, "number0", others),
        ),
        Query(
            "`predict_cells`, a category given the rest of the row",
            N_ROWS,
            lambda: model.predict_cells("town0", rows.drop(columns=list(towns))).probabilities,
            _predicted(other, "town0", rows.drop(columns=list(towns))),
        ),
        Query("`dependence`", n_users, model.dependence, _informed(other)),
        Query("`surprising_cells`", n_users, model.surprising_cells, _surprised(other)),
    ]


def lace_engine(users: pd.DataFrame) -> Any:
    """Lace's states of the table; None where it is not installed."""
    if find_spec("lace") is None:
        return None
    import lace  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import polars as pl

    table = {"ID": [f"u{row}" for row in range(len(users))]} | _values(users)
    engine = lace.Engine.from_df(pl.DataFrame(table), n_states=N_STATES, rng_seed=0)
    engine.update(200, quiet=True)
    return engine


def _values(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns as Lace takes them: numbers, and all else as text."""
    return {
        name: [None if pd.isna(x) else float(x) if name in NUMBERS else str(x) for x in column]
        for name, column in table.items()
    }


def _simulated(engine: Any) -> Callable[[], Any] | None:
    return None if engine is None else lambda: engine.simulate(COLUMNS, n=N_MADE)


def _logp(engine: Any, rows: pd.DataFrame) -> Callable[[], Any] | None:
    if engine is None:
        return None
    import polars as pl

    return lambda: [engine.logp(pl.DataFrame(_values(one))) for one in _each(rows)]


def _predicted(engine: Any, name: str, given: pd.DataFrame) -> Callable[[], Any] | None:
    if engine is None:
        return None
    known = [
        {key: own[0] for key, own in _values(one).items() if own[0] is not None}
        for one in _each(given)
    ]
    return lambda: [engine.predict(name, given=one) for one in known]


def _each(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Rows one by one, with the columns that they have."""
    return [rows.iloc[[row]].dropna(axis=1) for row in range(len(rows))]


def _informed(engine: Any) -> Callable[[], Any] | None:
    pairs = [(one, two) for place, one in enumerate(COLUMNS) for two in COLUMNS[place + 1 :]]
    return None if engine is None else lambda: engine.pairwise_fn("mi", pairs)


def _surprised(engine: Any) -> Callable[[], Any] | None:
    return None if engine is None else lambda: [engine.surprisal(name) for name in COLUMNS]


def main(n_users: int = 300, n_draws: int = 1000) -> None:
    users, rows = tables(n_users)
    engine, model = lace_engine(users), fitted(users, n_draws)
    print("| query | rows | CPU ms a row | Lace, ms a row |\n|---|---:|---:|---:|")
    for query in queries(model, rows, engine):
        own = 1e3 * seconds(query.own) / query.n_rows
        theirs = "" if query.lace is None else f"{1e3 * seconds(query.lace) / query.n_rows:.2f}"
        print(f"| {query.name} | {query.n_rows} | {own:.2f} | {theirs} |", flush=True)
    if engine is None:
        print("\nLace is left out: it is not installed where this ran (`pip install pylace`).")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]))

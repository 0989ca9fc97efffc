"""Lace's predictions of hidden cells: https://lace.dev, ``pip install pylace``."""

from typing import Any

import numpy as np

from benchmarks.cells.marginals import with_marginals
from benchmarks.cells.problem import Predictions, Problem, equal_weights
from benchmarks.cells.scores import LEVELS

N_STATES, N_WARMUP, N_SNAPSHOTS, BETWEEN = 8, 400, 50, 10


def predictions(problem: Problem) -> Predictions:
    """Lace with its own priors: a cell's distribution is that of its row's component, averaged over
    states and snapshots.

    The marginals get ``PLAIN_SHARE``, because Lace knows the levels only that it has seen.
    """
    columns = problem.table.codebook.columns
    names = {column.name: f"c{place}" for place, column in enumerate(columns)}
    engine = _engine(problem, names)
    engine.update(N_WARMUP, quiet=True)
    drawn: dict[str, list[Any]] = {name: [] for name in names}
    for _ in range(N_SNAPSHOTS):
        engine.update(BETWEEN, quiet=True)
        for state in range(N_STATES):
            views, rows = engine.column_assignment(state), engine.row_assignments(state)
            for column in columns:
                name = names[column.name]
                own = np.asarray(rows[views[engine.columns.index(name)]])[problem.rows(column)]
                params = engine.feature_params(name, [state])[state]
                is_level = column.kind in LEVELS
                kept = [part.weights if is_level else (part.mu, part.sigma) for part in params]
                drawn[column.name].append(np.array(kept)[own])
    return with_marginals(problem, _averaged(problem, drawn))


def _engine(problem: Problem, names: dict[str, str]) -> Any:
    """Chains of the table, columns by new names, in which numbers are continuous and levels
    categorical."""
    import lace  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import polars as pl

    table: dict[str, Any] = {"ID": [f"u{row}" for row in range(len(problem.frame))]}
    for place, column in enumerate(problem.numbers):
        table[names[column.name]] = pl.Series(
            problem.standard_numbers[:, place], dtype=pl.Float64
        ).fill_nan(None)
    for place, column in enumerate(problem.levels):
        texts = [
            None if np.isnan(code) else f"l{int(code):02d}"
            for code in problem.known_levels[:, place]
        ]
        table[names[column.name]] = pl.Series(texts, dtype=pl.String)
    return lace.Engine.from_df(pl.DataFrame(table), n_states=N_STATES, rng_seed=problem.seed)


def _averaged(problem: Problem, drawn: dict[str, list[Any]]) -> Predictions:
    """Mixtures of what was drawn: means and standard deviations, or shares of the levels seen."""
    found: Predictions = {}
    for place, column in enumerate(problem.numbers):
        normals = np.array(drawn[column.name])
        found[column.name] = problem.normals(
            place, normals[..., 0].T, normals[..., 1].T, equal_weights(len(normals))
        )
    for place, column in enumerate(problem.levels):
        shares = np.mean(drawn[column.name], axis=0)
        codes = np.unique(problem.known_levels[:, place])
        whole = np.zeros((len(shares), len(column.levels)))
        whole[:, codes[~np.isnan(codes)].astype(int)] = shares
        found[column.name] = whole
    return found

"""Predictions of hidden cells: by dualview, Lace, StepMix, scikit-learn's IterativeImputer, and each column's own distribution.

All see the same table, with counts on the scale that the codebook chose. Only dualview is told of rounding and order; the
others get numbers as they stand, and ratings as categories (IterativeImputer: as numbers). The same intervals score them all.
"""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dualview as dv
from benchmarks.cells.scores import LEVELS, Normals, Prediction
from benchmarks.cells.tables import Mask, Table
from dualview.columns import Column

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Predictions = dict[str, Prediction]

DUALVIEW = {"n_chains": 4, "n_warmup": 400, "n_draws": 200, "thin": 2}
LACE = {"states": 8, "warmup": 400, "snapshots": 50, "between": 10}
STEPMIX_CLASSES, STEPMIX_STARTS = (1, 2, 3, 4, 5, 6, 8, 10), 3
N_IMPUTATIONS, N_ROUNDS = 20, 10
PLAIN_SHARE = 0.01  # of the marginals in predictions that may otherwise give a cell no probability at all


class Problem:
    """A table some cells (U, columns) of which are hidden."""

    def __init__(self, table: Table, hidden: Mask, seed: int) -> None:
        self.table, self.hidden, self.seed = table, hidden, seed
        self.frame = table.frame.mask(hidden)

    @cached_property
    def numbers(self) -> list[Column]:
        """The columns of numbers."""
        return [column for column in self.table.codebook.columns if column.kind not in LEVELS]

    @cached_property
    def levels(self) -> list[Column]:
        """The columns with levels, ordered ones too."""
        return [column for column in self.table.codebook.columns if column.kind in LEVELS]

    def rows(self, column: Column) -> Places:
        """Users whose cell of a column is hidden."""
        return np.flatnonzero(self.hidden[:, self.frame.columns.get_loc(column.name)])

    def truth(self, column: Column, rows: Places) -> Array:
        """The values of cells, of levels their numbers."""
        return values(self.table.frame, column)[rows]

    @cached_property
    def known_numbers(self) -> Array:
        """What is known of the numbers (U, numbers), on their scales; NaN where it is not."""
        return np.column_stack([column.scaled(values(self.frame, column)) for column in self.numbers])

    @cached_property
    def known_levels(self) -> Array:
        """What is known of the levels (U, levels), as their numbers; NaN where it is not."""
        return np.column_stack([values(self.frame, column) for column in self.levels])

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Means and standard deviations of the numbers that are known."""
        return np.nanmean(self.known_numbers, axis=0), np.nanstd(self.known_numbers, axis=0)

    @cached_property
    def standard_numbers(self) -> Array:
        """The numbers in standard deviations from their means."""
        return (self.known_numbers - self.moments[0]) / self.moments[1]

    def normals(self, place: int, means: Array, sds: Array, weights: Array) -> Normals:
        """Mixtures for a column of numbers, from standard units."""
        mean, sd = self.moments[0][place], self.moments[1][place]
        return Normals(mean + sd * means, sd * sds, weights)


def values(frame: pd.DataFrame, column: Column) -> Array:
    """A column's values (U,) in its own units, of levels their numbers; NaN where missing."""
    cells = frame[column.name]
    if column.kind not in LEVELS:
        return cells.to_numpy(dtype=float)
    codes = pd.Categorical(cells, categories=list(column.levels)).codes.astype(float)
    return np.where(codes < 0, np.nan, codes)


def _equal(n: int) -> Array:
    return np.full((1, n), 1.0 / n)


def marginals(problem: Problem) -> Predictions:
    """Each column by itself: shares (n_l + 1/L)/(n + 1) of levels, and a kernel density of numbers.

    Kernels are normal, with Silverman's bandwidth 0.9 min(sd, IQR/1.34) n^(−1/5).
    """
    found: Predictions = {}
    for place, column in enumerate(problem.numbers):
        x = problem.standard_numbers[:, place]
        x = x[~np.isnan(x)]
        quartiles = np.quantile(x, [0.25, 0.75])
        width = min(1.0, float(quartiles[1] - quartiles[0]) / 1.34) or 1.0
        sds = np.full((1, len(x)), 0.9 * width * len(x) ** -0.2)
        found[column.name] = problem.normals(place, x[None], sds, _equal(len(x)))
    for place, column in enumerate(problem.levels):
        codes = problem.known_levels[:, place]
        n_levels = len(column.levels)
        counts = np.bincount(codes[~np.isnan(codes)].astype(int), minlength=n_levels)
        shares = (counts + 1.0 / n_levels) / (counts.sum() + 1.0)
        found[column.name] = np.tile(shares, (len(problem.rows(column)), 1))
    return found


def _with_marginals(problem: Problem, predictions: Predictions) -> Predictions:
    """Mixtures of predictions with the marginals, which have a share of ``PLAIN_SHARE``."""
    found: Predictions = {}
    for name, plain in marginals(problem).items():
        own = predictions[name]
        if isinstance(own, Normals) and isinstance(plain, Normals):
            parts = [np.broadcast_to(part, (len(own.means), part.shape[1])) for part in plain]
            weights = ((1.0 - PLAIN_SHARE) * own.weights, PLAIN_SHARE * parts[2])
            mixed = [np.hstack([np.broadcast_to(one, own.means.shape), two]) for one, two in zip(own[:2], parts, strict=False)]
            found[name] = Normals(*mixed, np.hstack([np.broadcast_to(weights[0], own.means.shape), weights[1]]))
        else:
            found[name] = (1.0 - PLAIN_SHARE) * np.asarray(own) + PLAIN_SHARE * np.asarray(plain)
    return found


def dualview(problem: Problem) -> Predictions:
    """The IGMM, with default priors and chains of fixed length.

    ``impute`` gives the probabilities of nominal levels. Of numbers and ratings it gives draws, which are too few where a
    cell's value is improbable; in their place each draw of everything else gives the cell's normal distribution.
    """
    model = dv.DualViewMixture(columns=problem.table.declared, n_jobs=1, random_state=problem.seed, **DUALVIEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of fixed length, users without a cell
        model.fit(problem.frame)
    filled, post = model.impute(), model.posterior_
    users = {user: row for row, user in enumerate(filled.users)}
    found: Predictions = {}
    for column in post.codebook.nominal:
        shares = filled.probabilities(column.name)
        places = {users[user]: place for place, user in enumerate(shares.index)}
        found[column.name] = shares.to_numpy()[[places[row] for row in problem.rows(column)]]
    means, sds = _given_the_rest(post)
    for place, column in enumerate(post.codebook.gaussian):
        rows = problem.rows(column)
        normals = Normals(means[:, rows, place].T, sds[:, rows, place].T, _equal(len(means)))
        found[column.name] = normals.shares(np.array(column.cuts)) if column.kind == "ordinal" else normals
    return found


def _given_the_rest(post: dv.Posterior) -> tuple[Array, Array]:
    """Mean and standard deviation of each cell, given its user's other cells and cluster, in every draw, (S, U, D).

    With S the precision of the cluster and m its mean, x_j given the rest is normal with the variance 1/S_jj and the mean
    x_j − (S (x − m))_j / S_jj, in which x_j itself cancels.
    """
    units, table, z = post.units["features"], post.components, post.flat("z")
    x = np.repeat(post.cells.low[None], len(z), axis=0)
    users, columns = post.cells.drawn
    x[:, users, columns] = post.flat("features.cells")
    factors = table["features.factors"]
    precisions = units.precisions(factors @ np.swapaxes(factors, -1, -2))
    centres, first = units.vectors(table["features.means"]), np.searchsorted(table["owner"], np.arange(len(z)))
    means, sds = np.empty_like(x), np.empty_like(x)
    for s in range(len(z)):
        rows = first[s] + z[s]
        diagonal = np.diagonal(precisions[rows], axis1=1, axis2=2)
        means[s] = x[s] - np.einsum("uij,uj->ui", precisions[rows], x[s] - centres[rows]) / diagonal
        sds[s] = diagonal**-0.5
    return means, sds


def lace(problem: Problem) -> Predictions:
    """Lace with its own priors: a cell's distribution is that of its row's component, in the draws of all states."""
    import lace as engine_of  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import polars as pl

    names = {column.name: f"c{place}" for place, column in enumerate(problem.table.codebook.columns)}
    table: dict[str, Any] = {"ID": [f"u{row}" for row in range(len(problem.frame))]}
    for place, column in enumerate(problem.numbers):
        x = problem.standard_numbers[:, place]
        table[names[column.name]] = pl.Series(x, dtype=pl.Float64).fill_nan(None)
    for place, column in enumerate(problem.levels):
        codes = problem.known_levels[:, place]
        table[names[column.name]] = pl.Series(
            [None if np.isnan(code) else f"l{int(code):02d}" for code in codes], dtype=pl.String
        )
    engine = engine_of.Engine.from_df(pl.DataFrame(table), n_states=LACE["states"], rng_seed=problem.seed)
    engine.update(LACE["warmup"], quiet=True)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for _ in range(LACE["snapshots"]):
        engine.update(LACE["between"], quiet=True)
        for state in range(engine.n_states):
            views, rows = engine.column_assignment(state), engine.row_assignments(state)
            for column in problem.table.codebook.columns:
                key = names[column.name]
                own = np.asarray(rows[views[engine.columns.index(key)]])[problem.rows(column)]
                params = engine.feature_params(key, [state])[state]
                if column.kind in LEVELS:
                    found[column.name].append(np.array([part.weights for part in params])[own])
                else:
                    found[column.name].append(np.array([(part.mu, part.sigma) for part in params])[own])
    return _of_lace(problem, found)


def _of_lace(problem: Problem, found: dict[str, list[Any]]) -> Predictions:
    predictions: Predictions = {}
    for place, column in enumerate(problem.numbers):
        drawn = np.array(found[column.name])
        predictions[column.name] = problem.normals(place, drawn[..., 0].T, drawn[..., 1].T, _equal(len(drawn)))
    for place, column in enumerate(problem.levels):
        shares = np.mean(found[column.name], axis=0)
        known = np.unique(problem.known_levels[:, place])
        known = known[~np.isnan(known)].astype(int)  # those that Lace has seen, in their order
        predictions[column.name] = np.zeros((len(shares), len(column.levels)))
        predictions[column.name][:, known] = shares
    return predictions


def stepmix(problem: Problem) -> Predictions:
    """StepMix: a latent class model of independent normal and categorical columns, by maximum likelihood with missing cells.

    The number of classes has the least BIC. The fit is a plug-in estimate, so the marginals get ``PLAIN_SHARE``; variances get
    1e-6 more, in standard units, as scikit-learn's mixtures have.
    """
    from stepmix.stepmix import StepMix  # type: ignore[import-not-found, import-untyped, unused-ignore]

    parts = {"continuous_nan": problem.standard_numbers, "categorical_nan": problem.known_levels}
    descriptor = {name: {"model": name, "n_columns": part.shape[1]} for name, part in parts.items()}
    table = np.hstack(list(parts.values()))
    best, least = None, np.inf
    for n_classes in STEPMIX_CLASSES:
        model = StepMix(
            n_classes, measurement=descriptor, n_init=STEPMIX_STARTS, random_state=problem.seed, progress_bar=0, abs_tol=1e-6
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                bic = float(model.fit(table).bic(table))
            except ValueError:  # a class that has collapsed
                continue
        if np.isfinite(bic) and bic < least:
            best, least = model, bic
    assert best is not None
    weights, fitted = best.predict_proba(table), best.get_parameters()["measurement"]
    found: Predictions = {}
    for place, column in enumerate(problem.numbers):
        means, variances = (fitted["continuous_nan"][name][:, place] for name in ("means", "covariances"))
        own = weights[problem.rows(column)]
        shape = own.shape
        found[column.name] = problem.normals(
            place, np.broadcast_to(means, shape), np.broadcast_to(np.sqrt(variances + 1e-6), shape), own
        )
    shares, width = fitted["categorical_nan"]["pis"], int(fitted["categorical_nan"]["max_n_outcomes"])
    for place, column in enumerate(problem.levels):
        own = weights[problem.rows(column)] @ shares[:, place * width : place * width + len(column.levels)]
        found[column.name] = own / own.sum(axis=1, keepdims=True)
    return _with_marginals(problem, found)


def iterative(problem: Problem) -> Predictions:
    """scikit-learn's IterativeImputer with BayesianRidge, ``sample_posterior=True``, several times.

    Numbers and ratings are numbers, nominal columns have an indicator for each level. In each completed table the last
    round's regression of a column gives a cell a normal distribution, with the mean and the standard deviation that ``predict``
    returns; the prediction is their mixture. Ratings: probabilities of l ± ½, the first and last open. Levels: the mean
    predictions of the indicators, no less than 0, made to sum to 1. The marginals get ``PLAIN_SHARE``.
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import BayesianRidge

    columns, parts = [], []
    for place, column in enumerate(problem.numbers):
        columns.append(column)
        parts.append(problem.standard_numbers[:, place])
    for place, column in enumerate(problem.levels):
        codes = problem.known_levels[:, place]
        for level in range(len(column.levels) if column.kind == "nominal" else 1):
            columns.append(column)
            parts.append(codes if column.kind == "ordinal" else np.where(np.isnan(codes), np.nan, codes == level))
    table = np.column_stack(parts)
    means: list[list[Array]] = [[] for _ in columns]
    sds: list[list[Array]] = [[] for _ in columns]
    for seed in np.random.SeedSequence(problem.seed).generate_state(N_IMPUTATIONS):
        imputer = IterativeImputer(BayesianRidge(), sample_posterior=True, max_iter=N_ROUNDS, random_state=int(seed))
        completed = imputer.fit_transform(table)
        last = {int(step.feat_idx): step for step in imputer.imputation_sequence_}
        for place, column in enumerate(columns):
            rows = problem.rows(column)
            given = completed[np.ix_(rows, last[place].neighbor_feat_idx)]
            for kept, part in zip((means, sds), last[place].estimator.predict(given, return_std=True), strict=True):
                kept[place].append(part)
    found: Predictions = {}
    for place, column in enumerate(columns):
        normals = Normals(np.array(means[place]).T, np.array(sds[place]).T, _equal(N_IMPUTATIONS))
        if column.kind == "ordinal":
            found[column.name] = normals.shares(np.arange(len(column.levels) - 1) + 0.5)
        elif column.kind != "nominal":
            found[column.name] = problem.normals(place, *normals)
        elif column.name not in found:
            chances = np.stack([np.array(means[place + level]) for level in range(len(column.levels))], axis=-1)
            chances = np.maximum(chances, 0.0)
            found[column.name] = (chances / chances.sum(axis=-1, keepdims=True)).mean(axis=0)
    return _with_marginals(problem, found)


METHODS: dict[str, Callable[[Problem], Predictions]] = {
    "dualview": dualview,
    "Lace": lace,
    "StepMix": stepmix,
    "IterativeImputer": iterative,
    "marginals": marginals,
}
NEEDED = {"Lace": "lace", "StepMix": "stepmix"}

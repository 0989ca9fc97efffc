"""Predictions of hidden cells by scikit-learn's IterativeImputer."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import BayesianRidge

from benchmarks.cells.marginals import with_marginals
from benchmarks.cells.problem import Predictions, Problem, equal_weights
from benchmarks.cells.scores import Normals, Prediction
from dualview.columns import Column

Array = NDArray[np.float64]

N_IMPUTATIONS, N_ROUNDS = 10, 10


class Design(NamedTuple):
    """Numbers, ratings as numbers, and an indicator for each level but the last of nominal columns.

    table (U, W); owners: the column that each of the W is of.
    """

    table: Array
    owners: list[Column]

    @classmethod
    def of(cls, problem: Problem) -> "Design":
        """With all indicators each would follow from the others, and imputations would stay where
        they begin."""
        parts, owners = list(problem.standard_numbers.T), list(problem.numbers)
        for codes, column in zip(problem.known_levels.T, problem.levels, strict=True):
            levels = range(len(column.levels) - 1)
            own = (
                [np.where(np.isnan(codes), np.nan, codes == level) for level in levels]
                if column.kind == "nominal"
                else [codes]
            )
            parts += own
            owners += [column] * len(own)
        return cls(np.column_stack(parts), owners)

    def places(self, column: Column) -> list[int]:
        """Which of the W are a column's."""
        return [place for place, owner in enumerate(self.owners) if owner is column]


def predictions(problem: Problem) -> Predictions:
    """Several imputations with BayesianRidge and ``sample_posterior=True``.

    In each completed table the last round's regression of a column gives a hidden cell a normal
    distribution, with the mean and the standard deviation that ``predict`` returns; the prediction
    is their mixture. Ratings: probabilities of l ± ½, the first and the last open. Nominal levels:
    the means of the indicators and what they leave to the last level, no less than 0, made to sum
    to 1. The marginals get ``PLAIN_SHARE``.
    """
    design = Design.of(problem)
    means: list[list[Array]] = [[] for _ in design.owners]
    sds: list[list[Array]] = [[] for _ in design.owners]
    for seed in np.random.SeedSequence(problem.seed).generate_state(N_IMPUTATIONS):
        imputer = IterativeImputer(
            BayesianRidge(), sample_posterior=True, max_iter=N_ROUNDS, random_state=int(seed)
        )
        completed = imputer.fit_transform(design.table)
        last = {int(step.feat_idx): step for step in imputer.imputation_sequence_}
        for place, column in enumerate(design.owners):
            given = completed[np.ix_(problem.rows(column), last[place].neighbor_feat_idx)]
            mean, sd = last[place].estimator.predict(given, return_std=True)
            means[place].append(mean)
            sds[place].append(sd)
    normals = [
        Normals(np.array(mean).T, np.array(sd).T, equal_weights(len(mean)))
        for mean, sd in zip(means, sds, strict=True)
    ]
    found = {
        column.name: _prediction(problem, design, column, normals)
        for column in problem.table.codebook.columns
    }
    return with_marginals(problem, found)


def _prediction(
    problem: Problem, design: Design, column: Column, normals: list[Normals]
) -> Prediction:
    first, *others = design.places(column)
    if column.kind == "ordinal":
        return normals[first].shares(np.arange(len(column.levels) - 1) + 0.5)
    if column.kind != "nominal":
        return problem.normals(first, *normals[first])
    chances = np.stack([normals[place].means for place in (first, *others)], axis=-1)
    whole = np.maximum(
        np.concatenate([chances, 1.0 - chances.sum(axis=-1, keepdims=True)], axis=-1), 0.0
    )
    return np.asarray((whole / whole.sum(axis=-1, keepdims=True)).mean(axis=1))

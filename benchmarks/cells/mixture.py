"""dualview's predictions of hidden cells."""

import warnings

import numpy as np
from numpy.typing import NDArray

import dualview as dv
from benchmarks.cells.problem import Predictions, Problem, equal_weights
from benchmarks.cells.scores import Normals

Array = NDArray[np.float64]

SAMPLER = {"n_chains": 4, "engine": dv.Gibbs(n_warmup=400, thin=2), "n_draws": 200}


def predictions(problem: Problem) -> Predictions:
    """The IGMM, with default priors and chains of fixed length.

    ``impute`` gives the probabilities of nominal levels. Of numbers and ratings it gives draws,
    which are too few where a cell's value is improbable; in their place each draw of everything
    else gives the cell's normal distribution.
    """
    model = dv.DualViewMixture(
        columns=problem.table.declared, n_jobs=1, random_state=problem.seed, **SAMPLER
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of fixed length, users without a cell
        model.fit(problem.frame)
    filled, post = model.impute(), model.posterior_
    users = {user: row for row, user in enumerate(filled.users)}
    found: Predictions = {}
    for column in post.spec.codebook.of("categories"):
        shares = filled.probabilities(column.name)
        places = {users[user]: place for place, user in enumerate(shares.index)}
        found[column.name] = shares.to_numpy()[[places[row] for row in problem.rows(column)]]
    means, sds = given_the_rest(post)
    for place, column in enumerate(post.spec.codebook.of("features")):
        rows = problem.rows(column)
        normals = Normals(means[:, rows, place].T, sds[:, rows, place].T, equal_weights(len(means)))
        found[column.name] = (
            normals.shares(np.array(column.cuts)) if column.kind == "ordinal" else normals
        )
    return found


def given_the_rest(post: dv.Posterior) -> tuple[Array, Array]:
    """Mean and standard deviation of each cell, given its user's other cells and cluster, in every
    draw, (S, U, D).

    With S the precision of the cluster and m its mean, x_j given the rest is normal with the
    variance 1/S_jj and the mean x_j − (S (x − m))_j / S_jj, in which x_j itself cancels.
    """
    units, table, z = post.spec.units["features"], post.components, post.flat("z")
    x = np.repeat(post.cells.low[None], len(z), axis=0)
    users, columns = post.cells.drawn
    x[:, users, columns] = post.flat("features.cells")
    factors = table["features.factors"]
    precisions = units.precisions(factors @ np.swapaxes(factors, -1, -2))
    centers, first = (
        units.vectors(table["features.means"]),
        np.searchsorted(table["owner"], np.arange(len(z))),
    )
    means, sds = np.empty_like(x), np.empty_like(x)
    for s in range(len(z)):
        rows = first[s] + z[s]
        diagonal = np.diagonal(precisions[rows], axis1=1, axis2=2)
        means[s] = x[s] - np.einsum("uij,uj->ui", precisions[rows], x[s] - centers[rows]) / diagonal
        sds[s] = diagonal**-0.5
    return means, sds

"""Effective draws with and without the move of location: ``python -m benchmarks.location [DRAWS]``.

The step is the one by blocks of users, in which the move can be left out; both chains have the same
seeds and the same start, and the first tenth of each is left out. The cases are the paper's
scenario of agreement (50 users, 100 threads), and regressions of 60 users with two numbers and
eight observations each.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dualview as dv
from benchmarks.mixing import effective, problem
from benchmarks.paste import as_table
from dualview.engines.gibbs import GibbsEngine, steps
from dualview.engines.gibbs.engine import _with_likelihood_redrawn, run_by_blocks
from dualview.engines.gibbs.moves.shared import rescale_and_shift_latent
from dualview.engines.gibbs.working import WorkingState
from dualview.model import Model, State
from dualview.numerics.streams import stream_of
from dualview.partitions.choice import partition_prior
from dualview.units import Whitening
from dualview.views.gaussian.kind import rescale

SEEDS = (0, 1, 2)


def scale_alone(rng: Any, state: WorkingState) -> WorkingState:
    """``rescale_and_shift_latent`` without the move of location."""
    *observed, latent = state.views
    base = latent.base._replace(covariance=rescale(rng, state.labels.z[0], state.terms, latent))
    return state._replace(views=(*observed, latent._replace(base=base)))


WITH = steps.MOVES
WITHOUT = tuple(scale_alone if move is rescale_and_shift_latent else move for move in WITH)


def regressions(noise: str) -> Model:
    """Three clusters of users with an intercept and a slope each."""
    rng = np.random.default_rng(0)
    z, user = np.arange(60) % 3, np.repeat(np.arange(60), 8)
    features = 2.0 * rng.standard_normal((3, 2))[z] + rng.standard_normal((60, 2))
    latent = 2.0 * rng.standard_normal((3, 2))[z] + 0.5 * rng.standard_normal((60, 2))
    design = np.column_stack([np.ones(480), rng.standard_normal(480)])
    outcome = (design * latent[user]).sum(axis=1) + 2.0 * rng.standard_normal(480)
    behavior = dv.UserRegression(user, design, outcome, n_users=60, noise=noise)
    working = np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    return Model(partition_prior(None), working, behavior.prepare(None)[1], 60)


CASES: dict[str, Callable[[], Model]] = {
    "agreement": lambda: problem("agreement"),
    "regressions, one noise": lambda: regressions("shared"),
    "regressions, noise by cluster": lambda: regressions("cluster"),
}


def scalars(state: State) -> dict[str, float]:
    """Numbers that do not depend on how clusters are numbered."""
    view, latent = state.views["behavior"], state.latent
    assert latent is not None
    single = {f"coefficient of user {u}": latent[u, 0] for u in (0, 12, 24, 36)}
    return single | {
        "mean of the cluster of user 0": view.components.means[state.z[0], 0],
        "mean of all coefficients": latent.mean(),
        "mu_0": view.base.mean[0],
        "log R_0": np.log(view.base.precision[0, 0]),
        "log W_0": np.log(view.base.covariance[0, 0]),
        "clusters": float(len(np.unique(state.z))),
    }


def sizes(model: Model, moves: Sequence[steps.Move], n_draws: int, seed: int) -> dict[str, float]:
    """Effective draws of a chain, by scalar."""
    rng = np.random.default_rng(seed)
    engine = GibbsEngine()
    state = engine.start(rng, model, np.arange(model.n_users) % 5)
    draws = []
    for _ in range(n_draws):
        working, params = engine._before_moves(rng, model, state)
        working, _ = run_by_blocks(stream_of(rng), working, moves)
        state = _with_likelihood_redrawn(rng, model, working, params)
        draws.append(scalars(state))
    return {name: effective(np.array([draw[name] for draw in draws])) for name in draws[0]}


def compare(model: Model, n_draws: int) -> dict[str, tuple[float, float]]:
    """Medians over the seeds, without and with the move."""
    made: list[dict[str, float]] = []
    for moves in (WITHOUT, WITH):
        chains = [sizes(model, moves, n_draws, seed) for seed in SEEDS]
        made.append(
            {name: float(np.median([chain[name] for chain in chains])) for name in chains[0]}
        )
    return {name: (made[0][name], made[1][name]) for name in made[0]}


def main() -> None:
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    rows = [
        (f"{name}: {scalar}", f"{without:,.0f}", f"{with_move:,.0f}", f"{with_move / without:.1f}")
        for name, case in CASES.items()
        for scalar, (without, with_move) in compare(case(), n_draws).items()
    ]
    print(as_table([("effective draws of", "without", "with", "ratio"), *rows]))


if __name__ == "__main__":
    main()

"""What tables cost: sweeps with missing cells and categories against sweeps of complete numbers, in
one run.

    python -m benchmarks.tables [USERS ...]

Users of five clusters have sixteen columns. All sixteen complete and continuous; eight of them as
categories of four levels and a tenth of all cells missing; and all sixteen rounded to a tenth of a
standard deviation. CPU seconds of a sweep of each kind after compilation, which is not counted.
"""

import sys
import time

import numpy as np
import pandas as pd

from benchmarks.paste import as_table
from dualview.columns import Columns
from dualview.engines.gibbs import GibbsEngine
from dualview.inputs.cells import cell_units
from dualview.model import Model
from dualview.partitions.priors import ChineseRestaurant
from dualview.posterior.spec import ModelSpec
from dualview.units import Whitening

N_COLUMNS, N_CLUSTERS, N_SWEEPS = 16, 5, 6


def table(n_users: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of continuous numbers, and the users' clusters."""
    rng = np.random.default_rng(0)
    z = rng.integers(N_CLUSTERS, size=n_users)
    values = 2.0 * rng.standard_normal((N_CLUSTERS, N_COLUMNS))[z] + rng.standard_normal(
        (n_users, N_COLUMNS)
    )
    return pd.DataFrame(values, columns=[f"x{j}" for j in range(N_COLUMNS)]), z


def mixed(users: pd.DataFrame) -> pd.DataFrame:
    """Half of the columns as categories, and a tenth of all cells missing."""
    rng, made = np.random.default_rng(1), users.copy()
    for j in range(N_COLUMNS // 2, N_COLUMNS):
        made[f"x{j}"] = pd.qcut(users[f"x{j}"], 4, labels=list("abcd")).cat.as_unordered()
    return made.mask(rng.random(made.shape) < 0.1)


def complete(users: pd.DataFrame) -> Model:
    """The model of complete numbers."""
    values = users.to_numpy()
    return Model(
        ChineseRestaurant(),
        np.ascontiguousarray(Whitening.of_data(values).to_working(values)),
        n_users=len(users),
    )


def tabular(users: pd.DataFrame) -> Model:
    """The model of a table."""
    codebook = Columns.from_table(users)
    cells = codebook.cells(users)
    units = cell_units(cells, [column.name for column in codebook.of("features")], None)
    return ModelSpec(None, "paper", codebook=codebook, units={"features": units}).build(
        None, cells, None, len(users)
    )


def seconds(model: Model, z: np.ndarray) -> float:
    """CPU seconds of a sweep."""
    rng, engine = np.random.default_rng(2), GibbsEngine()
    state = engine.step(rng, model, engine.start(rng, model, z))
    began = time.process_time()
    for _ in range(N_SWEEPS):
        state = engine.step(rng, model, state)
    return (time.process_time() - began) / N_SWEEPS


def main(*sizes: int) -> None:
    """Print a row per table, with two columns for each number of users."""
    head, rows = ["table"], dict[str, list[str]]()
    for n_users in sizes or (20_000, 100_000):
        users, z = table(n_users)
        models = {
            "16 continuous columns, complete": complete(users),
            "8 continuous and 8 nominal columns, 10 % of cells missing": tabular(mixed(users)),
            "16 columns rounded to 0.1": tabular(users.round(1)),
        }
        taken = {name: seconds(model, z) for name, model in models.items()}
        first = next(iter(taken.values()))
        head += [f"{n_users:,} users (s)", "ratio"]
        for name, own in taken.items():
            rows.setdefault(name, [name]).extend((f"{own:.3f}", f"{own / first:.2f}"))
    print(as_table([head, *rows.values()]))


if __name__ == "__main__":
    main(*(int(value) for value in sys.argv[1:]))

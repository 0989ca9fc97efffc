"""What is compiled for a fit depends on few things: a second table, behavior or setting must not
compile the sweep anew."""

import itertools
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dualview as dv
from dualview.engines.gibbs import GibbsEngine
from dualview.engines.gibbs.engine import example_state

N_USERS = 12
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N_USERS, 2))
USER = np.repeat(np.arange(N_USERS), 4)
COLUMNS = np.column_stack([np.ones(len(USER)), RNG.standard_normal(len(USER))])
Y = RNG.standard_normal(len(USER))
PARTICIPATION, LENGTHS = (RNG.random((20, N_USERS)) < 0.3).astype(float), RNG.standard_normal(20)

COMPLETE = {"features": X, "rows end to end": np.asfortranarray(X), "no features": None}
TABLES = {
    "missing": np.where(np.arange(2 * N_USERS).reshape(N_USERS, 2) == 3, np.nan, X),
    "categories": pd.DataFrame(
        {"a": X[:, 0], "b": np.array(["u", "v", "w"])[np.arange(N_USERS) % 3]}
    ),
    "rounded": pd.DataFrame({"a": np.round(X[:, 0]), "b": RNG.poisson(3.0, N_USERS)}),
}
BEHAVIORS = {
    "threads": lambda: dv.SharedOutcome(PARTICIPATION, LENGTHS),
    "few who take part": lambda: dv.SharedOutcome(
        sparse.csr_array(PARTICIPATION), LENGTHS, intercept=True
    ),
    "regression": lambda: dv.UserRegression(USER, COLUMNS, Y),
    "noise by cluster": lambda: dv.UserRegression(USER, COLUMNS[:, :1], Y, noise="cluster"),
    "yes or no": lambda: dv.BinaryOutcomes(USER, COLUMNS[:, :1], (Y > 0.0).astype(float)),
    "common effects": lambda: dv.UserRegression(USER, COLUMNS[:, :1], Y, common=COLUMNS[:, 1:]),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "three clusters": {"n_clusters": 3},
    "link": {"link": "linear"},
    "spread of the paper": {"spread_prior": "paper"},
    "labels by view": {"agreement": "learned"},
}


class SeenError(Exception):
    """The sampler was about to start."""


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
@pytest.mark.parametrize("tables", [COMPLETE, TABLES], ids=["complete", "tables"])
def test_fits_of_all_kinds_share_their_compiled_code(
    tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    working_state, kinds = GibbsEngine.working_state, set()

    def look(engine: GibbsEngine, *arguments: Any) -> Any:
        model, *_ = arguments
        kinds.add(str(numba.typeof(working_state(engine, *arguments))))
        kinds.add(
            str(numba.typeof(example_state(model)))
        )  # with which code is compiled before there is a state
        raise SeenError

    monkeypatch.setattr(GibbsEngine, "working_state", look)
    first, *others = tables.values()
    pairs = [(first, options) for options in SETTINGS.values()] + [(x, {}) for x in others]
    for (x, options), behavior in itertools.product(pairs, BEHAVIORS.values()):
        with pytest.raises(SeenError):
            dv.DualViewMixture(n_warmup=1, n_draws=1, n_chains=1, n_jobs=1, **options).fit(
                x, behavior()
            )
    assert len(kinds) == 1

"""Joint tests of the sampler where features come as several tables: with one label, and with a
label for each of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checks import (
    LostChainsError,
    assert_rejected,
    by_blocks,
    changed,
    joint_tests,
    statistics,
)
from dualview.columns.layout import Layout
from dualview.engines.gibbs.moves import assignment
from dualview.model import Model, Observed, State
from dualview.partitions.agreement import LEARNED, Beta, KnownAgreement
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.views import NominalView
from dualview.views.blocked import BlockedView
from engines.gibbs import test_joint_tables as tables
from engines.gibbs.few_users import N_USERS, linked, model
from engines.gibbs.test_joint_agreement import five_steps, many_splits
from engines.gibbs.test_joint_behaviors import choices, regression

NUMBERS = Layout(("profile", "activity"), (1, 2), (1, 2))


def several(made: Model, agreement: Any = None) -> Model:
    """One column in one table, two in the other."""
    return replace(made, features=np.zeros((N_USERS, 3)), layout=NUMBERS, agreement=agreement)


def mixed(
    partition: Any, agreement: Any = None, second: bool = True, whole: Model | None = None
) -> Model:
    """A number and a category in each table, some cells missing."""
    n_numbers, n_categories = ((1, 1), (1, 1)) if second else ((2, 0), (0, 2))
    layout = Layout(("profile", "activity"), n_numbers, n_numbers, {"categories": n_categories})
    whole = tables.model(partition, tables.regression()) if whole is None else whole
    (view, codes), factor = (
        (whole.others["categories"].view, whole.others["categories"].vectors),
        np.diag([1.2, 0.9]),
    )
    intervals = replace(whole.intervals, factor=factor, inverse=np.linalg.inv(factor))
    places = layout.places("categories")
    views = tuple(NominalView(view.shares[own]) for _, own in places)
    categories = BlockedView(views, tuple(table for table, _ in places))
    others = {"categories": Observed(categories, codes)}
    return replace(whole, intervals=intervals, others=others, layout=layout, agreement=agreement)


def linked_tables(partition: Any, agreement: Any = None, pooled: bool = False) -> Model:
    """Latent vectors follow all columns of both tables."""
    return mixed(partition, agreement, whole=tables.linked(partition, pooled))


MODELS = {
    "one label, process": lambda: several(model(ChineseRestaurant(), regression(1))),
    "one label, three clusters": lambda: several(model(FiniteDirichlet(3), choices(1))),
    "one label, mixed tables": lambda: mixed(ChineseRestaurant()),
    "process": lambda: several(model(ChineseRestaurant(), regression(1)), LEARNED),
    "three clusters": lambda: several(model(FiniteDirichlet(3), regression(1)), LEARNED),
    "Pitman-Yor": lambda: several(model(PitmanYor(0.3), regression(1)), LEARNED),
    "two priors": lambda: several(
        model(ChineseRestaurant(), regression(1)), (Beta(4.0, 2.0), KnownAgreement(0.3))
    ),
    "one table always agrees": lambda: several(
        model(ChineseRestaurant(), regression(1)), (KnownAgreement(1.0), LEARNED)
    ),
    "noise by cluster": lambda: several(model(ChineseRestaurant(), regression(1, True)), LEARNED),
    "pooled": lambda: several(model(ChineseRestaurant(), regression(2), pooled=True), LEARNED),
    "link": lambda: several(linked(ChineseRestaurant(), regression(1), n_features=3), LEARNED),
    "mixed tables": lambda: mixed(ChineseRestaurant(), LEARNED),
    "mixed tables, three clusters": lambda: mixed(FiniteDirichlet(3), LEARNED),
    "link, mixed tables, one label": lambda: linked_tables(ChineseRestaurant()),
    "link, mixed tables": lambda: linked_tables(ChineseRestaurant(), LEARNED),
    "link, mixed tables, pooled": lambda: linked_tables(FiniteDirichlet(3), LEARNED, pooled=True),
    "numbers in one table, categories in the other": lambda: mixed(
        ChineseRestaurant(), LEARNED, second=False
    ),
}


def look(made: Model, state: State) -> dict[str, float]:
    """Statistics of every model, and of drawn cells and shares."""
    found = statistics(made, state)
    if made.intervals is not None:
        values = np.arctan(made.feature_view.completed(state.views["features"], made.features))
        found |= {
            f"cell {u} {d}": float(values[u, d])
            for u, d in ((0, 0), (1, 1), (2, 1), (3, 0), (3, 1))
        }
        shares = np.exp(state.views["categories"].component_parts["log_shares"])
        concentrations = state.views["categories"].base_parts["concentrations"]
        found |= {
            "share": float(shares[:, 0].mean()),
            "concentration": float(np.log(concentrations).mean()),
        }
        codes = made.others["categories"].vectors
        labels, layout = state.labels.of("categories"), made.layout
        assert layout is not None
        for j in range(2):
            table = next(t for t, own in layout.places("categories") if own.start <= j < own.stop)
            z = labels if labels.ndim == 1 else labels[table]
            found[f"alike {j}"] = float((codes[1, j] == codes[2, j]) * (z[1] == z[2]))
        if "slopes" in state.params:
            f, slopes = np.arctan(made.functions(state)[:, 0]), np.arctan(state.params["slopes"][0])
            found |= {
                f"cell {u} {d}, slope and behavior": float(np.sign(values[u, d] * slopes[d]) * f[u])
                for u, d in ((0, 0), (2, 1), (3, 0), (3, 1))
            }
    return found


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


test_by_blocks = joint_tests(MODELS, ["process", "mixed tables"], change=by_blocks, look=look)


test_with_many_splits_and_merges = joint_tests(
    MODELS,
    ["process", "Pitman-Yor", "mixed tables"],
    change=many_splits,
    length=30,
    step=five_steps,
    look=look,
)


MUTANTS = {
    "tables that agree stay behind": lambda: changed(
        assignment.relabel, "if g != other and", "if g < 0 and"
    ),
    "all tables agree as the first does": lambda: changed(
        assignment.weigh_part, "labels.shares[other - 1]", "labels.shares[0]"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_rejected(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    by_blocks(monkeypatch, MUTANTS[mutant]())
    ends = (LostChainsError, IndexError)  # the last: a label of a cluster that is gone
    assert_rejected(MODELS["two priors"](), 0, n_chains=500, ends=ends, look=look)

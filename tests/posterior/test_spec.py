"""The description of a model: made once, saved with the draws and in the manifest, read back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dualview as dv
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import Problem, build_model
from dualview.posterior.spec import ModelSpec

FORUM = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
BEHAVIOR = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
TABLE = pd.DataFrame(FORUM.features, columns=["age", "height"]).assign(
    town=["ab"[i % 2] for i in range(20)]
)
QUICK: dict[str, Any] = {"engine": dv.Gibbs(n_warmup=2), "n_draws": 2, "n_chains": 1}
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "features": ({}, FORUM.features, None),
    "process": ({"n_clusters": dv.PitmanYor(0.25), "alpha": dv.Gamma(2, 4)}, FORUM.features, None),
    "linked": ({"link": "linear", "agreement": 0.75}, TABLE, BEHAVIOR),
    "pooled": ({"n_clusters": 3, "pooling": "cluster"}, None, BEHAVIOR),
    "one": ({"n_clusters": 1, "spread_prior": "paper"}, None, BEHAVIOR),
    "heavy tails": ({"feature_prior": "student-shrunk"}, TABLE, BEHAVIOR),
    "tables": (
        {"agreement": {"b": dv.Beta(2, 3)}},
        {"a": FORUM.features[:, :1], "b": FORUM.features},
        BEHAVIOR,
    ),
}


def problem(name: str) -> Problem:
    options, X, y = CASES[name]
    model = dv.DualViewMixture(**options)
    return build_model(Parameters.of(model), checked_data(model, X, y))


@pytest.mark.parametrize("name", CASES)
def test_texts_and_units_say_everything(name: str) -> None:
    spec = problem(name).spec
    tree = _tree(spec)
    again = ModelSpec.from_tree(tree)
    assert json.loads(json.dumps(spec.to_attrs())) == again.to_attrs()
    assert set(again.units) == set(spec.units)
    for view, units in spec.units.items():
        for own, read in zip(units.prior, again.units[view].prior, strict=True):
            np.testing.assert_array_equal(own, read)
    assert again.partition_prior == spec.partition_prior
    assert again.agreement_prior == spec.agreement_prior
    assert str(again.parameters()) == str(spec.parameters())


@pytest.mark.parametrize("name", CASES)
def test_parameters_make_the_same_description(name: str) -> None:
    _, X, y = CASES[name]
    spec = problem(name).spec
    model = dv.DualViewMixture(**spec.parameters())
    again = build_model(Parameters.of(model), checked_data(model, X, y)).spec
    assert again.to_attrs() == spec.to_attrs()


def test_files_of_before_have_the_priors_of_before() -> None:
    tree = _tree(problem("pooled").spec)
    for name in ("alpha_prior", "spread_prior", "pooling"):
        del tree.attrs[name]
    tree["components"] = xr.DataTree(xr.Dataset({"behavior.means": ("row", np.zeros(3))}))
    old = ModelSpec.from_tree(tree)
    assert (old.alpha_prior, old.spread_prior, old.pooling) == ("paper", "paper", "cluster")
    assert old.link is None


def test_what_has_no_view_is_not_described() -> None:
    with pytest.warns(dv.errors.DataWarning, match="pooling is not used"):
        model = dv.DualViewMixture(pooling="cluster", **QUICK).fit(FORUM.features)
    assert model.posterior_.spec.pooling is None


def test_a_fit_saves_it_with_the_draws_and_in_the_manifest(tmp_path: Path) -> None:
    model = dv.DualViewMixture(2, checkpoint=tmp_path, **QUICK).fit(FORUM.features)
    saved = model.posterior_.spec.to_attrs()
    assert json.loads((tmp_path / "manifest.json").read_text())["model"] == saved
    model.posterior_.save(tmp_path / "posterior.nc")
    assert dv.load(tmp_path / "posterior.nc").spec.to_attrs() == saved


def _tree(spec: ModelSpec) -> Any:
    """A tree of no draws with a description."""
    draws = {"slopes": ("draw", np.zeros(1))} if spec.link else {}
    groups = {
        "posterior": xr.Dataset(draws),
        "components": xr.Dataset(),
        "working": spec.units_dataset(),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= spec.to_attrs()
    return tree

"""Everything that a fit offers, on one small table with counts, ratings, categories and missing
cells."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from dualview.posterior.summaries import summarize
from dualview.report import collect_run, render_page
from dualview.runs import summaries
from dualview.runs.run import load_run, summary_of_run
from dualview.words.clusters import summary_text

mpl.use("Agg")

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*[Pp]areto.*:UserWarning"),
]

N_USERS, N_THREADS = 24, 40
SETTINGS = {"n_warmup": 30, "n_draws": 13, "n_chains": 2}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = np.arange(N_USERS) % 2
    users = pd.DataFrame(
        {
            "age": rng.normal(35.0 + 15.0 * group, 3.0).round(),
            "income": rng.lognormal(8.0 + 0.5 * group, 0.2),
            "posts": rng.poisson(np.where(group == 1, 20, 2)),
            "grade": pd.Categorical.from_codes(
                np.clip(2 * group + rng.integers(-1, 2, N_USERS), 0, 3), list("dcba"), ordered=True
            ),
            "town": np.array(["A", "B", "C"])[np.where(rng.random(N_USERS) < 0.2, 2, group)],
            "member": rng.random(N_USERS) < 0.3 + 0.4 * group,
            "note": "x",
        },
        index=[f"u{i}" for i in range(N_USERS)],
    )
    for name in ("age", "income", "grade", "town"):
        users.loc[rng.choice(users.index, 3, replace=False), name] = None
    return users


def behavior() -> dv.SharedOutcome:
    rng = np.random.default_rng(1)
    participation = rng.integers(0, 2, (N_THREADS, N_USERS)).astype(float)
    latent = 2.0 * (np.arange(N_USERS) % 2) + 0.3 * rng.standard_normal(N_USERS)
    return dv.SharedOutcome(
        participation, participation @ latent + 0.5 * rng.standard_normal(N_THREADS)
    )


NUMBERS, LEVELS = ["age", "income", "posts", "grade"], ["town", "member"]
CASES = {
    "table": (table(), None),
    "table and behavior": (table(), behavior()),
    "categories": (table()[LEVELS], None),
    "categories and behavior": (table()[LEVELS], behavior()),
}


SLOW = {"table", "categories", "categories and behavior"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES],
)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    """The table, the behavior, the fit, and the folder of a run with its posterior."""
    users, seen = CASES[request.param]
    columns = {"note": "ignore"} if "note" in users else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dv.DualViewMixture(columns=columns, **SETTINGS).fit(users, seen)
    folder = tmp_path_factory.mktemp("run")
    model.posterior_.save(folder / "posterior.nc")
    return SimpleNamespace(
        users=users,
        behavior=seen,
        model=model,
        folder=folder,
        numbers=[n for n in NUMBERS if n in users],
    )


def test_predictions(case: SimpleNamespace) -> None:
    new = case.users.iloc[:3].drop(columns="note", errors="ignore")
    assert case.model.predict(new).shape == (3,)
    np.testing.assert_allclose(case.model.predict_proba(new).sum(axis=1), 1.0)
    assert np.isfinite(case.model.score_samples(new)).all()
    assert case.model.score(new) == pytest.approx(case.model.score_samples(new).mean())
    if case.behavior is None:
        with pytest.raises(InputError, match="without a behavior"):
            case.model.predict_latent(new)
        return
    assert np.isfinite(case.model.predict_latent(new).median).all()
    seen = case.model.predict_latent(new, dv.SharedOutcome(np.eye(3), [0.0, 2.0, 1.0]))
    assert np.isfinite(seen.median).all()
    threads = np.zeros((2, N_USERS + 3))
    threads[0, :5] = threads[1, N_USERS:] = 1.0
    assert np.isfinite(case.model.predict_outcome(threads, new).interval(0.9)).all()
    assert np.isfinite(case.model.score(None, case.behavior))


def test_a_posterior_from_a_file_predicts_the_same(case: SimpleNamespace) -> None:
    again = dv.DualViewMixture.from_posterior(dv.load(case.folder / "posterior.nc"))
    some = case.users.iloc[:4]
    np.testing.assert_array_equal(again.predict_proba(some), case.model.predict_proba(some))
    assert again.n_features_in_ == case.model.n_features_in_ == case.users.shape[1]
    assert again.feature_names_in_.tolist() == list(case.users)
    pd.testing.assert_frame_equal(again.impute().cells, case.model.impute().cells)


def test_impute(case: SimpleNamespace) -> None:
    found = case.model.impute()
    assert len(found.cells) == int(case.users.isna().sum().sum())
    assert not found.frame.isna().any(axis=None)


@pytest.mark.usefixtures("few_replicates")
def test_checks(case: SimpleNamespace) -> None:
    checks = case.model.check(refit=case.behavior is not None)
    names = {check.name for check in checks}
    assert ("features inside clusters" in names) == bool(case.numbers)
    assert ("views" in names) == (case.behavior is not None)
    assert checks.text()
    if checks.levels():
        assert plots.checks(checks).size == len(checks.levels())


def test_tree_for_arviz_and_a_whole_file(case: SimpleNamespace, tmp_path: Path) -> None:
    post = case.model.posterior_
    tree = post.to_arviz(n_prior=20)
    assert set(tree["observed_data"].data_vars) >= {"low", "high", "codes"}
    likelihood = post.to_arviz(["log_likelihood"], variables=["features"])["log_likelihood"][
        "features"
    ]
    assert likelihood.dims == ("chain", "draw", "user")
    assert np.isfinite(likelihood).all()
    assert np.isfinite(tree["log_prior"]["categories.base"]).all()
    assert tree["prior"]["categories.concentrations"].shape == (1, 20, 2)
    post.save(tmp_path / "whole.nc", whole=True)
    again = dv.load(tmp_path / "whole.nc")
    assert again.cells.equals(post.cells)
    np.testing.assert_array_equal(
        dv.DualViewMixture.from_posterior(again).labels_, case.model.labels_
    )


def test_calibration_and_comparison(case: SimpleNamespace) -> None:
    found = dv.calibrate(case.model, n=2, n_warmup=10, thin=1)
    assert "categories.concentrations" in found.ranks
    assert ("features.cells" in found.ranks) == bool(case.numbers)
    if case.behavior is None:
        with pytest.raises(InputError, match="compare needs fits with a behavior"):
            dv.compare({"one": case.model, "two": case.model})
        return
    scores = dv.compare({"one": case.model, "two": case.model})
    assert np.isfinite(scores["elpd"].astype(float)).all()


@pytest.mark.slow
def test_comparison_by_user(case: SimpleNamespace) -> None:
    if case.behavior is not None:
        scores = dv.compare({"one": case.model, "two": case.model}, by="user")
        assert np.isfinite(scores["elpd"].astype(float)).all()


def test_diagnostics_look_at_some_cells_only(case: SimpleNamespace) -> None:
    post = case.model.posterior_
    assert case.model.posterior_.verdict()
    looked = [name for name in post.scalars(5) if name.startswith("features.cells")]
    assert len(looked) == (5 if case.numbers else 0)
    assert "categories.concentrations[0]" in post.diagnostics().index


def test_pictures(case: SimpleNamespace) -> None:
    if not case.numbers:
        with pytest.raises(InputError, match="two columns that are not nominal"):
            plots.features(case.model)
    else:
        ax = plots.features(case.model, columns=("income", "grade"))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("income", "grade")
        shown = sum(len(part.get_offsets()) for part in ax.collections)
        assert shown == case.users[["income", "grade"]].notna().all(axis=1).sum()
        assert (
            sum(
                len(part.get_offsets())
                for part in plots.features(case.model, case.users).collections
            )
            == 18
        )
        with pytest.raises(InputError, match="got \\('town', 'age'\\)"):
            plots.features(case.model, columns=("town", "age"))
    written = summaries.plot_run(load_run(case.folder), case.folder / "plots")
    assert {path.stem for path in written} >= {"clusters", "traces", "similarity"}
    assert ("features" in {path.stem for path in written}) == bool(case.numbers)


def test_summary_in_words(case: SimpleNamespace) -> None:
    found = summarize(case.model.posterior_)
    first = found["clusters"][0]
    assert sum(first["level_shares"]["town"].values()) == pytest.approx(1.0)
    assert list(first["feature_medians"]) == case.numbers
    if case.numbers:
        assert first["feature_medians"]["grade"] in list("dcba")
        members = case.users[case.model.labels_ == 0]
        assert first["feature_medians"]["posts"] == members["posts"].median()
    assert "town" in summary_text(found)
    assert summary_of_run(case.folder) == found
    json.dumps(found, allow_nan=False)


def test_report(case: SimpleNamespace) -> None:
    found = collect_run(case.folder)
    json.dumps(found, allow_nan=False, default=str)
    card = found["roles"]["cards"][0]
    assert {feature["name"] for feature in card["features"]} == set(case.numbers)
    town = next(part for part in card["categories"] if part["name"] == "town")
    assert town["levels"][0]["share"].endswith("%")
    assert f"by {len(case.numbers) + 2} features" in found["words"][0]
    page = render_page(found)
    assert "Categories of role 0" in page
    assert "share of members" in page

"""Features that come as several tables: one label for all, or a label and an agreement for each."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.errors import InputError
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model
from dualview.inputs.several_tables import joined_tables
from dualview.posterior.partition import crosstab

N_USERS, N_EACH = 45, 6
SHORT: dict[str, Any] = {
    "n_warmup": 150,
    "n_draws": 150,
    "n_chains": 2,
    "random_state": 1,
    "n_jobs": 1,
}
CENTERS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


def world(seed: int = 0) -> tuple[dict[str, Any], dv.UserRegression, Any, Any]:
    """A profile that shows what users do, and an activity that does so for two thirds of them."""
    rng = np.random.default_rng(seed)
    acts = np.arange(N_USERS) % 3
    looks = np.where(rng.random(N_USERS) < 0.6, acts, rng.integers(0, 3, N_USERS))
    profile = CENTERS[acts] + 0.6 * rng.standard_normal((N_USERS, 2))
    activity = pd.DataFrame(
        CENTERS[looks] @ [[1.0, 1.0], [-1.0, 1.0]] + 0.6 * rng.standard_normal((N_USERS, 2)),
        columns=["a", "b"],
    )
    activity["town"] = np.array(["Rome", "Oslo", "Lima"])[
        np.where(rng.random(N_USERS) < 0.9, looks, rng.integers(0, 3, N_USERS))
    ]
    activity.loc[4, "b"] = np.nan
    user = np.repeat(np.arange(N_USERS), N_EACH)
    outcome = np.array([-4.0, 0.0, 4.0])[acts][user] + rng.standard_normal(len(user))
    return (
        {"profile": profile, "activity": activity},
        dv.UserRegression(user, np.ones((len(user), 1)), outcome),
        acts,
        looks,
    )


@pytest.fixture(scope="module")
def together() -> dv.DualViewMixture:
    tables, behavior, _, _ = world()
    return dv.DualViewMixture(**SHORT).fit(tables, behavior)


@pytest.fixture(scope="module")
def apart() -> dv.DualViewMixture:
    tables, behavior, _, _ = world()
    return dv.DualViewMixture(agreement="learned", **SHORT).fit(tables, behavior)


@pytest.mark.slow
def test_columns_have_the_names_of_their_tables(together: dv.DualViewMixture) -> None:
    assert list(together.feature_names_in_) == [
        "profile.x0",
        "profile.x1",
        "activity.a",
        "activity.b",
        "activity.town",
    ]
    post = together.posterior_
    assert post.feature_names == ["profile.x0", "profile.x1", "activity.a", "activity.b"]
    assert post["features.base_dof"].shape == (2, 150, 2)
    assert list(post.tree["posterior"].coords["block"].values) == ["profile", "activity"]


@pytest.mark.slow
def test_tables_are_independent_given_the_cluster(together: dv.DualViewMixture) -> None:
    factors, base = (
        together.posterior_.components["features.factors"],
        together.posterior_["features.base_covariance"],
    )
    for matrices in (factors, base.reshape(-1, 4, 4)):
        assert (matrices[:, :2, 2:] == 0.0).all()
        assert (matrices[:, 2:, :2] == 0.0).all()
        assert (matrices[:, 0, 1] != 0.0).any()


def test_one_table_is_a_table() -> None:
    tables, behavior, _, _ = world()
    one = dv.DualViewMixture(**SHORT).fit({"profile": tables["profile"]}, behavior)
    same = dv.DualViewMixture(**SHORT).fit(tables["profile"], behavior)
    np.testing.assert_array_equal(one.posterior_["z"], same.posterior_["z"])
    np.testing.assert_array_equal(one.posterior_["latent"], same.posterior_["latent"])


@pytest.mark.slow
def test_labels_of_each_table_are_found(apart: dv.DualViewMixture) -> None:
    _, _, acts, looks = world()
    post = apart.posterior_
    assert adjusted_rand_score(acts, apart.labels_) > 0.9
    assert adjusted_rand_score(acts, post.table_partition("profile")) > 0.9
    assert adjusted_rand_score(looks, post.table_partition("activity")) > 0.8
    np.testing.assert_array_equal(apart.labels_, apart.behavior_labels_)
    profile, activity = np.median(post["agreement"], axis=(0, 1))
    assert activity < np.mean(acts == looks) + 0.15 < profile
    agrees, tables, z = post["agrees"], post["z_tables"], post["z"]
    assert not (agrees & (tables != z[:, :, None])).any()


@pytest.mark.slow
def test_who_looks_otherwise_by_table(apart: dv.DualViewMixture) -> None:
    post = apart.posterior_
    found = post.disagreements()
    assert list(found.columns) == ["table", "user", "looks", "acts", "probability"]
    assert (found["table"] == "activity").mean() > 0.8
    text = crosstab.text(post)
    assert text is not None
    assert "By profile," in text
    assert "By activity," in text
    assert post.crosstab("activity").to_numpy().sum() == N_USERS
    with pytest.raises(InputError, match="say which table, of profile, activity"):
        post.crosstab()
    with pytest.raises(InputError, match="no table 'income'"):
        post.table_partition("income")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["together", "apart"])
def test_new_users(name: str, request: pytest.FixtureRequest) -> None:
    fitted: dv.DualViewMixture = request.getfixturevalue(name)
    tables, behavior, _, _ = world()
    new = {
        "activity": tables["activity"].iloc[:5],
        "profile": tables["profile"][:5],
    }  # in another order
    np.testing.assert_array_equal(fitted.predict(new), fitted.labels_[:5])
    probabilities = fitted.predict_proba(new)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    latent = fitted.predict_latent(new)
    assert np.abs(latent.mean - fitted.latent_[:5]).max() < 2.5
    assert np.isfinite(fitted.score_samples(new)).all()
    user = np.repeat(np.arange(5), N_EACH)
    seen = dv.UserRegression(
        user, np.ones((len(user), 1)), behavior.observed[: len(user)], n_users=5
    )
    given = fitted.predict_latent(new, seen)
    assert np.abs(given.mean - fitted.latent_[:5]).max() < 0.7


@pytest.mark.slow
def test_a_table_that_shows_nothing_changes_little(apart: dv.DualViewMixture) -> None:
    """Where the activity says another role than the profile, the profile is believed, which agrees
    with behavior."""
    _, _, acts, looks = world()
    tables = world()[0]
    unlike = int(np.flatnonzero(acts != looks)[0])
    new = {
        "profile": tables["profile"][unlike : unlike + 1],
        "activity": tables["activity"].iloc[unlike : unlike + 1],
    }
    assert apart.predict(new)[0] == apart.labels_[unlike]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["together", "apart"])
def test_saved_and_read(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    fitted: dv.DualViewMixture = request.getfixturevalue(name)
    tables = world()[0]
    new = {"profile": tables["profile"][:3], "activity": tables["activity"].iloc[:3]}
    fitted.posterior_.save(tmp_path / "post.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "post.nc"))
    assert again.posterior_.spec.layout == fitted.posterior_.spec.layout
    np.testing.assert_allclose(again.predict_proba(new), fitted.predict_proba(new))
    flat, _ = joined_tables(new)
    np.testing.assert_allclose(again.predict_proba(flat), fitted.predict_proba(new))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["together", "apart"])
def test_what_follows_from_draws(name: str, request: pytest.FixtureRequest) -> None:
    fitted: dv.DualViewMixture = request.getfixturevalue(name)
    tree = fitted.posterior_.to_arviz(variables=["outcome", "features"])
    assert np.isfinite(tree["log_likelihood"]["features"].values).all()
    assert tree["posterior_predictive"]["features"].shape == (2, 150, N_USERS, 4)
    assert not any("z_tables" in scalar for scalar in fitted.posterior_.scalars())
    filled = fitted.impute()
    assert filled.cells[["user", "column"]].to_numpy().tolist() == [[4, "activity.b"]]


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tables, behavior, _, _ = world()
    settings = {**SHORT, "n_warmup": 10, "n_draws": 10, "agreement": {"activity": "learned"}}
    whole = dv.DualViewMixture(**settings).fit(tables, behavior)
    kept = dv.DualViewMixture(
        **settings, checkpoint=tmp_path / "run", checkpoint_interval=1e-9
    ).fit(tables, behavior)
    again = dv.DualViewMixture(**settings, checkpoint=tmp_path / "run").fit(tables, behavior)
    for other in (kept, again):
        np.testing.assert_array_equal(whole.posterior_["z_tables"], other.posterior_["z_tables"])
    np.testing.assert_array_equal(
        whole.posterior_["agreement"][..., 0], 1.0
    )  # a table that is not named agrees
    np.testing.assert_array_equal(whole.posterior_["z_tables"][:, :, 0], whole.posterior_["z"])


@pytest.mark.slow
def test_summaries_keep_roles() -> None:
    tables, behavior, _, _ = world()
    settings = {**SHORT, "n_warmup": 10, "n_draws": 20, "keep": "summary", "n_whole": 5}
    fitted = dv.DualViewMixture(agreement="learned", **settings).fit(tables, behavior)
    assert fitted.posterior_["z_tables"].shape[2:] == (2, N_USERS)
    assert fitted.labels_.shape == (N_USERS,)


def test_rows_are_matched_by_ids() -> None:
    ids = [f"u{i}" for i in range(4)]
    first = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=ids)
    second = pd.DataFrame({"x": [40.0, 30.0, 20.0, 10.0]}, index=ids[::-1])
    joined, kinds = joined_tables({"one": first, "two": second})
    assert list(joined.index) == ids
    assert joined["two.x"].tolist() == [10.0, 20.0, 30.0, 40.0]
    assert kinds == {}


NUMBERS = np.random.default_rng(3).normal(size=(6, 2))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "X has no tables"),
        ({"a.b": NUMBERS}, "without a dot"),
        ({"behavior": NUMBERS}, "other than features, behavior, categories"),
        ({"one": NUMBERS, "two": NUMBERS[:5]}, "one has 6, two has 5"),
        ({"one": NUMBERS, "two": None}, "Table 'two' of X must be a table or an array"),
        ({"one": NUMBERS, "two": np.zeros(6)}, "Table 'two': X must be"),
        ({"one": NUMBERS, "two": np.ones((6, 1))}, "Column .two.x0. has one value only"),
    ],
)
def test_bad_tables(tables: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dv.DualViewMixture(**SHORT).fit(tables)


def test_users_who_are_missing_are_named() -> None:
    first = pd.DataFrame({"x": NUMBERS[:, 0]}, index=list("abcdef"))
    with pytest.raises(InputError, match=r"two lacks f"):
        joined_tables({"one": first, "two": first.iloc[:5]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"feature_prior": dv.GaussianPrior(np.zeros(9), np.eye(9))},
            r"feature_prior must have \d dimension\(s\); got 9",
        ),
        ({"agreement": {"income": "learned"}}, "names the table 'income'"),
    ],
)
def test_settings_that_do_not_go_with_several_tables(settings: Any, message: str) -> None:
    tables, behavior, _, _ = world()
    with pytest.raises(InputError, match=message):
        dv.DualViewMixture(**{**SHORT, **settings}).fit(tables, behavior)


def test_each_table_has_its_block_of_a_prior() -> None:
    """What the prior says of columns of different tables together has no part in the model."""
    covariance = np.diag([1.0, 4.0, 9.0, 16.0]) + 0.5
    prior = dv.GaussianPrior([1.0, 2.0, 3.0, 4.0], covariance)
    model = dv.DualViewMixture(feature_prior=prior)
    data = checked_data(model, *world()[:2])
    mean, found = build_model(Parameters.of(model), data).spec.units["features"].prior
    blocks = np.kron(np.eye(2), np.ones((2, 2)))
    np.testing.assert_allclose(mean, prior.mean)
    np.testing.assert_allclose(found, covariance * blocks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Users with the same features:dualview.errors.DataWarning")
def test_a_variational_fit_of_several_tables() -> None:
    """It finds the clusters, and takes more users as they come."""
    tables, behavior, acts, _ = world()
    engine = dv.Variational(n_starts=2)
    model = dv.DualViewMixture(engine=engine, n_draws=50, n_chains=2, random_state=1)
    model.fit({"profile": tables["profile"]} | {"activity": tables["profile"] + 1.0}, behavior)
    assert adjusted_rand_score(acts, model.labels_) > 0.9
    model.fit(tables)
    more = {name: table[:3] for name, table in tables.items()}
    assert len(model.partial_fit(more).labels_) == N_USERS + 3


@pytest.mark.slow
def test_a_link_follows_tables_with_missing_cells() -> None:
    """Cells that are not exact are drawn with the link, table after table."""
    tables, behavior, _, _ = world()
    model = dv.DualViewMixture(**{**SHORT, "link": "linear"}).fit(tables, behavior)
    data = checked_data(model, tables, behavior)
    assert data.cells is not None
    assert not data.cells.exact.all()
    post = model.posterior_
    low, high = (ends[data.cells.drawn] for ends in (data.cells.low, data.cells.high))
    assert ((post["features.cells"] >= low) & (post["features.cells"] <= high)).all()
    assert np.ptp(post["features.cells"], axis=1).min() > 0.0
    assert np.isfinite(model.predict_latent(tables).mean).all()


@pytest.mark.slow
def test_new_users_need_the_tables_of_the_fit(together: dv.DualViewMixture) -> None:
    tables = world()[0]
    with pytest.raises(InputError, match="it lacks activity"):
        together.predict({"profile": tables["profile"]})
    with pytest.raises(InputError, match="it has income besides"):
        together.predict({**tables, "income": tables["profile"]})


@pytest.mark.slow
def test_cells_are_filled_in_by_the_label_of_their_table(apart: dv.DualViewMixture) -> None:
    """The profile says another cluster than the activity, whose number is missing."""
    tables, _, acts, looks = world()
    user = next(u for u in range(N_USERS) if acts[u] != looks[u] and u != 4)
    activity = tables["activity"].iloc[[user]].reset_index(drop=True)
    expected = float(activity.loc[0, "b"])
    activity.loc[0, "b"] = np.nan
    new = {"profile": tables["profile"][[user]], "activity": activity}
    found = apart.impute(new, n_draws=400).cells
    assert found["column"].tolist() == ["activity.b"]
    assert abs(found["value"].iloc[0] - expected) < 2.5
    activity.loc[0, "town"] = None
    shares = apart.impute(new, n_draws=400).probabilities("activity.town").to_numpy()
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_what_several_labels_cannot_do_is_said(apart: dv.DualViewMixture) -> None:
    with pytest.raises(InputError, match="cannot be left out one at a time"):
        dv.compare({"one": apart, "two": apart}, by="user")

"""DualViewMixture as a scikit-learn estimator: its own checks, parameters, names of columns,
pipelines, cross-validation."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dualview as dv
from dualview.errors import DataWarning, InputError

# These runs are too short to converge, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")

QUICK = {"n_warmup": 5, "n_draws": 3, "n_chains": 1}
FORUM = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)


def behavior():
    return dv.SharedOutcome(FORUM.participation, FORUM.outcome)


# Outside of scikit-learn's own checks a y that is no behavior, and integers with few values,
# deserve their warnings.
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
@parametrize_with_checks(
    [dv.DualViewMixture(**QUICK), dv.DualViewMixture(3, **QUICK), dv.DualViewMixture(1, **QUICK)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_is_a_clusterer_that_needs_no_y():
    model = dv.DualViewMixture()
    assert is_clusterer(model)
    assert not model.__sklearn_tags__().target_tags.required


def test_parameters_are_those_of_the_design():
    assert dv.DualViewMixture().get_params() == {
        "n_clusters": None,
        "alpha": None,
        "partition": None,
        "n_warmup": None,
        "n_draws": 1000,
        "max_time": None,
        "max_draws": None,
        "thin": 1,
        "n_chains": 4,
        "n_auxiliary": 3,
        "init": "kmeans",
        "columns": None,
        "feature_prior": None,
        "behavior_prior": None,
        "spread_prior": "flat",
        "engine": "gibbs",
        "link": None,
        "pooling": "auto",
        "agreement": None,
        "keep": "draws",
        "n_whole": 100,
        "checkpoint": None,
        "checkpoint_interval": 1.0,
        "n_jobs": None,
        "random_state": 0,
        "progress": False,
    }


def test_set_params_and_clone():
    prior = dv.GaussianPrior([0.0, 1.0], np.eye(2))
    model = dv.DualViewMixture(3, alpha=dv.Gamma(2, 4), feature_prior=prior, init=np.arange(4))
    assert model.set_params(n_draws=7, n_clusters=None) is model
    copy = clone(model)
    assert copy.get_params()["n_draws"] == 7
    assert copy.n_clusters is None
    assert copy.feature_prior == prior
    assert copy.alpha == dv.Gamma(2, 4)
    assert "feature_prior=GaussianPrior(" in repr(copy)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(n_iterations=3)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_column_names_are_kept(library):
    table = library({"age": FORUM.features[:, 0], "height": FORUM.features[:, 1]})
    model = dv.DualViewMixture(**QUICK).fit(table)
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["age", "height"]
    draws = model.posterior_.to_arviz()["posterior"]
    assert list(draws["features.base_mean"].coords["feature"].values) == ["age", "height"]
    assert draws["features.base_precision"].dims == ("chain", "draw", "feature", "feature_other")
    plain = dv.DualViewMixture(**QUICK).fit(FORUM.features)
    np.testing.assert_array_equal(plain.posterior_["z"], model.posterior_["z"])
    assert not hasattr(plain, "feature_names_in_")
    assert list(plain.posterior_.to_arviz()["posterior"].coords["feature"].values) == ["x0", "x1"]


def test_coefficient_names_are_kept():
    hour = pl.DataFrame({"hour": np.arange(30.0)})
    shared = dv.SharedOutcome(FORUM.participation, FORUM.outcome, covariates=hour, intercept=True)
    model = dv.DualViewMixture(1, **QUICK).fit(None, shared)
    draws = model.posterior_.to_arviz()["posterior"]["coefficients"]
    assert list(draws.coords["coefficient"].values) == ["intercept", "hour"]


def test_a_second_fit_forgets_the_first():
    model = dv.DualViewMixture(**QUICK).fit(FORUM.features, behavior())
    assert model.latent_.shape == (20,)
    model.fit(pd.DataFrame({"a": FORUM.features[:, 0]}))
    assert not hasattr(model, "latent_")
    assert model.behavior_ is None
    model.fit(None, behavior())
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "feature_names_in_")


def test_pipeline():
    model = make_pipeline(StandardScaler(), dv.DualViewMixture(**QUICK)).fit(
        FORUM.features, behavior()
    )
    alone = dv.DualViewMixture(**QUICK).fit(FORUM.features, behavior())
    np.testing.assert_array_equal(model[-1].posterior_["z"], alone.posterior_["z"])
    np.testing.assert_allclose(model[-1].latent_, alone.latent_, rtol=1e-6)
    labels = make_pipeline(StandardScaler(), dv.DualViewMixture(**QUICK)).fit_predict(
        FORUM.features, behavior()
    )
    np.testing.assert_array_equal(labels, alone.labels_)


def test_fit_predict_passes_the_behavior():
    model = dv.DualViewMixture(**QUICK)
    labels = model.fit_predict(FORUM.features, behavior())
    np.testing.assert_array_equal(labels, model.labels_)
    assert "latent" in model.posterior_
    assert dv.DualViewMixture(**QUICK).fit_predict(None, behavior()).shape == (20,)


def test_cross_validation_over_users_names_split():
    search = GridSearchCV(
        dv.DualViewMixture(**QUICK), {"n_clusters": [1, 2]}, scoring=lambda *_: 0.0, cv=2
    )
    with pytest.raises(InputError, match=r"behavior\.split\(n_splits\)"):
        search.fit(FORUM.features, behavior())
    with pytest.raises(InputError, match=r"behavior\.split\(n_splits\)"):
        cross_validate(
            dv.DualViewMixture(**QUICK), FORUM.features, behavior(), scoring=lambda *_: 0.0, cv=2
        )


def test_cross_validation_over_threads():
    scores = []
    for train, held_out in behavior().split(3):
        model = dv.DualViewMixture(n_warmup=100, n_draws=100, n_chains=1).fit(FORUM.features, train)
        scores.append(model.predict_outcome(held_out).nll(held_out.outcome))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("n_clusters", [None, 2])
def test_clusters_are_features_of_a_pipeline(n_clusters):
    table = pd.DataFrame(FORUM.features, [f"u{i}" for i in range(20)], ["age", "height"])
    model = dv.DualViewMixture(n_clusters, **QUICK).fit(table)
    shares = model.transform(table)
    np.testing.assert_array_equal(shares, model.predict_proba(table))
    names = [f"cluster{k}" for k in range(model.n_clusters_)]
    names += ["new_cluster"] if n_clusters is None else []
    assert model.get_feature_names_out().tolist() == names
    framed = model.set_output(transform="pandas").transform(table)
    assert list(framed) == names
    assert list(framed.index) == list(table.index)
    np.testing.assert_array_equal(framed.to_numpy(), shares)
    np.testing.assert_array_equal(
        dv.DualViewMixture(n_clusters, **QUICK).fit_transform(table), shares
    )
    with pytest.raises(InputError, match="fitted without features"):
        dv.DualViewMixture(**QUICK).fit_transform(None, behavior())


def test_imputation_gives_back_the_kind_of_table_it_got():
    x = np.array(FORUM.features)
    x[3, 1] = np.nan
    names = [f"u{i}" for i in range(20)]
    table = pd.DataFrame({"age": x[:, 0], "note": "x", "height": x[:, 1]}, names)
    model = dv.DualViewMixture(1, columns={"note": "ignore"}, **QUICK).fit(table)
    value = model.impute().frame.loc["u3", "height"]
    for rows in (slice(None), [3, 5, 0]):
        given = table.iloc[rows]
        filled = model.impute(given, n_draws=50).table
        assert filled.loc["u3", "height"] == pytest.approx(value, abs=60.0)
        expected = given.assign(height=given["height"].fillna(filled.loc["u3", "height"]))
        pd.testing.assert_frame_equal(filled, expected)
    filled = model.impute(pl.from_pandas(table)).table
    assert isinstance(filled, pl.DataFrame)
    assert filled.columns == list(table)
    assert filled["height"].null_count() + filled["height"].is_nan().sum() == 0
    plain = dv.DualViewMixture(1, **QUICK).fit(x)
    filled = plain.impute(x).table
    assert isinstance(filled, np.ndarray)
    known = ~np.isnan(x)
    np.testing.assert_allclose(filled[known], x[known])
    assert np.isfinite(filled).all()
    assert plain.impute().table is not None


def test_other_y_is_ignored_with_a_warning():
    with pytest.warns(DataWarning, match=r"y is not a behavior \(ndarray\) and is ignored"):
        model = dv.DualViewMixture(**QUICK).fit(FORUM.features, np.arange(20))
    assert model.behavior_ is None


def test_unfitted():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        dv.DualViewMixture().predict_outcome(FORUM.participation)


def test_pickle():
    model = dv.DualViewMixture(**QUICK).fit(FORUM.features, behavior())
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.posterior_["z"], model.posterior_["z"])
    np.testing.assert_allclose(
        again.predict_outcome(FORUM.test.participation).mean,
        model.predict_outcome(FORUM.test.participation).mean,
    )

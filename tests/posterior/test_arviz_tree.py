"""The whole tree: what is in it, and every function of ArviZ that takes such a tree."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import arviz_stats
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import log_expit
from scipy.stats import gamma, multivariate_normal, norm, wishart

import dualview as dv
from checks import ACCEPT
from dualview.errors import InputError
from dualview.evaluation.comparison import observation_scores
from dualview.posterior.draws import tree as trees
from dualview.posterior.draws.log_priors import log_priors
from dualview.posterior.observations import fitted_model
from dualview.views import GaussianView

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning",
    "ignore::RuntimeWarning",
    "ignore::FutureWarning",
    "ignore::DeprecationWarning",
)

N_USERS, N_THREADS = 16, 24
FORUM = dv.datasets.agreement(N_USERS, N_THREADS, seed=1)
LENGTH: dict[str, Any] = {"n_warmup": 60, "n_draws": 40, "n_chains": 2}


def threads() -> dv.SharedOutcome:
    names = [f"thread {t}" for t in range(N_THREADS)]
    participation = pd.DataFrame(
        FORUM.participation, index=names, columns=[f"user {u}" for u in range(N_USERS)]
    )
    hour = np.random.default_rng(0).standard_normal((N_THREADS, 1))
    return dv.SharedOutcome(participation, FORUM.outcome, pd.DataFrame(hour, columns=["hour"]))


def panel(kind: str) -> Any:
    rng = np.random.default_rng(2)
    user, design = np.repeat(np.arange(N_USERS), 4), rng.standard_normal((4 * N_USERS, 2))
    odds = (design * np.repeat(rng.standard_normal((N_USERS, 2)), 4, axis=0)).sum(axis=1)
    if kind == "binary":
        return dv.BinaryOutcomes(user, design, rng.random(len(odds)) < 1 / (1 + np.exp(-odds)))
    return dv.UserRegression(
        user,
        design,
        odds + rng.standard_normal(len(odds)),
        noise="cluster" if kind == "noisy" else "shared",
    )


def fitted(kind: str) -> dv.DualViewMixture:
    if kind == "threads":
        return dv.DualViewMixture(**LENGTH, link="linear").fit(FORUM.features, threads())
    if kind == "features":
        return dv.DualViewMixture(**LENGTH).fit(FORUM.features)
    if kind == "binary":
        return dv.DualViewMixture(pooling="cluster", **LENGTH).fit(FORUM.features, panel(kind))
    return dv.DualViewMixture(2, **LENGTH).fit(None, panel(kind))


KINDS = ("threads", "features", "binary", "noisy")


@pytest.fixture(scope="module")
def models() -> dict[str, dv.DualViewMixture]:
    return {kind: fitted(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def forest(models: dict[str, dv.DualViewMixture]) -> dict[str, xr.DataTree]:
    return {kind: model.posterior_.to_arviz(n_prior=60) for kind, model in models.items()}


def test_coordinates_have_the_ids(forest: dict[str, xr.DataTree]) -> None:
    tree = forest["threads"]
    assert tree["observed_data"]["outcome"].sel(observation="thread 3") == FORUM.outcome[3]
    assert (
        tree["constant_data"]["participation"].sel(observation="thread 3", user="user 5")
        == FORUM.participation[3, 5]
    )
    assert tree["posterior_predictive"]["features"].sel(user="user 2").dims == (
        "chain",
        "draw",
        "feature",
    )
    np.testing.assert_array_equal(tree["observed_data"]["features"], FORUM.features)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"], tree["posterior"]["log_joint"])
    np.testing.assert_array_equal(
        tree["constant_data"]["n_participants"], (FORUM.participation > 0).sum(axis=1)
    )


def a_table() -> pd.DataFrame:
    """A number with missing cells, a count, a rating and a category."""
    rng = np.random.default_rng(4)
    group = np.arange(N_USERS) % 2
    users = pd.DataFrame(
        {
            "height": 3.0 * group + rng.standard_normal(N_USERS),
            "posts": rng.poisson(2.0 + 10.0 * group),
            "grade": pd.Categorical.from_codes(
                np.minimum(rng.integers(0, 3, N_USERS) + group, 2), ["low", "some", "high"], True
            ),
            "town": np.array(["here", "there"])[rng.integers(0, 2, N_USERS)],
        },
        index=[f"user {u}" for u in range(N_USERS)],
    )
    users.loc[users.index[::5], "height"] = np.nan
    return users


def test_tables_have_replicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded as the table is: counts are whole, ratings and categories have their levels;
    observed cells may be missing."""
    users = a_table()
    model = dv.DualViewMixture(**LENGTH, columns={"posts": "count", "town": "nominal"}).fit(users)
    tree = model.posterior_.to_arviz(n_prior=20)
    observed, names = tree["observed_data"], ["height", "posts", "grade"]
    np.testing.assert_array_equal(
        np.isnan(observed["features"].sel(feature="height")), users["height"].isna()
    )
    np.testing.assert_allclose(observed["features"].sel(feature="posts"), users["posts"])
    np.testing.assert_array_equal(
        observed["features"].sel(feature="grade"), users["grade"].cat.codes
    )
    for group in ("posterior_predictive", "prior_predictive"):
        drawn = tree[group]["features"]
        assert list(drawn.coords["feature"].values) == names
        assert np.isfinite(drawn.sel(feature=["height", "grade"])).all()
        assert set(np.unique(drawn.sel(feature="grade"))) <= {0.0, 1.0, 2.0}
        assert set(np.unique(tree[group]["codes"].sel(category="town"))) == {0, 1}
    posts = tree["posterior_predictive"]["features"].sel(feature="posts")
    np.testing.assert_array_equal(posts, np.round(posts))
    assert posts.min() >= 0.0
    for column in ("height", "posts"):  # users of each group are like it
        means = (
            tree["posterior_predictive"]["features"]
            .sel(feature=column)
            .median(("chain", "draw"))
            .values
        )
        assert means[1::2].mean() > means[::2].mean()
    monkeypatch.setattr(trees, "CELLS", 400)  # room for some users only
    monkeypatch.setattr(trees, "_FEWEST_DRAWS", 10)
    model.posterior_.save(tmp_path / "draws.nc", whole=True)
    again = dv.load(tmp_path / "draws.nc")
    assert again.features is None
    np.testing.assert_array_equal(again.cells.low, model.posterior_.cells.low)
    assert again.cells.equals(model.posterior_.cells)
    kept = again.to_arviz()
    assert (
        kept["observed_data"].sizes["user"] == kept["posterior_predictive"].sizes["user"] < N_USERS
    )


def test_features_of_all_users_are_saved(
    models: dict[str, dv.DualViewMixture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that have room for some of them only do not take the others from predictions."""
    monkeypatch.setattr(trees, "CELLS", 400)
    monkeypatch.setattr(trees, "_FEWEST_DRAWS", 10)
    models["threads"].posterior_.save(tmp_path / "draws.nc", whole=True)
    again = dv.load(tmp_path / "draws.nc")
    np.testing.assert_array_equal(again.features, FORUM.features)
    kept = again.to_arviz()
    assert (
        kept["observed_data"].sizes["user"] == kept["posterior_predictive"].sizes["user"] < N_USERS
    )


def test_likelihoods_are_those_of_the_data(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    tree, post = forest["threads"], models["threads"].posterior_
    expected = post["latent"] @ FORUM.participation.T
    covariates = tree["constant_data"]["covariates"].values
    expected = expected + post["coefficients"] @ covariates.T
    wanted = norm(expected, post["noise_precision"][..., None] ** -0.5).logpdf(FORUM.outcome)
    np.testing.assert_allclose(tree["log_likelihood"]["outcome"], wanted, rtol=1e-8)
    np.testing.assert_allclose(tree["expected"]["outcome"], expected, rtol=1e-10)
    observations = panel("binary")
    odds = np.einsum(
        "cduq,uq->cdu",
        models["binary"].posterior_["latent"][:, :, observations.user],
        observations.design,
    )
    wanted = log_expit((2 * observations.outcome - 1) * odds)
    np.testing.assert_allclose(forest["binary"]["log_likelihood"]["outcome"], wanted, atol=1e-10)


def test_likelihoods_of_features_are_those_of_the_clusters(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    post, values = (
        models["features"].posterior_,
        forest["features"]["log_likelihood"]["features"].values,
    )
    units, table = post.spec.units["features"], post.components
    for draw in (0, 77):
        own = table["owner"] == draw
        for user in (0, 9):
            k = post.flat("z")[draw, user]
            factor = table["features.factors"][own][k]
            covariance = units.factor @ np.linalg.inv(factor @ factor.T) @ units.factor.T
            law = multivariate_normal(units.vectors(table["features.means"][own][k]), covariance)
            assert values.reshape(-1, N_USERS)[draw, user] == pytest.approx(
                law.logpdf(FORUM.features[user])
            )


def test_replicates_scatter_about_their_locations(forest: dict[str, xr.DataTree]) -> None:
    tree = forest["threads"]
    away = (tree["posterior_predictive"]["outcome"] - tree["expected"]["outcome"]) / tree[
        "expected"
    ]["noise_sd"]
    assert abs(float(away.mean())) * np.sqrt(away.size) < ACCEPT
    assert abs(float((away**2).mean()) - 1) * np.sqrt(away.size / 2) < ACCEPT
    chances = 1 / (1 + np.exp(-forest["binary"]["expected"]["outcome"].values))
    drawn = forest["binary"]["posterior_predictive"]["outcome"].values
    assert abs((drawn - chances).sum()) < ACCEPT * np.sqrt((chances * (1 - chances)).sum())


def test_replicates_of_features_have_the_spread_of_the_clusters(
    models: dict[str, dv.DualViewMixture],
) -> None:
    """Their log likelihoods are those of normal vectors: D/2 below the height of the density on
    average."""
    post = models["features"].posterior_
    tree = post.to_arviz(["posterior_predictive", "log_likelihood"], seed=3)
    units, table = post.spec.units["features"], post.components
    drawn = units.to_working(
        tree["posterior_predictive"]["features"].values.reshape(-1, N_USERS, 2)
    )
    rows = np.searchsorted(table["owner"], np.arange(len(drawn)))[:, None] + post.flat("z")
    away = drawn - table["features.means"][rows]
    squares = (
        (np.swapaxes(table["features.factors"][rows], -1, -2) @ away[..., None])[..., 0] ** 2
    ).sum(axis=-1)
    assert abs(squares.mean() - 2) * np.sqrt(squares.size / 4) < ACCEPT


def test_priors_of_the_bases_are_those_of_the_sampler(
    models: dict[str, dv.DualViewMixture],
) -> None:
    """Up to a constant, by SciPy's densities, (M4) to (M7)."""
    for kind in ("threads", "noisy"):
        post = models[kind].posterior_
        model = fitted_model(post, models[kind].behavior_)
        found, view = log_priors(post, model), model.views["behavior"]
        assert isinstance(view, GaussianView)
        means, precisions, covariances, dofs = post.base("behavior", view.base_shapes).values()
        n_dims = means.shape[1]
        wanted = norm.logpdf(means).sum(axis=1)
        for matrices, more in (
            (precisions, view.hyperprior.of_means),
            (covariances, view.hyperprior.of_spreads),
        ):
            dof = n_dims - 1 + more
            prior = wishart(dof, np.eye(n_dims) / dof)
            wanted += prior.logpdf(np.moveaxis(matrices, 0, -1))
        spare = dofs - (n_dims - 1 + view.hyperprior.least_of_vectors)
        wanted += -1.5 * np.log(spare) - 0.5 * n_dims / spare
        assert np.ptp(found["behavior.base"] - wanted) < 1e-7 * np.abs(wanted).max()


def test_priors_add_up_to_the_joint_density(models: dict[str, dv.DualViewMixture]) -> None:
    """The log density of observations and parameters, less the likelihood, changes with the noise
    as its prior does."""
    post = models["threads"].posterior_
    model = fitted_model(post, models["threads"].behavior_)
    rng = np.random.default_rng(0)
    state = replace(model.draw_prior(rng), latent=rng.standard_normal((N_USERS, 1)))
    assert model.likelihood is not None
    values = []
    for noise in (0.5, 2.0, 7.0):
        params = state.params | {"noise_precision": noise}
        reported = {
            name: np.asarray(value)[None]
            for name, value in model.likelihood.reported(params).items()
        }
        prior = float(model.likelihood.log_priors(reported, state.z[None])["noise_precision"][0])
        inner = model.likelihood.inner  # type: ignore[attr-defined]
        residual = inner.residual(
            model.likelihood.functions(state.latent, params), params["coefficients"]
        )
        likelihood = 0.5 * len(residual) * np.log(noise) - 0.5 * noise * residual @ residual
        values.append(model.likelihood.log_density(state.latent, params) - likelihood - prior)
    assert np.ptp(values) < 1e-8


def test_noise_of_clusters_counts_once_for_each(models: dict[str, dv.DualViewMixture]) -> None:
    post = models["noisy"].posterior_
    model = fitted_model(post, models["noisy"].behavior_)
    variance, dof = model.likelihood.family.noise.prior  # type: ignore[union-attr]
    noise = post.flat("noise_precision")
    wanted = [
        sum((0.5 * dof - 1) * np.log(s) - 0.5 * dof * variance * s for s in np.unique(row))
        for row in noise
    ]
    np.testing.assert_allclose(log_priors(post, model)["noise_precision"], wanted, rtol=1e-8)


def test_the_prior_is_the_models(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    prior = forest["threads"]["prior"]
    assert set(prior.data_vars) == set(models["threads"].posterior_.names)
    alpha = models["threads"].posterior_.to_arviz(["prior"], n_prior=2000)["prior"]["alpha"].values
    assert abs((alpha < 0.1).mean() - gamma(0.25, scale=4.0).cdf(0.1)) < ACCEPT * np.sqrt(
        0.25 / 2000
    )
    assert forest["threads"]["prior_predictive"]["outcome"].dims == ("chain", "draw", "observation")


def test_saved_and_read_back(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree], tmp_path: Path
) -> None:
    models["threads"].posterior_.save(tmp_path / "whole.nc", whole=True)
    again = dv.load(tmp_path / "whole.nc")
    tree = again.to_arviz()
    assert set(tree.children) == set(forest["threads"].children)
    assert arviz_stats.loo(tree, var_name="outcome").elpd == pytest.approx(
        arviz_stats.loo(forest["threads"], var_name="outcome").elpd
    )
    np.testing.assert_array_equal(again["latent"], models["threads"].posterior_["latent"])
    forest["noisy"].to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    read = xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf")
    xr.testing.assert_equal(
        read["log_likelihood"].to_dataset(), forest["noisy"]["log_likelihood"].to_dataset()
    )


def test_a_posterior_without_observations_asks_for_them(
    models: dict[str, dv.DualViewMixture], tmp_path: Path
) -> None:
    models["threads"].posterior_.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    assert set(again.to_arviz().children) == {
        "posterior",
        "components",
        "working",
        "partition_estimates",
        "observed_data",
        "sample_stats",
    }
    with pytest.raises(
        InputError, match="read from a file does not hold them: pass them as behavior="
    ):
        again.to_arviz(["log_likelihood"])
    tree = again.to_arviz(["log_likelihood"], behavior=threads())
    whole = models["threads"].posterior_.to_arviz(["log_likelihood"])
    np.testing.assert_allclose(
        tree["log_likelihood"]["outcome"], whole["log_likelihood"]["outcome"]
    )
    with pytest.raises(
        InputError,
        match="must be that of the fit, a SharedOutcome of 16 users; got a BinaryOutcomes",
    ):
        again.to_arviz(behavior=panel("binary"))
    with pytest.raises(InputError, match="with 24 observations; got 10"):
        again.to_arviz(behavior=threads().take(np.arange(10)))


def test_large_data_are_subsampled(
    models: dict[str, dv.DualViewMixture], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    post = models["threads"].posterior_
    monkeypatch.setattr(trees, "CELLS", 400)
    monkeypatch.setattr(trees, "_FEWEST_DRAWS", 20)
    tree = post.to_arviz()
    assert tree["posterior"].sizes["draw"] == tree["log_likelihood"].sizes["draw"] == 20
    assert tree["observed_data"].sizes["observation"] == 10
    np.testing.assert_array_equal(tree["posterior"]["draw"], tree["posterior_predictive"]["draw"])
    chosen = tree["observed_data"]["observation"].values
    np.testing.assert_array_equal(
        tree["observed_data"]["outcome"], FORUM.outcome[[int(name.split()[1]) for name in chosen]]
    )
    assert tree["observed_data"].sizes["user"] == 5
    post.save(tmp_path / "whole.nc", whole=True)
    again = dv.load(tmp_path / "whole.nc")
    assert again.n_draws == 40
    assert again.to_arviz()["posterior"].sizes["draw"] == 20
    few = post.to_arviz(["log_likelihood"], n_draws=5, n_observations=3)
    assert dict(few["log_likelihood"]["outcome"].sizes) == {"chain": 2, "draw": 5, "observation": 3}


def test_scores_need_no_name(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    """ArviZ's default takes the only log likelihood there is: of the outcomes, or of the features
    where there are none."""
    for kind, tree in forest.items():
        assert list(tree["log_likelihood"].data_vars) == [scored(kind)]
        assert arviz_stats.loo(tree).elpd == pytest.approx(
            arviz_stats.loo(tree, var_name=scored(kind)).elpd
        )
    assert set(
        arviz_stats.compare({"one": forest["threads"], "other": forest["threads"]}).index
    ) == {"one", "other"}
    both = models["threads"].posterior_.to_arviz(
        ["log_likelihood"], variables=["outcome", "features"]
    )
    assert set(both["log_likelihood"].data_vars) == {"outcome", "features"}
    assert arviz_stats.loo(both, var_name="outcome").elpd == pytest.approx(
        arviz_stats.loo(forest["threads"]).elpd
    )
    tree = models["threads"].posterior_.to_arviz(variables=["outcome"], n_prior=5)
    assert (
        list(tree["prior_predictive"].data_vars)
        == list(tree["observed_data"].data_vars)
        == ["outcome"]
    )


def test_outcomes_left_out_are_a_group_on_request(
    models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    assert "left_out" not in forest["threads"].children
    tree = models["threads"].posterior_.to_arviz(["left_out"])
    tree["log_likelihood"] = tree["left_out"]
    theirs = arviz_stats.loo(tree, pointwise=True, reff=1.0).elpd_i.values
    np.testing.assert_allclose(
        theirs, observation_scores(models["threads"]).elpd, atol=0.3
    )  # tails differ by reff
    few = models["threads"].posterior_.to_arviz(["left_out"], n_observations=3, n_draws=5)[
        "left_out"
    ]["outcome"]
    assert few.shape == (2, 5, 3)
    names = list(few.coords["observation"].values)
    np.testing.assert_array_equal(
        few, tree["left_out"]["outcome"].sel(observation=names, draw=few.coords["draw"])
    )
    with pytest.raises(
        InputError, match="left_out needs outcomes given all others, which a fit without a behavior"
    ):
        models["features"].posterior_.to_arviz(["left_out"])


def test_bad_requests() -> None:
    post = fitted("features").posterior_
    with pytest.raises(InputError, match="groups must be a list of names among observed_data"):
        post.to_arviz("prior")
    with pytest.raises(InputError, match="groups must be a list"):
        post.to_arviz(["posteriors"])
    with pytest.raises(
        InputError, match="variables must be a list of names among outcome, features"
    ):
        post.to_arviz(variables=["outcomes"])
    with pytest.raises(InputError, match="n_prior must be a whole number"):
        post.to_arviz(n_prior=0)
    with pytest.raises(InputError, match="n_draws must be a whole number"):
        post.to_arviz(n_draws=0)


SCALARS = ["n_clusters", "log_joint"]
Call = Callable[[xr.DataTree, str], Any]

STATISTICS: dict[str, Call] = {
    "bayes_factor": lambda tree, _: arviz_stats.bayes_factor(tree, ["n_clusters"], ref_vals=2.0),
    "bayesian_r2": lambda tree, kind: arviz_stats.bayesian_r2(
        tree, pred_mean="outcome", scale="noise_sd" if kind == "threads" else None, group="expected"
    ),
    "ci_in_rope": lambda tree, _: arviz_stats.ci_in_rope(tree, rope=(-1, 1), var_names=SCALARS),
    "compare": lambda tree, kind: arviz_stats.compare(
        {"one": tree, "other": tree}, var_name=scored(kind)
    ),
    "ecdf": lambda tree, _: arviz_stats.ecdf(
        tree["posterior"].dataset, var_names=SCALARS
    ),  # it takes no tree yet
    "ess": lambda tree, _: arviz_stats.ess(tree),
    "eti": lambda tree, _: arviz_stats.eti(tree),
    "get_log_likelihood": lambda tree, kind: arviz_stats.get_log_likelihood(tree, scored(kind)),
    "hdi": lambda tree, _: arviz_stats.hdi(tree, var_names=SCALARS),
    "histogram": lambda tree, _: arviz_stats.histogram(tree, var_names=SCALARS),
    "kde": lambda tree, _: arviz_stats.kde(tree, var_names=["log_joint"]),
    "kl_divergence": lambda tree, _: arviz_stats.kl_divergence(
        tree, tree, var_names=["log_joint"], num_samples=50
    ),
    "loo": lambda tree, kind: arviz_stats.loo(tree, var_name=scored(kind), pointwise=True),
    "loo_expectations": lambda tree, _: arviz_stats.loo_expectations(tree, var_name="outcome"),
    "loo_i": lambda tree, kind: arviz_stats.loo_i(0, tree, var_name=scored(kind)),
    "loo_metrics": lambda tree, _: arviz_stats.loo_metrics(tree, var_name="outcome"),
    "loo_pit": lambda tree, _: arviz_stats.loo_pit(tree, var_names="outcome"),
    "loo_r2": lambda tree, _: arviz_stats.loo_r2(tree, var_name="outcome"),
    "loo_score": lambda tree, _: arviz_stats.loo_score(tree, var_name="outcome"),
    "loo_subsample": lambda tree, kind: arviz_stats.loo_subsample(
        tree, observations=5, var_name=scored(kind)
    ),
    "update_subsample": lambda tree, kind: arviz_stats.update_subsample(
        arviz_stats.loo_subsample(tree, observations=5, var_name=scored(kind), pointwise=True),
        tree,
        observations=3,
        var_name=scored(kind),
    ),
    "mcse": lambda tree, _: arviz_stats.mcse(tree),
    "mean": lambda tree, _: arviz_stats.mean(tree),
    "median": lambda tree, _: arviz_stats.median(tree),
    "metrics": lambda tree, kind: arviz_stats.metrics(
        tree, var_name="outcome", kind="acc" if kind == "binary" else "rmse"
    ),
    "mode": lambda tree, _: arviz_stats.mode(tree, var_names=SCALARS),
    "psense": lambda tree, _: arviz_stats.psense(tree, var_names=SCALARS),
    "psense_summary": lambda tree, _: arviz_stats.psense_summary(tree, var_names=SCALARS),
    "qds": lambda tree, _: arviz_stats.qds(tree, var_names=["log_joint"]),
    "residual_r2": lambda tree, _: arviz_stats.residual_r2(
        tree, pred_mean="outcome", obs_name="outcome", group="expected"
    ),
    "rhat": lambda tree, _: arviz_stats.rhat(tree),
    "rhat_nested": lambda tree, _: arviz_stats.rhat_nested(
        tree, superchain_ids=[0, 1], var_names=SCALARS
    ),
    "summary": lambda tree, _: arviz_stats.summary(tree),
    "thin": lambda tree, _: arviz_stats.thin(tree, factor=2),
    "wasserstein": lambda tree, _: arviz_stats.wasserstein(
        tree, tree, var_names=["log_joint"], num_samples=50
    ),
    "weight_predictions": lambda tree, kind: arviz_stats.weight_predictions(
        2 * [only(tree, scored(kind))]
    ),
}
OUTCOMES_ONLY = {  # they take numbers; features are vectors
    "bayesian_r2", "loo_expectations", "loo_metrics", "loo_pit", "loo_r2", "loo_score", "metrics",
    "residual_r2",
}  # fmt: skip
EXCUSED = {
    "bfmi": "needs the energy of Hamiltonian Monte Carlo",
    "generate_survival_curves": "needs censored times",
    "kaplan_meier": "needs censored times",
    "get_function": "takes no tree",
    "loo_approximate_posterior": "needs the density of an approximation that was sampled",
    "loo_kfold": "needs a wrapper that fits anew",
    "loo_moment_match": "needs parameters on the whole line",
    "reloo": "needs a wrapper that fits anew",
}


def only(tree: xr.DataTree, name: str) -> xr.DataTree:
    """The tree with one observed variable, as weight_predictions needs it."""
    groups = ("observed_data", "posterior_predictive")
    return xr.DataTree.from_dict({group: tree[group].to_dataset()[[name]] for group in groups})


def scored(kind: str) -> str:
    return "features" if kind == "features" else "outcome"


def test_every_statistic_is_called_or_excused() -> None:
    public = {
        name
        for name, part in vars(arviz_stats).items()
        if inspect.isfunction(part) and not name.startswith("_")
    }
    assert public == set(STATISTICS) | set(EXCUSED)


GENERAL = {  # they look at draws only, which all kinds have alike
    "bayes_factor", "ci_in_rope", "ecdf", "ess", "eti", "hdi", "histogram", "kde", "kl_divergence",
    "mcse", "mean", "median", "mode", "qds", "rhat", "rhat_nested", "summary", "thin",
    "wasserstein",
}  # fmt: skip


def statistics() -> list[Any]:
    return [
        pytest.param(name, kind, marks=[pytest.mark.slow] * (name in GENERAL and kind != "threads"))
        for name in STATISTICS
        for kind in KINDS
    ]


@pytest.mark.parametrize(("name", "kind"), statistics())
def test_statistics_take_the_tree(name: str, kind: str, forest: dict[str, xr.DataTree]) -> None:
    if kind == "features" and name in OUTCOMES_ONLY:
        pytest.skip("this model has no outcomes")
    assert STATISTICS[name](forest[kind], kind) is not None


PLOTS: dict[str, dict[str, Any]] = {
    "plot_autocorr": {"var_names": SCALARS},
    "plot_bf": {"var_names": "n_clusters", "ref_val": 2.0},
    "plot_convergence_dist": {"var_names": SCALARS},
    "plot_dgof": {"var_names": ["log_joint"]},
    "plot_dgof_dist": {"var_names": ["log_joint"]},
    "plot_dist": {"var_names": SCALARS},
    "plot_ess": {"var_names": SCALARS},
    "plot_ess_evolution": {"var_names": SCALARS},
    "plot_forest": {"var_names": SCALARS},
    "plot_loo_pit": {"var_names": "outcome"},
    "plot_mcse": {"var_names": SCALARS},
    "plot_pair": {"var_names": SCALARS},
    "plot_pair_focus": {"focus_var": "log_joint", "var_names": ["n_clusters"]},
    "plot_parallel": {"var_names": SCALARS},
    "plot_ppc_dist": {"var_names": "outcome"},
    "plot_ppc_interval": {"var_names": "outcome"},
    "plot_ppc_pava": {"var_names": "outcome"},
    "plot_ppc_pit": {"var_names": "outcome"},
    "plot_ppc_tstat": {"var_names": "outcome"},
    "plot_prior_posterior": {"var_names": ["behavior.base_dof"]},
    "plot_psense_dist": {"var_names": SCALARS},
    "plot_psense_quantities": {"var_names": SCALARS},
    "plot_rank": {"var_names": SCALARS},
    "plot_rank_dist": {"var_names": SCALARS},
    "plot_ridge": {"var_names": SCALARS},
    "plot_trace": {"var_names": SCALARS},
    "plot_trace_dist": {"var_names": SCALARS},
}
EXCUSED_PLOTS = {
    "add_bands": "takes a picture",
    "add_lines": "takes a picture",
    "combine_plots": "takes the functions above",
    "plot_compare": "takes a table",
    "plot_ecdf_pit": "takes ranks of simulations",
    "plot_energy": "needs the energy of Hamiltonian Monte Carlo",
    "plot_khat": "takes the scores of loo",
    "plot_lm": "needs one covariate on the axis",
    "plot_ppc_censored": "needs censored times",
    "plot_ppc_pava_residuals": "needs one covariate on the axis",
    "plot_ppc_rootogram": "needs counts",
}
BINARY_ONLY = {"plot_ppc_pava"}
ONE_VARIABLE = {"plot_loo_pit"}  # they look at everything observed
OWN_ALPHA = {
    "plot_psense_dist",
    "plot_psense_quantities",
}  # they call a dimension of their own alpha
BROKEN = {
    "plot_dgof_dist",
    "plot_rank_dist",
    "plot_trace_dist",
} | OWN_ALPHA  # arviz-plots 0.8.0 with an xarray of 2026
CONTINUOUS_ONLY = {"plot_prior_posterior"}  # a pooled view has no degrees of freedom


def arviz_plots() -> Any:
    """The package, where it is installed and works with this matplotlib; ``make test-arviz`` has
    such an environment."""
    try:
        return pytest.importorskip(
            "arviz_plots", reason="arviz-plots is not installed", exc_type=ImportError
        )
    except AttributeError as error:
        pytest.skip(f"arviz-plots does not work with matplotlib {mpl.__version__}: {error}")


def test_every_plot_is_called_or_excused() -> None:
    module = arviz_plots()
    public = {
        name
        for name, part in vars(module).items()
        if inspect.isfunction(part) and not name.startswith("_")
    }
    assert public <= set(PLOTS) | set(EXCUSED_PLOTS)


@pytest.mark.parametrize("kind", ["threads", "binary", "noisy"])
@pytest.mark.parametrize("name", PLOTS)
def test_plots_take_the_tree(
    name: str, kind: str, models: dict[str, dv.DualViewMixture], forest: dict[str, xr.DataTree]
) -> None:
    module = arviz_plots()
    if (name in BINARY_ONLY and kind != "binary") or (name in CONTINUOUS_ONLY and kind == "binary"):
        pytest.skip("not for this kind of outcome")
    if name in BROKEN and module.__version__ == "0.8.0" and xr.__version__ >= "2026":
        pytest.skip(
            f"{name} of arviz-plots 0.8.0, the last for Python 3.11, works with an xarray before "
            "2026 only"
        )
    tree = forest[kind].copy()
    if name in ONE_VARIABLE:
        tree = models[kind].posterior_.to_arviz(variables=["outcome"], n_prior=2)
    if name in OWN_ALPHA:
        tree["posterior"] = xr.DataTree(
            tree["posterior"].to_dataset().rename(alpha="concentration")
        )
    assert getattr(module, name)(tree, backend="none", **PLOTS[name]) is not None

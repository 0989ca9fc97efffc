"""Averages of clusters' members in every draw: against plain loops, renumbered components and known
truths."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dualview as dv
from dualview.columns import Column
from dualview.errors import AbsentError, InputError
from dualview.posterior.partition.averages import (
    ComponentAverages,
    Parameter,
    UserAverages,
    profiles_of,
    share_above,
)
from dualview.posterior.summaries import summarize

N_USERS = 18
SIDE = np.arange(N_USERS) % 2
ENDS = [0.05, 0.5, 0.95]
NAMES = ["low", "median", "high"]


def table() -> pd.DataFrame:
    """Two sides of users, with columns of every kind."""
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {
            "height": 160.0 + 20.0 * SIDE + 3.0 * rng.normal(size=N_USERS),
            "posts": rng.poisson(np.where(SIDE == 1, 25, 1)),
            "grade": pd.Categorical.from_codes(
                np.clip(SIDE + rng.integers(0, 2, N_USERS), 0, 2), ["c", "b", "a"], ordered=True
            ),
            "town": np.array(["A", "B", "C"])[np.where(rng.random(N_USERS) < 0.3, 2, SIDE)],
        }
    )
    users.loc[2, "height"] = None
    return users


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    rng = np.random.default_rng(1)
    user, dose = np.repeat(np.arange(N_USERS), 3), rng.normal(size=3 * N_USERS)
    outcome = 4.0 * SIDE[user] + dose + 0.1 * rng.normal(size=len(user))
    design = pd.DataFrame({"intercept": 1.0, "dose": dose})
    columns = {"posts": {"kind": "count", "scale": "log1p"}}
    return dv.DualViewMixture(
        columns=columns, engine=dv.Gibbs(n_warmup=8), n_draws=12, n_chains=2, n_jobs=1
    ).fit(table(), dv.UserRegression(user, design, outcome))


def by_loops(post: dv.Posterior, users: Any) -> dict[tuple[str, str], np.ndarray]:
    """The averages over some users in every draw, on the scale of the model, by column and level:
    user by user and draw by draw."""
    parts, units, owner = post.components, post.spec.units["features"], post.components["owner"]
    names = post.feature_names
    cuts = [-np.inf, *post.spec.codebook.of("features")[names.index("grade")].cuts, np.inf]
    found: dict[tuple[str, str], list[float]] = {}
    for t, z in enumerate(post.flat("z")):
        sums: dict[tuple[str, str], float] = {}
        rows = [r for r in range(len(owner)) if owner[r] == t]
        for u in users:
            row = rows[z[u]]
            mean = units.vectors(parts["features.means"][row])
            factor = parts["features.factors"][row]
            covariance = units.factor @ np.linalg.inv(factor @ factor.T) @ units.factor.T
            own = {(name, ""): mean[names.index(name)] for name in ("height", "posts")}
            d = names.index("grade")
            below = norm.cdf(cuts, mean[d], np.sqrt(covariance[d, d]))
            own |= {("grade", level): below[i + 1] - below[i] for i, level in enumerate("cba")}
            shares = np.exp(parts["categories.log_shares"][row])
            own |= {("town", level): shares[i] for i, level in enumerate("ABC")}
            latent = post.flat("latent")[t, u]
            own |= {(f"latent {name}", ""): latent[i] for i, name in enumerate(post.latent_names)}
            for key, value in own.items():
                sums[key] = sums.get(key, 0.0) + value / len(users)
        for key, value in sums.items():
            found.setdefault(key, []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def shown(key: tuple[str, str], values: np.ndarray) -> np.ndarray:
    return np.maximum(np.expm1(values), 0.0) if key[0] == "posts" else values


def by_key(found: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    return {(row["column"], row["level"]): row for _, row in found.iterrows()}


def test_averages_are_those_of_plain_loops(model: dv.DualViewMixture) -> None:
    post, cluster = model.posterior_, model.n_clusters_ - 1
    groups = [np.flatnonzero(model.labels_ == k) for k in (cluster, 0)]
    own, other, everybody = (by_loops(post, users) for users in (*groups, np.arange(N_USERS)))
    found = by_key(model.profiles(cluster, probability=0.9))
    less = by_key(model.profiles([cluster], against=0, probability=0.9))
    assert set(found) == set(less) == set(own)
    for key, draws in own.items():
        values = shown(key, draws)
        np.testing.assert_allclose(found[key]["mean"], values.mean())
        np.testing.assert_allclose(found[key]["sd"], values.std(ddof=1))
        ends = found[key][NAMES].astype(float)
        np.testing.assert_allclose(ends, np.quantile(values, ENDS))
        np.testing.assert_allclose(found[key]["above"], np.mean(draws > everybody[key]))
        gap = values - shown(key, other[key])
        np.testing.assert_allclose(less[key]["mean"], gap.mean(), atol=1e-12)
        ends = less[key][NAMES].astype(float)
        np.testing.assert_allclose(ends, np.quantile(gap, ENDS), atol=1e-12)


def test_contrasts_are_in_standard_deviations_of_users(model: dv.DualViewMixture) -> None:
    """Of a level these are of its indicator, of a latent number of the users' own."""
    post = model.posterior_
    users = np.flatnonzero(model.labels_ == 0)
    own, everybody = by_loops(post, users), by_loops(post, np.arange(N_USERS))
    found = by_key(model.profiles(0))
    p = everybody["town", "A"]
    expected = ((own["town", "A"] - p) / np.sqrt(p * (1.0 - p))).mean()
    np.testing.assert_allclose(found["town", "A"]["standardized"], expected)
    latent = post.flat("latent")
    key = (f"latent {post.latent_names[0]}", "")
    expected = ((own[key] - everybody[key]) / latent[:, :, 0].std(axis=1)).mean()
    np.testing.assert_allclose(found[key]["standardized"], expected)


def test_the_spread_of_numbers_is_that_of_the_mixture() -> None:
    """Inside components and between them, as in draws from them."""
    rng = np.random.default_rng(5)
    means, variances = np.array([[0.0], [10.0], [3.0]]), np.array([[4.0], [1.0], [0.25]])
    z = np.array([[0, 0, 0, 1], [2, 2, 2, 2]])
    found = ComponentAverages(z, np.array([0, 2]), means, variances).spread
    for own, spread in zip(z, found[:, 0], strict=True):
        drawn = rng.normal(means[own, 0], np.sqrt(variances[own, 0]), (100_000, 4)).ravel()
        error = np.sqrt((np.mean((drawn - drawn.mean()) ** 4) - drawn.var() ** 2) / len(drawn))
        assert abs(drawn.var() - spread**2) < 4.5 * error


def renumbered(post: dv.Posterior) -> dv.Posterior:
    """The same draws with components numbered at random in each."""
    rng, tree = np.random.default_rng(2), post.tree.copy(deep=True)
    z, parts = post["z"].copy(), tree["components"].to_dataset()
    order = np.arange(parts.sizes["row"])
    for chain, draw in product(range(post.n_chains), range(post.n_draws)):
        own = (parts["chain"].values == chain) & (parts["draw"].values == draw)
        rows = np.flatnonzero(own)
        place = rng.permutation(len(rows))
        order[rows[place]] = rows
        z[chain, draw] = place[z[chain, draw]]
    tree["posterior"]["z"].values[...] = z
    tree["components"].dataset = parts.isel(row=order)
    return dv.Posterior(tree)


def test_numbers_of_components_do_not_matter(model: dv.DualViewMixture) -> None:
    other = dv.DualViewMixture.from_posterior(renumbered(model.posterior_))
    assert (other.posterior_["z"] != model.posterior_["z"]).any()
    for asked in ({}, {"against": 0}, {"clusters": "everybody"}):
        pd.testing.assert_frame_equal(
            other.profiles(**asked), model.profiles(**asked), rtol=1e-9, atol=1e-12
        )


def test_columns_that_distinguish_most_come_first(model: dv.DualViewMixture) -> None:
    found = model.profiles()
    assert found["cluster"].unique().tolist() == list(range(model.n_clusters_))
    for _, rows in found.groupby("cluster"):
        far = rows["standardized"].abs().groupby(rows["column"]).max()
        assert far[rows["column"].unique()].is_monotonic_decreasing
        assert rows.loc[rows["column"] == "grade", "level"].tolist() == ["c", "b", "a"]
    quantities = dict(zip(found["column"], found["quantity"], strict=True))
    assert quantities["height"] == "mean"
    assert quantities["posts"] == "typical count"
    assert quantities["grade"] == quantities["town"] == "probability"
    assert quantities["latent dose"] == "latent"
    side = int(SIDE[model.labels_ == 0].mean() > 0.5)
    top = by_key(found[found["cluster"] == 0])
    assert np.sign(top["height", ""]["standardized"]) == 2 * side - 1
    assert abs(top["latent dose", ""]["standardized"]) < 1
    assert abs(top["height", ""]["standardized"]) > abs(top["latent dose", ""]["standardized"])


def test_contrasts_turn_around_and_add_up(model: dv.DualViewMixture) -> None:
    there, back = by_key(model.profiles(0, against=1)), by_key(model.profiles(1, against=0))
    for key, row in there.items():
        np.testing.assert_allclose(row["mean"], -back[key]["mean"], atol=1e-12)
        np.testing.assert_allclose(row["low"], -back[key]["high"], atol=1e-12)
        assert row["above"] == pytest.approx(1.0 - back[key]["above"])
    everybody = by_key(model.profiles("everybody"))
    sizes = np.bincount(model.labels_)
    own = [by_key(model.profiles(k)) for k in range(len(sizes))]
    for key in everybody:
        if key[0] != "posts":  # whose averages are of logarithms
            total = sum(n * rows[key]["mean"] for n, rows in zip(sizes, own, strict=True))
            np.testing.assert_allclose(everybody[key]["mean"], total / N_USERS)
    assert all(row["standardized"] == 0 for row in everybody.values())
    assert all(row["above"] == 0.5 for row in everybody.values())


def test_latent_averages_are_those_of_the_summary(model: dv.DualViewMixture) -> None:
    found = model.profiles()
    for cluster in summarize(model.posterior_)["clusters"]:
        rows = by_key(found[found["cluster"] == cluster["cluster"]])
        for name, told in cluster["latent"].items():
            row = rows[f"latent {name}", ""]
            np.testing.assert_allclose([row[end] for end in NAMES], [told[end] for end in NAMES])
            assert row["above"] == told["above"]


def test_counts_and_limits_are_shown_as_they_can_be() -> None:
    values = np.array([-2.0, 0.0, np.log1p(9.0)])
    count = Column("posts", "count", scale="log1p", lowest=0.0)
    np.testing.assert_allclose(Parameter("posts", "", "", count).shown(values), [0.0, 0.0, 9.0])
    limited = Column("share", "limited", limits=(0.0, None))
    np.testing.assert_allclose(
        Parameter("share", "", "", limited).shown(values), [0.0, 0.0, values[2]]
    )
    np.testing.assert_allclose(Parameter("share", "low", "", limited).shown(values), values)


@pytest.mark.parametrize("far", [0.0, 1e9])
def test_draws_that_do_not_tell_two_sets_apart_count_half(far: float) -> None:
    """However far the numbers are from zero."""
    z = np.array([[0, 0, 0, 0, 0, 0], [1, 2, 1, 1, 2, 2], [3, 3, 3, 4, 4, 4], [6, 6, 6, 5, 5, 5]])
    means = far + np.array([0.1, 0.3, 0.7, 1.0, 0.0, 1.0, 0.0])[:, None]
    own, other = np.array([0, 1]), np.array([2, 3, 4, 5])
    averages = ComponentAverages(z, np.array([0, 1, 3, 5]), means, np.ones_like(means))
    away = averages.standardized(own, other)[:, 0]
    assert (np.sign(away) == [0, 0, 1, -1]).all()
    assert share_above(away) == 0.5
    users = UserAverages(means[z])
    np.testing.assert_array_equal(np.sign(users.standardized(own, other)[:, 0]), np.sign(away))


def exact_draws(rng: np.random.Generator, x: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws (n, U) of the components of users with numbers x ~ N(θ_z, 1), and θ (n, 2): z is one of
    two with probability a half, θ ~ N(0, 4). All partitions are counted."""
    every = np.array(list(product([0, 1], repeat=len(x))))
    in_each = np.stack([every == 0, every == 1], axis=-1)
    sizes, sums = in_each.sum(axis=1), (x[:, None] * in_each).sum(axis=1)
    log_density = (-0.5 * np.log1p(4.0 * sizes) + 2.0 * sums**2 / (1.0 + 4.0 * sizes)).sum(axis=1)
    weights = np.exp(log_density - log_density.max())
    chosen = rng.choice(len(every), n, p=weights / weights.sum())
    precision = 0.25 + sizes[chosen]
    theta = sums[chosen] / precision + rng.normal(size=(n, 2)) / np.sqrt(precision)
    return every[chosen], theta


def shares_inside(n_worlds: int, n_draws: int, is_sure: bool) -> np.ndarray:
    """How many 80 % intervals have the truth inside, of the average over the users with the largest
    numbers and of its contrast with everybody. is_sure: who is with whom is not doubted."""
    rng, inside = np.random.default_rng(3), np.zeros(2)
    everybody = np.arange(6)
    for _ in range(n_worlds):
        truth, labels = 2.0 * rng.normal(size=2), rng.integers(0, 2, 6)
        x = truth[labels] + rng.normal(size=6)
        users = np.argsort(x)[3:]
        z, theta = exact_draws(rng, x, n_draws)
        if is_sure:
            same = (z == z[0]).all(axis=1)
            theta, z = theta[same], z[same]
        first = 2 * np.arange(len(z))
        own = ComponentAverages(z + first[:, None], first, theta.reshape(-1, 1), np.ones((1, 1)))
        true = truth[labels]
        for i, (draws, value) in enumerate(
            (
                (own.over(users), true[users].mean()),
                (own.between(users, everybody), true[users].mean() - true.mean()),
            )
        ):
            low, high = np.quantile(draws, [0.1, 0.9])
            inside[i] += low - 1e-12 <= value <= high + 1e-12  # the contrast may be 0
    return inside / n_worlds


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Where users' components are drawn from their exact posterior, and the users were chosen by
    their data. Without the doubts about who is with whom intervals are too narrow."""
    n_worlds, n_draws = 400, 400
    nominal = 0.8 * (n_draws - 1) / (n_draws + 1)  # between interpolated quantiles of draws
    error = np.sqrt(nominal * (1.0 - nominal) / n_worlds)
    assert (np.abs(shares_inside(n_worlds, n_draws, False) - nominal) < 4.5 * error).all()
    assert (shares_inside(n_worlds, n_draws, True) < nominal - 4.5 * error).any()


@pytest.mark.parametrize("cluster", [-1, 99, "all", True, 0.5, [0, "x"]])
def test_clusters_that_there_are_not(model: dv.DualViewMixture, cluster: Any) -> None:
    for asked in ({"clusters": cluster}, {"against": cluster}):
        with pytest.raises(InputError, match=r"A cluster is a number from 0 to \d, as in"):
            model.profiles(**asked)


def test_other_wrong_questions(model: dv.DualViewMixture) -> None:
    with pytest.raises(InputError, match="at least one cluster"):
        model.profiles([])
    with pytest.raises(InputError, match="between 0 and 1"):
        model.profiles(probability=95)
    with pytest.raises(Exception, match="not fitted"):
        dv.DualViewMixture().profiles()


def test_draws_without_components_say_what_is_missing(model: dv.DualViewMixture) -> None:
    tree = model.posterior_.tree.copy()
    del tree["components"]
    with pytest.raises(AbsentError, match="without the components of each draw"):
        profiles_of(dv.Posterior(tree), model.labels_, None, None, 0.95)


def test_a_file_has_all_that_profiles_need(model: dv.DualViewMixture, tmp_path: Path) -> None:
    model.posterior_.save(tmp_path / "fit.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    pd.testing.assert_frame_equal(again.profiles(), model.profiles())


FORUM = dv.datasets.agreement(n_users=10, n_threads=20, seed=0)
THREADS = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
TINY: dict[str, Any] = {"n_draws": 5, "n_chains": 2, "n_jobs": 1}


@pytest.mark.parametrize(
    "kind",
    ["summary", "shards", "no features", pytest.param("several tables", marks=pytest.mark.slow)],
)
def test_profiles_of_other_fits(kind: str, tmp_path: Path) -> None:
    """Summaries keep the components of their whole draws, and fits to shards those of all."""
    fits: dict[str, SimpleNamespace] = {
        "summary": SimpleNamespace(X=FORUM.features, y=THREADS, given={"keep": "summary"}),
        "shards": SimpleNamespace(X=None, y=None, given={"engine": "variational"}),
        "no features": SimpleNamespace(X=None, y=THREADS, given={}),
        "several tables": SimpleNamespace(
            X={name: pd.DataFrame({name: FORUM.features[:, d]}) for d, name in enumerate("ab")},
            y=THREADS,
            given={"agreement": "learned"},
        ),
    }
    fit, gibbs = fits[kind], {"engine": dv.Gibbs(n_warmup=4)}
    X = dv.write_shards(tmp_path / "s", FORUM.features, THREADS) if kind == "shards" else fit.X
    model = dv.DualViewMixture(**TINY | gibbs | fit.given).fit(X, fit.y)
    found, post = by_key(model.profiles("everybody")), model.posterior_
    latent = post.flat("latent").mean(axis=1)
    np.testing.assert_allclose(found["latent", ""]["median"], np.median(latent))
    if kind == "no features":
        assert set(found) == {("latent", "")}
        return
    names = ["a.a", "b.b"] if kind == "several tables" else ["x0", "x1"]
    units, owner = post.spec.units["features"], post.components["owner"]
    for d, name in enumerate(names):
        z = post.flat("z_tables")[:, d] if kind == "several tables" else post.flat("z")
        means = units.vectors(post.components["features.means"])[:, d]
        draws = [means[owner == t][own].mean() for t, own in enumerate(z)]
        np.testing.assert_allclose(found[name, ""]["median"], np.median(draws))

"""CategoricalOutcomes: probabilities against integrals and simulation, symmetry in the levels, a
multinomial probit with known answers, predictions, scores and refusals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import dualview as dv
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.categorical import CategoricalMixture, first_of, log_probabilities
from dualview.behaviors.families.levels import Levels
from dualview.errors import InputError
from dualview.evaluation.comparison import observation_scores
from dualview.numerics import ordered_normals

Array = Any
LEVELS = ("bus", "car", "walk")
N_USERS = 12
USER = np.repeat(np.arange(N_USERS), 5)
X = np.random.default_rng(1).standard_normal((len(USER), 1))


def simulated(seed: int = 0) -> tuple[Array, Array]:
    """Features of two groups, and levels that they prefer."""
    rng, group = np.random.default_rng(seed), np.arange(N_USERS) % 2
    worth = np.array([[0.0, 1.5, -1.0], [0.0, -1.0, 1.5]])[group[USER]]
    utility = worth + rng.standard_normal((len(USER), 3))
    features = np.where(group, 3.0, -3.0)[:, None] + rng.standard_normal((N_USERS, 1))
    return features, np.array(LEVELS)[utility.argmax(axis=1)]


def behavior(level: Any, **options: Any) -> dv.CategoricalOutcomes:
    return dv.CategoricalOutcomes(USER, X, level, n_users=N_USERS, **options)


def by_integral(means: Array, chosen: int) -> float:
    others = np.delete(means, chosen)
    return quad(
        lambda t: norm.pdf(t - means[chosen]) * np.prod(norm.cdf(t - others)), -12, 12, limit=300
    )[0]


@pytest.mark.parametrize("n_levels", [2, 3, 6])
def test_probabilities_are_integrals(n_levels: int) -> None:
    rng = np.random.default_rng(n_levels)
    means, chosen = 1.5 * rng.standard_normal((3, 4 * n_levels)), rng.integers(n_levels, size=4)
    found = np.exp(log_probabilities(chosen, means))
    by_level = means.reshape(3, 4, n_levels)
    wanted = [[by_integral(by_level[s, r], chosen[r]) for r in range(4)] for s in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    slow = ordered_normals.log_first_probabilities.py_func(means, chosen)
    np.testing.assert_allclose(np.log(found), slow, rtol=1e-12)
    rankings = first_of(chosen, n_levels).log_probabilities(means)
    np.testing.assert_allclose(np.log(found), rankings, atol=2e-5)
    far = log_probabilities(chosen, 60.0 * means)
    np.testing.assert_allclose(
        far, first_of(chosen, n_levels).log_probabilities(60.0 * means), rtol=1e-6, atol=1e-7
    )
    assert np.isfinite(far).all()


def test_a_mixture_of_levels() -> None:
    rng, levels = np.random.default_rng(0), Levels(LEVELS, np.arange(3.0))
    weights, means = np.log([[0.3], [0.7]]), rng.standard_normal((2, 6))

    def parts(cases: slice) -> Parts:
        own = slice(3 * cases.start, 3 * cases.stop)
        return Parts(weights, means[:, own], np.zeros((2, 1)))

    mixture = CategoricalMixture(2, 2, parts, levels)
    each = np.array(
        [
            [by_integral(means[s, 3 * i : 3 * i + 3], k) for k in range(3)]
            for s in range(2)
            for i in range(2)
        ]
    ).reshape(2, 2, 3)
    wanted = 0.3 * each[0] + 0.7 * each[1]
    np.testing.assert_allclose(mixture.probabilities, wanted, rtol=1e-6)
    np.testing.assert_allclose(
        np.exp(mixture.log_density(["car", "bus"])), wanted[[0, 1], [1, 0]], rtol=1e-5
    )
    np.testing.assert_allclose(mixture.cdf(["car", "walk"]), [wanted[0, :2].sum(), 1.0], rtol=1e-6)
    drawn = mixture.draws(4000, seed=2)
    for k in range(3):
        error = np.sqrt(wanted[:, k] * (1.0 - wanted[:, k]) / 4000)
        assert (np.abs((drawn == k).mean(axis=0) - wanted[:, k]) < 4.5 * error).all()
    assert mixture.mode.tolist() == np.array(LEVELS)[wanted.argmax(axis=1)].tolist()
    joined = mixture.joined([mixture], np.array([0.5, 0.5]))
    np.testing.assert_allclose(joined.probabilities, wanted, rtol=1e-6)
    for name in ("mean", "std", "median"):
        with pytest.raises(InputError, match=r"Levels without an order .* Use probabilities, mode"):
            getattr(mixture, name)
    with pytest.raises(InputError, match="Levels are bus, car, walk; got 'tram'"):
        mixture.log_density(["tram", "bus"])


def test_which_level_is_first_changes_nothing() -> None:
    """The prior of utilities is the same for all levels, and so is the likelihood."""
    _, level = simulated()
    first, other = behavior(level, levels=LEVELS), behavior(level, levels=["walk", "bus", "car"])
    units, likelihood = first.prepare(None)
    others, moved = other.prepare(None)
    np.testing.assert_allclose(units.prior[1].diagonal(), units.prior[1][0, 0])
    vectors = np.random.default_rng(3).standard_normal((N_USERS, 2))  # car and walk against bus
    against_walk = np.column_stack([-vectors[:, 1], vectors[:, 0] - vectors[:, 1]])
    one = likelihood.log_density(units.to_working(vectors), {})
    same = moved.log_density(others.to_working(against_walk), {})
    assert one == pytest.approx(same, rel=1e-8)
    lengths = [(units.to_working(vectors) ** 2).sum(), (others.to_working(against_walk) ** 2).sum()]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-10)


def test_two_levels_are_a_probit() -> None:
    level = np.where(X[:, 0] + np.random.default_rng(2).standard_normal(len(X)) > 0, 1, 0)
    units, likelihood = behavior(level).prepare(None)
    vectors = np.random.default_rng(4).standard_normal((N_USERS, 1))
    sign, odds = 2.0 * level - 1.0, X[:, 0] * vectors[USER, 0]
    wanted = norm.logcdf(sign * odds / np.sqrt(2.0)).sum()
    assert likelihood.log_density(units.to_working(vectors), {}) == pytest.approx(wanted, rel=1e-6)


def test_levels_are_found_and_checked() -> None:
    made = dv.CategoricalOutcomes
    assert made([0, 1], [[1.0], [2.0]], ["b", "a"]).levels.names == ("a", "b")
    towns = pd.Series(pd.Categorical(["b", "a"], categories=["c", "b", "a"]))
    found = made([0, 1], [[1.0], [2.0]], towns)
    assert found.levels.names == ("c", "b", "a")
    assert found.observed.tolist() == [1.0, 2.0]
    assert made([0, 1], [[1.0], [2.0]], [7, 3]).observed.tolist() == [7.0, 3.0]
    assert made([0, 1], [[1.0], [2.0]], [True, False]).levels.names == ("False", "True")
    for outcome, options, said in (
        ([0.5, 1.0], {}, "names or whole numbers; got 0.5"),
        (["a", None], {}, "some are missing"),
        (pd.Categorical(["a", None]), {}, "some are missing"),
        (["a", "b"], {"levels": ["a"]}, "two or more that differ; got a"),
        (["a", "b"], {"levels": ["a", "a"]}, "two or more that differ"),
        (["a", "b"], {"levels": "ab"}, "must list names or whole numbers"),
        (["a", "z"], {"levels": ["a", "b"]}, "Levels are a, b; got 'z'"),
        (["a", "b", "c"], {}, "a level per row of design, 2; got 3"),
    ):
        with pytest.raises((InputError, TypeError), match=said):
            made([0, 1], [[1.0], [2.0]], outcome, **options)
    with pytest.raises(InputError, match="outcome is bus throughout"):
        behavior(["bus"] * len(USER), levels=LEVELS).prepare(None)
    with pytest.raises(InputError, match="must have a nonzero value"):
        dv.CategoricalOutcomes([0, 1], [[0.0], [0.0]], ["a", "b"]).prepare(None)
    prior = dv.GaussianPrior(np.zeros(1), np.eye(1))
    given = behavior(simulated()[1], common=X[::-1], coefficient_prior=prior)
    with pytest.raises(InputError, match="coefficient_prior over"):
        given.prepare(None)


@pytest.mark.usefixtures("few_replicates")
def test_levels_are_fitted_predicted_and_scored(tmp_path: Any) -> None:
    features, level = simulated()
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=60), n_draws=60, n_chains=2)
    given = dv.CategoricalOutcomes(
        USER, np.empty((len(USER), 0)), level, intercept=True, n_users=N_USERS
    )
    model.fit(features, given)
    assert model.posterior_.latent_names == ["car: intercept", "walk: intercept"]
    group = np.arange(N_USERS) % 2
    assert model.latent_[group == 0, 0].mean() > model.latent_[group == 1, 0].mean() + 1.0

    def asked(user: list[int], **options: Any) -> dv.CategoricalOutcomes:
        return dv.CategoricalOutcomes(user, np.empty((len(user), 0)), intercept=True, **options)

    known = model.predict_outcome(asked([0, 1], n_users=N_USERS))
    assert known.mode.tolist() == ["car", "walk"]
    np.testing.assert_allclose(known.probabilities.sum(axis=1), 1.0)
    new = model.predict_outcome(asked([N_USERS], n_users=N_USERS + 1), X_new=[[3.0]])
    assert new.mode.tolist() == ["walk"]
    seen = dv.CategoricalOutcomes([0] * 6, np.empty((6, 0)), ["bus"] * 6, intercept=True)
    before, after = (model.predict_latent([[3.0]], given).mean[0] for given in (None, seen))
    assert (after < before)[1]
    assert np.isfinite(observation_scores(model, given).total)
    names = [check.name for check in model.check(refit=False)]
    assert "outcomes" in names
    assert "outcomes: skew" not in names  # levels have no order
    tree = model.posterior_.to_arviz()
    assert tree["expected"]["outcome"].shape[2:] == (len(USER), 3)
    assert tree["expected"]["outcome"].coords["level"].values.tolist() == list(LEVELS)
    model.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    np.testing.assert_array_equal(
        again.predict_outcome(asked([0, 1], n_users=N_USERS)).probabilities, known.probabilities
    )
    reordered = dv.CategoricalOutcomes(
        [0, 1],
        np.empty((2, 0)),
        ["walk", "car"],
        levels=["walk", "car"],
        intercept=True,
        n_users=N_USERS,
    )
    np.testing.assert_allclose(
        model.predict_outcome(reordered).nll(["walk", "car"]),
        -np.log(known.probabilities[[0, 1], [2, 1]]).mean(),
        rtol=1e-5,
    )
    with pytest.raises(InputError, match="levels of the fit, bus, car, walk; got tram"):
        model.predict_outcome(
            dv.CategoricalOutcomes([0], np.empty((1, 0)), ["tram"], intercept=True, n_users=N_USERS)
        )


def test_common_columns_and_groups_have_a_part_for_each_level() -> None:
    features, level = simulated()
    days = np.array(["mon", "tue"])[np.arange(len(USER)) % 2]
    given = behavior(level, common=pd.DataFrame({"age": X[::-1, 0]}), groups={"day": days})
    assert given.coords()["coefficient"] == ["car: age", "walk: age"]
    assert given.coords()["group_level"][:3] == ["day: mon, bus", "day: mon, car", "day: mon, walk"]
    model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=5), n_draws=5, n_chains=2)
    post = model.fit(features, given).posterior_
    assert post["coefficients"].shape == (2, 5, 2)
    assert post["group_effects"].shape == (2, 5, 6)
    new = dv.CategoricalOutcomes(
        [0, 0], X[:2], common=[[0.0], [0.0]], groups={"day": ["mon", "wed"]}, n_users=N_USERS
    )
    with pytest.raises(InputError, match="must have the common columns of the fit"):
        model.predict_outcome(new)
    new = dv.CategoricalOutcomes(
        [0, 0],
        X[:2],
        common=pd.DataFrame({"age": [0.0, 0.0]}),
        groups={"day": ["mon", "wed"]},
        n_users=N_USERS,
    )
    np.testing.assert_allclose(model.predict_outcome(new).probabilities.sum(axis=1), 1.0)

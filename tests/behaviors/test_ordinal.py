"""OrdinalOutcomes: the likelihood, cut points' conditionals, a proportional-odds regression,
predictions and refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dualview as dv
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.ordinal import (
    CutPrior,
    LevelMixture,
    OrdinalFamily,
    OrdinalOutcome,
    cut_density,
)
from dualview.behaviors.records import LatentPrior
from dualview.errors import InputError
from dualview.numerics.slice_sampling import slice_sample
from dualview.units import GaussianPrior

N_USERS, CUTS = 8, np.array([-1.0, 0.2, 1.5])
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))


def ratings(n=200, seed=0, n_users=N_USERS, **options):
    rng = np.random.default_rng(seed)
    user, design = rng.integers(0, n_users - 1, n), rng.normal(size=(n, 1))
    latent = np.where(np.arange(n_users) < n_users // 2, -1.0, 1.5)
    level = np.searchsorted(CUTS, design[:, 0] * latent[user] + rng.logistic(size=n)) + 1
    return dv.OrdinalOutcomes(user, design, level, n_users=n_users, **options)


def probabilities(eta, cuts):
    """P(level) by differences of the distribution function."""
    return np.diff(np.concatenate([[0.0], expit(cuts - eta), [1.0]]))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("prior", [None, GaussianPrior([0.5], [[2.0]])], ids=["default", "given"])
def test_the_likelihood_is_that_of_cumulative_logits(intercept, prior):
    if intercept and prior is not None:
        prior = GaussianPrior([0.5, -0.2], [[2.0, 0.1], [0.1, 1.0]])
    behavior, rng = ratings(30, intercept=intercept), np.random.default_rng(1)
    units, likelihood = behavior.prepare(prior)
    working, cuts = (
        rng.normal(size=(N_USERS, behavior.n_dims)),
        likelihood.family.cut_prior.draw(rng),
    )
    vectors, levels = units.vectors(working), behavior.observed.astype(int) - 1
    eta = (behavior.design * vectors[behavior.user]).sum(axis=1)
    free = likelihood.family.cut_prior.free
    expected = sum(
        np.log(probabilities(e, cuts)[level]) for e, level in zip(eta, levels, strict=True)
    )
    expected += (log_expit(cuts[free]) + log_expit(-cuts[free])).sum()
    assert likelihood.log_density(working, {"cut_points": cuts}) == pytest.approx(expected)
    assert likelihood.log_density(working, {"cut_points": cuts[::-1]}) == -np.inf
    assert len(free) == (2 if intercept else 3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_cut_points_have_the_conditional_of_the_joint_density(place):
    """Log joint − log conditional is constant, of every cut point."""
    behavior, rng = ratings(40), np.random.default_rng(2)
    _, likelihood = behavior.prepare(None)
    latent = rng.normal(size=(N_USERS, 1))
    eta, level = likelihood.predictor(latent), likelihood.panel.outcome
    conditional = cut_density([eta[level == own] for own in range(4)], CUTS, place)
    low, high = [-4.0, *CUTS][place], [*CUTS, 4.0][place + 1]
    differences = []
    for value in np.linspace(low, high, 9)[1:-1]:
        cuts = CUTS.copy()
        cuts[place] = value
        differences.append(
            likelihood.log_density(latent, {"cut_points": cuts}) - conditional(value)
        )
    np.testing.assert_allclose(differences, differences[0], rtol=1e-11)
    assert conditional(low) == -np.inf or place == 0


def test_answers_stand_for_levels():
    """Given the cut points, the two answers of an observation say the same of a vector as its level
    does."""
    behavior, rng = ratings(40), np.random.default_rng(2)
    _, likelihood = behavior.prepare(None)
    differences = []
    for _ in range(5):
        latent = rng.normal(size=(N_USERS, 1))
        rows = likelihood.rows(latent, {"cut_points": CUTS})
        signs, odds = likelihood.family.answers(rows, {"cut_points": CUTS})
        answers = np.where(signs == 0.0, 0.0, log_expit(signs * odds)).sum()
        differences.append(likelihood.log_density(latent, {"cut_points": CUTS}) - answers)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-11)


def test_slices_leave_a_density_as_it_is():
    rng, chain = np.random.default_rng(0), np.empty(4000)
    point = 0.5
    for i in range(len(chain)):
        point = slice_sample(rng, lambda x: 2 * np.log(x) - x if x > 0 else -np.inf, point, 1.0)
        chain[i] = point
    batches = chain.reshape(50, -1).mean(axis=1)
    assert abs(batches.mean() - 3.0) < 4.5 * batches.std(ddof=1) / np.sqrt(50)  # Gamma(3)
    with pytest.raises(ValueError, match="not finite"):
        slice_sample(rng, lambda _: -np.inf, 0.0, 1.0)


def test_many_ratings_of_one_user_give_proportional_odds():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(400, 2))
    level = np.searchsorted(CUTS, design @ [1.0, -0.5] + rng.logistic(size=400))
    behavior = dv.OrdinalOutcomes(np.zeros(400, dtype=int), design, level, n_users=2)
    model = dv.DualViewMixture(1, n_warmup=100, n_draws=400, n_chains=2).fit(None, behavior)
    fit = OrderedModel(level, design, distr="logit").fit(method="bfgs", disp=0)
    cuts = fit.model.transform_threshold_params(fit.params)[1:-1]
    draws = model.posterior_.flat("latent")[:, 0]
    assert (np.abs(draws.mean(axis=0) - fit.params[:2]) < 0.35 * fit.bse[:2]).all()
    np.testing.assert_allclose(draws.std(axis=0), fit.bse[:2], rtol=0.15)
    np.testing.assert_allclose(model.posterior_.flat("cut_points").mean(axis=0), cuts, atol=0.06)


@pytest.fixture(scope="module")
def fitted():
    behavior = ratings(300, levels=[1, 2, 3, 4], intercept=True)
    return dv.DualViewMixture(n_warmup=60, n_draws=80, n_chains=2).fit(FEATURES, behavior), behavior


def again(user, design, n_users=N_USERS, outcome=None):
    return dv.OrdinalOutcomes(
        user, design, outcome, levels=[1, 2, 3, 4], intercept=True, n_users=n_users
    )


def test_predictions_for_known_users(fitted):
    model, _ = fitted
    predicted = model.predict_outcome(again([0, 6], [[1.0], [-1.0]]))
    latent, cuts = model.posterior_.flat("latent"), model.posterior_.flat("cut_points")
    for i, (user, x) in enumerate([(0, 1.0), (6, -1.0)]):
        expected = np.mean(
            [probabilities(f @ [1.0, x], c) for f, c in zip(latent[:, user], cuts, strict=True)],
            axis=0,
        )
        np.testing.assert_allclose(predicted.probabilities[i], expected, atol=1e-12)
    np.testing.assert_allclose(predicted.probabilities.sum(axis=1), 1.0)
    assert predicted.levels == ("1", "2", "3", "4")
    np.testing.assert_allclose(predicted.mean, predicted.probabilities @ [1, 2, 3, 4])
    assert predicted.nll([2, 2]) == pytest.approx(-np.log(predicted.probabilities[:, 1]).mean())
    assert predicted.log_density(["2", "2"]) == pytest.approx(predicted.log_density([2, 2]))
    drawn = predicted.draws(8000)
    for level in (1, 4):
        share = (drawn == level).mean(axis=0)
        np.testing.assert_allclose(share, predicted.probabilities[:, level - 1], atol=0.03)
    low, high = predicted.interval(0.5).T
    assert ((low <= predicted.median) & (predicted.median <= high)).all()
    assert model.posterior_.tree["posterior"].coords["cut"].values.tolist() == ["1|2", "2|3", "3|4"]


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_predictions_for_new_users(fitted):
    model, _ = fitted
    new = again([N_USERS], [[0.0]], N_USERS + 1)
    before = model.predict_outcome(new, FEATURES[:1])
    np.testing.assert_allclose(before.probabilities.sum(), 1.0)
    seen = again(np.zeros(15, dtype=int), np.zeros((15, 1)), 1, np.full(15, 4))
    after = model.predict_outcome(new, FEATURES[:1], seen)
    assert after.probabilities[0, 3] > before.probabilities[0, 3] + 0.1


def test_saved_and_read_back(fitted, tmp_path):
    model, _ = fitted
    model.posterior_.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    new = again([0], [[1.0]])
    np.testing.assert_array_equal(
        read.predict_outcome(new).probabilities, model.predict_outcome(new).probabilities
    )


@pytest.mark.slow
def test_scores_checks_and_trees(fitted):
    model, behavior = fitted
    table = dv.compare({"a": model, "b": model})
    assert np.isfinite(table["elpd"]).all()
    tree = model.posterior_.to_arviz(n_prior=60)
    assert set(np.unique(tree["posterior_predictive"]["outcome"])) <= {1.0, 2.0, 3.0, 4.0}
    assert "cut_points" in tree["log_prior"]
    values = tree["log_likelihood"]["outcome"].values.reshape(-1, behavior.n_observations)
    direct = -model.predict_outcome(behavior).nll(behavior.observed)
    assert np.log(np.exp(values).mean(axis=0)).mean() == pytest.approx(direct)
    assert len(list(model.check(behavior, refit=False))) > 0


@pytest.mark.parametrize("pooled", [False, True])
def test_levels_left_out_are_those_of_integration(pooled):
    """One number for a vector: p(level | all others) by a fine grid, and by averages over draws of
    vectors and of augmentations."""
    rng = np.random.default_rng(5)
    user, design, level = (
        np.array([0, 0, 1, 1, 1]),
        rng.normal(size=(5, 1)),
        np.array([1, 3, 2, 4, 1]),
    )
    left_out = dv.OrdinalOutcomes(user, design, level, levels=[1, 2, 3, 4]).left_out()
    means, precisions = np.array([[0.3]]), np.array([[[0.8]]])
    prior = LatentPrior(
        np.zeros(2, dtype=np.int64),
        means,
        None if pooled else precisions,
        means[0],
        precisions[0] if pooled else np.array([[1e12]]),
        np.zeros((2, 1)),
    )
    grid, n_draws = np.linspace(-12, 12, 4001), 400
    chances = np.array(
        [[probabilities(f * design[i, 0], CUTS) for f in grid] for i in range(5)]
    )  # (observation, place on the grid, level)
    weight = np.exp(-0.4 * (grid - 0.3) ** 2)

    def posterior(rows):
        found = weight.copy()
        for j in rows:
            found = found * chances[j, :, level[j] - 1]
        return found / found.sum()

    owner = np.zeros(5, dtype=int) if pooled else user
    drawn = [rng.choice(grid, n_draws, p=posterior(np.flatnonzero(owner == u))) for u in (0, 1)]
    vectors = np.column_stack([drawn[0], drawn[0] if pooled else drawn[1]])[..., None]
    laws = [left_out.predictive(prior, {"cut_points": CUTS}, own) for own in vectors]
    inverse = np.exp(-np.array([law.log_density(level.astype(float)) for law in laws]))
    given = np.array([law.probabilities for law in laws])
    for i in range(5):
        others = posterior([j for j in range(5) if j != i and owner[j] == owner[i]])
        expected = others @ chances[i]
        error = inverse[:, i].std() / np.sqrt(n_draws)
        assert error < 0.03 * inverse[:, i].mean()
        assert abs(inverse[:, i].mean() - 1.0 / expected[level[i] - 1]) < 4.5 * error + 1e-9
        ratios = given[:, i] * inverse[:, i, None]  # p(another level)/p(this one)
        away = ratios.mean(axis=0) - expected / expected[level[i] - 1]
        assert (np.abs(away) <= 4.5 * ratios.std(axis=0) / np.sqrt(n_draws) + 1e-9).all()


def test_wide_locations_by_quadrature():
    levels = Levels(("a", "b", "c"), np.arange(3.0))
    parts = Parts(np.zeros((1, 1)), np.array([[0.3, 2.0]]), np.array([[0.5, 4.0]]))
    mixture = LevelMixture(
        2,
        1,
        lambda cases: Parts(*(part[:, cases] if part.shape[1] > 1 else part for part in parts)),
        OrdinalOutcome(np.array([[-1.0, 1.0]]), levels),
    )
    rng = np.random.default_rng(0)
    for i, (m, sd) in enumerate([(0.3, 0.5), (2.0, 4.0)]):
        place = np.searchsorted(
            [-1.0, 1.0], rng.normal(m, sd, 200_000) + rng.logistic(size=200_000)
        )
        share = np.bincount(place, minlength=3) / 200_000
        np.testing.assert_allclose(
            mixture.probabilities[i], share, atol=4.5 * 0.5 / np.sqrt(200_000)
        )


def test_levels_as_they_come():
    user, design = [0, 0, 1], [[1.0], [2.0], [3.0]]
    grades = pd.Categorical(
        ["low", "high", "low"], categories=["low", "middle", "high"], ordered=True
    )
    assert dv.OrdinalOutcomes(user, design, grades).observed.tolist() == [0.0, 2.0, 0.0]
    assert dv.OrdinalOutcomes(user, design, pd.Series(grades)).levels.names == (
        "low",
        "middle",
        "high",
    )
    text = dv.OrdinalOutcomes(user, design, ["b", "a", "c"], levels=["a", "b", "c"])
    assert text.observed.tolist() == [1.0, 0.0, 2.0]
    assert dv.OrdinalOutcomes(user, design, [1.5, 2, 4]).levels.names == ("1.5", "2", "4")


@pytest.mark.parametrize(
    ("outcome", "options", "message"),
    [
        (["a", "b", "c"], {}, "levels must list the levels in order"),
        ([1, 2, 2], {}, "use BinaryOutcomes"),
        ([1.0, np.nan, 2.0], {}, "missing or infinite"),
        ([1, 2, 9], {"levels": [1, 2, 3]}, "Levels are 1, 2, 3; got 9"),
        ([1, 2, 3], {"levels": [3, 2, 1]}, "must be in order"),
        ([1, 2, 3], {"levels": [1, 2, 2, 3]}, "list each level once"),
        ([1, 2], {"levels": [1, 2, 3]}, "a level per row of design, 3; got 2"),
        (None, {}, "levels must list"),
    ],
)
def test_refusals(outcome, options, message):
    with pytest.raises(InputError, match=message):
        dv.OrdinalOutcomes([0, 0, 1], [[1.0], [2.0], [3.0]], outcome, **options)


def test_refusals_of_fits_and_predictions(fitted):
    with pytest.raises(InputError, match="nothing to explain"):
        dv.OrdinalOutcomes([0, 1], [[1.0], [2.0]], [2, 2], levels=[1, 2, 3]).prepare(None)
    model, _ = fitted
    with pytest.raises(InputError, match="must have the levels of the fit, 1, 2, 3, 4; got 5"):
        model.predict_outcome(
            dv.OrdinalOutcomes([0, 0, 0], [[1.0]] * 3, [1, 2, 5], intercept=True, n_users=N_USERS)
        )
    with pytest.raises(InputError, match="got 7"):
        model.predict_outcome(again([0], [[1.0]])).log_density([7])
    many = np.arange(60)
    with pytest.raises(InputError, match="60 different numbers"):
        dv.OrdinalOutcomes(np.zeros(60, dtype=int), np.ones((60, 1)), many)


def test_very_many_users_by_blocks_need_nothing_else():
    likelihood = ratings(30).prepare(None)[1]
    assert isinstance(likelihood.family, OrdinalFamily)
    assert likelihood.one_user_each
    assert likelihood.log_priors({"cut_points": CUTS[None]}, np.zeros((1, 1)))[
        "cut_points"
    ].shape == (1,)
    assert CutPrior(3).log_density(CUTS) == pytest.approx(
        (log_expit(CUTS) + log_expit(-CUTS)).sum()
    )

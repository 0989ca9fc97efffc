"""Effects outside the mixture as users meet them: names, predictions of seen and unseen levels,
files, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm

import dualview as dv
from dualview.errors import InputError
from dualview.posterior.prediction.left_out import LatentPriors

N_USERS, N, ITEMS = 8, 96, ["apple", "cherry", "plum"]
RNG = np.random.default_rng(5)
USER, ITEM = RNG.integers(0, N_USERS, N), RNG.integers(0, 3, N)
DOSE, AGE = RNG.normal(size=N), RNG.normal(40.0, 10.0, N)
X = RNG.normal(size=(N_USERS, 2))
LEVELS = np.array(ITEMS)[ITEM]
LOCATION = (
    (1.0 + RNG.normal(size=N_USERS))[USER]
    + 0.5 * DOSE
    + 0.05 * AGE
    + np.array([-2.0, 0.0, 2.0])[ITEM]
)
OUTCOME = LOCATION + 0.3 * RNG.normal(size=N)
SHORT = {"n_warmup": 30, "n_draws": 40, "n_chains": 2}


def measures(rows=slice(None), outcome=OUTCOME, levels=LEVELS, **options):
    """Outcomes by dose, with age in common and items as groups."""
    given = {"common": pd.DataFrame({"age": AGE[rows]}), "groups": {"item": levels[rows]}} | options
    own = None if outcome is None else outcome[rows]
    return dv.UserRegression(
        USER[rows], DOSE[rows, None], own, intercept=True, n_users=N_USERS, **given
    )


@pytest.fixture(scope="module")
def fitted():
    behavior = measures()
    return dv.DualViewMixture(**SHORT).fit(X, behavior), behavior


def locations(post, rows, levels):
    """Of known users, by hand, (S, rows); an unseen level adds nothing."""
    latent, effects = post.flat("latent"), post.flat("group_effects")
    total = (
        latent[:, USER[rows], 0]
        + latent[:, USER[rows], 1] * DOSE[rows]
        + post.flat("coefficients") * AGE[rows]
    )
    return total + np.stack(
        [
            effects[:, ITEMS.index(level)] if level in ITEMS else 0.0 * effects[:, 0]
            for level in levels
        ],
        axis=1,
    )


def test_names_and_units(fitted):
    post = fitted[0].posterior_
    draws = post.tree["posterior"]
    assert draws["coefficients"].coords["coefficient"].values.tolist() == ["age"]
    assert draws["group_sd"].coords["group"].values.tolist() == ["item"]
    assert draws["group_effects"].coords["group_level"].values.tolist() == [
        f"item: {item}" for item in ITEMS
    ]
    assert {"coefficients[0]", "log group_sd[0]", "group_effects[0]", "group_effects[2]"} <= set(
        post.diagnostics().index
    )
    assert post.flat("coefficients").mean() == pytest.approx(0.05, abs=0.02)
    effects = post.flat("group_effects").mean(axis=0)
    np.testing.assert_allclose(effects - effects.mean(), [-2.0, 0.0, 2.0], atol=0.4)


def test_predictions_of_seen_and_unseen_levels(fitted):
    model, _ = fitted
    post, rows, levels = (
        model.posterior_,
        np.array([0, 1, 2]),
        np.array([ITEMS[1], "melon", ITEMS[0]]),
    )
    everywhere = np.resize(levels, N)
    predicted = model.predict_outcome(measures(rows, None, everywhere))
    mean, sd = locations(post, rows, levels), post.flat("noise_precision")[:, None] ** -0.5
    variance = sd**2 + np.where(levels == "melon", post.flat("group_sd") ** 2, 0.0)
    np.testing.assert_allclose(predicted.mean, mean.mean(axis=0))
    expected = norm.pdf(1.3, mean, np.sqrt(variance)).mean(axis=0)
    np.testing.assert_allclose(predicted.log_density(np.full(3, 1.3)), np.log(expected))


def test_new_users_with_observations(fitted):
    """Weights of draws are the likelihoods of what the new user did, given the effects in each."""
    model, behavior = fitted
    latent, params = model._known()
    ages = pd.DataFrame({"age": [30.0, 50.0]})
    new = dv.UserRegression(
        [0, 0],
        [[0.5], [1.0]],
        [3.0, 2.0],
        intercept=True,
        common=ages,
        groups={"item": ITEMS[:2]},
    )
    told = behavior.evidence(new, latent, params, 1)
    vector, precision = np.array([0.7, -0.2]), params["noise_precision"]
    expected = (
        np.array([[1.0, 0.5], [1.0, 1.0]]) @ vector
        + params["coefficients"] * [30.0, 50.0]
        + params["group_effects"][:, :2]
    )
    log_density = norm.logpdf([3.0, 2.0], expected, precision[:, None] ** -0.5).sum(axis=1)
    quadratic = np.einsum(
        "q,sqr,r->s", vector, np.broadcast_to(told.precision[:, 0], (len(precision), 2, 2)), vector
    )
    np.testing.assert_allclose(
        told.constant[:, 0] + told.linear[:, 0] @ vector - 0.5 * quadratic, log_density
    )
    again = dv.UserRegression(
        [N_USERS],
        [[0.5]],
        intercept=True,
        common=ages[:1],
        groups={"item": ["melon"]},
        n_users=N_USERS + 1,
    )
    predicted = model.predict_outcome(again, X[:1], new)
    assert np.isfinite(predicted.mean).all()


def test_observations_left_out_are_given_the_effects(fitted):
    model, behavior = fitted
    post = model.posterior_
    prior, params = (
        LatentPriors(post)[0],
        {name: post.flat(name)[0] for name in behavior.param_names},
    )
    found = behavior.left_out().predictive(prior, params, post.flat("latent")[0])
    plain = dv.UserRegression(
        USER,
        DOSE[:, None],
        OUTCOME - behavior.effects.locations({k: v[None] for k, v in params.items()})[0],
        intercept=True,
    )
    by_hand = plain.left_out().predictive(prior, params, post.flat("latent")[0])
    np.testing.assert_allclose(found.log_density(OUTCOME), by_hand.log_density(plain.observed))


def test_files_trees_and_scores(fitted, tmp_path):
    model, behavior = fitted
    model.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    new = measures(np.arange(5), None, np.array([*ITEMS, "melon", "plum"]))
    np.testing.assert_allclose(again.predict_outcome(new).mean, model.predict_outcome(new).mean)
    tree = model.posterior_.to_arviz()
    for group in ("log_likelihood", "posterior_predictive", "prior_predictive", "log_prior"):
        assert np.isfinite(tree[group][next(iter(tree[group].data_vars))].values).all()
    assert {"coefficients", "group_sd"} <= set(tree["log_prior"].data_vars)
    assert tree["constant_data"]["group_item"].values.tolist() == LEVELS.tolist()
    known = locations(model.posterior_, np.arange(N), LEVELS)
    np.testing.assert_allclose(tree["expected"]["outcome"].values.reshape(known.shape), known)
    assert len(behavior.take([0, 3]).effects.offset) == 2


def test_resumed_draws_are_the_same(tmp_path):
    options = {
        "n_warmup": 5,
        "n_chains": 1,
        "checkpoint": tmp_path / "run",
        "checkpoint_interval": 1e-9,
    }
    dv.DualViewMixture(n_draws=6, **options).fit(X, measures())
    resumed = dv.DualViewMixture(n_draws=12, **options).fit(X, measures()).posterior_
    whole = dv.DualViewMixture(n_warmup=5, n_draws=12, n_chains=1).fit(X, measures()).posterior_
    for name in ("group_effects", "group_sd", "coefficients", "latent"):
        np.testing.assert_array_equal(resumed[name], whole[name])


def test_a_summary_keeps_effects_of_whole_draws():
    model = dv.DualViewMixture(keep="summary", n_whole=5, **SHORT).fit(X, measures())
    post = model.posterior_
    assert post["group_effects"].shape == (2, 5, 3)
    assert "log group_sd[0]" in post.diagnostics().index
    assert np.isfinite(model.predict_outcome(measures(slice(0, 3), None)).mean).all()


def test_offsets_and_weights():
    """An offset is subtracted; a weight of 4 is a noise of half the size."""
    prior = dv.GaussianPrior([1.0, 0.0], np.eye(2))
    plain = dv.UserRegression(
        USER, DOSE[:, None], OUTCOME - 0.05 * AGE, intercept=True, noise_variance=1.0
    )
    moved = dv.UserRegression(
        USER, DOSE[:, None], OUTCOME, intercept=True, offset=0.05 * AGE, noise_variance=1.0
    )
    latent, params = RNG.normal(size=(N_USERS, 2)), {"noise_precision": 0.7}
    one, other = (
        behavior.prepare(prior)[1].log_density(latent, params) for behavior in (plain, moved)
    )
    assert one == pytest.approx(other)
    weights = RNG.choice([1.0, 4.0], N)
    heavy = dv.UserRegression(
        USER,
        DOSE[:, None],
        OUTCOME - 0.05 * AGE,
        intercept=True,
        weights=weights,
        noise_variance=1.0,
    )
    units, likelihood = heavy.prepare(prior)
    vectors = units.vectors(latent)
    expected = vectors[USER, 0] + vectors[USER, 1] * DOSE
    by_hand = norm.logpdf(heavy.observed, expected, (0.7 * weights) ** -0.5).sum()
    other_noise = {"noise_precision": 1.9}
    by_hand_too = norm.logpdf(heavy.observed, expected, (1.9 * weights) ** -0.5).sum()
    working = likelihood.log_density(latent, params) - likelihood.log_density(latent, other_noise)
    noise_prior = likelihood.family.noise.prior.working
    prior_part = noise_prior.log_density(0.7) - noise_prior.log_density(1.9)
    assert working == pytest.approx(by_hand - by_hand_too + prior_part)


def test_known_standard_errors_leave_no_noise_to_learn():
    errors = RNG.uniform(0.2, 0.6, N)
    behavior = dv.UserRegression(
        USER, np.ones((N, 1)), OUTCOME, standard_errors=errors, groups={"item": LEVELS}
    )
    model = dv.DualViewMixture(**SHORT).fit(X, behavior)
    post = model.posterior_
    assert "noise_precision" not in post
    mean = post.flat("latent")[:, USER] + post.flat("group_effects")[:, ITEM]
    expected = np.log(norm.pdf(OUTCOME, mean, errors).mean(axis=0))
    np.testing.assert_allclose(model.predict_outcome(behavior).log_density(OUTCOME), expected)
    with pytest.raises(InputError, match="New observations must have standard_errors"):
        model.predict_outcome(dv.UserRegression(USER, np.ones((N, 1)), groups={"item": LEVELS}))
    with pytest.raises(InputError, match=r"weights is for a noise that is learned"):
        dv.UserRegression(USER, np.ones((N, 1)), OUTCOME, standard_errors=errors, weights=errors)


def test_answers_with_groups():
    yes = RNG.random(N) < expit(LOCATION - LOCATION.mean())
    behavior = dv.BinaryOutcomes(
        USER, np.ones((N, 1)), yes, groups={"item": LEVELS}, offset=np.full(N, 0.2)
    )
    model = dv.DualViewMixture(**SHORT).fit(None, behavior)
    post = model.posterior_
    odds = post.flat("latent")[:, USER] + post.flat("group_effects")[:, ITEM] + 0.2
    np.testing.assert_allclose(model.predict_outcome(behavior).mean, expit(odds).mean(axis=0))
    new = dv.BinaryOutcomes(USER[:1], np.ones((1, 1)), groups={"item": ["melon"]}, n_users=N_USERS)
    known, sd = post.flat("latent")[:, USER[0]], post.flat("group_sd")[:, 0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    by_hand = (expit(known[:, None] + sd[:, None] * nodes) @ weights).mean() / weights.sum()
    assert model.predict_outcome(new).mean[0] == pytest.approx(by_hand, abs=1e-6)


def test_choices_with_appeals_that_vary_as_much_as_data_say():
    features = RNG.normal(size=(4, 1))
    winner = RNG.integers(0, 4, N)
    loser = (winner + RNG.integers(1, 4, N)) % 4
    behavior = dv.PairwiseChoices(
        USER, winner, loser, features, item_intercept="learned", n_users=N_USERS
    )
    model = dv.DualViewMixture(**SHORT).fit(X, behavior)
    post = model.posterior_
    appeal = post.flat("group_effects")
    odds = (
        post.flat("latent")[:, USER] * (features[winner] - features[loser])[:, 0]
        + appeal[:, winner]
        - appeal[:, loser]
    )
    np.testing.assert_allclose(model.predict_outcome(behavior).mean, expit(odds).mean(axis=0))
    more = np.vstack([features, [[0.3]]])
    unseen = dv.PairwiseChoices([0], [4], [1], more, item_intercept="learned", n_users=N_USERS)
    assert 0.0 < model.predict_outcome(unseen).mean[0] < 1.0
    with pytest.raises(InputError, match='With common or groups use "learned"'):
        dv.PairwiseChoices(
            USER, winner, loser, features, item_intercept=True, groups={"place": LEVELS}
        )


def test_threads_of_groups():
    took_part = (RNG.random((40, N_USERS)) < 0.4).astype(float)
    section = RNG.integers(0, 3, 40)
    outcome = (
        took_part @ np.arange(N_USERS) + np.array([-5.0, 0.0, 5.0])[section] + RNG.normal(size=40)
    )
    behavior = dv.SharedOutcome(took_part, outcome, groups={"section": section}, intercept=True)
    model = dv.DualViewMixture(**SHORT).fit(X, behavior)
    post = model.posterior_
    effects, latent = post.flat("group_effects"), post.flat("latent")
    mean = latent @ took_part.T + post.flat("coefficients") + effects[:, section]
    np.testing.assert_allclose(model.predict_outcome(behavior).mean, mean.mean(axis=0))
    centred = effects.mean(axis=0) - effects.mean()
    np.testing.assert_allclose(centred, [-5.0, 0.0, 5.0], atol=2.0)
    scores = post.to_arviz(groups=["log_likelihood"])
    assert np.isfinite(scores["log_likelihood"]["outcome"].values).all()
    new = dv.SharedOutcome(took_part[:1], groups={"section": ["other"]}, intercept=True)
    expected = post.flat("group_sd")[:, 0] ** 2 + 1.0 / post.flat("noise_precision")
    assert model.predict_outcome(new).std[0] ** 2 == pytest.approx(
        expected.mean() + (latent @ took_part[0] + post.flat("coefficients")[:, 0]).var()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"common": np.ones((N, 1))}, "common must vary between observations; constant: c0"),
        ({"common": np.ones((3, 1))}, r"common must have a value per observation, 96; got 3"),
        ({"groups": LEVELS}, "groups must be a dict or a DataFrame"),
        ({"groups": {"item": LEVELS[:3]}}, r"groups\['item'\] must have a level per observation"),
        ({"groups": {"item": np.full(N, np.nan)}}, "must hold names or whole numbers"),
        ({"groups": {"item": np.zeros(N, dtype=int)}}, "'item' must have at least two levels"),
        ({"coefficient_prior": dv.GaussianPrior(0.0, 1.0)}, "there are none. Give common"),
        ({"weights": np.zeros(N)}, "weights must be positive"),
    ],
)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(InputError, match=message):
        dv.DualViewMixture(n_warmup=1, n_draws=1).fit(
            X, dv.UserRegression(USER, DOSE[:, None], OUTCOME, n_users=N_USERS, **options)
        )


def test_new_observations_must_have_the_same(fitted):
    model, _ = fitted
    with pytest.raises(InputError, match="common columns of the fit, age; got none"):
        model.predict_outcome(measures(slice(0, 2), None, common=None))
    with pytest.raises(InputError, match="groups of the fit, item; got none"):
        model.predict_outcome(measures(slice(0, 2), None, groups=None))

"""BinaryOutcomes and PairwiseChoices: their likelihood, a logistic regression, predictions,
rankings and refusals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.integrate import quad
from scipy.special import expit, log_expit
from scipy.stats import norm

import dualview as dv
from dualview.behaviors.base import Behavior
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.logit import ChoiceMixture
from dualview.errors import DataWarning, InputError
from dualview.posterior.prediction.predictive import WeightedDraws
from dualview.units import GaussianPrior

Q, N_USERS, N_ITEMS = 2, 6, 9
ITEMS = np.random.default_rng(4).normal(0.0, [1.0, 4.0], (N_ITEMS, Q))
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))


def choices(n=80, seed=0, **options):
    """Choices of users 0 to 4 of six, between random items."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, N_USERS - 1, n)
    first, step = rng.integers(0, N_ITEMS, n), rng.integers(1, N_ITEMS, n)
    second = (first + step) % N_ITEMS
    latent = rng.normal(0.0, [1.0, 0.25], (N_USERS, Q))
    odds = ((ITEMS[first] - ITEMS[second]) * latent[user]).sum(axis=1)
    won = rng.random(n) < expit(odds)
    winner, loser = np.where(won, first, second), np.where(won, second, first)
    return dv.PairwiseChoices(user, winner, loser, ITEMS, n_users=N_USERS, **options), rng


def test_they_are_behaviors():
    assert isinstance(choices()[0], Behavior)
    assert isinstance(dv.BinaryOutcomes([0, 1], [[1.0], [2.0]], [True, False]), Behavior)
    assert repr(choices()[0]) == "PairwiseChoices(80 choices, 6 users, outcome)"


@pytest.mark.parametrize("item_intercept", [False, True])
@pytest.mark.parametrize(
    "prior", [None, GaussianPrior([0.5, -1.0], [[1.0, 0.3], [0.3, 2.0]])], ids=["default", "given"]
)
def test_the_likelihood_is_that_of_logits(item_intercept, prior):
    behavior, rng = choices(item_intercept=item_intercept)
    units, likelihood = behavior.prepare(prior)
    working = rng.normal(size=(N_USERS, Q))
    appeal = rng.normal(size=N_ITEMS) if item_intercept else np.zeros(0)
    utility = ITEMS @ units.vectors(working).T  # (items, users)
    utility = utility + appeal[:, None] if item_intercept else utility
    odds = utility[behavior.winner, behavior.user] - utility[behavior.loser, behavior.user]
    expected = log_expit(odds).sum() - 0.5 * appeal @ appeal
    assert likelihood.log_density(working, {"coefficients": appeal}) == pytest.approx(expected)


def test_by_default_standardised_items_have_a_standard_prior():
    mean, covariance = choices()[0].prepare(None)[0].prior
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(np.diagonal(covariance), ITEMS.var(axis=0, ddof=1) ** -1)
    binary = dv.BinaryOutcomes([0, 1, 1], [[3.0], [1.0], [5.0]], [1, 0, 1], intercept=True)
    np.testing.assert_allclose(binary.prepare(None)[0].prior[1], np.diag([1.0, 0.25]))


@pytest.mark.slow
def test_many_choices_of_one_user_give_a_logistic_regression():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(600, 2))
    outcome = rng.random(600) < expit(design @ [1.0, -0.5] + 0.3)
    behavior = dv.BinaryOutcomes(
        np.zeros(600, dtype=int), design, outcome, intercept=True, n_users=2
    )
    model = dv.DualViewMixture(1, n_warmup=200, n_draws=800, n_chains=2).fit(None, behavior)
    fit = sm.Logit(outcome.astype(float), sm.add_constant(design)).fit(disp=0)
    draws = model.posterior_.flat("latent")[:, 0]
    assert (np.abs(draws.mean(axis=0) - fit.params) < 0.35 * fit.bse).all()
    np.testing.assert_allclose(draws.std(axis=0), fit.bse, rtol=0.15)


def test_probabilities_by_quadrature():
    """E σ(N(m, sd²)) for narrow and wide normals, against adaptive integration."""
    cases = [(m, sd) for m in (-3.0, 0.0, 0.7, 12.0) for sd in (0.0, 0.2, 0.99, 1.01, 5.0, 60.0)]
    locations, sds = (np.array(column)[None, :] for column in zip(*cases, strict=True))
    mixture = ChoiceMixture(
        len(cases), 1, lambda part: Parts(np.zeros((1, 1)), locations[:, part], sds[:, part])
    )
    for (m, sd), found in zip(cases, mixture.mean, strict=True):
        if sd == 0.0:
            expected = expit(m)
        else:
            ends = (m - 40 * sd, m + 40 * sd)
            middle = [0.0, m] if ends[0] < 0.0 < ends[1] else [m]
            expected = quad(
                lambda x, m=m, sd=sd: expit(x) * norm.pdf(x, m, sd), *ends, points=middle, limit=500
            )[0]
        assert found == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(np.exp(mixture.log_density(np.ones(len(cases)))), mixture.mean)
    np.testing.assert_allclose(
        np.exp(mixture.log_density(np.zeros(len(cases)))), 1 - mixture.mean, atol=1e-12
    )


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "items"])
def fitted(request):
    behavior, _ = choices(n=300, item_intercept=request.param)
    return dv.DualViewMixture(n_warmup=60, n_draws=80, n_chains=2).fit(FEATURES, behavior), behavior


class TestPrediction:
    def again(self, behavior, user, winner, loser, n_users=N_USERS):
        return dv.PairwiseChoices(
            user, winner, loser, ITEMS, item_intercept=behavior.item_intercept, n_users=n_users
        )

    def test_known_users(self, fitted):
        model, behavior = fitted
        predicted = model.predict_outcome(self.again(behavior, [0, 3], [1, 2], [4, 5]))
        latent = model.posterior_.flat("latent")
        appeal = (
            model.posterior_.flat("coefficients")
            if behavior.item_intercept
            else np.zeros((len(latent), N_ITEMS))
        )
        for i, (u, w, v) in enumerate([(0, 1, 4), (3, 2, 5)]):
            odds = latent[:, u] @ (ITEMS[w] - ITEMS[v]) + appeal[:, w] - appeal[:, v]
            assert predicted.mean[i] == pytest.approx(expit(odds).mean())
            low, high = predicted.interval(0.8)[i]
            np.testing.assert_allclose([low, high], np.quantile(expit(odds), [0.1, 0.9]), atol=0.02)
        assert predicted.nll([1, 1]) == pytest.approx(-np.log(predicted.mean).mean())
        assert set(np.unique(predicted.draws(50))) <= {0.0, 1.0}

    def test_the_other_item_has_the_other_probability(self, fitted):
        model, behavior = fitted
        one = model.predict_outcome(self.again(behavior, [0], [1], [4])).mean
        assert one + model.predict_outcome(
            self.again(behavior, [0], [4], [1])
        ).mean == pytest.approx(1.0)

    def test_new_users_by_features(self, fitted):
        model, behavior = fitted
        new = self.again(behavior, [N_USERS], [1], [4], N_USERS + 1)
        predicted = model.predict_outcome(new, FEATURES[:1] + 0.1)
        assert 0.0 < predicted.mean[0] < 1.0
        draws = model.predict_latent(FEATURES[:1] + 0.1).draws(20000)[:, 0]
        appeal = (
            model.posterior_.flat("coefficients").mean(axis=0)
            if behavior.item_intercept
            else np.zeros(N_ITEMS)
        )
        by_vectors = expit(draws @ (ITEMS[1] - ITEMS[4]) + appeal[1] - appeal[4]).mean()
        assert predicted.mean[0] == pytest.approx(by_vectors, abs=0.05)

    @pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
    def test_new_users_after_some_choices(self, fitted):
        """One who always chose item 1 over 4 will do so again, more surely than by features
        alone."""
        model, behavior = fitted
        seen = self.again(
            behavior, np.zeros(20, dtype=int), np.ones(20, dtype=int), np.full(20, 4), 1
        )
        new = self.again(behavior, [N_USERS], [1], [4], N_USERS + 1)
        before = model.predict_outcome(new, FEATURES[:1]).mean[0]
        after = model.predict_outcome(new, FEATURES[:1], seen).mean[0]
        assert after > max(before, 0.85)
        vector = model.predict_latent(FEATURES[:1], seen)
        assert isinstance(vector, WeightedDraws)
        assert vector.mean.shape == vector.std.shape == (1, Q)
        low, high = np.moveaxis(vector.interval(0.9), -1, 0)
        assert (low < high).all()
        share = (vector.draws(4000)[:, 0] < low).mean(axis=0)
        values, counts = np.unique(vector.draws(4000)[:, 0, 0], return_counts=True)
        assert len(values) > 10
        assert (
            np.abs(share - 0.05) < 0.016 + counts.max() / 4000
        ).all()  # to within one of the draws that are weighted
        with pytest.raises(InputError, match="no density"):
            vector.log_density(vector.mean)

    def test_a_saved_posterior_predicts_the_same(self, fitted, tmp_path):
        model, behavior = fitted
        model.posterior_.save(tmp_path / "run.nc")
        again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
        np.testing.assert_array_equal(
            again.predict_outcome(behavior).mean, model.predict_outcome(behavior).mean
        )


def test_weights_of_sampled_evidence_are_exact():
    """Draws of a known normal weighted by a logistic likelihood: mean and spread by quadrature."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.3, 1.2, (200_000, 1))
    log_likelihood = log_expit(2.0 * values) + log_expit(-0.5 * values)
    weights = log_likelihood - np.log(np.exp(log_likelihood).sum(axis=0))

    def target(x):
        return norm.pdf(x, 0.3, 1.2) * expit(2.0 * x) * expit(-0.5 * x)

    total = quad(target, -10, 10)[0]
    mean = quad(lambda x: x * target(x), -10, 10)[0] / total
    found = WeightedDraws(values, weights)
    assert found.mean[0] == pytest.approx(mean, abs=0.02)
    low, high = found.interval(0.9)[0]
    assert quad(target, -10, low)[0] / total == pytest.approx(0.05, abs=0.005)
    assert quad(target, high, 10)[0] / total == pytest.approx(0.05, abs=0.005)


class TestRankings:
    def test_pairs_and_neighbours(self):
        with pytest.warns(
            DataWarning,
            match="Rankings of up to 3 items were taken apart into 4 choices.*neighbors",
        ):
            pairs = dv.PairwiseChoices.from_rankings(["a", "b"], [[2, 0, 1], [1, 2]], ITEMS)
        assert list(zip(pairs.winner, pairs.loser, strict=True)) == [(2, 0), (2, 1), (0, 1), (1, 2)]
        assert pairs.users == ["a", "b"]
        near = dv.PairwiseChoices.from_rankings(
            [0, 1], [[2, 0, 1], [1, 2]], ITEMS, rule="neighbors"
        )
        assert list(zip(near.winner, near.loser, strict=True)) == [(2, 0), (0, 1), (1, 2)]

    def test_items_by_name(self):
        items = pd.DataFrame(ITEMS[:3], index=["tea", "milk", "juice"], columns=["warm", "sweet"])
        made = dv.PairwiseChoices(
            [0, 0], ["tea", "juice"], ["milk", "tea"], items, item_intercept=True
        )
        assert made.winner.tolist() == [0, 2]
        assert made.names == ["warm", "sweet"]
        assert made.coords()["coefficient"] == ["tea", "milk", "juice"]


REFUSALS = {
    "not binary": (
        lambda: dv.BinaryOutcomes([0, 1], [[1.0], [2.0]], [0, 2]),
        "0 and 1 only, or False and True; got 2",
    ),
    "same item": (lambda: dv.PairwiseChoices([0], [1], [1], ITEMS), "the same item in row 0"),
    "unknown item": (
        lambda: dv.PairwiseChoices([0], [1], [99], ITEMS),
        "loser must hold rows of items, 0 to 8; got 99 in row 0",
    ),
    "names without index": (
        lambda: dv.PairwiseChoices([0], ["x"], ["y"], ITEMS),
        "names need items as a DataFrame",
    ),
    "lengths": (
        lambda: dv.PairwiseChoices([0], [1], [2, 3], ITEMS),
        "must have the same length; got 1 and 2",
    ),
    "rule": (
        lambda: dv.PairwiseChoices.from_rankings([0], [[1, 2]], ITEMS, rule="all"),
        "'pairs' or 'neighbors'",
    ),
    "repeated": (lambda: dv.PairwiseChoices.from_rankings([0], [[1, 2, 1]], ITEMS), "repeats one"),
    "another kind": (
        lambda: choices()[0].like(dv.BinaryOutcomes([0], [[1.0, 2.0]]), 0),
        "must be a PairwiseChoices, as in the fit; got BinaryOutcomes",
    ),
    "other columns": (
        lambda: choices()[0].like(dv.PairwiseChoices([0], [0], [1], ITEMS[:, :1]), 0),
        "must have the columns of the fit, x0, x1; got x0",
    ),
    "other items": (
        lambda: choices(item_intercept=True)[0].like(dv.PairwiseChoices([0], [0], [1], ITEMS), 0),
        "among the 9 items of the fit with item_intercept=True",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_wrong_is_said(case):
    make, message = REFUSALS[case]
    with pytest.raises(InputError, match=message):
        make()

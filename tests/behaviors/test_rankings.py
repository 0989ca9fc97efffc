"""Rankings: the likelihood in the user's units, predictions, cuts, refusals, and what taking them
apart costs."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import dualview as dv
from dualview.behaviors.families.ranking import Orders, RankingMixture
from dualview.errors import DataWarning, InputError
from dualview.units import GaussianPrior

N_USERS, SIZE = 8, 4
FEATURES = 2.0 * (np.arange(N_USERS)[:, None] > 3) + np.random.default_rng(9).normal(
    size=(N_USERS, 2)
)


def places_of(utilities):
    return np.argsort(np.argsort(-utilities)) + 1.0


def rankings(n=24, seed=0, n_users=N_USERS, **options):
    """n rankings of four items each by all users but the last; of every other one only two places
    are known."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, n_users - 1, n)
    latent = np.where(np.arange(n_users) < n_users // 2, -1.5, 1.5)
    design = rng.normal(2.0, 1.0, size=(n, SIZE, 2))
    places = np.empty((n, SIZE))
    for r, u in enumerate(owner):
        places[r] = places_of(design[r] @ [latent[u], 1.0] + rng.normal(size=SIZE))
        if r % 2:
            places[r, places[r] > 2] = np.nan
    user, ranking = np.repeat(owner, SIZE), np.repeat(np.arange(n), SIZE)
    return dv.Rankings(
        user, ranking, design.reshape(-1, 2), places.ravel(), n_users=n_users, **options
    )


@pytest.mark.parametrize(
    "prior", [None, GaussianPrior([0.5, -1.0], [[2.0, 0.1], [0.1, 1.0]])], ids=["default", "given"]
)
def test_the_likelihood_is_that_of_utilities_in_the_users_units(prior):
    behavior, rng = rankings(), np.random.default_rng(1)
    units, likelihood = behavior.prepare(prior)
    working = rng.normal(size=(N_USERS, 2))
    eta = (behavior.design * units.vectors(working)[behavior.user]).sum(axis=1)
    expected = Orders.of(behavior.ranking, behavior.observed).log_probabilities(eta[None]).sum()
    assert likelihood.log_density(working, {}) == pytest.approx(expected, rel=1e-6)
    shuffled = rng.permutation(behavior.n_observations)
    other = behavior.take(shuffled).prepare(prior)[1]
    assert other.log_density(working, {}) == pytest.approx(expected, rel=1e-6)


def test_rows_in_any_order_and_places_in_any_form():
    table = pd.DataFrame(
        {"who": ["a", "b", "a", "b", "a"], "day": [1, 2, 1, 2, 1], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    )
    place = pd.Series([1, 2, None, 1, 2], dtype="Int64")
    behavior = dv.Rankings(table["who"], table["day"], table[["x"]], place)
    assert behavior.observed.tolist() == [1.0, 2.0, np.inf, 1.0, 2.0]
    assert behavior.users == ["a", "b"]
    orders = Orders.of(behavior.ranking, behavior.observed)
    assert orders.rows.tolist() == [0, 4, 2, 3, 1]
    assert orders.n_top.tolist() == [2, 1]
    assert "2 rankings of 5 items" in repr(behavior)
    assert behavior.facts()["outcome"] == "4 places in 2 rankings"


def test_rankings_are_cut_as_a_whole():
    behavior = rankings()
    for training, held_out in behavior.split(4):
        assert training.n_rankings + held_out.n_rankings == 24
        assert training.n_observations == SIZE * training.n_rankings
        assert held_out.n_observations == SIZE * held_out.n_rankings
    rows = behavior.whole(np.array([0, 1, 9, 20]))
    assert sorted(set(behavior.ranking[rows])) == [0, 5]
    assert len(rows) == 2 * SIZE
    assert len(behavior.whole(np.array([1]))) == SIZE
    with pytest.raises(InputError, match="taken as a whole; of ranking 0 2 rows of 4"):
        behavior.take([0, 1, 4, 5, 6, 7])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"place": [1, 2, 2, 1, 2, 3]}, "Ties are not supported"),
        ({"place": [0, 1, 2, 1, 2, 3]}, "1, 2, 3, …; ranking 7 has 0, 1, 2"),
        ({"place": [1, 3, np.nan, 1, 2, 3]}, "ranking 7 has 1, 3"),
        ({"place": [np.nan] * 3 + [1, 2, 3]}, "ranking 7 has no place at all"),
        ({"place": ["a"] * 6}, "whole numbers from 1"),
        ({"place": [1, 2, 3]}, r"a value per row, \(6,\); got shape \(3,\)"),
        ({"ranking": [7] * 6}, "ranking 7 has rows of several"),
        ({"ranking": [7, 7, 7, 8, 8, 9]}, "ranking 9 has one"),
        ({"ranking": [7, 8]}, "ranking must have a value per row"),
        ({"ranking": [0.5] * 6}, "fractions or missing"),
    ],
)
def test_refusals(changes, message):
    given = {
        "user": [0, 0, 0, 1, 1, 1],
        "ranking": [7, 7, 7, 8, 8, 8],
        "place": [1, 2, 3, 3, 2, 1],
    } | changes
    with pytest.raises(InputError, match=message):
        dv.Rankings(given["user"], given["ranking"], [[0.0], [1.0], [2.0]] * 2, given["place"])


def test_columns_that_do_not_differ_inside_rankings_are_refused():
    design = np.column_stack([np.arange(6.0), [3.0, 3.0, 3.0, 5.0, 5.0, 5.0]])
    data = ([0, 0, 0, 1, 1, 1], [7, 7, 7, 8, 8, 8])
    with pytest.raises(InputError, match=r"design must differ between the items of a ranking.*x1"):
        dv.Rankings(*data, design, [1, 2, 3, 3, 2, 1]).prepare(None)
    with pytest.raises(InputError, match=r"common must differ between the items of a ranking.*c0"):
        dv.Rankings(*data, design[:, :1], [1, 2, 3, 3, 2, 1], common=design[:, 1:]).prepare(None)
    with pytest.raises(InputError, match="at least two rankings; got 1"):
        dv.Rankings([0, 0], [0, 0], [[1.0], [2.0]], [1, 2]).prepare(None)
    with pytest.raises(InputError, match="Places are needed"):
        dv.Rankings([0, 0], [0, 0], [[1.0], [2.0]]).prepare(None)


@pytest.fixture(scope="module")
def fitted():
    behavior = rankings(40)
    return dv.DualViewMixture(n_warmup=60, n_draws=80, n_chains=2).fit(FEATURES, behavior), behavior


ITEMS = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.5]])


def test_predictions_for_known_users(fitted):
    model, behavior = fitted
    predicted = model.predict_outcome(
        dv.Rankings([0, 0, 0, 6, 6, 6], [1, 1, 1, 2, 2, 2], np.tile(ITEMS, (2, 1)), n_users=N_USERS)
    )
    assert isinstance(predicted, RankingMixture)
    assert predicted.mean[:3].sum() == pytest.approx(1.0)
    assert predicted.mean[2] < 0.2 < 0.5 < predicted.mean[5]
    eta = np.einsum("kq,sq->sk", ITEMS, model.posterior_.flat("latent")[:, 0])
    np.testing.assert_allclose(
        predicted.before([0, 2], [1, 0]),
        ndtr((eta[:, [0, 2]] - eta[:, [1, 0]]) / np.sqrt(2)).mean(axis=0),
    )
    low, high = predicted.interval(0.5).T
    assert ((low <= predicted.median) & (predicted.median <= high)).all()
    drawn = predicted.draws(8000)
    np.testing.assert_allclose((drawn == 1).mean(axis=0), predicted.mean, atol=0.03)
    assert (np.sort(drawn[:, :3], axis=1) == [1, 2, 3]).all()
    orders = [
        np.array(p) for p in ([1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1])
    ]
    chances = np.array([np.exp(predicted.log_density(np.concatenate([p, p]))) for p in orders])
    np.testing.assert_allclose(chances.sum(axis=0), 1.0, atol=1e-6)
    first = np.exp(predicted.log_density([1, None, None] * 2))
    np.testing.assert_allclose(first, predicted.mean[[0, 3]], rtol=1e-6)
    assert model.score(None, behavior) == pytest.approx(
        -model.predict_outcome(behavior).nll(behavior.observed)
    )
    with pytest.raises(InputError, match="of two rankings"):
        predicted.before([0], [3])


@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_predictions_for_new_users(fitted):
    model, _ = fitted
    new = dv.Rankings([N_USERS] * 3, ["a"] * 3, ITEMS)
    before = model.predict_outcome(new, FEATURES[:1])
    assert before.mean.sum() == pytest.approx(1.0)
    seen = dv.Rankings(
        np.zeros(9, dtype=int), np.repeat([0, 1, 2], 3), np.tile(ITEMS, (3, 1)), [2, 3, 1] * 3
    )
    after = model.predict_outcome(new, FEATURES[:1], seen)
    assert after.mean.sum() == pytest.approx(1.0)
    assert after.mean[2] > before.mean[2] + 0.1
    assert model.predict_latent(FEATURES[:1], seen).mean.shape == (1, 2)


def test_saved_and_read_back(fitted, tmp_path):
    model, _ = fitted
    model.posterior_.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    new = dv.Rankings([0] * 3, [0] * 3, ITEMS)
    np.testing.assert_array_equal(read.predict_outcome(new).mean, model.predict_outcome(new).mean)


@pytest.mark.usefixtures("few_replicates")
def test_scores_checks_and_trees(fitted):
    model, behavior = fitted
    table = dv.compare({"a": model, "b": model})
    assert np.isfinite(table["elpd"]).all()
    tree = model.posterior_.to_arviz(n_prior=20)
    assert tree["log_likelihood"]["outcome"].shape[-1] == behavior.n_rankings
    values = tree["log_likelihood"]["outcome"].values.reshape(-1, behavior.n_rankings)
    direct = -model.predict_outcome(behavior).nll(behavior.observed)
    assert np.log(np.exp(values).mean(axis=0)).mean() == pytest.approx(direct)
    assert set(np.unique(tree["posterior_predictive"]["outcome"])) == {1.0, 2.0, 3.0, 4.0}
    some = model.posterior_.to_arviz(["log_likelihood", "observed_data"], n_observations=20)
    assert (
        some["observed_data"]["outcome"].shape[-1]
        == SIZE * some["log_likelihood"]["outcome"].shape[-1]
        < 160
    )
    assert len(list(model.check(behavior, refit=False))) > 0


def test_from_rankings_names_the_better_way():
    with pytest.warns(DataWarning, match=r"Rankings\(user, ranking, design, place\)"):
        dv.PairwiseChoices.from_rankings([0], [[0, 1, 2]], ITEMS)


@pytest.mark.slow
def test_unseen_items_have_effects_of_their_groups_distribution():
    behavior = rankings(40, groups={"item": np.tile([0, 1, 2, 3], 40)})
    model = dv.DualViewMixture(1, n_warmup=60, n_draws=80, n_chains=1).fit(None, behavior)
    new = dv.Rankings([0] * 3, [0] * 3, np.zeros((3, 2)), groups={"item": [0, 8, 9]})
    assert model.predict_outcome(new).mean.sum() == pytest.approx(1.0)
    assert model.posterior_["group_effects"].shape[-1] == 4


@pytest.mark.slow
def test_rankings_as_they_are_predict_better_than_taken_apart():
    """Users rank six items once. Expected log loss, under the truth, of which of two other items
    each would put first."""
    rng, n_users, size = np.random.default_rng(3), 60, 6
    latent = np.array([[1.0, 0.0], [-0.5, 1.0]])[np.arange(n_users) % 2] + 0.4 * rng.normal(
        size=(n_users, 2)
    )
    items = rng.normal(size=(30, 2))
    sets = np.array([rng.choice(30, size + 2, replace=False) for _ in range(n_users)])
    utilities = np.einsum("ukq,uq->uk", items[sets], latent) + rng.normal(size=sets.shape)
    known, asked, user = sets[:, :size], sets[:, size:], np.arange(n_users)
    gap = np.einsum("uq,uq->u", items[asked[:, 0]] - items[asked[:, 1]], latent)
    truth = ndtr(gap / np.sqrt(2.0))
    place = np.array([places_of(row) for row in utilities[:, :size]])
    settings = {"n_warmup": 300, "n_draws": 300, "n_chains": 2}
    whole = dv.Rankings(
        np.repeat(user, size), np.repeat(user, size), items[known.ravel()], place.ravel()
    )
    new = dv.Rankings(np.repeat(user, 2), np.repeat(user, 2), items[asked.ravel()])
    chances = dv.DualViewMixture(**settings).fit(None, whole).predict_outcome(new).mean[::2]
    order = [known[u][np.argsort(place[u])].tolist() for u in user]
    with pytest.warns(DataWarning):
        apart = dv.PairwiseChoices.from_rankings(user, order, items)
    pairs = dv.PairwiseChoices(user, asked[:, 0], asked[:, 1], items)
    other = dv.DualViewMixture(**settings).fit(None, apart).predict_outcome(pairs).mean
    losses = [-(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)).mean() for p in (chances, other)]
    assert losses[0] < losses[1] - 0.01, losses

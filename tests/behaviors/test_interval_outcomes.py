"""Outcomes of UserRegression that are known to intervals: conditionals, predictions, outcomes left
out, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm, truncnorm

import dualview as dv
from dualview.behaviors.approximation.latent import SoftPrior
from dualview.behaviors.families.base import Moments, Parts
from dualview.behaviors.families.gaussian import NoiseFactor
from dualview.behaviors.families.interval import (
    CountMixture,
    Ends,
    IntervalFamily,
    IntervalMixture,
    log_probability,
)
from dualview.behaviors.kinds import behavior_from
from dualview.behaviors.recorded import inside
from dualview.behaviors.records import LatentPrior
from dualview.errors import InputError
from dualview.numerics.hyperprior import FINITE_VARIANCES, PUBLISHED
from dualview.numerics.streams import stream_of
from dualview.numerics.truncated import draw_between
from dualview.units import GaussianPrior

N_USERS = 8
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))
RNG = np.random.default_rng(0)
USER, DESIGN = RNG.integers(0, N_USERS - 1, 60), RNG.normal(size=(60, 1))
NUMBERS = 1.5 + DESIGN[:, 0] * np.where(USER < 4, -1.0, 1.5) + 0.5 * RNG.normal(size=60)
CENSORED = dv.Censored(np.minimum(NUMBERS, 2.0), np.where(NUMBERS > 2.0, np.nan, NUMBERS))
COUNTS = np.round(np.maximum(np.expm1(NUMBERS), 0.0))
LOG_COUNT = {"kind": "count", "scale": "log1p"}
OUTCOMES = {
    "censored": (CENSORED, {}),
    "rounded": (np.round(NUMBERS), {"outcome_kind": "rounded"}),
    "count": (COUNTS, {"outcome_kind": LOG_COUNT}),
}


def regression(kind, **options):
    outcome, own = OUTCOMES[kind]
    return dv.UserRegression(
        USER, DESIGN, outcome, intercept=True, n_users=N_USERS, **own, **options
    )


def ends_of(kind):
    """Lower and upper ends, written down again."""
    if kind == "censored":
        return np.minimum(NUMBERS, 2.0), np.where(NUMBERS > 2.0, np.inf, NUMBERS)
    if kind == "rounded":
        return np.round(NUMBERS) - 0.5, np.round(NUMBERS) + 0.5
    return np.where(COUNTS > 0, np.log1p(np.maximum(COUNTS - 0.5, 0.0)), -np.inf), np.log1p(
        COUNTS + 0.5
    )


def by_definition(low, high, mean, sd):
    chances = norm.cdf(high, mean, sd) - norm.cdf(low, mean, sd)
    return np.where(
        low == high, norm.logpdf(low, mean, sd), np.log(np.where(low == high, 1.0, chances))
    )


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 60)], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", OUTCOMES)
def test_the_likelihood_is_that_of_normal_intervals(kind, weights):
    behavior, rng = (
        regression(kind, weights=weights, offset=np.linspace(-1.0, 1.0, 60)),
        np.random.default_rng(1),
    )
    units, likelihood = behavior.prepare(GaussianPrior([1.5, -0.2], [[2.0, 0.1], [0.1, 1.0]]))
    assert isinstance(likelihood.family, IntervalFamily)
    assert likelihood.hyperprior is (PUBLISHED if kind == "rounded" else FINITE_VARIANCES)
    differences = []
    for noise in (0.2, 0.6):
        for _ in range(2):
            working = 0.3 * rng.normal(size=(N_USERS, 2))
            mean = (behavior.design * units.vectors(working)[USER]).sum(axis=1) + np.linspace(
                -1.0, 1.0, 60
            )
            sd = np.sqrt(
                likelihood.family.noise.prior.variance
                / noise
                / (1.0 if weights is None else weights)
            )
            prior = likelihood.family.noise.prior.working.log_density(noise)
            direct = by_definition(*ends_of(kind), mean, sd).sum() + prior
            differences.append(likelihood.log_density(working, {"noise_precision": noise}) - direct)
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)


@pytest.mark.parametrize("noise", ["shared", "cluster"])
@pytest.mark.parametrize("kind", OUTCOMES)
def test_the_noise_has_the_conditional_of_the_joint_density(kind, noise):
    """Log joint − log conditional is constant, of all observations or of one cluster's."""
    _, likelihood = regression(kind, noise=noise).prepare(None)
    latent, z = np.random.default_rng(2).normal(size=(N_USERS, 2)), np.arange(N_USERS) % 2
    own = np.arange(60) if noise == "shared" else np.flatnonzero(z[likelihood.panel.user] == 0)
    hidden = likelihood.family.noise_likelihood(likelihood.rows(latent, {}))
    conditional = likelihood.family.noise.prior.log_density(lambda value: hidden(value, own))
    differences = []
    for log_noise in np.linspace(-1.0, 2.0, 7):
        value = np.exp(log_noise)
        params = {"noise_precision": value if noise == "shared" else np.where(z == 0, value, 0.7)}
        joint = likelihood.log_density(latent, params) + log_noise  # per ln s
        differences.append(joint - conditional(log_noise))
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)
    assert conditional(800.0) == -np.inf


def test_numbers_between_ends_are_truncated_normal():
    rng, n = np.random.default_rng(3), 4000
    for low, high, sd in ((-0.5, 0.3, 1.0), (2.0, np.inf, 0.7), (-np.inf, -6.0, 2.0)):
        drawn = draw_between(stream_of(rng), np.full(n, low), np.full(n, high), np.full(n, sd))
        assert kstest(drawn, truncnorm(low / sd, high / sd, scale=sd).cdf).pvalue > 1e-4
    assert draw_between(stream_of(rng), np.array([1.5]), np.array([1.5]), np.ones(1)).tolist() == [
        1.5
    ]


def test_residuals_of_terms_lie_between_the_ends():
    _, likelihood = regression("censored").prepare(None)
    latent, params = likelihood.start(np.random.default_rng(0))
    terms = likelihood.terms(np.random.default_rng(1), latent, params)
    outcome = terms.residual + likelihood.panel.expected(latent)
    low, high, _ = likelihood.observed
    exact = low == high
    np.testing.assert_allclose(outcome[exact], low[exact])
    assert (outcome[~exact] > low[~exact]).all()
    assert likelihood.conjugate(params) is None
    assert likelihood.can_approximate
    assert not regression("censored", noise="cluster").prepare(None)[1].can_approximate


@pytest.mark.parametrize("kind", OUTCOMES)
def test_the_variational_bound_rises_to_less_than_the_evidence(kind):
    """Of users with a known prior N(0, I) of vectors; the evidence is by nodes about q and a grid
    of ln s."""
    _, likelihood = regression(kind).prepare(None)
    q = likelihood.approximate()
    far = SoftPrior(
        np.ones((1, N_USERS)), np.eye(2)[None], 1e12 * np.eye(2), np.zeros(2), np.zeros((1, 2))
    )
    bounds = []
    for _ in range(60):
        q = q.with_latent(far).with_params()
        means_part = 0.5 * np.log(1e12) * 2 - np.log(2 * np.pi)  # ln p(μ) and its entropy
        prior = -0.5 * (q.means**2).sum() - 0.5 * np.trace(q.covariances.sum(axis=0))
        prior -= N_USERS * np.log(2 * np.pi)
        means_part -= 0.5 * 1e12 * np.trace(q._covariance)
        bounds.append(q.bound() + prior + means_part)
    assert (np.diff(bounds) > -1e-6).all()
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.array([(a, b) for a in nodes for b in nodes])
    log_weights = np.log(np.outer(weights, weights).ravel()) + 0.5 * (grid**2).sum(axis=1)
    panel, (low, high, _) = likelihood.panel, likelihood.observed
    by_noise, places = [], np.linspace(-4.0, 4.0, 81)
    for noise in np.exp(places):
        total = likelihood.family.noise.prior.working.log_density(noise)
        for u in range(N_USERS):
            own, root = panel.user == u, 1.3 * np.linalg.cholesky(q.covariances[u])
            vectors = q.means[u] + grid @ root.T
            values = log_probability(
                low[own], high[own], vectors @ panel.design[own].T, noise**-0.5
            )
            values = values.sum(axis=1) - 0.5 * (vectors**2).sum(axis=1) - np.log(2 * np.pi)
            total += np.logaddexp.reduce(values + log_weights) + np.log(np.linalg.det(root))
        by_noise.append(total)
    evidence = np.logaddexp.reduce(by_noise + places) + np.log(places[1] - places[0])
    assert bounds[-1] < evidence


def test_exact_numbers_have_the_bound_of_a_regression():
    _, likelihood = regression("censored").prepare(None)
    y = likelihood.observed
    exact = Ends(y.inside, y.inside, y.inside)
    factor = likelihood.family.expect(exact)
    mean = np.random.default_rng(1).normal(size=len(y.inside))
    moments = Moments(mean, lambda: 3.0, lambda: np.full(len(mean), 3.0 / len(mean)))
    plain = NoiseFactor(factor.prior).updated(y.inside, moments)
    factor = factor.updated(exact, moments)
    assert factor.noise == plain.noise
    assert factor.bound(exact, moments) == pytest.approx(plain.bound(y.inside, moments))


def test_a_place_inside_intervals_for_first_estimates():
    low, high = np.array([0.0, 1.0, 2.0, -np.inf, 3.0]), np.array([0.0, 2.0, np.inf, 1.0, 3.0])
    found = inside(low, high)
    assert ((low <= found) & (found <= high) & np.isfinite(found)).all()
    assert found[2] > 2.0 > 1.0 > found[3]
    np.testing.assert_allclose(
        inside(1e6 * low + 7.0, 1e6 * high + 7.0), 1e6 * found + 7.0, rtol=1e-6
    )
    np.testing.assert_array_equal(inside(high[[0, 4]], high[[0, 4]]), high[[0, 4]])


@pytest.mark.slow
def test_many_censored_outcomes_of_one_user_give_a_tobit_regression():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(500, 1))
    numbers = 1.0 + 2.0 * design[:, 0] + rng.normal(size=500)
    seen = dv.Censored(
        np.where(numbers > 1.5, 1.5, numbers), np.where(numbers > 1.5, np.inf, numbers)
    )
    behavior = dv.UserRegression(np.zeros(500, dtype=int), design, seen, intercept=True, n_users=2)
    prior = GaussianPrior([0.0, 0.0], 100.0 * np.eye(2))
    model = dv.DualViewMixture(1, n_warmup=100, n_draws=400, n_chains=2, behavior_prior=prior).fit(
        None, behavior
    )
    draws = model.posterior_.flat("latent")[:, 0]
    assert (np.abs(draws.mean(axis=0) - [1.0, 2.0]) < 0.2).all()
    assert abs(np.mean(model.posterior_.flat("noise_precision") ** -0.5) - 1.0) < 0.15


@pytest.fixture(scope="module")
def fitted():
    settings = {"n_warmup": 60, "n_draws": 60, "n_chains": 2}
    return {
        kind: dv.DualViewMixture(**settings).fit(FEATURES, regression(kind)) for kind in OUTCOMES
    }


def again(user, design, n_users=N_USERS, outcome=None, **options):
    return dv.UserRegression(user, design, outcome, intercept=True, n_users=n_users, **options)


NEW = {
    "censored": dv.Censored([2.0, 1.0], [np.inf, 1.5]),
    "rounded": np.array([2.0, -1.0]),
    "count": np.array([3.0, 0.0]),
}
NEW_ENDS = {
    "censored": (np.array([2.0, 1.0]), np.array([np.inf, 1.5])),
    "rounded": (np.array([1.5, -1.5]), np.array([2.5, -0.5])),
    "count": (np.array([np.log(3.5), -np.inf]), np.log([4.5, 1.5])),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_predictions_for_known_users(fitted, kind):
    model = fitted[kind]
    predicted = model.predict_outcome(again([0, 6], [[1.0], [-1.0]]))
    latent, sds = (
        model.posterior_.flat("latent"),
        model.posterior_.flat("noise_precision")[:, None] ** -0.5,
    )
    means = np.column_stack([latent[:, 0] @ [1.0, 1.0], latent[:, 6] @ [1.0, -1.0]])
    low, high = NEW_ENDS[kind]
    chances = (norm.cdf(high, means, sds) - norm.cdf(low, means, sds)).mean(axis=0)
    np.testing.assert_allclose(np.exp(predicted.log_density(NEW[kind])), chances, rtol=1e-10)
    drawn = predicted.draws(4000)
    inside_interval = (
        (drawn >= predicted.interval(0.9)[:, 0]) & (drawn <= predicted.interval(0.9)[:, 1])
    ).mean(axis=0)
    assert (inside_interval > 0.88).all()
    error = 4.5 * drawn.std(axis=0) / np.sqrt(4000)
    assert (np.abs(drawn.mean(axis=0) - predicted.mean) < error).all()
    if kind == "count":
        assert isinstance(predicted, CountMixture)
        assert (drawn == np.round(drawn)).all()
        assert drawn.min() >= 0.0
        every = np.array([predicted.log_density([c, c]) for c in range(200)])
        np.testing.assert_allclose(np.exp(every).sum(axis=0), 1.0, atol=1e-3)
        np.testing.assert_allclose(predicted.cdf([3, 3]), np.exp(every[:4]).sum(axis=0), rtol=1e-9)
    else:
        assert isinstance(predicted, IntervalMixture)


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_predictions_for_new_users(fitted, kind):
    model, new = fitted[kind], again([N_USERS], [[0.0]], N_USERS + 1)
    before = model.predict_outcome(new, FEATURES[:1])
    high = {
        "censored": dv.Censored(np.full(12, 2.0), None),
        "rounded": np.full(12, 4.0),
        "count": np.full(12, 40.0),
    }
    seen = again(np.zeros(12, dtype=int), np.zeros((12, 1)), 1, high[kind], **OUTCOMES[kind][1])
    after = model.predict_outcome(new, FEATURES[:1], seen)
    assert after.median[0] > before.median[0]
    assert np.isfinite(after.log_density([3.0])).all()


@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("kind", OUTCOMES)
def test_saved_scored_and_checked(fitted, kind, tmp_path):
    model, behavior = fitted[kind], regression(kind)
    model.posterior_.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    new = again([0, 6], [[1.0], [-1.0]])
    np.testing.assert_array_equal(
        read.predict_outcome(new).log_density(NEW[kind]),
        model.predict_outcome(new).log_density(NEW[kind]),
    )
    described = behavior_from(behavior.described() | {"users": None})
    assert described.recorded == behavior.recorded
    assert np.isfinite(model.score(None, behavior))
    assert np.isfinite(dv.compare({"a": model, "b": model})["elpd"]).all()
    tree = model.posterior_.to_arviz(n_prior=40)
    assert ("outcome_low" in tree["observed_data"]) == (kind == "censored")
    replicated = tree["posterior_predictive"]["outcome"].values
    if kind != "censored":
        np.testing.assert_array_equal(replicated, np.round(replicated))
    values = tree["log_likelihood"]["outcome"].values.reshape(-1, 60)
    assert np.log(np.exp(values).mean(axis=0)).mean() == pytest.approx(model.score(None, behavior))
    assert len(list(model.check(behavior, refit=False))) > 0
    assert "intervals" not in repr(behavior.take([0, 1]))
    assert behavior.facts()["outcome"]
    assert behavior.take(np.arange(5)).observed.shape[0] == 5


def test_outcomes_left_out_are_those_of_integration():
    """Averages over draws of f and y of the conditional distributions given the others agree with a
    fine grid over f."""
    rng, user, design = (
        np.random.default_rng(5),
        np.zeros(4, dtype=int),
        np.array([[1.0], [-0.5], [2.0], [0.7]]),
    )
    low, high = np.array([0.2, -1.0, 0.5, 1.0]), np.array([1.2, 0.0, 0.5, np.inf])
    behavior = dv.UserRegression(user, design, dv.Censored(low, high), n_users=1)
    prior = LatentPrior(
        np.zeros(1, dtype=np.int64),
        np.array([[0.3]]),
        np.array([[[0.8]]]),
        np.array([0.3]),
        np.array([[1e12]]),
        np.zeros((1, 1)),
    )
    grid = np.linspace(-8.0, 8.0, 4001)
    log_rows = log_probability(low[:, None], high[:, None], design * grid, 0.6)
    weights = np.exp(log_rows.sum(axis=0) - 0.4 * (grid - 0.3) ** 2)
    drawn = rng.choice(grid, 800, p=weights / weights.sum())
    left_out, params = behavior.left_out(), {"noise_precision": 0.6**-2}
    laws = [left_out.predictive(prior, params, np.array([[f]])) for f in drawn]
    inverse = np.exp(
        -np.array([law.log_density(behavior.observed) for law in laws])
    )  # 1/p, whose mean is 1/p(y | others)
    for i in range(4):
        others = np.exp(np.delete(log_rows, i, axis=0).sum(axis=0) - 0.4 * (grid - 0.3) ** 2)
        expected = (others * np.exp(log_rows[i])).sum() / others.sum()
        error = inverse[:, i].std() / np.sqrt(len(drawn))
        assert abs(inverse[:, i].mean() - 1.0 / expected) < 4.5 * error
    placed = laws[0].standardized(rng, behavior.observed)
    assert placed[2] == pytest.approx((0.5 - laws[0].mean[2]) / laws[0].std[2])
    assert np.isfinite(placed).all()


@pytest.mark.parametrize("scale", ["identity", "log1p"])
def test_moments_of_counts(scale):
    behavior = dv.UserRegression(
        USER, DESIGN, COUNTS, outcome_kind={"kind": "count", "scale": scale}, n_users=N_USERS
    )
    locations, sds = np.array([[0.4, 3.0, 5.5]]), np.array([[0.9, 0.3, 0.5]])
    if scale == "identity":
        locations, sds = np.array([[0.4, 30.0, 300.0]]), np.array([[2.0, 5.0, 30.0]])
    mixture = CountMixture(
        3, 1, lambda c: Parts(np.zeros((1, 1)), locations[:, c], sds[:, c]), behavior.recorded
    )
    x = np.random.default_rng(0).normal(locations, sds, (200_000, 3))
    counts = np.maximum(np.round(x if scale == "identity" else np.expm1(x)), 0.0)
    error = 4.5 * counts.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(mixture.mean - counts.mean(axis=0)) < error).all()
    np.testing.assert_allclose(mixture.std, counts.std(axis=0), rtol=0.03)
    np.testing.assert_allclose(mixture.median, np.median(counts, axis=0), atol=1.0)
    huge = CountMixture(
        1,
        1,
        lambda _: Parts(np.zeros((1, 1)), np.full((1, 1), 900.0), np.ones((1, 1))),
        behavior.recorded,
    )
    assert scale == "identity" or (np.isinf(huge.mean).all() and np.isinf(huge.std).all())


@pytest.mark.parametrize(
    ("outcome", "options", "message"),
    [
        (dv.Censored("low", "high"), {}, "need numbers as ends"),
        (
            dv.Censored([1.0, 2.0, 3.0], [0.0, 2.0, 4.0]),
            {},
            "must not be above the upper one.*row 0",
        ),
        (
            dv.Censored([1.0, np.nan, 3.0], [2.0, np.inf, 4.0]),
            {},
            "needs one end at least; none in row 1",
        ),
        (dv.Censored([1.0, 2.0], [2.0, 3.0]), {}, "a value per row of design, 3; got 2"),
        (
            dv.Censored([1.0, 2.0, 3.0], ["a", "b", "c"]),
            {},
            "must be numbers; high has something else",
        ),
        (
            dv.Censored([1.0, 2.0, 3.0], None),
            {"outcome_kind": "count"},
            "Censored outcomes are continuous",
        ),
        ([1.0, 2.0, 3.5], {"outcome_kind": "count"}, "whole numbers from 0; got 3.5"),
        ([1.0, -2.0, 3.0], {"outcome_kind": "count"}, "whole numbers from 0; got -2"),
        (
            [0.1234567891, 2.7182818284, 9.8696044010],
            {"outcome_kind": "rounded"},
            "multiples of a common step",
        ),
        ([1.0, 2.0, 3.0], {"outcome_kind": "ordinal"}, "outcome_kind must be"),
        (
            [1.0, 2.0, 3.0],
            {"outcome_kind": {"kind": "count", "step": 2}},
            "count outcomes take no 'step'",
        ),
        (
            [1.0, 2.0, 3.0],
            {"outcome_kind": {"kind": "count", "scale": "log"}},
            "must be identity or log1p",
        ),
        ([1.0, 2.0, 3.0], {"outcome_kind": {"kind": "rounded", "step": -1.0}}, "step"),
    ],
)
def test_refusals(outcome, options, message):
    with pytest.raises(InputError, match=message):
        dv.UserRegression([0, 0, 1], [[1.0], [2.0], [3.0]], outcome, **options)


def test_refusals_of_tables_and_predictions(fitted):
    table = pd.DataFrame({"low": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 4.0]})
    with pytest.raises(InputError, match="must name the columns of X with the ends"):
        dv.describe_columns(table, columns={"income": dv.Censored([1.0], [2.0])})
    model = fitted["count"]
    with pytest.raises(InputError, match="give numbers, not bounds"):
        model.predict_outcome(again([0], [[1.0]])).log_density(dv.Censored([1.0], [2.0]))
    with pytest.raises(InputError, match=r"counts, whole numbers from 0; got 1\.5"):
        model.predict_outcome(again([0], [[1.0]])).log_density([1.5])
    with pytest.raises(InputError, match="which are count; got rounded"):
        model.predict_outcome(
            again([0, 1], [[1.0], [2.0]], outcome=[1.0, 2.0], outcome_kind="rounded")
        )
    by_cluster = regression("rounded", noise="cluster")
    with pytest.raises(InputError, match="must be exact numbers"):
        by_cluster.evidence(
            again([N_USERS], [[0.0]], N_USERS + 1, [1.0]), np.zeros((1, N_USERS, 2)), {}, 1
        )


def test_scores_are_compared_with_their_like_only(fitted):
    with pytest.raises(InputError, match="rounded: numbers rounded to 1, count: counts"):
        dv.compare({kind: fitted[kind] for kind in ("rounded", "count")})


@pytest.mark.slow
def test_users_left_out_are_compared():
    few = dv.DualViewMixture(n_warmup=10, n_draws=13, n_chains=2).fit(FEATURES, regression("count"))
    by_user = dv.compare({"a": few, "b": few}, by="user")
    assert np.isfinite(by_user["elpd"].astype(float)).all()


def test_exact_bounds_are_numbers():
    behavior = dv.UserRegression(USER, DESIGN, dv.Censored(NUMBERS, NUMBERS), n_users=N_USERS)
    assert behavior.recorded is None
    np.testing.assert_array_equal(behavior.observed, NUMBERS)

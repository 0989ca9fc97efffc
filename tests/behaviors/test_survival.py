"""SurvivalOutcomes: what is recorded, the likelihood in the user's units, fits of each family,
predictions, scores and refusals."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import dualview as dv
from dualview.behaviors.families.times import ERRORS, FAMILIES
from dualview.errors import InputError
from dualview.evaluation.comparison import observation_scores, user_scores

Array = Any
N_USERS = 12
USER = np.repeat(np.arange(N_USERS), 6)
X = np.random.default_rng(1).standard_normal((len(USER), 1))
NOTHING = np.empty((len(USER), 0))


def simulated(seed: int = 0) -> tuple[Array, Array, Array]:
    """Features of two groups, times of which one's are longer, and whether they were seen."""
    rng, group = np.random.default_rng(seed), np.arange(N_USERS) % 2
    time = np.exp(np.where(group, 1.2, 0.0))[USER] * rng.weibull(2.0, len(USER))
    until = rng.uniform(1.0, 6.0, len(USER))
    features = np.where(group, 3.0, -3.0)[:, None] + rng.standard_normal((N_USERS, 1))
    return features, np.minimum(time, until), time < until


def frozen(family: str, location: float, precision: float) -> Any:
    if family == "log-normal":
        return stats.lognorm(precision**-0.5, scale=np.exp(location))
    shape = ERRORS[family].sd * precision**0.5
    return (stats.weibull_min if family == "weibull" else stats.fisk)(shape, scale=np.exp(location))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_likelihood_is_that_of_times(family: str) -> None:
    """Up to a constant: the log density in working units and SciPy's in those of the user."""
    _, time, seen = simulated()
    behavior = dv.SurvivalOutcomes(USER, X, time, seen, family=family, intercept=True)
    units, likelihood = behavior.prepare(None)
    variance, rng, differences = behavior._noise_prior.variance, np.random.default_rng(3), []
    for precision in (0.5, 2.0, 3.0):
        vectors = rng.standard_normal((N_USERS, 2))
        params = {"noise_precision": precision * variance}
        working = likelihood.log_density(units.to_working(vectors), params)
        working -= likelihood.family.log_prior(params)
        eta = vectors[USER, 0] + X[:, 0] * vectors[USER, 1]
        laws = [frozen(family, place, precision) for place in eta]
        wanted = sum(
            law.logpdf(t) if own else law.logsf(t)
            for law, t, own in zip(laws, time, seen, strict=True)
        )
        differences.append(working - wanted)
        reported = likelihood.reported(params)["noise_precision"]
        assert float(reported) == pytest.approx(precision)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


@pytest.mark.usefixtures("few_replicates")
@pytest.mark.parametrize("family", FAMILIES)
def test_times_are_fitted_predicted_and_scored(family: str, tmp_path: Any) -> None:
    features, time, seen = simulated()
    options = {"family": family, "intercept": True}
    behavior = dv.SurvivalOutcomes(USER, NOTHING, time, seen, n_users=N_USERS, **options)
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=60), n_draws=60, n_chains=2)
    model.fit(features, behavior)
    group = np.arange(N_USERS) % 2
    assert model.latent_[group == 1].min() > model.latent_[group == 0].max()

    def asked(user: list[int], n_users: int, *times: Any) -> dv.SurvivalOutcomes:
        design = np.empty((len(user), 0))
        return dv.SurvivalOutcomes(user, design, *times, n_users=n_users, **options)

    known = model.predict_outcome(asked([0, 1], N_USERS))
    curve = known.survival([0.0, 1.0, 5.0])
    assert (np.diff(curve, axis=1) < 0.0).all()
    assert (curve[0] <= curve[1]).all()
    assert curve[0, 0] == pytest.approx(1.0)
    np.testing.assert_allclose(known.survival(1.0), 1.0 - known.cdf([1.0, 1.0]), rtol=1e-7)
    np.testing.assert_allclose(known.survival(known.median[0])[0], 0.5, rtol=1e-6)
    low, high = known.interval(0.8).T
    assert ((low < known.median) & (known.median < high)).all()
    new = model.predict_outcome(asked([N_USERS], N_USERS + 1), X_new=[[3.0]])
    assert new.median[0] > known.median[0]
    short = model.predict_latent([[3.0]], asked([0] * 4, 1, [0.1, 0.2, 0.1, 0.2], [1, 1, 1, 1]))
    assert short.mean[0] < model.predict_latent([[3.0]]).mean[0]
    between = dv.Censored([0.5, 2.0], [1.5, np.inf])
    np.testing.assert_allclose(
        np.exp(known.log_density(between)),
        [known.survival(0.5)[0] - known.survival(1.5)[0], known.survival(2.0)[1]],
        rtol=1e-6,
    )
    for scores in (observation_scores(model, behavior), user_scores(model, behavior, [])):
        assert np.isfinite(scores.total)
    checks = model.check(refit=False)
    assert family != "weibull" or checks["outcomes"].verdict == "fine"
    assert "which dv.compare tells apart" in checks["outcomes"].advice
    model.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    np.testing.assert_array_equal(
        again.predict_outcome(asked([0, 1], N_USERS)).median, known.median
    )
    assert "posterior_predictive" in model.posterior_.to_arviz().children


def test_what_is_recorded() -> None:
    made = dv.SurvivalOutcomes
    exact = made([0, 1], [[1.0], [2.0]], [3.0, 4.0])
    assert exact.observed.tolist() == [3.0, 4.0]
    ends = made([0, 1], [[1.0], [2.0]], [3.0, 4.0], [True, False])
    assert ends.observed.tolist() == [[3.0, 3.0], [4.0, np.inf]]
    assert ends.take([1]).observed.tolist() == [[4.0, np.inf]]
    both = made([0, 1, 1], [[1.0]] * 3, dv.Censored([None, 2.0, 0.0], [1.0, np.nan, 3.0]))
    assert both.observed.tolist() == [[-np.inf, 1.0], [2.0, np.inf], [0.0, 3.0]]
    low, high = both.recorded.intervals(both.observed)
    np.testing.assert_allclose(low, [-np.inf, np.log(2.0), -np.inf])
    np.testing.assert_allclose(high, [0.0, np.inf, np.log(3.0)])
    assert both.scored_as == "times"


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (([0.0, 1.0],), {}, "time must hold times above 0; got 0 in row"),
        (([-1.0, 1.0], [0, 1]), {}, "A censored time of 0 says nothing"),
        (([1.0, 2.0], [1, 2]), {}, "event must have a value for each time, 1 or True .* got 2"),
        (([1.0, 2.0], [1]), {}, "event must have a value for each time, .* got 1 of them"),
        (([1.0],), {}, "a value per row of design, 2; got 1"),
        ((None, [1, 1]), {}, "give them as time"),
        ((dv.Censored([1.0, 2.0], [2.0, 3.0]), [1, 1]), {}, "leave event out"),
        ((dv.Censored([1.0, -3.0], [2.0, -1.0]),), {}, "time must hold times above 0; got -1"),
        ((dv.Censored([0.0, 1.0], [np.inf, 2.0]),), {}, "A censored time of 0 says nothing"),
        (([1.0, np.nan],), {}, "time must be finite"),
        (([1.0, 2.0],), {"family": "cox"}, "one of weibull, log-logistic, log-normal; got 'cox'"),
    ],
)
def test_what_is_no_time_is_refused(given: Any, options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        dv.SurvivalOutcomes([0, 1], [[1.0], [2.0]], *given, **options)


def test_families_are_compared_as_scores_of_the_same_times() -> None:
    features, time, seen = simulated()
    fits = {}
    for family in ("weibull", "log-logistic"):
        behavior = dv.SurvivalOutcomes(
            USER, NOTHING, time, seen, family=family, intercept=True, n_users=N_USERS
        )
        model = dv.DualViewMixture(1, engine=dv.Gibbs(n_warmup=40), n_draws=40, n_chains=2)
        fits[family] = model.fit(features, behavior)
    assert set(dv.compare(fits).index) == set(fits)
    first, second = (model.predict_outcome(model.behavior_) for model in fits.values())
    with pytest.raises(InputError, match="different families cannot be mixed"):
        first.joined([second], np.array([0.5, 0.5]))


def test_one_time_per_person_is_profile_regression() -> None:
    rng = np.random.default_rng(4)
    group = np.arange(40) % 2
    time = np.exp(1.5 * group) * rng.weibull(2.0, 40)
    behavior = dv.SurvivalOutcomes(
        np.arange(40),
        np.empty((40, 0)),
        np.minimum(time, 3.0),
        time < 3.0,
        common=rng.standard_normal((40, 1)),
        intercept=True,
    )
    features = np.where(group, 2.0, -2.0)[:, None] + rng.standard_normal((40, 1))
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=60), n_draws=40, n_chains=2)
    model.fit(features, behavior)
    assert model.posterior_.spec.pooling == "cluster"
    assert model.posterior_["coefficients"].shape == (2, 40, 1)
    assert model.latent_[group == 1].mean() > model.latent_[group == 0].mean() + 0.7

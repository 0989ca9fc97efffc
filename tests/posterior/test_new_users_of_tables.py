"""New users with missing cells, intervals and categories: against fits that include them, and
against integrals."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import dualview as dv
from checks import ACCEPT
from dualview.behaviors.families import base as mixtures
from dualview.columns import Columns
from dualview.errors import DataWarning, InputError
from dualview.inputs.data import Data
from dualview.inputs.fits import fit_model
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model
from dualview.posterior.prediction import looks
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.user_features import Features

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning"),
]

N_USERS, N_THREADS, N_RUNS = 10, 14, 8
PRIORS = {
    "feature_prior": dv.GaussianPrior([0.0, 1.2], [[1.0, 0.2], [0.2, 0.5]]),
    "behavior_prior": dv.GaussianPrior(0.0, 4.0),
}
THRESHOLDS = np.array([-2.5, -1.5, 0.0, 1.5])
INF = np.inf


def small_table() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Two groups; the last two users are new and take part in nothing: one lacks a number, the
    other a category."""
    rng = np.random.default_rng(3)
    group = np.arange(N_USERS + 2) % 2
    table = pd.DataFrame(
        {
            "height": 2.0 * group - 1.0 + 0.4 * rng.standard_normal(len(group)),
            "posts": rng.poisson(np.where(group == 1, 6, 1)),
            "town": np.array(["A", "B", "C"])[(group + (rng.random(len(group)) < 0.3)) % 3],
        }
    )
    table.loc[[1, 4, N_USERS], "height"] = np.nan
    table.loc[[2, N_USERS + 1], "town"] = None
    participation = rng.integers(0, 2, (N_THREADS, N_USERS)).astype(float)
    latent = 3.0 * group - 1.5 + 0.5 * rng.standard_normal(len(group))
    return (
        table,
        participation,
        participation @ latent[:N_USERS] + 0.7 * rng.standard_normal(N_THREADS),
    )


TABLE, PARTICIPATION, OUTCOME = small_table()
CODEBOOK = Columns.from_table(TABLE, {"posts": {"kind": "count", "scale": "log1p"}})
NEW = TABLE.iloc[N_USERS:]


def fit(
    seed: int, users: list[int], n_clusters: int | None, link: str | None, n_draws: int
) -> dv.DualViewMixture:
    """A fit to some users, by the codebook of all: shares of levels are constants of the model."""
    lengths = {"n_warmup": min(400, n_draws // 2), "n_draws": n_draws, "n_chains": 1}
    model = dv.DualViewMixture(
        n_clusters, link=link, init="one", random_state=seed, **lengths, **PRIORS
    )
    participation = np.zeros((N_THREADS, len(users)))
    participation[:, :N_USERS] = PARTICIPATION
    behavior = dv.SharedOutcome(participation, OUTCOME, noise_variance=4.0)
    cells = CODEBOOK.cells(TABLE).take(np.array(users))
    return take_draws(
        model, Data(None, ["height", "posts"], behavior, range(len(users)), CODEBOOK, cells)
    )


def take_draws(model: dv.DualViewMixture, data: Data) -> dv.DualViewMixture:
    """The model fitted to data that ``fit`` would read by a codebook of their own."""
    parameters = Parameters.of(model)
    model._take(fit_model(parameters, build_model(parameters, data))[0], data.behavior)
    return model


def compare(predicted: Callable[[int], np.ndarray], refitted: Callable[[int], np.ndarray]) -> float:
    """Largest |z| between two estimates of the same numbers, each from independent runs."""
    runs = [
        np.array([estimate(seed) for seed in range(N_RUNS)]) for estimate in (predicted, refitted)
    ]
    error = np.sqrt(sum(run.var(axis=0, ddof=1) / N_RUNS for run in runs))
    return float(np.abs((runs[0].mean(axis=0) - runs[1].mean(axis=0)) / error).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_clusters", "link"),
    [(None, None), (3, None), (None, "linear")],
    ids=["inferred", "fixed", "with a link"],
)
@pytest.mark.parametrize("lacks", ["height", "town"])
def test_prediction_equals_a_fit_that_includes_the_user(
    lacks: str, n_clusters: int | None, link: str | None
) -> None:
    check_against_fits_with_the_user(lacks, n_clusters, link, n_draws=1500)


def test_prediction_equals_a_short_fit_that_includes_the_user() -> None:
    check_against_fits_with_the_user("height", None, None, n_draws=400)


def check_against_fits_with_the_user(
    lacks: str, n_clusters: int | None, link: str | None, n_draws: int
) -> None:
    """Latent behavior, and the cell that the user lacks: its distribution function, or the
    probabilities of its levels."""
    place = 0 if lacks == "height" else 1
    new = NEW.iloc[place : place + 1]
    users = [*range(N_USERS), N_USERS + place]

    def predicted(seed: int) -> np.ndarray:
        model = fit(seed, users[:-1], n_clusters, link, n_draws)
        latent = model.predict_latent(new)
        below = [latent.cdf([threshold])[0] for threshold in THRESHOLDS]
        filled = model.impute(new, n_draws=4000)
        if lacks == "town":
            return np.concatenate([below, filled.probabilities("town").to_numpy()[0, :2]])
        height = filled.draws(new.index[0], "height")
        return np.concatenate([below, [(height < threshold).mean() for threshold in THRESHOLDS]])

    def refitted(seed: int) -> np.ndarray:
        model = fit(100 + seed, users, n_clusters, link, n_draws)
        below = (model.posterior_.flat("latent")[:, -1:] < THRESHOLDS).mean(axis=0)
        filled = model.impute()
        if lacks == "town":
            return np.concatenate([below, filled.probabilities("town").loc[N_USERS].to_numpy()[:2]])
        return np.concatenate(
            [below, (filled.draws(N_USERS, "height")[:, None] < THRESHOLDS).mean(axis=0)]
        )

    assert compare(predicted, refitted) < ACCEPT


@pytest.fixture(scope="module")
def fitted() -> dv.DualViewMixture:
    """A short fit: few draws, each with clusters and fresh ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dv.DualViewMixture(n_warmup=100, n_draws=30, n_chains=1, **PRIORS)
        behavior, cells = (
            dv.SharedOutcome(PARTICIPATION, OUTCOME),
            CODEBOOK.cells(TABLE.iloc[:N_USERS]),
        )
        return take_draws(
            model, Data(None, ["height", "posts"], behavior, range(N_USERS), CODEBOOK, cells)
        )


def cells_of(model: dv.DualViewMixture, low: Any, high: Any, codes: Any) -> Features:
    low, high = (np.array(side, dtype=float) for side in (low, high))
    return Features.of(model.posterior_, {"low": low, "high": high, "codes": np.array(codes)})


def test_intervals_are_integrals_of_the_density_of_exact_cells(fitted: dv.DualViewMixture) -> None:
    """In every row, those of fresh clusters too."""
    rows = Candidates(fitted.posterior_)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    points = 0.4 + 0.3 * nodes
    exact = cells_of(
        fitted, *[np.column_stack([points, np.full(40, 1.5)])] * 2, np.full((40, 1), 1)
    )
    interval = cells_of(fitted, [[0.1, 1.5]], [[0.7, 1.5]], [[1]])
    expected = logsumexp(rows.log_features(exact, 40) + np.log(0.3 * weights)[:, None], axis=0)
    units = fitted.posterior_.spec.units["features"]
    np.testing.assert_allclose(rows.log_features(interval, 1)[0], expected, rtol=1e-6, atol=1e-6)
    wide = rows.log_features(cells_of(fitted, [[-1e300, 1.5]], [[1e300, 1.5]], [[1]]), 1)
    missing = rows.log_features(cells_of(fitted, [[-INF, 1.5]], [[INF, 1.5]], [[1]]), 1)
    np.testing.assert_allclose(missing, wide, rtol=1e-9)
    nothing = rows.log_features(cells_of(fitted, [[-INF, -INF]], [[INF, INF]], [[-1]]), 1)
    np.testing.assert_allclose(nothing - units.log_volume, 0.0, atol=1e-12)


def test_levels_have_the_clusters_shares_and_g_in_fresh_ones(fitted: dv.DualViewMixture) -> None:
    rows = Candidates(fitted.posterior_)
    shares = [
        rows.log_features(cells_of(fitted, [[0.1, 1.5]], [[0.1, 1.5]], [[code]]), 1)[0]
        - rows.log_features(cells_of(fitted, [[0.1, 1.5]], [[0.1, 1.5]], [[-1]]), 1)[0]
        for code in range(3)
    ]
    np.testing.assert_allclose(logsumexp(shares, axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(
        np.exp(np.array(shares)[:, ~rows.known]).T,
        [CODEBOOK.of("categories")[0].shares] * (~rows.known).sum(),
    )
    first = np.flatnonzero(rows.known)[3]
    expected = fitted.posterior_.components["categories.log_shares"][rows.component[first]]
    np.testing.assert_allclose(np.array(shares)[:, first], expected, atol=1e-10)


def test_probabilities_of_all_that_can_be_observed_sum_to_one(fitted: dv.DualViewMixture) -> None:
    """Over towns, and over counts, the scores sum to that of the height alone."""
    alone = fitted.score_samples(pd.DataFrame({"height": [0.3], "posts": [np.nan], "town": [None]}))
    towns = fitted.score_samples(
        pd.DataFrame({"height": 0.3, "posts": np.nan, "town": ["A", "B", "C"]})
    )
    assert logsumexp(towns) == pytest.approx(alone[0], abs=1e-10)
    edges = np.array([-INF, -1.0, 0.4, 1.2, 2.5, INF])
    low, high = (np.column_stack([np.full(5, 0.3), part]) for part in (edges[:-1], edges[1:]))
    parts = Candidates(fitted.posterior_).log_features(
        cells_of(fitted, low, high, np.full((5, 1), -1)), 5
    )
    whole = Candidates(fitted.posterior_).log_features(
        cells_of(fitted, [[0.3, -INF]], [[0.3, INF]], [[-1]]), 1
    )
    np.testing.assert_allclose(logsumexp(parts, axis=0), whole[0], atol=1e-9)


def test_whoever_opens_a_cluster_counts_in_its_shares(fitted: dv.DualViewMixture) -> None:
    """E θ_l = (γ g_l + 1)/(γ + 1) for the level that the user has, (C17); without one, g_l."""
    rows = Candidates(fitted.posterior_)
    opened = np.repeat(np.flatnonzero(~rows.known)[:1], 20_000)
    concentration = fitted.posterior_.flat("categories.concentrations")[rows.draw[opened[0]], 0]
    shares = np.array(CODEBOOK.of("categories")[0].shares)
    for code, counts in ((1, [0.0, 1.0, 0.0]), (-1, np.zeros(3))):
        x = cells_of(fitted, [[0.0, 1.0]], [[0.0, 1.0]], [[code]])
        found = rows.features.opened(np.random.default_rng(0), opened, x, (None, None))
        assert found is not None
        theta = np.exp(found[1])
        expected = (concentration * shares + counts) / (concentration + sum(counts))
        error = theta.std(axis=0) / np.sqrt(len(theta))
        assert (np.abs(theta.mean(axis=0) - expected) < ACCEPT * error).all()


@pytest.mark.slow
def test_two_new_users_are_exchangeable(fitted: dv.DualViewMixture) -> None:
    """p(a) p(b | a) = p(b) p(a | b), where one may open a cluster for the other; cells are drawn
    when it is opened."""
    post = fitted.posterior_
    cells = cells_of(fitted, [[-INF, 4.0], [5.0, 3.9]], [[INF, 4.0], [5.0, 4.2]], [[2], [-1]])
    found = []
    for order in ((0, 1), (1, 0)):
        densities = [
            np.exp(
                NewUsers(Candidates(post, seed), cells, 2)
                .impute(np.random.default_rng(seed), np.array(order))
                .log_density
            )
            for seed in range(40)
        ]
        found.append(np.mean(densities, axis=1))
    error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in found))
    assert abs(found[0].mean() - found[1].mean()) < ACCEPT * error


def test_batches_of_new_users_change_nothing(fitted: dv.DualViewMixture) -> None:
    whole = fitted.predict_proba(TABLE)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        [fitted.predict_proba(TABLE.iloc[[i]])[0] for i in range(len(TABLE))], whole, rtol=1e-9
    )


def one_at_a_time(model: dv.DualViewMixture, level: float) -> dict[str, np.ndarray]:
    """What is predicted of the users of the table, from each one's own weights of all rows."""
    post = model.posterior_
    rows, x = Candidates(post), Features.of(post, CODEBOOK.cells(TABLE).data)
    means, sds = rows.latent.means[:, 0], np.sqrt(rows.latent.covariances[:, 0, 0])
    found: dict[str, list[Any]] = {"clusters": [], "score": [], "mean": [], "below": []}
    for user in range(len(TABLE)):
        weights = np.log(rows.weight / rows.total[rows.draw])
        weights = weights + rows.log_features(x[user : user + 1], 1)[0]
        found["score"].append(logsumexp(weights) - np.log(rows.n_draws))
        weights = np.exp(weights - logsumexp(weights))
        found["clusters"].append(weights @ rows.overlap)
        found["mean"].append(weights @ means)
        found["below"].append(weights @ norm.cdf(level, means, sds))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("n_kept", [10**8, 5, 1], ids=["one page", "pages", "a user a page"])
@pytest.mark.parametrize("n_at_once", [10**8, 2], ids=["one batch", "batches"])
def test_users_together_are_what_each_is_alone(
    fitted: dv.DualViewMixture, monkeypatch: pytest.MonkeyPatch, n_kept: int, n_at_once: int
) -> None:
    """Whatever is kept of them, and in whatever batches they come."""
    rows = Candidates(fitted.posterior_)
    monkeypatch.setattr(looks, "_KEPT", n_kept * len(rows))
    monkeypatch.setattr(looks, "MOST_CELLS", n_at_once * len(rows))
    monkeypatch.setattr(mixtures, "_CELLS", 3 * len(rows))
    expected, latent = one_at_a_time(fitted, 0.4), fitted.predict_latent(TABLE)
    found = {
        "clusters": fitted.predict_proba(TABLE),
        "score": fitted.score_samples(TABLE),
        "mean": latent.mean,
        "below": latent.cdf(np.full(len(TABLE), 0.4)),
    }
    expected["score"] -= fitted.posterior_.spec.units["features"].log_volume
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-10, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(latent.cdf(latent.interval(0.8)[:, 1]), 0.9, atol=1e-10)


def test_features_of_the_same_users_are_looked_at_once(
    fitted: dv.DualViewMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as there is a prediction of them; other cells are other users."""
    seen: list[int] = []
    plain = Candidates.log_features

    def counted(self: Candidates, x: Any, n_users: int) -> np.ndarray:
        seen.append(n_users)
        return plain(self, x, n_users)

    monkeypatch.setattr(Candidates, "log_features", counted)
    table = TABLE.copy()
    latent = fitted.predict_latent(table)
    probabilities = fitted.predict_proba(table)
    mean, _ = latent.mean, latent.interval()
    assert sum(seen) == len(table)
    table.loc[0, "height"] += 1.0
    assert not np.array_equal(fitted.predict_proba(table)[0], probabilities[0])
    assert sum(seen) == 2 * len(table)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_latent(TABLE).mean, mean)
    del latent
    for n in (4, 5):
        np.testing.assert_array_equal(fitted.predict_proba(TABLE), probabilities)
        assert sum(seen) == n * len(table)


def test_complete_rows_are_what_they_were_beside_others() -> None:
    """A model of plain numbers: rows with NaN change nothing for those without, to the last bit."""
    forum = dv.datasets.agreement(30, 60, seed=1)
    model = dv.DualViewMixture(n_warmup=50, n_draws=50, n_chains=1).fit(forum.features)
    holes = forum.features.copy()
    holes[3, 0] = np.nan
    plain, mixed = model.predict_proba(forum.features), model.predict_proba(holes)
    others = np.delete(np.arange(30), 3)
    np.testing.assert_array_equal(mixed[others], plain[others])
    assert not np.array_equal(mixed[3], plain[3])
    np.testing.assert_array_equal(
        model.score_samples(holes)[others], model.score_samples(forum.features)[others]
    )
    nothing = model.predict_proba([[np.nan, np.nan]])[0]
    sizes = np.bincount(model.labels_) / 30
    np.testing.assert_allclose(nothing[:-1], sizes, atol=0.2)


def test_unknown_levels_are_named_or_missing_on_request(fitted: dv.DualViewMixture) -> None:
    new = pd.DataFrame(
        {"town": ["Z", "A"], "height": [0.5, 0.5], "posts": [1, 1]}
    )  # in another order
    with pytest.raises(
        InputError, match=r"Column 'town' has unknown level\(s\) 'Z', in row 0.*unknown=\"missing\""
    ):
        fitted.predict(new)
    found = fitted.predict_proba(new, unknown="missing")
    np.testing.assert_allclose(found[0], fitted.predict_proba(new.assign(town=None))[0])
    assert fitted.score(new, unknown="missing") < 0
    with pytest.raises(InputError, match='unknown must be "error" or "missing"'):
        fitted.predict(new, unknown="drop")
    with pytest.raises(InputError, match="must have the columns of the fit"):
        fitted.predict(new.drop(columns="posts"))


def test_behavior_follows_a_missing_cell_as_far_as_the_others_tell() -> None:
    """With one cluster it is normal in every draw, which weighs in by the density of the cell that
    is there."""
    forum = dv.datasets.agreement(20, 40, seed=1)
    model = dv.DualViewMixture(1, link="linear", n_warmup=200, n_draws=1500, n_chains=1)
    model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
    post, units = model.posterior_, model.posterior_.spec.units
    means, factors = post.components["features.means"], post.components["features.factors"]
    roots = units["features"].factor @ np.linalg.inv(np.swapaxes(factors, 1, 2))
    centre, covariance = units["features"].vectors(means), roots @ np.swapaxes(roots, 1, 2)
    away = 1.0 - centre[:, 1]
    weights = np.exp(-0.5 * away**2 / covariance[:, 1, 1]) / np.sqrt(covariance[:, 1, 1])
    expected = centre[:, 0] + covariance[:, 0, 1] / covariance[:, 1, 1] * away
    left = covariance[:, 0, 0] - covariance[:, 0, 1] ** 2 / covariance[:, 1, 1]
    slopes, latent = post.flat("slopes"), Candidates(post).latent
    level_of, spread = latent.means[:, 0], latent.covariances[:, 0]
    x = np.column_stack([expected, np.ones(len(away))]) - units["features"].mean
    locations, variances = (
        level_of + (slopes * x).sum(axis=1),
        spread[:, 0] + slopes[:, 0] ** 2 * left,
    )
    found = model.predict_latent([[np.nan, 1.0]])
    for threshold in [found.quantile(level)[0] for level in (0.05, 0.2, 0.5, 0.8, 0.95)]:
        below = np.average(norm.cdf(threshold, locations, np.sqrt(variances)), weights=weights)
        assert found.cdf([threshold])[0] == pytest.approx(below, abs=0.01)


def test_a_row_off_the_span_of_the_fit_is_named() -> None:
    x = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.warns(DataWarning, match="span 2 of 3"):
        model = dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1).fit(
            np.column_stack([x, x.sum(axis=1)])
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.score_samples([[1.0, 2.0, np.nan], [np.nan, 2.0, 3.0]])
    with pytest.warns(DataWarning, match=r"row 0 \(by"):
        model.score_samples([[1.0, 2.0, 4.0]])

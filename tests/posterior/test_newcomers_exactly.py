"""Newcomers against MODEL.md section 6 written out: sums over draws and clusters, integrals over a
fresh cluster by quadrature.

The twin works in the user's units, row by row, with observations integrated out as one multivariate
normal. What the package says depends on its own random numbers (fresh clusters, sampled vectors):
it is averaged over seeds, and their spread is the tolerance.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_expit

import dualview as dv
from checks import ACCEPT
from dualview.posterior.prediction import candidates, new_outcomes, new_users
from dualview.predictions import Placement

N_USERS, N_SEEDS = 12, 6
PRIORS = {
    1: dv.GaussianPrior(0.5, 2.0),
    2: dv.GaussianPrior([0.5, -0.5], [[2.0, 0.4], [0.4, 1.0]]),
}
FEATURES = dv.GaussianPrior([0.0, 1.0], [[1.0, 0.3], [0.3, 2.0]])
NEWCOMER = np.array([0.9, 0.4])
N_SCALES, N_NOISES = 60, 40

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def features() -> np.ndarray:
    rng = np.random.default_rng(3)
    group = np.arange(N_USERS) % 2
    return np.column_stack([2.0 * group - 1.0, -1.5 * group + 1.5]) + 0.5 * rng.standard_normal(
        (N_USERS, 2)
    ) * [1.0, 1.5]


def fitted(q: int, behavior: Any, **options: Any) -> dv.DualViewMixture:
    settings = {
        "n_warmup": 150,
        "n_draws": 16,
        "thin": 5,
        "n_chains": 1,
        "init": "one",
        "random_state": 2,
    }
    return dv.DualViewMixture(
        **settings, feature_prior=FEATURES, behavior_prior=PRIORS[q], **options
    ).fit(features(), behavior)


class Row(NamedTuple):
    """A cluster the newcomer may be in: its draw, ln of prior × p(features), and its latent
    vector's mean and covariance."""

    draw: int
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray
    noise: (
        float | None
    )  # of its users, where it is the cluster's own; NaN where it is from the prior


def rows_of(
    model: dv.DualViewMixture, cluster_noise: bool = False, newcomer: np.ndarray = NEWCOMER
) -> list[Row]:
    """Every cluster of every draw, then N_SCALES fresh ones a draw."""
    post = model.posterior_
    table, z = post.components, post.flat("z")
    slopes = post.flat("slopes") if "slopes" in post else None
    rows = []
    for i, alpha in enumerate(post.flat("alpha")):
        shift = 0.0 if slopes is None else slopes[i] @ (newcomer - FEATURES.mean)
        members = np.flatnonzero(table["owner"] == i)
        for k, row in enumerate(members):
            mean, covariance = component(post, "features", row)
            latent, spread = component(post, "behavior", row)
            prior = np.log(table["count"][row] / (alpha + N_USERS))
            noise = post.flat("noise_precision")[i][z[i] == k][0] if cluster_noise else None
            rows.append(
                Row(
                    i, prior + log_normal(newcomer, mean, covariance), latent + shift, spread, noise
                )
            )
        mean, covariances = fresh(post, "features", i)
        new = np.log(alpha / (alpha + N_USERS)) + np.log(
            np.mean([np.exp(log_normal(newcomer, mean, c)) for c in covariances])
        )
        latent, spreads = fresh(post, "behavior", i)
        noise = np.nan if cluster_noise else None
        rows += [
            Row(i, new - np.log(N_SCALES), latent + shift, spread, noise) for spread in spreads
        ]
    return rows


def component(post: dv.Posterior, view: str, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance in the user's units."""
    units, factor = post.spec.units[view], post.components[f"{view}.factors"][row]
    covariance = np.linalg.inv(factor @ factor.T)
    return units.mean + units.factor @ post.components[f"{view}.means"][
        row
    ], units.factor @ covariance @ units.factor.T


def fresh(post: dv.Posterior, view: str, draw: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """A vector of a fresh cluster: N(μ_0, (β/g) W_0 + R_0⁻¹) with g at χ² quantiles."""
    names = ("base_mean", "base_precision", "base_covariance", "base_dof")
    mean, precision, covariance, dof = (
        np.atleast_1d(post.flat(f"{view}.{name}")[draw]) for name in names
    )
    n_dims = len(mean)
    precision, covariance = precision.reshape(n_dims, n_dims), covariance.reshape(n_dims, n_dims)
    scales = dof[0] / stats.chi2(dof[0] - n_dims + 1).ppf((np.arange(N_SCALES) + 0.5) / N_SCALES)
    return mean, [scale * covariance + np.linalg.inv(precision) for scale in scales]


def log_normal(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    away = x - mean
    return float(
        -0.5 * away @ np.linalg.solve(covariance, away)
        - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    )


def regression_below(
    rows: list[Row], design: Any, outcome: Any, asked: Any, levels: Any, noise: Any
) -> np.ndarray:
    """P(y* ≤ level | features, observations), y* with design ``asked``. noise: precisions by draw,
    or σ_0² of clusters' own."""
    quantiles = stats.chi2(1).ppf((np.arange(N_NOISES) + 0.5) / N_NOISES)
    cases = []
    for row in rows:
        precisions = (
            [noise[row.draw]]
            if row.noise is None
            else quantiles / noise
            if np.isnan(row.noise)
            else [row.noise]
        )
        cases += [
            (row.log_weight - np.log(len(precisions)), row.mean, row.covariance, own)
            for own in precisions
        ]
    log_weights, means, covariances, precisions = (
        np.array(part) for part in zip(*cases, strict=True)
    )
    lines, n = np.vstack([design, asked]), len(outcome)
    centres = means @ lines.T
    spreads = lines @ covariances @ lines.T + np.eye(n + 1) / precisions[:, None, None]
    away = np.asarray(outcome) - centres[:, :n]
    gains = np.linalg.solve(spreads[:, :n, :n], spreads[:, :n, n:])[..., 0]
    squares = (away * np.linalg.solve(spreads[:, :n, :n], away[..., None])[..., 0]).sum(axis=1)
    log_weights -= 0.5 * squares + 0.5 * np.linalg.slogdet(2 * np.pi * spreads[:, :n, :n])[1]
    variances = spreads[:, n, n] - (gains * spreads[:, :n, n]).sum(axis=1)
    centre = centres[:, n] + (gains * away).sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    return (
        weights
        @ stats.norm.cdf((levels - centre[:, None]) / np.sqrt(variances)[:, None])
        / weights.sum()
    )


def over_seeds(
    model: dv.DualViewMixture, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of an answer over the seeds of fresh clusters and of sampled
    vectors."""
    answers = []
    monkeypatch.setattr(candidates, "_BASE_DRAWS", 1600)
    for seed in range(N_SEEDS):
        for module in (candidates, new_users):
            monkeypatch.setattr(module, "SEED", 100 + seed)
        placement = model._placement = Placement(model.posterior_)
        placement.__dict__["candidates"] = candidates.Candidates(model.posterior_, seed)
        answers.append(ask(seed))
    return np.mean(answers, axis=0), np.std(answers, axis=0, ddof=1) / np.sqrt(N_SEEDS)


def assert_same(
    found: tuple[np.ndarray, np.ndarray], exact: np.ndarray, quadrature: float = 2e-3
) -> None:
    mean, error = found
    assert (np.abs(mean - exact) < ACCEPT * error + quadrature).all(), (mean, exact, error)


def regression_data(n_each: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(N_USERS), n_each)
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    latent = np.where(np.arange(N_USERS)[:, None] % 2, [2.0, -1.0], [-0.5, 0.5]) + features() @ [
        [1.5, -0.5],
        [0.0, -1.0],
    ]
    noise = np.where(user % 2, 0.3, 1.2) * rng.standard_normal(len(user))
    return user, design, np.einsum("nq,nq->n", design, latent[user]) + noise


OWN = (np.array([[1.0, 0.5], [1.0, -1.0]]), np.array([1.5, 3.0]))
ASKED, LEVELS = np.array([[1.0, 2.0]]), np.array([-2.0, 0.0, 1.5, 4.0])


@pytest.mark.parametrize(
    ("link", "noise"),
    [
        (None, "shared"),
        pytest.param(None, "cluster", marks=pytest.mark.slow),
        pytest.param("linear", "shared", marks=pytest.mark.slow),
        ("linear", "cluster"),
    ],
)
def test_regressions_of_two_coefficients(
    noise: str, link: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(
        2, dv.UserRegression(*regression_data(), noise=noise, noise_variance=0.5), link=link
    )
    rows = rows_of(model, noise == "cluster")
    given = 0.5 if noise == "cluster" else model.posterior_.flat("noise_precision")
    asked = dv.UserRegression([N_USERS], ASKED)
    own = dv.UserRegression([0, 0], *OWN, n_users=1)

    def below(behavior: Any) -> np.ndarray:
        predicted = model.predict_outcome(asked, NEWCOMER[None], behavior)
        return np.array([predicted.cdf([level])[0] for level in LEVELS])

    with_own = regression_below(rows, *OWN, ASKED, LEVELS, given)
    assert_same(over_seeds(model, lambda _: below(own), monkeypatch), with_own)
    without = regression_below(rows, np.empty((0, 2)), np.empty(0), ASKED, LEVELS, given)
    assert np.abs(with_own - without).max() > 0.05

    def imputed(seed: int) -> np.ndarray:
        users = model._new_users(NEWCOMER[None], None)
        predicted = new_outcomes.outcomes(
            model.behavior_.forecast(asked, *model._known(), 1), 16, users, seed
        )
        return np.array([predicted.cdf([level])[0] for level in LEVELS])

    monkeypatch.setattr(f"{__name__}.N_SEEDS", 60)  # a cluster is drawn in every one of few draws
    assert_same(over_seeds(model, imputed, monkeypatch), without)


def test_strangers_have_the_spread_of_a_fresh_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer far from everybody: what is known of it is the base, in the data's units, and its
    own two observations."""
    stranger = np.array([5.0, -6.0])
    model = fitted(2, dv.UserRegression(*regression_data(), noise_variance=0.5))
    rows = rows_of(model, newcomer=stranger)
    weights = np.exp([row.log_weight for row in rows])
    given = model.posterior_.flat("noise_precision")
    asked, levels = dv.UserRegression([N_USERS], ASKED), np.array([-8.0, -3.0, 3.0, 8.0])
    own = dv.UserRegression([0, 0], OWN[0], OWN[1] + 6.0, n_users=1)
    assert model.predict(stranger[None])[0] == -1

    def below(_: int) -> np.ndarray:
        predicted = model.predict_outcome(asked, stranger[None], own)
        return np.array([predicted.cdf([level])[0] for level in levels])

    exact = regression_below(rows, OWN[0], OWN[1] + 6.0, ASKED, levels, given)
    assert_same(over_seeds(model, below, monkeypatch), exact)

    def latent_below(_: int) -> np.ndarray:
        predicted = model.predict_latent(stranger[None])
        return np.array([predicted.marginal(d).cdf([level])[0] for d in (0, 1) for level in levels])

    silent = [
        (
            weights
            @ stats.norm.cdf(
                level,
                [row.mean[d] for row in rows],
                [np.sqrt(row.covariance[d, d]) for row in rows],
            )
        )
        / weights.sum()
        for d in (0, 1)
        for level in levels
    ]
    assert_same(over_seeds(model, latent_below, monkeypatch), np.array(silent))


def choices_data() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    items, user = rng.standard_normal((4, 1)), np.repeat(np.arange(N_USERS), 6)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in user])
    appeal = np.array([2.5, -2.5, 0.0, 0.5])
    odds = (items[pairs[:, 0], 0] - items[pairs[:, 1], 0]) * np.where(user % 2, 1.0, -1.0)
    flip = rng.random(len(user)) > expit(odds + appeal[pairs[:, 0]] - appeal[pairs[:, 1]])
    winner, loser = np.where(flip[:, None], pairs[:, ::-1], pairs).T
    return {"user": user, "winner": winner, "loser": loser, "items": items}


def test_choices_between_items_of_unequal_appeal(monkeypatch: pytest.MonkeyPatch) -> None:
    """P(choice | features, own choices): the appeal counts in the newcomer's own choices and in the
    one that is asked for."""
    data = choices_data()
    items = data["items"]
    model = fitted(1, dv.PairwiseChoices(**data, item_intercept=True))
    appeal = model.posterior_.flat("coefficients")
    winner, loser, asked = np.array([1, 3, 1]), np.array([0, 0, 2]), (2, 0)
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(80)
    total = above = 0.0
    for row in rows_of(model):
        f = row.mean[0] + np.sqrt(row.covariance[0, 0]) * nodes
        odds = (
            np.outer(items[winner, 0] - items[loser, 0], f)
            + (appeal[row.draw][winner] - appeal[row.draw][loser])[:, None]
        )
        weights = node_weights * np.exp(row.log_weight + log_expit(odds).sum(axis=0))
        wanted = expit(
            f * (items[asked[0], 0] - items[asked[1], 0])
            + appeal[row.draw][asked[0]]
            - appeal[row.draw][asked[1]]
        )
        total, above = total + weights.sum(), above + (weights * wanted).sum()
    owner = [
        3,
        N_USERS,
        5,
        N_USERS,
        N_USERS,
    ]  # choices of users of the fit between them say nothing of the newcomer
    own = dv.PairwiseChoices(
        owner,
        np.insert(winner, [0, 1], [0, 2]),
        np.insert(loser, [0, 1], [1, 3]),
        items,
        item_intercept=True,
    )
    new = dv.PairwiseChoices([N_USERS], [asked[0]], [asked[1]], items, item_intercept=True)
    monkeypatch.setattr(f"{__name__}.N_SEEDS", 12)
    found = over_seeds(
        model, lambda _: model.predict_outcome(new, NEWCOMER[None], own).mean, monkeypatch
    )
    assert_same(found, np.array([above / total]))

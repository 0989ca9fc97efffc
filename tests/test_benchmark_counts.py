"""The comparison of distributions of counts: distributions, quadrature and scores are right, and so
are counts of forums."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import nbinom, norm, poisson

from dualview.behaviors.families.interval import IntervalOutcome
from dualview.behaviors.recorded import recorded_outcome

ROOT = Path(__file__).parents[1]
COUNTS = np.arange(3000.0)
FROM_ONE = "rounded log1p of y − 1"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def _data(lowest: float) -> Any:
    """Counts of six users, of which some are in training, the lowest among them."""
    from benchmarks.counts import divided

    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(6), 4)
    data = divided(
        rng,
        user,
        rng.normal(size=(24, 1)),
        lowest + rng.poisson(3.0 * rng.gamma(2.0, size=6)[user]),
    )
    data.y[np.argmax(data.training)] = lowest
    return data


@pytest.mark.parametrize("lowest", [0.0, 1.0])
def test_probabilities_sum_to_one(lowest: float) -> None:
    from benchmarks.counts import COMPARED, distributions

    found = distributions(_data(lowest))
    assert set(found) == {
        name
        for name in COMPARED
        if lowest == 1.0 or name not in ("truncated negative binomial", FROM_ONE)
    }
    for name, one in found.items():
        log_probabilities = one.log_pmf(
            COUNTS[int(lowest) :, None], np.array([[-1.0, 0.5, 2.0]]), -0.3
        )
        assert np.exp(log_probabilities).sum(axis=0) == pytest.approx(1.0, abs=1e-6), name


def test_distributions_are_those_of_scipy() -> None:
    from benchmarks.count_distributions import (
        Above,
        NegativeBinomial,
        Poisson,
        TruncatedNegativeBinomial,
    )

    y, mean, r = np.array([[1.0], [2.0], [40.0]]), np.array([[0.01, 3.0, 50.0]]), 0.7
    expected = nbinom.logpmf(y, r, r / (r + mean))
    assert np.allclose(NegativeBinomial().log_pmf(y, np.log(mean), -np.log(r)), expected)
    assert np.allclose(
        Above(1.0, NegativeBinomial()).log_pmf(y + 1.0, np.log(mean), -np.log(r)), expected
    )
    assert np.allclose(Poisson().log_pmf(y, np.log(mean), 0.0), poisson.logpmf(y, mean))
    truncated = TruncatedNegativeBinomial().log_pmf(y, np.log(mean), -np.log(r))
    assert np.allclose(truncated, expected - nbinom.logsf(0, r, r / (r + mean)))


@pytest.mark.parametrize("scale", ["identity", "log1p"])
def test_rounded_numbers_are_predicted_as_by_the_library(scale: str) -> None:
    from benchmarks.count_distributions import Rounded

    y, location, sd = np.array([0.0, 1.0, 7.0, 30.0]), np.array([[0.3], [1.4], [1.9], [2.5]]), 0.8
    recorded = recorded_outcome(y, {"kind": "count", "scale": scale}, len(y))[1]
    assert recorded is not None
    found = Rounded(recorded).log_pmf(y[:, None], location, np.log(sd))[:, 0]
    parts = (np.zeros((1, 4)), location.T, np.full((1, 4), sd))
    predicted = IntervalOutcome(sd, recorded).predictive(
        4, 1, lambda cases: tuple(part[:, cases] for part in parts)
    )
    assert np.allclose(found, predicted.log_density(y))
    ends = (y + 0.5, y - 0.5) if scale == "identity" else (np.log1p(y + 0.5), np.log1p(y - 0.5))
    above, below = (norm.cdf((end - location[:, 0]) / sd) for end in ends)
    assert np.allclose(np.exp(found), above - np.where(y == 0.0, 0.0, below))


@pytest.mark.parametrize("lowest", [0.0, 1.0])
def test_marginal_probabilities_are_integrals_over_the_intercept(lowest: float) -> None:
    from benchmarks.count_distributions import Parameters, log_marginal
    from benchmarks.counts import distributions

    data = _data(lowest)
    for name, one in distributions(data).items():
        given = Parameters(
            np.array([2.5, 3.0]) if name == "rounded count" else np.array([0.8, 0.4]), 0.2, 0.1
        )
        found = log_marginal(one, given, data.user, data.common, data.y, 7)
        assert found[6] == pytest.approx(0.0, abs=1e-9)  # a user without counts
        for user in (0, 3):
            own = data.user == user

            def density(v: float, own: Any = own, one: Any = one, given: Any = given) -> float:
                location = data.common[own] @ given.coefficients + np.exp(given.log_sd) * v
                return float(
                    np.exp(
                        one.log_pmf(
                            data.y[own, None], location[:, None], given.log_dispersion
                        ).sum()
                    )
                    * norm.pdf(v)
                )

            assert found[user] == pytest.approx(
                np.log(quad(density, -8, 8, points=np.linspace(-6, 6, 13))[0]), abs=2e-4
            ), name


def test_scores_are_given_the_users_training_counts_and_nothing_else() -> None:
    from benchmarks.count_distributions import NegativeBinomial, Parameters, log_scores

    data, one, given = _data(0.0), NegativeBinomial(), Parameters(np.array([0.8, 0.4]), 0.2, 0.1)
    nodes = np.linspace(-8, 8, 4001)
    table = one.log_pmf(
        data.y[:, None], (data.common @ given.coefficients)[:, None] + np.exp(0.2) * nodes, 0.1
    )
    expected = []
    for row in np.flatnonzero(~data.training):
        weights = norm.pdf(nodes) * np.exp(
            table[(data.user == data.user[row]) & data.training].sum(axis=0)
        )
        expected.append(np.log(np.exp(table[row]) @ weights / weights.sum()))
    assert np.allclose(log_scores(one, given, data), expected, atol=2e-4)


def test_a_fit_finds_the_parameters_that_made_the_counts() -> None:
    from benchmarks.count_distributions import NegativeBinomial, fitted
    from benchmarks.counts import Simulation, simulated

    found = fitted(NegativeBinomial(), simulated(Simulation(r=5.0), 0))
    expected = np.array([1.2, 0.4, np.log(0.6), -np.log(5.0)])
    errors = np.array(
        [0.6 / np.sqrt(200), 0.02, 0.06, 0.15]
    )  # about; the dispersion's is that of a tenth of 2,000 counts
    assert (np.abs(np.array([*found.coefficients, *found[1:]]) - expected) < 4.5 * errors).all()


def test_counts_of_a_forum_are_posts_by_thread_and_by_month() -> None:
    from benchmarks.counts import MONTH, of_forum

    user = (
        ["ann"] * 21 + ["bob"] * 6 + ["cy"]
    )  # ann has k posts in thread k, in months 600, 602, 604, …
    thread = [k for k in range(1, 7) for _ in range(k)] + [*range(1, 7), 1]
    month = np.array([598 + 2 * k for k in thread]) + 0.5
    time = month * MONTH + np.arange(len(user))
    found = of_forum(pd.DataFrame({"thread": thread, "user": user, "time": time}), {})
    by_thread, by_month = found["thread"], found["month"]
    pairs = np.column_stack([by_thread.y, np.expm1(by_thread.common[:, 1])])
    own = [sorted(pairs[by_thread.user == u].tolist()) for u in (0, 1)]
    ann, bob = sorted(own, reverse=True)
    assert np.allclose(
        ann, [(1, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
    )  # cy joined one thread only, the first
    assert np.allclose(bob, [(1, 2), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6)])
    expected = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0] + [0.0] * 5 + [2.0, 3.0, 4.0, 5.0]
    assert sorted(by_month.y) == sorted(expected)  # neither a user's first month nor the last


def test_differences_have_standard_errors_over_users() -> None:
    from benchmarks.counts import BASE, Scored

    scores = {BASE: np.zeros(5), "other": np.array([1.0, 1.0, 4.0, 2.0, 9.0])}
    found = Scored(scores, np.array([0, 0, 1, 1, 2]), np.array([False, False, False, False, True]))
    assert found.difference("other", ~found.new) == f"+2.000 ± {np.sqrt(2.0**2 + 2.0**2) / 4:.3f}"
    assert found.difference("missing", found.new) == ""

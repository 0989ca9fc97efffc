"""The likelihood of rankings alone: its density, and joint tests under a known prior of latent
vectors, N(0, I)."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from checks import ACCEPT, REJECT, worst
from dualview.behaviors.families.ranking import Orders
from dualview.behaviors.likelihoods.effects_draw import redraw_vectors
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.records import Panel, Prior
from dualview.errors import DegenerateError
from rows import ranking_rows

N_USERS = 4
SIZES = np.array([3, 2, 4, 5, 3])  # items of each ranking
PLACES = np.array([2, 1, 1, 3, 3])  # of which so many are ranked: the last ranking is complete
RANKING = np.repeat(np.arange(5), SIZES)
USER = np.array([1, 1, 2, 3, 3])[RANKING]  # user 0 has no rankings
Z = np.array([0, 0, 1, 1])
Array = Any


def rankings(n_dims: int = 2) -> UserRows:
    rng, n = np.random.default_rng(7), len(USER)
    place = np.concatenate(
        [
            np.where(np.arange(k) < m, np.arange(1.0, k + 1), np.inf)
            for k, m in zip(SIZES, PLACES, strict=True)
        ]
    )
    panel = Panel.of(USER, rng.standard_normal((n, n_dims)), np.zeros(n), N_USERS)
    return ranking_rows(panel, Orders.of(RANKING, place), np.linspace(-0.5, 0.5, n))


def test_the_density_is_the_share_of_utilities_in_this_order() -> None:
    likelihood, rng = rankings(), np.random.default_rng(1)
    latent = rng.standard_normal((N_USERS, 2))
    eta = likelihood.predictor(latent)
    values = likelihood.observed.log_probabilities(eta[None])[0]
    assert likelihood.log_density(latent, {}) == pytest.approx(values.sum())
    n = 200_000
    for r, (k, m) in enumerate(zip(SIZES, PLACES, strict=True)):
        own = np.flatnonzero(np.equal(RANKING, r))
        utilities = eta[own] + rng.standard_normal((n, k))
        inside = (np.diff(utilities[:, :m], axis=1) < 0.0).all(axis=1)
        inside &= (utilities[:, m:] < utilities[:, [m - 1]]).all(axis=1)
        chance = np.exp(values[r])
        assert abs(inside.mean() - chance) < 4.5 * np.sqrt(chance * (1.0 - chance) / n)


def test_utilities_are_drawn_by_the_joint_density() -> None:
    """The mean of h(u)/p(u) over utilities given the rankings is P(rankings | u ~ h)/P(rankings | u
    ~ p), whatever h is."""
    likelihood, rng, n = rankings(), np.random.default_rng(2), 4000
    latent = rng.standard_normal((N_USERS, 2))
    eta, terms = likelihood.predictor(latent), likelihood.terms(rng, latent, {})
    np.testing.assert_array_equal(
        likelihood.observed.sorted_by(eta + terms.residual).rows[:2], likelihood.observed.rows[:2]
    )
    assert terms.precision.tolist() == [1.0]
    shift = np.where(np.arange(len(eta)) % 2, 0.4, -0.3)  # h: other expectations
    drawn = np.array([eta + likelihood.terms(rng, latent, {}).residual for _ in range(n)])
    log_ratio = norm.logpdf(drawn, eta + shift) - norm.logpdf(drawn, eta)
    before, after = (likelihood.observed.log_probabilities(x[None])[0] for x in (eta, eta + shift))
    for r in range(len(SIZES)):
        ratios = np.exp(log_ratio[:, np.equal(RANKING, r)].sum(axis=1))
        assert abs(ratios.mean() - np.exp(after[r] - before[r])) < 4.5 * ratios.std() / np.sqrt(n)


def test_utilities_out_of_range_are_an_error() -> None:
    likelihood = rankings()
    with pytest.raises(DegenerateError, match="range of numbers"):
        likelihood.log_density(np.full((N_USERS, 2), 1e200), {})


def look(likelihood: UserRows, latent: Array) -> dict[str, float]:
    eta, orders = likelihood.predictor(latent), likelihood.observed
    place = np.empty(len(eta))
    place[orders.rows] = np.arange(len(eta)) - orders.starts[orders.ranking]
    place = np.minimum(place, orders.n_top[RANKING])  # items without a place are alike
    found = {f"latent {j}": np.arctan(latent[:, j]).mean() for j in range(latent.shape[1])}
    found |= {
        "size": np.arctan(latent**2).mean(),
        "product": np.arctan(latent[:, 0] * latent[:, -1]).mean(),
    }
    found |= {"fit": (np.arctan(eta) * place).mean(), "spread": (np.arctan(eta**2) * place).mean()}
    found |= {f"place {i}": place[i] for i in (0, 3, 7, 12, 16)}
    loads = likelihood.panel.design[:, 0] * np.arctan(latent[USER, 0])
    return {
        name: float(value)
        for name, value in (found | {"latent_and_place": (loads * place).mean()}).items()
    }


def joint_scores(
    likelihood: Any, n_chains: int = 150, length: int = 30, n_prior: int = 2000
) -> dict[str, float]:
    """z-scores as of ``checks.joint_test``, for a likelihood under a known prior of latent
    vectors."""
    rng, q = np.random.default_rng(0), likelihood.n_dims
    normal = Prior(Z, np.zeros((2, q)), np.tile(np.eye(q), (2, 1, 1)))

    def prior_draw() -> tuple[Any, Array]:
        latent = rng.standard_normal((N_USERS, q))
        return likelihood.simulate(rng, latent, {}), latent

    prior, averages = [look(*prior_draw()) for _ in range(n_prior)], []
    for _ in range(n_chains):
        current, latent = prior_draw()
        seen = []
        for _ in range(length):
            latent = redraw_vectors(rng, current.terms(rng, latent, {}), normal, latent)
            current = current.simulate(rng, latent, {})
            seen.append(look(current, latent))
        averages.append({name: np.mean([one[name] for one in seen]) for name in seen[0]})
    scores = {}
    for name in prior[0]:
        expected, chains = (np.array([one[name] for one in part]) for part in (prior, averages))
        error = np.sqrt(expected.var(ddof=1) / n_prior + chains.var(ddof=1) / n_chains)
        scores[name] = float(chains.mean() - expected.mean()) / error
    return scores


@pytest.mark.slow
def test_steps_leave_the_joint_prior_as_it_is() -> None:
    which, size = worst(joint_scores(rankings()))
    assert size < ACCEPT, which


@pytest.mark.slow
def test_utilities_without_regard_to_items_not_ranked_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant: items without a place are left where their expectations put them."""
    right = Orders.drawn_utilities

    def wrong(self: Orders, rng: np.random.Generator, locations: Array) -> Array:
        result = right(self, rng, locations)
        first = self.starts[:-1]
        for r, m in enumerate(PLACES):
            rest = self.rows[first[r] + m : self.starts[r + 1]]
            result[rest] = locations[rest] + rng.standard_normal(len(rest))
        return result

    monkeypatch.setattr(Orders, "drawn_utilities", wrong)
    _, size = worst(joint_scores(rankings()))
    assert size > REJECT

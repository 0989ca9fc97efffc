"""Weights of a stack: the optimum by another method, its bound, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dualview.errors import InputError
from dualview.evaluation.stacking_weights import (
    TOLERANCE,
    bootstrapped_weights,
    duality_gap,
    relative_densities,
    stacking_weights,
)

SEEDS = st.integers(0, 10_000)
SPREADS = st.sampled_from([1e-3, 0.1, 1.0, 10.0, 100.0])


def densities(seed: int, spread: float, n: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(2, 60)) if n is None else n, int(rng.integers(2, 6)))
    return relative_densities(spread * rng.standard_normal(shape))


def objective(density: np.ndarray, weights: np.ndarray) -> float:
    return float(np.log(density @ weights).mean())


@given(SEEDS, SPREADS)
def test_nothing_is_left_to_gain(seed: int, spread: float) -> None:
    density = densities(seed, spread)
    weights = stacking_weights(density)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert duality_gap(density, np.full(len(density), 1.0 / len(density)), weights) <= TOLERANCE


@given(SEEDS, st.sampled_from([0.1, 1.0, 3.0]))
def test_the_optimum_is_that_of_a_general_method(seed: int, spread: float) -> None:
    density = densities(seed, spread)
    n_fits = density.shape[1]
    found = minimize(
        lambda w: -objective(density, w),
        np.full(n_fits, 1.0 / n_fits),
        jac=lambda w: -(density / (density @ w)[:, None]).mean(axis=0),
        bounds=[(1e-12, 1.0)] * n_fits,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    weights = stacking_weights(density)
    theirs = found.x / found.x.sum()
    assert objective(density, weights) >= objective(density, theirs) - TOLERANCE
    assert objective(density, theirs) == pytest.approx(objective(density, weights), abs=1e-6)


@given(SEEDS, SPREADS)
def test_the_gap_bounds_what_any_other_weights_gain(seed: int, spread: float) -> None:
    density = densities(seed, spread)
    rng = np.random.default_rng(seed + 1)
    shares = np.full(len(density), 1.0 / len(density))
    start, other = rng.dirichlet(np.ones(density.shape[1]), 2)
    gain = objective(density, other) - objective(density, start)
    assert gain <= duality_gap(density, shares, start) + 1e-9


@given(SEEDS)
def test_a_fit_that_is_better_everywhere_gets_all_the_weight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log_density = rng.standard_normal((30, 3))
    log_density[:, 1] = log_density.max(axis=1) + rng.uniform(0.01, 1.0, 30)
    np.testing.assert_array_equal(stacking_weights(relative_densities(log_density)), [0, 1, 0])


@given(SEEDS, st.sampled_from([0.1, 1.0]))
def test_duplicates_share_and_change_nothing_else(seed: int, spread: float) -> None:
    density = densities(seed, spread, n=80)
    alone = stacking_weights(density)
    weights = stacking_weights(np.column_stack([density, density[:, 0]]))
    assert weights[0] == pytest.approx(weights[-1], abs=1e-4)
    assert objective(density, alone) == pytest.approx(
        objective(density, np.append(weights[0] + weights[-1], weights[1:-1])), abs=2 * TOLERANCE
    )


@given(SEEDS, SPREADS)
def test_order_of_fits_and_of_outcomes_does_not_matter(seed: int, spread: float) -> None:
    density = densities(seed, spread, n=80)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(density)), rng.permutation(density.shape[1])
    found = stacking_weights(density[rows][:, columns])
    np.testing.assert_allclose(found, stacking_weights(density)[columns], atol=1e-4)


def test_constants_of_outcomes_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    log_density = rng.standard_normal((40, 3))
    shifted = log_density + 500.0 * rng.standard_normal((40, 1))
    first, second = (stacking_weights(relative_densities(own)) for own in (log_density, shifted))
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_shares_count_outcomes_as_often() -> None:
    density = densities(3, 1.0, n=20)
    counts = np.arange(20) % 4
    repeated = stacking_weights(np.repeat(density, counts, axis=0))
    np.testing.assert_allclose(
        stacking_weights(density, counts / counts.sum()), repeated, atol=1e-6
    )


def test_an_outcome_that_no_fit_expects_is_named() -> None:
    log_density = np.zeros((3, 2))
    log_density[1, 0] = -np.inf
    assert stacking_weights(relative_densities(log_density))[1] == 1.0
    log_density[1, 1] = -np.inf
    with pytest.raises(InputError, match="No fit gives outcome 1 a finite log density"):
        relative_densities(log_density)


def test_replicates_scatter_as_the_weights_of_other_outcomes_do() -> None:
    """The spread of weights over many sets of independent outcomes is that of the bootstrap of
    one."""
    rng = np.random.default_rng(5)

    def outcomes() -> np.ndarray:
        y = rng.choice([-1.0, 1.0], 400, p=[0.4, 0.6]) + 0.5 * rng.standard_normal(400)
        return relative_densities(-2.0 * (y[:, None] - np.array([-1.0, 1.0])) ** 2)

    found = np.array([stacking_weights(outcomes()) for _ in range(100)])
    replicates = bootstrapped_weights(outcomes(), 1.0, 100)
    error = found[:, 0].std() * np.sqrt(1.0 / 100)  # of a ratio of two deviations, each of 100
    assert abs(replicates[:, 0].std() - found[:, 0].std()) < 4.5 * error
    wider = bootstrapped_weights(outcomes(), 9.0, 100)
    assert 2.0 < wider[:, 0].std() / replicates[:, 0].std() < 4.5

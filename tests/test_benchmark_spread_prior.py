"""The benchmark of priors of the spread: its grid is the mixture with one cluster."""

import numpy as np
import pytest
from scipy.integrate import trapezoid

import dualview as dv
from benchmarks import spread_prior
from benchmarks.spread_prior import _GRID, World, cost_without, fit, or_none, rows, score


@pytest.mark.parametrize("shape", [2.0, 1.0, 0.5])
def test_priors_are_densities(shape: float) -> None:
    places = np.linspace(-60.0, 10.0, 20_000)
    density = np.exp(spread_prior.spread_prior(shape)(places))
    assert trapezoid(density, places) == pytest.approx(1.0, abs=0.06)  # a tail is beyond the grid
    steps = np.diff(np.log(density[:1000])) / np.diff(places[:1000])
    np.testing.assert_allclose(steps, 0.5 * shape)


def test_half_of_the_mass_is_at_no_differences() -> None:
    prior = spread_prior.spread_prior(2.0)(_GRID)
    width = spread_prior.RATIOS[1] - spread_prior.RATIOS[0]
    mass = width * np.exp(or_none(prior)).sum(axis=0)
    whole = width * np.exp(prior).sum(axis=0)
    np.testing.assert_allclose(mass, 0.5 + 0.5 * whole, rtol=1e-10)


def test_the_grid_says_what_the_mixture_says() -> None:
    world = World.draw(np.random.default_rng(7), (20, 60), 3.0, 0.6)
    made = fit(world)
    found = score(world, made, spread_prior.spread_prior(2.0)(_GRID - np.log(made.scale)))
    behavior = dv.SharedOutcome(world.participation, world.outcome, intercept=True)
    engine = dv.Gibbs(n_warmup=500)
    model = dv.DualViewMixture(n_clusters=1, n_draws=2000, n_chains=2, engine=engine, n_jobs=1)
    predicted = model.fit(None, behavior).predict_outcome(world.later)
    assert found.cost == pytest.approx(predicted.nll(world.to_come), abs=0.005)
    ends = predicted.interval(0.8)
    inside = ((world.to_come > ends[:, 0]) & (world.to_come < ends[:, 1])).mean()
    assert found.outcomes_inside == pytest.approx(inside, abs=0.02)
    assert found.cost < cost_without(world, made)


def test_lines_of_the_table() -> None:
    lines = rows((8, 20), 3.0, 0.0, 2)
    assert [line.split(" | ")[1] for line in lines] == [
        *spread_prior.SHAPES,
        "flat, or no differences",
    ]
    assert all(line.startswith("| 0 | ") and line.endswith(" |") for line in lines)

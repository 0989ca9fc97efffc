"""q of the components' weights against draws from it, and the numbering of clusters."""

import numpy as np
import pytest
from scipy.special import gammaln

import dualview as dv
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.choice import partition_prior

COUNTS = np.array([5.5, 3.0, 1.25, 0.25])


@pytest.mark.parametrize(
    "prior",
    [
        partition_prior(None, Gamma(1, 1)),
        partition_prior(None, Known(0.5)),
        partition_prior(None, Gamma(1, 1), dv.PitmanYor(0.4)),
        partition_prior(None, Gamma(1, 1), dv.PitmanYor(dv.Beta(2, 3))),
        partition_prior(6, Gamma(2, 1)),
        partition_prior(None, Known(0.7), dv.FiniteMixtures()),
        partition_prior(None, Gamma(2, 1), dv.FiniteMixtures("poisson(2)")),
    ],
)
def test_expected_logarithms_are_those_of_draws(prior) -> None:
    soft = prior.approximate(COUNTS)
    alpha, _, logs = soft.draws(np.random.default_rng(0), 20_000)
    error = logs.std(axis=0) / np.sqrt(len(logs))
    assert (abs(logs.mean(axis=0) - soft.log_weights) < 4.5 * error).all()
    assert (np.exp(logs).sum(axis=1) <= 1.0 + 1e-12).all()
    error = 4.5 * alpha.std() / np.sqrt(len(alpha))
    assert abs(alpha.mean() - soft.shares @ soft.grid.alpha) <= error + 1e-12
    assert soft.divergence > 0.0


@pytest.mark.parametrize(
    "process", [None, dv.PitmanYor(0.4), dv.FiniteMixtures(), dv.FiniteMixtures("geometric(0.5)")]
)
def test_with_all_orders_the_prior_is_that_of_the_partition(process) -> None:
    prior = partition_prior(None, Known(0.8), process)
    counts = np.array([4.0, 3.0, 1.0])
    soft = prior.approximate(counts)
    by_order = float(counts @ soft.log_weights - soft.divergence)
    whole = prior.log_density(counts.astype(np.int64), 0.8)
    assert by_order + soft.log_orders == pytest.approx(whole, abs=1e-9)
    assert soft.log_orders > 0.0


def test_with_a_fixed_number_there_are_as_many_orders_as_ways_to_number_the_clusters() -> None:
    soft = partition_prior(5).approximate(np.array([4.0, 3.0, 0.01]))
    assert soft.log_orders == pytest.approx(gammaln(6.0) - gammaln(4.0))

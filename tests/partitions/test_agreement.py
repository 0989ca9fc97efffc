"""The prior of agreement: words for it, its density, its draws, and labels drawn given who
agrees."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import dualview as dv
from checks import ACCEPT
from dualview.engines.gibbs.apart.moves import draw_share
from dualview.errors import InputError
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import (
    LEARNT,
    Agreement,
    KnownAgreement,
    agreement_prior,
    agreement_text,
    count_customers,
    draw_labels,
)
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, PartitionPrior


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        ("full", None),
        (1.0, None),
        ("1", None),
        ("learnt", LEARNT),
        (0.9, KnownAgreement(0.9)),
        ("0.9", KnownAgreement(0.9)),
        (0, KnownAgreement(0.0)),
        (dv.Beta(2, 3), dv.Beta(2, 3)),
        ("Beta(2, 3)", dv.Beta(2, 3)),
    ],
)
def test_words_and_numbers(given: object, meant: object) -> None:
    assert agreement_prior(given) == meant
    assert agreement_prior(agreement_text(given)) == meant


@pytest.mark.parametrize(
    "given", ["some", -0.1, 1.5, True, math.nan, "beta(1)", "beta(0, 1)", (1, 2)]
)
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(InputError, match=r"agreement must be None|Beta: a must be"):
        agreement_prior(given)


def test_density_integrates_to_one() -> None:
    prior = dv.Beta(2.5, 0.7)
    total, _ = integrate.quad(lambda share: math.exp(prior.log_density(share)), 0.0, 1.0)
    assert total == pytest.approx(1.0, rel=1e-6)
    assert prior.log_density(0.3) == pytest.approx(stats.beta(2.5, 0.7).logpdf(0.3))
    assert prior.log_density(1.0) == -math.inf


def test_ratio_of_the_share() -> None:
    """(C19): p(ρ | agrees) of the redraw is the joint density up to a constant."""
    agrees = np.array([True, True, False, True, False])
    z = np.zeros(5, dtype=np.int64)
    prior, after = dv.Beta(1.5, 2.0), stats.beta(1.5 + 3, 2.0 + 2)
    joint = [
        Agreement(z, z[None], agrees[None], np.array([share])).log_density()
        + prior.log_density(share)
        for share in (0.2, 0.7)
    ]
    assert joint[1] - joint[0] == pytest.approx(after.logpdf(0.7) - after.logpdf(0.2))
    rng = np.random.default_rng(0)
    draws = np.array(
        [draw_share(stream_of(rng), agrees.astype(np.int64), 1.5, 2.0) for _ in range(4000)]
    )
    assert stats.kstest(draws, after.cdf).pvalue > 1e-4


def test_impossible_states_have_no_density() -> None:
    z, one = np.zeros(2, dtype=np.int64), np.array([1.0])
    assert Agreement(z, z[None], np.array([[True, False]]), one).log_density() == -math.inf
    assert Agreement(z, z[None], np.array([[True, True]]), one).log_density() == 0.0


@pytest.mark.parametrize("partition", [ChineseRestaurant(), FiniteDirichlet(3)])
def test_labels_from_the_prior(partition: PartitionPrior) -> None:
    """Two labels of one user who does not agree are the same as often as those of two users are."""
    rng, agrees = np.random.default_rng(1), np.array([[True, False, False], [True, True, False]])
    n, same_user, same_view, same_tables = 8_000, [], [], []
    for _ in range(n):
        acts, (first, second) = draw_labels(rng, partition, 0.7, agrees)
        assert first[0] == second[0] == acts[0]
        assert second[1] == acts[1]
        same_user.append(first[1] == acts[1])
        same_view.append(first[0] == first[1])
        same_tables.append(first[2] == second[2])
    error = np.sqrt(0.5 / n)
    assert abs(np.mean(same_user) - np.mean(same_view)) < ACCEPT * error
    assert abs(np.mean(same_tables) - np.mean(same_view)) < ACCEPT * error


def test_customers() -> None:
    z, acts = np.array([0, 1, 1]), np.array([0, 2, 1])
    counts = count_customers(
        z, Agreement(acts, z[None], np.array([[True, False, False]]), np.array([0.5])), 4
    )
    np.testing.assert_array_equal(counts, [1, 3, 1, 0])
    np.testing.assert_array_equal(count_customers(z, None, 3), [1, 2, 0])

"""The prior of agreement: words for it, its density, its draws; labels by view, and their prior."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import dualview as dv
from checks import ACCEPT
from dualview.engines.gibbs.moves.shared import draw_share
from dualview.errors import InputError
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import (
    LEARNED,
    KnownAgreement,
    LabelsByView,
    agreement_prior,
    agreement_text,
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
        ("learned", LEARNED),
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


def test_the_former_spelling_of_learned_gets_a_warning() -> None:
    with pytest.warns(FutureWarning, match='agreement="learnt" is now agreement="learned"'):
        assert agreement_prior("learnt") == LEARNED
    with pytest.warns(FutureWarning, match='item_intercept="learnt" is now'):
        choices = dv.PairwiseChoices([0], [0], [1], [[1.0], [2.0]], item_intercept="learnt")
    assert (
        choices.param_names
        == dv.PairwiseChoices([0], [0], [1], [[1.0], [2.0]], item_intercept="learned").param_names
    )


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
    z = np.zeros((2, 5), dtype=np.int64)
    prior, after = dv.Beta(1.5, 2.0), stats.beta(1.5 + 3, 2.0 + 2)
    joint = [
        LabelsByView(z, agrees[None], np.array([share])).log_density() + prior.log_density(share)
        for share in (0.2, 0.7)
    ]
    assert joint[1] - joint[0] == pytest.approx(after.logpdf(0.7) - after.logpdf(0.2))
    rng = np.random.default_rng(0)
    draws = np.array(
        [draw_share(stream_of(rng), agrees.astype(np.int64), 1.5, 2.0) for _ in range(4000)]
    )
    assert stats.kstest(draws, after.cdf).pvalue > 1e-4


def test_impossible_states_have_no_density() -> None:
    z, one = np.zeros((2, 2), dtype=np.int64), np.array([1.0])
    assert LabelsByView(z, np.array([[True, False]]), one).log_density() == -math.inf
    assert LabelsByView(z, np.array([[True, True]]), one).log_density() == 0.0
    assert LabelsByView.agreeing(z[0]).log_density() == 0.0


@pytest.mark.parametrize("partition", [ChineseRestaurant(), FiniteDirichlet(3)])
def test_labels_from_the_prior(partition: PartitionPrior) -> None:
    """Two labels of one user who does not agree are the same as often as those of two users are."""
    rng, shares = np.random.default_rng(1), np.array([0.4, 0.7])
    n, agreed, same_user, same_view, same_tables = 8_000, [], [], [], []
    for _ in range(n):
        (acts, first, second), agrees, _ = draw_labels(rng, partition, 0.7, 3, shares)
        np.testing.assert_array_equal(first[agrees[0]], acts[agrees[0]])
        np.testing.assert_array_equal(second[agrees[1]], acts[agrees[1]])
        agreed.append(agrees.mean(axis=1))
        same_view.append(acts[0] == acts[1])
        if not agrees[0, 1]:
            same_user.append(first[1] == acts[1])
        if not agrees[:, 2].any():
            same_tables.append(first[2] == second[2])
    assert np.abs(np.mean(agreed, axis=0) - shares).max() < ACCEPT * np.sqrt(0.25 / (3 * n))
    for same in (same_user, same_tables):
        error = np.sqrt(0.25 / len(same) + 0.25 / n)
        assert abs(np.mean(same) - np.mean(same_view)) < ACCEPT * error


def test_where_nobody_can_disagree_there_is_one_label() -> None:
    labels = draw_labels(np.random.default_rng(1), ChineseRestaurant(), 0.7, 5, np.empty(0))
    assert labels.z.shape == (1, 5)
    z = ChineseRestaurant().draw(np.random.default_rng(1), 5, 0.7)
    for own in (labels.behavior, labels.kept, labels.of("features"), labels.of("behavior")):
        np.testing.assert_array_equal(own, z)


def test_labels_of_views() -> None:
    z = np.arange(12).reshape(3, 4)
    two, three = (LabelsByView(z[:n], np.ones((n - 1, 4), bool), np.ones(n - 1)) for n in (2, 3))
    for own, wanted in (
        (two.of("behavior"), z[0]),
        (two.of("features"), z[1]),
        (two.kept, z[1]),
        (three.of("behavior"), z[0]),
        (three.of("features"), z[1:]),
        (three.kept, z[0]),
    ):
        np.testing.assert_array_equal(own, wanted)


def test_customers() -> None:
    z = np.array([[0, 2, 1], [0, 1, 1]])
    labels = LabelsByView(z, np.array([[True, False, False]]), np.array([0.5]))
    np.testing.assert_array_equal(labels.count_customers(4), [1, 3, 1, 0])
    np.testing.assert_array_equal(LabelsByView.agreeing(z[1]).count_customers(3), [1, 2, 0])

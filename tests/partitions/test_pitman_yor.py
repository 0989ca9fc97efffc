"""The Pitman–Yor prior: against enumeration, its weights, its concentration, the joint test, and a
fit."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import dualview as dv
from checks import assert_joint, assert_rejected, changed, mutant_tests, mutate
from dualview.errors import InputError
from dualview.model import Model
from dualview.numerics import slice_sampling
from dualview.numerics.streams import stream_of
from dualview.partitions import pitman_yor, verbs
from dualview.partitions.agreement import Beta
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.choice import partition_names, partition_prior, partition_process
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import ChineseRestaurant
from yardsticks import check_law, python_of


def partitions(n):
    """All partitions of n users, as labels in order of appearance."""
    for z in itertools.product(range(n), repeat=n):
        if all(z[u] <= max(z[:u], default=-1) + 1 for u in range(n)):
            yield np.array(z)


def prior(discount=0.4, alpha=1.3):
    return PitmanYor(discount, Known(alpha))


@pytest.mark.parametrize("discount", [0.0, 0.25, 0.9])
def test_probabilities_add_up_to_one(discount):
    log_densities = [prior(discount).log_density(np.bincount(z), 1.3) for z in partitions(5)]
    assert np.exp(log_densities).sum() == pytest.approx(1.0)


def test_without_a_discount_it_is_the_dirichlet_process():
    counts = np.array([3, 1, 1])
    assert prior(0.0).log_density(counts, 1.3) == pytest.approx(
        ChineseRestaurant(Known(1.3)).log_density(counts, 1.3)
    )


def test_weights_are_ratios_of_probabilities():
    counts, record = np.array([3, 1]), prior().record(1.3)
    now = prior().log_density(counts, 1.3)
    joined = [prior().log_density(counts + np.eye(2, dtype=int)[k], 1.3) - now for k in range(2)]
    opened = prior().log_density(np.append(counts, 1), 1.3) - now
    total = 4 + 1.3
    np.testing.assert_allclose(np.exp(joined), (counts + prior().offset(1.3)) / total)
    assert math.exp(opened) == pytest.approx(prior().new_weight(1.3, 2, 4) / total)
    assert [verbs.weight(n, record) for n in counts] == pytest.approx(list(counts - 0.4))
    assert verbs.new_weight(2, 4, record) == pytest.approx(1.3 + 0.8)


def test_a_split_changes_the_density_by_what_the_verbs_say():
    record = prior().record(1.3)
    change = prior().log_density(np.array([2, 3, 4]), 1.3) - prior().log_density(
        np.array([5, 4]), 1.3
    )
    parts = (
        verbs.log_cluster(2, record) + verbs.log_cluster(3, record) - verbs.log_cluster(5, record)
    )
    assert change == pytest.approx(parts + verbs.log_another(2, 9, record))


def test_draws_have_the_probabilities_of_the_density():
    rng, n_draws = np.random.default_rng(0), 20_000
    together = np.mean([len(np.unique(prior().draw(rng, 3, 1.3))) == 1 for _ in range(n_draws)])
    expected = math.exp(prior().log_density(np.array([3]), 1.3))
    assert together == pytest.approx(
        expected, abs=4.5 * math.sqrt(expected * (1 - expected) / n_draws)
    )


def test_concentration_by_ratio():
    """Log joint minus log density of ln α is constant."""
    own, counts = PitmanYor(0.4, Gamma(2.0, 0.5)), np.array([4, 2, 1])
    parameters = (3, 7.0, 0.4, own.alpha_prior)
    values = np.linspace(-3.0, 3.0, 7)
    density = np.array([pitman_yor.log_alpha_density(value, parameters) for value in values])
    joint = [own.log_density(counts, math.exp(value)) + value for value in values]
    assert np.ptp(joint - density) < 1e-9


def test_concentration_comes_to_its_distribution():
    own, counts, rng = (
        PitmanYor(0.4, Gamma(2.0, 0.5)),
        np.array([4, 2, 1]),
        stream_of(np.random.default_rng(1)),
    )
    record, drawn = own.record(1.0), []
    for _ in range(40_000):
        record = verbs.redraw(rng, counts, record)
        drawn.append(math.log(record.alpha))
    density = lambda y: math.exp(pitman_yor.log_alpha_density(y, (3, 7.0, 0.4, own.alpha_prior)))  # noqa: E731
    size = integrate.quad(density, -15, 8)[0]
    mean = integrate.quad(lambda y: y * density(y) / size, -15, 8)[0]
    batches = np.array(drawn).reshape(50, -1).mean(axis=1)
    assert abs(batches.mean() - mean) < 4.5 * batches.std() / math.sqrt(50)


def model(discount=0.4):
    return Model(PitmanYor(discount, Gamma(2.0, 2.0)), np.zeros((6, 1)), n_users=6)


@pytest.mark.slow
def test_joint():
    assert_joint(model(), seed=2)


@pytest.mark.slow
def test_a_step_without_the_discount_of_new_clusters_is_rejected():
    """Prior draws with the discount, steps of the Dirichlet process."""

    def step(rng, own, state):
        from checks import gibbs_step

        return gibbs_step(
            rng, Model(ChineseRestaurant(Gamma(2.0, 2.0)), own.features, n_users=6), state
        )

    assert_rejected(model(), 2, step=step)


def test_a_concentration_that_forgets_the_clusters_is_rejected():
    own, counts, rng = (
        PitmanYor(0.4, Gamma(2.0, 0.5)),
        np.array([4, 2, 1]),
        stream_of(np.random.default_rng(1)),
    )
    wrong = mutate(pitman_yor.log_alpha_density, "discount * k", "0.0 * k")
    sample, y, drawn = slice_sampling.sampler(wrong), 0.0, []
    for _ in range(20_000):
        y = sample(rng, (len(counts), 7.0, 0.4, own.alpha_prior), y, 2.0)
        drawn.append(y)
    density = lambda y: math.exp(pitman_yor.log_alpha_density(y, (3, 7.0, 0.4, own.alpha_prior)))  # noqa: E731
    size = integrate.quad(density, -15, 8)[0]
    mean = integrate.quad(lambda y: y * density(y) / size, -15, 8)[0]
    batches = np.array(drawn).reshape(50, -1).mean(axis=1)
    assert abs(batches.mean() - mean) > 6 * batches.std() / math.sqrt(50)


@pytest.mark.slow
def test_a_fit_keeps_and_predicts_with_its_process(tmp_path):
    forum = dv.datasets.agreement(15, 20, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    options = {"n_warmup": 20, "n_draws": 20, "n_chains": 1}
    fitted = dv.DualViewMixture(partition=dv.PitmanYor(discount=0.3), **options).fit(
        forum.features, behavior
    )
    assert fitted.posterior_.spec.process == "pitman-yor(0.3)"
    fitted.posterior_.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    assert read.n_clusters == dv.PitmanYor(0.3)
    new = forum.features[:3] + 0.1
    np.testing.assert_array_equal(read.predict_proba(new), fitted.predict_proba(new))


LEARNED = PitmanYor(Beta(2.0, 3.0), Gamma(2.0, 0.5))
COUNTS = np.array([4, 2, 1])
GIVEN = (COUNTS, 1.3, 2.0, 3.0)


def test_discount_by_ratio():
    """Log joint minus log density of the discount's logit is constant."""
    logits = np.linspace(-6.0, 6.0, 13)
    density = [pitman_yor.log_discount_density(x, GIVEN) for x in logits]
    d = 1.0 / (1.0 + np.exp(-logits))
    joint = [LEARNED.log_density(COUNTS, 1.3, own) + math.log(own * (1.0 - own)) for own in d]
    assert np.ptp(np.array(joint) - density) < 1e-9
    known = [prior(own, 1.3).log_density(COUNTS, 1.3) for own in d]
    own = stats.beta(2, 3).logpdf(d) + Gamma(2.0, 0.5).record.log_constant
    alone = math.log(1.3) - 0.5 * 1.3  # of the prior of α, but for its constant
    np.testing.assert_allclose(np.array(joint) - np.log(d * (1 - d)), known + own + alone)


def test_a_discount_near_its_ends_keeps_its_digits():
    alone = (np.array([1, 1, 1]), 1.0, 1.0, 1.0)
    for logit in (-600.0, 33.0):
        d = 1.0 / (1.0 + math.exp(-logit))
        expected = -abs(logit) + math.log(1.0 + d) + math.log(1.0 + 2.0 * d)
        assert pitman_yor.log_discount_density(logit, alone) == pytest.approx(expected)
    assert pitman_yor.log_discount_density(35.0, alone) == -math.inf


def away_from_discount(target):
    """How far the mean of draws of the logit with a target is from its own, in standard errors."""
    sample, rng = slice_sampling.sampler(target), stream_of(np.random.default_rng(1))
    x, drawn = 0.0, np.empty(40_000)
    for i in range(len(drawn)):
        x = drawn[i] = sample(rng, GIVEN, x, 2.0)
    density = lambda x: math.exp(pitman_yor.log_discount_density(x, GIVEN))  # noqa: E731
    size = integrate.quad(density, -20, 20)[0]
    mean = integrate.quad(lambda x: x * density(x) / size, -20, 20)[0]
    batches = drawn.reshape(50, -1).mean(axis=1)
    return abs(batches.mean() - mean) / (batches.std() / math.sqrt(50))


def test_discount_comes_to_its_distribution():
    assert away_from_discount(pitman_yor.log_discount_density) < 4.5


def test_a_discount_that_forgets_the_sizes_is_rejected():
    wrong = mutate(pitman_yor.log_discount_density, "log_rising(rest, counts[k] - 1.0)", "0.0")
    assert away_from_discount(wrong) > 6.0


def test_kernels_of_the_discount_are_their_python_functions():
    for x in (-3.0, 0.2, 9.0):
        assert pitman_yor.log_discount_density(x, GIVEN) == pytest.approx(
            python_of(pitman_yor.log_discount_density)(x, GIVEN), rel=1e-14
        )


def test_a_discount_that_is_known_or_given():
    assert LEARNED.given(0.3).discount == 0.3
    assert prior(0.4).given(0.3) == prior(0.4)
    several = LEARNED.given(np.array([0.1, 0.5]))
    np.testing.assert_allclose(several.offset(np.ones(2)), [-0.1, -0.5])
    np.testing.assert_allclose(several.new_weight(np.ones(2), np.array([2, 4]), 9), [1.2, 3.0])
    draws = [LEARNED.draw_discount(np.random.default_rng(i)) for i in range(300)]
    check_law(draws, stats.beta(2, 3).cdf)
    record = LEARNED.record(1.3, 0.2)
    assert verbs.discount(verbs.redraw(stream_of(np.random.default_rng(0)), COUNTS, record)) != 0.2
    known = prior(0.4).record(1.3)
    assert verbs.discount(verbs.redraw(stream_of(np.random.default_rng(0)), COUNTS, known)) == 0.4


def learned_model():
    own = PitmanYor(Beta(1.5, 3.0), Gamma(2.0, 2.0))
    return Model(own, np.zeros((6, 1)), n_users=6)


@pytest.mark.slow
def test_joint_with_a_learned_discount():
    assert_joint(learned_model(), seed=2)


def discount_without_sizes():
    wrong = mutate(pitman_yor.log_discount_density, "log_rising(rest, counts[k] - 1.0)", "0.0")
    return [changed(pitman_yor.redraw, _sample_logit=slice_sampling.sampler(wrong))]


def discount_without_jacobian():
    wrong = mutate(
        pitman_yor.log_discount_density,
        "a * log_discount + b * log_rest",
        "(a - 1.0) * log_discount + (b - 1.0) * log_rest",
    )
    return [changed(pitman_yor.redraw, _sample_logit=slice_sampling.sampler(wrong))]


test_mutants = mutant_tests(
    {"learned": learned_model},
    {own.__name__: own for own in (discount_without_sizes, discount_without_jacobian)},
    "learned",
    block=2,
)


def test_words_and_errors():
    assert partition_process("pitman-yor(learned)") == PitmanYor("learned")
    assert partition_process("pitman-yor(beta(2, 3))") == PitmanYor(Beta(2, 3))
    assert partition_names(None, None, PitmanYor("learned")).process == (
        "pitman-yor(beta(1.0, 3.0))"
    )
    with pytest.raises(InputError, match="b of at least"):
        PitmanYor(Beta(1.0, 0.1))
    with pytest.raises(InputError, match='"learned" or a prior'):
        PitmanYor("much")
    assert partition_process("pitman-yor(0.25)") == PitmanYor(0.25)
    assert partition_names(None, None, PitmanYor(0.25)).process == "pitman-yor(0.25)"
    assert partition_names(None, None, None).process is None
    assert partition_prior(None, partition="pitman-yor(0.25)").n_components is None
    for wrong in ("pitman-yor(1.5)", "pitman-yor", 0.3):
        with pytest.raises(InputError, match=r"partition must be|discount must be"):
            partition_process(wrong)
    with pytest.raises(InputError, match="from 0 to less than 1"):
        PitmanYor(1.0)
    with pytest.raises(InputError, match="inferred number of clusters"):
        dv.DualViewMixture(n_clusters=3, partition=PitmanYor(0.1)).fit(
            np.random.default_rng(0).normal(size=(9, 2))
        )

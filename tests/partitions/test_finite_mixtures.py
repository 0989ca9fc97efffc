"""Mixtures of finite mixtures: coefficients, weights, the weight that is learned, draws, the joint
test, and words."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln, logsumexp

import dualview as dv
import naive
from checks import assert_joint, changed, mutant_tests, mutate
from dualview.engines.gibbs.moves import assignment
from dualview.errors import InputError
from dualview.model import Model
from dualview.numerics import slice_sampling
from dualview.numerics.streams import stream_of
from dualview.partitions import finite_mixtures, verbs
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.choice import partition_names, partition_prior, partition_process
from dualview.partitions.finite_mixtures import FiniteMixtures, log_sum
from yardsticks import check_counts, python_of

NUMBERS = np.arange(1, 20_001)
DEFAULT = "beta-negative-binomial(1, 4, 3)"
PRIORS = {
    DEFAULT: lambda m: betaln(4 + 1, m + 3) - betaln(4, 3),
    "beta-negative-binomial(2.5, 3, 1.5)": lambda m: (
        gammaln(m + 2.5) - gammaln(m + 1) - gammaln(2.5) + betaln(3 + 2.5, m + 1.5) - betaln(3, 1.5)
    ),
    "poisson(2)": lambda m: stats.poisson(2).logpmf(m),
    "geometric(0.1)": lambda m: stats.geom(0.1).logpmf(m + 1),
}
COUNTS = np.array([4, 2, 1])


def prior(components=DEFAULT, alpha=1.3):
    return FiniteMixtures(components, Known(alpha))


def log_chances(components):
    """ln p(K) by SciPy, for K of NUMBERS."""
    with np.errstate(divide="ignore"):
        return PRIORS[components](NUMBERS - 1)


@pytest.mark.parametrize("components", PRIORS)
def test_prior_of_the_number_of_components(components):
    found = prior(components).log_components(NUMBERS[:500])
    np.testing.assert_allclose(found, log_chances(components)[:500], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("components", PRIORS)
def test_coefficients_are_sums_over_the_number_of_components(components, alpha):
    numbers, chances = NUMBERS.astype(float), log_chances(components)
    for n, t in ((1, 1), (3, 2), (40, 7), (1000, 30), (30, 25)):
        terms = chances + gammaln(alpha * numbers) - gammaln(alpha * numbers + n)
        terms = (terms + gammaln(numbers + 1))[t - 1 :] - gammaln(numbers[t - 1 :] - t + 1)
        found = log_sum(t, n, alpha, prior(components).numbers) - gammaln(n)
        assert found == pytest.approx(logsumexp(terms), abs=1e-9 * (1 + abs(found)))


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 1.0, 5.0, 1e6])
@pytest.mark.parametrize("components", PRIORS)
def test_coefficients_of_many_users_obey_their_recursion(components, alpha):
    """V_n(t) = (n + γ t) V_{n+1}(t) + γ V_{n+1}(t + 1); and γ V_1(1) = 1."""
    numbers = prior(components).numbers
    assert log_sum(1, 1, alpha, numbers) == pytest.approx(-math.log(alpha), abs=1e-10)
    for n, t in ((3, 2), (50, 50), (1000, 5), (10**6, 7), (10**6, 40)):
        now, stays, opens = (
            log_sum(k, m, alpha, numbers) - gammaln(m)
            for k, m in ((t, n), (t, n + 1), (t + 1, n + 1))
        )
        both = np.logaddexp(math.log(n + alpha * t) + stays, math.log(alpha) + opens)
        assert both == pytest.approx(now, abs=2e-15 * abs(gammaln(n)) + 1e-9)


@pytest.mark.parametrize("components", PRIORS)
def test_probabilities_add_up_to_one(components):
    own = prior(components)
    logs = [own.log_density(np.bincount(z), 1.3) for z in naive.partitions(5)]
    assert np.exp(logs).sum() == pytest.approx(1.0)
    twin = [
        naive.log_partition(np.array(z), 1.3, ("mixtures", log_chances(components)))
        for z in naive.partitions(5)
    ]
    np.testing.assert_allclose(logs, twin, atol=1e-8)


def test_weights_are_ratios_of_probabilities():
    own, record = prior(), prior().record(1.3)
    counts = np.array([3, 1])
    now = own.log_density(counts, 1.3)
    joined = [own.log_density(counts + np.eye(2, dtype=int)[k], 1.3) - now for k in range(2)]
    opened = own.log_density(np.append(counts, 1), 1.3) - now
    weights = np.append(counts + own.offset(1.3), own.new_weight(1.3, 2, 4))
    np.testing.assert_allclose(np.exp([*joined, opened]), weights / weights.sum())
    assert [verbs.weight(n, record) for n in counts] == pytest.approx(list(weights[:2]))
    assert verbs.new_weight(2, 4, record) == pytest.approx(weights[2])
    several = own.new_weight(np.array([1.3, 0.4]), np.array([2, 3]), np.array([4, 9]))
    assert several == pytest.approx([weights[2], prior(alpha=0.4).new_weight(0.4, 3, 9)])


def test_a_split_changes_the_density_by_what_the_verbs_say():
    own, record = prior(), prior().record(1.3)
    change = own.log_density(np.array([2, 3, 4]), 1.3) - own.log_density(np.array([5, 4]), 1.3)
    parts = [verbs.log_cluster(n, record) for n in (2, 3, 5)]
    assert change == pytest.approx(parts[0] + parts[1] - parts[2] + verbs.log_another(2, 9, record))


def test_the_memo_changes_nothing():
    """In any order, and where other coefficients have taken their places."""
    record, rng = prior().record(1.3), np.random.default_rng(0)
    for n, t in rng.integers(1, 40, size=(300, 2)):
        n = n + t
        assert finite_mixtures.log_coefficient(t, n, record) == log_sum(
            t, n, 1.3, record.components
        )


def test_kernels_are_their_python_functions():
    record, rng = prior(alpha=0.7).record(0.7), np.random.default_rng(1)
    numbers = record.components
    for n, t in ((7, 3), (1000, 30)):
        assert log_sum(t, n, 0.7, numbers) == python_of(log_sum)(t, n, 0.7, numbers)
    counts = rng.integers(1, 9, size=6)
    assert finite_mixtures.log_density(counts, record) == pytest.approx(
        python_of(finite_mixtures.log_density)(counts, record), rel=1e-14
    )


@pytest.mark.parametrize("n_users", [3, 4])
def test_draws_have_the_probabilities_of_the_density(n_users):
    """K and weights are drawn, and then labels: nothing of the coefficients."""
    own, rng, n_draws = prior("poisson(2)"), np.random.default_rng(0), 20_000
    names = list(naive.partitions(n_users))
    places = {name: i for i, name in enumerate(names)}
    counts = np.zeros(len(names))
    for _ in range(n_draws):
        counts[places[tuple(own.draw(rng, n_users, 1.3).tolist())]] += 1
    check_counts(counts, np.exp([own.log_density(np.bincount(z), 1.3) for z in names]))


LEARNED = FiniteMixtures("poisson(2)", Gamma(2.0, 0.5))
GIVEN = (COUNTS, LEARNED.numbers, LEARNED.alpha_prior)


def test_weight_of_components_by_ratio():
    """Log joint minus log density of ln γ is constant; the joint is summed over K anew."""
    values = np.linspace(-4.0, 4.0, 9)
    density = [finite_mixtures.log_alpha_density(value, GIVEN) for value in values]
    z, kind = np.repeat([0, 1, 2], COUNTS), ("mixtures", log_chances("poisson(2)"))
    joint = [
        naive.log_partition(z, math.exp(value), kind)
        + stats.gamma(2.0, scale=2.0).logpdf(math.exp(value))
        + value
        for value in values
    ]
    assert np.ptp(np.array(joint) - density) < 1e-8


def away(target):
    """How far the mean of draws of ln γ with a target is from its own, in standard errors."""
    sample, rng = slice_sampling.sampler(target), stream_of(np.random.default_rng(1))
    y, drawn = 0.0, np.empty(40_000)
    for i in range(len(drawn)):
        y = drawn[i] = sample(rng, GIVEN, y, 2.0)
    density = lambda y: math.exp(finite_mixtures.log_alpha_density(y, GIVEN))  # noqa: E731
    size = integrate.quad(density, -15, 8)[0]
    mean = integrate.quad(lambda y: y * density(y) / size, -15, 8)[0]
    batches = drawn.reshape(50, -1).mean(axis=1)
    return abs(batches.mean() - mean) / (batches.std() / math.sqrt(50))


def test_weight_of_components_comes_to_its_distribution():
    assert away(finite_mixtures.log_alpha_density) < 4.5


def test_a_weight_that_forgets_the_number_of_components_is_rejected():
    wrong = mutate(finite_mixtures.log_alpha_density, "log_sum(counts.shape[0],", "log_sum(1,")
    assert away(wrong) > 6.0


def model():
    return Model(FiniteMixtures("poisson(1)", Gamma(4.0, 4.0)), np.zeros((12, 1)), n_users=12)


@pytest.mark.slow
def test_joint():
    assert_joint(model(), seed=2)


def new_as_in_a_process():
    """A new cluster weighs γ, as under a Dirichlet process."""
    old = "new_weight(n_clusters, n_customers, partition) / n_auxiliary"
    return [changed(assignment.weigh_columns, old, "partition.alpha / n_auxiliary")]


def number_forgotten():
    """γ is drawn as if there were one cluster."""
    wrong = mutate(finite_mixtures.log_alpha_density, "log_sum(counts.shape[0],", "log_sum(1,")
    return [changed(finite_mixtures.redraw, _sample_log_alpha=slice_sampling.sampler(wrong))]


test_mutants = mutant_tests(
    {"mixtures": model},
    {own.__name__: own for own in (new_as_in_a_process, number_forgotten)},
    "mixtures",
    block=2,
)


@pytest.mark.slow
@pytest.mark.parametrize("process", [FiniteMixtures(), dv.PitmanYor("learned")])
def test_a_fit_keeps_and_predicts_with_its_process(process, tmp_path):
    forum = dv.datasets.agreement(15, 20, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    fitted = dv.DualViewMixture(process, engine=dv.Gibbs(n_warmup=20), n_draws=20, n_chains=1).fit(
        forum.features, behavior
    )
    fitted.posterior_.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    assert read.n_clusters == process
    new = forum.features[:3] + 0.1
    np.testing.assert_array_equal(read.predict_proba(new), fitted.predict_proba(new))
    has_discount = isinstance(process, dv.PitmanYor)
    assert ("discount" in fitted.posterior_) == has_discount
    assert ("discount" in fitted.posterior_.diagnostics().index) == has_discount


def test_words_and_errors():
    assert partition_process("finite-mixtures") == FiniteMixtures()
    own = FiniteMixtures("Geometric( .1)")
    assert str(own) == "finite-mixtures(geometric(0.1))"
    assert partition_process(str(own)) == own
    assert partition_names(None, None, own)[1:] == ("1", str(own))
    assert partition_names(None, Gamma(1, 2), own).alpha_prior == "gamma(1, 2)"
    assert partition_prior(None, partition="finite-mixtures").n_components is None
    for wrong in (
        "poisson(0)",
        "poisson(5000)",
        "geometric(1)",
        "geometric",
        "poisson(1, 2)",
        "beta-negative-binomial(1, 1, 3)",
        "uniform(3)",
        3,
    ):
        with pytest.raises(InputError, match="FiniteMixtures: components must be"):
            FiniteMixtures(wrong)

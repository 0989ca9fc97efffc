"""Student-t noise of UserRegression: conditionals, densities, predictions, outcomes left out,
refusals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, norm, t

import dualview as dv
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.noise import log_dof_prior
from dualview.behaviors.families.student import (
    StudentFamily,
    StudentMixture,
    StudentOutcome,
    log_smeared_student,
    log_student,
    weight_law,
)
from dualview.behaviors.records import LatentPrior
from dualview.errors import InputError
from rows import residual as residual_of

N_USERS = 8
FEATURES = np.random.default_rng(9).normal(3.0, 2.0, (N_USERS, 2))
RNG = np.random.default_rng(0)
USER, DESIGN = RNG.integers(0, N_USERS - 1, 60), RNG.normal(size=(60, 1))
OUTCOME = 1.5 + DESIGN[:, 0] * np.where(USER < 4, -1.0, 1.5) + 0.3 * RNG.standard_t(2.5, size=60)


def regression(outcome=OUTCOME, **options):
    return dv.UserRegression(
        USER, DESIGN, outcome, intercept=True, n_users=N_USERS, noise="student", **options
    )


@pytest.mark.parametrize("dof", [None, 4.0], ids=["learned", "given"])
def test_the_likelihood_is_that_of_a_t_distribution(dof):
    weights = np.linspace(0.5, 2.0, 60)
    behavior, rng = regression(degrees_of_freedom=dof, weights=weights), np.random.default_rng(1)
    units, likelihood = behavior.prepare(None)
    assert isinstance(likelihood.family, StudentFamily)
    differences = []
    for noise, nu in ((0.5, 2.0), (2.0, 2.0), (2.0, 9.0)):
        working, nu = rng.normal(size=(N_USERS, 2)), dof or nu
        mean = (behavior.design * units.vectors(working)[USER]).sum(axis=1)
        scale = np.sqrt(likelihood.family.noise.prior.variance / noise / weights)
        direct = t.logpdf(
            OUTCOME, nu, mean, scale
        ).sum() + likelihood.family.noise.prior.working.log_density(noise)
        direct += 0.0 if dof else float(gamma.logpdf(nu, 2.0, scale=10.0))
        params = {"noise_precision": noise} | ({} if dof else {"degrees_of_freedom": nu})
        differences.append(likelihood.log_density(working, params) - direct)
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)


def test_conditionals_are_those_of_the_joint_density():
    """Log joint − log conditional is constant: of the noise, of the degrees of freedom, and of a
    weight."""
    _, likelihood = regression().prepare(None)
    latent = np.random.default_rng(2).normal(size=(N_USERS, 2))
    residual, family = residual_of(likelihood, latent), likelihood.family
    of_noise, of_dof = (
        family.noise.prior.log_density(
            family.noise_likelihood(residual, {"degrees_of_freedom": 3.0})
        ),
        family.tails.log_density(family.tails_likelihood(residual, 0.7)),
    )
    by_noise = [
        likelihood.log_density(latent, {"noise_precision": np.exp(x), "degrees_of_freedom": 3.0})
        + x
        - of_noise(x)
        for x in np.linspace(-2.0, 2.0, 7)
    ]
    by_dof = [
        likelihood.log_density(latent, {"noise_precision": 0.7, "degrees_of_freedom": np.exp(x)})
        + x
        - of_dof(x)
        for x in np.linspace(0.1, 4.0, 7)
    ]
    np.testing.assert_allclose(by_noise, by_noise[0], atol=1e-8)
    np.testing.assert_allclose(by_dof, by_dof[0], atol=1e-8)
    assert of_dof(0.0) == of_noise(800.0) == -np.inf
    params = {"noise_precision": 0.7, "degrees_of_freedom": 3.0}
    shape, rates = weight_law(residual, 0.7, 3.0)
    weight = np.linspace(0.1, 3.0, 7)
    joint = norm.logpdf(residual[0], 0.0, (0.7 * weight) ** -0.5) + gamma.logpdf(
        weight, 1.5, scale=1 / 1.5
    )
    by_weight = joint - gamma.logpdf(weight, shape, scale=1 / rates[0])
    np.testing.assert_allclose(by_weight, by_weight[0], atol=1e-8)
    assert likelihood.conjugate(params) is None
    assert not likelihood.can_approximate
    assert log_dof_prior(0.5) == -np.inf


@pytest.mark.parametrize("dof", [1.05, 3.0, 40.0])
def test_densities_of_smeared_t_distributions(dof):
    x = np.array([0.0, 1.0, 6.0, 40.0])
    np.testing.assert_allclose(log_student(x, 0.7, dof), t.logpdf(x, dof, scale=0.7), rtol=1e-10)
    for sd in (0.1, 3.0):
        tight = {"limit": 500, "epsabs": 0.0, "epsrel": 1e-8}
        direct = [
            quad(
                lambda z, v=value, s=sd: t.pdf(v - s * z, dof, scale=0.7) * norm.pdf(z),
                -18,
                18,
                **tight,
            )[0]
            for value in x
        ]
        np.testing.assert_allclose(np.exp(log_smeared_student(x, sd, 0.7, dof)), direct, rtol=2e-6)


def test_predictive_distributions():
    outcome = StudentOutcome(np.array([0.5, 1.0]), np.array([3.0, 8.0]))
    locations, sds = np.array([[0.0, 1.0], [1.0, -1.0]]), np.array([[0.0, 0.6], [0.0, 0.3]])
    mixture = StudentMixture(
        2, 2, lambda c: Parts(np.full((2, 1), -np.log(2)), locations[:, c], sds[:, c]), outcome
    )
    drawn = mixture.draws(100_000, seed=1)
    np.testing.assert_allclose(mixture.mean, locations.mean(axis=0))
    variance = (
        sds**2 + np.array([[0.25 * 3.0], [8.0 / 6.0]]) + (locations - locations.mean(axis=0)) ** 2
    ).mean(axis=0)
    np.testing.assert_allclose(mixture.std**2, variance)
    for level in (0.025, 0.5, 0.9):
        hits = (drawn <= mixture.quantile(level)).mean(axis=0)
        np.testing.assert_allclose(hits, level, atol=4.5 * 0.5 / np.sqrt(100_000))
    exact = 0.5 * (t.logpdf(2.0, 3.0, 0.0, 0.5) - t.logpdf(2.0, 3.0, 0.0, 0.5))
    exact += np.log(0.5 * t.pdf(2.0, 3.0, 0.0, 0.5) + 0.5 * t.pdf(2.0, 8.0, 1.0, 1.0))
    assert mixture.log_density([2.0, 0.0])[0] == pytest.approx(exact)
    assert mixture.cdf(mixture.median) == pytest.approx([0.5, 0.5], abs=1e-9)
    heavy = StudentMixture(2, 2, mixture._parts, StudentOutcome(np.ones(2), np.array([1.5, 8.0])))
    assert np.isinf(heavy.std).all()


@pytest.fixture(scope="module")
def fitted():
    return dv.DualViewMixture(n_warmup=60, n_draws=60, n_chains=2).fit(FEATURES, regression())


def again(user, design, n_users=N_USERS, outcome=None):
    return dv.UserRegression(
        user, design, outcome, intercept=True, n_users=n_users, noise="student"
    )


@pytest.mark.usefixtures("few_replicates")
@pytest.mark.filterwarnings("ignore::dualview.errors.DataWarning")
def test_predictions_scores_and_files(fitted, tmp_path):
    new = again([0, 6], [[1.0], [-1.0]])
    predicted, post = fitted.predict_outcome(new), fitted.posterior_
    latent, scales, dof = (
        post.flat("latent"),
        post.flat("noise_precision") ** -0.5,
        post.flat("degrees_of_freedom"),
    )
    means = np.column_stack([latent[:, 0] @ [1.0, 1.0], latent[:, 6] @ [1.0, -1.0]])
    direct = t.pdf([1.0, 2.0], dof[:, None], means, scales[:, None]).mean(axis=0)
    np.testing.assert_allclose(np.exp(predicted.log_density([1.0, 2.0])), direct, rtol=1e-8)
    later = again([N_USERS], [[0.0]], N_USERS + 1)
    before = fitted.predict_outcome(later, FEATURES[:1])
    after = fitted.predict_outcome(
        later, FEATURES[:1], again(np.zeros(12, dtype=int), np.zeros((12, 1)), 1, np.full(12, 6.0))
    )
    assert after.median[0] > before.median[0]
    assert np.isfinite(before.log_density([2.0])).all()
    post.save(tmp_path / "run.nc")
    read = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    np.testing.assert_array_equal(
        read.predict_outcome(new).log_density([1.0, 2.0]), predicted.log_density([1.0, 2.0])
    )
    assert np.isfinite(dv.compare({"a": fitted, "b": fitted})["elpd"]).all()
    tree = post.to_arviz(n_prior=40)
    assert "degrees_of_freedom" in tree["log_prior"]
    values = tree["log_likelihood"]["outcome"].values.reshape(-1, 60)
    assert np.log(np.exp(values).mean(axis=0)).mean() == pytest.approx(
        fitted.score(None, regression())
    )
    assert len(list(fitted.check(regression(), refit=False))) > 0


def test_outcomes_left_out_are_those_of_integration():
    """Averages over draws of f and of weights of conditional densities agree with a fine grid over
    f."""
    rng, user, design = (
        np.random.default_rng(5),
        np.zeros(4, dtype=int),
        np.array([[1.0], [-0.5], [2.0], [0.7]]),
    )
    outcome = np.array([0.6, -0.4, 0.5, 3.0])
    behavior = dv.UserRegression(
        user, design, outcome, n_users=1, noise="student", degrees_of_freedom=3.0
    )
    means, base = np.array([[0.3]]), np.array([[1e12]])
    prior = LatentPrior(
        np.zeros(1, dtype=np.int64), means, np.array([[[0.8]]]), means[0], base, np.zeros((1, 1))
    )
    grid = np.linspace(-8.0, 8.0, 4001)
    log_rows = t.logpdf(outcome[:, None], 3.0, design * grid, 0.6)
    weights = np.exp(log_rows.sum(axis=0) - 0.4 * (grid - 0.3) ** 2)
    drawn = rng.choice(grid, 800, p=weights / weights.sum())
    left_out, params = behavior.left_out(), {"noise_precision": 0.6**-2}
    laws = [left_out.predictive(prior, params, np.array([[f]])) for f in drawn]
    inverse = np.exp(
        -np.array([law.log_density(outcome) for law in laws])
    )  # 1/p, whose mean is 1/p(y | others)
    for i in range(4):
        others = np.exp(np.delete(log_rows, i, axis=0).sum(axis=0) - 0.4 * (grid - 0.3) ** 2)
        expected = (others * np.exp(log_rows[i])).sum() / others.sum()
        assert abs(inverse[:, i].mean() - 1.0 / expected) < 4.5 * inverse[:, i].std() / np.sqrt(
            len(drawn)
        )
    placed = laws[0].standardized(rng, laws[0].mean + np.array([-1.0, 0.0, 1.0, 2.0]))
    assert placed[1] == pytest.approx(0.0, abs=1e-12)
    assert placed[0] < placed[1] < placed[2]


@pytest.mark.slow
def test_outliers_move_a_normal_regression_and_not_this_one():
    outcome = OUTCOME.copy()
    outcome[:5] += 40.0
    settings = {"n_warmup": 200, "n_draws": 200, "n_chains": 2}
    robust = dv.DualViewMixture(1, **settings).fit(None, regression(outcome))
    plain = dv.DualViewMixture(1, **settings).fit(
        None, dv.UserRegression(USER, DESIGN, outcome, intercept=True, n_users=N_USERS)
    )
    truth = np.where(np.arange(N_USERS) < 4, -1.0, 1.5)[:-1]
    errors = [np.abs(model.latent_[:-1, 1] - truth).mean() for model in (robust, plain)]
    assert errors[0] < 0.5 * errors[1]
    assert np.median(robust.posterior_.flat("degrees_of_freedom")) < 4.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees_of_freedom": 0.5}, "must be above 1"),
        ({"degrees_of_freedom": -3.0}, "degrees_of_freedom"),
        ({"standard_errors": np.ones(60)}, "standard_errors say what the noise is"),
        (
            {"outcome_kind": {"kind": "rounded", "step": 0.5}},
            "needs outcomes that are exact numbers",
        ),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        regression(**options)


def test_degrees_of_freedom_need_the_noise():
    with pytest.raises(InputError, match="are those of noise"):
        dv.UserRegression(USER, DESIGN, OUTCOME, degrees_of_freedom=3.0)
    with pytest.raises(InputError, match='must be "shared", "cluster", "user" or "student"'):
        dv.UserRegression(USER, DESIGN, OUTCOME, noise="normal")

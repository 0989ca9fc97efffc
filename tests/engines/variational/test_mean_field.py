"""q: the bound is what it says, no update lowers it, and where updates end no factor can be changed
for the better."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import dualview as dv
from dualview.behaviors.approximation.latent import SoftPrior
from dualview.distributions import G
from dualview.engines.variational.ascent import ascend
from dualview.engines.variational.draws import drawn, states
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.moves import split
from dualview.engines.variational.responsibilities import GivenRows, Recipe
from dualview.model import Model
from dualview.partitions.alpha import Gamma, Known
from dualview.partitions.choice import partition_prior
from dualview.partitions.priors import PartitionPrior
from dualview.units import Whitening
from dualview.views.gaussian.soft_scale import dof_grid

_LEAST = 1e-9  # of the bound that rounding may take


def _model(
    partition: PartitionPrior,
    *,
    features: bool = True,
    behavior: bool = True,
    n_users: int = 12,
    **options,
) -> Model:
    forum = dv.datasets.agreement(n_users=n_users, n_threads=15, seed=3)
    likelihood = None
    if behavior:
        likelihood = dv.SharedOutcome(forum.participation, forum.outcome, **options).prepare(None)[
            1
        ]
    working = Whitening.of_data(forum.features).to_working(forum.features) if features else None
    return Model(partition, working, likelihood, n_users)


def _start(model: Model, n_components: int) -> MeanField:
    return MeanField.start(model, np.arange(model.n_users) % n_components)


MODELS = {
    "process": (lambda: _model(partition_prior(None, Gamma(0.25, 0.25))), 4),
    "pitman-yor": (lambda: _model(partition_prior(None, Gamma(1, 1), dv.PitmanYor(0.3))), 4),
    "fixed": (lambda: _model(partition_prior(6)), 4),
    "one cluster": (lambda: _model(partition_prior(1)), 1),
    "features": (lambda: _model(partition_prior(None), behavior=False), 4),
    "behavior with covariates": (
        lambda: _model(
            partition_prior(None),
            features=False,
            intercept=True,
            covariates=np.linspace(-1, 1, 15)[:, None] ** 2,
        ),
        3,
    ),
}


def _panel_model(n_users: int = 12, **options) -> Model:
    rng = np.random.default_rng(4)
    user = np.repeat(np.arange(n_users), 4)[:-4]  # the last user has no observations
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    latent = np.where(
        np.arange(n_users)[:, None] % 2, [1.0, 2.0], [-1.0, 0.0]
    ) + 0.3 * rng.standard_normal((n_users, 2))
    outcome = np.einsum("nq,nq->n", design, latent[user]) + 0.4 * rng.standard_normal(len(user))
    behavior = dv.UserRegression(user, design, outcome, n_users=n_users, **options)
    likelihood = behavior.prepare(None)[1]
    return Model(partition_prior(None), rng.standard_normal((n_users, 2)), likelihood, n_users)


def _answers_model(n_users: int = 12) -> Model:
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(n_users), 5)[:-5]  # the last user has no observations
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    odds = np.where(user % 2, 2.0, -1.5) * design[:, 0] + design[:, 1]
    answers = rng.random(len(user)) < 1.0 / (1.0 + np.exp(-odds))
    behavior = dv.BinaryOutcomes(
        user, design, answers, offset=np.linspace(-1, 1, len(user)), n_users=n_users
    )
    likelihood = behavior.prepare(None)[1]
    return Model(partition_prior(None), rng.standard_normal((n_users, 2)), likelihood, n_users)


MODELS["per-user regressions"] = (_panel_model, 3)
MODELS["known standard errors"] = (
    lambda: _panel_model(standard_errors=np.linspace(0.3, 0.6, 44)),
    3,
)
MODELS["yes or no"] = (_answers_model, 3)


def _expected_model(family: str, n_users: int = 12) -> Model:
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(n_users), 5)[:-5]  # the last user has no observations
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    eta = np.where(user % 2, 1.5, -0.5) * design[:, 0] + 0.5 * design[:, 1]
    known = {"family": family, "offset": np.linspace(-1, 1, len(user)), "n_users": n_users}
    if family in ("poisson", "negative binomial"):
        counts = rng.poisson(np.exp(eta) * rng.gamma(1.5, 1 / 1.5, len(user)))
        behavior = dv.CountOutcomes(user, design, counts, **known)
    else:
        times = np.exp(eta + 0.5 * rng.gumbel(size=len(user)))
        behavior = dv.SurvivalOutcomes(user, design, np.minimum(times, 6.0), times < 6.0, **known)
    likelihood = behavior.prepare(None)[1]
    return Model(partition_prior(None), rng.standard_normal((n_users, 2)), likelihood, n_users)


for _family in ("poisson", "negative binomial", "weibull", "log-logistic"):
    MODELS[_family] = (partial(_expected_model, _family), 3)


def test_vectors_of_per_user_regressions_are_those_of_one_normal_distribution() -> None:
    model = _panel_model()
    likelihood, rng = model.likelihood, np.random.default_rng(1)
    n_users, n, k = 12, 2, 3
    prior = SoftPrior(
        rng.dirichlet(np.ones(k), n_users).T,
        np.array([[[2.0, 0.3], [0.3, 1.0]], [[1.0, -0.2], [-0.2, 3.0]], [[4.0, 0.0], [0.0, 0.5]]]),
        np.array([[0.7, 0.1], [0.1, 0.4]]),
        np.array([0.5, -1.0]),
        np.zeros((k, n)),
    )
    start = likelihood.approximate()
    found, noise = start.with_latent(prior), start.factor.noise.mean
    size = n_users * n
    precision, linear = np.zeros((size + k * n, size + k * n)), np.zeros(size + k * n)
    for u in range(n_users):
        mine = slice(u * n, u * n + n)
        rows = likelihood.panel.user == u
        design = likelihood.panel.design[rows]
        precision[mine, mine] += noise * design.T @ design
        linear[mine] = noise * design.T @ likelihood.panel.outcome[rows]
        for j in range(k):
            its = slice(size + j * n, size + j * n + n)
            pull = prior.responsibilities[j, u] * prior.precisions[j]
            for a, b, sign in ((mine, mine, 1), (its, its, 1), (mine, its, -1), (its, mine, -1)):
                precision[a, b] += sign * pull
    for j in range(k):
        its = slice(size + j * n, size + j * n + n)
        precision[its, its] += prior.base_precision
        linear[its] = prior.base_precision @ prior.base_mean
    covariance = np.linalg.inv(precision)
    mean = covariance @ linear
    np.testing.assert_allclose(found.means.ravel(), mean[:size], rtol=1e-9)
    np.testing.assert_allclose(found.component_means.ravel(), mean[size:], rtol=1e-9)
    for u in range(n_users):
        mine = slice(u * n, u * n + n)
        np.testing.assert_allclose(found.covariances[u], covariance[mine, mine], rtol=1e-9)
        for j in range(k):
            its = slice(size + j * n, size + j * n + n)
            np.testing.assert_allclose(
                found.crosses[j, u], covariance[mine, its], rtol=1e-8, atol=1e-12
            )
            np.testing.assert_allclose(
                found.component_covariances[j], covariance[its, its], rtol=1e-9
            )
    entropy = 0.5 * (np.linalg.slogdet(covariance)[1] + len(linear) * (1.0 + np.log(2 * np.pi)))
    residual = likelihood.panel.outcome - likelihood.predictor(found.means)
    spread = sum(
        np.sum(likelihood.panel.squares[u] * covariance[u * n : u * n + n, u * n : u * n + n])
        for u in range(n_users)
    )
    log_noise = 0.5 * len(residual) * (found.factor.noise.mean_log - np.log(2 * np.pi))
    of_noise = found.bound() - entropy - log_noise + 0.5 * noise * (residual @ residual + spread)
    prior_of_noise = likelihood.family.noise.prior.working
    half = 0.5 * prior_of_noise.dof
    of_q = found.factor.noise
    expected = half * np.log(half) - gammaln(half) + (half - 1.0) * of_q.mean_log - half * noise
    assert of_noise == pytest.approx(expected + of_q.entropy)
    draws = found.draws(np.random.default_rng(0), 2000)
    joint = np.hstack([draws.latent.reshape(2000, -1), draws.means.reshape(2000, -1)])
    standard = (joint - mean) @ np.linalg.cholesky(precision)
    assert abs(standard.mean(axis=0) * np.sqrt(2000)).max() < 4.5
    assert (
        abs(standard.T @ standard / 2000 - np.eye(len(mean))) * np.sqrt(2000)
    ).max() < 4.5 * np.sqrt(2.0)


@pytest.mark.parametrize("name", MODELS)
def test_no_update_lowers_the_bound(name: str) -> None:
    make, n_components = MODELS[name]
    q = _start(make(), n_components)
    first = before = q.bound
    for _ in range(15):
        for update in q.updates():
            q = update(q)
            assert q.bound >= before - _LEAST * abs(before)
            before = q.bound
    assert q.bound > first


@pytest.mark.parametrize("name", MODELS)
def test_a_start_of_no_weight_gives_no_draws(name: str) -> None:
    make, n_components = MODELS[name]
    assert states(np.random.default_rng(0), _start(make(), n_components), 0) == []


def test_an_ascent_never_falls_and_ends_where_steps_gain_nothing() -> None:
    q = _start(_model(partition_prior(None)), 4)
    bounds = [q.bound]
    found = ascend(q, 1e-4, 2000, lambda q, _: bounds.append(q.bound))
    assert found.converged
    assert (np.diff(bounds) >= -_LEAST * abs(bounds[0])).all()
    further = found.q
    for _ in range(200):
        further = further.step()
    assert further.bound - found.q.bound < 0.01


def _log_ratio(q: MeanField, draws, i: int, z: np.ndarray) -> float:
    """ln p(data, draw) − ln q(draw) of a fit with known α and sticks, from the definitions (M1) to
    (M9)."""
    total = 0.0
    weights, alpha = np.exp(draws.log_weights[i]), draws.alpha[i]
    sticks = weights / (1.0 - np.concatenate([[0.0], np.cumsum(weights)[:-1]]))
    after = q.counts[::-1].cumsum()[::-1] - q.counts
    total += (
        stats.beta(1, alpha).logpdf(sticks).sum()
        - stats.beta(1 + q.counts, alpha + after).logpdf(sticks).sum()
    )
    total += np.log(weights[z]).sum() - np.log(q.responsibilities[z, np.arange(len(z))]).sum()
    vectors = {"features": q.model.features, "behavior": draws.latent.latent[i]}
    for name, view in q.views.items():
        state, n = draws.views[name][i], view.n_dims
        base, (means, factors) = state.base, state.components
        grid = dof_grid(n, 0)
        place = int(np.argmin(abs(grid.dof - base.dof)))
        total += grid.log_prior[place] - view.scale.log_weights[place]
        unit = np.eye(n)
        total += stats.multivariate_normal(np.zeros(n), unit).logpdf(base.mean)
        total -= stats.multivariate_normal(view.base_mean, view.base_mean_covariance).logpdf(
            base.mean
        )
        for prior, law, value in (
            (stats.wishart(n, unit / n), view.base_precision, base.precision),
            (stats.wishart(n, unit / n), view.base_covariance, base.covariance),
        ):
            total += prior.logpdf(value) - stats.wishart(
                law.dof, np.linalg.inv(law.inverse_scale)
            ).logpdf(value)
        scales = view.scale.inverse_scales(np.array(base.dof))
        for k, factor in enumerate(factors):
            precision = factor @ factor.T
            total += stats.multivariate_normal(base.mean, np.linalg.inv(base.precision)).logpdf(
                means[k]
            )
            total += stats.wishart(base.dof, np.linalg.inv(base.dof * base.covariance)).logpdf(
                precision
            )
            total -= stats.wishart(
                base.dof + view.scale.counts[k], np.linalg.inv(scales[k])
            ).logpdf(precision)
            if not view.joint:
                total -= stats.multivariate_normal(view.means[k], view.mean_covariances[k]).logpdf(
                    means[k]
                )
            mine = vectors[name][z == k]
            if len(mine):
                total += np.sum(
                    stats.multivariate_normal(means[k], np.linalg.inv(precision)).logpdf(mine)
                )
    likelihood, params = q.model.likelihood, draws.latent.params[i]
    noise = params["noise_precision"]
    residual = likelihood.residual(draws.latent.latent[i], params["coefficients"])
    total += stats.norm(0, noise**-0.5).logpdf(residual).sum() + stats.gamma(0.5, scale=2.0).logpdf(
        noise
    )
    total -= stats.gamma(0.5 * q.latent.noise.dof, scale=2.0 / q.latent.noise.inverse_scale).logpdf(
        noise
    )
    joint = np.concatenate([draws.latent.latent[i, :, 0], draws.latent.means[i, :, 0]])
    return total - stats.multivariate_normal(q.latent.mean, q.latent.covariance).logpdf(joint)


@pytest.mark.slow
def test_the_bound_is_the_average_of_what_it_bounds() -> None:
    q = _start(_model(partition_prior(None, Known(0.7)), n_users=8), 2).step().step()
    rng, n = np.random.default_rng(0), 600
    draws = drawn(rng, q, n)
    z = (rng.random((n, 1, 8)) >= np.cumsum(q.responsibilities, axis=0)).sum(axis=1)
    values = np.array([_log_ratio(q, draws, i, z[i]) for i in range(n)])
    assert abs(values.mean() - q.bound) < 4.5 * values.std() / np.sqrt(n)


@pytest.fixture(scope="module")
def ended() -> MeanField:
    return ascend(_start(_model(partition_prior(None)), 3), 1e-9, 5000).q


@pytest.mark.parametrize("size", [-0.05, 0.05])
def test_where_updates_end_no_factor_can_be_changed_for_the_better(
    ended: MeanField, size: float
) -> None:
    features, behavior = ended.views["features"], ended.views["behavior"]
    shift, scale = size * np.ones(2), 1.0 + size

    def with_view(name: str, **changes) -> MeanField:
        return replace(
            ended, views={**ended.views, name: replace(ended.views[name], **changes)}, sums={}
        )

    def wider(law, by: float):
        return replace(law, inverse_scale=by * law.inverse_scale)

    moved = ended.latent.mean + size * np.eye(len(ended.latent.mean))[0]
    responsibilities = (
        ended.responsibilities * np.exp(size * np.arange(ended.n_components))[:, None]
    )
    responsibilities /= responsibilities.sum(axis=0)
    entropy = -float(np.sum(responsibilities * np.log(responsibilities)))
    changed = [
        with_view("features", means=features.means + shift),
        with_view("features", mean_covariances=scale * features.mean_covariances),
        with_view("features", base_mean=features.base_mean + shift),
        with_view("features", base_precision=wider(features.base_precision, scale)),
        with_view("features", base_covariance=wider(features.base_covariance, scale)),
        with_view("behavior", base_covariance=wider(behavior.base_covariance, scale)),
        replace(ended, latent=replace(ended.latent, mean=moved), sums={}),
        replace(ended, latent=replace(ended.latent, factor=scale * ended.latent.factor), sums={}),
        replace(
            ended,
            latent=replace(
                ended.latent, noise=ended.latent.noise._replace(dof=scale * ended.latent.noise.dof)
            ),
        ),
        ended.reassigned(Recipe(GivenRows(responsibilities, entropy))),
    ]
    # q(μ) of the behavior is a part of the changed latent factor
    for place in (6, 7):
        latent = changed[place].latent
        own = {"means": latent.component_means, "mean_covariances": latent.component_covariances}
        changed[place] = replace(
            changed[place],
            views={**changed[place].views, "behavior": replace(behavior, **own)},
            sums={},
        )
    for q in changed:
        assert q.bound < ended.bound - 1e-7


def test_with_one_known_cluster_and_noise_coefficients_are_exact() -> None:
    model = _model(partition_prior(1), features=False)
    likelihood = model.likelihood
    latent = replace(likelihood.approximate(), noise=G(3.0, 2.0))
    precision, mean, pinned = 1.7, 0.4, 1e12
    prior = SoftPrior(
        np.ones((1, 12)),
        np.array([[[precision]]]),
        np.array([[pinned]]),
        np.array([mean]),
        np.array([[mean]]),
    )
    found = latent.with_latent(prior)
    design, noise = np.asarray(likelihood.design), latent.noise.mean
    exact = np.linalg.inv(precision * np.eye(12) + noise * design.T @ design)
    np.testing.assert_allclose(found.covariance[:12, :12], exact, rtol=1e-6)
    centre = exact @ (precision * mean + noise * design.T @ likelihood.outcome)
    np.testing.assert_allclose(found.means[:, 0], centre, rtol=1e-6)


@pytest.mark.parametrize("name", ["process", "fixed", "features"])
def test_other_numbers_of_components_are_states_whose_steps_rise(name: str) -> None:
    make, n_components = MODELS[name]
    q = _start(make(), n_components).step()
    for trial in (q.merged(0, 1), q.deleted(2), split(q, 0, list(q.views))):
        np.testing.assert_allclose(trial.responsibilities.sum(axis=0), 1.0)
        assert trial.step().bound >= trial.bound - _LEAST * abs(trial.bound)
    assert q.merged(0, 1).n_components == n_components - 1
    assert split(q, 0, list(q.views)).n_components == n_components + 1

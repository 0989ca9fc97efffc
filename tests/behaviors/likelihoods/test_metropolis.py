"""The Metropolis step of families without an augmentation: modes wherever they are, and every
density that it moves by against the joint."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families.poisson import PoissonFamily, PoissonOutcome
from dualview.behaviors.likelihoods import metropolis
from dualview.behaviors.likelihoods import with_effects as effects_module
from dualview.behaviors.likelihoods.common_step import CommonStep
from dualview.behaviors.likelihoods.linked import LinearLink, LinkedLikelihood
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.likelihoods.with_effects import WithEffects
from dualview.behaviors.records import Panel, Prior
from dualview.units import GaussianPrior, Whitening
from engines.gibbs.test_joint_effects import USER as OF_EFFECTS
from engines.gibbs.test_joint_effects import with_effects

Array = Any
N_USERS, Q = 5, 2
USER = np.array([1, 2, 2, 3, 1, 3, 3, 2, 4])  # user 0 has no observations
Z = np.array([0, 0, 1, 1, 0])
PRIOR = Prior(
    Z,
    np.array([[0.3, -0.2], [0.8, 0.4], [0.0, 0.0]]),
    np.array([np.eye(Q), [[1.3, 0.0], [0.4, 0.9]], np.eye(Q)]),
    pooled=True,
)


def rows(counts: Array = (0, 1, 4, 2, 0, 7, 3, 1, 2), user: Array = USER) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(user), Q))
    design[:, 0] = 1.0
    panel = Panel.of(user, design, np.asarray(counts, dtype=float), N_USERS)
    return UserRows(panel, PoissonFamily(), np.linspace(-0.5, 0.5, len(user)))


def target_of(counts: Array, means: Array, sds: Array) -> metropolis.Target:
    """A level of each owner, with a count each."""
    n = len(counts)
    return metropolis.Target(
        np.asarray(means, dtype=float)[:, None],
        (np.asarray(sds, dtype=float) ** -2.0)[:, None, None],
        np.arange(n),
        np.ones((n, 1)),
        np.zeros(n),
        np.asarray(counts, dtype=float),
        PoissonOutcome(),
    )


def test_modes_are_found_where_they_are_sharp_or_far_away() -> None:
    target = target_of(
        [0, 10**9, 10**9, 0, 0, 5, 3], [0, 0, 30, 30, -200, 35, -500], [1, 1, 1, 2, 6, 0.1, 50]
    )
    modes, curvatures = target.mode()
    slope, _ = target.outcome.derivatives(target.y, modes[:, 0])
    gradient = slope - (modes - target.means)[:, 0] * target.precisions[:, 0, 0]
    assert (np.abs(gradient) / np.sqrt(curvatures[:, 0, 0]) < 1e-3).all()
    rng = np.random.default_rng(0)
    vectors, moved = modes, np.zeros(len(modes))
    for _ in range(200):
        after = metropolis.step(rng, target, vectors)
        moved += (after != vectors)[:, 0]
        vectors = after
    assert (moved > 80).all()


@pytest.mark.parametrize("most_steps", [0, 1])
def test_a_step_is_exact_without_a_mode(most_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps from draws of the target are draws of the target, wherever the proposal is."""
    monkeypatch.setattr(metropolis, "_MOST_STEPS", most_steps)
    n, rng = 40_000, np.random.default_rng(1)
    target = target_of(np.full(n, 20), np.zeros(n), np.full(n, 1.5))
    grid = np.linspace(0.0, 5.0, 20_001)
    log_density = 20.0 * grid - np.exp(grid) + norm.logpdf(grid, 0.0, 1.5)
    chances = np.cumsum(np.exp(log_density - log_density.max()))
    vectors = np.interp(rng.random(n), chances / chances[-1], grid)[:, None]
    after = metropolis.step(rng, target, vectors)
    assert (after != vectors).any()
    for power in (1, 2):
        difference = after**power - vectors**power
        assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(n)


def assert_constant(differences: list[float]) -> None:
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)


def caught(monkeypatch: pytest.MonkeyPatch) -> list[metropolis.Target]:
    """The targets of the steps that are made."""
    targets: list[metropolis.Target] = []
    right = metropolis.step

    def seen(rng: Any, target: metropolis.Target, vectors: Array) -> Array:
        targets.append(target)
        return right(rng, target, vectors)

    monkeypatch.setattr(metropolis, "step", seen)
    return targets


def stays(monkeypatch: pytest.MonkeyPatch, latent: Array) -> None:
    """Common coefficients and vectors do not move together."""

    def move(self: CommonStep, rng: Any, common: Array) -> Any:  # noqa: ARG001
        return common, latent, self.density

    monkeypatch.setattr(CommonStep, "move", move)


def moves_along(
    target: metropolis.Target, owner: int, log_joint: Callable[[Array], float], size: int
) -> None:
    """Log joint − log target is constant, of one owner's coefficients."""
    rng, differences = np.random.default_rng(3), []
    for _ in range(6):
        vectors = np.zeros_like(target.means)
        vectors[owner] = rng.standard_normal(size)
        differences.append(log_joint(vectors) - target.log_density(vectors)[owner])
    assert_constant(differences)


@pytest.mark.parametrize("shifted", [False, True])
def test_the_target_of_a_shared_vector_is_the_joint_density(
    shifted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    likelihood, rng = rows(), np.random.default_rng(2)
    shift = rng.standard_normal((N_USERS, Q)) if shifted else np.zeros((N_USERS, Q))
    prior = PRIOR._replace(shift=shift if shifted else None)
    latent = rng.standard_normal((3, Q))[Z] + shift
    targets = caught(monkeypatch)
    terms = likelihood.terms(rng, latent, {})
    after, _ = likelihood.redraw(rng, latent, {}, terms, prior)
    np.testing.assert_allclose((after - shift)[Z == 0], (after - shift)[[0, 0, 0]])
    precisions = PRIOR.factors @ np.swapaxes(PRIOR.factors, 1, 2)
    for cluster in (0, 1):

        def joint(vectors: Array, cluster: int = cluster) -> float:
            shared = np.where((cluster == Z)[:, None], vectors[cluster] + shift, latent)
            own = multivariate_normal.logpdf(
                vectors[cluster], PRIOR.means[cluster], np.linalg.inv(precisions[cluster])
            )
            return float(likelihood.log_density(shared, {}) + own)

        moves_along(targets[0], cluster, joint, Q)


def test_labels_are_weighed_by_the_density_of_rows() -> None:
    likelihood, rng = rows(), np.random.default_rng(4)
    vectors, shift = rng.standard_normal((3, Q)), rng.standard_normal((N_USERS, Q))
    table = likelihood.log_table(vectors, {}, slice(0, N_USERS), shift)
    for column in range(3):
        whole = likelihood.log_density(vectors[column] + shift, {})
        np.testing.assert_allclose(table[:, column].sum(), whole)
    np.testing.assert_allclose(likelihood.log_table(vectors, {}, slice(2, 4), shift), table[2:4])
    assert (table[0] == 0.0).all()


def counted(pooled: bool = False) -> tuple[WithEffects, Prior]:
    """Counts with a common column and two groups."""
    design = np.random.default_rng(7).standard_normal((len(OF_EFFECTS), 1))
    panel = Panel.of(OF_EFFECTS, design, np.array([0, 3, 1, 7, 2, 0, 1, 4, 5.0]), N_USERS)
    prior = PRIOR._replace(means=PRIOR.means[:, :1], factors=np.ones((3, 1, 1)), pooled=pooled)
    return with_effects(UserRows(panel, PoissonFamily()), 2), prior


def test_the_targets_of_effects_are_the_joint_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block given those before it as they have moved."""
    likelihood, prior = counted()
    rng = np.random.default_rng(5)
    latent, params = likelihood.start(rng)
    params |= {
        "common": rng.standard_normal(2),
        "group_effects": rng.standard_normal(5),
    }
    states, own = [likelihood.effects(params)], latent
    right = effects_module.EffectBlock.move

    def seen(self: Any, rng: Any, density: Any, effects: Array, precision: Array) -> Any:
        moved = right(self, rng, density, effects, precision)
        states.append(states[-1].copy())
        states[-1][self.own] = moved[0]
        return moved

    monkeypatch.setattr(effects_module.EffectBlock, "move", seen)
    stays(monkeypatch, own)
    targets = caught(monkeypatch)
    likelihood.redraw(rng, latent, params, likelihood.terms(rng, latent, params), prior)
    for standing, target, block in zip(states, targets, likelihood._blocks, strict=False):
        n_owners, size = target.means.shape
        for owner in range(n_owners):

            def joint(
                vectors: Array, owner: int = owner, standing: Array = standing, own: Any = block.own
            ) -> float:
                effects = standing.copy()
                chosen = effects[own].reshape(vectors.shape).copy()
                chosen[owner] = vectors[owner]
                effects[own] = chosen.ravel()
                return likelihood.log_density(
                    latent, params | likelihood._params(effects, params["group_sd"])
                )

            moves_along(target, owner, joint, size)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_step_of_common_coefficients_and_vectors_is_by_the_joint_density(pooled: bool) -> None:
    """With f_o + L_o γ held for every owner of a vector."""
    likelihood, prior = counted(pooled)
    rng, shift = np.random.default_rng(9), np.random.default_rng(1).standard_normal((N_USERS, 1))
    latent, params = likelihood.start(rng)
    own = rng.standard_normal((3, 1))[Z] if pooled else rng.standard_normal((N_USERS, 1))
    latent, common = own + shift, rng.standard_normal(2)
    params |= {"common": common, "group_effects": rng.standard_normal(5)}
    density = likelihood.density(latent, params)
    terms = likelihood.terms(rng, latent, params)
    assert density is not None
    step = CommonStep.of(likelihood._blocks[0].design, density, terms, prior, own)
    target, held = step.target(common)
    assert np.abs(step.follow).max() > 0.05
    owners = range(3) if pooled else range(N_USERS)
    differences = []
    for _ in range(6):
        gamma = rng.standard_normal(2)
        vectors = held - step.follow @ gamma
        users = vectors[Z] if pooled else vectors
        means = prior.means if pooled else prior.means[Z]
        of_vectors = sum(norm.logpdf(vectors[o, 0], means[o, 0], 1.0) for o in owners)
        joint = likelihood.log_density(users + shift, params | {"common": gamma}) + of_vectors
        differences.append(joint - target.log_density(gamma[None])[0])
    assert_constant(differences)
    moved, users, rows = step.move(rng, common)
    after = likelihood.density(users + shift, params | {"common": moved})
    assert after is not None
    np.testing.assert_allclose(rows.eta, after.eta, atol=1e-10)


def test_common_coefficients_do_not_creep_beside_an_intercept() -> None:
    """A column far from 0 that all users have: given the vectors it could hardly move."""
    rng, n = np.random.default_rng(10), 60
    user, column = np.arange(n) % N_USERS, 30.0 + rng.standard_normal(n)
    counts = rng.poisson(np.exp(1.0 + 0.3 * (column - 30.0)))
    panel = Panel.of(user, np.ones((n, 1)), counts.astype(float), N_USERS)
    effects = Effects.of(n, column[:, None], None, None, None)
    order = np.argsort(user, kind="stable")
    likelihood = effects.around(
        UserRows(panel, PoissonFamily()), effects.units(1.0), order, Scales(1.0, 1.0)
    )
    prior = Prior(
        np.zeros(N_USERS, dtype=np.int64), np.zeros((1, 1)), 0.1 * np.ones((1, 1, 1)), True
    )
    latent, params = likelihood.start(rng)
    latent[:], seen = latent.mean(), []
    for _ in range(400):
        terms = likelihood.terms(rng, latent, params)
        latent, params = likelihood.redraw(rng, latent, params, terms, prior)
        seen.append(params["common"][0])
    series = np.array(seen[100:]) - np.mean(seen[100:])
    assert (series[1:] * series[:-1]).mean() < 0.6 * (series**2).mean()


def test_how_much_effects_vary_has_the_density_of_the_joint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ln τ given effects/τ, by slices."""
    likelihood, prior = counted()
    rng = np.random.default_rng(6)
    latent, params = likelihood.start(rng)
    params |= {"common": np.zeros(2), "group_effects": rng.standard_normal(5)}
    seen: list[Any] = []

    def slice_of(rng: Any, log_density: Any, start: float, width: float) -> float:  # noqa: ARG001
        seen.append((log_density, start))
        return start

    stays(monkeypatch, latent)
    monkeypatch.setattr(effects_module, "slice_sample", slice_of)
    monkeypatch.setattr(effects_module, "draw_log_tau", lambda rng, parameters: parameters.start)  # noqa: ARG005
    monkeypatch.setattr(
        effects_module.EffectBlock,
        "move",
        lambda self, rng, density, effects, precision: (effects, density),  # noqa: ARG005
    )
    likelihood.redraw(rng, latent, params, likelihood.terms(rng, latent, params), prior)
    for group, (log_density, start) in enumerate(seen):
        own = slice(*likelihood.bounds[group : group + 2])
        differences = []
        for x in np.linspace(start - 1.0, start + 1.0, 5):
            effects, sds = likelihood.effects(params).copy(), params["group_sd"].copy()
            effects[own] *= np.exp(x - start)
            sds[group] = np.exp(x)
            joint = likelihood.log_density(latent, params | likelihood._params(effects, sds))
            jacobian = x * (1 + own.stop - own.start)  # of ln τ, and of effects/τ
            differences.append(joint + jacobian - log_density(x))
        assert_constant(differences)


def test_slopes_of_a_link_have_the_density_of_the_joint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Γ given g, where observations have no normal form."""
    rng, units = np.random.default_rng(8), Whitening.of(GaussianPrior(np.zeros(Q), np.eye(Q)))
    features = rng.standard_normal((N_USERS, 3))
    of_features = Whitening.of(GaussianPrior(np.zeros(3), np.eye(3)))
    likelihood = LinkedLikelihood.of(rows(), features, units, of_features)
    assert isinstance(likelihood.link, LinearLink)
    latent, params = likelihood.start(rng)
    targets = caught(monkeypatch)
    terms = likelihood.terms(rng, latent, params)
    likelihood.redraw(rng, latent, params, terms, PRIOR)

    def joint(vectors: Array) -> float:
        return likelihood.log_density(latent, params | {"slopes": vectors[0].reshape(Q, 3)})

    moves_along(targets[0], 0, joint, Q * 3)

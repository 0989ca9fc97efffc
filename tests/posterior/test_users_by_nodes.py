"""Users left out where observations have no closed form: nodes are where the integrand is, however
many rows a user has."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from dualview.behaviors.records import SampledEvidence
from dualview.posterior.prediction import left_out_users
from dualview.posterior.prediction.left_out_users import LeftOutRows, _nodes


def answers(q: int, n: int, seed: int) -> tuple[SampledEvidence, np.ndarray]:
    """ln p of yes-or-no answers of one user, and a grid-free twin's designs."""
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((n, q))
    truth = np.full(q, 1.2)
    signs = np.where(rng.random(n) < 1 / (1 + np.exp(-design @ truth)), 1.0, -1.0)

    def log_likelihood(user: int, draws: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        assert user == 0
        assert len(draws) == len(vectors)
        return np.asarray(log_expit(signs * (vectors @ design.T)).sum(axis=1))

    return SampledEvidence(log_likelihood), design


def by_nodes(evidence: SampledEvidence, means: np.ndarray, roots: np.ndarray) -> np.ndarray:
    rows = SimpleNamespace(
        _all=SimpleNamespace(latent=SimpleNamespace(roots=roots)),
        _kept=np.ones(len(means), dtype=bool),
        _draw=np.arange(len(means)),
    )
    return LeftOutRows._by_nodes(rows, evidence, means)  # type: ignore[arg-type]


def exactly(evidence: SampledEvidence, mean: np.ndarray, root: np.ndarray) -> float:
    """By a fine grid over ±8 standard deviations of the prior."""
    q = len(mean)
    side = np.linspace(-8.0, 8.0, 20_001 if q == 1 else 1201)
    u = np.stack(np.meshgrid(*[side] * q, indexing="ij"), axis=-1).reshape(-1, q)
    log_prior = -0.5 * (u**2).sum(axis=1) - 0.5 * q * np.log(2 * np.pi)
    values = np.concatenate(
        [
            evidence.log_likelihood(0, np.zeros(len(part), dtype=int), mean + part @ root.T)
            for part in np.array_split(u, 40)
        ]
    )
    return float(logsumexp(values + log_prior) + q * np.log(side[1] - side[0]))


@pytest.mark.parametrize(("q", "n"), [(1, 0), (1, 5), (1, 200), (1, 2000), (2, 3), (2, 100)])
def test_they_are_those_of_a_fine_grid(q: int, n: int) -> None:
    evidence, _ = answers(q, n, 10 * q + n)
    rng = np.random.default_rng(3)
    means = rng.standard_normal((3, q))
    roots = np.linalg.cholesky(
        np.eye(q) * np.array([2.0, 0.3, 1.0])[:, None, None] + 0.1 * np.ones((q, q))
    )
    expected = [exactly(evidence, *row) for row in zip(means, roots, strict=True)]
    np.testing.assert_allclose(by_nodes(evidence, means, roots), expected, atol=0.01)


def test_nodes_in_parts_are_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, _ = answers(2, 20, 4)
    means = np.random.default_rng(4).standard_normal((3, 2))
    roots = np.linalg.cholesky(np.array([[1.0, 0.4], [0.4, 2.0]]))[None].repeat(3, axis=0)
    whole = by_nodes(evidence, means, roots)
    for n_vectors in (1, 3 * 7):  # a node at a time; and parts of which the last is shorter
        monkeypatch.setattr(left_out_users, "_VECTORS", n_vectors)
        np.testing.assert_allclose(by_nodes(evidence, means, roots), whole, rtol=1e-13)


def test_nodes_of_the_prior_miss_the_peak() -> None:
    """What was done before: a mutant that the comparison with a grid rejects."""
    evidence, _ = answers(1, 200, 210)
    mean, root = np.array([0.0]), np.array([[1.5]])
    nodes, log_weights = _nodes(1)
    values = evidence.log_likelihood(0, np.zeros(len(nodes), dtype=int), mean + nodes @ root.T)
    wrong = logsumexp(values + log_weights)
    assert abs(wrong - exactly(evidence, mean, root)) > 0.05


@pytest.mark.parametrize("q", [3, 5])
def test_many_dimensions_agree_with_importance_sampling(q: int) -> None:
    evidence, _ = answers(q, 100, q)
    means, roots = np.zeros((1, q)), 1.5 * np.eye(q)[None]
    found = by_nodes(evidence, means, roots)[0]
    rng = np.random.default_rng(0)
    draws = 1.5 * rng.standard_normal((400_000, q))
    values = evidence.log_likelihood(0, np.zeros(len(draws), dtype=int), draws)
    expected = logsumexp(values) - np.log(len(draws))
    weights = np.exp(values - values.max())
    error = weights.std() / weights.mean() / np.sqrt(len(draws))
    assert abs(found - expected) < 4.5 * np.hypot(error, 0.02)


def test_observations_without_a_peak_have_nodes_all_the_same() -> None:
    """All answers yes, a hundred times; and nothing finite far away."""
    evidence = SampledEvidence(lambda _, __, x: 100 * log_expit(x[:, 0]))
    mean, root = np.array([[0.5]]), np.array([[[1.0]]])
    found = by_nodes(evidence, mean, root)[0]
    assert found == pytest.approx(exactly(evidence, mean[0], root[0]), abs=0.02)
    nowhere = SampledEvidence(lambda _, draws, __: np.full(len(draws), -np.inf))
    assert by_nodes(nowhere, np.zeros((1, 2)), np.eye(2)[None])[0] == -np.inf
    cliff = SampledEvidence(lambda _, __, x: np.where(x[:, 0] > 3.0, -np.inf, -(x[:, 0] ** 2)))
    assert by_nodes(cliff, mean, root)[0] == pytest.approx(
        exactly(cliff, mean[0], root[0]), abs=0.02
    )

"""Centralities, against linear algebra and slow searches."""

import time

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from dualview.forum.graph import closeness, pagerank, reply_graph


def drawn(n: int, n_edges: int, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    return reply_graph(
        rng.integers(n, size=n_edges),
        rng.integers(n, size=n_edges),
        rng.integers(1, 5, n_edges).astype(float),
        n,
    )


def test_no_replies_to_oneself_and_repeated_pairs_add_up() -> None:
    graph = reply_graph(
        np.array([0, 0, 1, 1]), np.array([1, 0, 0, 0]), np.array([2.0, 9.0, 1.0, 3.0]), 2
    )
    np.testing.assert_array_equal(graph.toarray(), [[0, 4], [2, 0]])


def test_pagerank_solves_its_equation() -> None:
    graph = drawn(30, 60)
    weights = graph.toarray()
    given = weights.sum(axis=0)
    assert (given == 0).any()
    flow = np.where(given > 0, weights / np.where(given > 0, given, 1), 1 / 30)
    wanted = np.linalg.solve(np.eye(30) - 0.85 * flow, np.full(30, 0.15))
    np.testing.assert_allclose(pagerank(graph), wanted, rtol=1e-6)
    np.testing.assert_allclose(pagerank(graph).mean(), 1.0)


def test_closeness_is_the_mean_inverse_distance() -> None:
    graph = drawn(40, 50)
    distance = shortest_path(graph, directed=False, unweighted=True)
    with np.errstate(divide="ignore"):
        inverse = np.where(distance > 0, 1 / distance, 0.0)
    np.testing.assert_allclose(
        closeness(np.random.default_rng(0), graph), inverse.sum(axis=1) / 39, rtol=1e-6
    )


def test_a_large_graph_is_measured_to_some_users() -> None:
    graph = drawn(2000, 8000)
    exact = shortest_path(graph, directed=False, unweighted=True)
    with np.errstate(divide="ignore"):
        inverse = np.where(exact > 0, 1 / exact, 0.0).sum(axis=1) / 1999
    found = closeness(np.random.default_rng(0), graph)
    assert np.corrcoef(found, inverse)[0, 1] > 0.9
    assert abs(found.mean() / inverse.mean() - 1) < 0.02


def test_a_million_edges_take_seconds() -> None:
    graph = drawn(50_000, 1_000_000)
    began = time.process_time()
    pagerank(graph)
    closeness(np.random.default_rng(0), graph)
    assert time.process_time() - began < 20

"""Users whose observations are their own: the table of what these say of clusters, and vectors given the clusters."""

import numpy as np
import pytest

import naive
from dualview.engines.gibbs import independent_users as apart
from dualview.numerics.streams import split, stream_of, stream_random
from engines.gibbs.test_assignment import Columns, Twin, precision
from yardsticks import python_of

Z = [0, 2, 1, 0, 3, 0, 1, 0, 4]
CASES = [(1, "cluster"), (3, "cluster"), (1, "alone"), (2, "alone")]


def columns(seed, n_latent, kind):
    """With a noise of each column, or the same in all."""
    case = Columns(seed, Z, 2, n_latent, kind="cluster")
    if kind == "alone":
        case.noises[:] = 1.3
        case.observations.set_noise(case.noises[case.z])
        case.terms = (*case.observations.terms(case.latent)[:8], np.empty(0), 1.0)
        case.noises = np.empty(0)
    return case


def tell(case, first=0, end=None, begin_column=0, end_column=None, kernel=apart.tell):
    span = begin_column, len(case.counts) if end_column is None else end_column
    kernel(case.table, first, end or len(Z), *span, case.counts, case.latent, *case.columns[2:], case.terms, case.noises)


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_the_table_is_the_naive_density_of_each_column(n_latent, kind):
    """Up to a number for each user, which the choice does not depend on."""
    for seed in range(4):
        case = columns(seed, n_latent, kind)
        twin = Twin(case)
        tell(case)
        used = np.flatnonzero(case.counts >= 0)
        wanted = np.array([[twin.log_density(u, c) for u in range(len(Z))] for c in used])
        np.testing.assert_allclose(case.table[used] - case.table[0], wanted - wanted[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_the_table_can_be_made_in_pieces(n_latent, kind):
    whole, pieces = (columns(1, n_latent, kind) for _ in range(2))
    tell(whole)
    middle = len(whole.counts) // 2
    for span in ((0, 4), (4, len(Z))):
        tell(pieces, *span, 0, middle)
        tell(pieces, *span, middle)
    np.testing.assert_array_equal(whole.table, pieces.table)


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_vectors_are_drawn_from_their_posterior_given_the_clusters(n_latent, kind):
    for seed in range(4):
        case = columns(seed, n_latent, kind)
        twin = Twin(case)
        moved = case.rng.integers(0, 5, len(Z))
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        for first, end in ((0, 5), (5, len(Z))):
            apart.draw_given(rng, first, end, moved, case.latent, *case.columns[2:], case.terms, case.noises)
        for u, k in enumerate(moved):
            prior = twin.latent_means[[k]], precision(twin.latent_factors[[k]])
            twin.latent[u] = naive.draw_normal(other, *twin.alone(u, k).posterior(*prior))
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        case.z = moved
        np.testing.assert_allclose(case.terms[4], case.observations.residual(case.latent), rtol=1e-9, atol=1e-10)
        if kind == "cluster":
            np.testing.assert_array_equal(case.terms[8], case.noises[moved])


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_compiled_pieces_are_those_of_python(n_latent, kind):
    cases = [columns(2, n_latent, kind) for _ in range(2)]
    for case, (told, drawn) in zip(
        cases, ((apart.tell, apart.draw_given), map(python_of, (apart.tell, apart.draw_given))), strict=True
    ):
        tell(case, kernel=told)
        drawn(np.random.default_rng(3), 0, len(Z), case.z, case.latent, *case.columns[2:], case.terms, case.noises)
    for name in ("table", "latent"):
        np.testing.assert_allclose(*(getattr(case, name) for case in cases), rtol=1e-11)


def test_a_stream_splits_into_others():
    stream = stream_of(np.random.default_rng(0))
    one, other = split(stream), split(stream)
    numbers = {stream_random(s) for s in (stream, one, other) for _ in range(100)}
    assert len(numbers) == 300

"""Users whose observations are their own: the table of what these say of clusters, and vectors
given the clusters."""

import numpy as np
import pytest

import naive
from dualview.engines.gibbs import blocks
from dualview.numerics.streams import split, stream_of, stream_random
from engines.gibbs.columns import Columns, Twin, Z, precision
from yardsticks import python_of

N_USERS = len(Z)
CASES = [(1, "cluster"), (3, "cluster"), (1, "alone"), (2, "alone")]


def columns(seed, n_latent, kind):
    """With a noise of each column, or the same in all."""
    case = Columns(seed, Z, 2, n_latent, kind="cluster")
    if kind == "alone":
        case.noises[:] = 1.3
        case.observations.set_noise(case.noises[case.z])
        case.terms = case.observations.terms(case.latent)._replace(noise=np.empty(0), noise_dof=1.0)
        case.noises = np.empty(0)
    return case


def tabulate(case, first=0, end=N_USERS, among=None, kernel=blocks.tabulate):
    """Add what users from first to end say about some columns, all if not told."""
    among = np.arange(len(case.counts)) if among is None else among
    kernel(case.log_likelihood, 0, first, end, among, case.state(tabulated=True))


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_the_table_is_the_naive_density_of_each_column(n_latent, kind):
    """Up to a number for each user, which the choice does not depend on."""
    for seed in range(4):
        case = columns(seed, n_latent, kind)
        twin = Twin(case)
        tabulate(case)
        used = np.flatnonzero(case.counts >= 0)
        wanted = np.array([[twin.log_density(u, c) for u in range(N_USERS)] for c in used])
        np.testing.assert_allclose(
            case.table[used] - case.table[0], wanted - wanted[0], rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_the_table_can_be_made_in_pieces(n_latent, kind):
    """Of users and of columns; a table of some users begins with the one at offset."""
    whole, pieces, late = (columns(1, n_latent, kind) for _ in range(3))
    tabulate(whole)
    middle = len(whole.counts) // 2
    for span in ((0, 4), (4, N_USERS)):
        tabulate(pieces, *span, np.arange(middle))
        tabulate(pieces, *span, np.arange(middle, len(whole.counts))[::-1].copy())
    np.testing.assert_array_equal(whole.table, pieces.table)
    table = late.log_likelihood[:, :, 4:].copy()
    blocks.tabulate(table, 4, 4, N_USERS, np.arange(len(late.counts)), late.state(tabulated=True))
    np.testing.assert_array_equal(whole.table[:, 4:], table[0])


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_vectors_are_drawn_from_their_posterior_given_the_clusters(n_latent, kind):
    for seed in range(4):
        case = columns(seed, n_latent, kind)
        twin = Twin(case)
        case.z = case.rng.integers(0, 5, N_USERS)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        for first, end in ((0, 5), (5, N_USERS)):
            blocks.draw_latents(rng, first, end, case.state(tabulated=True))
        for u, k in enumerate(case.z):
            prior = (
                twin.latent_components.means[[k]],
                precision(twin.latent_components.factors[[k]]),
            )
            twin.latent[u] = naive.draw_normal(other, *twin.alone(u, k).posterior(*prior))
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            case.terms.residual, case.observations.residual(case.latent), rtol=1e-9, atol=1e-10
        )
        if kind == "cluster":
            np.testing.assert_array_equal(case.terms.noise, case.noises[case.z])


@pytest.mark.parametrize(("n_latent", "kind"), CASES)
def test_compiled_pieces_are_those_of_python(n_latent, kind):
    kernels = blocks.tabulate, blocks.draw_latents
    cases = [columns(2, n_latent, kind) for _ in range(2)]
    for case, (told, drawn) in zip(cases, (kernels, map(python_of, kernels)), strict=True):
        tabulate(case, kernel=told)
        drawn(np.random.default_rng(3), 0, N_USERS, case.state(tabulated=True))
    for name in ("table", "latent"):
        np.testing.assert_allclose(*(getattr(case, name) for case in cases), rtol=1e-11)


def test_a_stream_splits_into_others():
    stream = stream_of(np.random.default_rng(0))
    one, other = split(stream), split(stream)
    numbers = {stream_random(s) for s in (stream, one, other) for _ in range(100)}
    assert len(numbers) == 300

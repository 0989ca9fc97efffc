"""Joint tests of the sampler with observations of one user each: regressions and choices, vectors
of three numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from checks import (
    LostChainsError,
    assert_joint,
    by_blocks,
    changed,
    gibbs_step,
    joint_tests,
    mutant_tests,
    mutate,
)
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods import cluster_noise as noise
from dualview.behaviors.likelihoods import logit_location
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.distributions import G
from dualview.engines.gibbs import blocks, engine
from dualview.engines.gibbs.moves import assignment
from dualview.model import Model, State
from dualview.numerics import polya_gamma
from dualview.numerics.slice_sampling import sampler
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import kind
from dualview.views.gaussian import scale as scales
from engines.gibbs.few_users import N_USERS, USER, linked, model
from rows import logit_rows, normal_rows


def panel(n_dims: int) -> Panel:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    return Panel.of(USER, design, np.zeros(len(USER)), N_USERS)


def regression(n_dims: int = 3, by_cluster: bool = False, noise_dof: float = 1.0) -> UserRows:
    return normal_rows(panel(n_dims), NoisePrior(1.0, noise_dof), by_cluster)


def choices(n_dims: int = 3, n_items: int = 2) -> UserRows:
    appeal = np.random.default_rng(8).integers(-1, 2, (len(USER), n_items)).astype(float)
    return logit_rows(panel(n_dims), sparse.csr_array(appeal), np.linspace(-0.5, 0.5, len(USER)))


MODELS = {
    "regressions, process": lambda: model(ChineseRestaurant(), regression()),
    "regressions, three clusters": lambda: model(FiniteDirichlet(3), regression(2), False),
    "regressions with an informative noise prior, process": lambda: model(
        ChineseRestaurant(), regression(2, noise_dof=6.0)
    ),
    "regressions, flat spread, process": lambda: replace(
        model(ChineseRestaurant(), regression(2)), spread_prior="flat"
    ),
    "regressions of one number, flat spread, one cluster": lambda: replace(
        model(OneCluster(), regression(1), False), spread_prior="flat"
    ),
    "noise by cluster, process": lambda: model(ChineseRestaurant(), regression(2, True)),
    "noise by cluster, one number, three clusters": lambda: model(
        FiniteDirichlet(3), regression(1, True), False
    ),
    "noise by cluster, one number, process": lambda: model(
        ChineseRestaurant(), regression(1, True), False
    ),
    "noise by cluster with an informative prior, process": lambda: model(
        ChineseRestaurant(), regression(1, True, 6.0), False
    ),
    "noise by cluster, pooled, process": lambda: model(
        ChineseRestaurant(), regression(2, True), pooled=True
    ),
    "noise by cluster, linked, three clusters": lambda: linked(
        FiniteDirichlet(3), regression(1, True)
    ),
    "choices, process": lambda: model(ChineseRestaurant(), choices()),
    "choices of one number, one cluster": lambda: model(OneCluster(), choices(1), False),
    "choices without items, three clusters": lambda: model(
        FiniteDirichlet(3), choices(2, 0), False
    ),
    "choices, pooled, process": lambda: model(ChineseRestaurant(), choices(2), pooled=True),
    "choices, linked, three clusters": lambda: linked(FiniteDirichlet(3), choices(2)),
    "choices, linked and pooled, one cluster": lambda: linked(
        OneCluster(), choices(1, 0), pooled=True
    ),
}


@pytest.mark.parametrize("name", ["regressions with an informative noise prior, process"])
def test_few_chains_leave_the_joint_prior_as_it_is(name: str) -> None:
    """With half the chains of the test below, and the same limit: standard errors are 1.4 times as
    large."""
    assert_joint(MODELS[name](), seed=0, n_chains=120, n_prior=2000)


def test_few_chains_of_choices_leave_the_joint_prior_as_it_is() -> None:
    """A quarter of the chains: standard errors are twice as large."""
    assert_joint(MODELS["choices, process"](), seed=0, n_chains=60, n_prior=1000)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, seeds=range(2))


def two_steps(rng: np.random.Generator, model: Model, state: State) -> State:
    """Two steps to a data set: an augmentation of the first may not count in the second."""
    return gibbs_step(rng, model, gibbs_step(rng, model, state))


test_two_steps_to_a_data_set = joint_tests(
    MODELS,
    ["choices, process", "regressions, process", "noise by cluster, process"],
    length=30,
    step=two_steps,
)


BY_BLOCKS = [
    "noise by cluster, one number, process",
    "regressions, process",
    "noise by cluster, linked, three clusters",
]
BY_BLOCKS += ["choices, process", "noise by cluster, process"]


# What users' observations say, clusters, then vectors.
test_sampler_by_blocks_leaves_the_joint_prior_as_it_is = joint_tests(
    MODELS, BY_BLOCKS, change=by_blocks
)


def noise_counts_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise's degrees of freedom from users, not from observations; by blocks, where the
    likelihood draws it itself."""
    by_blocks(monkeypatch)
    right = NoisePrior.law
    monkeypatch.setattr(
        NoisePrior, "law", lambda self, r: G(1.0 + N_USERS, right(self, r).inverse_scale)
    )


def noise_prior_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise's conditional as if its prior had one degree of freedom; by blocks."""
    by_blocks(monkeypatch)
    monkeypatch.setattr(
        NoisePrior,
        "law",
        lambda self, r: G(1.0 + len(r), 1.0 + float(r @ r)),  # noqa: ARG005
    )


def no_tilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """ω from PG(1, 0) whatever the log odds are."""
    draw = polya_gamma.draw_into
    monkeypatch.setattr(
        polya_gamma, "draw_into", lambda stream, tilts, out: draw(stream, 0.0 * tilts, out)
    )


def items_without_their_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The items' coefficients regressed on what is left after them."""
    right = UserRows._coefficients

    def wrong(self: UserRows, rng: Any, params: Any, terms: Any) -> Any:
        own = self.covariates @ params["coefficients"]
        return right(self, rng, params, terms._replace(residual=terms.residual - own))

    monkeypatch.setattr(UserRows, "_coefficients", wrong)


def noise_forgets_its_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's choice without the power of s_k that its observations bring."""
    by_blocks(monkeypatch, changed(noise.noise_gain, "n_observations * math.log(ratio)", "0.0"))


def noise_forgets_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's choice as if its noise had been 1."""
    by_blocks(
        monkeypatch,
        changed(assignment.weigh_noises, "state.noises[c] / terms.noise[u]", "state.noises[c]"),
    )


def new_clusters_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are added in a sweep weigh by features alone."""
    right = blocks.tabulate

    def wrong(table: Any, offset: Any, first: Any, end: Any, columns: Any, state: Any) -> None:
        if len(columns) == len(state.counts):  # those that there were
            right(table, offset, first, end, columns, state)

    by_blocks(monkeypatch, n_users=N_USERS - 1)
    monkeypatch.setattr(blocks, "tabulate", wrong)


def vectors_from_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors given the clusters that forget the observations."""
    deaf = mutate(
        kind.draw_user_latent,
        "evidence(mean, factor, ratio, message)",
        "evidence(mean, factor, 0.0, message)",
    )
    by_blocks(monkeypatch, changed(blocks.draw_latents, draw_user_latent=deaf))


def new_clusters_have_known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise of 1 in columns of nobody."""
    old = "draw_noise(rng, counts[c], misfits[c], terms.noise_dof)"
    by_blocks(monkeypatch, changed(noise.redraw_noises, old, f"{old} if counts[c] > 0.0 else 1.0"))


def clusters_noise_without_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The degrees of freedom of each cluster's noise without its observations."""
    law = mutate(noise.noise_law, "prior_dof + count", "prior_dof + 0.0 * count")
    wrong = mutate(noise.draw_noise, noise_law=law)
    by_blocks(monkeypatch, changed(noise.redraw_noises, draw_noise=wrong))


def location_with(monkeypatch: pytest.MonkeyPatch, density: Any) -> None:
    """The move of clusters with their users by slices of another density."""
    draw_step = mutate(logit_location.draw_step, _sample_step=sampler(density, reach=50))
    monkeypatch.setattr(
        logit_location, "draw_steps", mutate(logit_location.draw_steps, draw_step=draw_step)
    )


def location_under_a_wider_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters move as if R_0 were a quarter of what it is."""
    location_with(
        monkeypatch,
        mutate(logit_location.log_step_density, "total = -0.5 * (", "total = -0.125 * ("),
    )


def location_takes_all_for_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters move as if every answer had been yes."""
    right = logit_location.draw_steps
    monkeypatch.setattr(
        logit_location,
        "draw_steps",
        lambda rng, where, told: right(rng, where, told._replace(signs=0.0 * told.signs + 1.0)),
    )


def location_leaves_users_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters' means move, their users' vectors do not."""
    right = engine.relocated
    monkeypatch.setattr(
        engine,
        "relocated",
        lambda rng, m, state: replace(right(rng, m, state), latent=state.latent),
    )


def published_prior_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """(C4) with the paper's degrees of freedom."""
    by_blocks(
        monkeypatch,
        changed(gaussian.base_precision_law, "n_dims - 1 + hyperprior.of_means", "n_dims"),
    )


def published_prior_of_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """β on the paper's support."""
    by_blocks(
        monkeypatch,
        changed(
            scales.draw_scales, "least, n_dims = hyperprior.least_of_vectors", "least, n_dims = 0"
        ),
    )


def published_prior_of_spreads(monkeypatch: pytest.MonkeyPatch) -> None:
    """(C5) and the size of W_0 alone, with the paper's degrees of freedom."""
    laws = (gaussian.base_covariance_law, scales.draw_scales)
    by_blocks(
        monkeypatch, *(changed(law, "n_dims - 1 + hyperprior.of_spreads", "n_dims") for law in laws)
    )


def published_scale_with_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of W_0 together with latent vectors, with the paper's degrees of freedom."""
    by_blocks(
        monkeypatch,
        changed(
            kind.rescale, "latent.shape[1] - 1 + view.hyperprior.of_spreads", "latent.shape[1]"
        ),
    )


MUTANTS = {
    "noise-forgets-its-power": (noise_forgets_its_power, "noise by cluster, one number, process"),
    "noise-forgets-where-it-was": (
        noise_forgets_where_it_was,
        "noise by cluster, one number, process",
    ),
    "new-clusters-say-nothing": (new_clusters_say_nothing, "regressions, process"),
    "vectors-from-the-prior": (vectors_from_the_prior, "regressions, three clusters"),
    "new-clusters-have-known-noise": (
        new_clusters_have_known_noise,
        "noise by cluster, one number, process",
    ),
    "clusters-noise-without-counts": (
        clusters_noise_without_counts,
        "noise by cluster, one number, process",
    ),
    "noise-counts-users": (noise_counts_users, "regressions, three clusters"),
    "noise-prior-of-one": (
        noise_prior_of_one,
        "regressions with an informative noise prior, process",
    ),
    "no-tilt": (no_tilt, "choices of one number, one cluster"),
    "location-under-a-wider-prior": (
        location_under_a_wider_prior,
        "choices of one number, one cluster",
    ),
    "location-takes-all-for-yes": (
        location_takes_all_for_yes,
        "choices without items, three clusters",
    ),
    "location-leaves-users-behind": (
        location_leaves_users_behind,
        "choices of one number, one cluster",
    ),
    "published-prior-of-means": (published_prior_of_means, "choices without items, three clusters"),
    "published-prior-of-tails": (published_prior_of_tails, "choices without items, three clusters"),
    "published-prior-of-spreads": (
        published_prior_of_spreads,
        "regressions of one number, flat spread, one cluster",
    ),
    "published-scale-with-vectors": (
        published_scale_with_vectors,
        "regressions of one number, flat spread, one cluster",
    ),
    "items-without-their-own-part": (
        items_without_their_own_part,
        "choices of one number, one cluster",
    ),
}


RUN_AWAY = {
    "no-tilt",
    "location-takes-all-for-yes",
    "location-leaves-users-behind",
}  # odds get ever larger, out of range

OWN: dict[str, Any] = {
    mutant: {"ends": (LostChainsError, RuntimeWarning)} for mutant in RUN_AWAY
} | {
    "location-takes-all-for-yes": {"n_chains": 500}  # 250 do not tell
}


test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, own=OWN)

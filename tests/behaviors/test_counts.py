"""CountOutcomes: fits of both families, exposures, predictions, scores, checks, files, long tables,
the command line's reading, and refusals."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nbinom, poisson

import dualview as dv
from dualview.behaviors.counts import CountOutcomes
from dualview.errors import InputError

N_USERS, N_EACH = 16, 6
GIBBS = dv.Gibbs(n_warmup=80)


class World:
    """Two kinds of users, of whom one writes four times as much; days and a covariate of each
    row."""

    def __init__(self, overdispersed: bool) -> None:
        rng = np.random.default_rng(3)
        self.user = np.repeat(np.arange(N_USERS), N_EACH)
        self.busy = np.arange(N_USERS) % 2
        self.X = np.where(self.busy, 3.0, -3.0)[:, None] + rng.normal(size=(N_USERS, 1))
        self.x, self.days = rng.normal(size=len(self.user)), rng.uniform(0.5, 2.0, len(self.user))
        self.level = np.where(self.busy, 2.0, 0.6)
        rates = self.days * np.exp(self.level[self.user] + 0.3 * self.x)
        spread = rng.gamma(1.5, 1.0 / 1.5, len(rates)) if overdispersed else 1.0
        self.rates, self.counts = rates, rng.poisson(rates * spread)
        self.item = rng.integers(0, 3, len(self.user))

    def behavior(self, outcome: bool = True, **options: Any) -> CountOutcomes:
        return dv.CountOutcomes(
            self.user,
            pd.DataFrame({"x": self.x}),
            self.counts if outcome else None,
            exposure=self.days,
            intercept=True,
            **options,
        )


@functools.cache
def fitted(family: Any, overdispersed: bool = True) -> tuple[World, dv.DualViewMixture]:
    world = World(overdispersed)
    model = dv.DualViewMixture(engine=GIBBS, n_draws=80, n_chains=2)
    return world, model.fit(world.X, world.behavior(family=family))


@pytest.mark.parametrize("family", ["negative binomial", "poisson"])
def test_rates_are_found_and_predicted(family: Any, tmp_path: Path) -> None:
    world, model = fitted(family)
    assert np.corrcoef(model.latent_[:, 0], world.level)[0, 1] > 0.85
    prediction = model.predict_outcome(world.behavior(False, family=family))
    assert np.corrcoef(prediction.mean, world.rates)[0, 1] > 0.85
    interval = prediction.interval(0.9)
    inside = (interval[:, 0] <= world.counts) & (world.counts <= interval[:, 1])
    assert inside.mean() > (0.8 if family != "poisson" else 0.6)
    new = dv.CountOutcomes(
        [N_USERS] * 2,
        pd.DataFrame({"x": [0.0, 0.0]}),
        exposure=[1.0, 2.0],
        family=family,
        intercept=True,
        n_users=N_USERS + 1,
    )
    quiet, active = (model.predict_outcome(new, X_new=[[x]]) for x in (-3.0, 3.0))
    assert active.mean[0] > 2.0 * quiet.mean[0]
    np.testing.assert_allclose(active.mean[1], 2.0 * active.mean[0], rtol=1e-6)
    model.posterior_.save(tmp_path / "run.nc")
    again = dv.load(tmp_path / "run.nc")
    assert again.behavior.family_name == family


@pytest.mark.parametrize("family", ["negative binomial", "poisson"])
def test_both_engines_find_the_same_vectors(family: Any) -> None:
    world, chains = fitted(family)
    fast = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=60)
    fast.fit(world.X, world.behavior(family=family))
    spread = chains.posterior_.flat("latent").std(axis=0)
    away = abs(fast.latent_ - chains.latent_) / spread
    assert away.mean() < 0.35
    assert away.max() < 1.5
    prediction = fast.predict_outcome(world.behavior(False, family=family))
    assert np.corrcoef(prediction.mean, world.rates)[0, 1] > 0.85
    assert len(list(fast.check(refit=False)))
    if family != "poisson":
        logs = [np.log(own.posterior_.flat("dispersion")) for own in (chains, fast)]
        assert abs(logs[0].mean() - logs[1].mean()) < logs[0].std()


@pytest.mark.parametrize("family", ["negative binomial", "poisson"])
def test_a_few_counts_tell_of_a_new_user(family: Any) -> None:
    _, model = fitted(family)
    seen = dv.CountOutcomes(
        [0] * 3, pd.DataFrame({"x": [0.0] * 3}), [12, 10, 14], family=family, intercept=True
    )
    informed = model.predict_latent(np.array([[3.0]]), seen).mean[0, 0]
    assert informed > model.predict_latent(np.array([[3.0]])).mean[0, 0]


@pytest.mark.usefixtures("few_replicates")
def test_the_checks_advise_between_the_families() -> None:
    overdispersed = fitted("poisson")[1].check(refit=False)
    spread = overdispersed["outcomes: spread"]
    assert spread.verdict != "fine"
    assert 'family="negative binomial"' in spread.advice
    varied = fitted("negative binomial")[1].check(refit=False)
    assert varied["outcomes: spread"].verdict == "fine"
    plain = fitted("negative binomial", False)[1].check(refit=False)["outcomes: dispersion"]
    assert plain.verdict == "fine"
    assert varied["outcomes: dispersion"].value > plain.value


@pytest.mark.parametrize("by", ["observation", pytest.param("user", marks=pytest.mark.slow)])
def test_scores_leave_out_observations_and_users(by: str) -> None:
    (_, negative), (_, plain) = fitted("negative binomial"), fitted("poisson")
    scores = dv.compare({"negative binomial": negative, "poisson": plain}, by=by)
    assert scores["elpd"]["negative binomial"] > scores["elpd"]["poisson"]


@pytest.mark.parametrize("family", ["negative binomial", "poisson"])
def test_common_columns_groups_and_pooling(family: Any) -> None:
    world = World(True)
    options = {
        "common": pd.DataFrame({"c": np.random.default_rng(1).normal(size=len(world.user))}),
        "groups": {"item": world.item},
        "family": family,
    }
    model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=20), n_draws=20, n_chains=1)
    model.set_params(pooling="cluster").fit(world.X, world.behavior(**options))
    post = model.posterior_
    labels, latent = post.flat("z"), post.flat("latent")
    for z, vectors in zip(labels, latent, strict=True):
        for cluster in np.unique(z):
            np.testing.assert_allclose(np.ptp(vectors[z == cluster], axis=0), 0.0, atol=1e-10)
    assert np.isfinite(post["coefficients"]).all()
    assert np.isfinite(post["group_sd"]).all()
    assert len(np.unique(post.flat("coefficients"))) > 10


def test_densities_are_those_of_the_families() -> None:
    world = World(True)
    rows = slice(0, world.user.size)
    for family, r in (("poisson", None), ("negative binomial", 2.0)):
        behavior = world.behavior(family=family)
        outcome = behavior.family(behavior, {"dispersion": np.array([2.0])}, 1)
        found = outcome.log_density(behavior.observed, np.full((1, 96), 0.7), rows)[0]
        mean = np.exp(0.7)
        wanted = (
            poisson.logpmf(world.counts, mean)
            if r is None
            else nbinom.logpmf(world.counts, r, r / (r + mean))
        )
        np.testing.assert_allclose(found, wanted)


def test_the_prior_of_an_intercept_is_about_the_rate_of_all() -> None:
    behavior = dv.CountOutcomes(
        [0, 0, 1], [[0.0], [1.0], [3.0]], [4, 0, 8], exposure=[1.0, 1.0, 2.0], intercept=True
    )
    units, _ = behavior.prepare(None)
    np.testing.assert_allclose(units.prior[0], [np.log(12.5 / 4.0), 0.0])


def test_long_tables_have_exposures_and_families() -> None:
    world = World(True)
    table = pd.DataFrame({"who": world.user, "n": world.counts, "d": world.days, "x": world.x})
    _, behavior = dv.from_long(table, user="who", outcome="n", by="x", exposure="d")
    np.testing.assert_allclose(behavior.effects.offset, np.log(world.days))
    assert behavior.family_name == "negative binomial"
    assert "it has exposure" in repr(behavior)
    _, plain = dv.from_long(table, user="who", outcome="n", family="poisson")
    assert plain.family_name == "poisson"
    with pytest.raises(InputError, match="exposure= is for family="):
        dv.from_long(table, user="who", outcome="n", family="binary", exposure="d")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "fractions": ({"outcome": [1.5, 2.0]}, "whole numbers from 0 on; got 1.5 in row 0"),
    "negative": ({"outcome": [1.0, -2.0]}, "got -2 in row 1"),
    "too few": ({"outcome": [1.0]}, "a value per row of design, 2; got 1"),
    "no exposure": ({"exposure": [1.0, 0.0]}, "finite numbers above 0; got 0 in row 1"),
    "one exposure": ({"exposure": [1.0]}, "exposure must have a value per row of design, 2"),
    "a family of others": ({"family": "gamma"}, "family must be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_count_is_refused(case: str) -> None:
    given, message = WRONG[case]
    options = {"outcome": [3, 4], **given}
    with pytest.raises(InputError, match=message):
        dv.CountOutcomes([0, 1], [[1.0], [2.0]], **options)


def test_new_counts_are_added() -> None:
    first = dv.CountOutcomes([0, 1], [[1.0], [2.0]], [3, 4], exposure=[1.0, 2.0])
    more = dv.CountOutcomes([1, 2], [[1.0], [1.0]], [0, 5], exposure=[4.0, 1.0], n_users=3)
    both = first.extended(more, 1)
    np.testing.assert_array_equal(both.observed, [3, 4, 0, 5])
    np.testing.assert_allclose(both.effects.offset, np.log([1.0, 2.0, 4.0, 1.0]))

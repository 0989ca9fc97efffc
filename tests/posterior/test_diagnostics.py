"""Convergence diagnostics against known autocorrelation and against ArviZ."""

from types import SimpleNamespace

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dualview as dv
from dualview.errors import AbsentError, InputError
from dualview.posterior import diagnostics
from dualview.posterior.diagnostics.scalars import (
    Group,
    anchor_pairs,
    doubtful_scalars,
    group_of,
    scalars,
)
from dualview.posterior.draws.approximated import ApproximationFacts, StartFacts
from dualview.posterior.summaries import summarize
from dualview.runs.summary_file import text_for_commands
from dualview.words.report import verdict_headline


def autoregressive(seed: int, rho: float, shape: tuple[int, int] = (4, 4000)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape) * np.sqrt(1 - rho**2)
    values = np.empty(shape)
    values[:, 0] = rng.standard_normal(shape[0])
    for t in range(1, shape[1]):
        values[:, t] = rho * values[:, t - 1] + noise[:, t]
    return values


def test_table_of_stationary_chains() -> None:
    rho = 0.8
    row = diagnostics.table({"x": autoregressive(0, rho)}).loc["x"]
    assert row["r_hat"] < 1.01
    assert row["autocorrelation_time"] == pytest.approx((1 + rho) / (1 - rho), rel=0.2)
    assert abs(row["geweke_z"]) < 4.5
    assert row["sd"] == pytest.approx(1.0, rel=0.1)


def test_table_agrees_with_arviz() -> None:
    values = autoregressive(1, 0.5)
    row = diagnostics.table({"x": values}).loc["x"]
    dataset = xr.Dataset({"x": (("chain", "draw"), values)})
    assert row["r_hat"] == pytest.approx(float(arviz_stats.rhat(dataset)["x"]))
    assert row["ess_bulk"] == pytest.approx(float(arviz_stats.ess(dataset, method="bulk")["x"]))
    assert row["ess_tail"] == pytest.approx(
        float(arviz_stats.ess(dataset, method="tail", prob=(0.05, 0.95))["x"])
    )


def test_shifted_chain_is_noticed() -> None:
    values = autoregressive(2, 0.2, (4, 500))
    values[0] += 2.0
    table = diagnostics.table({"good": autoregressive(3, 0.2, (4, 2000))[:, :500], "bad": values})
    converged, text = diagnostics.verdict(table, 4)
    assert not converged
    assert text.startswith("Not converged: run longer (n_warmup, n_draws). Held up most by bad (")
    assert "good" not in text
    assert "at least four chains" in diagnostics.verdict(table, 2)[1]


@pytest.mark.parametrize(
    ("times", "seconds", "said"),
    [
        (3.2, 380.0, "run about 3.2 times as long (max_draws), about 6 minutes more"),
        (3.2, 38.2, "run about 3.2 times as long (max_draws), about 38 seconds more"),
        (3.2, 12600.0, "run about 3.2 times as long (max_draws), about 3.5 hours more"),
        (3.2, None, "run about 3.2 times as long (max_draws)"),
        (1.02, None, "run about 1.1 times as long (max_draws)"),
        (0.9, None, "run longer (max_draws)"),
        (900.0, None, "run longer (max_draws)"),
        (np.inf, None, "run longer (max_draws)"),
    ],
)
def test_a_verdict_says_how_much_longer(times: float, seconds: float | None, said: str) -> None:
    assert diagnostics.longer_text(times, "max_draws", seconds) == said


def test_drift_gives_a_large_geweke_score() -> None:
    values = autoregressive(4, 0.2, (2, 1000))
    values[:, :100] += 3.0
    assert abs(diagnostics.geweke(values)) > 6


def test_geweke_score_is_standard_normal_for_stationary_chains() -> None:
    scores = np.array(
        [diagnostics.geweke(autoregressive(seed, 0.5, (1, 2000))) for seed in range(60)]
    )
    assert abs(scores.mean()) < 4.5 / np.sqrt(60)
    assert 0.7 < scores.std() < 1.4


def test_converged_run_gets_a_plain_verdict() -> None:
    converged, text = diagnostics.verdict(diagnostics.table({"x": autoregressive(5, 0.1)}), 4)
    assert converged
    assert text.startswith("Converged")


def test_one_chain_and_few_draws_are_named() -> None:
    _, text = diagnostics.verdict(diagnostics.table({"x": autoregressive(5, 0.1)[:1]}), 1)
    assert "One chain cannot show" in text
    _, text = diagnostics.verdict(diagnostics.table({"x": np.zeros((2, 3)) + np.arange(3)}), 2)
    assert "Too few draws" in text


@pytest.mark.parametrize("n_draws", [20, 100, 159, 160, 161, 400])
def test_too_few_draws_are_those_that_no_chain_could_do_with(n_draws: int) -> None:
    """Draws that go up and down by turns have the largest effective size there is."""
    turns = np.tile([1.0, -1.0], n_draws)[:n_draws] + 1e-3 * autoregressive(5, 0.0, (1, n_draws))
    best = float(diagnostics.table({"x": turns}, brief=True)["ess_bulk"].iloc[0])
    assert best == pytest.approx(n_draws * np.log10(n_draws), rel=0.02)
    assert diagnostics.are_too_few(n_draws) == (n_draws * np.log10(n_draws) < 400)
    assert diagnostics.are_too_few(n_draws) == (n_draws < 178)


@pytest.mark.parametrize(
    ("r_hat", "said"), [(1.0123, "1.012,"), (1.234, "1.23,"), (2.3e15, "above 100,")]
)
def test_an_r_hat_is_told_with_the_digits_that_mean_something(r_hat: float, said: str) -> None:
    table = diagnostics.table({"x": autoregressive(5, 0.1)})
    _, text = diagnostics.verdict(table.assign(r_hat=r_hat), 4)
    assert f"Held up most by x (R-hat {said} wanted below 1.01; " in text


def test_constant_scalar_is_no_trouble() -> None:
    row = diagnostics.table({"k": np.full((4, 100), 5.0)}).loc["k"]
    assert row["r_hat"] == 1.0
    assert row["ess_bulk"] == 400


@pytest.mark.parametrize(("n", "published"), [(15_000, 14.0)])
def test_paper_sum_of_white_noise(n: int, published: float) -> None:
    """White noise has τ = 1; the sum of absolute values gives about 14 at 15,000 draws."""
    tau, noise = diagnostics.paper_autocorrelation_time(np.random.default_rng(0).standard_normal(n))
    assert noise == pytest.approx(published, rel=0.05)
    assert tau == pytest.approx(noise, rel=0.1)


def test_paper_sum_of_an_autoregression() -> None:
    rho = 0.9
    tau, noise = diagnostics.paper_autocorrelation_time(autoregressive(6, rho, (1, 40_000))[0])
    true = (1 + rho) / (1 - rho)
    assert true < tau < true + 5 * noise


def test_paper_sum_refuses_what_it_cannot_say() -> None:
    with pytest.raises(InputError, match="at least 2000 draws"):
        diagnostics.paper_autocorrelation_time(np.zeros(100))
    with pytest.raises(InputError, match="constant chain"):
        diagnostics.paper_autocorrelation_time(np.zeros(3000))


def test_verdict_looks_at_the_pairs_that_are_least_certain() -> None:
    """Six users: 0 and 1 always together, 2 and 5 half the time, 3 and 4 one time in ten; everybody
    else never. They are called by their ids, which may be numbers too."""
    rng = np.random.default_rng(0)
    z = np.tile([0, 0, 1, 2, 3, 4], (2000, 1))
    half, tenth = rng.random(2000) < 0.5, rng.random(2000) < 0.1
    z[half, 5] = 1
    z[tenth, 4] = 2
    pairs = anchor_pairs(z, n_pairs=2)
    assert pairs == [(2, 5), (3, 4)]
    names = ["users 9 and 1 together", "users c and 4 together"]
    post = Draws(names=["z"], summary=None, z=z.reshape(2, 1000, 6), user_ids=[*"5a9c41"])
    found = scalars(post, 0)  # type: ignore[arg-type]
    for name, together in zip(names, (half, tenth), strict=True):
        np.testing.assert_array_equal(found[name].ravel(), together)


class Draws(SimpleNamespace):
    """A posterior of partitions alone."""

    def __getitem__(self, name: str) -> np.ndarray:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self.names


def test_no_user_is_in_two_of_the_pairs() -> None:
    """The next pair after (0, 1) is not one of its users' again, however uncertain."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 2, (1000, 3))
    z = np.column_stack([z, np.full(1000, 7), np.where(rng.random(1000) < 0.05, 7, 8)])
    pairs = anchor_pairs(z)
    assert sorted(sum(pairs, ())) == sorted(set(sum(pairs, ())))
    assert (3, 4) in pairs


def test_a_verdict_begins_with_what_needs_the_longest_chains() -> None:
    """R-hat 1.08 asks for eight times as long, 20 effective draws for twenty times."""
    rows = {"a": (1.08, 300), "b": (1.02, 20), "c": (1.0, 900), "n_clusters": (1.0, 399)}
    table = pd.DataFrame(
        [(0.0, 1.0, r_hat, size, size) for r_hat, size in rows.values()],
        index=list(rows),
        columns=["mean", "sd", "r_hat", "ess_bulk", "ess_tail"],
    )
    said = (
        "Not converged: run longer (n_warmup, n_draws). Held up most by b (R-hat 1.020, wanted "
        "below 1.01; 20 effective draws, wanted 400), then by a, the number of clusters. Look at "
        "plots.traces."
    )
    assert diagnostics.verdict(table, 4) == (False, said)
    assert diagnostics.status(table) == (False, 1.08, 20.0, 20.0, "b")


N_USERS, N_DRAWS = 30, 1000


def posterior(
    seed: int = 0,
    *,
    latent: bool = True,
    n_chains: int = 4,
    n_clusters: int = 0,
    slow: bool = True,
    n_draws: int = N_DRAWS,
) -> dv.Posterior:
    """Draws of three clusters of ten users, of whom some change theirs now and then, with chains
    that are independent draws, but for the number of clusters where it is slow."""
    rng = np.random.default_rng(seed)
    shape = (n_chains, n_draws)
    z = np.tile(np.arange(N_USERS) % 3, (*shape, 1))
    for user in (4, 6, 8, 10, 13, 17, 22, 24):
        away = rng.random(shape) < 0.25
        z[..., user] = np.where(away, (z[..., user] + 1) % 3, z[..., user])
    counts = 5 + np.round(2 * autoregressive(seed, 0.995 if slow else 0.0, shape))
    variables = {
        "z": (("chain", "draw", "user"), z),
        "n_clusters": (("chain", "draw"), counts),
        "log_joint": (("chain", "draw"), rng.standard_normal(shape)),
    }
    if latent:
        drawn = rng.standard_normal((*shape, N_USERS))
        variables["latent"] = (("chain", "draw", "user"), drawn)
    draws = xr.Dataset(variables, {"user": np.arange(N_USERS)})
    tree = xr.DataTree.from_dict({"posterior": draws})
    tree.attrs["n_clusters"] = n_clusters
    return dv.Posterior(tree)


def test_a_verdict_says_what_has_settled_and_names_what_has_not() -> None:
    post = posterior()
    assert post.settled == ["predictions", "roles"]
    begin, rest = post.verdict().split(" Only ")
    said = (
        "Roles and predictions for the users of the fit have settled: longer chains would hardly "
        "change them."
    )
    assert begin.startswith("Not converged: run ")
    assert begin.endswith(f". {said}")
    assert rest.startswith("the number of clusters has not settled (R-hat 1.")
    settled = "have settled: R-hat below 1.01 and at least 400 effective draws of everything"
    assert post.verdict("predictions").startswith(f"Predictions for the users of the fit {settled}")
    assert post.verdict("roles").startswith(f"Roles {settled}")
    slow = post.verdict("parameters")
    assert slow.startswith("Parameters of the model have not all settled: run ")
    assert "Held up most by the number of clusters (R-hat 1." in slow
    assert verdict_headline(False, False, said) == f"{said} Treat the rest as provisional."
    assert said in " ".join(text_for_commands(summarize(post)).split())


def test_what_has_not_settled_is_not_said_to_have() -> None:
    post = posterior()
    post["latent"][0, :, 0] += 1.0  # one of those that every verdict looks at
    post["z"][0, :, 3] = 1
    assert post.settled == []
    assert "settled" not in post.verdict()
    assert "Held up most by " in post.verdict()
    assert "latent[0]" in post.verdict()
    assert "treat roles" in verdict_headline(False, False, "")


def test_predictions_settle_when_those_of_every_user_have() -> None:
    """The verdict on everything looks at six users, that on predictions at those who differ
    most."""
    post = posterior(slow=False)
    assert post.converged
    assert post.settled == ["predictions", "roles", "parameters"]
    assert "latent[19]" not in post._few_scalars
    post = posterior(slow=False)
    post["latent"][1, :500, 19] += 1.0
    assert post.converged
    assert post.verdict() == posterior(slow=False).verdict()
    assert post.settled == ["roles", "parameters"]
    said = post.verdict("predictions")
    assert said.startswith("Predictions for the users of the fit have not all settled: run ")
    assert "Held up most by latent[19] (R-hat 1." in said
    assert said.count("latent[") == 1


def test_roles_settle_when_pairs_of_all_chains_agree() -> None:
    """Four pairs of users are less certain than that on which the chains disagree."""
    post = posterior(slow=False)
    post["z"][0, :240, 29] = 0
    pair = next(name for name in doubtful_scalars(post, "roles") if "29" in name)
    assert pair not in post._few_scalars
    assert post.converged
    assert "roles" not in post.settled
    called = pair.replace(" together", " are together")
    assert f"Held up most by whether {called} (R-hat " in post.verdict("roles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dv.Posterior, "chain_distance", lambda _: 0.2)
        assert "own partitions differ (mean distance 0.20)" in post.verdict("roles")
        assert "own partitions differ" not in post.verdict("predictions")


def test_roles_settle_where_many_partitions_are_likely() -> None:
    """Chains of independent partitions have converged by construction; the estimates of any two
    are apart all the same, however long they are."""
    post = posterior(slow=False)
    drawn = np.random.default_rng(0).integers(3, size=post["z"].shape)
    post["z"][:] = np.where(np.arange(N_USERS) < 15, drawn, post["z"])
    distance = post.chain_distance()
    assert distance is not None
    assert distance > 0.1
    assert "roles" in post.settled
    assert post.verdict("roles").startswith("Roles have settled")


def test_pairs_that_are_hardly_ever_together_do_not_keep_roles_from_settling() -> None:
    """One of four chains has them together for a tenth of its draws, at a stretch."""
    post = posterior(slow=False)
    post["z"][0, :100, 29] = 9
    post["z"][0, :100, 28] = 9
    assert "users 28 and 29 together" not in doubtful_scalars(post, "roles")
    assert post.converged
    assert "roles" in post.settled


def test_partitions_that_never_change_have_settled() -> None:
    post = posterior()
    post["z"][:] = np.arange(N_USERS) % 3
    assert not any(name.startswith("users") for name in post.scalars())
    assert post.settled == ["predictions", "roles"]


def test_nothing_is_said_to_have_settled_by_one_chain_or_few_draws() -> None:
    one = posterior(n_chains=1, slow=False, n_draws=4000)
    assert one.settled == []
    assert one.verdict("roles").startswith("Roles have not all settled: run longer (")
    assert "One chain cannot show" in one.verdict("predictions")
    assert "have settled" not in one.verdict()
    few = posterior(n_draws=20)
    assert few.settled == []
    assert few.verdict("predictions") == few.verdict() == diagnostics.TOO_FEW


def test_what_a_fit_does_not_have_cannot_be_asked_of() -> None:
    with pytest.raises(InputError, match=r"of must be .* or None for all; got 'clusters'"):
        posterior().verdict("clusters")  # type: ignore[arg-type]
    with pytest.raises(AbsentError, match="no predictions: it has neither a behavior nor cells"):
        posterior(latent=False).verdict("predictions")
    assert posterior(latent=False).settled == ["roles"]
    with pytest.raises(AbsentError, match="no roles: all users are in one cluster"):
        posterior(n_clusters=1).verdict("roles")
    approximated = posterior()
    facts = ApproximationFacts([StartFacts(1.0, 3, 20, True, 1.0)] * 2, 1, 0.3)
    approximated.tree.attrs["approximation"] = facts.to_json()
    assert approximated.settled == []
    with pytest.raises(InputError, match="judged as a whole: leave of out"):
        approximated.verdict("roles")


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("latent[3, a.b]", "predictions"),
        ("mean latent", "predictions"),
        ("mean log noise_precision", "predictions"),
        ("bdi.coefficients[0]", "predictions"),
        ("features.cells[7]", "predictions"),
        ("a parameter of a new family", "predictions"),
        ("users 3 and 7 together", "roles"),
        ("users 3 and 7 act alike", "roles"),
        ("share of users who agree by looks", "roles"),
        ("n_clusters", "parameters"),
        ("log alpha", "parameters"),
        ("log behavior.base_covariance[1]", "parameters"),
        ("log bdi.typical_noise_precision", "parameters"),
        ("categories.concentrations[0]", "parameters"),
        ("log group_sd[0]", "parameters"),
    ],
)
def test_scalars_are_of_groups(name: str, of: Group) -> None:
    assert group_of(name) == of


def test_more_scalars_are_of_thinned_draws() -> None:
    post = posterior(n_draws=6000, slow=False)
    for of in ("predictions", "roles"):
        found = doubtful_scalars(post, of)
        assert found
        assert {values.shape for values in found.values()} == {(4, 1000)}
        full = post.scalars(N_USERS)
        for name in found.keys() & full.keys():
            np.testing.assert_array_equal(found[name], full[name][:, ::6])
    assert len(doubtful_scalars(post, "predictions")) == 20

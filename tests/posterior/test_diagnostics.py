"""Convergence diagnostics against known autocorrelation and against ArviZ."""

from types import SimpleNamespace

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from dualview.errors import InputError
from dualview.posterior import diagnostics
from dualview.posterior.diagnostics.scalars import anchor_pairs, scalars


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
    assert "disagree on bad" in text
    assert "good" not in text.split("disagree on")[1].split("(")[0]
    assert text.startswith("Not converged: run longer (n_warmup, n_draws). The chains disagree")
    assert "at least four chains" in diagnostics.verdict(table, 2)[1]


@pytest.mark.parametrize(
    ("times", "seconds", "said"),
    [
        (3.2, 380.0, "run about 3.2 times as long (max_draws), about 6 minutes more"),
        (3.2, 38.2, "run about 3.2 times as long (max_draws), about 38 seconds more"),
        (3.2, 12600.0, "run about 3.2 times as long (max_draws), about 3.5 hours more"),
        (3.2, None, "run about 3.2 times as long (max_draws)"),
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
    assert f"largest R-hat {said} wanted below 1.01" in text


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

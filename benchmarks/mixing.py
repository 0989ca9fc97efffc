"""Effective samples per CPU second against a plain compiled sampler, on the paper's scenarios, in
one run.

The plain sampler (``benchmarks.plain``) is the paper's, transcribed into Numba. Compared is the
least effective sample size per second over everything that does not depend on how clusters are
numbered: α, clusters, noise, mean and single latent coefficients, pairs of users being together,
and μ_0, R_0, W_0, β of both views. Both start from the same labels; the first tenth of each chain
is left out of the samples and not out of the time.
"""

import time
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import dualview as dv
from benchmarks import peers, plain
from benchmarks.paste import as_table
from dualview.chains.chain import Chain
from dualview.chains.schedule import FixedLength
from dualview.engines.gibbs import GibbsEngine
from dualview.model import Model
from dualview.partitions.choice import partition_prior
from dualview.posterior.diagnostics.scalars import anchor_pairs
from dualview.units import Whitening

Draws = dict[str, np.ndarray]
SCENARIOS = ("agreement", "disagreement", "iris")


def problem(scenario: str, n_users: int = 50, n_threads: int = 100, seed: int = 0) -> Model:
    """A scenario of the paper as a dual model with an inferred number of clusters, in working
    units."""
    forum = getattr(dv.datasets, scenario)(n_users, n_threads, seed=seed)
    features = np.ascontiguousarray(Whitening.of_data(forum.features).to_working(forum.features))
    likelihood = dv.SharedOutcome(
        forum.participation, forum.outcome, noise_variance="paper"
    ).prepare(None)[1]
    return Model(partition_prior(None), features, likelihood, n_users)


def own(model: Model, z: np.ndarray, n_iterations: int, seed: int) -> tuple[Draws, float]:
    """Draws of the shipped sampler and its CPU seconds, keeping the draws included."""
    schedule = FixedLength(0, n_iterations)
    began = time.process_time()
    draws = (
        Chain(0, np.random.SeedSequence(seed), model, GibbsEngine(), lambda _: z, schedule)
        .run()
        .fixed
    )
    return draws, time.process_time() - began


def plain_twin(model: Model, z: np.ndarray, n_iterations: int, seed: int) -> tuple[Draws, float]:
    """Draws of the plain sampler and its CPU seconds."""
    likelihood: Any = model.likelihood
    began = time.process_time()
    draws = plain.run(model.features, likelihood.design, likelihood.outcome, z, n_iterations, seed)
    return draws, time.process_time() - began


def scalars(draws: Draws, pairs: list[tuple[int, int]]) -> Draws:
    """Everything that is compared, by name, (draws,)."""
    result = {
        "log alpha": np.log(draws["alpha"]),
        "clusters": draws["n_clusters"].astype(float),
        "log noise": np.log(draws["params.noise_precision"]),
    }
    latent = draws["latent"].reshape(len(draws["alpha"]), -1)
    result["mean latent"] = latent.mean(axis=1)
    result |= {f"latent[{u}]": latent[:, u] for u in range(0, latent.shape[1], 12)}
    result |= {
        f"{i} and {j} together": (draws["z"][:, i] == draws["z"][:, j]).astype(float)
        for i, j in pairs
    }
    for view in ("features", "behavior"):
        n_dims = draws[f"{view}.base_mean"].shape[1]
        result[f"{view} log beta"] = np.log(draws[f"{view}.base_dof"] - n_dims + 1)
        for d in range(n_dims):
            result[f"{view} mu_0[{d}]"] = draws[f"{view}.base_mean"][:, d]
            result[f"{view} log R_0[{d}]"] = np.log(draws[f"{view}.base_precision"][:, d, d])
            result[f"{view} log W_0[{d}]"] = np.log(draws[f"{view}.base_covariance"][:, d, d])
    return result


def effective(values: np.ndarray) -> float:
    """Bulk effective sample size of a chain without its first tenth."""
    return float(array_stats.ess(values[len(values) // 10 :][None], method="bulk"))


def compare(scenario: str, n_iterations: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Rates of both samplers by scalar (medians over seeds), and the ratio of the least ones."""
    model = problem(scenario)
    z = np.arange(model.n_users) % 5
    for sampler in (own, plain_twin):
        sampler(model, z, 50, 0)  # compiles
    runs = {
        name: [sampler(model, z, n_iterations, seed) for seed in seeds]
        for name, sampler in SAMPLERS.items()
    }
    pooled = np.concatenate([draws["z"][n_iterations // 10 :: 20] for draws, _ in runs["own"]])
    pairs = anchor_pairs(pooled, 3)
    result: dict[str, Any] = {"scenario": scenario, "iterations": n_iterations, "seeds": len(seeds)}
    for name, made in runs.items():
        rates = [
            {key: effective(v) / seconds for key, v in scalars(draws, pairs).items()}
            for draws, seconds in made
        ]
        result[name] = {
            "us": float(np.median([1e6 * seconds / n_iterations for _, seconds in made])),
            "rates": {key: float(np.median([rate[key] for rate in rates])) for key in rates[0]},
            "least": float(np.median([min(rate.values()) for rate in rates])),
        }
    result["speed"] = result["plain"]["us"] / result["own"]["us"]
    result["gain"] = result["own"]["least"] / result["plain"]["least"]
    return result


SAMPLERS = {"own": own, "plain": plain_twin}
HEAD = (
    "scenario",
    "own µs",
    "plain µs",
    "speed",
    "least ESS/s, own",
    "plain",
    "ratio",
    "slowest of own, of plain",
)


def compare_peers(n_draws: int = 2000) -> list[dict[str, Any]]:
    """JAGS and NumPyro, where installed, on agreement with a truncated process of 20 clusters;
    rates of six scalars."""
    model = problem("agreement")
    likelihood: Any = model.likelihood
    results = []
    for name, run in {"JAGS": peers.jags, "NumPyro NUTS": peers.numpyro_nuts}.items():
        answer = run(model.features, likelihood.design, likelihood.outcome, 500, n_draws, 0)
        if answer is None:
            print(f"{name}: not installed")
            continue
        draws, seconds = answer[:2]
        sizes = {
            key: array_stats.ess(np.asarray(v, dtype=float)[None], method="bulk")
            for key, v in draws.items()
        }
        rates = {key: float(size) / seconds for key, size in sizes.items()}
        results.append(
            {"peer": name, "least": min(rates.values()), "rates": rates, "seconds": seconds}
        )
        divergences = f", {answer[2]} divergences" if len(answer) > 2 else ""
        print(
            f"{name:14s} least {results[-1]['least']:8.2f} effective samples a second{divergences}"
        )
    return results


def table(results: list[dict[str, Any]]) -> str:
    """The comparison in Markdown."""
    rows = [HEAD]
    for r in results:
        slowest = [min(r[name]["rates"], key=r[name]["rates"].__getitem__) for name in SAMPLERS]
        micros = f"{r['own']['us']:.0f}", f"{r['plain']['us']:.0f}", f"{r['speed']:.1f}"
        least = f"{r['own']['least']:.0f}", f"{r['plain']['least']:.1f}", f"{r['gain']:.0f}"
        rows.append((r["scenario"], *micros, *least, "; ".join(slowest)))
    return as_table(rows)


def short_table(results: list[dict[str, Any]]) -> str:
    """The ratios alone, as README has them."""
    return as_table([[r["scenario"] for r in results], [f"{r['gain']:.0f} times" for r in results]])


if __name__ == "__main__":
    print(table([compare(scenario, 20_000, (0, 1, 2)) for scenario in SCENARIOS]))

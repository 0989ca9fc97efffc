"""Cold start: how well is a user's coefficient predicted after 0, 1, 2, … threads, with features
and without?

A simulated forum, the agreement scenario. Two models are fitted to threads among its known users:
dual-DP (features and threads, number of clusters inferred) and single (only threads, all users in
one cluster). Then new users join, who are in no training thread. Each takes part in threads with
known users, and after every few threads both models predict the new user's latent coefficient
without a new fit. The truth is known, so the error is known, too.

    python examples/cold_start.py --out cold-start

writes cold_start.csv, .txt and .png to the folder and prints the table. It needs matplotlib
(the extra ``plots``).

Shapes: F forums, J new users in each, N numbers of observed threads.
"""

import argparse
import csv
import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dualview as dv
from dualview.errors import ConvergenceWarning, DataWarning

Array = NDArray[np.float64]

# Of the scenario: probability of taking part, noise of a thread, spread of coefficients inside a
# cluster.
PARTICIPATION_RATE, NOISE_VARIANCE, LATENT_SD = 0.5, 5.0, 5.0
MODELS = ("dual-DP", "single")
LEVELS = (0.8, 0.95)


@dataclass(frozen=True)
class Plan:
    """Sizes of the experiment."""

    n_forums: int
    n_known: int
    n_new: int
    n_training: int
    n_observed: tuple[int, ...]
    n_warmup: int
    n_kept: int  # iterations after the warm-up


FULL = Plan(8, 50, 20, 200, (0, 1, 2, 3, 5, 7, 10, 15, 20), n_warmup=1000, n_kept=3000)
QUICK = Plan(2, 15, 5, 30, (0, 2, 20), n_warmup=50, n_kept=100)


@dataclass(frozen=True)
class Case:
    """A forum cut in two: what the fit sees, and new users with threads in the order in which they
    happen."""

    features: Array  # (n_known, 2)
    training: dv.SharedOutcome
    new_features: Array  # (J, 2)
    new_latent: Array  # (J,), the truth
    new_threads: dv.SharedOutcome
    position: NDArray[np.intp]  # of each new thread among those of its new user, from 0


@dataclass(frozen=True)
class Result:
    """Predictions of one model for the new users of one forum, and how the computation went."""

    errors: Array  # (N, J), predicted minus true coefficient
    levels: Array  # (N, J), predicted probability of a coefficient up to the true one
    converged: bool
    n_warnings: int  # of the N predictions, those that rest on few draws for some user
    spread: float  # of the coefficients inside a typical cluster, posterior median


def draw_case(plan: Plan, seed: int) -> Case:
    """Users from the scenario; training threads of known users; threads of known users and one new
    user each."""
    forum = dv.datasets.agreement(
        plan.n_known + plan.n_new, 1, latent_sd=LATENT_SD, noise_variance=NOISE_VARIANCE, seed=seed
    )
    rng = np.random.default_rng([seed, 1])
    most = max(plan.n_observed)
    newcomer = np.repeat(np.arange(plan.n_new), most)
    training = rng.random((plan.n_training, plan.n_known)) < PARTICIPATION_RATE
    company = rng.random((len(newcomer), plan.n_known)) < PARTICIPATION_RATE
    new_threads = np.hstack([company, newcomer[:, None] == np.arange(plan.n_new)])
    return Case(
        features=forum.features[: plan.n_known],
        training=draw_outcomes(rng, training, forum.latent[: plan.n_known]),
        new_features=forum.features[plan.n_known :],
        new_latent=forum.latent[plan.n_known :],
        new_threads=draw_outcomes(rng, new_threads, forum.latent),
        position=np.tile(np.arange(most), plan.n_new),
    )


def draw_outcomes(
    rng: np.random.Generator, takes_part: NDArray[np.bool_], latent: Array
) -> dv.SharedOutcome:
    """Threads of these participants by the scenario's distribution: shares that sum to one, normal
    noise."""
    participation = takes_part / np.maximum(takes_part.sum(axis=1, keepdims=True), 1)
    noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(participation))
    return dv.SharedOutcome(participation, participation @ latent + noise)


def first_threads(case: Case, n: int) -> dv.SharedOutcome:
    """The first n threads of every new user. For n = 0 a thread that nobody is in, which says
    nothing of anybody."""
    if n == 0:
        return dv.SharedOutcome(np.zeros((1, len(case.new_threads))), [0.0])
    return case.new_threads.take(case.position < n)


def evaluate(name: str, plan: Plan, case: Case, seed: int) -> Result:
    """Fit one model to the known users and predict the new ones after each number of threads."""
    dual = name == "dual-DP"
    thin = 2 if dual else 1  # a draw with clusters costs more to predict from
    schedule = {
        "engine": dv.Gibbs(n_warmup=plan.n_warmup, thin=thin),
        "n_draws": plan.n_kept // thin,
        "n_chains": 2,
        "n_jobs": 2,
    }
    model = dv.DualViewMixture(None if dual else 1, random_state=seed, **schedule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted and printed instead
        model.fit(case.features if dual else None, case.training)
    errors, levels, n_warnings = [], [], 0
    for n in plan.n_observed:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            predicted = model.predict_latent(
                case.new_features if dual else None, first_threads(case, n)
            )
            errors.append(predicted.mean - case.new_latent)
            levels.append(predicted.cdf(case.new_latent))
        n_warnings += any(issubclass(warning.category, DataWarning) for warning in caught)
    post = model.posterior_
    spread = float(np.sqrt(np.median(post["behavior.base_covariance"])))
    return Result(np.array(errors), np.array(levels), post.converged, n_warnings, spread)


def mean_with_error(values: Array) -> tuple[float, float]:
    """Mean over users (F, J) and its standard error. Users of a forum share a fit, so forums are
    the independent units."""
    by_forum = values.mean(axis=1)
    return float(by_forum.mean()), float(by_forum.std(ddof=1) / np.sqrt(len(by_forum)))


def rmse_with_error(errors: Array) -> tuple[float, float]:
    """Root mean square of errors (F, J), and its standard error from that of the mean square."""
    mean_square, error = mean_with_error(errors**2)
    rmse = np.sqrt(mean_square)
    return float(rmse), float(error / (2 * rmse))


def inside(levels: Array, probability: float) -> Array:
    """1 where the truth lies in the central interval, else 0: where its level is between the
    tails."""
    return (np.abs(levels - 0.5) < 0.5 * probability).astype(float)


def tabulate(plan: Plan, results: dict[str, list[Result]]) -> list[dict[str, str | int | float]]:
    """A row for each model and number of threads."""
    rows = []
    for name, (*forums, _) in results.items():
        errors = np.stack([forum.errors for forum in forums], axis=1)  # (N, F, J)
        levels = np.stack([forum.levels for forum in forums], axis=1)
        for i, n in enumerate(plan.n_observed):
            row: dict[str, str | int | float] = {"model": name, "threads": n}
            row["rmse"], row["rmse_se"] = rmse_with_error(errors[i])
            for level in LEVELS:
                column = f"coverage_{100 * level:g}"
                row[column], row[f"{column}_se"] = mean_with_error(inside(levels[i], level))
            rows.append(row)
    return rows


def as_csv(rows: list[dict[str, str | int | float]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: f"{value:.6g}" if isinstance(value, float) else value
                for name, value in row.items()
            }
        )
    return text.getvalue()


def as_text(plan: Plan, rows: list[dict[str, str | int | float]]) -> str:
    """The table as it is printed, the models side by side."""
    heads = [f"coverage {100 * level:g} %" for level in LEVELS]
    lines = [
        " " * 7 + "".join(f" | {title:^29}" for title in ("RMSE ± standard error", *heads)),
        "threads" + "".join(f" | {MODELS[0]:^14} {MODELS[1]:^14}" for _ in range(1 + len(heads))),
    ]
    for n in plan.n_observed:
        pair = [
            next(row for row in rows if row["threads"] == n and row["model"] == name)
            for name in MODELS
        ]
        cells = " ".join(f"{row['rmse']:6.1f} ± {row['rmse_se']:4.1f} " for row in pair)
        for level in LEVELS:
            column = f"coverage_{100 * level:g}"
            cells += " | " + " ".join(
                f"{row[column]:6.2f} ± {row[f'{column}_se']:.2f} " for row in pair
            )
        lines.append(f"{n:7d} | {cells}")
    return "\n".join(line.rstrip() for line in lines)


def draw(plan: Plan, rows: list[dict[str, str | int | float]]) -> Figure:
    """Left: error against threads. Right: coverage of the intervals. Models differ in shade, dash
    and marker."""
    figure = Figure(figsize=(9.5, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curves(left, rows, "rmse")
    left.axhline(
        LATENT_SD, color="0.4", linestyle=":", label="spread of coefficients inside a cluster"
    )
    left.set(ylabel="RMSE (in units of the outcome)", title="Error of the predicted coefficient")
    left.set_ylim(bottom=0)
    for level, face in zip(LEVELS, ("white", None), strict=True):
        _curves(right, rows, f"coverage_{100 * level:g}", face)
        right.axhline(level, color="0.4", linestyle=":")
        right.annotate(
            f"{100 * level:g} %", (1.01, level), xycoords=("axes fraction", "data"), va="center"
        )
    right.set(
        ylabel="share of new users", title="True value in the 80 % (hollow), 95 % (filled) interval"
    )
    right.set_ylim(min(0.55, right.get_ylim()[0]), 1.03)
    for ax in (left, right):
        ax.title.set_fontsize("medium")
        ax.set(
            xlabel="observed threads per new user (number)",
            xticks=range(0, max(plan.n_observed) + 1, 5),
        )
    left.legend(frameon=False, fontsize="small")
    return figure


def _curves(
    ax: Axes, rows: list[dict[str, str | int | float]], column: str, face: str | None = None
) -> None:
    """A line per model with standard errors, set apart a little so that bars do not hide bars."""
    styles = {
        "dual-DP": {
            "color": "#0072B2",
            "marker": "o",
            "linestyle": "-",
            "label": "dual-DP: features and threads",
        },
        "single": {
            "color": "#E69F00",
            "marker": "s",
            "linestyle": "--",
            "label": "single: threads alone",
        },
    }
    for shift, name in zip((-0.12, 0.12), MODELS, strict=True):
        own = [row for row in rows if row["model"] == name]
        x = np.array([row["threads"] for row in own], dtype=float) + shift
        y, error = ([float(row[key]) for row in own] for key in (column, f"{column}_se"))
        edges = {"capsize": 3, "markeredgecolor": "0.15", "ecolor": "0.15", "elinewidth": 1}
        ax.errorbar(
            x, y, error, markerfacecolor=face or styles[name]["color"], **edges, **styles[name]
        )


def conduct(plan: Plan, seed: int) -> dict[str, list[Result]]:
    """Both models on every forum, and then on the first one again with fresh chains: F + 1 results
    of each.

    The seeds of forums and chains come from one.
    """
    *seeds, fresh = map(int, np.random.SeedSequence(seed).generate_state(plan.n_forums + 1))
    runs = [(seed_of_forum, seed_of_forum) for seed_of_forum in seeds] + [(seeds[0], fresh)]
    results: dict[str, list[Result]] = {name: [] for name in MODELS}
    for number, (seed_of_forum, seed_of_chains) in enumerate(runs, start=1):
        case = draw_case(plan, seed_of_forum)
        for name in MODELS:
            results[name].append(evaluate(name, plan, case, seed_of_chains))
        print(f"run {number} of {len(runs)} done", flush=True)
    return results


def remarks(plan: Plan, results: dict[str, list[Result]]) -> str:
    """What to know about the runs before believing the table."""
    lines = [
        f"{plan.n_forums} forums of {plan.n_known} known and {plan.n_new} new users, "
        f"{plan.n_training} training threads."
    ]
    for name, (*forums, again) in results.items():
        converged = sum(forum.converged for forum in forums)
        n_warnings = sum(forum.n_warnings for forum in forums)
        moved = np.sqrt(np.mean((again.errors - forums[0].errors) ** 2))
        total = len(forums) * len(plan.n_observed)
        lines.append(
            f"{name}: {converged} of {len(forums)} fits converged; {n_warnings} of {total} "
            "predictions warned of few draws; "
            f"fresh chains moved predictions by {moved:.1f} (rms)."
        )
    spreads = [forum.spread for forum in results["dual-DP"][:-1]]
    lines.append(
        f"dual-DP: spread of coefficients inside a typical cluster {np.median(spreads):.1f} "
        "(median of the forums, "
        f"{min(spreads):.1f} to {max(spreads):.1f}); truth {LATENT_SD:g}."
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Error of new users' coefficients against the number of observed threads."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("cold-start"), help="folder for table and picture"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same numbers")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a tiny run to see that it works; its numbers mean nothing",
    )
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    began = time.perf_counter()
    results = conduct(plan, options.seed)
    rows = tabulate(plan, results)
    options.out.mkdir(parents=True, exist_ok=True)
    table, picture = options.out / "cold_start.csv", options.out / "cold_start.png"
    table.write_text(as_csv(rows), encoding="utf-8")
    draw(plan, rows).savefig(picture, dpi=120)
    text = as_text(plan, rows)
    table.with_suffix(".txt").write_text(f"{text}\n", encoding="utf-8")
    print(f"\n{text}\n\n{remarks(plan, results)}")
    print(f"Wrote {table} and {picture} in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()

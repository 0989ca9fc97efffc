"""What covariates, clusters and the link explain, in one picture, with a known truth.

A simulated forum: three kinds of users, and inside every kind behavior rises with a feature.
Threads of one section become longer whoever takes part. Two models are fitted to the same threads,
without a link and with one. Above: each user's behavior against the feature, true and estimated.
Below: the share of the variance of the outcomes that each part explains.

    python examples/link.py --out link

writes link.png and link.csv to the folder and prints the table. It needs matplotlib (the extra
``plots``).

Shapes: U users, T threads, S draws; f (S, U), z (S, U), slopes (S, D).
"""

import argparse
import csv
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dualview as dv
from dualview.errors import ConvergenceWarning
from dualview.plots.canvas import cluster_style

Array = NDArray[np.float64]

MEANS = np.array([2.0, -4.0, 7.0])  # of behavior, by cluster
CENTERS = np.array([[-2.5, 0.0], [0.5, 2.5], [3.0, -1.0]])  # of features
SLOPES = np.array([3.0, 0.0])
OWN_SD, NOISE_SD, SECTION = 1.0, 6.0, 14.0
PARTS = ("covariates", "clusters", "link", "users", "noise")
LOOKS = ("#1B1464", "#A3265F", "#F2B84B", "#3FA7A0", "#e4e4e4")


@dataclass(frozen=True)
class Plan:
    """Sizes of the experiment."""

    n_users: int
    n_threads: int
    n_warmup: int
    n_draws: int


FULL = Plan(n_users=60, n_threads=150, n_warmup=1000, n_draws=3000)
QUICK = Plan(n_users=18, n_threads=40, n_warmup=30, n_draws=40)


@dataclass(frozen=True)
class Truth:
    """The forum and how it was made."""

    features: Array
    z: NDArray[np.int64]
    latent: Array
    training: dv.SharedOutcome
    test: dv.SharedOutcome


def draw_forum(plan: Plan, seed: int) -> Truth:
    """Users of three kinds; threads of a few of them each, in two sections."""
    rng = np.random.default_rng(seed)
    z = np.arange(plan.n_users) % len(MEANS)
    scatter = np.array([1.0, 0.6]) * rng.standard_normal((plan.n_users, 2))
    features = CENTERS[z] + scatter
    latent = MEANS[z] + scatter @ SLOPES + OWN_SD * rng.standard_normal(plan.n_users)

    def threads(n: int) -> dv.SharedOutcome:
        took_part = (rng.random((n, plan.n_users)) < 6 / plan.n_users).astype(float)
        section = rng.integers(0, 2, (n, 1)).astype(float)
        outcome = (
            20.0 + SECTION * section[:, 0] + took_part @ latent + NOISE_SD * rng.standard_normal(n)
        )
        return dv.SharedOutcome(took_part, outcome, section, intercept=True)

    return Truth(features, z, latent, threads(plan.n_threads), threads(1000))


@dataclass(frozen=True)
class Found:
    """Draws of what decides outcomes; one draw where it is the truth."""

    title: str
    z: NDArray[np.int64]  # (S, U)
    latent: Array  # (S, U)
    slopes: Array  # (S, D)
    section: Array  # (S,)
    labels: NDArray[np.int64]  # (U,), the partition to show
    nll: float = float("nan")
    r_hat: float = float("nan")


def fit(truth: Truth, plan: Plan, link: str | None, seed: int) -> Found:
    model = dv.DualViewMixture(
        alpha="paper",
        engine=dv.Gibbs(n_warmup=plan.n_warmup),
        n_draws=plan.n_draws,
        link=link,
        n_jobs=1,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # R-hat is printed instead
        model.fit(truth.features, truth.training)
    post = model.posterior_
    latent = post.flat("latent")
    return Found(
        "With a link" if link else "Without a link",
        post.flat("z"),
        latent,
        post.flat("slopes") if link else np.zeros((len(latent), truth.features.shape[1])),
        post.flat("coefficients")[:, 1],
        model.labels_,
        model.predict_outcome(truth.test).nll(truth.test.outcome),
        float(post.diagnostics()["r_hat"].max()),
    )


def shares(found: Found, truth: Truth) -> dict[str, float]:
    """Share of the variance of the training outcomes that goes with each part, mean over draws.

    A user's behavior is the mean of the user's cluster, plus what the slopes add to it inside the
    cluster, plus the rest, the user's own. A part's share is its covariance with the outcome over
    the outcome's variance, so that they sum to one.
    """
    assert truth.training.outcome is not None
    outcome, x = np.asarray(truth.training.outcome), np.asarray(truth.training.participation)
    section = np.asarray(truth.training.covariates)[:, 0]
    total = dict.fromkeys(PARTS, 0.0)
    for z, latent, slopes, effect in zip(
        found.z, found.latent, found.slopes, found.section, strict=True
    ):
        member = np.eye(z.max() + 1)[z]
        weights = member / np.maximum(member.sum(axis=0), 1.0)
        inside = truth.features - member @ (weights.T @ truth.features)
        means, slope = member @ (weights.T @ latent), inside @ slopes
        taken = [effect * section, x @ means, x @ slope, x @ (latent - means - slope)]
        for name, part in zip(PARTS, [*taken, outcome - sum(taken)], strict=True):
            total[name] += float(np.cov(part, outcome)[0, 1] / outcome.var(ddof=1))
    return {name: value / len(found.z) for name, value in total.items()}


def picture(truth: Truth, results: Sequence[Found], taken: Sequence[dict[str, float]]) -> Figure:
    """Above: behavior against the feature, by cluster. Below: shares of the outcomes' variance."""
    figure = Figure(figsize=(11.0, 6.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.7, 1.0))
    axes = upper.subplots(1, len(results), sharex=True, sharey=True)
    for ax, found in zip(axes, results, strict=True):
        _users(ax, found, truth)
    axes[0].set_ylabel("latent behavior")
    _bars(lower.subplots(), results, taken)
    return figure


def _users(ax: Axes, found: Found, truth: Truth) -> None:
    """Means of draws, bars of one standard deviation, and in each cluster a line with the slope
    there."""
    mean, sd = found.latent.mean(axis=0), found.latent.std(axis=0)
    order = _by_overlap(found.labels, truth.z)
    for place, k in enumerate(order):
        users = found.labels == k
        look = cluster_style(place, len(truth.z))
        x, y = truth.features[users, 0], mean[users]
        ax.errorbar(
            x,
            y,
            yerr=sd[users] if len(found.z) > 1 else None,
            linestyle="none",
            color=look["color"],
            alpha=0.35,
            lw=1,
        )
        ax.scatter(x, y, **look)
        ends = np.array([x.min() - 0.3, x.max() + 0.3])
        ax.plot(
            ends,
            y.mean() + (ends - x.mean()) * found.slopes[:, 0].mean(),
            color=look["color"],
            lw=2.2,
            zorder=2,
        )
    ax.set_title(found.title, loc="left", fontweight="bold")
    words = f"{len(order)} clusters" + (
        f"\ntest NLL {found.nll:.2f}" if np.isfinite(found.nll) else ""
    )
    ax.text(0.98, 0.03, words, transform=ax.transAxes, ha="right", va="bottom", color="0.3")
    ax.set_xlabel("feature 1")
    ax.spines[["top", "right"]].set_visible(False)


def _by_overlap(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> list[int]:
    """Clusters in the order of the true cluster most of their users are from, so that colors
    agree."""
    names = np.unique(labels)
    return sorted(
        map(int, names),
        key=lambda k: (int(np.bincount(truth[labels == k]).argmax()), -int((labels == k).sum())),
    )


def _bars(ax: Axes, results: Sequence[Found], taken: Sequence[dict[str, float]]) -> None:
    for row, parts in enumerate(taken):
        left = 0.0
        for name, color in zip(PARTS, LOOKS, strict=True):
            ax.barh(
                row,
                parts[name],
                left=left,
                color=color,
                edgecolor="white",
                height=0.62,
                label=name if row == 0 else None,
            )
            if parts[name] > 0.035:
                dark = name in ("covariates", "clusters")
                words = f"{100 * parts[name]:.0f} %"
                ax.text(
                    left + parts[name] / 2,
                    row,
                    words,
                    ha="center",
                    va="center",
                    color="white" if dark else "0.15",
                )
            left += parts[name]
    ax.set_yticks(range(len(results)), [found.title for found in results])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xticks([])
    ax.set_title("What takes up the variance of the outcomes", loc="left", fontweight="bold")
    ax.legend(ncols=len(PARTS), frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.02))
    ax.spines[["top", "right", "bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)


def as_csv(results: Sequence[Found], taken: Sequence[dict[str, float]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", *PARTS, "slope_1", "slope_2", "clusters_mean", "nll", "r_hat"])
    for found, parts in zip(results, taken, strict=True):
        n_clusters = np.mean([len(np.unique(z)) for z in found.z])
        numbers = [*parts.values(), *found.slopes.mean(axis=0), n_clusters, found.nll, found.r_hat]
        writer.writerow([found.title, *(f"{number:.4g}" for number in numbers)])
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What covariates, clusters and the link take up.")
    parser.add_argument(
        "--out", type=Path, default=Path("link"), help="folder for table and picture"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same numbers")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a tiny run to see that it works; its numbers mean nothing",
    )
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    truth = draw_forum(plan, options.seed)
    known = Found(
        "Truth", truth.z[None], truth.latent[None], SLOPES[None], np.array([SECTION]), truth.z
    )
    results = [known, *(fit(truth, plan, link, options.seed) for link in (None, "linear"))]
    taken = [shares(found, truth) for found in results]
    options.out.mkdir(parents=True, exist_ok=True)
    text = as_csv(results, taken)
    (options.out / "link.csv").write_text(text, encoding="utf-8")
    picture(truth, results, taken).savefig(options.out / "link.png", dpi=120)
    print(text)
    print(f"Wrote {options.out / 'link.csv'} and {options.out / 'link.png'}.")


if __name__ == "__main__":
    main()

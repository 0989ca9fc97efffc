"""The figures: ours, with the published points beside them where there are any."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dualview.datasets import Forum
from dualview.plots.canvas import ALERT, MAIN, MUTED, cluster_style, require_matplotlib
from reproduction import published
from reproduction.results import FLOOR, averages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "nll": "test NLL per thread (lower is better)",
    "ari": "adjusted Rand index (higher is better)",
    "rmse": "RMSE of the coefficients (lower is better)",
    "n_clusters": "mean number of clusters",
}
_STYLES = ("dual-DP", "dual-fixed", "single", "IGMM", "GMM", "latent-IGMM", "latent-GMM")
_SHIFT = 0.6  # threads between the models' points, so that error bars do not hide each other


def new_figure(
    n_rows: int, n_columns: int, size: tuple[float, float], **grid: Any
) -> "tuple[Figure, Any]":
    """A figure that belongs to no window, and its axes (n_rows, n_columns)."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **grid)


def style(model: str) -> dict[str, Any]:
    """Color and marker of a model, the same in every figure."""
    place = _STYLES.index(model) if model in _STYLES else len(_STYLES)
    look = cluster_style(place, 50)
    return {"color": look["color"], "marker": look["marker"]}


def data(forum: Forum) -> "Figure":
    """Features, and coefficients from the smallest to the largest, by true cluster (Fig. 2, 4,
    7)."""
    figure, axes = new_figure(1, 2, (9.5, 4.0))
    left, right = axes[0]
    across, up = (0, 1) if forum.features.shape[1] == 2 else (1, 2)
    order = np.argsort(forum.latent, kind="stable")
    place = np.empty(len(order))
    place[order] = np.arange(1, len(order) + 1)
    for cluster in np.unique(forum.labels):
        users = forum.labels == cluster
        look = cluster_style(int(cluster), len(order))
        left.scatter(
            forum.features[users, across], forum.features[users, up], label=f"{cluster}", **look
        )
        right.scatter(place[users], forum.latent[users], **look)
    left.set_xlabel(forum.feature_names[across])
    left.set_ylabel(forum.feature_names[up])
    left.set_title("Features", loc="left")
    left.legend(title="true cluster", frameon=False, fontsize="small", title_fontsize="small")
    right.set_xlabel("users, sorted by coefficient")
    right.set_ylabel("coefficient")
    right.set_title("Coefficients", loc="left")
    return figure


def results(frame: pd.DataFrame, scenario: str) -> "Figure":
    """Test NLL and adjusted Rand index against threads, published points dashed and hollow (Fig. 3,
    6, 8)."""
    figure, axes = new_figure(1, 2, (11, 4.6))
    for ax, metric in zip(axes[0], ("nll", "ari"), strict=True):
        table = averages(frame, ["model", "n_threads"], metric)
        models = list(dict.fromkeys(table["model"]))
        for place, model in enumerate(models):
            shift = _SHIFT * (place - 0.5 * (len(models) - 1))
            ours = table[table["model"] == model]
            _curve(
                ax,
                ours["n_threads"] + shift,
                ours["mean"],
                ours["error"],
                model,
                f"{model}, dualview",
            )
            points = published.curve(scenario, metric, model)
            if points:
                threads, means, errors = (
                    np.array(values, dtype=float) for values in zip(*points, strict=True)
                )
                _curve(
                    ax, threads + shift, means, errors, model, f"{model}, published", hollow=True
                )
        _finish(ax, metric, "training threads")
    figure.legend(
        *_floor_last(axes[0, 0]),
        frameon=False,
        fontsize="small",
        loc="outside lower center",
        ncols=4,
    )
    return figure


def _floor_last(ax: "Axes") -> tuple[list[Any], list[str]]:
    """Handles and names of a legend, the curves before the floor."""
    handles, names = ax.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: names[i].startswith("entropy"))
    return [handles[i] for i in order], [names[i] for i in order]


def _curve(
    ax: "Axes", x: Any, mean: Any, error: Any, model: str, label: str, hollow: bool = False
) -> None:
    look = style(model)
    if hollow:
        look |= {"markerfacecolor": "white", "linestyle": "--", "linewidth": 1.0, "alpha": 0.85}
    else:
        look |= {"markeredgecolor": "0.15", "linewidth": 1.8}
    ax.errorbar(
        x,
        mean,
        yerr=error,
        label=label,
        markersize=5.5,
        markeredgewidth=0.9,
        capsize=2,
        elinewidth=0.9,
        **look,
    )


def _finish(ax: "Axes", metric: str, x_label: str) -> None:
    """Labels, and the floor of the NLL."""
    ax.set_xlabel(x_label)
    ax.set_ylabel(LABELS[metric])
    if metric == "nll":
        ax.axhline(
            FLOOR,
            color=MUTED,
            linestyle=":",
            linewidth=1.2,
            label=f"entropy of the noise, {FLOOR:.3f}",
        )
        ax.margins(y=0.06)
    if metric == "ari":
        ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)
    ax.spines[["top", "right"]].set_visible(False)


def lines(
    frame: pd.DataFrame, x: str, x_label: str, metrics: Sequence[str], rows: str | None = None
) -> "Figure":
    """Scores of the models against a number, a panel per metric; a row of panels for each value of
    a column."""
    values = [None] if rows is None else list(dict.fromkeys(frame[rows]))
    figure, axes = new_figure(len(values), len(metrics), (5.4 * len(metrics), 4.0 * len(values)))
    for panels, value in zip(axes, values, strict=True):
        part = frame if rows is None else frame[frame[rows] == value]
        for ax, metric in zip(panels, metrics, strict=True):
            table = averages(part, ["model", x], metric)
            for model in dict.fromkeys(table["model"]):
                ours = table[table["model"] == model].sort_values(x)
                _curve(ax, ours[x], ours["mean"], ours["error"], str(model), str(model))
            _finish(ax, metric, x_label)
            if value is not None:
                ax.set_title(str(value), loc="left")
    figure.legend(
        *_floor_last(axes[0, 0]),
        frameon=False,
        fontsize="small",
        loc="outside lower center",
        ncols=4,
    )
    return figure


def groups(frame: pd.DataFrame, by: str, metrics: Sequence[str]) -> "Figure":
    """Scores as points with standard errors: a row for each value of a column, a line of panels for
    each scenario."""
    scenarios = list(dict.fromkeys(frame["scenario"]))
    names = list(dict.fromkeys(frame[by]))[::-1]
    height = max(2.0, 0.5 + 0.34 * len(names)) * len(scenarios)
    figure, axes = new_figure(
        len(scenarios), len(metrics), (5.2 * len(metrics), height), sharex="col", sharey=True
    )
    for row, scenario in zip(axes, scenarios, strict=True):
        for ax, metric in zip(row, metrics, strict=True):
            _points(ax, frame[frame["scenario"] == scenario], by, names, metric)
            ax.set_title(str(scenario), loc="left")
    for ax, metric in zip(axes[-1], metrics, strict=True):
        ax.set_xlabel(LABELS[metric])
        if metric == "ari":
            ax.set_xlim(min(0.0, ax.get_xlim()[0]), 1.03)
    if len(axes[0, 0].get_legend_handles_labels()[1]) > 1:
        axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def _points(ax: "Axes", frame: pd.DataFrame, by: str, names: list[Any], metric: str) -> None:
    """The points of one panel, models side by side where they are not the rows themselves."""
    models = [""] if by == "model" else list(dict.fromkeys(frame["model"]))
    for place, model in enumerate(models):
        ours = averages(frame if by == "model" else frame[frame["model"] == model], [by], metric)
        shift = 0.18 * (place - 0.5 * (len(models) - 1))
        y = [names.index(name) - shift for name in ours[by]]
        look = style(model) if len(models) > 1 else {"color": MAIN, "marker": "o"}
        ax.errorbar(
            ours["mean"],
            y,
            xerr=ours["error"],
            linestyle="none",
            capsize=2,
            label=model or None,
            **look,
        )
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="y", color="0.92")
    ax.spines[["top", "right"]].set_visible(False)


def differences(points: Mapping[tuple[str, str], tuple[float, float]], allowed: float) -> "Figure":
    """Differences with two standard errors by (scenario, threads), a panel per scenario; the dotted
    line is what is allowed."""
    scenarios = [name for name in dict.fromkeys(key[0] for key in points) if name != "all"]
    figure, axes = new_figure(1, len(scenarios), (3.8 * len(scenarios), 3.4), sharey=True)
    for ax, scenario in zip(axes[0], scenarios, strict=True):
        own = {
            int(n): point for (name, n), point in points.items() if name == scenario and n != "all"
        }
        mean, error = np.array(list(own.values())).T
        ax.axhline(0.0, color=MUTED, linewidth=0.8)
        ax.axhline(allowed, color=ALERT, linewidth=1.0, linestyle=":", label=f"loss of {allowed:g}")
        ax.errorbar(
            list(own),
            mean,
            yerr=2 * error,
            color=MAIN,
            marker="o",
            capsize=2,
            label="difference, ± 2 standard errors",
        )
        ax.set_title(scenario, loc="left")
        ax.set_xlabel("training threads")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("NLL with link − NLL without")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        frameon=False,
        fontsize="small",
        loc="outside lower center",
        ncols=2,
    )
    return figure


def information(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> "Figure":
    """Predictive intervals of the test threads and the similarity of users, a column for each
    (title, extras) (Fig. 5, 9)."""
    figure, axes = new_figure(2, len(parts), (4.3 * len(parts), 7.4))
    for (upper, lower), (title, extras) in zip(axes.T, parts, strict=True):
        _intervals(upper, extras["predictions"])
        upper.set_title(title, loc="left")
        _similarity(lower, extras["similarity"])
    axes[0, 0].legend(frameon=False, fontsize="small", loc="upper left")
    return figure


def _intervals(ax: "Axes", extra: Mapping[str, Any]) -> None:
    x = np.arange(1, len(extra["outcome"]) + 1)
    most, half = np.array(extra["most"]), np.array(extra["half"])
    ax.fill_between(x, most[:, 0], most[:, 1], color="0.87", linewidth=0, label="95 % interval")
    ax.fill_between(x, half[:, 0], half[:, 1], color="0.68", linewidth=0, label="50 % interval")
    ax.plot(x, extra["mean"], color=MAIN, linewidth=1.0, label="predictive mean")
    ax.plot(x, extra["outcome"], color=ALERT, linewidth=1.6, label="outcome")
    ax.set_xlabel("test threads, sorted by outcome")
    ax.set_ylabel("outcome")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))


def _similarity(ax: "Axes", extra: Mapping[str, Any]) -> None:
    labels = np.array(extra["labels"])
    ax.imshow(np.array(extra["matrix"]), cmap="Greys", vmin=0.0, vmax=1.0)
    ends = np.flatnonzero(np.diff(labels)) + 0.5
    for draw in (ax.hlines, ax.vlines):
        draw(ends, -0.5, len(labels) - 0.5, color=ALERT, linewidth=0.8)
    ax.set_xlabel("users by true cluster; dark: together")
    ax.set_xticks([])
    ax.set_yticks([])


def sizes(extra: Mapping[str, Any]) -> "Figure":
    """Posterior of the number of clusters, and mean and deviation of their sizes (Fig. 10)."""
    figure, axes = new_figure(1, 2, (9.0, 3.6))
    number, size = axes[0]
    number.bar(extra["n_clusters"], extra["probability"], color=MAIN, width=0.7)
    number.set_xticks(extra["n_clusters"])
    number.set_xlabel("number of clusters")
    number.set_ylabel("posterior probability")
    rank = np.arange(1, len(extra["size_mean"]) + 1)
    mean, sd = np.array(extra["size_mean"]), np.array(extra["size_sd"])
    size.bar(rank, mean, color=MAIN, width=0.7)
    size.errorbar(
        rank, mean, yerr=[np.minimum(sd, mean), sd], linestyle="none", color="black", capsize=3
    )
    size.set_xticks(rank)
    size.set_xlabel("cluster, from the largest")
    size.set_ylabel("users, mean and standard deviation")
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def cost(times: Mapping[str, Mapping[str, float]], seconds: pd.DataFrame) -> "Figure":
    """Autocorrelation times of the slowest quantities of dual-DP, and CPU time of an iteration
    against users."""
    figure, axes = new_figure(1, 2, (11, 4.6), width_ratios=(1.5, 1))
    left, right = axes[0]
    slowest = sorted(times, key=lambda name: times[name]["time"])[-12:]
    y = np.arange(len(slowest))
    left.barh(
        y,
        [times[name]["time"] for name in slowest],
        color=MAIN,
        height=0.55,
        label="autocorrelation time",
    )
    tau = [times[name]["paper_tau"] for name in slowest]
    noise = [times[name]["white_noise_tau"] for name in slowest]
    left.plot(tau, y, "D", color=ALERT, markeredgecolor="0.15", markersize=5, label="the paper's τ")
    left.plot(noise, y, "|", color="black", markersize=12, label="the paper's τ of white noise")
    left.axvline(
        published.number("autocorrelation_time"),
        color=MUTED,
        linestyle="--",
        label="published largest τ",
    )
    left.set_yticks(y, slowest)
    left.set_xlabel("iterations")
    left.legend(
        frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2
    )
    right.plot(seconds["n_users"], 1e3 * seconds["per_iteration"], "o-", color=MAIN)
    right.set_xlabel("users, 100 threads")
    right.set_ylabel("CPU milliseconds per iteration (dual-DP)")
    right.set_ylim(bottom=0)
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return figure

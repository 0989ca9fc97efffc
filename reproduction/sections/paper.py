"""Sections on what the paper shows: its three scenarios, the cost, its table of models, lack of
information in a view."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from reproduction import figures, published
from reproduction.evidence import KAPPA, SPREAD
from reproduction.forums import forum_of
from reproduction.models import COMPARED, MODELS
from reproduction.results import FLOOR, Comparison, averages, compared, truth_nll
from reproduction.sections.parts import Findings, Section, convergence, pivot, shown, table
from reproduction.studies import INFORMATION, SIZES_AT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES = {"agreement": (2, 3), "disagreement": (4, 6), "iris": (7, 8)}
_SCENARIO_TEXT = {
    "agreement": "Five clusters that both views see.",
    "disagreement": "Five clusters in the coefficients; the last two are the same in the features.",
    "iris": "Users are flowers: three of Fisher's four measurements are the features, the "
    "species is the cluster.",
}


def scenario(name: str) -> Callable[[Findings], Section]:
    """Data, curves and comparison with the published points of one scenario."""

    def section(found: Findings) -> Section:
        data_figure, results_figure = (f"{name}-data.png", f"{name}-results.png")
        drawn = {
            data_figure: figures.data(forum_of(found.plan.cell(name, "single", 10))),
            results_figure: figures.results(found.frame, name),
        }
        data_number, results_number = _FIGURES[name]
        parts = [
            f"## {name.capitalize()}",
            _SCENARIO_TEXT[name],
            f"![Users by features and by coefficients]({data_figure})",
            f"*The data (the paper's Fig. {data_number}).*",
            f"![NLL and adjusted Rand index against threads]({results_figure})",
            f"*Means and standard errors over {found.plan.repetitions} repetitions; published "
            "points dashed and hollow (the "
            f"paper's Fig. {results_number}).*",
            *(_comparison(found, name, metric) for metric in ("nll", "ari")),
            _ceiling(found) if name == "disagreement" else "",
            _scored_as_published(found.frame),
            _leading_view(found.frame),
            convergence(found.frame),
        ]
        if name == "iris":
            parts.append(_sizes(found, drawn))
        return Section("\n\n".join(part for part in parts if part), drawn)

    return section


def _comparison(found: Findings, name: str, metric: str) -> str:
    points = compared(found.frame, name, metric)
    ours = averages(found.frame, ["model", "n_threads"], metric)
    models = [model for model in COMPARED if model in set(ours["model"])]
    best = {(p.model, p.n_threads): p for p in points}
    rows = []
    for n in found.plan.sizes:
        cells = []
        for model in models:
            point = best.get((model, n))
            own = ours[(ours["model"] == model) & (ours["n_threads"] == n)]
            text = shown(*own[["mean", "error", "n"]].iloc[0]) if len(own) else "–"
            won = point is not None and point.gain > 0
            cells += [
                shown(point.published, point.published_error) if point else "–",
                f"**{text}**" if won else text,
            ]
        rows.append([str(n), *cells])
    header = [
        "threads",
        *(f"{model}, {who}" for model in models for who in ("published", "dualview")),
    ]
    title = {"nll": "Test NLL", "ari": "Adjusted Rand index"}[metric]
    return (
        "### "
        f"{title}\n\n{table(header, rows)}\n\n{_verdict(points, metric, truth_nll(found.plan.cell(name, 'single', 10)))}"  # noqa: E501
    )


def _verdict(points: list[Comparison], metric: str, truth: float) -> str:
    better = {"nll": "below", "ari": "above"}[metric]
    won = [point for point in points if point.gain > 0]
    text = (
        f"Bold: better than published. dualview lies {better} the published point at "
        f"{len(won)} of {len(points)} points"
    )
    if won:
        text += f", on average by {sum(p.gain for p in points) / len(points):.3f}"
    lost = [point for point in points if point.gain <= 0]
    if lost:
        listed = "; ".join(
            f"{p.model} at {p.n_threads} threads ({p.published:.3f} published, {p.ours:.3f} "
            "here, a difference of "
            f"{-p.standard_errors:.1f} standard errors)"
            for p in lost
        )
        text += f". Not at {listed}"
    elif points:
        closest = min(points, key=lambda p: p.gain)
        text += (
            f"; closest at {closest.model} with {closest.n_threads} threads, by {closest.gain:.3f}"
        )
    text += "."
    if metric == "nll":
        text += (
            f" The floor is the noise's entropy, {FLOOR:.3f}; on these test threads somebody who "
            "knows every coefficient and "
            f"the noise scores {truth:.3f}."
        )
    return text


def _ceiling(found: Findings) -> str:
    """What a partition can reach that the features would draw."""
    truth = forum_of(found.plan.cell("disagreement", "single", 10)).labels
    reached = adjusted_rand_score(truth, np.minimum(truth, truth.max() - 1))
    return (
        "The partition by the features, with the last two clusters as one, has an adjusted Rand "
        f"index of {reached:.3f}; to "
        "go beyond it the coefficients must separate those two. Whether chains that start at the "
        "truth end elsewhere "
        "is in `starts`, and how much depends on the draw of users in `draws`."
    )


def _scored_as_published(frame: pd.DataFrame) -> str:
    """What two of the published program's errors would do to our own draws."""
    logs = (frame["nll_mean_of_logs"] - frame["nll"]).groupby(frame["model"], sort=False).mean()
    last = (
        (frame["ari"] - frame["ari_last_draw"]).groupby(frame["model"], sort=False).mean().dropna()
    )
    rows = [
        [model, f"{logs[model]:+.3f}", f"{-last[model]:+.3f}" if model in last else "–"]
        for model in logs.index
    ]
    body = table(["model", "NLL by the mean of logs", "ARI of the last draw"], rows)
    return (
        "The same draws scored as the published program did, mean over all fits: what the mean "
        "of the log densities changes "
        "in the NLL (the log of the mean density is right), and what the last draw in place of "
        "the least-squares partition "
        f"changes in the adjusted Rand index.\n\n{body}"
    )


def _leading_view(frame: pd.DataFrame) -> str:
    """The ratio of each view by threads."""
    parts = []
    for model in ("dual-DP", "dual-fixed"):
        part = frame[frame["model"] == model]
        own = [
            averages(part, ["n_threads"], score) for score in ("features_ratio", "behavior_ratio")
        ]
        parts += [dict(zip(means["n_threads"], means["mean"], strict=True)) for means in own]
    rows = [
        [str(n), *(f"{values[n]:.3f}" if n in values else "–" for values in parts)]
        for n in dict.fromkeys(frame["n_threads"])
    ]
    header = [
        "threads",
        *(f"{m}, {v}" for m in ("dual-DP", "dual-fixed") for v in ("features", "coefficients")),
    ]
    return (
        "### Which view led\n\nFor each view, the mean log-likelihood ratio per user of the "
        "estimated partition against the "
        "best partition of that view alone (of the features, of the true coefficients): 0 if the "
        "view determined the "
        "partition, and lower the more it was overruled. A Gaussian view with its clusters "
        "integrated out under a conjugate "
        "normal-inverse-Wishart prior with, in the units of the view's sample mean and "
        f"covariance, m = 0, κ = {KAPPA:g}, "
        f"ν = D + 2, Ψ = {SPREAD:g} I; the partition counts with its Chinese-restaurant "
        "probability at α = 1; the best one "
        f"by greedy moves of single users from eight k-means starts.\n\n{table(header, rows)}"
    )


def _sizes(found: Findings, drawn: "dict[str, Figure]") -> str:
    extras = [outcome.extras["sizes"] for outcome in found.outcomes if "sizes" in outcome.extras]
    if not extras:
        return ""
    drawn["iris-sizes.png"] = figures.sizes(extras[0])
    chances = dict(zip(extras[0]["n_clusters"], extras[0]["probability"], strict=True))
    listed = ", ".join(f"{n} ({p:.0%})" for n, p in chances.items() if p >= 0.005)
    sizes = ", ".join(f"{mean:.1f}" for mean in extras[0]["size_mean"] if mean >= 0.05)
    return (
        "### Number and sizes of clusters\n\n![Number of clusters, and their "
        "sizes](iris-sizes.png)\n\n*dual-DP with "
        f"{SIZES_AT} threads (the paper's Fig. 10).*\n\nNumber of clusters with posterior "
        f"probability: {listed}. Mean sizes "
        f"from the largest: {sizes}."
    )


def cost(found: Findings) -> Section:
    """Autocorrelation times beside the paper's, and CPU time."""
    by_model = {o.cell.model: o for o in found.outcomes if "autocorrelation" in o.extras}
    rows = []
    for model, outcome in by_model.items():
        times: dict[str, dict[str, Any]] = outcome.extras["autocorrelation"]
        slowest = max(times, key=lambda name: times[name]["time"] or 0.0)
        for name in dict.fromkeys([slowest, "behavior.base_mean"]):
            rows += [[model, name, *_time_cells(times[name])]] if name in times else []
    frame = found.frame.assign(
        per_iteration=found.frame["cpu_seconds"] / found.frame["n_iterations"]
    )
    dual = frame[frame["model"] == "dual-DP"].sort_values("n_users")
    drawn = {}
    if "dual-DP" in by_model:
        drawn["cost.png"] = figures.cost(by_model["dual-DP"].extras["autocorrelation"], dual)
    paper_time, paper_size, hours = (
        published.number(n) for n in ("autocorrelation_time", "effective_sample_size", "hours")
    )
    iterations = published.number("iterations")
    effort = found.plan.cost_effort
    seconds = [
        [row.model, str(row.n_users), f"{1e3 * row.per_iteration:.3f}"]
        for row in frame.itertuples()
    ]
    fifty = dual[dual["n_users"] == 50]["per_iteration"]
    faster = (
        f"{hours * 3600 / iterations / fifty.iloc[0]:.0f} times" if len(fifty) else "many times"
    )
    text = f"""## Cost

![Autocorrelation times and CPU time](cost.png)

One chain of the agreement scenario, 50 users and 100 threads, {effort.n_warmup:,} iterations to warm up and {effort.n_draws:,}
kept. The paper's τ = 1 + 2 Σ |ρ_n| over 1000 lags counts noise as correlation: white noise of the same length has the τ in the
column beside it, so a τ near that value says nothing but "no correlation found". The autocorrelation time is draws over
effective sample size.

{table(["model", "quantity", "autocorrelation time", "bulk ESS", "tail ESS", "paper's τ", "τ of white noise"], rows)}

The paper's slowest quantity is the base mean of the behavior view with τ = {paper_time:.0f}, for which it counts
{paper_size:.0f} independent samples in 15,000 draws.

{table(["model", "users", "CPU ms per iteration"], seconds)}

The paper reports about {hours:.0f} hours for {iterations:,.0f} iterations at this size, {1e3 * hours * 3600 / iterations:.0f}
ms an iteration, on a laptop of its time; an iteration here is {faster} faster, on another machine."""  # noqa: E501
    return Section(text, drawn)


def _time_cells(times: dict[str, Any]) -> list[str]:
    names = ("time", "ess_bulk", "ess_tail", "paper_tau", "white_noise_tau")
    return [f"{times[name]:.1f}" if times[name] is not None else "–" for name in names]


def models(found: Findings) -> Section:
    """Table 1 with all seven models run."""
    parts = [
        "## All seven models (Table 1)",
        "The paper's Table 1 lists seven models and compares three. All of them:",
    ]
    rows = []
    for name, kind in MODELS.items():
        part = found.frame[found.frame["model"] == name]
        cells = ["yes" if kind.features else "no", "yes" if kind.behavior else "no"]
        rows.append(
            [
                name,
                *cells,
                {"inferred": "∞", "true": "fixed", "one": "1"}[kind.clusters],
                str(len(part)),
            ]
        )
    parts.append(table(["model", "features", "behaviors", "clusters", "fits"], rows))
    parts.append("![Seven models](models.png)")
    for score, words in (("nll", "test NLL"), ("ari", "adjusted Rand index")):
        for scenario_name in dict.fromkeys(found.frame["scenario"]):
            part = found.frame[found.frame["scenario"] == scenario_name]
            parts.append(
                f"{scenario_name}, {words} by "
                f"threads:\n\n{pivot(part, 'model', 'n_threads', score, 'model')}"
            )
    parts.append(_latent_against_single(found.frame))
    parts.append(convergence(found.frame))
    last = found.frame[found.frame["n_threads"] == found.plan.few_sizes[-1]]
    return Section(
        "\n\n".join(parts), {"models.png": figures.groups(last, "model", ("nll", "ari"))}
    )


def _latent_against_single(frame: pd.DataFrame) -> str:
    means = frame.groupby("model")["nll"].mean()
    gaps = {
        name: means["single"] - means[name]
        for name in ("latent-IGMM", "latent-GMM", "dual-DP")
        if name in means
    }
    if "single" not in means or not gaps:
        return ""
    listed = ", ".join(f"{name} {gap:+.3f}" for name, gap in gaps.items())
    return (
        'The paper left the latent mixtures out as "very similar" to the single model. NLL '
        "gained over the single model, mean "
        f"over scenarios and sizes: {listed}."
    )


def information(found: Findings) -> Section:
    """Predictive intervals and similarity matrices where a view lacks information."""
    drawn, rows = {}, []
    by_place = {
        (o.cell.scenario, o.cell.n_users, o.cell.n_threads): o for o in found.outcomes if o.extras
    }
    for name in ("disagreement", "iris"):
        places = [place for place in INFORMATION if place[0] == name and place in by_place]
        titles = [
            (f"{users} users, {threads} threads", by_place[name, users, threads].extras)
            for _, users, threads in places
        ]
        if titles:
            drawn[f"information-{name}.png"] = figures.information(titles)
    for (name, users, threads), outcome in by_place.items():
        extra = outcome.extras["predictions"]
        inside = sum(
            low <= y <= high for y, (low, high) in zip(extra["outcome"], extra["most"], strict=True)
        )
        width = sum(high - low for low, high in extra["most"]) / len(extra["most"])
        scores = outcome.scores
        rows.append(
            [
                name,
                str(users),
                str(threads),
                f"{scores['n_clusters']:.1f}",
                f"{scores['ari']:.3f}",
                f"{scores['nll']:.3f}",
                f"{inside} of {len(extra['outcome'])}",
                f"{width:.1f}",
                f"{scores['features_ratio']:.3f}",
                f"{scores['behavior_ratio']:.3f}",
            ]
        )
    header = [
        "scenario",
        "users",
        "threads",
        "clusters",
        "ARI",
        "NLL",
        "inside 95 %",
        "mean width",
        "features' ratio",
        "coefficients' ratio",
    ]
    text = f"""## Lack of information in either view

dual-DP on the paper's Fig. 5 (disagreement) and Fig. 9 (iris): above, test outcomes with predictive intervals; below, how
often two users are together, users sorted by true cluster, lines between true clusters.

![Disagreement](information-disagreement.png)

![Iris](information-iris.png)

{table(header, rows)}"""  # noqa: E501
    return Section(text, drawn)

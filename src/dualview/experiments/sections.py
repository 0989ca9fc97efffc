"""A section of the report for each study: its figures, its tables, and what they say, in words made from the numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from dualview.experiments import figures, published
from dualview.experiments.baselines import CLUSTERINGS
from dualview.experiments.extras import ALPHA_SCALES
from dualview.experiments.forums import forum_of
from dualview.experiments.grid import Outcome
from dualview.experiments.models import COMPARED, MODELS
from dualview.experiments.results import FLOOR, Comparison, averages, compared, truth_nll
from dualview.experiments.studies import FEW_THREADS, INFORMATION, SIZES_AT, Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES = {"agreement": (2, 3), "disagreement": (4, 6), "iris": (7, 8)}
_SCENARIO_TEXT = {
    "agreement": "Five clusters that both views see.",
    "disagreement": "Five clusters in the coefficients; the features cannot tell the last two apart.",
    "iris": "Users are flowers: three of Fisher's four measurements are the features, the species is the cluster.",
}


@dataclass
class Section:
    """Markdown text, and the figures it shows by file name."""

    text: str
    figures: "dict[str, Figure]" = field(default_factory=dict)


@dataclass(frozen=True)
class Findings:
    """What a section is made of: the plan, the outcomes of its cells, and the same as a table without failed rows."""

    plan: Plan
    outcomes: list[Outcome]
    frame: pd.DataFrame


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [list(header), ["---"] + ["---:"] * (len(header) - 1), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def shown(mean: float, error: float, digits: int = 3) -> str:
    """Mean and standard error; a dash where there is none."""
    return "–" if pd.isna(mean) else f"{mean:.{digits}f} ± {error:.{digits}f}"


def pivot(frame: pd.DataFrame, rows: str, columns: str, score: str, title: str) -> str:
    """A table of means and standard errors over repetitions."""
    means = averages(frame, [rows, columns], score)
    across = [c for c in dict.fromkeys(frame[columns]) if c in set(means[columns])]
    body = []
    for name in dict.fromkeys(frame[rows]):
        cells = means[means[rows] == name].set_index(columns)
        body.append([str(name), *(shown(*cells.loc[c, ["mean", "error"]]) if c in cells.index else "–" for c in across)])
    return table([title, *map(str, across)], body)


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
            f"*Means and standard errors over {found.plan.repetitions} repetitions; published points dashed and hollow (the paper's "
            f"Fig. {results_number}).*",
            *(_comparison(found, name, metric) for metric in ("nll", "ari")),
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
            text = shown(own["mean"].iloc[0], own["error"].iloc[0]) if len(own) else "–"
            won = point is not None and point.gain > 0
            cells += [shown(point.published, point.published_error) if point else "–", f"**{text}**" if won else text]
        rows.append([str(n), *cells])
    header = ["threads", *(f"{model}, {who}" for model in models for who in ("published", "dualview"))]
    title = {"nll": "Test NLL", "ari": "Adjusted Rand index"}[metric]
    return f"### {title}\n\n{table(header, rows)}\n\n{_verdict(points, metric, truth_nll(found.plan.cell(name, 'single', 10)))}"


def _verdict(points: list[Comparison], metric: str, truth: float) -> str:
    better = {"nll": "below", "ari": "above"}[metric]
    won = [point for point in points if point.gain > 0]
    text = f"Bold: better than published. dualview lies {better} the published point at {len(won)} of {len(points)} points"
    if won:
        text += f", on average by {sum(p.gain for p in points) / len(points):.3f}"
    lost = [point for point in points if point.gain <= 0]
    if lost:
        listed = "; ".join(f"{p.model} at {p.n_threads} threads ({p.published:.3f} published, {p.ours:.3f} here)" for p in lost)
        text += f". Not at {listed}"
    elif points:
        closest = min(points, key=lambda p: p.gain)
        text += f"; closest at {closest.model} with {closest.n_threads} threads, by {closest.gain:.3f}"
    text += "."
    if metric == "nll":
        text += (
            f" The floor is the noise's entropy, {FLOOR:.3f}; on these test threads somebody who knows every coefficient and the "
            f"noise scores {truth:.3f}."
        )
    return text


def _scored_as_published(frame: pd.DataFrame) -> str:
    """What two of the published program's errors would do to our own draws."""
    logs = (frame["nll_mean_of_logs"] - frame["nll"]).groupby(frame["model"], sort=False).mean()
    last = (frame["ari"] - frame["ari_last_draw"]).groupby(frame["model"], sort=False).mean().dropna()
    rows = [[model, f"+{logs[model]:.3f}", f"−{last[model]:.3f}" if model in last else "–"] for model in logs.index]
    body = table(["model", "NLL by the mean of logs", "ARI of the last draw"], rows)
    return (
        "The same draws scored as the published program did, mean over all fits: what the mean of the log densities adds to the "
        "NLL (the log of the mean density is right), and what the last draw in place of the least-squares partition takes from the "
        f"adjusted Rand index.\n\n{body.replace('−-', '+')}"
    )


def _leading_view(frame: pd.DataFrame) -> str:
    """The ratio of each view by threads."""
    parts = []
    for model in ("dual-DP", "dual-fixed"):
        part = frame[frame["model"] == model]
        own = [averages(part, ["n_threads"], score) for score in ("features_ratio", "behavior_ratio")]
        parts += [dict(zip(means["n_threads"], means["mean"], strict=True)) for means in own]
    rows = [
        [str(n), *(f"{values[n]:.3f}" if n in values else "–" for values in parts)] for n in dict.fromkeys(frame["n_threads"])
    ]
    header = ["threads", *(f"{m}, {v}" for m in ("dual-DP", "dual-fixed") for v in ("features", "coefficients"))]
    return (
        "### Which view led\n\nFor each view, the mean log-likelihood ratio per user of the estimated partition against the best "
        "partition of that view alone (of the features, of the true coefficients): 0 where the view had its way, the further below "
        "the more it gave up. A Gaussian view with its clusters integrated out under a conjugate normal-inverse-Wishart prior with, "
        "in the units of the view's sample mean and covariance, m = 0, κ = 0.1, ν = D + 2, Ψ = I/10; the partition counts with its "
        f"Chinese-restaurant probability at α = 1; the best one by greedy moves of single users from eight k-means starts.\n\n"
        f"{table(header, rows)}"
    )


def convergence(frame: pd.DataFrame) -> str:
    """R̂ and effective size of a study's fits in a sentence."""
    fits = frame[frame["r_hat"].notna()]
    if not len(fits):
        return ""
    apart = int((fits["r_hat"] > 1.05).sum())
    return (
        f"Convergence of these {len(fits)} fits: the largest R-hat of a fit is {fits['r_hat'].median():.3f} in the median and "
        f"{fits['r_hat'].max():.2f} at worst ({apart} above 1.05); the least effective sample size {fits['ess'].median():.0f} in "
        f"the median, {fits['ess'].min():.0f} at worst."
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
        f"### Number and sizes of clusters\n\n![Number of clusters, and their sizes](iris-sizes.png)\n\n*dual-DP with {SIZES_AT} "
        f"threads (the paper's Fig. 10).*\n\nNumber of clusters with posterior probability: {listed}. Mean sizes from the largest: "
        f"{sizes}."
    )


def cost(found: Findings) -> Section:
    """Autocorrelation times beside the paper's, and CPU time."""
    by_model = {o.cell.model: o for o in found.outcomes if "autocorrelation" in o.extras}
    rows = []
    for model, outcome in by_model.items():
        times: dict[str, dict[str, Any]] = outcome.extras["autocorrelation"]
        slowest = max(times, key=lambda name: times[name]["time"] or 0.0)
        for name in dict.fromkeys([slowest, "behavior.base_mean"]):
            if name in times:
                rows.append([model, name, *_time_cells(times[name])])
    frame = found.frame.assign(per_iteration=found.frame["cpu_seconds"] / found.frame["n_iterations"])
    dual = frame[frame["model"] == "dual-DP"].sort_values("n_users")
    drawn = {}
    if "dual-DP" in by_model:
        drawn["cost.png"] = figures.cost(by_model["dual-DP"].extras["autocorrelation"], dual)
    paper_time, paper_size, hours = (published.number(n) for n in ("autocorrelation_time", "effective_sample_size", "hours"))
    iterations = published.number("iterations")
    effort = found.plan.cost_effort
    seconds = [[row.model, str(row.n_users), f"{1e3 * row.per_iteration:.3f}"] for row in frame.itertuples()]
    fifty = dual[dual["n_users"] == 50]["per_iteration"]
    faster = f"{hours * 3600 / iterations / fifty.iloc[0]:.0f} times" if len(fifty) else "many times"
    text = f"""## Cost

![Autocorrelation times and CPU time](cost.png)

One chain of the agreement scenario, 50 users and 100 threads, {effort.n_warmup:,} iterations to warm up and {effort.n_draws:,}
kept. The paper's τ = 1 + 2 Σ |ρ_n| over 1000 lags counts noise as correlation: white noise of the same length has the τ in the
column beside it, so a τ near that value says nothing but "no correlation found". The autocorrelation time is draws over effective
sample size.

{table(["model", "quantity", "autocorrelation time", "bulk ESS", "tail ESS", "paper's τ", "τ of white noise"], rows)}

The paper's slowest quantity is the base mean of the behaviour view with τ = {paper_time:.0f}, for which it counts
{paper_size:.0f} independent samples in 15,000 draws.

{table(["model", "users", "CPU ms per iteration"], seconds)}

The paper reports about {hours:.0f} hours for {iterations:,.0f} iterations at this size, {1e3 * hours * 3600 / iterations:.0f} ms an
iteration, in R on a laptop of its time: an iteration here takes a {faster.replace(" times", "th")} of that, one core of another machine."""
    return Section(text, drawn)


def _time_cells(times: dict[str, Any]) -> list[str]:
    names = ("time", "ess_bulk", "ess_tail", "paper_tau", "white_noise_tau")
    return [f"{times[name]:.1f}" if times[name] is not None else "–" for name in names]


def models(found: Findings) -> Section:
    """Table 1 with all seven models run."""
    parts = ["## All seven models (Table 1)", "The paper's Table 1 lists seven models and compares three. All of them:"]
    rows = []
    for name, kind in MODELS.items():
        part = found.frame[found.frame["model"] == name]
        cells = ["yes" if kind.features else "no", "yes" if kind.behavior else "no"]
        rows.append([name, *cells, {"inferred": "∞", "true": "fixed", "one": "1"}[kind.clusters], str(len(part))])
    parts.append(table(["model", "features", "behaviours", "clusters", "fits"], rows))
    parts.append("![Seven models](models.png)")
    for score, words in (("nll", "test NLL"), ("ari", "adjusted Rand index")):
        for scenario_name in dict.fromkeys(found.frame["scenario"]):
            part = found.frame[found.frame["scenario"] == scenario_name]
            parts.append(f"{scenario_name}, {words} by threads:\n\n{pivot(part, 'model', 'n_threads', score, 'model')}")
    parts.append(_latent_against_single(found.frame))
    parts.append(convergence(found.frame))
    last = found.frame[found.frame["n_threads"] == found.plan.few_sizes[-1]]
    return Section("\n\n".join(parts), {"models.png": figures.groups(last, "model", ("nll", "ari"))})


def _latent_against_single(frame: pd.DataFrame) -> str:
    means = frame.groupby("model")["nll"].mean()
    gaps = {name: means["single"] - means[name] for name in ("latent-IGMM", "latent-GMM", "dual-DP") if name in means}
    if "single" not in means or not gaps:
        return ""
    listed = ", ".join(f"{name} {gap:+.3f}" for name, gap in gaps.items())
    return (
        'The paper left the latent mixtures out as "very similar" to the single model. NLL gained over the single model, mean over '
        f"scenarios and sizes: {listed}."
    )


def information(found: Findings) -> Section:
    """Predictive intervals and similarity matrices where a view lacks information."""
    drawn, rows = {}, []
    by_place = {(o.cell.scenario, o.cell.n_users, o.cell.n_threads): o for o in found.outcomes if o.extras}
    for name in ("disagreement", "iris"):
        places = [place for place in INFORMATION if place[0] == name and place in by_place]
        titles = [(f"{users} users, {threads} threads", by_place[name, users, threads].extras) for _, users, threads in places]
        if titles:
            drawn[f"information-{name}.png"] = figures.information(titles)
    for (name, users, threads), outcome in by_place.items():
        extra = outcome.extras["predictions"]
        inside = sum(low <= y <= high for y, (low, high) in zip(extra["outcome"], extra["most"], strict=True))
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

dual-DP on the paper's Fig. 5 (disagreement) and Fig. 9 (iris): above, test outcomes with predictive intervals; below, how often two
users are together, users sorted by true cluster, lines between true clusters.

![Disagreement](information-disagreement.png)

![Iris](information-iris.png)

{table(header, rows)}"""
    return Section(text, drawn)


def starts(found: Findings) -> Section:
    """The two initialisations, and the number of auxiliary components."""
    parts = [
        "## Where chains start, and auxiliary components",
        f"dual-DP with {FEW_THREADS} threads: everybody in one cluster or k-means with 10, and 3, 4 or 5 auxiliary components. A "
        "sampler that has forgotten its start gives the same numbers in every row.",
        "![Starts](starts.png)",
    ]
    for score, words in (("nll", "test NLL"), ("ari", "adjusted Rand index"), ("n_clusters", "mean number of clusters")):
        parts.append(pivot(found.frame, "variant", "scenario", score, words))
    for score, words in (("r_hat", "largest R-hat"), ("ess", "least effective sample size"), ("cpu_seconds", "CPU seconds")):
        parts.append(pivot(found.frame, "variant", "scenario", score, words))
    return Section("\n\n".join(parts), {"starts.png": figures.groups(found.frame, "variant", ("nll", "ari"))})


def sensitivity(found: Findings) -> Section:
    """Scale of the constants by new fits, α's prior by weighting draws."""
    frame = found.frame.assign(variant=found.frame["variant"].replace("", "as it is"))
    rows = []
    for name in dict.fromkeys(frame["scenario"]):
        extras = [o.extras["alpha_prior"] for o in found.outcomes if o.cell.scenario == name and "alpha_prior" in o.extras]
        for scale in ALPHA_SCALES:
            values = [extra[str(scale)] for extra in extras]
            means = [sum(v[key] for v in values) / len(values) for key in ("nll", "n_clusters", "effective_share")]
            rows.append([name, f"{scale:g}", f"{means[0]:.3f}", f"{means[1]:.2f}", f"{means[2]:.0%}"])
    tables = "\n\n".join(
        pivot(frame, "variant", "scenario", score, words)
        for score, words in (("nll", "test NLL"), ("ari", "adjusted Rand index"), ("n_clusters", "mean number of clusters"))
    )
    text = f"""## Prior sensitivity

dual-DP with {FEW_THREADS} threads, the covariance of one view's constants taken a quarter and four times as large as the data give it.

![Prior sensitivity](sensitivity.png)

{tables}

The library has no setting for α's prior, 1/α ~ G(1, 1). Draws of another prior, 1/α ~ G(1, s), can be had from the same fits all the
same: each draw is weighted by the ratio of the two priors at its α, which is exact up to Monte-Carlo error. The last column is the
effective share of draws after weighting.

{table(["scenario", "s", "test NLL", "mean number of clusters", "effective draws"], rows)}

{convergence(frame)}"""
    return Section(text, {"sensitivity.png": figures.groups(frame, "variant", ("nll", "ari"))})


def _changed(title: str, words: str, file: str) -> Callable[[Findings], Section]:
    """Other features at a few sizes: who predicts better, and by how much."""

    def section(found: Findings) -> Section:
        nll = averages(found.frame, ["model", "n_threads"], "nll")
        sentences = []
        for model in ("dual-DP", "dual-fixed"):
            gaps = []
            for n in found.plan.few_sizes:
                pair = [nll[(nll["model"] == m) & (nll["n_threads"] == n)] for m in ("single", model)]
                if all(len(part) for part in pair):
                    gaps.append(f"{pair[0]['mean'].iloc[0] - pair[1]['mean'].iloc[0]:+.3f} at {n}")
            sentences.append(f"NLL that {model} gains over the single model, by threads: {', '.join(gaps)}.")
        parts = [
            f"## {title}",
            words,
            f"![{title}]({file})",
            pivot(found.frame, "n_threads", "model", "nll", "threads, test NLL"),
            pivot(found.frame, "n_threads", "model", "ari", "threads, ARI"),
            " ".join(sentences),
            convergence(found.frame),
        ]
        drawn = {file: figures.lines(found.frame, "n_threads", "training threads", ("nll", "ari"))}
        return Section("\n\n".join(parts), drawn)

    return section


def overlap(found: Findings) -> Section:
    """Clusters of features that come closer together."""
    frame = found.frame[found.frame["model"] != "single"]
    frame = frame.assign(radius=[float(text.removeprefix("radius ")) for text in frame["variant"]])
    single = found.frame[found.frame["model"] == "single"]["nll"].mean()
    text = f"""## More overlap

The agreement scenario with {FEW_THREADS} threads and a smaller circle of feature means; a cluster's features have a standard
deviation of 0.1. The single model, which does not see the features, has a test NLL of {single:.3f}.

![More overlap](overlap.png)

{pivot(frame, "radius", "model", "nll", "radius, test NLL")}

{pivot(frame, "radius", "model", "ari", "radius, ARI")}

{convergence(found.frame)}"""
    return Section(
        text, {"overlap.png": figures.lines(frame, "radius", "radius of the circle of feature means", ("nll", "ari"))}
    )


def shapes(found: Findings) -> Section:
    """Clusters of features that are not Gaussian."""
    frame = found.frame[found.frame["model"] != "single"]
    single = found.frame[found.frame["model"] == "single"]["nll"].mean()
    text = f"""## Clusters that are not Gaussian

The agreement scenario with {FEW_THREADS} threads and other shapes of clusters in the features: bananas, rings inside each other
around one centre, and heavy tails (Student's t with two degrees of freedom). The single model has a test NLL of {single:.3f}.

![Shapes](shapes.png)

{pivot(frame, "variant", "model", "nll", "features, test NLL")}

{pivot(frame, "variant", "model", "ari", "features, ARI")}

{pivot(frame, "variant", "model", "n_clusters", "features, mean number of clusters")}

{convergence(found.frame)}"""
    return Section(text, {"shapes.png": figures.groups(frame, "variant", ("nll", "ari"))})


def users(found: Findings) -> Section:
    """10 to 100 users at a fixed number of threads."""
    parts = ["## Users", f"10 to 100 users with {FEW_THREADS} training threads.", "![Users](users.png)"]
    for name in dict.fromkeys(found.frame["scenario"]):
        part = found.frame[found.frame["scenario"] == name]
        parts.append(pivot(part, "n_users", "model", "nll", f"users ({name}), test NLL"))
        parts.append(pivot(part, "n_users", "model", "ari", f"users ({name}), ARI"))
    parts.append(convergence(found.frame))
    return Section(
        "\n\n".join(parts), {"users.png": figures.lines(found.frame, "n_users", "users", ("nll", "ari"), "scenario")}
    )


def baselines(found: Findings) -> Section:
    """Clusterings and regressions of scikit-learn beside the three models."""
    frame = found.frame
    last = found.plan.few_sizes[-1]
    clustering = frame[frame["model"].isin([*CLUSTERINGS, "dual-DP", "dual-fixed"]) & (frame["n_threads"] == last)]
    regression = frame[~frame["model"].isin(CLUSTERINGS)]
    regressions = "\n\n".join(
        f"{name}:\n\n{pivot(regression[regression['scenario'] == name], 'model', 'n_threads', 'nll', 'test NLL by threads')}"
        for name in dict.fromkeys(frame["scenario"])
    )
    features, both = (published.number(n) for n in ("em_ari_features", "em_ari_features_and_coefficients"))
    text = f"""## Baselines

Clusterings by scikit-learn of the features, or of the features and the true coefficients ("both"), columns standardised: EM with the
true number of clusters, a Bayesian mixture with up to 10 components, k-means with the true number. Regressions: ridge with its
penalty by leaving one thread out (its deviation likewise), and Bayesian ridge. dual-DP and dual-fixed at {last} threads beside them.

![Baselines](baselines.png)

{pivot(clustering, "model", "scenario", "ari", "adjusted Rand index")}

The paper's EM on its own 50 flowers gave {features:.2f} on the features and {both:.2f} on both; other flowers give other values.

{regressions}"""
    return Section(text, {"baselines.png": figures.groups(clustering, "model", ("ari",))})


SECTIONS: dict[str, Callable[[Findings], Section]] = {
    "agreement": scenario("agreement"),
    "disagreement": scenario("disagreement"),
    "iris": scenario("iris"),
    "cost": cost,
    "models": models,
    "information": information,
    "starts": starts,
    "sensitivity": sensitivity,
    "randomised": _changed(
        "Features randomised against behaviours",
        "The agreement scenario with its features dealt to other users at random: five clear clusters in the features that have "
        "nothing to do with those of the coefficients. The paper expects the dual models to predict worse than the single one, "
        "unless threads are many.",
        "randomised.png",
    ),
    "unstructured": _changed(
        "Features without clusters",
        "The agreement scenario with all features from one Gaussian. The paper says that all three models then predict alike.",
        "unstructured.png",
    ),
    "overlap": overlap,
    "shapes": shapes,
    "users": users,
    "baselines": baselines,
}

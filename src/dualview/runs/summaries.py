"""Finished runs in tables, words and pictures: users.csv, the summary, and plots."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dualview.files.writing import make_folder, write_whole
from dualview.mixture import DualViewMixture
from dualview.posterior import Posterior
from dualview.posterior.partition import crosstab
from dualview.posterior.partition.certainty import certainty_text
from dualview.posterior.partition.profiles import mean_latent, table_profile


def user_table(model: DualViewMixture) -> pd.DataFrame:
    """A row per user: id, cluster, probability of membership, latent coefficient with interval."""
    post = model.posterior_
    table = pd.DataFrame(
        {
            "user": post.user_ids,
            "cluster": model.labels_,
            "membership": post.partition_estimate().membership,
        }
    )
    if "z_behavior" in post:
        table["behavior_cluster"] = model.behavior_labels_
        table["acts_otherwise"] = (post.flat("z") != post.flat("z_behavior")).mean(axis=0)
    if "latent" in post:
        shape = len(post.user_ids), len(post.latent_names)
        medians, intervals = (
            model.latent_.reshape(shape),
            post.interval("latent", 0.95).reshape(*shape, 2),
        )
        for j, name in enumerate(post.latent_names):
            prefix = "latent" if len(post.latent_names) == 1 else f"latent.{name}"
            table[f"{prefix}_median"] = medians[:, j]
            table[f"{prefix}_low"], table[f"{prefix}_high"] = intervals[:, j].T
    return table


def summarize(model: DualViewMixture) -> dict[str, Any]:
    """Clusters, sizes, profiles and the verdict on convergence, as plain values."""
    post = model.posterior_
    estimate = post.partition_estimate()
    clusters = [
        _profile(post, model, cluster, estimate.membership) for cluster in range(model.n_clusters_)
    ]
    return {
        "users": post.n_users,
        "chains": post.n_chains,
        "draws_per_chain": post.n_draws,
        "length": None if post.length is None else post.length._asdict(),
        "clusters": clusters,
        "certainty": certainty_text(post.flat("z"), estimate),
        "agreement": crosstab.text(post),
        "clusters_in_an_average_draw": float(post["n_clusters"].mean()),
        "alpha_prior": post.spec.alpha_prior,
        "converged": post.converged,
        "verdict": post.verdict(),
    }


def _profile(
    post: Posterior, model: DualViewMixture, cluster: int, membership: Any
) -> dict[str, Any]:
    members = np.flatnonzero(model.labels_ == cluster)
    typical = members[np.argsort(-membership[members], kind="stable")][:5]
    profile: dict[str, Any] = {
        "cluster": cluster,
        "size": len(members),
        "typical_users": [post.user_ids[u] for u in typical],
    }
    if post.features is not None:
        means = post.features[members].mean(axis=0)
        profile["feature_means"] = {
            name: float(mean) for name, mean in zip(post.feature_names, means, strict=True)
        }
    elif post.has_features:
        profile |= table_profile(post, members)
    if "latent" in post:
        profile["latent"] = _latent_of(post, members)
    return profile


def _latent_of(post: Posterior, members: Any) -> dict[str, Any]:
    """The mean latent coefficient of a cluster's users with its interval; by name, where each user
    has several."""
    draws = post.flat("latent").reshape(-1, post.n_users, len(post.latent_names))
    found = [mean_latent(draws[..., part], members) for part in range(draws.shape[2])]
    texts = [{"median": mean.median, "low": mean.low, "high": mean.high} for mean in found]
    return texts[0] if len(texts) == 1 else dict(zip(post.latent_names, texts, strict=True))


def _table_text(cluster: dict[str, Any]) -> str:
    """Medians, and the most frequent level of each nominal column."""
    parts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in cluster.get("feature_medians", {}).items()
    ]
    for name, shares in cluster.get("level_shares", {}).items():
        level = max(shares, key=shares.__getitem__)
        if shares[level] > 0:
            parts.append(f"{name} {level} ({shares[level]:.0%})")
    return "; " + ", ".join(parts) if parts else ""


def summary_text(summary: dict[str, Any]) -> str:
    """The summary for a reader."""
    lines = [
        f"{summary['users']} users in {len(summary['clusters'])} clusters "
        f"({summary['clusters_in_an_average_draw']:.1f} in an average draw); "
        f"{summary['chains']} chains of {summary['draws_per_chain']} "
        f"draws{_length_text(summary['length'])}."
    ]
    if summary["alpha_prior"] is not None:
        lines.append(f"Prior of the concentration alpha: {summary['alpha_prior']}.")
    for cluster in summary["clusters"]:
        line = (
            f"  cluster {cluster['cluster']}: {cluster['size']} users, such as "
            f"{', '.join(cluster['typical_users'])}"
        )
        if "latent" in cluster:
            line += _latent_text(cluster["latent"])
        if "feature_means" in cluster:
            line += "; " + ", ".join(
                f"{name} {mean:.4g}" for name, mean in cluster["feature_means"].items()
            )
        line += _table_text(cluster)
        lines.append(line)
    verdict = summary["verdict"].replace("(n_warmup, n_draws)", "(--warmup, --draws)")
    verdict = verdict.replace("(max_time, max_draws)", "(--max-time, --max-draws)")
    certain = [text for name in ("certainty", "agreement") if (text := summary[name]) is not None]
    return "\n".join(
        [*lines, *certain, verdict.replace("plots.traces", "the pictures of 'dualview plot'")]
    )


def _latent_text(latent: dict[str, Any]) -> str:
    """The latent coefficient of a cluster, or each of them by name."""
    single = set(latent) == {"median", "low", "high"} and not isinstance(latent["median"], dict)
    named = (
        {"latent": latent} if single else {f"latent {name}": mean for name, mean in latent.items()}
    )
    texts = [
        f"{name} {mean['median']:.4g} ({mean['low']:.4g} to {mean['high']:.4g})"
        for name, mean in named.items()
    ]
    return "; " + ", ".join(texts)


def _length_text(length: dict[str, Any] | None) -> str:
    """How long chains were that were not of fixed length, and what ended them before they had
    converged."""
    if length is None or length["ended"] == "length":
        return ""
    ended = {
        "max_time": "; the time ran out",
        "max_draws": "; the limit of draws was reached",
        "interrupted": "; interrupted",
    }
    return (
        f", {length['stride']} iterations apart, after {length['n_warmup']:,} of "
        f"{length['n_iterations']:,} iterations as "
        f"warm-up{ended.get(length['ended'], '')}"
    )


def plot_run(model: DualViewMixture, folder: Path) -> list[Path]:
    """Every picture that the run has data for, as PNG files in a folder."""
    from dualview import plots

    plots.require_matplotlib()
    import matplotlib.pyplot as plt

    post = model.posterior_
    pictures: dict[str, Any] = {
        "clusters": lambda: plots.clusters(post)[0],
        "traces": lambda: plots.traces(post)[0, 0],
    }
    if post.n_users <= 5000:
        pictures["similarity"] = lambda: plots.similarity(post)
    if "features" in post.spec.units and len(post.feature_names) > 1:
        pictures["features"] = lambda: plots.features(model)
    if post.spec.codebook is not None and any(
        column.levels for column in post.spec.codebook.columns if column.kind != "ignore"
    ):
        pictures["levels"] = lambda: plots.levels(post)[0]
    if "latent" in post:
        pictures["latent"] = lambda: _latent_picture(model)
    make_folder(folder)
    for name, draw in pictures.items():
        figure = draw().figure
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=120, bbox_inches="tight")
        plt.close(figure)
        write_whole(folder / f"{name}.png", content.getvalue())
    return [folder / f"{name}.png" for name in pictures]


def _latent_picture(model: DualViewMixture) -> Any:
    """A panel for each part of the latent vectors, one above the other."""
    from dualview import plots
    from dualview.plots.canvas import panels

    n_parts = len(model.posterior_.latent_names)
    column = panels(None, n_parts, 1, (6.4, 4.8 * n_parts))[:, 0]
    for part, ax in enumerate(column):
        plots.latent(model, ax, part=part)
    return column[0]

"""Finished runs in tables and pictures: users.csv, and plots."""

from pathlib import Path
from typing import Any

import pandas as pd

from dualview.files.writing import make_folder, write_whole
from dualview.mixture import DualViewMixture


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


def plot_run(model: DualViewMixture, folder: Path) -> list[Path]:
    """Every picture that the run has data for, as PNG files in a folder."""
    from dualview import plots

    plots.require_matplotlib()
    import matplotlib.pyplot as plt

    from dualview.plots.canvas import png_of

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
        write_whole(folder / f"{name}.png", png_of(figure, 120, bbox_inches="tight"))
        plt.close(figure)
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

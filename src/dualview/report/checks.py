"""The section on whether the chains can be trusted."""

import re
from typing import Any

import numpy as np

from dualview.posterior import Posterior, diagnostics
from dualview.report.pictures import chain_lines
from dualview.words import report as words
from dualview.words.numbers import number
from dualview.words.report import Vocabulary

_FIRST = ("n_clusters", "log alpha", "discount", "log noise_precision", "mean latent", "log_joint")
_MOST_ROWS = 10
_ANCHORS = 20  # users whose latent coefficients are looked at


def diagnostics_section(post: Posterior, called: Vocabulary) -> dict[str, Any]:
    """The verdict, and a row per quantity: those that every run has, then those that are farthest
    from converged."""
    scalars = post.scalars(_ANCHORS)
    table = diagnostics.table(scalars, brief=True)
    worst = table["r_hat"].sort_values(ascending=False, na_position="first").index
    first = [name for usual in _FIRST for name in table.index if str(name).split("[")[0] == usual]
    chosen = [*first, *(name for name in worst if name not in first)][: max(_MOST_ROWS, len(first))]
    rows = []
    for name in chosen:
        row = table.loc[name]
        rows.append(
            {
                "name": _readable(str(name), post, called),
                "mean": number(float(row["mean"])),
                "r_hat": f"{row['r_hat']:.2f}"
                if np.isfinite(row["r_hat"])
                else number(float(row["r_hat"])),
                "ess": number(float(row[["ess_bulk", "ess_tail"]].min())),
                "trace": chain_lines(scalars[str(name)]),
            }
        )
    return {
        "converged": post.converged,
        "headline": words.verdict_headline(
            post.converged,
            post.approximation is not None,
            diagnostics.settled_text(post.settled),
        ),
        "verdict": post.verdict(),
        "rows": rows,
        "note": words.diagnostics_note(
            len(table), len(rows), post.n_chains, post.approximation is not None
        ),
    }


def _readable(name: str, post: Posterior, called: Vocabulary) -> str:
    """The name in the words of the report."""
    plain = {
        "n_clusters": "number of roles",
        "log alpha": "concentration α (log)",
        "discount": "discount",
        "log noise_precision": "noise precision (log)",
        "mean latent": f"mean {called.power}",
        "log_joint": "log joint density",
    }
    if name in plain:
        return plain[name]
    if mean := re.fullmatch(r"mean latent\[(.+)\]", name):
        return f"mean {called.power} of {mean[1]}"
    if one := re.fullmatch(r"latent\[(.+)\]", name):
        parts = post.latent_names
        if len(parts) == 1:
            return f"{called.power} of {one[1]}"
        part = next(part for part in parts if one[1].endswith(f", {part}"))
        return f"{part} of {one[1].removesuffix(f', {part}')}"
    if pair := re.fullmatch(r"users (.+) together", name):
        return f"{pair[1]} in one role"
    if own := re.fullmatch(r"(\w+)\.(\w+)\[(\d+)\]", name):
        for block in post.blocks:
            text = block.scalar_text(own[2], int(own[3])) if block.view == own[1] else None
            if text is not None:
                return text
    if base := re.fullmatch(r"(log )?(features|behavior)\.(\w+?)(?:\[(\d+)\])?", name):
        what = {"features": "the features", "behavior": called.powers}[base[2]]
        if base[4] is not None:
            what = (post.feature_names if base[2] == "features" else post.latent_names)[
                int(base[4])
            ]
        return (
            f"{base[3].replace('_', ' ').replace('dof', 'degrees of freedom')} of "
            f"{what}{' (log)' if base[1] else ''}"
        )
    return name

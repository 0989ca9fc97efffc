"""The notebook display of a posterior: scalars with their intervals, the shapes of everything else,
and the verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.files.html import small_table

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

_PARTS = 8  # of latent vectors that have their names shown


def posterior_table(post: "Posterior") -> str:
    """The posterior as a small HTML table, a row for each name."""
    title = f"Posterior: {post.n_chains} chains × {post.n_draws:,} draws, {post.n_users:,} users"
    rows = [
        (name, *_cells(post[name], post.latent_names if name == "latent" else ()))
        for name in post.names
    ]
    return small_table(
        title, rows, ("", "axes after chain and draw", "median", "95 % interval"), post.verdict()
    )


def _cells(values: NDArray[Any], parts: Sequence[str] = ()) -> tuple[str, str, str]:
    """Shape, with the names of the parts along the last axis, median and interval of draws (chain,
    draw, …).

    Only scalars have the last two.
    """
    if values.ndim > 2:
        named = (
            f" ({', '.join(parts[:_PARTS])}{', …' if len(parts) > _PARTS else ''})"
            if len(parts) > 1
            else ""
        )
        return " × ".join(f"{n:,}" for n in values.shape[2:]) + named, "", ""
    low, median, high = np.quantile(values, (0.025, 0.5, 0.975))
    return "", f"{median:.4g}", f"{low:.4g} to {high:.4g}"

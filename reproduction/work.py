"""The work of one cell: draw its forum, fit its model, measure."""

import time
import warnings
from typing import Any

from dualview.errors import ConvergenceWarning
from reproduction.baselines import BASELINES, measure_baseline
from reproduction.cells import Cell
from reproduction.extras import EXTRAS
from reproduction.forums import forum_of
from reproduction.models import compile_first, fit
from reproduction.scores import measure


def run_cell(cell: Cell) -> dict[str, Any]:
    """Scores, extras and warnings of a cell. Slow convergence is no warning here: r_hat and ess are
    among the scores."""
    forum = forum_of(cell)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        if cell.model in BASELINES:
            scores, extras = measure_baseline(cell.model, forum, cell.sampler_seed % 2**31), {}
        else:
            compile_first(
                cell.model, str(linked) if (linked := dict(cell.fit).get("link")) else None
            )
            began = time.process_time()
            model = fit(cell, forum)
            seconds = time.process_time() - began
            scores = measure(model, forum) | {
                "cpu_seconds": seconds,
                "n_iterations": float(cell.effort.n_iterations),
            }
            extras = {name: EXTRAS[name](model, forum) for name in cell.extras}
    texts = sorted(
        {
            f"{warning.category.__name__}: {' '.join(str(warning.message).split())}"
            for warning in caught
        }
    )
    return {"scores": scores, "extras": extras, "warnings": texts}

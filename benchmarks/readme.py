"""The table of the README, from a run of ``dualview forum --example``.

    python -m benchmarks.readme RUN

prints how well the model and its competitors predict the later threads. ``make readme`` makes the
run, too, and puts the table in place.
"""

import json
import sys
from pathlib import Path
from typing import Any


def table(evaluation: dict[str, Any]) -> str:
    """Scores as Markdown, a row per model, and the verdict below."""
    rows = [["model", "NLL", "R²", "inside 95 % intervals"], ["---", "---:", "---:", "---:"]]
    for score in evaluation["scores"]:
        inside = f"{100 * score['coverage']['0.95']:.0f} %"
        rows.append([score["words"], f"{score['nll']:.3f}", f"{score['r2']:.3f}", inside])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    print(table(json.loads((Path(sys.argv[1]) / "evaluation.json").read_text(encoding="utf-8"))))

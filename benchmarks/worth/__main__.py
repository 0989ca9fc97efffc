"""Is it worth it? ``python -m benchmarks.worth [--sets NAME …] [--keep FOLDER] [--page
docs/worth.md]``.

Eight public sets of users with features and repeated observations. Predicts held-out observations
of known users, and those of new users of whom 0, 1, 3 or 10 observations are known, by dualview and
by five rivals. Prints tables as Markdown; with --page it puts them into a page, and with --csv it
writes the scores. The sets come with ``pip install 'dualview[examples]'``.
"""

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paste import pasted
from benchmarks.worth.run import kept_run
from benchmarks.worth.sets import SETS
from benchmarks.worth.tables import Results, markdown, rows


def _csv(results: Results) -> str:
    table = list(rows(results))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worth", description="Predictions on eight public sets."
    )
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--folds", type=int, default=3, help="parts of the users; each is new once")
    parser.add_argument("--seed", type=int, default=0, help="of folds and of what is held out")
    parser.add_argument(
        "--keep", type=Path, help="a folder for finished sets: to continue, or to print again"
    )
    parser.add_argument("--csv", type=Path, help="a file for the scores")
    parser.add_argument("--page", type=Path, help="a page whose tables are renewed")
    plan = parser.parse_args(arguments)
    studies = [SETS[name]() for name in plan.sets]
    results = {study.name: kept_run(study, plan.folds, plan.seed, plan.keep) for study in studies}
    tables = markdown(studies, results)
    for name, table in tables.items():
        print(f"{name}\n\n{table}")
    if plan.csv is not None:
        plan.csv.write_text(_csv(results), encoding="utf-8")
    if plan.page is not None:
        text = plan.page.read_text(encoding="utf-8")
        for name, table in tables.items():
            text = pasted(text, f"worth {name}", table)
        plan.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

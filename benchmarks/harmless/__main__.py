"""Is it harmless? ``python -m benchmarks.harmless --out FILE [--sets NAME ...] [--forum NAME POSTS
OPTION=VALUE ...]``.

For each public set of ``benchmarks.worth`` and each forum, on three splits: held-out outcomes of
known users with data as they are, with features permuted among users, and with outcomes permuted
among observations. With features permuted no model should be worse than the single model, which
sees none; with outcomes permuted, none should be worse than the mean.

Fits have default settings and run until their verdict passes, or to --max-time. With --out
table.md, the table so far is in table.md. Results are kept in table.csv as they finish, and fits in
table.fits until their stack has passed: the same command continues after an interruption, and takes
up fits that did not pass if it gives them more time. A forum's name stands for its file and
options: give others another name. ``python -m benchmarks.paste docs/harmless.md harmless <
table.md`` puts the table into the page.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.forums import add_forums
from benchmarks.harmless.controls import CONTROLS
from benchmarks.harmless.rows import Kept
from benchmarks.harmless.run import MODELS, Plan, run
from benchmarks.harmless.tables import markdown
from benchmarks.harmless.trials import Forum, PublicSet, Source
from benchmarks.worth.sets import SETS
from dualview.files.writing import write_whole


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.harmless",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="for the table")
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--controls", nargs="+", choices=list(CONTROLS), default=list(CONTROLS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--splits", type=int, default=3, help="number of splits")
    parser.add_argument("--max-time", type=float, help="seconds of a fit; no limit by default")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time, a core each")
    add_forums(parser, required=False)
    parser.add_argument("--users", type=int, default=100, help="of a forum, about this many")
    parser.add_argument(
        "--threads", type=int, default=1000, help="training threads of a forum, at most a half"
    )
    asked = parser.parse_args(arguments)
    names = [*asked.sets, *(words[0] for words in asked.forum or ())]
    if len(set(names)) < len(names):
        parser.error(f"Sets and forums must have different names; got {', '.join(names)}.")
    sources: list[Source] = [PublicSet(name) for name in asked.sets]
    sources += [Forum(tuple(words), asked.users, asked.threads) for words in asked.forum or ()]
    folder = asked.out.with_suffix(".fits")
    plan = Plan(
        sources, asked.controls, asked.models, asked.splits, asked.max_time, folder, asked.jobs
    )
    kept = Kept(asked.out.with_suffix(".csv"))
    run(plan, kept, lambda: write_whole(asked.out, markdown(kept.rows).encode()))
    write_whole(asked.out, markdown(kept.rows).encode())
    print(asked.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated."))  # ends the workers as well
    main()

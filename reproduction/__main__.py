"""The paper's experiments: ``python -m reproduction [STUDY ...] --out FOLDER [--quick]``.

Writes results.csv, figures and report.md, with the published numbers beside the new ones. If it is
killed, the same command continues. "all" takes about 40 minutes of CPU time, divided by the number
of cores; --quick takes about two, and the very first run one more for compiling.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dualview.errors import DualViewError
from reproduction.reproduce import run
from reproduction.studies import ALL, STUDIES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 after an error or 130 after Ctrl-C, with a line
    on standard error."""
    parser = argparse.ArgumentParser(
        "python -m reproduction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    studies = ", ".join(name for name in STUDIES if name not in ALL)
    parser.add_argument(
        "names",
        nargs="*",
        default=["all"],
        metavar="STUDY",
        help=f"all (= {' '.join(ALL)}; the default), or any of these and {studies}",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for the results; later studies can use the same folder",
    )
    parser.add_argument(
        "--quick", action="store_true", help="few sizes, two repetitions, short chains"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the data and of the sampler; the same seed gives the same results",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=-1,
        help="fits to run in parallel; by default as many as there are cores",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the results, no progress")
    asked = vars(parser.parse_args(arguments))
    try:
        run(asked.pop("names"), asked.pop("out"), **asked)
    except (DualViewError, OSError) as error:
        print(f"reproduction: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"reproduction: stopped: {error}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line.

A command is a plain function in ``COMMANDS``; its docstring is its help, and it calls one function of the package. Heavy
imports stay inside. Results go to standard output, progress and errors to standard error.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dualview import __version__
from dualview.errors import DualViewError


def demo(
    *,
    out: Path = Path("demo"),
    seed: int = 0,
    users: int = 50,
    threads: int = 100,
    draws: int = 2000,
    quiet: bool = False,
) -> None:
    """Fit a made-up forum whose truth is known, and show what was found.

    Writes picture.png, report.md and users.csv. Takes about a minute the first time, most of it for compiling.

    Example: dualview demo --out demo --seed 0

    Parameters
    ----------
    out
        Folder for the results.
    seed
        Of the data and of the sampler: the same seed gives the same results.
    users
        Users of the forum, in five clusters.
    threads
        Threads to learn from. 100 more are kept for the test.
    draws
        Draws to keep of each of two chains, after half as many to warm up.
    quiet
        Print results only, no progress.
    """
    from dualview.demo import run

    run(out, seed, users, threads, draws, quiet)


COMMANDS: tuple[Callable[..., None], ...] = (demo,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, or 2 with a line on standard error."""
    try:
        import cyclopts
    except ImportError:
        return _complain("The command line needs cyclopts, which is not installed: pip install 'dualview[cli]'.")
    app = cyclopts.App(
        "dualview",
        help="Clusters of users from features you can see and behaviours you can only see through their effects.",
        version=__version__,
        help_format="plaintext",
        default_parameter=cyclopts.Parameter(negative=""),
    )
    for command in COMMANDS:
        app.command(command)
    tokens = sys.argv[1:] if arguments is None else arguments
    warnings.showwarning = _warn  # type: ignore[assignment]
    try:
        app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        return _complain(f"{error} Try dualview --help.")
    except (DualViewError, OSError) as error:
        return _complain(str(error))
    return 0


def _warn(message: Warning | str, *_: Any) -> None:
    """A warning as one line."""
    print(f"dualview: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _complain(message: str) -> int:
    print(f"dualview: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

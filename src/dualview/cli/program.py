"""How commands become a command line: options from records of settings, errors and warnings as one
line, exit codes."""

import io
import os
import select
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dualview import __version__
from dualview.cli.config import read_config, refuse_fractions
from dualview.cli.translation import with_options
from dualview.errors import DualViewError
from dualview.forum.columns import GivenColumns
from dualview.forum.options import ForumSettings
from dualview.settings import (
    AnswerSettings,
    Columns,
    Settings,
    column_option_name,
    option_name,
    setting,
)

if TYPE_CHECKING:
    import cyclopts

Command = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How a command that fits works."""

    jobs: int = setting(-1, "Chains to run in parallel; by default as many as there are cores.")
    quiet: bool = setting(False, "Print errors and the summary only.")


@dataclass(frozen=True, kw_only=True)
class RunSettings(WorkSettings):
    """A new run: its folder, and a file of settings, which ``cli.config`` reads."""

    out: Path = field(metadata={"help": "Folder of the run."})
    config: Path | None = setting(  # noqa: RUF009
        None,
        "TOML file with options, such as max-time = 60; the command line wins.",
    )


class Panel(NamedTuple):
    """Where the help lists the fields of a record of settings, what their options are called, and
    which of them --help shows where --help-all shows all."""

    title: str | None
    option: Callable[[str], str] = option_name
    usual: tuple[str, ...] = ()


RECORDS = {
    WorkSettings: Panel(None),
    RunSettings: Panel(None, usual=("out", "config")),
    ForumSettings: Panel(
        "Posts and outcomes",
        usual=("first", "outcome", "covariates", "min_threads", "test_share"),
    ),
    GivenColumns: Panel("Columns of the file", column_option_name),
    AnswerSettings: Panel("Answers of single users", usual=("kind", "outcome", "by")),
    Columns: Panel("Columns of the tables", column_option_name),
    Settings: Panel("Sampler", usual=("n_clusters", "engine", "max_time", "seed")),
}


class CommandLine(NamedTuple):
    """Commands by their names; ``several``: those whose options take several values; ``gone``:
    options that others had once; ``brief``: those whose --help shows only the
    usual options, with the parameters that it leaves out."""

    commands: tuple[Command, ...]
    several: tuple[Command, ...] = ()
    gone: Mapping[Command, Mapping[str, str]] = {}
    brief: Mapping[Command, tuple[str, ...]] = {}


def program(line: CommandLine, help_all: bool = False) -> "cyclopts.App":
    """The program with all its commands; their help is made from the functions themselves."""
    import cyclopts

    from dualview.cli.help import Page

    app = cyclopts.App(
        "dualview",
        help="Clusters of users, from features you can see and behavior you can see only through "
        "its effects.",
        version=__version__,
        help_flags=("--help", "-h", "--help-all"),
        help_format="markdown",
        help_formatter=Page(),
        default_parameter=cyclopts.Parameter(negative="", show_default=_shown_default),
        suppress_keyboard_interrupt=False,
        config=(read_config, refuse_fractions),
    )
    # as decorators would, if cyclopts were always there
    for place, (record, panel) in enumerate(RECORDS.items()):
        options: dict[str, Any] = {"name": "*", "name_transform": panel.option}
        if panel.title is not None:  # else the options are among the command's own
            options["group"] = cyclopts.Group(panel.title, sort_key=place)
        cyclopts.Parameter(**options)(record)
    for command in line.commands:
        several = (
            cyclopts.Parameter(consume_multiple=(1, None)) if command in line.several else None
        )
        brief: dict[str, Any] = {}
        if command in line.brief and not help_all:
            brief["help_formatter"] = Page(_unusual(command, line.brief[command]))
            brief["help_epilogue"] = f"More options: dualview {command.__name__} --help-all"
        app.command(command, default_parameter=several, **brief)
    return app


def _shown_default(value: Any) -> Any:
    """A default as the help shows it; None for one that its text says already or that says
    nothing."""
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return None if value is False or value == -1 else value


def _unusual(command: Command, left_out: Sequence[str]) -> frozenset[str]:
    """The options that --help leaves to --help-all."""
    hidden = {f"--{option_name(name)}" for name in left_out}
    for parameter in signature(command).parameters.values():
        if (panel := RECORDS.get(parameter.annotation)) is not None:
            names = {item.name for item in fields(parameter.annotation)} - {*panel.usual}
            hidden |= {f"--{panel.option(name)}" for name in names}
    return frozenset(hidden)


def run_command(line: CommandLine, tokens: Sequence[str]) -> int:
    """Run a command; returns the exit code: 0, or 2 with a line on standard error."""
    with _any_character():
        return _run(line, tokens)


def _run(line: CommandLine, tokens: Sequence[str]) -> int:
    try:
        import cyclopts
    except ImportError:
        return _complain(
            "The command line needs cyclopts, which is not installed: pip install 'dualview[cli]'."
        )
    app = program(line, help_all="--help-all" in tokens)
    called = next(
        (command for command in line.commands if tokens and command.__name__ == tokens[0]), None
    )
    more = "Try dualview --help." if called is None else f"Try dualview {called.__name__} --help."
    options = [] if called is None else options_of(called)
    warnings.showwarning = lambda message, *_, **__: _warn(message, options)
    try:
        app(
            _with_dashes(tokens),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except cyclopts.UnusedCliTokensError as error:
        unused = ", ".join(error.unused_tokens or ())
        return _complain(
            f"Unexpected: {unused}. To give an option several values, repeat it. {more}"
        )
    except cyclopts.UnknownOptionError as error:
        option = (error.token.keyword or error.token.value).split("=")[0]
        gone = {} if called is None else line.gone.get(called, {})
        said = gone.get(option.removeprefix("--"))
        return _complain(f"{error} {more}" if said is None else f"{option}: {said}")
    except cyclopts.CycloptsError as error:
        return _complain(f"{error} {more}")
    except (DualViewError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            # As a shell says of a program that the signal of a broken pipe has ended.
            return 128 + 13
        return _complain(with_options(str(error), options))
    except MemoryError as error:
        return _complain(
            f"Out of memory ({error or 'no size given'}). Use fewer users, columns or draws, or "
            "--keep summary."
        )
    except KeyboardInterrupt as error:
        return _complain(
            f"stopped: {str(error).removeprefix('stopped ')}" if str(error) else "stopped", code=130
        )
    return 0


def _with_dashes(tokens: Sequence[str]) -> list[str]:
    """Words of a command in which ``--out -`` is one, ``--out=-``: cyclopts takes a dash alone for
    an option."""
    joined: list[str] = []
    for token in tokens:
        if token == "-" and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += "=-"
        else:
            joined.append(token)
    return joined


@contextmanager
def stoppable(folder: Path) -> Iterator[None]:
    """Ctrl-C at any time says where the run is and how to continue it; for commands that fit into a
    folder."""
    try:
        yield
    except KeyboardInterrupt as error:
        if str(error):
            raise
        if not (folder / "manifest.json").exists():
            raise KeyboardInterrupt(
                f"nothing is saved in {folder} yet; the same command starts again"
            ) from None
        command = shlex.join(["dualview", "resume", str(folder)])
        raise KeyboardInterrupt(
            f"what was made is saved in {folder}; to continue: {command}"
        ) from None


@contextmanager
def _any_character() -> Iterator[None]:
    """Print what the terminal's encoding lacks as escapes, such as \\U0001f600, rather than
    fail."""
    changed = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
            changed.append(stream)
    try:
        yield
    finally:
        for stream in changed:
            with suppress(OSError, ValueError):
                stream.reconfigure(errors="strict")


def _nobody_reads() -> bool:
    """Whether the reader of standard output has left, as in ``dualview summary run | head``;
    nothing more is written then."""
    try:
        sys.stdout.flush()
        # A failed flush may have dropped what it could not write.
        if not _has_no_reader(sys.stdout.fileno()):
            return False
    except BrokenPipeError:
        pass
    except (OSError, ValueError):  # no stream of the system
        return False
    # Else Python complains when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _has_no_reader(descriptor: int) -> bool:
    """Whether a pipe has lost its reader; False where the system cannot tell."""
    if not hasattr(select, "poll"):
        return False
    asked = select.poll()
    asked.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def options_of(command: Command) -> list[str]:
    """The names of a command's options, those of its records too, as Python writes them:
    user_column for --user-column."""
    options = []
    for name, parameter in signature(command).parameters.items():
        if parameter.annotation in RECORDS:
            write = RECORDS[parameter.annotation].option
            options += [write(item.name).replace("-", "_") for item in fields(parameter.annotation)]
        elif parameter.kind is parameter.KEYWORD_ONLY:
            options.append(name)
    return options


def _warn(message: Warning | str, options: Sequence[str]) -> None:
    """A warning as one line."""
    print(f"dualview: warning: {with_options(_one_line(str(message)), options)}", file=sys.stderr)


def _complain(message: str, code: int = 2) -> int:
    print(f"dualview: {_one_line(message)}", file=sys.stderr)
    return code


def _one_line(message: str) -> str:
    """A message in one line; blanks inside its lines stay, since names of files have some."""
    return " ".join(line.strip() for line in message.splitlines() if line.strip())

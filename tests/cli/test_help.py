"""The help of the commands fits a screen and reads well at any width, and shells complete what it
lists."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dualview import cli

COMMANDS = [command.__name__ for command in cli.LINE.commands]


def shown(monkeypatch: Any, capsys: Any, *words: str, width: int = 100) -> list[str]:
    """The lines that a command prints on a terminal of some width."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out.splitlines()


def texts(lines: list[str]) -> list[str]:
    """What each line says beside the options; nothing of borders."""
    inside = [re.sub(r"^│ (.{3,}?  +|  +)?(.*)│$", r"\2", line) for line in lines]
    return ["" if line.startswith(("╭", "╰")) else line.strip() for line in inside]


def lonely(lines: list[str]) -> list[str]:
    """Words that have a line to themselves at the end of a paragraph or of an option's text."""
    own = texts(lines)
    begins = [not re.match(r"│ {5,}", line) for line in lines]  # of the text of an option
    return [
        line
        for place, line in enumerate(own)
        if len(line.split()) == 1
        and place > 0
        and own[place - 1]
        and not (lines[place].startswith("│") and begins[place])
        and (place + 1 == len(own) or not own[place + 1] or begins[place + 1])
    ]


@pytest.mark.parametrize("command", ["fit", "forum"])
def test_help_shows_a_dozen_options_and_help_all_every_one(
    command: str, monkeypatch: Any, capsys: Any
) -> None:
    found = {}
    for flag in ("--help", "--help-all"):
        text = "\n".join(shown(monkeypatch, capsys, command, flag))
        found[flag] = set(re.findall(r"│[ *]{1,4}(--[\w-]+)", text))
        assert (f"More options: dualview {command} --help-all" in text) == (flag == "--help")
    assert len(found["--help"]) == 12
    assert {"--out", "--config", "--clusters", "--seed"} <= found["--help"]
    assert found["--help"] < found["--help-all"]
    assert len(found["--help-all"]) > 40


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen(command: str, monkeypatch: Any, capsys: Any) -> None:
    lines = shown(monkeypatch, capsys, command, "--help")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("flag", ["--help", "--help-all"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_text_ends_with_a_line_of_one_word(
    command: str, flag: str, width: int, monkeypatch: Any, capsys: Any
) -> None:
    lines = shown(monkeypatch, capsys, *[command][: bool(command)], flag, width=width)
    assert lonely(lines) == []


def test_a_line_of_one_word_would_be_noticed() -> None:
    lines = [
        "Fit the model to",
        "answers.",
        "",
        "╭─ Sampler ────────────────╮",
        "│ --seed INT  Random seed, │",
        "│             always       │",
        "│ --quiet     Quiet        │",
        "╰──────────────────────────╯",
    ]
    assert lonely(lines) == ["answers.", "always"]


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of some words."""
    quoted = " ".join(f"'{word}'" for word in words)
    ask = (
        f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _dualview; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    told = subprocess.run(
        ["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    script = tmp_path / "dualview.bash"
    script.write_text("\n".join(shown(monkeypatch, capsys, "completion", "bash")) + "\n")
    assert completed(script, "dualview", "fo") == ["forum"]
    assert completed(script, "dualview", "fit", "--max-") == ["--max-time", "--max-draws"]
    assert completed(script, "dualview", "fit", "--help-a") == ["--help-all"]
    kinds = [
        "threads",
        "regression",
        "binary",
        "ordinal",
        "categorical",
        "counts",
        "survival",
        "choices",
        "rankings",
    ]
    assert completed(script, "dualview", "fit", "u.csv", "--kind", "") == kinds


@pytest.mark.parametrize(("shell", "words"), [("zsh", "#compdef dualview"), ("fish", "complete ")])
def test_other_shells_have_scripts_with_every_command(
    shell: str, words: str, monkeypatch: Any, capsys: Any
) -> None:
    text = "\n".join(shown(monkeypatch, capsys, "completion", shell))
    assert words in text
    assert not [command for command in COMMANDS if command not in text]
    assert "max-time" in text

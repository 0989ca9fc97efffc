"""The command line: files that parse, one-line errors, nothing half-written."""

import contextlib
import csv
import importlib.metadata
import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import dualview as dv
from dualview import cli, demo
from dualview.cli.program import options_of
from dualview.cli.translation import with_options
from dualview.errors import DegenerateError

TINY = ["--users", "12", "--threads", "20", "--draws", "100", "--max-draws", "200"]
TINIEST = [*TINY[:-1], "126"]
NAMES = ["picture.png", "report.md", "users.csv"]


def run(out, *arguments, sizes=TINY):
    return cli.main(["demo", "--out", str(out), *sizes, *arguments])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A folder with the results of a small demo, and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    text, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors):
        assert run(out, "--seed", "3", "--quiet") == 0
    return out, text.getvalue(), errors.getvalue()


@pytest.fixture
def done(told):
    return told[0]


def rows(folder):
    with open(folder / "users.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_demo_writes_three_files_and_nothing_else(done):
    assert sorted(os.listdir(done)) == NAMES


def test_demo_says_what_it_found_and_where_it_wrote(told):
    out, text, errors = told
    assert errors == ""
    for words in (
        "true clusters   5, sizes 3, 3, 2, 2, 2",
        "found clusters",
        "adjusted Rand",
        "dual-DP",
        "single",
        "noise alone",
        "\nsingle, ",
        " iterations per chain. ",
        "onverged: ",
    ):
        assert words in text
    for name in NAMES:
        assert str(out / name) in text


def test_users_table_is_that_of_the_fit(done):
    table = rows(done)
    forum = dv.datasets.agreement(12, 20, seed=3)
    assert [int(row["user"]) for row in table] == list(range(12))
    np.testing.assert_allclose(
        [float(row["true_latent"]) for row in table], forum.latent, rtol=1e-5
    )
    assert [int(row["true_cluster"]) for row in table] == forum.labels.tolist()
    for row in table:
        assert float(row["latent_low"]) <= float(row["latent_median"]) <= float(row["latent_high"])
    assert {int(row["cluster"]) for row in table} == set(
        range(len({row["cluster"] for row in table}))
    )


def test_report_has_the_numbers_of_the_summary(told):
    out, text, _ = told
    report = (out / "report.md").read_text()
    assert "](picture.png)" in report
    assert f"dualview {dv.__version__}" in report
    assert f"numba {importlib.metadata.version('numba')}" in report
    assert "dualview demo --seed 3 --users 12 --threads 20 --draws 100 --max-draws 200" in report
    assert re.search(r"adjusted Rand +(-?[\d.]+)", text)[1] in report
    for model in ("dual-DP", "single", "noise alone"):
        numbers = re.search(rf"^{model} +([\d.]+)(?: +(-?[\d.]+) +([\d.]+))?$", text, re.M).groups(
            default=""
        )
        assert f"| {model} | {' | '.join(numbers)} |" in report
    assert str(out) not in report


def test_report_counts_every_user(done):
    cells = re.findall(r"^\| (\d+) \| (\d+) \| (.*) \|$", (done / "report.md").read_text(), re.M)
    by_cluster = np.bincount([int(row["cluster"]) for row in rows(done)])
    assert [int(size) for _, size, _ in cells] == by_cluster.tolist()
    assert [sum(map(int, row.split(" | "))) for _, _, row in cells] == by_cluster.tolist()


def test_noise_floor_is_the_entropy_of_the_noise():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.0, np.sqrt(5.0), 200_000)
    nll = 0.5 * np.log(2 * np.pi * 5.0) + draws**2 / 10.0
    error = nll.std() / np.sqrt(len(nll))
    forum = dv.datasets.agreement(12, 20, seed=3)
    model = dv.DualViewMixture(1, n_warmup=5, n_draws=5, n_chains=1)
    model.fit(None, dv.SharedOutcome(forum.participation, forum.outcome))
    assert abs(demo._findings(forum, model, model).floor - nll.mean()) < 4.5 * error


def test_picture_is_a_png_with_two_panels_width(done):
    from matplotlib.image import imread

    height, width, _ = imread(done / "picture.png").shape
    assert width > 1.5 * height


def test_same_seed_same_files_and_old_ones_are_replaced(done, tmp_path):
    (tmp_path / "report.md").write_text("old")
    assert run(tmp_path, "--seed", "3", "--quiet") == 0
    for name in ("report.md", "users.csv"):
        assert (tmp_path / name).read_text() == (done / name).read_text()


@pytest.mark.slow
def test_as_a_process(done, tmp_path):
    command = [
        sys.executable,
        "-m",
        "dualview.cli",
        "demo",
        "--out",
        "results",
        "--seed",
        "3",
        *TINY,
    ]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "adjusted Rand" in result.stdout
    assert "\ndual-DP: 125 iterations, R-hat " in result.stderr
    assert rows(tmp_path / "results") == rows(done)


def test_progress_lines_where_there_is_no_terminal(tmp_path, capsys):
    assert run(tmp_path, sizes=TINIEST) == 0
    lines = capsys.readouterr().err.splitlines()
    for name in ("dual-DP", "single"):
        looks = [line for line in lines if line.startswith(f"{name}: ")]
        assert looks[0].startswith(f"{name}: 125 iterations, R-hat ")
        assert " effective draws" in looks[-1]


def test_progress_bar_on_a_terminal(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert run(tmp_path, sizes=TINIEST) == 0
    assert "█" in sys.stderr.getvalue()


def test_arguments_default_to_those_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dualview", "--version"])
    assert cli.main() == 0
    assert capsys.readouterr().out.strip() == dv.__version__


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments, capsys):
    assert cli.main(arguments) == 0
    assert "demo" in capsys.readouterr().out


def test_help_of_demo_has_an_example(capsys):
    assert cli.main(["demo", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example: dualview demo --out demo --seed 0" in text
    for option in ("--out", "--seed", "--users", "--threads", "--draws", "--quiet"):
        assert option in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "nonsense"),
        (["demo", "--colour", "red"], "--colour"),
        (["demo", "--seed", "many"], "--seed"),
        (["demo", "--draws", "100.7"], "Invalid value for --draws: 100.7 is no whole number."),
        (["demo", "--seed"], "--seed"),
        (["demo", "results"], "results"),
        (["demo", "--seed", "-1"], "seed must be a whole number of at least 0; got -1"),
        (["demo", "--users", "3"], "--users must be at least n_clusters = 5"),
        (["demo", "--threads", "1"], "two threads"),
        (["demo", "--draws", "0"], "--draws must be a whole number of at least 1; got 0."),
    ],
)
def test_mistakes_get_one_line_and_code_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    quiet = ["--quiet"] if arguments[0] == "demo" else []
    assert cli.main([*arguments[:1], *quiet, *arguments[1:]]) == 2
    text, errors = capsys.readouterr()
    assert text == ""
    assert errors.startswith("dualview: ")
    assert errors.count("\n") == 1
    assert words in errors
    assert os.listdir(tmp_path) == []


def test_a_process_ends_with_code_2_and_no_traceback(tmp_path):
    command = [sys.executable, "-m", "dualview.cli", "demo", "--users", "3"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("dualview: --users must be")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("inside", ["", "below", "far/below"])
def test_a_file_in_the_place_of_the_folder_is_noticed_before_the_fit(
    inside, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(dv.DualViewMixture, "fit", _no_fit)
    (tmp_path / "taken").write_text("mine")
    assert run(tmp_path / "taken" / inside) == 2
    assert "taken is a file" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_folder_without_permission_is_noticed_before_the_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dv.DualViewMixture, "fit", _no_fit)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run(tmp_path / "results") == 2
    assert "no permission" in capsys.readouterr().err


def test_a_failed_fit_writes_nothing(tmp_path, monkeypatch, capsys):
    def fit(*_):
        raise DegenerateError("The view has collapsed.")

    monkeypatch.setattr(dv.DualViewMixture, "fit", fit)
    assert run(tmp_path / "results", "--quiet") == 2
    assert capsys.readouterr().err == "dualview: The view has collapsed.\n"
    assert os.listdir(tmp_path) == []


def test_errors_of_the_system_get_one_line_too(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert run(tmp_path, "--quiet", sizes=TINIEST) == 2
    assert "could not be written: No space left on device" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_without_cyclopts_the_message_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    assert cli.main(["demo"]) == 2
    assert "pip install 'dualview[cli]'" in capsys.readouterr().err


def test_without_matplotlib_the_demo_says_so_before_the_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dv.DualViewMixture, "fit", _no_fit)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(tmp_path / "results") == 2
    assert "pip install 'dualview[plots]'" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_the_package_can_be_imported_without_its_extras():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['cyclopts'] = None; import "
        "dualview.cli, dualview.plots"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _no_fit(*_):
    raise AssertionError("the fit came first")


def test_errors_name_options_and_where_help_is(tmp_path, capsys):
    (tmp_path / "users.csv").write_text("user,x\na,1\n")
    for tokens, words in (
        (
            ["fit", "u.csv", "t.csv", "more.csv", "--out", "r"],
            "Unexpected: more.csv. To give an option several values, repeat it.",
        ),
        (["fit", "u.csv", "t.csv"], "Try dualview fit --help."),
        (["nonsense"], "Try dualview --help."),
        (["report", str(tmp_path / "absent")], "absent: there is no such folder."),
        (["predict", str(tmp_path / "absent"), "new.csv"], "absent: there is no such folder."),
        (
            ["predict", str(tmp_path / "users.csv"), "new.csv"],
            "users.csv is a file, not the folder of a run.",
        ),
        (["report", str(tmp_path), "--against"], "--against requires at least 1"),
    ):
        assert cli.main(tokens) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_arguments_that_are_no_options_keep_their_names():
    said = "participation must be (n_threads, n_users)"
    assert with_options(said, options_of(cli.commands.fit)) == said
    assert (
        with_options("test_share and n_draws", options_of(cli.commands.forum))
        == "--test-share and --draws"
    )
    assert with_options("n_draws", []) == "n_draws"


def test_advice_on_columns_speaks_of_the_file():
    where = "in the file of --columns, which 'dualview columns' writes"
    for said, words in (
        (
            "Give behavior_prior=GaussianPrior(mean, covariance).",
            "Give --behavior-prior likelihood.",
        ),
        ("columns={'a b': 'ignore'}.", f"['a b'] kind = \"ignore\" {where}."),
        (
            "columns={'x': {'kind': 'rounded', 'step': 0.5}}, or",
            f"['x'] kind = \"rounded\", step = 0.5 {where}, or",
        ),
        (
            'columns={\'x\': Censored("low", "high")}',
            f'[\'x\'] kind = "censored", low = "low", high = "high" {where}',
        ),
    ):
        assert with_options(said, []) == words

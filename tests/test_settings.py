"""A setting is declared once; the estimator, requests, reports and the command line agree with the
declaration."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import dualview as dv
from dualview import cli
from dualview.behaviors.counts import COUNT_FAMILIES
from dualview.behaviors.families import times
from dualview.errors import FileError, InputError
from dualview.forum import application
from dualview.forum.columns import ROLES, GivenColumns
from dualview.forum.options import UNITS, ForumOptions, ForumSettings
from dualview.inputs.data import Data
from dualview.inputs.fits import fingerprint
from dualview.inputs.parameters import Parameters
from dualview.report.settings import fit_command
from dualview.runs import run as runs
from dualview.runs.request import Request
from dualview.settings import (
    FAMILIES_OF,
    AnswerSettings,
    Columns,
    Settings,
    check_choice,
    check_values,
    choices,
    column_option_name,
    command_words,
    defaults,
    option_name,
    option_words,
    setting_names,
)

TEXTS = {
    "alpha": "gamma(2, 4)",
    "partition": "pitman-yor(0.25)",
    "agreement": "0.75",
    "covariates": ("hour", "section"),
    "time_unit": "minutes",
    "encoding": "mixed",
}
NO_DATA = Data(None, [], None, [])
EARLIER = {  # a request.json as earlier versions wrote it, without the settings that came later
    "users": "/data/users.csv",
    "threads": "/data/threads.csv",
    "outcomes": None,
    "columns": {"user": "user", "thread": "thread", "weight": "weight", "outcome": "length"},
    "covariates": ["hour"],
    "intercept": True,
    "drop_unknown": False,
    "n_clusters": 3,
    "n_warmup": 20,
    "n_draws": 30,
    "thin": 2,
    "n_chains": 2,
    "keep": "draws",
    "n_whole": 100,
    "seed": 7,
}


def parameter_name(name: str) -> str:
    """The estimator's parameter for a setting: ``random_state`` for ``seed``."""
    given = {item.name: item.metadata["parameter"] for item in fields(Settings)}
    return given[name] or name


def another(record: type, name: str) -> Any:
    """A value that a setting can have and that is not its default, whatever the setting."""
    usual = defaults(record)[name]
    if name in TEXTS:
        return TEXTS[name]
    if name in choices(record):
        return [value for value in choices(record)[name] if value != usual][-1]
    kind = type(usual)
    if name in ("n_clusters", "n_warmup", "max_draws") or kind is int:
        return (usual or 0) + 2
    if name == "max_time":
        return 0.5
    return {bool: True, float: 0.37, tuple: ("a b", "-c")}.get(kind, "it's another")


def all_changed(record: type) -> Any:
    return record(**{name: another(record, name) for name in setting_names(record)})


def said(words: str) -> str:
    """The text of a help page without its frames and line ends."""
    return " ".join("".join(" " if letter in "│╭╮╰╯─" else letter for letter in words).split())


def test_every_setting_is_a_parameter_of_the_estimator_with_the_same_default() -> None:
    parameters = signature(dv.DualViewMixture).parameters
    for name, usual in defaults(Settings).items():
        assert parameters[parameter_name(name)].default == usual, name
        assert parameter_name(name) in str(dv.DualViewMixture.__doc__).partition("Attributes")[0]


def test_every_parameter_means_something_with_every_engine() -> None:
    """Parameters of the estimator are documented before the heading of those that have moved; an
    engine's own are on its record, with the same defaults."""
    text = str(dv.DualViewMixture.__doc__).partition("    Other Parameters\n")[0]
    documented = re.findall(r"^    ([a-z_, ]+) : ", text, re.MULTILINE)
    named = [name for names in documented for name in names.split(", ")]
    parameters = signature(dv.DualViewMixture).parameters
    moved = [name for name in parameters if name not in named]
    assert len(named) == 18
    assert set(named) < set(parameters)
    assert set(moved) == {"partition", "n_whole", *defaults(dv.Gibbs)}
    for name, usual in defaults(dv.Gibbs).items():
        assert parameters[name].default == usual
    for engine in (dv.Gibbs, dv.Variational):
        assert all(f"\n    {name} : " in str(engine.__doc__) for name in defaults(engine))


def test_every_setting_of_a_forum_is_documented_for_python_too() -> None:
    documented = str(ForumOptions.__doc__)
    assert all(f"\n    {item.name} : " in documented for item in fields(ForumOptions))
    assert tuple(setting_names(GivenColumns)) == ROLES


@pytest.mark.parametrize(
    ("command", "records"),
    [("fit", (Columns, Settings)), ("forum", (ForumSettings, GivenColumns, Settings))],
)
def test_help_shows_every_option_with_its_text(
    command: str, records: Any, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([command, "--help-all"]) == 0
    text = said(capsys.readouterr().out)
    for record in records:
        write = column_option_name if record in (Columns, GivenColumns) else option_name
        for item in fields(record):
            assert f"--{write(item.name)} " in text
            assert " ".join(item.metadata["help"].split()) in text


def test_fit_asks_for_what_its_options_say_and_the_report_repeats_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    asked: list[Request] = []
    monkeypatch.setattr(runs, "fit_run", lambda request, *_, **__: asked.append(request) or "")
    monkeypatch.chdir(tmp_path)
    settings, columns = all_changed(Settings), all_changed(Columns)
    wanted = Request(
        str(tmp_path / "u.csv"), str(tmp_path / "t.csv"), columns=columns, settings=settings
    )
    words = [
        word
        for name in setting_names(Columns)
        for word in option_words(column_option_name(name), getattr(columns, name))
    ]
    assert (
        cli.main(["fit", "u.csv", "t.csv", "--out", "run", *command_words(settings), *words]) == 0
    )
    assert cli.main(shlex.split(fit_command(wanted))[1:]) == 0
    assert cli.main(["fit", "u.csv", "t.csv", "--out", "run"]) == 0
    assert asked[:2] == [wanted, wanted]
    assert asked[2].settings == Settings()
    assert asked[2].columns == Columns()


def test_forum_asks_for_what_its_options_say_and_forum_json_repeats_it(monkeypatch: Any) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(application, "run_forum", lambda *given, **_: asked.append(given) or "")
    monkeypatch.setattr(cli.commands, "report", lambda _: None)
    settings, columns = all_changed(Settings), all_changed(GivenColumns)
    options = ForumOptions.asked(all_changed(ForumSettings), columns, settings.seed)
    assert set(options.columns) == set(ROLES)
    wanted = (Path("my posts.csv"), Path("run"), options, settings)
    assert cli.main(shlex.split(application.command_line(*wanted))[1:]) == 0
    assert cli.main(["forum", "my posts.csv", "--out", "run"]) == 0
    assert cli.main(["forum", "my posts.csv", "--out", "run", "--covariates", "none"]) == 0
    assert asked[0] == wanted
    assert asked[1][2:] == (ForumOptions(), Settings())
    assert asked[2][2] == ForumOptions(covariates=())


def test_requests_of_earlier_runs_are_read_and_written_under_the_same_keys(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps(EARLIER))
    request = Request.load(tmp_path)
    assert request.columns == Columns(outcome="length")
    assert request.covariates == ("hour",)
    assert request.settings == Settings(
        n_clusters=3, n_warmup=20, n_draws=30, thin=2, n_chains=2, pooling=None, seed=7
    )
    request.save(tmp_path)
    written = json.loads((tmp_path / "request.json").read_text())
    assert {name: written[name] for name in EARLIER} == EARLIER
    assert written.pop("kinds") is None
    assert written.pop("noise_variance") == "paper"
    later = [name for name in written if name not in EARLIER]
    assert {"alpha", "link", "pooling", "feature_prior", "behavior_prior"} <= set(later)
    as_before = defaults(Settings) | {"pooling": None}  # its default has changed since
    assert all(written[name] == as_before[name] for name in later)
    assert Request.load(tmp_path) == request


def test_a_request_with_an_impossible_or_unknown_setting_is_refused(tmp_path: Path) -> None:
    for change in ({"n_draws": "ten"}, {"colour": "red"}):
        (tmp_path / "request.json").write_text(json.dumps(EARLIER | change))
        with pytest.raises(FileError, match=r"request.json cannot be read .*(n_draws|colour)"):
            Request.load(tmp_path)


def test_manifests_of_earlier_runs_stay_valid() -> None:
    """What a run was made with has the same keys as before there was a record of settings."""
    plain = {
        "n_clusters": None,
        "n_warmup": 1000,
        "n_draws": 1000,
        "thin": 1,
        "n_chains": 4,
        "n_auxiliary": 3,
    }
    fixed = dv.DualViewMixture(n_warmup=1000)
    rest = {
        "init": "kmeans",
        "feature_prior": None,
        "behavior_prior": None,
        "random_state": 0,
        "features": None,
    }
    assert fingerprint(Parameters.of(fixed), NO_DATA) == {
        **plain,
        "alpha": "gamma(0.25, 0.25)",
        **rest,
    }
    odd = dv.DualViewMixture(
        link="linear", pooling="cluster", keep="summary", feature_prior="shrunk", n_warmup=1000
    )
    changed = {
        "link": "linear",
        "pooling": "cluster",
        "keep": "summary",
        "whole draws, every": 10,
        "feature_prior": "shrunk",
    }
    assert fingerprint(Parameters.of(odd), NO_DATA) == {
        **plain,
        "alpha": "gamma(0.25, 0.25)",
        **rest,
        **changed,
    }


def test_manifests_say_which_runs_end_when_they_have_converged() -> None:
    grows, fixed = dv.DualViewMixture(), dv.DualViewMixture(n_warmup=1000)
    limited = dv.DualViewMixture(n_warmup=1000, max_time=5.0, max_draws=10)
    assert (
        fingerprint(Parameters.of(grows), NO_DATA)["n_warmup"],
        fingerprint(Parameters.of(limited), NO_DATA)["n_warmup"],
    ) == (
        None,
        1000,
    )
    lengths = [
        fingerprint(Parameters.of(model), NO_DATA).get("length")
        for model in (grows, limited, fixed)
    ]
    assert lengths == ["until converged", "until converged", None]
    assert not {"max_time", "max_draws"} & set(fingerprint(Parameters.of(limited), NO_DATA))


@pytest.mark.parametrize("name", setting_names(Settings))
def test_impossible_values_are_refused_by_requests_and_by_the_estimator(name: str) -> None:
    parameter = parameter_name(name)
    for value in ("nonsense", -1, 2.5, True, [1]):
        if (name, value) in (("alpha", 2.5), ("max_time", 2.5)):
            continue
        with pytest.raises(InputError, match=rf"^{parameter}\b.* must be "):
            dv.DualViewMixture(**{parameter: value}).fit([[0.0], [1.0], [2.0]])
        if name != "alpha":
            with pytest.raises(InputError, match=rf"^{parameter}\b.* must be "):
                Request("users.csv", None, settings=Settings(**{name: value}))


def test_a_setting_that_is_refused_is_named_by_its_option_before_files_are_read(
    capsys: Any,
) -> None:
    for words, message in (
        ("--draws 0", "--draws must be a whole number of at least 1; got 0."),
        (
            "--clusters 0",
            "--clusters (None: clusters inferred) must be a whole number of at least 1; got 0.",
        ),
        ("--seed -1", "seed must be a whole number of at least 0; got -1."),
        ("--alpha many", "alpha must be a positive number, paper,"),
        ("--link curved", "--link"),
    ):
        for command in ("fit absent.csv --out run", "forum absent.csv --out run"):
            assert cli.main([*command.split(), *words.split()]) == 2
            assert message in capsys.readouterr().err


def test_choices_are_listed_as_people_write_them() -> None:
    assert choices(Settings)["keep"] == ("draws", "summary")
    words = "shrunk", "diagonal", "student", "student-shrunk", "student-diagonal"
    assert choices(Settings)["feature_prior"] == (None, *words)
    assert "time_unit" not in choices(ForumSettings)
    with pytest.raises(InputError, match=r'unit must be None, "nanoseconds", .* or "days"; got 3.'):
        check_choice("unit", 3, (None, *UNITS))
    with pytest.raises(InputError, match='link must be None or "linear"; got'):
        check_values(Settings, {"link": "none"})


def test_runs_are_told_apart_by_any_setting_that_has_an_effect() -> None:
    usual = Settings().described()
    assert (usual["n_clusters"], usual["thin"], usual["seed"]) == (
        "clusters inferred",
        "thin 1",
        "seed 0",
    )
    assert Settings(n_clusters=3, link="linear").described()["n_clusters"] == "clusters: 3"
    changed = all_changed(Settings)
    assert changed.keep == "summary"
    assert all(words != usual[name] for name, words in changed.described().items())
    assert Settings(n_whole=7).described() == usual


def test_settings_of_an_estimator_are_those_of_the_request(tmp_path: Path) -> None:
    settings = replace(all_changed(Settings), partition=None)
    model = runs.build_estimator(settings, tmp_path, 1, quiet=True)
    parameters = model.get_params()
    assert parameters.pop("alpha") == dv.Gamma(2, 4)
    assert parameters.pop("engine") == dv.Variational()
    assert parameters.pop("keep") == settings.n_whole
    for name, value in asdict(settings).items():
        if parameter_name(name) in parameters and name not in ("n_whole", *defaults(dv.Gibbs)):
            assert parameters[parameter_name(name)] == value
    chains = runs.build_estimator(replace(settings, engine="gibbs"), tmp_path, 1, quiet=True).engine
    assert chains == dv.Gibbs(n_warmup=2, thin=3, max_draws=2)
    process = replace(settings, n_clusters=None, partition="pitman-yor(0.5)")
    assert runs.build_estimator(process, None, 1, quiet=True).n_clusters == dv.PitmanYor(0.5)
    with pytest.raises(InputError, match="partition is for an inferred number"):
        runs.build_estimator(all_changed(Settings), tmp_path, 1, quiet=True)


def test_the_command_line_shows_its_help_without_heavy_imports() -> None:
    code = (
        "import sys, dualview.cli; print([name for name in ('numpy', 'numba', 'pandas', "
        "'scipy') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_families_of_outcomes_are_those_of_the_behaviors() -> None:
    assert FAMILIES_OF == {"counts": COUNT_FAMILIES, "survival": times.FAMILIES}
    for kind, names in FAMILIES_OF.items():
        assert AnswerSettings(kind=kind).family_name == names[0]
        for name in names:
            option = name.replace(" ", "-")
            assert AnswerSettings(kind=kind, family=option).family_name == name
            assert option in choices(AnswerSettings)["family"]

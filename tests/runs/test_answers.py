"""Runs of answers of single users on the command line: fit, predict, compare, check, report,
resume, and bad tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview import cli
from dualview.runs.run import load_run
from dualview.words.clusters import latent_texts

N = 24
USERS = [f"u{u}" for u in range(N)]
SHORT = ["--warmup", "30", "--draws", "40", "--chains", "2", "--quiet"]


def answers_of(seed: int, n: int = 160) -> pd.DataFrame:
    """Made-up answers: slopes of two groups of users, numbers and yes or no; the last user has
    none."""
    rng = np.random.default_rng(seed)
    user, dose, time = rng.integers(0, N - 1, n), rng.normal(size=n), rng.uniform(0, 5, n)
    slope = np.where(user < N // 2, -1.0, 2.0)
    place = 3.0 + slope * dose + 0.1 * time
    item, other = rng.integers(0, 5, n), rng.integers(1, 5, n)
    other = (item + other) % 5
    return pd.DataFrame(
        {
            "user": [USERS[u] for u in user],
            "dose": dose,
            "time": time,
            "y": place + 0.3 * rng.normal(size=n),
            "stars": np.searchsorted([1.0, 3.0, 5.0], place + rng.logistic(size=n)) + 1,
            "day": [f"d{d}" for d in rng.integers(0, 4, n)],
            "yes": (rng.random(n) < 1 / (1 + np.exp(3.0 - place))).astype(int),
            "winner": [f"i{i}" for i in item],
            "loser": [f"i{i}" for i in other],
            "visits": rng.poisson(np.exp(0.3 * place)),
            "brand": np.array(["ale", "gin", "rum"])[
                (np.outer(place, [0.0, 0.5, -0.5]) + rng.normal(size=(n, 3))).argmax(axis=1)
            ],
            "days": np.exp(0.3 * place) * rng.weibull(2.0, n) + 0.01,
            "over": rng.integers(0, 2, n),
            "list": [f"r{i // 4}" for i in range(n)],
        }
    )


def ranked_of(seed: int, n: int = 40) -> pd.DataFrame:
    """Made-up rankings of four items each: two groups of users prefer low prices, or high ones;
    fourth places are unknown."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, N - 1, n)
    price = rng.normal(size=(n, 4))
    utility = price * np.where(owner < N // 2, -1.5, 1.5)[:, None] + rng.normal(size=(n, 4))
    place = 1.0 + np.argsort(np.argsort(-utility, axis=1), axis=1)
    table = {
        "user": np.repeat([USERS[u] for u in owner], 4),
        "list": np.repeat([f"r{i}" for i in range(n)], 4),
    }
    return pd.DataFrame(
        table | {"price": price.ravel(), "place": np.where(place > 3, np.nan, place).ravel()}
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(1)
    group = np.arange(N) >= N // 2
    pd.DataFrame(
        {"user": USERS, "a": group + 0.2 * rng.normal(size=N), "b": rng.normal(size=N)}
    ).to_csv(folder / "users.csv", index=False)
    answers_of(2).to_csv(folder / "answers.csv", index=False)
    answers_of(3, 30).to_csv(folder / "new.csv", index=False)
    items = pd.DataFrame(rng.normal(size=(5, 2)), columns=["price", "size"]).assign(
        item=[f"i{i}" for i in range(5)]
    )
    items.to_csv(folder / "items.csv", index=False)
    return folder


def fitted(tables: Path, out: Path, *options: str) -> Path:
    names = [str(tables / "users.csv"), str(tables / "answers.csv")]
    assert cli.main(["fit", *names, "--out", str(out), *SHORT, *options]) == 0
    return out


@pytest.fixture(scope="module")
def regression(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("regression") / "run"
    return fitted(tables, out, "--kind", "regression", "--outcome", "y", "--by", "dose,time")


def test_a_regression_is_that_of_python(regression: Path, tables: Path) -> None:
    table, users = (
        pd.read_csv(tables / "answers.csv"),
        pd.read_csv(tables / "users.csv", index_col="user"),
    )
    behavior = dv.UserRegression(
        table["user"], table[["dose", "time"]], table["y"], intercept=True, users=USERS
    )
    model = dv.DualViewMixture(n_warmup=30, n_draws=40, n_chains=2).fit(users, behavior)
    np.testing.assert_array_equal(
        dv.load(regression / "posterior.nc")["latent"], model.posterior_["latent"]
    )


def test_predictions_of_numbers(
    regression: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.csv"
    assert cli.main(["predict", str(regression), str(tables / "new.csv"), "--out", str(out)]) == 0
    assert "30 observations predicted; negative log-likelihood" in capsys.readouterr().out
    table, new = pd.read_csv(out), pd.read_csv(tables / "new.csv")
    assert table["user"].tolist() == new["user"].tolist()
    assert np.sqrt(np.mean((table["median"] - new["y"]) ** 2)) < 0.8
    new.drop(columns="y").to_csv(tmp_path / "without.csv", index=False)
    assert (
        cli.main(["predict", str(regression), str(tmp_path / "without.csv"), "--out", str(out)])
        == 0
    )
    assert "outcome" not in pd.read_csv(out)


def test_an_empty_column_of_outcomes_is_as_none(
    regression: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, out = pd.read_csv(tables / "new.csv").iloc[:3], tmp_path / "p.csv"
    predict = ["predict", str(regression), str(tmp_path / "new.csv"), "--out", str(out)]
    new.assign(y=None).to_csv(tmp_path / "new.csv", index=False)
    assert cli.main(predict) == 0
    assert "outcome" not in pd.read_csv(out)
    new.assign(y=[1.5, None, None]).to_csv(tmp_path / "new.csv", index=False)
    assert cli.main(predict) == 2
    said = "column 'y' is empty in line(s) 3, 4. To predict, fill in all cells or leave the column"
    assert said in capsys.readouterr().err


def test_predictions_have_the_lines_of_the_file(regression: Path, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "p.csv"
    new.write_text('user,dose,time,note\nu0,1,2,\n\nu1,1,2,"two\nlines"\n\nu0,0,1,\n')
    assert cli.main(["predict", str(regression), str(new), "--out", str(out)]) == 0
    table = pd.read_csv(out)
    assert table["line"].tolist() == [2, 4, 7]
    assert table["user"].tolist() == ["u0", "u1", "u0"]


def test_new_users_are_predicted_from_their_own_tables(
    regression: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = pd.DataFrame({"b": [0.1, -0.2], "user": ["v0", "v1"], "a": [0.0, 1.0]})
    so_far = pd.DataFrame({"user": ["v1"] * 2, "dose": [1.0, 2.0], "time": 1.0, "y": [5.2, 7.1]})
    new = pd.DataFrame({"user": ["v1", "u0", "v0"], "dose": 1.0, "time": 2.0})
    known = pd.read_csv(tables / "users.csv").head(1)
    given = {"people": pd.concat([people, known]), "so_far": so_far, "new": new}
    place = {name: str(tmp_path / f"{name}.csv") for name in given}
    for name, table in given.items():
        table.to_csv(place[name], index=False)
    model, X = load_run(regression), people.set_index("user")[["a", "b"]]
    told = ["--users", place["people"]]
    seen = [*told, "--so-far", place["so_far"]]
    users = [*USERS, "v0", "v1"]
    design = {"intercept": True, "users": users}
    behavior = dv.UserRegression(so_far["user"], so_far[["dose", "time"]], so_far["y"], **design)
    asked = dv.UserRegression(new["user"], new[["dose", "time"]], **design)
    for words, past in ((told, None), (seen, behavior)):
        assert cli.main(["predict", str(regression), place["new"], *words]) == 0
        assert "3 observations predicted. " in (said := capsys.readouterr().out)
        assert "1 row of" in said
        assert "left out, of users whom the run has already: u0" in said
        table = pd.read_csv(regression / "predictions.csv")
        law = model.predict_outcome(asked, X, past)
        np.testing.assert_allclose(table["median"], law.median)
        assert cli.main(["predict", str(regression), *words]) == 0
        assert "2 new users predicted. " in capsys.readouterr().out
        table = pd.read_csv(regression / "new_users.csv")
        assert table["user"].tolist() == ["v0", "v1"]
        np.testing.assert_array_equal(table["cluster"], model.predict(X, past))
        np.testing.assert_allclose(
            table["membership"], model.predict_proba(X, past).max(axis=1), rtol=1e-12
        )
        low_and_high = table[["latent.dose_low", "latent.dose_high"]].to_numpy()
        latent, names = model.predict_latent(X, past).interval(0.95), model.posterior_.latent_names
        np.testing.assert_allclose(low_and_high, latent[:, names.index("dose")])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Nothing is asked for: name a table of threads or answers"),
        (["new.csv", "--so-far", "new.csv"], "--so-far is of new users: give their table too"),
        (["--users", "users.csv"], "has no user who is new: all are in the run already"),
    ],
)
def test_what_is_no_question_about_new_users(
    regression: Path, tables: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(tables / word) if word.endswith(".csv") else word for word in words]
    assert cli.main(["predict", str(regression), *places]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_runs_are_compared_checked_and_resumed(
    regression: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = fitted(
        tables, tmp_path / "flat", "--kind", "regression", "--outcome", "y", "--by", "time"
    )
    assert (
        cli.main(["compare", str(regression), str(other), "--out", str(tmp_path / "c.json")]) == 0
    )
    said = capsys.readouterr().out
    assert "2 fits to the same 160 observations, 'run'" in said
    assert "by dose, time" in said
    assert cli.main(["check", str(other)]) == 0
    assert "outcomes" in capsys.readouterr().out
    assert cli.main(["resume", str(other), "--draws", "50", "--quiet"]) == 0
    assert dv.load(other / "posterior.nc").n_draws == 50


def test_the_report_shows_vectors_effects_and_curves(regression: Path, tables: Path) -> None:
    assert cli.main(["predict", str(regression), str(tables / "new.csv")]) == 0
    assert cli.main(["report", str(regression)]) == 0
    page = (regression / "report.html").read_text()
    for words in (
        "160 observations of their own",
        "Latent coefficients by role",
        '<th scope="col" class="number">dose</th>',
        "standard deviation of the noise",
        "Predicted outcomes by role.",
        "30 observations with known outcomes were predicted",
        "--kind=regression --outcome=y --by=dose,time",
    ):
        assert words in page, words
    assert "atalytic" not in page
    assert "thread" not in page.split("</style>")[1].split("<script")[0]


def test_yes_or_no_and_choices(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = fitted(
        tables, tmp_path / "binary", "--kind", "binary", "--outcome", "yes", "--by", "dose"
    )
    assert cli.main(["predict", str(binary), str(tables / "new.csv")]) == 0
    assert "30 answers predicted; log loss" in capsys.readouterr().out
    assert pd.read_csv(binary / "predictions.csv")["probability"].between(0, 1).all()
    options = [
        "--kind",
        "choices",
        "--items",
        str(tables / "items.csv"),
        "--item-intercept",
        "--by",
        "price",
    ]
    choices = fitted(tables, tmp_path / "choices", *options)
    assert cli.main(["predict", str(choices), str(tables / "new.csv")]) == 0
    assert cli.main(["compare", str(binary), str(choices)]) == 2
    assert "is a fit of choices" in capsys.readouterr().err
    for run in (binary, choices):
        assert cli.main(["report", str(run)]) == 0
    page = (choices / "report.html").read_text()
    assert "against an item with mean features" in page
    assert '<th scope="row">i4</th>' in page
    assert json.loads((choices / "request.json").read_text())["answers"]["kind"] == "choices"


def test_ratings_with_common_columns_and_groups(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--kind",
        "ordinal",
        "--outcome",
        "stars",
        "--by",
        "dose",
        "--common",
        "time",
        "--groups",
        "day",
    ]
    run = fitted(tables, tmp_path / "run", *options)
    post = dv.load(run / "posterior.nc")
    assert post["coefficients"].shape == (2, 40, 1)
    assert post["group_effects"].shape == (2, 40, 4)
    assert post["cut_points"].shape == (2, 40, 3)
    assert cli.main(["predict", str(run), str(tables / "new.csv")]) == 0
    assert "30 ratings predicted; log loss" in capsys.readouterr().out
    table = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(
        table[[f"probability_{level}" for level in (1, 2, 3, 4)]].sum(axis=1), 1.0
    )
    assert cli.main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    for words in (
        "group effects: day: d0",
        "cut points: 1|2",
        '<th scope="row">time</th>',
        "--common=time --groups=day",
    ):
        assert words in page, words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "dose"], "--by is not for --kind threads. Name what was observed: --kind"),
        (["--kind", "regression", "--outcome", "z"], "must have a column 'z'"),
        (["--kind", "regression", "--outcome", "z"], "Name it with --outcome."),
        (["--kind", "regression", "--outcome", "y", "--by", "tim"], "Did you mean 'time'?"),
        (
            ["--kind", "regression", "--outcome", "y", "--no-intercept"],
            "name columns with --by, or leave --no-intercept out",
        ),
        (["--kind", "regression", "--outcome", "y", "--intercept"], "Users have an intercept each"),
        (["--kind", "binary", "--outcome", "y"], "must hold 0 and 1, or True and False"),
        (
            ["--kind", "binary", "--outcome", "yes", "--items", "items.csv"],
            "--items is not for --kind binary",
        ),
        (["--kind", "choices", "--outcome", "y"], "--outcome is not for --kind choices"),
        (["--kind", "choices"], "--kind choices needs a table of items: --items items.csv"),
        (
            ["--kind", "survival", "--bounds", "low,high", "--event", "over"],
            "--bounds says what is known of the outcomes; --event does so too",
        ),
        (["--kind", "binary", "--outcome", "yes", "--event", "over"], "--event is not for"),
        (
            ["--kind", "counts", "--outcome", "visits", "--family", "weibull"],
            "--family weibull is not for --kind counts. There are negative-binomial, poisson for "
            "--kind counts and weibull, log-logistic, log-normal for --kind survival.",
        ),
        (
            ["--kind", "binary", "--outcome", "yes", "--family", "poisson"],
            "--family is not for --kind binary. There are negative-binomial, poisson for",
        ),
        (
            ["--kind", "binary", "--outcome", "yes", "--levels", "a,b,c"],
            "--levels is not for --kind binary",
        ),
        (["--kind", "ordinal", "--outcome", "winner"], "is not known: give --levels, lowest first"),
        (["--kind", "ordinal", "--outcome", "yes"], "use --kind binary"),
        (
            ["--kind", "regression", "--outcome", "y", "--groups", "nowhere"],
            "Name it with --groups.",
        ),
        (
            ["--kind", "regression", "--outcome", "y", "--by", "dose,y"],
            "--outcome is the column 'y', and --by has it too.",
        ),
        (
            ["--kind", "regression", "--outcome", "y", "--by", "dose", "--common", "dose"],
            "--by and --common both have 'dose'.",
        ),
        (["--kind", "nonsense"], "Try dualview fit --help."),
    ],
)
def test_mistakes(
    options: list[str], words: str, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tables / "users.csv"), str(tables / "answers.csv")]
    assert cli.main(["fit", *names, "--out", str(tmp_path / "run"), *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_mistakes_in_tables(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(tables / "answers.csv")
    options = [
        "--kind",
        "regression",
        "--outcome",
        "y",
        "--by",
        "dose",
        "--out",
        str(tmp_path / "run"),
        *SHORT,
    ]
    for changed, words in (
        (
            table.assign(user=["x", *table["user"][1:]]),
            "1 user(s) are not in the table of users: x.",
        ),
        (
            table.assign(y=["?", *table["y"][1:].astype(str)]),
            "the outcome 'y' must hold numbers; it does not in line(s) 2.",
        ),
        (
            table.assign(dose=["o", *table["dose"][1:].astype(str)]),
            "--by column 'dose' must hold numbers; it does not in line(s) 2.",
        ),
        (table.assign(dose=[np.nan, *table["dose"][1:]]), "column 'dose' is empty in line(s) 2."),
        (table.iloc[:0], "has no observations of known users"),
    ):
        changed.to_csv(tmp_path / "answers.csv", index=False)
        assert (
            cli.main(["fit", str(tables / "users.csv"), str(tmp_path / "answers.csv"), *options])
            == 2
        )
        assert words in capsys.readouterr().err
    assert cli.main(["fit", str(tables / "users.csv"), *options]) == 2
    assert (
        "--kind regression needs a table of observations after that of the users"
        in capsys.readouterr().err
    )


def test_rankings(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranked_of(4).to_csv(tmp_path / "ranked.csv", index=False)
    ranked_of(5, 10).to_csv(tmp_path / "new.csv", index=False)
    run = tmp_path / "run"
    fit = [
        "fit",
        str(tables / "users.csv"),
        str(tmp_path / "ranked.csv"),
        "--out",
        str(run),
        *SHORT,
    ]
    assert cli.main([*fit, "--kind", "rankings", "--ranking", "list", "--by", "price"]) == 0
    table, users = (
        pd.read_csv(tmp_path / "ranked.csv"),
        pd.read_csv(tables / "users.csv", index_col="user"),
    )
    behavior = dv.Rankings(
        table["user"], table["list"], table[["price"]], table["place"], users=USERS
    )
    model = dv.DualViewMixture(n_warmup=30, n_draws=40, n_chains=2).fit(users, behavior)
    np.testing.assert_array_equal(
        dv.load(run / "posterior.nc")["latent"], model.posterior_["latent"]
    )
    capsys.readouterr()
    assert cli.main(["predict", str(run), str(tmp_path / "new.csv")]) == 0
    assert "40 ranked items predicted; negative log-likelihood" in capsys.readouterr().out
    predicted = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(predicted.groupby("ranking")["probability"].sum(), 1.0, atol=1e-6)
    assert cli.main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    for words in (
        "A user ranks items by their utilities",
        "10 rankings of 40 items were predicted",
        "--kind=rankings",
    ):
        assert words in page, words
    assert cli.main(["compare", str(run), str(run)]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "rankings", "--ranking", "list"], "name columns with --by."),
        (["--kind", "rankings", "--by", "price"], "--ranking"),
        (
            ["--kind", "rankings", "--ranking", "list", "--by", "price", "--outcome", "word"],
            "places 1, 2, 3",
        ),
        (
            ["--kind", "binary", "--by", "price", "--outcome-kind", "count"],
            "--outcome-kind is not for --kind binary",
        ),
        (
            ["--kind", "regression", "--by", "price", "--bounds", "place"],
            "--bounds takes two columns",
        ),
        (["--kind", "regression", "--bounds", "place,word"], "must hold numbers or nothing"),
        (
            ["--kind", "regression", "--bounds", "place,place", "--outcome", "place"],
            "--outcome does so too",
        ),
    ],
)
def test_options_that_do_not_fit(
    options: list[str],
    message: str,
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ranked_of(4).assign(word="none").to_csv(tmp_path / "ranked.csv", index=False)
    names = [str(tables / "users.csv"), str(tmp_path / "ranked.csv")]
    assert cli.main(["fit", *names, "--out", str(tmp_path / "run"), *SHORT, *options]) == 2
    assert message in capsys.readouterr().err


def test_counts(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--kind",
        "regression",
        "--outcome",
        "visits",
        "--outcome-kind",
        "count",
        "--by",
        "dose",
    ]
    run = fitted(tables, tmp_path / "run", *options)
    table, users = (
        pd.read_csv(tables / "answers.csv"),
        pd.read_csv(tables / "users.csv", index_col="user"),
    )
    design = {"intercept": True, "users": USERS, "outcome_kind": "count"}
    behavior = dv.UserRegression(table["user"], table[["dose"]], table["visits"], **design)
    model = dv.DualViewMixture(n_warmup=30, n_draws=40, n_chains=2).fit(users, behavior)
    np.testing.assert_array_equal(
        dv.load(run / "posterior.nc")["latent"], model.posterior_["latent"]
    )
    capsys.readouterr()
    assert cli.main(["predict", str(run), str(tables / "new.csv")]) == 0
    assert "30 observations predicted; negative log-likelihood" in capsys.readouterr().out
    predicted = pd.read_csv(run / "predictions.csv")
    assert (predicted["median"] == predicted["median"].round()).all()
    assert cli.main(["report", str(run)]) == 0
    assert "--outcome-kind=count" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "observations", "columns"),
    [
        (["--kind=categorical", "--outcome=brand"], "answers", ["probability_rum", "mode"]),
        (
            ["--kind=survival", "--outcome=days", "--event=over", "--family=log-normal"],
            "times",
            ["median", "outcome_high", "log_density"],
        ),
    ],
)
def test_levels_without_an_order_and_times(
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    observations: str,
    columns: list[str],
) -> None:
    run = fitted(tables, tmp_path / "run", *options, "--by", "dose")
    assert cli.main(["predict", str(run), str(tables / "new.csv")]) == 0
    assert f"30 {observations} predicted; " in capsys.readouterr().out
    predicted = pd.read_csv(run / "predictions.csv")
    assert set(columns) <= set(predicted.columns)
    blank = pd.read_csv(tables / "new.csv").drop(columns=["brand", "days", "over"])
    blank.to_csv(tmp_path / "blank.csv", index=False)
    assert cli.main(["predict", str(run), str(tmp_path / "blank.csv")]) == 0
    again = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(again[columns[0]], predicted[columns[0]])
    assert cli.main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert all(option in page for option in options)


@pytest.mark.slow
def test_outcomes_between_bounds(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("answers", "new"):
        table = pd.read_csv(tables / f"{name}.csv")
        high = table["y"].where(table["y"] < 4.0)  # above 4 only that is known
        table.assign(low=table["y"].clip(upper=4.0), high=high).drop(columns="y").to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    (tmp_path / "users.csv").write_bytes((tables / "users.csv").read_bytes())
    run = fitted(
        tmp_path, tmp_path / "run", "--kind", "regression", "--bounds", "low,high", "--by", "dose"
    )
    assert cli.main(["predict", str(run), str(tmp_path / "new.csv")]) == 0
    assert "that of intervals by their probability" in capsys.readouterr().out
    predicted = pd.read_csv(run / "predictions.csv")
    assert predicted["outcome"].isna().equals(predicted["outcome_high"] == np.inf)
    other = fitted(
        tmp_path, tmp_path / "other", "--kind", "regression", "--bounds", "low,high", "--by", "time"
    )
    assert cli.main(["compare", str(run), str(other)]) == 0
    assert cli.main(["report", str(run)]) == 0


def test_each_part_of_a_latent_vector_is_shown_by_name(
    regression: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    post = dv.load(regression / "posterior.nc")
    model = dv.DualViewMixture.from_posterior(post)
    assert cli.main(["summary", str(regression), "--json"]) == 0
    found = {
        cluster["cluster"]: cluster["latent"]
        for cluster in json.loads(capsys.readouterr().out)["clusters"]
    }
    assert cli.main(["summary", str(regression)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert list(found[0]) == post.latent_names == ["intercept", "dose", "time"]
    for cluster, parts in found.items():
        own = post.flat("latent")[:, model.labels_ == cluster].mean(axis=1)
        for d, mean in enumerate(parts.values()):
            low, median, high = np.quantile(own[:, d], [0.025, 0.5, 0.975])
            np.testing.assert_allclose(
                [mean["low"], mean["median"], mean["high"]], [low, median, high]
            )
        for name, text in latent_texts({"latent": parts}).items():
            assert f"{name} {text}" in said
    assert {"mean latent[dose]", f"latent[{post.user_ids[0]}, dose]"} <= set(post.scalars())
    assert "24 × 3 (intercept, dose, time)" in post._repr_html_()
    users = pd.read_csv(regression / "users.csv")
    assert [name for name in users if name.endswith("_median")] == [
        f"latent.{name}_median" for name in found[0]
    ]


def test_pictures_of_a_vector_have_a_panel_for_each_part(regression: Path) -> None:
    from matplotlib import pyplot as plt

    from dualview import plots
    from dualview.runs.summaries import _latent_picture

    model = dv.DualViewMixture.from_posterior(dv.load(regression / "posterior.nc"))
    labels = [ax.get_ylabel() for ax in _latent_picture(model).figure.axes]
    assert labels == [f"latent coefficient of {name}" for name in ("intercept", "dose", "time")]
    shown = [trace.get_ylabel().replace("\n", " ") for trace, _ in plots.traces(model)]
    assert shown[-3:] == ["mean latent[intercept]", "mean latent[dose]", "mean latent[time]"]
    assert plots.overview(model, part="dose")[1].get_ylabel() == "latent coefficient of dose"
    plt.close("all")

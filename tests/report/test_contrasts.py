"""What distinguishes the roles: contrasts of their members with all users."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualview as dv
from dualview.report import collect_run, render_page
from dualview.report.contrasts import contrasts_section
from dualview.report.pictures import cluster_look
from dualview.runs.run import load_run
from dualview.words.numbers import estimate, share

SIDE = np.arange(40) % 2
LOOKS = [cluster_look(role) for role in range(20)]
EVIL = "<b>bold</b>"


@pytest.fixture(scope="module")
def users() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": 30.0 + 20.0 * SIDE + rng.standard_normal(40),
            "town": np.array(["x", "y", EVIL])[np.where(SIDE, 2, rng.integers(0, 2, 40))],
            "member": np.where(SIDE == 1, rng.random(40) < 0.9, rng.random(40) < 0.2),
            **{f"noise {j}": rng.standard_normal(40) for j in range(4)},
        }
    )


@pytest.fixture(scope="module")
def model(users: pd.DataFrame) -> Any:
    engine = dv.Gibbs(n_warmup=30)
    return dv.DualViewMixture(2, engine=engine, n_draws=40, n_chains=2, n_jobs=1).fit(users)


def section(model: Any, labels: Any = None, made: Any = None, rough: str = "") -> dict[str, Any]:
    own = model.labels_ if labels is None else labels
    return contrasts_section(model.posterior_, own, LOOKS, made or {}, rough)


def test_rows_are_the_contrasts_with_everybody(model: Any) -> None:
    found, n_rows = section(model), 0
    for role in found["roles"]:
        table = model.profiles(role["role"], against="everybody")
        for row in role["rows"]:
            own = table[(table["column"] == row["name"]) & (table["level"] == row["level"])]
            scale = 100.0 if row["level"] else 1.0
            ends = {name: scale * own[name].item() for name in ("median", "low", "high")}
            assert {name: row[name] for name in ends} == estimate(ends)
            assert row["above"] == share(np.clip(own["above"].item(), 1e-3, 1 - 1e-3))
            written = float(row["standardized"].replace("−", "-"))
            assert written == pytest.approx(own["standardized"].item(), abs=0.0501)
            n_rows += 1
    assert n_rows == 10


def test_columns_that_distinguish_come_first_with_one_level_each(model: Any) -> None:
    found, older = section(model), int(model.labels_[1])
    rows = {role["role"]: role["rows"] for role in found["roles"]}
    for role, own in rows.items():
        names = [row["name"] for row in own]
        assert set(names[:3]) == {"age", "town", "member"}
        assert len(set(names)) == len(names) == 5
        told = {row["name"]: row for row in own}
        assert told["town"]["level"] == EVIL
        assert told["member"]["level"] == "True"
        assert told["town"]["quantity"] == "probability, in percentage points"
        assert told["age"]["quantity"] == "mean"
        assert told["age"]["above"] == (">99 %" if role == older else "<1 %")
        assert told["age"]["standardized"].startswith("−") == (role != older)
    assert "Of 7 columns each role has the 5 that differ most" in found["intro"]


def test_a_column_names_how_it_was_made(model: Any) -> None:
    made = {"age": "log(x + 1), known to an interval", "noise 0": "as it is", "noise 1": "count"}
    rows = [row for role in section(model, made=made)["roles"] for row in role["rows"]]
    assert {row["quantity"] for row in rows if row["name"] == "age"} == {"mean of log(x + 1)"}
    assert {row["quantity"] for row in rows if row["name"].startswith("noise")} == {"mean"}


def test_texts_of_users_cannot_become_markup(model: Any, plain: Path) -> None:
    made = {"age": "<i>log</i>"}
    page = render_page({**collect_run(plain), "contrasts": section(model, made=made)})
    own = page[page.index('<section id="contrasts"') : page.index('<section id="power"')]
    assert "town: &lt;b&gt;bold&lt;/b&gt;" in own
    assert "mean of &lt;i&gt;log&lt;/i&gt;" in own
    assert "<b>" not in own
    assert "<i>" not in own
    assert own.count("<tbody>") == 2
    assert own.count('rowspan="5"') == 2


def test_power_has_a_section_of_its_own(plain: Path) -> None:
    found, model = collect_run(plain)["contrasts"], load_run(plain)
    assert "latent" in set(model.profiles()["column"])
    names = {row["name"] for role in found["roles"] for row in role["rows"]}
    assert names == {"posts", "long_name_of_degree"}
    assert found["intro"].startswith("How the average of a role's members differs")
    assert "Columns come in the order" in found["intro"]


def test_small_roles_are_left_out_and_few_draws_are_said(model: Any) -> None:
    labels = np.repeat([0, 1, 2, 3], [20, 17, 2, 1])
    found = section(model, labels, rough=" With 3 whole draws the intervals are rough.")
    assert [role["role"] for role in found["roles"]] == [0, 1]
    assert "With 3 whole draws the intervals are rough." in found["intro"]
    assert found["intro"].endswith("2 smaller roles are left out.")


def test_numbers_that_are_too_large_are_absent(model: Any, monkeypatch: Any) -> None:
    table = model.profiles(against="everybody").assign(high=np.inf)
    monkeypatch.setattr("dualview.report.contrasts.profiles_of", lambda *_: table)
    assert {row["high"] for role in section(model)["roles"] for row in role["rows"]} == {"–"}


def test_where_nothing_distinguishes_roles_it_says_why(model: Any, monkeypatch: Any) -> None:
    assert "There is one role" in section(model, np.zeros(40, dtype=int))["missing"]
    table = model.profiles(against="everybody").assign(quantity="latent")
    monkeypatch.setattr("dualview.report.contrasts.profiles_of", lambda *_: table)
    assert "kinds that have no averages" in section(model)["missing"]
    bare = type("Bare", (), {"has_features": False})()
    found = contrasts_section(bare, model.labels_, LOOKS, {}, "")
    assert "without features" in found["missing"]

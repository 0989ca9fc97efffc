"""The page as a reader meets it: in a real browser, without a network."""

import json
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from report.browser import answer, needs_browser
from report.conftest import EVIL, USERS

pytestmark = needs_browser

NAMES = (
    'const names = () => [...document.querySelectorAll("#table tbody tr '
    'td:first-child")].map((cell) => cell.textContent);'
)


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_runs_is_asked_for_or_sticks_out(page: Path, tmp_path: Path, width: int) -> None:
    code = """
      const refused = [];
      document.addEventListener(
        "securitypolicyviolation", (event) => refused.push(event.blockedURI));
      const picture = { src: "https://example.org/x.png" };
      document.body.append(Object.assign(document.createElement("img"), picture));
      setTimeout(() => done({
        hacked: document.hacked ?? null, bold: document.querySelectorAll("main b, main i").length,
        scripts: document.scripts.length, refused,
        asked: performance.getEntriesByType("resource")
          .map((entry) => entry.name).filter((name) => !name.startsWith("data:")),
        inner: innerWidth, scroll: document.documentElement.scrollWidth,
        wider: [...document.querySelectorAll("main *")]
          .filter((n) => n.getBoundingClientRect().right > innerWidth + 1).length,
        pictures: [...document.images]
          .filter((image) => image.src.startsWith("data:") && image.naturalWidth > 0).length,
      }), 500);
    """
    found = answer(page, code, tmp_path, width=width)
    assert found["hacked"] is None
    assert found["bold"] == 0
    assert found["scripts"] == 3  # the data, the page's own, the test's
    assert found["refused"] == [
        "https://example.org/x.png"
    ]  # the policy holds, and only the test broke it
    assert [name for name in found["asked"] if "example.org" not in name] == []
    assert found["inner"] == width
    assert found["scroll"] <= width
    assert found["wider"] == 0
    assert found["pictures"] == 3


def test_the_table_is_sorted_filtered_and_searched(page: Path, full: Path, tmp_path: Path) -> None:
    code = f"""
      {NAMES}
      const click = (selector) => document.querySelector(selector).click();
      const head = (key) => document.querySelector(`#table button[data-sort="${{key}}"]`);
      const found = {{ start: names() }};
      head("user").click();
      found.up = names();
      found.said = head("user").closest("th").getAttribute("aria-sort");
      head("user").click();
      found.down = names();
      click("#filter button:nth-child(2)");
      found.role = names();
      const second = document.querySelector("#filter button:nth-child(2)");
      found.pressed = second.getAttribute("aria-pressed");
      found.coloured = document.querySelectorAll("#map path[data-user]").length;
      found.faint = document.querySelectorAll("#map path.faint").length;
      click("#filter button:nth-child(1)");
      const find = document.getElementById("find");
      find.value = "SCRIPT";
      find.dispatchEvent(new Event("input"));
      found.find = names();
      found.count = document.getElementById("count").textContent;
      found.hash = location.hash;
      find.value = "nobody at all";
      find.dispatchEvent(new Event("input"));
      found.nobody = [names().length, document.getElementById("page").textContent];
      done(found);
    """
    found = answer(page, code, tmp_path)
    table = pd.read_csv(full / "users.csv", keep_default_na=False)
    by_power = table.sort_values("latent_median", ascending=False)["user"].tolist()
    assert found["start"] == by_power
    by_name = sorted(USERS, key=str.lower)
    assert found["up"] == by_name
    assert found["said"] == "ascending"
    assert found["down"] == by_name[::-1]
    members = set(table.loc[table["cluster"] == 0, "user"])
    assert set(found["role"]) == members
    assert found["pressed"] == "true"
    assert (found["coloured"], found["faint"]) == (len(members), 24 - len(members))
    assert set(found["find"]) == {name for name in EVIL if "script" in name}
    assert found["count"] == "3 of 24 users"
    assert "find=SCRIPT" in found["hash"]
    assert found["nobody"] == [0, "nobody"]


def test_a_user_is_seen_by_pointing_by_choosing_and_by_address(
    page: Path, full: Path, tmp_path: Path
) -> None:
    code = """
      const text = (selector) => document.querySelector(selector).textContent;
      const found = { card: text("#card h3"), facts: text("#card dl") };
      const marker = document.querySelector('#map path[data-user="4"]');
      const box = marker.getBoundingClientRect();
      const at = { bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
      marker.dispatchEvent(new PointerEvent("pointermove", at));
      const tip = document.querySelector("#map .tip");
      found.tip = [tip.hidden, tip.querySelector("bdi").textContent, tip.textContent];
      document.getElementById("map").dispatchEvent(new PointerEvent("pointerleave"));
      found.gone = document.querySelector("#map .tip").hidden;
      marker.dispatchEvent(new MouseEvent("click", at));
      found.clicked = document.querySelector("#card h3").textContent;
      const across = document.getElementById("across");
      found.axes = [...across.options].map((option) => option.textContent);
      across.value = "0";
      across.dispatchEvent(new Event("change"));
      found.label = document.querySelector("#map svg").getAttribute("aria-label");
      done(found);
    """
    fragment = "#user=%3Cscript%3Edocument.hacked%20%3D%201%3C%2Fscript%3E"
    found = answer(page, code, tmp_path, fragment=fragment)
    table = pd.read_csv(full / "users.csv", keep_default_na=False)
    assert found["card"].strip() == EVIL[0]
    assert f"{table['latent_median'][0]:.0f}".lstrip("-") in found["facts"].replace(",", "")
    assert "likes" in found["facts"]
    hidden, name, text = found["tip"]
    assert not hidden
    assert name in USERS
    assert f"role {table.set_index('user')['cluster'][name]}" in text
    assert found["gone"]
    assert found["clicked"].strip() == name
    assert found["axes"] == ["catalytic power", "posts", "likes", "certainty"]
    assert "by catalytic power and" in found["label"]


def test_typical_members_lead_to_their_cards(page: Path, tmp_path: Path) -> None:
    code = """
      const link = document.querySelector("#roles a.person");
      link.click();
      const head = () => document.querySelector("#card h3").textContent;
      setTimeout(() => done([link.textContent, head(), location.hash]), 300);
    """
    name, card, address = answer(page, code, tmp_path)
    assert card.strip() == name
    assert address.startswith("#user=")


def test_headings_labels_and_captions(page: Path, tmp_path: Path) -> None:
    code = """
      const all = (selector) => [...document.querySelectorAll(selector)];
      done({
        levels: all("h1, h2, h3").map((head) => Number(head.tagName[1])),
        tables: all("table").filter((table) => !table.caption?.textContent.trim()).length,
        pictures: all("img").filter((image) => !image.alt.trim()).length,
        drawings: all('svg[role="img"]').filter((svg) => !svg.getAttribute("aria-label")).length,
        controls: all("input, select").filter((control) => control.labels.length === 0).length,
        buttons: all("button")
          .filter((b) => !(b.textContent.trim() || b.getAttribute("aria-label"))).length,
        unreached: all('nav a[href^="#"]')
          .filter((link) => !document.querySelector(link.getAttribute("href"))).length,
        language: document.documentElement.lang, title: document.title,
      });
    """
    found = answer(page, code, tmp_path)
    levels = found.pop("levels")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert found.pop("title") == "Roles of users: posts.csv"
    assert found.pop("language") == "en"
    assert json.dumps(found) == json.dumps(dict.fromkeys(found, 0))

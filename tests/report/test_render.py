"""From what was collected to a file: escaping, one file, nothing half-written."""

import base64
import hashlib
import html
import importlib
import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import dualview as dv
from dualview import cli
from dualview.errors import FileError, MissingExtraError
from dualview.report import render_page, write_report
from dualview.report.render import json_text
from report.conftest import EVIL, USERS


class Tags(HTMLParser):
    """What an HTML parser makes of a page: tags with their attributes, text by tag, and
    comments."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self._last = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._last = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._last, []).append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def test_names_cannot_become_markup(page: Path) -> None:
    found = Tags(page.read_text())
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not {"b", "i"} & {tag for tag, _ in found.tags}
    assert found.comments == []
    data = next(text for text in found.texts["script"] if text.startswith("{"))
    assert not set("<>&") & set(data)
    assert json.loads(data)["users"] == USERS
    assert "".join(found.texts["bdi"]).count(EVIL[1]) <= 1


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "]]>", "a & b", "\u2028\u2029", "é ‮ \U0001f600", '"\\']
)
def test_json_survives_html(text: str) -> None:
    written = json_text({"name": text})
    assert json.loads(written)["name"] == text
    assert json.loads(html.unescape(written))["name"] == text
    assert not set("<>&\u2028\u2029") & set(written)


def test_the_page_asks_for_nothing_and_allows_only_its_own_script(page: Path) -> None:
    text = page.read_text()
    found = Tags(text)
    addresses = [
        attrs[name] or ""
        for _, attrs in found.tags
        for name in ("src", "href", "action")
        if name in attrs
    ]
    assert {
        address[0:5] if address.startswith("data:") else address[0:1] for address in addresses
    } == {"#", "data:"}
    assert not [
        attrs
        for _, attrs in found.tags
        if any(name == "style" or name.startswith("on") for name in attrs)
    ]
    policy = next(
        attrs["content"] or ""
        for tag, attrs in found.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        own = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(own) == 1
        digest = base64.b64encode(hashlib.sha256(own[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_the_same_run_gives_the_same_page(full: Path, page: Path, tmp_path: Path) -> None:
    again = write_report(full, tmp_path / "again.html")
    assert again.read_bytes() == page.read_bytes()


def test_the_command_writes_into_the_run_by_default(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(os.listdir(plain))
    assert cli.main(["report", str(plain)]) == 0
    assert capsys.readouterr().out == f"Wrote {plain / 'report.html'}.\n"
    assert set(os.listdir(plain)) - before == {"report.html"}
    assert (plain / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert cli.main(["report", str(plain), "--out", str(plain)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_places_that_cannot_be_written_are_noticed_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is a folder: name the file"):
        write_report(tmp_path, tmp_path)
    with pytest.raises(FileError, match="there is no folder"):
        write_report(tmp_path, tmp_path / "absent" / "r.html")


def test_a_full_disk_leaves_the_old_report(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "r.html").write_text("old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match="No space left on device"):
        write_report(plain, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "old"
    assert os.listdir(tmp_path) == ["r.html"]


def test_without_jinja_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dualview\[report\]'"):
        write_report(tmp_path)
    with pytest.raises(MissingExtraError):
        render_page({})


def test_the_module_can_be_imported_without_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dv.report.write_report is write_report
    monkeypatch.setattr(dv, "report", dv.report)  # and plots: to come back after the test
    monkeypatch.setattr(dv, "plots", dv.plots)
    for name in [
        name for name in sys.modules if name.startswith(("dualview.report", "dualview.plots"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("jinja2", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    assert importlib.import_module("dualview.report").write_report is not write_report

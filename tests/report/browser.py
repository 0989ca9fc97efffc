"""A real browser, Debian's chromium or another that is there, without a network."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = next((found for name in _NAMES if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)


_FRAME = """<!DOCTYPE html><meta charset="utf-8">
<iframe src="{address}" width="{width}" height="900"></iframe><script>
window.onmessage = (event) => document.body.append(Object.assign(document.createElement("pre"), {{
  id: "answer", textContent: event.data }}));
</script>"""


def with_script(page: str, code: str) -> str:
    """The page with a script of the test at its end, which its policy has to be told of.
    ``done(value)`` is the answer."""
    code = f"""
    const done = (value) => parent.postMessage(JSON.stringify(value), "*");
    try {{ {code} }} catch (error) {{ done({{ error: String(error) }}); }}
    """
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    changed = page.replace("script-src &#39;", f"script-src &#39;sha256-{digest}&#39; &#39;", 1)
    assert changed != page
    return changed.replace("</body>", f"<script>{code}</script></body>")


def answer(page: Path, code: str, folder: Path, *, fragment: str = "", width: int = 1200) -> Any:
    """What the script hands to ``done`` on the page, in a frame of this width: windows are never as
    narrow as a telephone."""
    assert CHROMIUM is not None
    (folder / "page.html").write_text(with_script(page.read_text(), code))
    (folder / "frame.html").write_text(_FRAME.format(address=f"page.html{fragment}", width=width))
    command = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1300,1000",
    ]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=2000",
    ]
    command += ["--dump-dom", (folder / "frame.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="answer">(.*?)</pre>', shown, re.S)
    assert found is not None, shown[-2000:]
    return json.loads(html.unescape(found[1]))

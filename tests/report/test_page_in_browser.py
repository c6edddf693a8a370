"""The reviewers' page in a real browser, where there is one: it works, and fits a phone."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import FULL, HARMFUL, repair

from opscaffold.report.migration import Page
from opscaffold.report.page import render_page

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium"),
]

# Drives the page inside a frame of a given width, and leaves what it saw in the outer document.
DRIVER = """\
<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" width="{width}" height="900" style="border:0" srcdoc="{page}"></iframe>
<pre id="seen"></pre><script>
document.getElementById("f").addEventListener("load", () => {{
  const inner = document.getElementById("f").contentDocument;
  const window_ = document.getElementById("f").contentWindow;
  const shown = () => [...inner.querySelectorAll("article")].filter((a) => !a.hidden)
    .map((a) => a.querySelector("h2").textContent);
  const seen = {{}};
  {steps}
  document.getElementById("seen").textContent = JSON.stringify(seen);
}});
</script></body>
"""
FILTERS = """
  seen.all = shown();
  const box = (value) => inner.querySelector(`input[value=${value}]`);
  const words = inner.getElementById("words");
  const say = (element) => element.dispatchEvent(new window_.Event("input", {bubbles: true}));
  for (const state of ["repaired", "refused", "unsafe", "withdrawn", "declined"]) {
    for (const other of inner.querySelectorAll("input[type=checkbox]")) {
      other.checked = other.value === state;
    }
    say(box(state));
    seen[state] = shown();
  }
  for (const other of inner.querySelectorAll("input[type=checkbox]")) other.checked = true;
  words.value = "REASON keep"; say(words); seen.words = shown();
  words.value = "run.py:7"; say(words); seen.place = shown();
  words.value = "no such thing"; say(words); seen.nothing = shown();
  seen.said = !inner.getElementById("none").hidden;
  words.value = ""; say(words); seen.again = shown();
  const details = inner.querySelector("details");
  seen.closed = !details.open;
  details.querySelector("summary").click();
  seen.open = details.open;
"""
LAYOUT = """
  for (const details of inner.querySelectorAll("details")) details.open = true;
  const root = inner.documentElement;
  seen.overflow = root.scrollWidth - root.clientWidth;
  seen.small = [...inner.querySelectorAll("svg text")]
    .filter((t) => t.getBoundingClientRect().height < 9).length;
  const [before, after] = inner.querySelector(".contracts").children;
  seen.beside = before.getBoundingClientRect().top === after.getBoundingClientRect().top;
  const luminance = (colour) => {
    const parts = colour.match(/\\d+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = window_.getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  seen.faint = [];
  for (const element of inner.querySelectorAll("h1,h2,h3,p,span,li,code,summary,b,figcaption")) {
    if (!element.textContent.trim()) continue;
    const a = luminance(window_.getComputedStyle(element).color);
    const b = luminance(ground(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) seen.faint.push(`${element.className || element.tagName} ${ratio}`);
  }
  seen.ground = luminance(window_.getComputedStyle(inner.body).backgroundColor);
  seen.title = inner.title;
  seen.images = inner.querySelectorAll("img").length;
"""


def browse(
    directory: Path, page: Page, steps: str, width: int = 1280, *flags: str
) -> dict[str, Any]:
    """What a browser sees of a page, with nothing to reach."""
    assert BROWSER is not None
    # Without the policy the driver could not be in the same document; it is checked elsewhere.
    text = html.escape(render_page(page).decode("utf-8"))
    driver = directory / "driver.html"
    driver.write_text(DRIVER.format(width=width, page=text, steps=steps), "utf-8")
    done = subprocess.run(
        [
            BROWSER,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", "--host-resolver-rules=MAP * 0"),
            f"--user-data-dir={directory / 'profile'}",
            "--virtual-time-budget=5000",
            "--window-size=1400,1000",
            *flags,
            "--dump-dom",
            driver.as_uri(),
        ],
        env=os.environ | {"HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    assert found[1], done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(found[1]))
    return seen


def test_the_filter_shows_what_it_is_asked_for(tmp_path: Path) -> None:
    seen = browse(tmp_path, FULL, FILTERS)
    everything = [
        *("demo::gain", "demo::other", "demo::kept", "demo::risky", "demo::wrong"),
        *("demo::unwanted", "To look at"),
    ]
    assert seen["all"] == seen["again"] == everything
    assert seen["repaired"] == ["demo::gain", "demo::other", "To look at"]
    assert seen["refused"] == ["demo::kept", "To look at"]
    assert seen["unsafe"] == ["demo::risky", "To look at"]
    assert seen["withdrawn"] == ["demo::wrong", "To look at"]
    assert seen["declined"] == ["demo::unwanted", "To look at"]
    assert seen["words"] == ["demo::kept"]
    assert seen["place"] == ["demo::gain"]
    assert seen["nothing"] == []
    assert seen["said"]
    assert seen["closed"]
    assert seen["open"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", [FULL, HARMFUL], ids=["full", "harmful"])
def test_it_fits_and_is_legible(tmp_path: Path, page: Page, width: int, dark: bool) -> None:
    flags = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    seen = browse(tmp_path, page, LAYOUT, width, *flags)
    assert seen["overflow"] <= 0
    assert seen["small"] == 0
    assert seen["beside"] == (width == 1280)
    assert seen["faint"] == []
    assert (seen["ground"] < 0.1) == dark
    assert seen["images"] == 0
    assert seen["title"] != "hit"


def test_many_ops_are_no_trouble(tmp_path: Path) -> None:
    many = replace(FULL, repairs=tuple(repair(f"demo::op{n}") for n in range(300)))
    seen = browse(tmp_path, many, FILTERS)
    assert len(seen["all"]) == 305
    assert len(seen["repaired"]) == 301

"""The picture of a terminal in the README: what a real run shows."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from opscaffold.cli.app import main

WIDTH = 100
RUNS = (
    ("check examples/legacy_ops --select maybe-out", "", 9),
    ("migrate examples/legacy_ops --only legacy::gain", "diff --git a/legacy_ops/levels.py", 28),
)
"""What is typed, what the first line that is shown starts with, and how many lines are."""

# Rich's own asks another host for a font.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img">
<title>opscaffold check finds operators that break their contract, migrate repairs one</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect fill="#1e1e1e" width="{terminal_width}" height="{terminal_height}" rx="8"/>
<g transform="translate(9, 9)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def picture(root: Path) -> str:
    """Return the picture: the commands of RUNS, in a copy of the examples."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as directory:
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(root / "examples", Path(directory) / "examples", ignore=ignored)
        with _within(Path(directory)):
            for line, start, shown in RUNS:
                console.print(Text.assemble(("$ ", "bold green"), ("opscaffold " + line, "bold")))
                lines = _lines(line)
                first = next(n for n, text in enumerate(lines) if text.plain.startswith(start))
                more = Text("...", "dim")
                for text in [*([more] if first else []), *lines[first : first + shown], more]:
                    console.print(text, no_wrap=True, overflow="ellipsis")
    return console.export_svg(code_format=_FORMAT, theme=DIMMED_MONOKAI, unique_id="terminal")


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def _lines(arguments: str) -> list[Text]:
    screen = _Screen()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(io.StringIO()):
        main(arguments.split())
    return list(Text.from_ansi(screen.getvalue()).split("\n", allow_blank=True))


@contextlib.contextmanager
def _within(directory: Path) -> Iterator[None]:
    settings = {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    before = Path.cwd()
    kept = {name: os.environ.get(name) for name in (*settings, "NO_COLOR")}
    os.environ.update(settings)
    os.environ.pop("NO_COLOR", None)
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

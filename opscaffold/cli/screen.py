"""The terminal as the questions of ``new`` see it."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

STYLES = {"": "", "bold": "bold", "dim": "dim", "error": "red"}


class Terminal:
    """Shows text with rich, which takes no markup from it, and reads lines from stdin."""

    def __init__(self) -> None:
        """Write to stdout, whatever it is now."""
        self._console = Console(highlight=False, soft_wrap=False, file=sys.stdout)

    def show(self, text: str, style: str = "") -> None:
        """Show lines of text."""
        self._console.print(Text(text, style=STYLES[style]))

    def read(self, default: str) -> str:
        """Read one line behind the default. Raises EOFError, UnicodeDecodeError."""
        return self._console.input(Text(f"[{default}] > " if default else "> "))

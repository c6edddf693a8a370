"""Boxes, arrows and words as SVG, in the colours of the reader's light or dark page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

LINE = 18
PADDING = 12
# The mean width of a letter at the size below, in the fonts named below.
LETTER = 7.2
BOLD = 8.1
STYLE = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
  .code { font-family: ui-monospace, monospace; font-size: 12px; }
  .title { font-weight: 600; }
  .quiet { fill: #59636e; font-size: 12px; }
  rect { fill: #f6f8fa; stroke: #818b98; rx: 6px; }
  rect.end { fill: #fff1e5; stroke: #bc4c00; }
  path { fill: none; stroke: #59636e; stroke-width: 1.4px; }
  path.writes { stroke: #bc4c00; stroke-width: 2px; }
  path.same { stroke: #bc4c00; stroke-dasharray: 5 4; }
  .head { fill: #59636e; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9198a1; }
    rect { fill: #151b23; stroke: #656c76; }
    rect.end { fill: #2f1c0b; stroke: #db6d28; }
    path { stroke: #9198a1; }
    path.writes, path.same { stroke: #db6d28; }
    .head { fill: #9198a1; }
  }
"""


@dataclass
class Box:
    """Words in a frame. Its height follows from them; ``x`` and ``y`` are its upper left corner."""

    lines: Sequence[tuple[str, str]]
    width: int
    css: str = ""
    x: float = 0
    y: float = 0

    @property
    def height(self) -> int:
        """How high it is."""
        return LINE * len(self.lines) + 2 * PADDING - 4

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2

    def draw(self) -> str:
        """Return it as SVG."""
        css = f' class="{self.css}"' if self.css else ""
        place = f'x="{self.x:g}" y="{self.y:g}"'
        frame = f'<rect{css} {place} width="{self.width}" height="{self.height}"/>'
        words = [
            label(self.x + PADDING, self.y + PADDING + LINE * number + 11, text, style)
            for number, (text, style) in enumerate(self.lines)
        ]
        return "\n".join([frame, *words])


@dataclass
class Picture:
    """What is drawn, in order, and a sentence for those who cannot see it."""

    title: str
    described: str
    parts: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, box: Box) -> Box:
        """Draw a box."""
        self.parts.append(box.draw())
        self.reach(box.x + box.width, box.y + box.height)
        return box

    def label(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Write a line."""
        self.parts.append(label(x, y, text, style, anchor))

    def arrow(self, points: Sequence[tuple[float, float]], css: str = "") -> None:
        """Draw a line through points, with a head at the last."""
        track = " L ".join(f"{x:g} {y:g}" for x, y in points)
        kind = f' class="{css}"' if css else ""
        self.parts.append(f'<path{kind} marker-end="url(#head)" d="M {track}"/>')
        for x, y in points:
            self.reach(x, y)

    def reach(self, x: float, y: float) -> None:
        """Let the picture reach to a point at least."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def svg(self) -> str:
        """Return the whole file."""
        width, height = f"{self.width + PADDING:g}", f"{self.height + PADDING:g}"
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/>'
            "</marker>"
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
                f'<title id="t">{escape(self.title)}</title>',
                f'<desc id="d">{escape(self.described)}</desc>',
                f"<style>{STYLE}</style>",
                f"<defs>{head}</defs>",
                *self.parts,
                "</svg>\n",
            ]
        )


def label(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    css = f' class="{style}"' if style else ""
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{css}{placed} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def wrapped(text: str, width: int, style: str = "") -> list[tuple[str, str]]:
    """Return a text in lines that fit a box of that width."""
    letters = int((width - 2 * PADDING) / (BOLD if style == "title" else LETTER))
    return [(line, style) for line in textwrap.wrap(text, letters)]

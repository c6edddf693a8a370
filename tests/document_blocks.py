"""The blocks of code in a page, and what a reader is told to do with each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PARTS = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$"
    r"|^<!-- (?P<hidden>run|setup|excerpt): (?P<what>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)
# For programs to read or people to look at; the tests beside this one hold what they can.
_SHOWN = frozenset({"json", "text", "yaml"})


@dataclass(frozen=True)
class Block:
    """One block. What stands in a comment right before it is not seen by readers.

    ``setup`` are lines that the code needs and the page leaves out, ``excerpt`` is the file that
    the block is a part of, ``title`` the file that it is the whole of. ``language`` is ``run``
    for a command in a comment.
    """

    language: str
    text: str
    title: str = ""
    setup: str = ""
    excerpt: str = ""

    @property
    def runs(self) -> bool:
        """Whether anything is done with it."""
        return bool(self.language) and self.language not in _SHOWN


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    found: list[Block] = []
    hidden: dict[str, str] = {}
    for part in _PARTS.finditer(document.read_text(encoding="utf-8")):
        if part["hidden"] == "run":
            found.append(Block("run", part["what"]))
        elif part["hidden"]:
            hidden[part["hidden"]] = part["what"]
        else:
            setup = hidden.get("setup", "") + "\n" if "setup" in hidden else ""
            found.append(
                Block(
                    part["language"],
                    part["text"],
                    part["title"] or "",
                    setup,
                    hidden.get("excerpt", ""),
                )
            )
            hidden = {}
    return found


def steps(block: Block) -> list[Step]:
    """Return the commands of a console block, with what each is shown to say."""
    found: list[Step] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        else:
            found[-1].output.append(line)
    return found


def matches(shown: list[str], real: list[str]) -> bool:
    """Compare line by line; a shown ``...`` stands for any number of lines."""
    if not shown:
        return not real
    if shown[0].strip() == "...":
        return any(matches(shown[1:], real[skip:]) for skip in range(len(real) + 1))
    return bool(real) and shown[0].rstrip() == real[0].rstrip() and matches(shown[1:], real[1:])

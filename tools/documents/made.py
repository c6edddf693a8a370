"""Which files, or parts of files, of the documentation follow from the code, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import commands
import pictures
import terminal

from opscaffold.config.keys import KEYS, REGISTRAR_KEYS
from opscaffold.contract import decision
from opscaffold.contract.model import Kind
from opscaffold.contract.releases import RELEASES
from opscaffold.rules.document import page

_PART = re.compile(r"(<!-- made: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def files(root: Path) -> dict[str, str]:
    """Return each file by its name, with the text that it should have."""
    found = {
        "docs/rules.md": page(),
        "docs/commands.md": commands.page(),
        "docs/pictures/decision-tree.svg": pictures.tree(),
        "docs/pictures/terminal.svg": terminal.picture(root),
    }
    for kind in Kind:
        found[picture_of(kind)] = pictures.contract(kind)
    parts = {
        "keys": _table("key", KEYS),
        "registrar-keys": _table("key", REGISTRAR_KEYS),
        "contracts": _contracts(),
        "releases": _releases(),
    }
    for path in sorted(root.glob("docs/*.md")):
        text = path.read_text(encoding="utf-8")
        if _PART.search(text):
            found[f"docs/{path.name}"] = _filled(text, parts)
    return found


def picture_of(kind: Kind) -> str:
    """Return the name of the picture of a kind of op."""
    return f"docs/pictures/{decision.outcome_of(kind).id}.svg"


def _filled(text: str, parts: Mapping[str, str]) -> str:
    return _PART.sub(lambda part: f"{part[1]}\n{parts[part[2]].strip()}\n\n{part[3]}", text)


def _table(head: str, rows: Mapping[str, str]) -> str:
    lines = [f"| `{key}` | {about} |" for key, about in rows.items()]
    return "\n".join([f"| {head} | what it says |", "|---|---|", *lines])


def _contracts() -> str:
    return "\n\n".join(_contract(kind) for kind in Kind)


def _contract(kind: Kind) -> str:
    outcome = decision.outcome_of(kind)
    name = Path(picture_of(kind)).name
    return "\n".join(
        [
            f"### {outcome.title}",
            "",
            f"![An example, and what it reads, writes and returns](pictures/{name})",
            "",
            *(f"- {_code(line)}" for line in outcome.consequences),
        ]
    )


def _code(line: str) -> str:
    return re.sub(r"(mutates_args(?:=\(\))?|tags=[\w.]+|register_autograd)", r"`\1`", line)


def _releases() -> str:
    flags = {
        "custom_op": "`torch.library.custom_op` is there",
        "tags": "tags for in-place and out= ops, which are then checked",
        "out_lowering": "Inductor calls `f.out` in place of `f`",
        "out_lowering_breaks_dynamic": "which was seen to fail with dynamic shapes",
        "optional_lists": "Optional lists of any element",
        "annotated_maybe_out": "a maybe-out op can be declared",
    }
    shown = [row for row in RELEASES if row.version > (0, 0)]
    head = ["torch from", *(str(row) for row in shown)]

    def rows() -> Iterator[list[str]]:
        for name, words in flags.items():
            yield [words, *("yes" if getattr(row, name) else "" for row in shown)]

    table = [head, ["---"] * len(head), *rows()]
    return "\n".join("| " + " | ".join(row) + " |" for row in table)

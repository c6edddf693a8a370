"""Changes as a unified diff in bytes that ``git apply`` takes as it is."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

CONTEXT = 3
_TEXT, _PROGRAM = b"100644", b"100755"

# What is done, the lines of the old file, and those of the new, as difflib tells it.
_Operation = tuple[str, int, int, int, int]

_ESCAPES = {
    0x07: b"\\a",
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0B: b"\\v",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x22: b'\\"',
    0x5C: b"\\\\",
}


def unified_diff(
    changes: Mapping[Path, tuple[bytes | None, bytes | None]],
    root: Path,
    executable: Mapping[Path, bool] = MappingProxyType({}),
) -> bytes:
    """Return the diff of (old, new) bytes of files, sorted by name; empty where none differ.

    Names are relative to ``root``, where ``git apply`` or ``patch -p1`` is to run, and quoted
    as git does. Lines end at ``\\n`` alone, so any encoding and any newline style comes through.
    ``None`` as old bytes stands for a file that does not exist yet, as new ones for one that is
    removed. ``executable`` has the files that get or lose the bit of a program.
    Raises ValueError for a file that is not under ``root``.
    """
    named = {
        _name(path, root): (old, new, executable.get(path)) for path, (old, new) in changes.items()
    }
    return b"".join(_file(name, *named[name]) for name in sorted(named))


def write_diff(diff: bytes, stream: TextIO | None = None) -> None:
    """Write a diff to a text stream (stdout): coloured on a terminal, else the exact bytes.

    On a terminal, control characters of the diffed files are shown as escapes.
    """
    out = sys.stdout if stream is None else stream
    binary = getattr(out, "buffer", None)
    if out.isatty():
        _write_coloured(diff, out)
    elif binary is None:
        out.write(diff.decode("utf-8", "surrogateescape"))
    else:
        out.flush()
        binary.write(diff)
        binary.flush()


def _write_coloured(diff: bytes, out: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, soft_wrap=True, highlight=False)
    for line in diff.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        console.print(Text(_visible(line), style=_style(line)))


def _style(line: str) -> str:
    if line.startswith(
        ("diff --git ", "--- ", "+++ ", "new file ", "deleted file ", "old mode ", "new mode ")
    ):
        return "bold"
    for prefix, style in (("@@", "cyan"), ("+", "green"), ("-", "red"), ("\\", "dim")):
        if line.startswith(prefix):
            return style
    return ""


def _visible(line: str) -> str:
    return "".join(
        char if char == "\t" or char.isprintable() else char.encode("unicode_escape").decode()
        for char in line
    )


def _name(path: Path, root: Path) -> bytes:
    absolute, base = (Path(os.path.abspath(each)) for each in (path, root))  # noqa: PTH100
    return os.fsencode(absolute.relative_to(base).as_posix())


def _file(name: bytes, old: bytes | None, new: bytes | None, executable: bool | None) -> bytes:
    if old == new and executable is None:
        return b""
    a, b = _quoted(b"a/" + name), _quoted(b"b/" + name)
    lines = [b"diff --git " + a + b" " + b]
    program = _PROGRAM if executable else _TEXT
    if old is None:
        lines.append(b"new file mode " + program)
    elif new is None:
        lines.append(b"deleted file mode " + _TEXT)
    elif executable is not None:
        lines += [b"old mode " + (_TEXT if executable else _PROGRAM), b"new mode " + program]
    if old != new and (old or new):
        # A tab ends a name with a space in it: readers take what follows a space for a time.
        tab = b"\t" if b" " in name else b""
        lines.append(b"--- " + (b"/dev/null" if old is None else a + tab))
        lines.append(b"+++ " + (b"/dev/null" if new is None else b + tab))
    return b"\n".join(lines) + b"\n" + b"".join(_hunks(_lines(old or b""), _lines(new or b"")))


def _quoted(name: bytes) -> bytes:
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name
    escaped = b"".join(
        _ESCAPES.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte)
        for byte in name
    )
    return b'"' + escaped + b'"'


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _groups(_operations(old, new)):
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        yield b"@@ -%s +%s @@\n" % (_range(old_start, old_end), _range(new_start, new_end))
        for operation, i, j, k, m in group:
            if operation == "equal":
                yield from (_marked(b" ", line) for line in old[i:j])
                continue
            yield from (_marked(b"-", line) for line in old[i:j])
            yield from (_marked(b"+", line) for line in new[k:m])


def _operations(old: list[bytes], new: list[bytes]) -> list[_Operation]:
    # Most of a file is unchanged at both ends: the matcher, quadratic at worst, need not see it.
    head = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    middle = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    operations: list[_Operation] = [("equal", 0, head, 0, head)] if head else []
    for operation, i, j, k, m in middle.get_opcodes():
        operations.append((operation, i + head, j + head, k + head, m + head))
    if tail:
        operations.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return operations


def _groups(operations: list[_Operation]) -> Iterator[list[_Operation]]:
    """Cut the unchanged stretches so that each change keeps CONTEXT lines on either side."""
    group: list[_Operation] = []
    last = len(operations) - 1
    for index, (operation, i, j, k, m) in enumerate(operations):
        if operation != "equal":
            group.append((operation, i, j, k, m))
            continue
        if index not in (0, last) and j - i <= 2 * CONTEXT:
            group.append((operation, i, j, k, m))
            continue
        if index != 0:
            end = min(j, i + CONTEXT)
            yield [*group, (operation, i, end, k, k + end - i)]
            group = []
        if index != last:
            start = max(i, j - CONTEXT)
            group = [(operation, start, j, m - (j - start), m)]
    if group:
        yield group


def _common(old: list[bytes], new: list[bytes]) -> int:
    number = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        number += 1
    return number


def _marked(sign: bytes, line: bytes) -> bytes:
    if line.endswith(b"\n"):
        return sign + line
    return sign + line + b"\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> bytes:
    length = end - start
    # An empty range is named by the line before it.
    first = start + 1 if length else start
    return b"%d" % first if length == 1 else b"%d,%d" % (first, length)

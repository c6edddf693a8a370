"""One file of an author's, with what a new op adds to it: by what the file is written in."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import PurePath

from opscaffold.fs.text import SourceError, SourceText, decode
from opscaffold.scaffold.wiring_error import WiringError


def wire(
    path: PurePath, theirs: bytes, before: bytes, after: bytes, *, width: int, package: str = ""
) -> bytes:
    """The author's file with the changes that lead from ``before`` to ``after``, and no other.

    A file that the author did not touch becomes ``after``. Python, TOML and tables in Markdown are
    changed by what they say; anything else by its lines. Encoding, BOM and line ends stay.
    ``width`` and ``package`` are those of ``wire_python``. Raises WiringError where the file lacks
    the place, or cannot be read.
    """
    if before == after or theirs == after:
        return theirs
    if theirs == before:
        return after
    source = _decoded(path, theirs)
    old, new = before.decode("utf-8"), after.decode("utf-8")
    text = source.text
    if path.suffix in (".py", ".pyi"):
        from opscaffold.scaffold.wiring_python import wire_python

        made = wire_python(text, old, new, width=width, package=package)
    elif path.suffix == ".toml":
        from opscaffold.scaffold.wiring_toml import wire_toml

        made = wire_toml(text, old, new)
    elif path.suffix == ".md":
        from opscaffold.scaffold.wiring_table import wire_table

        # The rows by what they say, the prose around them by its lines.
        made = wire_lines(wire_table(text, old, new), wire_table(old, old, new), new)
    else:
        made = wire_lines(text, old, new)
    try:
        return source.encode(made)
    except UnicodeEncodeError:
        raise WiringError(f"its encoding, {source.encoding}, lacks a character needed") from None


def _decoded(path: PurePath, data: bytes) -> SourceText:
    from pathlib import Path

    try:
        if path.suffix in (".py", ".pyi"):
            return decode(data, Path(path))
        bom = data.startswith(b"\xef\xbb\xbf")
        return SourceText(data.decode("utf-8-sig"), "utf-8", bom)
    except SourceError as error:
        raise WiringError(f"cannot be read: {error.message}", line=error.line) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WiringError("cannot be read: it is not UTF-8", line=line) from None


def wire_lines(text: str, before: str, after: str) -> str:
    """Make a change by lines, where the lines around it are those that were generated.

    Raises WiringError where they are not: what the author wrote there is not to be guessed about.
    """
    if before == after:
        return text
    end = "\r" if "\r\n" in text else ""
    result = text.split("\n")
    theirs = [line.removesuffix("\r") for line in result]
    old, new = before.split("\n"), after.split("\n")
    places: dict[int, int] = {-1: -1, len(old): len(theirs)}
    for block in SequenceMatcher(None, old, theirs, autojunk=False).get_matching_blocks():
        places.update((block.a + n, block.b + n) for n in range(block.size))
    for kind, i, j, k, m in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if kind == "equal":
            continue
        around = [places.get(n) for n in range(i - 1, j + 1)]
        first = around[0]
        if first is None or around != [*range(first, first + len(around))]:
            line = next((place for place in reversed(around) if place is not None), 0)
            raise WiringError(
                "was changed just where something is to be added", "\n".join(new[k:m]), line + 1
            )
        result[first + 1 : first + 1 + j - i] = [line + end for line in new[k:m]]
    return "\n".join(result)

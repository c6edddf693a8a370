"""Python source as text that goes back to disk byte for byte: encoding, BOM and newlines kept."""

from __future__ import annotations

import codecs
import io
import tokenize
from pathlib import Path

from opscaffold.records import dataclass

# Of these each text has one way to be written, and what was decoded needs no second look.
_EXACT = frozenset({"utf-8", "ascii", "us-ascii", "iso-8859-1", "latin-1"})


class SourceError(Exception):
    """A file that cannot be read as Python source. Lines and columns count from 1."""

    def __init__(self, path: Path, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"{path}:{line}:{column}: {message}")
        self.path = path
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class SourceText:
    """Decoded source. ``text`` has no BOM and its line endings are those of the file.

    ``exact`` tells whether the encoding gives back the bytes that were read: of some there are
    several ways to write one text, and a file must not change where nobody changed it.
    """

    text: str
    encoding: str
    bom: bool = False
    exact: bool = True

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes of this file's encoding, BOM included.

        Raises UnicodeEncodeError where the encoding lacks a character.
        """
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)


def decode(data: bytes, path: Path) -> SourceText:
    """Decode Python source by its BOM or coding cookie (PEP 263), UTF-8 where there is none.

    Raises SourceError for an unknown codec, undecodable bytes or NUL bytes; ``path`` is only
    named in the error.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise SourceError(path, f"cannot tell the encoding: {error.msg}") from None
    bom = data.startswith(codecs.BOM_UTF8)
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        text = body.decode(codec)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise SourceError(path, f"not valid {codec}: {error.reason}", line) from None
    except (LookupError, ValueError) as error:
        # Codecs of bytes to bytes, and those that refuse in words of their own.
        raise SourceError(path, f"cannot be decoded as {codec}: {error}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SourceError(path, "holds a NUL byte", line)
    return SourceText(text, codec, bom, codec in _EXACT or _gives_back(text, codec, body))


def _gives_back(text: str, codec: str, data: bytes) -> bool:
    try:
        return text.encode(codec) == data
    except (LookupError, ValueError):
        return False


def read_source(path: Path) -> SourceText:
    """Read and decode a file. Raises SourceError, also where the file cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(path, f"cannot be read: {error.strerror or error}") from None
    return decode(data, path)

"""Whether bytes hold words, told fast: most files of a tree hold none that matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opscaffold.patterns import pattern

# What a registration that names torch's API holds at least one of.
_SURE = (b"custom_op", b"triton_op", b"mutates_args", b"infer_schema", b"impl_abstract")
_IMPORTED = b"import library"
_LIBRARY = pattern(rb"torch\s*\.\s*library")
_METHODS = ((b"define", pattern(rb"define\b")), (b"impl", pattern(rb"impl\b")))
# One pattern that starts with what the names have in common, which many files hold.
_API = pattern(rb"register_(?:fake|kernel|autograd|vmap|autocast|torch_dispatch)(?!\w)")
_WORD = pattern(rb"\w+")

# Bytes that belong to no ASCII word become a space.
_APART = bytes(c if c == ord("_") or (c < 128 and chr(c).isalnum()) else 32 for c in range(256))
# Up to so many names, looking for each is faster than taking the text apart.
_FEW = 20


def as_bytes(name: str) -> bytes:
    """Return a name as files hold it: that of a file, or what a string literal says, too.

    The name of a file need not be UTF-8, and a literal may hold half a pair of surrogates.
    """
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")


class Words:
    """A set of names, and whether bytes hold any of them as a whole word."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = {as_bytes(name) for name in names}
        plain = {name for name in encoded if _WORD.fullmatch(name)}
        self._many = frozenset(plain) if len(plain) > _FEW else frozenset()
        # One pattern a name: each starts with a literal, which is what re finds fast.
        self._each = [
            (name, re.compile(re.escape(name) + rb"(?!\w)"))
            for name in sorted(encoded - self._many)
        ]

    def in_(self, data: bytes) -> bool:
        """Say whether any of the names is a word of the data."""
        if self._many and not self._many.isdisjoint(data.translate(_APART).split()):
            return True
        return any(
            _starts_word(data, match.start())
            for literal, pattern in self._each
            if literal in data
            for match in pattern.finditer(data)
        )

    def found_in(self, data: bytes) -> frozenset[str]:
        """Return the names that are words of the data, as far as they are ASCII."""
        found = self._many.intersection(data.translate(_APART).split()) if self._many else set()
        found = found | {
            literal
            for literal, pattern in self._each
            if literal in data
            and any(_starts_word(data, match.start()) for match in pattern.finditer(data))
        }
        return frozenset(name.decode("ascii") for name in found if name.isascii())


def may_register(data: bytes) -> bool:
    """Say whether a file with these bytes can hold a registration that names torch's API.

    One that registers through a project helper or a renamed import need not hold any of these
    words; look for the names of those with ``Words``.
    """
    for word in _SURE:
        if word in data:
            return True
    if any(_starts_word(data, match.start()) for match in _API.finditer(data)):
        return True
    # One look for what the three have in common.
    if b"ibrary" in data and (
        _IMPORTED in data or _CLASS.in_(data) or _LIBRARY.search(data) is not None
    ):
        return True
    return any(
        _behind_dot(data, match.start())
        for literal, method in _METHODS
        if literal in data
        for match in method.finditer(data)
    )


def _starts_word(data: bytes, at: int) -> bool:
    before = data[at - 1 : at] if at else b""
    return not (before.isalnum() or before == b"_")


def _behind_dot(data: bytes, at: int) -> bool:
    at -= 1
    while at >= 0 and data[at : at + 1].isspace():
        at -= 1
    return data[at : at + 1] == b"." if at >= 0 else False


_CLASS = Words(["Library"])

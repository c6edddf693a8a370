"""What bytes say of ``torch.ops``, told without parsing them.

Most files that mention it call ops by their full name and do nothing else with it.
"""

from __future__ import annotations

from opscaffold.patterns import pattern

# A pattern that starts with a literal is found fast; what stands around it is looked at then.
_OPS = pattern(rb"ops(?<![0-9A-Za-z]ops)\b")
_BEHIND_TORCH = pattern(rb"torch\s*\.\s*_?\Z")
_IMPORT_OF_TORCH = pattern(rb"\btorch\s+import\b")
_IMPORT_FROM = pattern(rb"[ \t]*from[ \t]+(?!torch\b)\w[\w.]*\.\Z")
_CALLED = pattern(rb"ops\.(\w+)\.(\w+)(\.default)?\(")
_FAR = 1_000
_QUOTES = (b"'", b'"')

Called = tuple[str, str, bool]
"""The namespace and the name of an op that is called, and whether by ``.default``."""


def reads_ops(data: bytes) -> bool:
    """Say whether a file names ``torch.ops``, or something may that is read from torch."""
    for match in _OPS.finditer(data):
        start, end = match.span()
        if _BEHIND_TORCH.search(data, max(0, start - 80), start):
            return True
        if start and data[start - 1 : start] in _QUOTES and data[end : end + 1] in _QUOTES:
            return True
        line = _line_start(data, start)
        if line is None or _IMPORT_OF_TORCH.search(data, line, start):
            return True
    return False


def only_called(data: bytes) -> list[Called] | None:
    """Return what a file calls as ``torch.ops.ns.name(...)``.

    None where it does anything else with something called ``ops``, or may.
    """
    found = []
    for match in _OPS.finditer(data):
        start = match.start()
        line = _line_start(data, start)
        if line is None:
            return None
        if _IMPORT_FROM.match(data, line, start):
            continue
        call = _CALLED.match(data, start)
        if call is None or not data.endswith(b"torch.", 0, start):
            return None
        found.append((call[1].decode(), call[2].decode(), call[3] is not None))
    return found


def _line_start(data: bytes, at: int) -> int | None:
    """Where the line starts; None where that is far: many words would each look there."""
    start = data.rfind(b"\n", max(0, at - _FAR), at) + 1
    return None if not start and at > _FAR else start

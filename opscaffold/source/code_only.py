"""Python without its comments and triple-quoted strings, told from bytes without parsing them.

Words of the registration API stand in as many of those as in code, and to parse a file takes a
hundred times as long as this.
"""

from __future__ import annotations

import re

from opscaffold.patterns import pattern

# Other strings are only passed over: one may hold a name, and what looks like a comment.
_PARTS = pattern(
    rb'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    rb"|\\."
    rb"|#[^\r\n]*",
    re.DOTALL,
)
_LEFT_OUT = (b"#", b'"""', b"'''")
# What is no Python may make the pattern look at it again and again.
_LARGEST = 1_000_000


def code_only(data: bytes) -> bytes:
    """Return a source with a space for each comment and triple-quoted string.

    What is very large is returned as it is.
    """
    return data if len(data) > _LARGEST else _PARTS.sub(_shown, data)


def _shown(match: re.Match[bytes]) -> bytes:
    text = match.group()
    return b" " if text.startswith(_LEFT_OUT) else text

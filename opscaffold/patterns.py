"""Regular expressions that are compiled when they are first used.

A short command loads dozens of patterns and uses few: to compile them all takes a sixth of its
time. Type checkers see what ``re.compile`` returns; all that a pattern has can be asked of these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

__all__ = ["pattern"]

if TYPE_CHECKING:
    pattern = re.compile
else:
    _METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")

    class pattern:  # noqa: N801 -- it stands for the function that type checkers see
        """A pattern to be. Raises re.error when it is first used, where it is none."""

        def __init__(self, text, flags=0):
            self._given = text, flags

        def __getattr__(self, name):  # noqa: D105
            # Asked for what is not there yet: from now on methods are found without a detour.
            if name.startswith("__"):
                raise AttributeError(name)
            compiled = re.compile(*self._given)
            for method in _METHODS:
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)

"""Lets imports read other contents of some files than those on disk.

So the program before and after a change can be run from one tree, whatever else lies in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType


@contextlib.contextmanager
def overlaid(contents: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, importing a file takes its source from another: real path to real path.

    Positions in what is imported are those of the file that it stands for. Nothing is written to
    a bytecode cache, and nothing is read from one for these files.
    """
    read = SourceFileLoader.get_code
    wrote = sys.dont_write_bytecode

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        instead = contents.get(os.path.realpath(path))
        if instead is None:
            return read(self, fullname)
        code: CodeType = self.source_to_code(Path(instead).read_bytes(), path)
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        SourceFileLoader.get_code = read  # type: ignore[method-assign]
        sys.dont_write_bytecode = wrote

"""Tells an op that refuses a call on purpose from one that fails at it."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

import torch

_TORCH = Path(torch.__file__).parent


def refused(error: BaseException) -> bool:
    """Whether the author raised this: a ``raise`` outside torch, or a NotImplementedError.

    An author who raises has told users what the op does not do. That is no breach: nothing goes
    wrong in silence.
    """
    if isinstance(error, NotImplementedError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return False
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    if Path(last.filename).is_relative_to(_TORCH):
        # torch._check and its like raise on behalf of who calls them.
        return last.name.startswith("_check")
    return line.startswith("raise ")

"""Python's collector of garbage that holds itself, and when it is in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Leave garbage that holds itself where it is, for as long as a project is worked on.

    Syntax trees are many small objects that all stay: looking through them again and again for
    garbage is a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""What each torch release takes: one table, so that a release which allows more is one row.

Rows hold from their version on, up to the next row. Sources: FACTS sections 7 and 10.
"""

from __future__ import annotations

import re

from opscaffold.patterns import pattern
from opscaffold.records import dataclass, replace

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Release:
    """One torch release. ``version`` is the one asked for, not the row's."""

    version: Version
    # torch.library.custom_op exists.
    custom_op: bool = False
    # torch.library.triton_op and wrap_triton exist.
    triton_op: bool = False
    # custom_op takes tags=, and Tag.inplace and Tag.out are checked.
    tags: bool = False
    # Inductor replaces ns::f by ns::f.out where both exist.
    out_lowering: bool = False
    # That replacement has been seen to fail with dynamic shapes.
    out_lowering_breaks_dynamic: bool = False
    # infer_schema takes an Optional list of any element that it takes lists of.
    optional_lists: bool = False
    # ``(Tensor x, Tensor(a!)? out=None) -> Tensor(a!)`` is a contract of its own.
    annotated_maybe_out: bool = False

    def __str__(self) -> str:
        """``2.13``."""
        return f"{self.version[0]}.{self.version[1]}"


_OLDEST = Release((0, 0))
_2_4 = replace(_OLDEST, version=(2, 4), custom_op=True)
_2_6 = replace(_2_4, version=(2, 6), triton_op=True)
_2_13 = replace(
    _2_6, version=(2, 13), tags=True, out_lowering=True, out_lowering_breaks_dynamic=True
)
# Of 2.14 on it was not measured whether dynamic shapes still break the lowering.
_2_14 = replace(_2_13, version=(2, 14), out_lowering_breaks_dynamic=False)
_2_15 = replace(_2_14, version=(2, 15), optional_lists=True)

RELEASES: tuple[Release, ...] = (_OLDEST, _2_4, _2_6, _2_13, _2_14, _2_15)

FIRST_WITH_CUSTOM_OP: Version = next(r.version for r in RELEASES if r.custom_op)
FIRST_WITH_TAGS: Version = next(r.version for r in RELEASES if r.tags)
FIRST_WITH_TRITON_OP: Version = next(r.version for r in RELEASES if r.triton_op)
# The release whose behaviour was measured line by line, and the default target.
MEASURED: Version = (2, 13)

# The expression takes the square of what it reads.
_LONGEST = 100
_VERSION = pattern(r"\s*v?(\d{1,3})\.(\d{1,3})(?:\.\d+)*(?:[+.\-a-z].*)?\s*\Z", re.IGNORECASE)


def release_for(version: Version | str = MEASURED) -> Release:
    """What ``version`` takes: the newest row that is not newer than it.

    A string may be whatever ``torch.__version__`` holds. Raises ValueError for one that starts
    with no major and minor number.
    """
    if isinstance(version, str):
        version = parse_version(version)
    row = next(r for r in reversed(RELEASES) if r.version <= version)
    return replace(row, version=version)


def supports_tags(version: Version | str) -> bool:
    """Whether custom_op takes ``tags=`` and with it the in-place and out= contracts."""
    return release_for(version).tags


def parse_version(text: str) -> Version:
    """``(2, 13)`` of ``2.13``, ``2.13.0`` or ``2.13.0+cpu``. Raises ValueError otherwise."""
    match = _VERSION.match(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text!r} is no torch version; write it as 2.13")
    return int(match[1]), int(match[2])

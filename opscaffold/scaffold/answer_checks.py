"""The validators of answers: each returns the normal form of a text, or raises ValueError."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence

from opscaffold.contract.naming import (
    validate_namespace,
    validate_op_name,
    validate_parameter_name,
)
from opscaffold.contract.releases import FIRST_WITH_CUSTOM_OP, parse_version
from opscaffold.scaffold.from_spec import dump_wrapped, load_wrapped
from opscaffold.scaffold.spec import (
    AUTOCAST_DTYPES,
    DEVICES,
    FakeMode,
    KernelLanguage,
    Registration,
)

MAX_TEXT = 300

_VERSION = re.compile(r"\d{1,2}\.\d{1,3}(?:\.\d{1,3})?")


def _one_of(choices: type[enum.Enum] | Sequence[str], what: str) -> Callable[[str], str]:
    words = [c if isinstance(c, str) else str(c.value) for c in choices]

    def check(text: str) -> str:
        if text.lower() in words:
            return text.lower()
        raise ValueError(f"{text!r} is no {what}; it is {', '.join(words[:-1])} or {words[-1]}")

    return check


check_fake = _one_of(FakeMode, "rule for the output's metadata")
check_registration = _one_of(Registration, "way to register ops")
check_kernel = _one_of(KernelLanguage, "language of kernels")
check_dtype = _one_of(AUTOCAST_DTYPES, "dtype that autocast casts to")
check_device = _one_of(DEVICES, "device that kernels are tested on")


def check_torch(text: str) -> str:
    """Return a torch release as ``2.13``."""
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is no torch release; write it as 2.13")
    release = parse_version(text)
    if release < FIRST_WITH_CUSTOM_OP:
        raise ValueError(f"{text} is too old: torch.library.custom_op came with torch 2.4")
    if release[0] > FIRST_WITH_CUSTOM_OP[0]:
        raise ValueError(f"{text} is no torch release; the first number is 2")
    return f"{release[0]}.{release[1]}"


def check_description(text: str) -> str:
    """Return a description of one line that no generated file has to escape."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"the description has {len(text)} characters; {MAX_TEXT} are enough")
    if not text.isprintable():
        raise ValueError("the description is one line of printable characters")
    for mark in '"\\{}':
        if mark in text:
            raise ValueError(f"the description may not hold {mark}, which generated files use")
    return text


def check_size(text: str) -> str:
    """Return a size expression; what it may read is known only with the op's arguments."""
    if not text:
        raise ValueError("a dimension is empty; write one expression a dimension")
    return text


def _checker(reason_against: Callable[[str], str | None]) -> Callable[[str], str]:
    def check(text: str) -> str:
        reason = reason_against(text)
        if reason is not None:
            raise ValueError(reason)
        return text

    return check


def check_wrapped(text: str) -> str:
    """Return what a function was read as. Raises ValueError for what opscaffold did not write."""
    return dump_wrapped(load_wrapped(text))


check_namespace = _checker(validate_namespace)
check_op_name = _checker(validate_op_name)
check_parameter_name = _checker(validate_parameter_name)

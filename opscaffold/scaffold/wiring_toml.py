"""Values put into an author's TOML file."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from opscaffold.scaffold.wiring_error import WiringError


def wire_toml(text: str, before: str, after: str) -> str:
    """Make the changes that lead from ``before`` to ``after`` in ``text``, and no other.

    A value that the author changed differently stays theirs: WiringError says so, as it does for
    a file that is no TOML.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise WiringError(f"is not valid TOML: {error}", line=getattr(error, "line", 0)) from None
    _merge(document, tomlkit.parse(before), tomlkit.parse(after), ())
    return tomlkit.dumps(document)


def _merge(
    theirs: MutableMapping[str, Any], before: Any, after: Any, where: tuple[str, ...]
) -> None:
    for key, value in after.items():
        old = before.get(key)
        if value == old:
            continue
        path = (*where, key)
        now = theirs.get(key)
        if isinstance(value, dict) and isinstance(old, dict | None) and isinstance(now, dict):
            _merge(now, old or {}, value, path)
        elif isinstance(value, list) and isinstance(now, list) and isinstance(old, list):
            _merge_items(now, old, value)
        elif now == old:
            theirs[key] = value
        elif now != value:
            raise WiringError(
                f"{'.'.join(path)} is {_said(now)} there, and {_said(value)} is needed",
                f"{'.'.join(path)} = {_said(value)}",
            )
    for key in before:
        if key not in after and key in theirs:
            if theirs[key] != before[key]:
                raise WiringError(f"{'.'.join((*where, key))} is no longer needed, and was changed")
            del theirs[key]


def _merge_items(now: list[Any], old: list[Any], new: list[Any]) -> None:
    for item in old:
        if item not in new and item in now:
            now.remove(item)
    for item in new:
        if item not in old and item not in now:
            now.append(item)


def _said(value: Any) -> str:
    return "missing" if value is None else tomlkit.item(value).as_string()

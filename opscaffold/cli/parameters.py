"""Parameters of commands, taken as they are where nothing about them has to be looked into.

Recent releases of Typer hand every value to pydantic, which takes longer to load than most runs
take to do their work. A path or a word on the command line needs no validation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_origin

from typer.core import TyperCommand

_KEPT_IN = "_runtime_param"
_PLAIN: dict[Any, Any] = {str: str, Path: Path}


class Command(TyperCommand):
    """A command of Typer's that loads pydantic only for values which need it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command."""
        return take_plainly(super().get_params(ctx))


def take_plainly(parameters: list[Any]) -> list[Any]:
    """Let the parameters of a command take plain values as they are, and return them."""
    for parameter in parameters:
        # In releases without this attribute, nothing is validated that way.
        if vars(parameter).get(_KEPT_IN, "") is None and hasattr(parameter, "type_descriptor"):
            vars(parameter)[_KEPT_IN] = _Plain(parameter)
    return parameters


class _Plain:
    """Stands in for what Typer converts a parameter by."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind = self._parameter.type_descriptor.annotation
        if self._is_plain():
            if several and get_origin(kind) is list and isinstance(value, list | tuple):
                make = _PLAIN.get(get_args(kind)[0])
                if make is not None and all(isinstance(item, str) for item in value):
                    return [make(item) for item in value]
            elif not several and kind in _PLAIN and isinstance(value, str):
                return _PLAIN[kind](value)
            elif isinstance(kind, type) and isinstance(value, kind):
                # A default, or a flag.
                return value
        vars(self._parameter)[_KEPT_IN] = None
        return self._parameter.get_runtime_param().coerce(value, param=param, ctx=ctx)

    def _is_plain(self) -> bool:
        """Whether the parameter was declared without anything that is to be checked."""
        declared = getattr(self._parameter.type_descriptor, "parameter_info", None)
        asked = ("exists", "resolve_path", "path_type", "parser", "click_type", "min", "max")
        return not any(getattr(declared, name, None) for name in asked)

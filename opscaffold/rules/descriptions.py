"""The configuration that describes a helper, as far as the calls of it show what it takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from opscaffold.patterns import pattern
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk

NAME = pattern(r"(op_?|qual|full)?name|op|qualname", re.IGNORECASE)
_NAMESPACE = pattern(r"(\w*_)?(ns|namespace|lib|library)", re.IGNORECASE)
_FAKE = pattern(r"\w*(fake|abstract|meta)\w*", re.IGNORECASE)
_KEYS = (
    ("mutates_args", pattern(r"mutates(_args)?")),
    ("schema", pattern(r"(op_)?schema", re.IGNORECASE)),
    ("fake", _FAKE),
    ("namespace", _NAMESPACE),
    ("name", NAME),
    ("function", pattern(r"(op_)?(func|fn|function|impl|kernel)(_impl)?", re.IGNORECASE)),
)
_SOURCES = ("name", "namespace", "function", "mutates_args", "schema", "fake")
# How a helper is called that adds to an op, by what it adds.
_ADDING = (
    ("register_fake", _FAKE),
    ("impl", pattern(r"(?!\w*(custom|triton))(\w*_)?(impl|kernel)(_\w*)?", re.IGNORECASE)),
)
_MAKING = frozenset({"list", "set", "tuple", "frozenset"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Calls = Sequence[tuple[Module, ast.Call]]


def configuration(name: str, calls: Calls) -> str:
    """Return the configuration that describes a helper, made of all the calls of it."""
    sources = _by_keyword(calls)
    parameters = _by_position(calls, sources)
    registers = _registers(name, sources)
    rows = ["[[tool.opscaffold.registrars]]", f'helper = "{name}"']
    if parameters:
        # Those two must be listed; behind the last position that is seen, no call is misread.
        parameters += [
            sources[what]
            for what in ("name", "function")
            if what in sources and sources[what] not in parameters
        ]
        rows.append(f"parameters = [{', '.join(map(_quoted, parameters))}]")
    rows += [f"{what} = {_quoted(sources[what])}" for what in _SOURCES if what in sources]
    if registers is not None:
        rows.append(f"registers = {_quoted(registers)}")
    defaults = []
    if "namespace" not in sources and not all(_has_namespace(call) for _, call in calls):
        defaults.append('namespace = "..."')
    mutates = sources.get("mutates_args")
    if registers is None and "schema" not in sources and not _all_give(calls, mutates, parameters):
        defaults.append("mutates_args = []")
    if defaults:
        rows.append(f"defaults = {{ {', '.join(defaults)} }}")
    return "\n".join(rows)


def applies_to_function(module: Module, call: ast.Call) -> bool:
    """Say whether what a call gives back is put on a function, as a decorator or by a call."""
    parent = module.parents.get(call)
    if isinstance(parent, _FUNCTIONS):
        return call in parent.decorator_list
    return isinstance(parent, ast.Call) and parent.func is call


def _by_keyword(calls: Calls) -> dict[str, str]:
    sources: dict[str, str] = {}
    for key in _keywords(calls):
        for what, words in _KEYS:
            if what not in sources and words.fullmatch(key):
                sources[what] = key
                break
    return sources


def _keywords(calls: Calls) -> Iterator[str]:
    for _, call in calls:
        yield from (k.arg for k in call.keywords if k.arg is not None)


def _by_position(calls: Calls, sources: dict[str, str]) -> list[str]:
    """Return the positional parameters, and add to the sources what comes from them."""
    every = [list(_roles(module, call)) for module, call in calls]
    taken = set(_keywords(calls))
    parameters: list[str] = []
    seen: set[str] = set()
    for at in range(max(map(len, every), default=0)):
        told = [roles[at] for roles in every if len(roles) > at and roles[at]]
        what = next((role for role in told if role not in seen), "")
        seen.add(what)
        if what in sources:
            parameters.append(sources[what])
            continue
        free = bool(what) and what not in taken
        parameters.append(what if free else f"argument_{at + 1}")
        if what:
            sources[what] = parameters[-1]
        if what == "schema" and "name" not in sources and "name" not in seen:
            # The op's name stands in front of such a schema.
            sources["name"] = parameters[-1]
            seen.add("name")
    return parameters


def _roles(module: Module, call: ast.Call) -> Iterator[str]:
    """Yield what each positional argument seems to be, empty where nothing tells."""
    seen = {"function"} if applies_to_function(module, call) else set()
    for value in call.args:
        if isinstance(value, ast.Starred):
            return
        what = _role(value, seen)
        seen.add(what)
        yield what


def _role(value: ast.expr, seen: set[str]) -> str:
    what = ""
    match value:
        case ast.Constant(value=str(text)):
            if "->" in text:
                what = "schema"
            else:
                what = "mutates_args" if text == "unknown" and "name" in seen else "name"
        case ast.JoinedStr() | ast.BinOp():
            what = "name"
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
            what = "mutates_args"
        case ast.Call(func=ast.Name(id=made)) if made in _MAKING:
            what = "mutates_args"
        case ast.Lambda():
            what = "fake" if "function" in seen else "function"
        case ast.Name(id=word) | ast.Attribute(attr=word):
            what = _role_of_name(word, seen)
    return "" if what in seen else what


def _role_of_name(word: str, seen: set[str]) -> str:
    if _NAMESPACE.fullmatch(word):
        return "namespace"
    if "function" in seen:
        return "fake" if _FAKE.fullmatch(word) else ""
    return "function"


def _registers(name: str, sources: dict[str, str]) -> str | None:
    """Return what a helper adds to an op that is defined elsewhere; None where it defines one."""
    if sources.keys() & {"mutates_args", "schema", "fake"}:
        return None
    last = name.rpartition(".")[2]
    return next((what for what, pattern in _ADDING if pattern.fullmatch(last)), None)


def _all_give(calls: Calls, parameter: str | None, parameters: list[str]) -> bool:
    at = parameters.index(parameter) if parameter in parameters else None
    return all(
        (at is not None and len(call.args) > at) or any(k.arg == parameter for k in call.keywords)
        for _, call in calls
        if not any(k.arg is None for k in call.keywords)
    )


def _has_namespace(call: ast.Call) -> bool:
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and "::" in n.value
        for n in walk(call)
    )


def _quoted(word: str) -> str:
    return f'"{word}"'

"""Where a definition says what it mutates, and how that is written there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.syntax import Key, Syntax
from opscaffold.rules.contracts import default_of, written_value
from opscaffold.source.load import span
from opscaffold.source.model import Form, FunctionNode, Module, Registration
from opscaffold.source.project import Project

_MUTATES = "mutates_args"
_EMPTY_CALLS = frozenset({"set", "frozenset", "tuple", "list"})


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the names stand: an expression, or a call that is to be given them as ``keyword``."""

    module: Module
    call: ast.Call
    node: ast.expr | None
    keyword: str = _MUTATES


def find_mutates(project: Project, definition: Registration) -> Spot | None:
    """Where the names of mutated arguments are written; None where a schema alone says them.

    Raises RefusalError where they are written, but not in the definition itself.
    """
    call = definition.call
    if call is None:
        return None
    node = definition.arguments.get(_MUTATES)
    if definition.form is not Form.HELPER:
        if node is None:
            node = _in_schema(definition)
        return None if node is None else Spot(definition.module, call, _own(definition, node))
    if definition.helper is None:
        node = node if node is not None else _described(definition)
        return None if node is None else Spot(definition.module, call, _own(definition, node))
    called = _called(project, definition, call)
    name = None if called is None else _passed_on(called)
    if called is None or name is None:
        if node is None and written_value(project, definition, "schema") is not None:
            return None
        raise _elsewhere(definition)
    return _at_call(definition, called, call, name)


def _called(project: Project, definition: Registration, call: ast.Call) -> FunctionNode | None:
    """The function that a call registers by: the helper, or one that makes it."""
    target = project.resolve(definition.module, call.func).certain
    node = None if target is None else target.node
    if not isinstance(node, ast.FunctionDef):
        return None
    return node if any(n is definition.helper for n in ast.walk(node)) else None


def _at_call(definition: Registration, helper: FunctionNode, call: ast.Call, name: str) -> Spot:
    """Where a call gives a helper the parameter that it passes on, or may give it."""
    given = next((k.value for k in call.keywords if k.arg == name), None)
    positional = [a.arg for a in (*helper.args.posonlyargs, *helper.args.args)]
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    if given is None and name in positional and plain:
        index = positional.index(name)
        given = call.args[index] if index < len(call.args) else None
    if given is not None:
        return Spot(definition.module, call, _own(definition, given))
    whole = plain and all(k.arg is not None for k in call.keywords)
    if whole and default_of(helper, name) is not None:
        return Spot(definition.module, call, None, name)
    raise _elsewhere(definition)


def _own(definition: Registration, node: ast.expr) -> ast.expr:
    """The expression, if the names are written out in it."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set() | ast.Constant():
            return node
        case ast.Dict(keys=[]):
            return node
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _EMPTY_CALLS:
            return node
    raise _elsewhere(definition)


def _elsewhere(definition: Registration) -> RefusalError:
    return RefusalError(
        definition.call or definition.statement,
        "what it mutates is not written out where it is defined",
        "write mutates_args out there",
        definition.module,
    )


def _in_schema(definition: Registration) -> ast.expr | None:
    """The names given to infer_schema inside the argument that is the schema."""
    schema = definition.arguments.get("schema")
    found = [] if schema is None else list(_keywords(schema))
    return found[0] if len(found) == 1 else None


def _keywords(node: ast.AST) -> list[ast.expr]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.keyword) and n.arg == _MUTATES]


def _described(definition: Registration) -> ast.expr | None:
    """The argument of a described helper that holds the names."""
    for value in definition.arguments.values():
        if isinstance(value, ast.Tuple | ast.List | ast.Set):
            names = [e.value for e in value.elts if isinstance(e, ast.Constant)]
            if tuple(names) == definition.mutates and len(names) == len(value.elts):
                return value
        elif isinstance(value, ast.Constant) and value.value == definition.mutates:
            return value
    return None


def _passed_on(helper: FunctionNode) -> str | None:
    """The parameter of a helper that it passes on as the names, as it is."""
    names = {v.id if isinstance(v, ast.Name) else "" for v in _keywords_in_calls(helper)}
    if len(names) != 1:
        return None
    name = names.pop()
    spec = helper.args
    known = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    bound = {
        n.id for n in ast.walk(helper) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return name if name in known - bound else None


def _keywords_in_calls(helper: FunctionNode) -> list[ast.expr]:
    return [value for statement in helper.body for value in _keywords(statement)]


def find_schema(project: Project, definition: Registration) -> tuple[Module, ast.expr] | None:
    """The string that a definition has for a schema, None where it has none of its own.

    Raises RefusalError where there is one that is not written out.
    """
    if definition.schema is None:
        return None
    found = written_value(project, definition, "schema")
    if found is None and definition.form is Form.HELPER and definition.helper is None:
        texts = [v for v in definition.arguments.values() if isinstance(v, ast.Constant)]
        same = [v for v in texts if v.value == definition.schema]
        found = (definition.module, same[0]) if len(same) == 1 else None
    if found is None or not isinstance(found[1], ast.Constant):
        raise RefusalError(
            definition.call or definition.statement,
            "its schema is not written out where it is defined",
            "annotate the schema by hand",
            definition.module,
        )
    if definition.form is Form.HELPER and not _inside(definition, found[1]):
        raise _elsewhere(definition)
    return found


def _inside(definition: Registration, node: ast.expr) -> bool:
    return definition.call is not None and any(n is node for n in ast.walk(definition.call))


def names_text(spot: Spot, node: ast.expr | None, names: Sequence[str]) -> str:
    """The names in the style of what they replace: a tuple, list or set, and its quotes."""
    quote = _quote(spot, node)
    words = [f"{quote}{name}{quote}" for name in names]
    inner = ", ".join(words)
    made = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.List) or made == "list":
        return f"[{inner}]"
    braces = isinstance(node, ast.Set | ast.Dict) or made in {"set", "frozenset"}
    if braces and words:
        return f"{{{inner}}}"
    return f"({inner}{',' if len(words) == 1 else ''})"


def literals_in_lines(spot: Spot) -> dict[str, ast.expr]:
    """The names that stand in a tuple or list of several lines, by what they say; else nothing."""
    node = spot.node
    if not isinstance(node, ast.Tuple | ast.List) or node.lineno == node.end_lineno:
        return {}
    found = {
        e.value: e for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)
    }
    return dict(found) if len(found) == len(node.elts) else {}


def _quote(spot: Spot, node: ast.expr | None) -> str:
    """The quotes of the names that are there, or else of the strings around them."""
    for place in (node, spot.call):
        for part in ast.walk(place) if place is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                start, end = span(spot.module, part)
                text = spot.module.source.text[start:end]
                if text[:1] in {"'", '"'} and text[:3] not in {"'''", '"""'}:
                    return text[:1]
    return '"'


def pieces_of(syntax: Syntax, node: ast.expr) -> list[tuple[Key, str]]:
    """The literals that a string constant is written in, with their source."""
    found = syntax.inside(syntax.key(node), cst.SimpleString)
    return sorted((key, piece.value) for key, piece in found)


def aliased_text(texts: Mapping[Key, str], key: Key, name: str, *, write: bool) -> str | None:
    """One literal with the argument of this name annotated as written to, or no more so.

    None where the argument does not stand in this literal, or is annotated otherwise.
    """
    text = texts[key]
    mark = r"(?P<mark>\((?P<alias>\w+)!\))?"
    pattern = rf"\bTensor{mark}(?P<rest>(?:\?|\[\d*\])*\s+){re.escape(name)}(?=\s*[,)=])"
    head, arrow, _ = text.partition("->")
    found = list(re.finditer(pattern, head if arrow else text))
    if len(found) != 1 or bool(found[0]["mark"]) is write:
        return None
    match = found[0]
    if write:
        mark = f"({_free_alias(texts.values())}!)"
    else:
        used = sum(len(re.findall(rf"\b{match['alias']}\b", t)) for t in _marks(texts.values()))
        if used > 1:
            return None
        mark = ""
    made = f"Tensor{mark}{match['rest']}{name}"
    return text[: match.start()] + made + text[match.end() :]


def _marks(texts: Iterable[str]) -> list[str]:
    return [mark for text in texts for mark in re.findall(r"Tensor\(([^()]*)\)", text)]


def _free_alias(texts: Iterable[str]) -> str:
    used = {word for mark in _marks(texts) for word in re.findall(r"\w+", mark)}
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    return next(n for n in (*letters, *(f"a{i}" for i in range(100))) if n not in used)

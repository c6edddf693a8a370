"""What an op declares, as a contract: from its schema, or from its signature as PyTorch does."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.model import Default, OpContract, Tag
from opscaffold.contract.naming import split_qualname
from opscaffold.contract.signature import SignatureError, contract_from_signature
from opscaffold.rules.aliases import spelled_out
from opscaffold.source.model import Form, FunctionNode, Module, Op, Registration, Role
from opscaffold.source.project import Project

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Asked for again and again: once for each rule.
_KNOWN: WeakKeyDictionary[Project, dict[tuple[Op, frozenset[Tag], bool], OpContract | None]] = (
    WeakKeyDictionary()
)
_POSTPONED: WeakKeyDictionary[ast.Module, bool] = WeakKeyDictionary()


def contract_of(project: Project, op: Op) -> OpContract | None:
    """The declared contract, or None where any part of it cannot be told from the source."""
    tags = tags_of(project, op.definition)
    if tags is None:
        return None
    return _contract(project, op, tags, loose=False)


def signature_of(project: Project, op: Op) -> OpContract | None:
    """The arguments and returns; what is mutated is only said where that can be told."""
    return _contract(project, op, tags_of(project, op.definition) or frozenset(), loose=True)


def tags_of(project: Project, registration: Registration) -> frozenset[Tag] | None:
    """The contract tags that a definition gives; None where they cannot be told."""
    written = written_value(project, registration, "tags")
    if written is None:
        return None if "tags" in registration.arguments else frozenset()
    module, node = written
    if isinstance(node, ast.Constant) and node.value is None:
        return frozenset()
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    found: set[Tag] = set()
    for part in parts:
        dotted = project.resolve_dotted(module, part)
        if dotted is None or ".Tag." not in dotted:
            return None
        found |= {tag for tag in Tag if dotted.endswith(f".Tag.{tag.value}")}
    return frozenset(found)


def written_value(
    _: Project, registration: Registration, name: str
) -> tuple[Module, ast.expr] | None:
    """The argument of a registration, and the module it stands in; None where there is none.

    Of one that a project helper makes it is what the helper's parameters then stand for.
    """
    value = registration.arguments.get(name)
    if value is None:
        return None
    if registration.form is not Form.HELPER:
        return registration.module, value
    return registration.settled.get(name, (registration.module, value))


def default_of(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str
) -> ast.expr | None:
    """The default of a parameter, if it has one."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    for arg, value in zip(reversed(positional), reversed(spec.defaults), strict=False):
        if arg.arg == name:
            return value
    for arg, keyword in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if arg.arg == name:
            return keyword
    return None


def postponed(module: Module) -> bool:
    """Whether a module has ``from __future__ import annotations``."""
    if module.tree not in _POSTPONED:
        _POSTPONED[module.tree] = any(
            isinstance(n, ast.ImportFrom)
            and n.module == "__future__"
            and any(a.name == "annotations" for a in n.names)
            for n in module.tree.body
        )
    return _POSTPONED[module.tree]


def origins(project: Project, module: Module) -> Callable[[ast.expr], str | None]:
    """Where the names of a module come from, for readers of annotations and defaults.

    Names in quoted annotations are no nodes of the module, and mean what they usually do.
    """
    return lambda expr: project.resolve_dotted(module, expr) if expr in module.parents else None


def constants(project: Project, module: Module) -> Callable[[ast.expr], Default | None]:
    """The values of a module's plain constants, for readers of defaults."""

    def value(expr: ast.expr) -> Default | None:
        match expr:
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
                return _float(text)
        if expr not in module.parents:
            return None
        target = project.resolve(module, expr).certain
        node = None if target is None else target.node
        if isinstance(node, ast.Constant) and isinstance(
            node.value, int | float | str | bool | type(None)
        ):
            return Default(node.value)
        return None

    return value


def _float(text: str) -> Default | None:
    try:
        return Default(float(text))
    except ValueError:
        return None


def _contract(project: Project, op: Op, tags: frozenset[Tag], *, loose: bool) -> OpContract | None:
    known = _KNOWN.setdefault(project, {})
    key = (op, tags, loose)
    if key not in known:
        known[key] = _read_contract(project, op, tags, loose=loose)
    return known[key]


def _read_contract(
    project: Project, op: Op, tags: frozenset[Tag], *, loose: bool
) -> OpContract | None:
    definition = op.definition
    schema = definition.schema
    if schema is not None:
        try:
            found = parse_schema(schema, namespace=op.namespace, tags=tags)
        except SchemaError:
            return None
        if not found.name:
            name, _, overload = op.name.partition(".")
            found = replace(found, name=name, overload=overload)
        return found
    if _hidden_schema(definition) or not isinstance(definition.function, _FUNCTIONS):
        return None
    module = definition.function_module or definition.module
    mutates = definition.mutates
    if mutates is None and not loose:
        return None
    qualname = definition.qualname
    if qualname is None or split_qualname(qualname) is None:
        if not loose and definition.qualname is not None:
            return None
        qualname = "unknown::unknown"
    read = partial(
        _read,
        _with_plain_annotations(project, module, definition.function),
        qualname=qualname,
        resolver=origins(project, module),
        evaluate=constants(project, module),
        postponed=postponed(module),
        schema_only=definition.role is Role.DEFINE,
    )
    inferred = read(mutates_args=() if mutates is None else mutates, tags=tags)
    if inferred is None and loose:
        return read(mutates_args=(), tags=frozenset())
    return inferred


def _with_plain_annotations(
    project: Project, module: Module, function: FunctionNode
) -> FunctionNode:
    """A function whose annotations go by no alias of the project: itself where none does."""
    old = [*_annotated(function.args), *([] if function.returns is None else [function.returns])]
    plain = {node: spelled_out(project, module, node) for node in old}
    if all(node is new for node, new in plain.items()):
        return function
    result = copy.copy(function)
    result.args = copy.copy(function.args)
    for kind in ("posonlyargs", "args", "kwonlyargs"):
        arguments = [copy.copy(a) for a in getattr(function.args, kind)]
        for argument in arguments:
            argument.annotation = plain.get(argument.annotation, argument.annotation)
        setattr(result.args, kind, arguments)
    if function.returns is not None:
        result.returns = plain[function.returns]
    return result


def _annotated(spec: ast.arguments) -> list[ast.expr]:
    every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
    return [a.annotation for a in every if a.annotation is not None]


def _read(function: FunctionNode, **said: Any) -> OpContract | None:
    try:
        return contract_from_signature(function, **said)
    except SignatureError:
        return None


def _hidden_schema(definition: Registration) -> bool:
    """Whether there is a schema, but not one that can be read."""
    node = definition.arguments.get("schema")
    if definition.role is Role.DEFINE:
        return definition.function is None
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)

"""What an op declares of its parameters: by its schema where it has one, else by annotations."""

from __future__ import annotations

import ast

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.model import ListType, OptionalType, Parameter
from opscaffold.effects.buffers import Argument
from opscaffold.effects.trace import FunctionNode
from opscaffold.rules.aliases import spelled_out
from opscaffold.source.model import Op, Registration, Role
from opscaffold.source.project import Project

_LISTS = frozenset({"List", "list", "Sequence", "Iterable", "Tuple", "tuple"})


def arguments_of(project: Project, op: Op) -> list[Argument]:
    """The parameters of an op's kernel as far as they are declared; empty where out of sight."""
    registration = _registration_of_kernel(op)
    if registration is None or registration.function is None:
        return []
    module = registration.function_module or registration.module
    declared = _declared(op.definition.schema)
    found = []
    for arg, default in _parameters(registration.function):
        written = arg.annotation
        annotation = None if written is None else spelled_out(project, module, written)
        found.append(_argument(arg.arg, annotation, default, declared))
    return found


def kernel_of(op: Op) -> FunctionNode | ast.Lambda | None:
    """The main kernel of an op: the function it was defined with, or the first implementation."""
    registration = _registration_of_kernel(op)
    return None if registration is None else registration.function


def _registration_of_kernel(op: Op) -> Registration | None:
    if op.definition.function is not None:
        return op.definition
    return next((r for r in op.attached if r.role is Role.IMPL and r.function is not None), None)


def _parameters(function: FunctionNode | ast.Lambda) -> list[tuple[ast.arg, ast.expr | None]]:
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    defaults += spec.defaults
    pairs = list(zip(positional, defaults, strict=True))
    return pairs + list(zip(spec.kwonlyargs, spec.kw_defaults, strict=True))


def _declared(schema: str | None) -> dict[str, Parameter]:
    if schema is None:
        return {}
    try:
        return {p.name: p for p in parse_schema(schema).parameters}
    except SchemaError:
        return {}


def _argument(
    name: str,
    annotation: ast.expr | None,
    default: ast.expr | None,
    declared: dict[str, Parameter],
) -> Argument:
    none_default = isinstance(default, ast.Constant) and default.value is None
    parameter = declared.get(name)
    if parameter is not None:
        type_ = parameter.type
        optional = isinstance(type_, OptionalType)
        inner = type_.of if isinstance(type_, OptionalType) else type_
        return Argument(
            name,
            tensor=parameter.is_tensor_like,
            optional=optional or none_default,
            is_list=isinstance(inner, ListType),
        )
    words = _words(annotation)
    return Argument(
        name,
        tensor="Tensor" in words,
        optional=bool({"Optional", "None"} & words) or none_default,
        is_list=bool(_LISTS & words),
    )


def _words(annotation: ast.expr | None) -> set[str]:
    if annotation is None:
        return set()
    words: set[str] = set()
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word):
                words.add(word)
            case ast.Constant(value=None):
                words.add("None")
            case ast.Constant(value=str(text)):
                try:
                    words |= _words(ast.parse(text, mode="eval").body)
                except SyntaxError:
                    continue
    return words

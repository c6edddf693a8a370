"""What an op declares of its parameters: by its schema where it has one, else by annotations."""

from __future__ import annotations

import ast

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.model import ListType, OptionalType, Parameter
from opscaffold.effects.buffers import Argument
from opscaffold.effects.trace import FunctionNode
from opscaffold.source.model import Op, Role

_LISTS = frozenset({"List", "list", "Sequence", "Iterable", "Tuple", "tuple"})


def arguments_of(op: Op) -> list[Argument]:
    """The parameters of an op's kernel as far as they are declared; empty where out of sight."""
    function = kernel_of(op)
    if function is None:
        return []
    declared = _declared(op.definition.schema)
    return [_argument(arg, default, declared) for arg, default in _parameters(function)]


def kernel_of(op: Op) -> FunctionNode | ast.Lambda | None:
    """The main kernel of an op: the function it was defined with, or the first implementation."""
    if op.definition.function is not None:
        return op.definition.function
    kernels = [r.function for r in op.attached if r.role is Role.IMPL and r.function is not None]
    return kernels[0] if kernels else None


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


def _argument(arg: ast.arg, default: ast.expr | None, declared: dict[str, Parameter]) -> Argument:
    none_default = isinstance(default, ast.Constant) and default.value is None
    parameter = declared.get(arg.arg)
    if parameter is not None:
        type_ = parameter.type
        optional = isinstance(type_, OptionalType)
        inner = type_.of if isinstance(type_, OptionalType) else type_
        return Argument(
            arg.arg,
            tensor=parameter.is_tensor_like,
            optional=optional or none_default,
            is_list=isinstance(inner, ListType),
        )
    words = _words(arg.annotation)
    return Argument(
        arg.arg,
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

"""The fake kernels of an op, and how their parameters stand to what the op declares."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import ListType, OptionalType, Parameter
from opscaffold.effects.buffers import Argument
from opscaffold.records import dataclass
from opscaffold.rules.arguments import arguments_of
from opscaffold.rules.contracts import signature_of, written_value
from opscaffold.rules.functions import AnyFunction, is_method
from opscaffold.source.model import Form, Module, Op, Registration, Role
from opscaffold.source.project import Project

_REGISTERING = frozenset({"register_fake", "impl_abstract", "impl", "_register_fake"})


@dataclass(frozen=True, slots=True)
class Fake:
    """One fake kernel in sight."""

    registration: Registration
    module: Module
    function: AnyFunction


def fakes_of(op: Op) -> Iterator[Fake]:
    """The fake kernels of an op that are plain functions, each once."""
    seen: set[AnyFunction] = set()
    for registration in op.attached:
        function = registration.function
        if not is_fake(registration) or function is None or function in seen:
            continue
        module = registration.function_module or registration.module
        if function is op.definition.function or is_method(module, function):
            continue
        if any(
            d is not registration.call and _callee_name(d) not in _REGISTERING
            for d in getattr(function, "decorator_list", ())
        ):
            continue
        seen.add(function)
        yield Fake(registration, module, function)


def has_fake(project: Project, op: Op) -> bool:
    """Whether anything is registered that stands in for the kernel on fake tensors."""
    return any(_given(project, r) for r in op.attached if is_fake(r))


def is_fake(registration: Registration) -> bool:
    """Whether a registration gives a fake kernel, by ``register_fake`` or under Meta."""
    if registration.role is Role.FAKE:
        return True
    return registration.role is Role.IMPL and dispatch_key(registration) == "Meta"


def dispatch_key(registration: Registration) -> str | None:
    """The dispatch keys of an implementation, in one string; None where not written out."""
    for name in ("dispatch_key", "types", "key"):
        value = registration.arguments.get(name)
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        words = [p.value for p in parts if isinstance(p, ast.Constant)]
        if words and len(words) == len(parts) and all(isinstance(w, str) for w in words):
            return " ".join(map(str, words))
    return None


def fake_arguments(project: Project, op: Op, function: AnyFunction) -> list[Argument]:
    """The parameters of a fake, with what the op declares of them, matched by position."""
    contract = signature_of(project, op)
    if contract is not None:
        declared = [_argument(p) for p in contract.parameters if not p.kw_only]
        named = {p.name: _argument(p) for p in contract.parameters}
    else:
        declared = arguments_of(project, op)
        named = {a.name: a for a in declared}
    spec = function.args
    found: list[Argument] = []
    for index, arg in enumerate((*spec.posonlyargs, *spec.args)):
        known = declared[index] if index < len(declared) else Argument(arg.arg, tensor=False)
        found.append(Argument(arg.arg, known.tensor, known.optional, known.is_list))
    other = [named.get(a.arg, Argument(a.arg, tensor=False)) for a in spec.kwonlyargs]
    return [*found, *other]


def _argument(parameter: Parameter) -> Argument:
    type_ = parameter.type
    inner = type_.of if isinstance(type_, OptionalType) else type_
    return Argument(
        parameter.name,
        tensor=parameter.is_tensor_like,
        optional=isinstance(type_, OptionalType),
        is_list=isinstance(inner, ListType),
    )


def _given(project: Project, registration: Registration) -> bool:
    """Whether a fake is really there: a helper may be given None for it."""
    if registration.form is not Form.HELPER or registration.function is not None:
        return True
    for name in ("fn", "func"):
        written = written_value(project, registration, name)
        if written is not None:
            return not (isinstance(written[1], ast.Constant) and written[1].value is None)
    return True


def _callee_name(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

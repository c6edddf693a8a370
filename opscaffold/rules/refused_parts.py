"""What PyTorch refuses beside annotations: names, tensors as defaults, and schemas that do not fit.

Source: torch.library reference, custom_op, and what PyTorch 2.13 raises.
"""

from __future__ import annotations

import ast

from opscaffold.effects import aten
from opscaffold.patterns import pattern
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import default_of, signature_of
from opscaffold.source.model import Form, FunctionNode, Role

_NAME = pattern(r"[A-Za-z_]\w*")
_OP_NAME = pattern(r"[A-Za-z_]\w*(\.\w+)?")


def bad_name(facts: OpFacts) -> tuple[ast.AST, str] | None:
    """The name of an op that is not ``namespace::name``, with what is wrong."""
    definition = facts.op.definition
    if definition.role is Role.DEFINE or definition.form is Form.HELPER:
        return None
    match definition.operand:
        case ast.Constant(value=str(name)) as node:
            parts = name.split("::")
            if len(parts) != 2:
                return node, f"{name!r} is not of the form namespace::name: the definition raises"
            if not (_NAME.fullmatch(parts[0]) and _OP_NAME.fullmatch(parts[1])):
                return node, f"{name!r} holds what no name of an op can: the definition raises"
    return None


def tensor_default(facts: OpFacts, function: FunctionNode) -> tuple[ast.AST, str] | None:
    """A parameter whose default is a tensor, which no schema can say."""
    spec = function.args
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        default = default_of(function, arg.arg)
        if not isinstance(default, ast.Call):
            continue
        dotted = facts.project.resolve_dotted(facts.module, default.func) or ""
        module, _, name = dotted.rpartition(".")
        if module == "torch" and (aten.is_allocator(name) or name in {"Tensor", "from_numpy"}):
            return arg, (
                f"the default of {arg.arg!r} is a tensor, which no schema can say: infer_schema "
                "refuses it, and the definition raises"
            )
    return None


def other_parameters(facts: OpFacts, function: FunctionNode) -> str | None:
    """How a kernel takes other arguments than the schema that is written beside it says."""
    contract = signature_of(facts.project, facts.op)
    spec = function.args
    if contract is None or spec.vararg is not None or spec.kwarg is not None:
        return None
    takes = [*spec.posonlyargs, *spec.args]
    passed = [p.name for p in contract.parameters if not p.kw_only]
    named = {p.name for p in contract.parameters if p.kw_only}
    raises = "every call raises TypeError"
    if len(passed) > len(takes):
        extra = passed[len(takes)]
        return f"the schema passes {extra!r} by position, which the kernel does not take: {raises}"
    by_name = {a.arg for a in (*spec.args[max(0, len(passed) - len(spec.posonlyargs)) :],)}
    by_name |= {a.arg for a in spec.kwonlyargs}
    for name in sorted(named - by_name):
        return f"the schema passes {name!r} by keyword, which the kernel does not take: {raises}"
    for arg in (*takes[len(passed) :], *spec.kwonlyargs):
        if arg.arg not in named and default_of(function, arg.arg) is None:
            return f"the kernel needs {arg.arg!r}, which the schema does not have: {raises}"
    return None

"""Kernels whose signature PyTorch refuses: the module that defines the op cannot be imported.

What ``mutates_args`` and ``tags`` say is for other rules. Source: FACTS section 2, "Types".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.signature import SignatureError, Stage, contract_from_signature
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import constants, origins, postponed, tags_of
from opscaffold.rules.refused_parts import bad_name, other_parameters, tensor_default
from opscaffold.source.model import FunctionNode, Role

_KEEP_SIGNATURE = frozenset({"no_grad", "inference_mode", "enable_grad", "disable", "wraps"})


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report the first annotation or default that infer_schema or registration refuses."""
    definition = facts.op.definition
    function = definition.function
    schema = definition.arguments.get("schema")
    if definition.fallback:
        return
    named = bad_name(facts)
    if named is not None:
        node, problem = named
        yield RULE.finding(
            facts.module, node, problem, op=facts.op.qualname, remedy="name it namespace::name"
        )
    if function is None:
        return
    if definition.schema is not None and not isinstance(function, ast.Lambda):
        yield from _against_schema(facts, function)
    if definition.role is not Role.DEFINE and not (
        schema is None or (isinstance(schema, ast.Constant) and schema.value is None)
    ):
        return
    if isinstance(function, ast.Lambda):
        yield RULE.finding(
            facts.module,
            function,
            "a lambda has no annotations, so PyTorch cannot infer a schema: the definition raises "
            "ValueError",
            op=facts.op.qualname,
            remedy="write a def with annotations, or pass schema=",
        )
        return
    if isinstance(facts.module.parents.get(function), ast.ClassDef) or _decorated(facts, function):
        return
    tensor = tensor_default(facts, function)
    error = None if tensor is not None else _refusal(facts, function)
    if tensor is not None:
        node, problem = tensor
        yield RULE.finding(
            facts.module,
            node,
            problem,
            op=facts.op.qualname,
            remedy="default to None, annotated as `Tensor | None`, and make the tensor inside",
        )
    if error is not None:
        where = "infer_schema" if error.stage is Stage.INFER else "the schema parser"
        yield RULE.finding(
            facts.module,
            facts.parameter(error.parameter) if error.parameter else function,
            f"{error.reason}: {where} refuses it, and the definition raises",
            op=facts.op.qualname,
            remedy=error.remedy,
        )


def _against_schema(facts: OpFacts, function: FunctionNode) -> Iterator[Finding]:
    if facts.op.definition.role is Role.DEFINE or _decorated(facts, function):
        return
    if isinstance(facts.module.parents.get(function), ast.ClassDef):
        return
    problem = other_parameters(facts, function)
    if problem is not None:
        yield RULE.finding(
            facts.module,
            function,
            problem,
            op=facts.op.qualname,
            remedy="give the schema and the kernel the same parameters",
        )


def _refusal(
    facts: OpFacts, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> SignatureError | None:
    try:
        contract_from_signature(
            function,
            qualname="any::op",
            resolver=origins(facts.project, facts.module),
            evaluate=constants(facts.project, facts.module),
            postponed=postponed(facts.module),
        )
    except SignatureError as error:
        if error.stage is Stage.UNKNOWN:
            return None
        keyword_only = "keyword-only Tensor" in error.reason
        return None if keyword_only and not _refuses_keyword_only(facts) else error
    return None


def _refuses_keyword_only(facts: OpFacts) -> bool:
    """Only custom_op does, and not with Tag.out."""
    definition = facts.op.definition
    tags = tags_of(facts.project, definition)
    return definition.role is not Role.DEFINE and tags == frozenset()


def _decorated(facts: OpFacts, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator may give the function another signature before it is registered."""
    call = facts.op.definition.call
    below = function.decorator_list
    if call in below:
        below = below[below.index(call) + 1 :]
    elif facts.op.definition.result is function and below:
        below = below[1:]
    for decorator in below:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name not in _KEEP_SIGNATURE:
            return True
    return False


_OP = """\
import torch
from torch import Tensor

"""

RULE = Rule(
    code="OPS406",
    name="refused-signature",
    severity=Severity.ERROR,
    summary="The kernel has an annotation or a default that PyTorch refuses.",
    why="PyTorch infers the schema of an op from the annotations of its kernel. Where it cannot, "
    "the definition raises, and the module that holds it cannot be imported.",
    remedy="annotate what a schema can say, or pass schema=",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, options: dict) -> Tensor:
    return x * options["k"]
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k=2.0) -> Tensor:
    return x * k
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float = float("inf")) -> Tensor:
    return x * k
""",
        _OP
        + """
def total(*xs: Tensor) -> Tensor:
    return sum(xs)


total_op = torch.library.custom_op("demo::total", total, mutates_args=())
""",
        _OP
        + """
double = torch.library.custom_op("demo::double", lambda x: x * 2, mutates_args=())
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, *, by: Tensor) -> Tensor:
    return x * by
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=(), schema="(Tensor x, Any k) -> Tensor")
def scale(x, k):
    return x * k
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args={"out"}, tags=torch.Tag.out)
def scale(x: Tensor, sizes: list[int], k: float | None = None, *, out: Tensor) -> Tensor:
    return torch.mul(x, k or 1.0, out=out)
""",
        _OP
        + """
from elsewhere import Mode


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: "Tensor", mode: Mode) -> Tensor:
    return x * 2
""",
        _OP
        + """
def scale(x: Tensor, options: dict) -> Tensor:
    return x * options["k"]
""",
    ),
)

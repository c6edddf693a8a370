"""Values of mutates_args that PyTorch refuses when the op is defined.

Source: FACTS section 2, "Definition time".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import signature_of, written_value
from opscaffold.rules.declared import UNKNOWN
from opscaffold.rules.proven import mutates_intent, proven
from opscaffold.source.model import Module

_REFUSED = "the definition raises, and the module cannot be imported"


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report a bare string, and each name that is no parameter or no tensor."""
    definition = facts.op.definition
    found = written_value(facts.project, definition, "mutates_args")
    if found is None or definition.function is None:
        return
    module, node = found
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value != UNKNOWN:
            yield _finding(
                facts,
                module,
                node,
                f"mutates_args is the string {node.value!r}, not a list of names: {_REFUSED}",
                f"write ({node.value!r},)" if node.value else "write ()",
            )
        return
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
    for element in elements:
        if isinstance(element, ast.Constant) and isinstance(element.value, str):
            yield from _named(facts, module, element, element.value)


def _named(facts: OpFacts, module: Module, node: ast.AST, name: str) -> Iterator[Finding]:
    function = facts.op.definition.function
    if function is None or function.args.vararg or function.args.kwarg:
        return
    spec = function.args
    known = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    contract = signature_of(facts.project, facts.op)
    if contract is not None:
        known = [p.name for p in contract.parameters]
    if name not in known:
        yield _finding(
            facts,
            module,
            node,
            f"mutates_args names {name!r}, which is no parameter of the op: {_REFUSED}",
            f"name one of {', '.join(known)}" if known else "write ()",
        )
    elif contract is not None and any(
        p.name == name and not p.is_tensor_like for p in contract.parameters
    ):
        yield _finding(
            facts,
            module,
            node,
            f"mutates_args names {name!r}, which is no tensor: {_REFUSED}",
            f"return the new value of `{name}`",
        )


def _finding(facts: OpFacts, module: Module, node: ast.AST, message: str, remedy: str) -> Finding:
    meant = meant_names(facts)
    return RULE.finding(
        module,
        node,
        message,
        op=facts.op.qualname,
        remedy=remedy,
        intent=None if meant is None else mutates_intent(facts, meant),
    )


def meant_names(facts: OpFacts) -> frozenset[str] | None:
    """What a value that PyTorch refuses was to say; None where that cannot be told.

    A string stands for the tensor parameters that it names. Of names that are wrong the kernel
    tells which were meant, where all of it is in sight.
    """
    found = written_value(facts.project, facts.op.definition, "mutates_args")
    contract = signature_of(facts.project, facts.op)
    if found is None or contract is None:
        return None
    _, node = found
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = frozenset(node.value.replace(",", " ").split())
        tensors = {p.name for p in contract.parameters if p.is_tensor_like}
        return words if words <= tensors else None
    return proven(facts)


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS304",
    name="mutates-args-malformed",
    severity=Severity.ERROR,
    summary="mutates_args is a bare string, or names what is no tensor parameter.",
    why="PyTorch refuses the op when it is defined, so that the module cannot be imported at all. "
    'A pair of parentheses is no tuple: `("x")` is the string "x".',
    remedy="write a tuple of the names of tensor parameters",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::fill", mutates_args=("y"))
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::fill", mutates_args=("out",))
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
def _step(x: Tensor, n: int) -> None:
    x.add_(n)


step = torch.library.custom_op("demo::step", mutates_args=["x", "n"])(_step)
""",
        _OP
        + """
@torch.library.custom_op("demo::plus", mutates_args="")
def plus(x: Tensor) -> Tensor:
    return x + 1
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::fill", mutates_args=("y",))
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::spread", mutates_args={"outs", "rest"})
def spread(x: Tensor, outs: list[Tensor], rest: Tensor | None) -> None:
    for out in outs:
        out.copy_(x)
    if rest is not None:
        rest.zero_()
""",
        _OP
        + """
WRITTEN = ("y",)


@torch.library.custom_op("demo::fill", mutates_args=WRITTEN)
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::lerp", mutates_args="unknown")
def lerp(p: Tensor, q: Tensor) -> Tensor:
    return p + q
""",
    ),
)

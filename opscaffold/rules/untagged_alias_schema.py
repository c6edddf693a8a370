"""Schemas that say a return is an argument, without the tag that makes it a contract.

Source: FACTS section 5.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.kinds import infer_kind, returns_argument
from opscaffold.contract.model import Kind, OpContract, alias_of
from opscaffold.effects.trace import Effect
from opscaffold.findings.intents import AddTag, Intent, ReturnNothing, TagSchema
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.kernels import all_in_sight, is_checked, kernels_of
from opscaffold.rules.tagged import first_reads
from opscaffold.source.model import Role

_WHY_KEYWORD = "code outside this project that passes the buffer by position would fail"
_WHY_NOTHING = (
    "code outside this project may use what the op returns, which works in eager mode, and would "
    "get None"
)


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report a literal schema that aliases a return, or an ``.out`` overload, without its tag."""
    definition = facts.op.definition
    contract = contract_of(facts.project, facts.op) if definition.schema is not None else None
    if contract is None or contract.tags:
        return
    node = definition.call or definition.statement
    if any(alias_of(r.type) is not None for r in contract.returns):
        message, remedy = _aliased(contract, definition.role)
        yield RULE.finding(
            definition.module,
            node,
            message,
            op=facts.op.qualname,
            remedy=remedy,
            intent=_intent(facts, contract),
        )
    elif contract.overload == "out" and contract.mutated:
        yield RULE.finding(
            definition.module,
            node,
            f"`{contract.qualname}` is a legal mutable op, but not marked as the out= form of "
            f"`{contract.namespace}::{contract.name}`: PyTorch treats the two as unrelated",
            op=facts.op.qualname,
            remedy="to link them, make the buffer keyword-only, return it, and add "
            "tags=torch.Tag.out",
            severity=Severity.INFO,
        )


def _intent(facts: OpFacts, contract: OpContract) -> Intent | None:
    kind, op = infer_kind(contract), contract.qualname
    if kind in {Kind.INPLACE, Kind.OUT}:
        return AddTag(op, "inplace" if kind is Kind.INPLACE else "out")
    if not contract.mutated:
        return None
    if is_checked(facts):
        return ReturnNothing(op)
    if facts.op.definition.role is Role.DEFINE and _only_overwrites(facts, contract):
        return TagSchema(op, safe=False, why=_WHY_KEYWORD)
    return ReturnNothing(op, safe=False, why=_WHY_NOTHING)


def _only_overwrites(facts: OpFacts, contract: OpContract) -> bool:
    """Whether the op returns what it mutates, in order, and never reads it first."""
    written = [p for p in contract.parameters if p.name in contract.mutated]
    if len(contract.returns) != len(written) or not all(
        returns_argument(r, p) for r, p in zip(contract.returns, written, strict=True)
    ):
        return False
    if not all_in_sight(facts):
        return False
    for kernel in kernels_of(facts):
        for parameter in written:
            root = f"param:{kernel.own_name(parameter.name)}"
            events = kernel.effects.trace.on(root)
            if any(True for _ in first_reads(events)) or any(
                e.effect in {Effect.RESHAPE, Effect.OPAQUE, Effect.KEEP} for e in events
            ):
                return False
            if not all(root in r.written for r in kernel.effects.trace.returns):
                return False
    return True


def _aliased(contract: OpContract, role: Role) -> tuple[str, str]:
    kind = infer_kind(contract)
    when = "a call raises" if role is Role.CUSTOM_OP else "eager mode runs, torch.compile fails"
    if kind in {Kind.INPLACE, Kind.OUT}:
        tag = "inplace" if kind is Kind.INPLACE else "out"
        return (
            f"the schema returns what the op mutates, and has no tag: {when}",
            f"add tags=torch.Tag.{tag}",
        )
    if contract.mutated:
        return (
            f"the schema returns what the op mutates, in a form that no tag fits: {when}",
            "return nothing, or only new tensors",
        )
    return (
        f"the schema says that the op returns a view of an argument: {when}",
        "return a copy and drop the annotation, or write the view as a plain function",
    )


_LIB = """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
"""

RULE = Rule(
    code="OPS405",
    name="untagged-alias-schema",
    severity=Severity.WARNING,
    summary="The schema says that a return is an argument, and no tag says which contract holds.",
    why="Eager mode runs such an op. torch.compile refuses it: a custom op may only return an "
    "argument where Tag.inplace or Tag.out says so.",
    remedy="add tags=torch.Tag.inplace or torch.Tag.out, or return nothing",
    of_op=check,
    repair="safe",
    hits=(
        _LIB
        + """
lib.define("scale_(Tensor(a!) x, float k) -> Tensor(a!)")
""",
        _LIB
        + """
lib.define("scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
""",
        _LIB
        + """
torch.library.define("demo::head", "(Tensor(a) x) -> Tensor(a)")
""",
        _LIB
        + """
lib.define("scale(Tensor x) -> Tensor")
lib.define("scale.out(Tensor x, Tensor(a!) out) -> ()")
""",
        _LIB
        + """
@torch.library.custom_op("demo::bump_", mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor(a!)")
def bump_(x):
    return x.add_(1)
""",
    ),
    misses=(
        _LIB
        + """
lib.define("scale_(Tensor(a!) x, float k) -> Tensor(a!)", tags=torch.Tag.inplace)
""",
        _LIB
        + """
lib.define("scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,))
""",
        _LIB
        + """
lib.define("store(Tensor x, Tensor(a!) cache) -> ()")
lib.define("scale.half(Tensor x) -> Tensor")
""",
    ),
)

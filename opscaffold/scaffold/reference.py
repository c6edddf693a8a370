"""The pure PyTorch reference that the tests of an op compare with."""

from __future__ import annotations

from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import returns_tensor, signature
from opscaffold.scaffold.expressions import number_result
from opscaffold.scaffold.placeholder import Placeholder
from opscaffold.scaffold.plan import Lines, OpPlan
from opscaffold.scaffold.targets import Target


def reference_lines(plan: OpPlan) -> tuple[Lines, Lines]:
    """Head and body of the reference that the tests compare with."""
    placeholder, first = plan.placeholder, plan.first
    head = plan.layout.define(
        plan.names["_reference"],
        signature(tuple(a for a in placeholder.reads)),
        "list[Any]",
    )
    plain = Placeholder(placeholder.reads, placeholder.fake, placeholder.names, plan.layout)
    helper = f"{plan.package.support_module}.first_place"
    if first.kind is Kind.OUT:
        fresh = [Target(t.name, t.multiple) for t in plan.mutated]
        body = plain.reference_lines([], fresh, helper)
    else:
        body = plain.reference_lines(plan.mutated, plan.fresh, helper)
    results = plan.names["results"]
    return head, [*body, *_with_numbers(plan, results)]


def _with_numbers(plan: OpPlan, results: str) -> Lines:
    """Numbers among the returns stand where the op returns them."""
    lines: Lines = []
    returns = plan.first.contract.returns
    before = len(plan.mutated) if plan.first.kind is Kind.MUTABLE else 0
    for index, returned in enumerate(returns):
        if not returns_tensor(returned):
            text = number_result(returned, index, plan.placeholder.like)
            lines += plan.layout.line(f"{results}.insert({before + index}, {text})")
    return [*lines, *plan.layout.returning([results])]

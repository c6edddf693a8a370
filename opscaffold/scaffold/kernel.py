"""The kernel of a module, and the rule for the metadata of what it computes."""

from __future__ import annotations

from dataclasses import replace

from opscaffold.contract.pytypes import return_annotation_text
from opscaffold.scaffold.arguments import Shape, returns_tensor
from opscaffold.scaffold.dialect import PYTORCH, Dialect
from opscaffold.scaffold.layout import Group
from opscaffold.scaffold.placeholder import Placeholder
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.registration import returned_lines
from opscaffold.scaffold.targets import Target


def metadata_function(plan: OpPlan) -> Function:
    """The function that gives shape, dtype and device of a result."""
    arguments = plan.placeholder.metadata_inputs()
    head = plan.layout.define(
        plan.names["_metadata"],
        [a.declaration for a in arguments],
        "tuple[Sequence[int], torch.dtype, torch.device]",
    )
    if plan.broadcasts:
        call = plan.names["broadcast_metadata"]
        return Function(head, plan.layout.call("return ", call, [a.name for a in arguments]))
    place = plan.placeholder.place_lines(plan.names["first_place"])
    _, shape, dtype = plan.placeholder.metadata_lines()
    result = plan.layout.returning([shape, dtype, plan.placeholder.device_text()])
    return Function(head, [*place, *result])


def kernel_function(plan: OpPlan, dialect: Dialect = PYTORCH, name: str = "") -> Function:
    """The kernel that all ops of the module share; of PyTorch calls unless told otherwise."""
    p = replace(plan.placeholder, dialect=dialect)
    inputs = [a.declaration for a in plan.first.arguments]
    body = p.value_lines()
    name = name or plan.names["_kernel"]
    if not plan.fresh and not plan.mutated:
        head = plan.layout.define(name, inputs, return_annotation_text(plan.first.contract.returns))
        return Function(head, returned_lines(plan, plan.first))
    if not plan.dynamic:
        buffers = [
            f"{t.name}: {'list[Tensor]' if t.shape is Shape.LIST else 'Tensor'}" for t in plan.fresh
        ]
        body += p.writing_lines([*plan.mutated, *(t for t in plan.fresh if t.shape is Shape.PLAIN)])
        body += _list_writing(plan, p)
        return Function(plan.layout.define(name, [*inputs, *buffers], "None"), body or [])
    returned = tuple(r for r in plan.first.contract.returns if returns_tensor(r))
    head = plan.layout.define(name, inputs, return_annotation_text(returned))
    return Function(head, [*body, *_dynamic_body(plan, p)])


def _list_writing(plan: OpPlan, p: Placeholder) -> Lines:
    lines: Lines = []
    for target in plan.fresh:
        if target.shape is not Shape.LIST:
            continue
        for n, multiple in enumerate(target.multiples()):
            lines += plan.layout.line(p.writing(f"{target.name}[{n}]", multiple))
    return lines


def _dynamic_body(plan: OpPlan, p: Placeholder) -> Lines:
    lines: Lines = []
    if p.like:
        lines += plan.layout.line(f"{plan.names['mask']} = {p.dialect.read(p.like)} > 0")
    lines += p.place_lines(plan.names["first_place"])
    lines += p.writing_lines(plan.mutated)
    for target in plan.fresh:
        texts = [p.selected(m) for m in target.multiples()]
        lines += _assign_each(plan, target, texts)
    return [*lines, *plan.layout.returning([t.name for t in plan.fresh])]


def _assign_each(plan: OpPlan, target: Target, texts: list[str]) -> Lines:
    if target.shape is Shape.LIST:
        return plan.layout.statement(f"{target.name} = ", Group("[", tuple(texts), "]"))
    return plan.layout.line(f"{target.name} = {texts[0]}")

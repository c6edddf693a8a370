"""The samples of an op that wraps a function: what to try, of which the function takes some."""

from __future__ import annotations

import re

from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import Argument, Shape
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.from_spec import Wrapped
from opscaffold.scaffold.kernel_wrapped import PACKAGE, source_of
from opscaffold.scaffold.layout import Group, quote
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.sample_context import SampleContext

Lines = list[str]

_INDEX = re.compile(
    r"(^|_)(idx|index|indices|indexes|ids?|offsets?|slots?|lens?|lengths?|pos|positions?)(_|$)"
)
_MASK = re.compile(r"(^|_)(mask|keep|where|cond|condition|valid)s?(_|$)")


def wrapped_samples(plan: OpPlan, wrapped: Wrapped) -> list[SampleContext]:
    """The samples of the op of a module."""
    return [_samples(plan, form, wrapped) for form in plan.forms]


def _samples(plan: OpPlan, form: Form, wrapped: Wrapped) -> SampleContext:
    layout, source = plan.layout, source_of(wrapped)
    name = f"{form.name}_samples"
    head = layout.define(
        name,
        ["device: torch.device", "kernel: Callable[..., Any] | None = None"],
        "Iterator[Sample]",
    )
    module = plan.package.module
    body = layout.line(f"from {module}.{PACKAGE}.{wrapped.file} import {source.entry}")
    by_rule = not wrapped.fake and any(plan.allocates(f) for f in plan.forms)
    if by_rule:
        path = f"{plan.package.ops_package}.{form.name.lower()}"
        body += layout.line(f"from {path} import {form.name} as op")
    body.append("")
    slots = [f"{quote(a.name)}: {_slot(a, form, wrapped)}" for a in form.arguments]
    body += layout.statement("slots = ", Group("{", tuple(slots), "}"))
    words: list[str | Group] = [f"kernel or {source.entry}", "device", "slots"]
    if wrapped.absent:
        absent = tuple(quote(n) for n in wrapped.absent)
        words.append(Group("omitted=(", absent, ")", lone_comma=len(absent) == 1))
    words += [f"sized={quote(wrapped.sized)}"] if wrapped.sized else []
    words += ["op=op"] if by_rule else []
    body += layout.call("yield from ", "tried", words)
    return SampleContext(form.registered.qualname, name, head, body)


def _slot(argument: Argument, form: Form, wrapped: Wrapped) -> str:
    words: list[str] = []
    if argument.is_tensor:
        words.append(f"role={quote(_role(argument, form))}")
    else:
        values = wrapped.values.get(argument.name, ())
        comma = "," if len(values) == 1 else ""
        words.append(f"values=({', '.join(values)}{comma})")
    optional = argument.shape in (Shape.OPTIONAL, Shape.OPTIONAL_LIST)
    words += ["optional=True"] if optional and argument.is_tensor else []
    words += ["listed=True"] if argument.is_tensor and argument.is_list else []
    words += ["keyword=True"] if argument.parameter.kw_only else []
    words += ["has_default=True"] if argument.parameter.default is not None else []
    return f"Slot({', '.join(words)})"


def _role(argument: Argument, form: Form) -> str:
    if argument.parameter.mutated:
        return "buffer" if form.kind is Kind.OUT else "writable"
    if _MASK.search(argument.name):
        return "mask"
    return "indices" if _INDEX.search(argument.name) else "floats"

"""The function that callers use: typed, and guarded against gradients that would be lost."""

from __future__ import annotations

from opscaffold.contract.model import Kind
from opscaffold.contract.pytypes import return_annotation_text
from opscaffold.scaffold.arguments import Argument, passing, signature, spread
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.words import public_doc


def public_function(plan: OpPlan, form: Form, variable: str) -> Function:
    """The public function of one op."""
    contract = form.contract
    head = plan.layout.define(
        form.name, signature(form.arguments), return_annotation_text(contract.returns)
    )
    body = [*_guards(plan, form), *plan.language.guards(plan, form)]
    registered = tuple(Argument(p) for p in form.registered.parameters)
    call = passing(registered)
    if form.kind in (Kind.INPLACE, Kind.OUT):
        written = [a.name for a in form.written]
        body += plan.layout.call("", variable, call)
        if form.tag:
            body += plan.layout.comment(
                "What the op returns is another tensor under torch.compile; this is not."
            )
        body += plan.layout.returning(written)
    elif contract.returns:
        result = plan.names["result"]
        annotation = return_annotation_text(contract.returns)
        body += plan.layout.call(f"{result}: {annotation} = ", variable, call)
        body += plan.layout.returning([result])
    else:
        body += plan.layout.call("", variable, call)
    return Function(head, body, _docstring(plan, public_doc(plan, form)))


def _docstring(plan: OpPlan, paragraphs: list[str]) -> Lines:
    first, *rest = paragraphs
    if not rest:
        return [f'    """{first}"""']
    lines = [f'    """{first}']
    for text in rest:
        lines += plan.layout.prose(text, 1) or [""]
    return [*lines, '    """']


def _guards(plan: OpPlan, form: Form) -> Lines:
    tensors = spread(form.arguments)
    if not tensors:
        return []
    name = quote(form.name)
    if form.kind is not Kind.FUNCTIONAL or plan.refuses_gradients(form):
        return plan.layout.call("", plan.names["refuse_lost_gradients"], [name, *tensors])
    lines = plan.layout.call("", plan.names["refuse_forward_mode"], [name, *tensors])
    for argument in plan.gapped(form):
        item = plan.names["item"]
        lines += plan.layout.line(f"if any({item} is None for {item} in {argument.name}):")
        lines += plan.layout.comment("PyTorch records no gradient for a list with None in it.", 2)
        lines += plan.layout.call(
            "", plan.names["refuse_lost_gradients"], [name, f"*{argument.name}"], 2
        )
    return lines

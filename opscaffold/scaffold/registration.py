"""The registration of an op, and its fake kernel."""

from __future__ import annotations

from dataclasses import replace

from opscaffold.contract.derive import as_inferred
from opscaffold.contract.model import Kind
from opscaffold.contract.printer import format_schema
from opscaffold.contract.pytypes import return_annotation_text
from opscaffold.scaffold.arguments import Argument, Shape, returns_tensor, signature, spread
from opscaffold.scaffold.expressions import number_result
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.layout import Group, quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan


def registration(plan: OpPlan, form: Form, variable: str, device: str = "") -> Function:
    """The function that is registered, under its decorator.

    ``device`` is the type of the only device it runs on, if there is one.
    """
    if plan.library:
        return _through_library(plan, form, variable, device)
    contract = form.registered
    written = contract.mutated
    mutates: str | Group = "mutates_args=()"
    if written:
        mutates = Group("mutates_args={", tuple(quote(n) for n in written), "}")
    arguments: list[str | Group] = [quote(contract.qualname), mutates]
    if form.tag:
        arguments.append(f"tags={form.tag}")
    if device and _tells_device(form):
        arguments.append(f"device_types={quote(device)}")
    decorator = plan.layout.call("@", "torch.library.custom_op", arguments, depth=0)
    return Function(_head(plan, form, variable), _registered_body(plan, form), decorator=decorator)


def _tells_device(form: Form) -> bool:
    """Whether each call has a Tensor, by whose device PyTorch finds the kernel.

    Without one there is no device to go by (FACTS section 4).
    """
    return any(a.is_plain_tensor for a in form.arguments)


def _through_library(plan: OpPlan, form: Form, variable: str, device: str) -> Function:
    """The same by ``define`` and ``impl``, and the op of ``torch.ops`` that they make."""
    contract = form.registered
    library, name = plan.names["_library"], quote(contract.name)
    tags = [tag for tag in (form.tag, "torch.Tag.pt2_compliant_tag") if tag]
    several = Group("tags=(", tuple(tags), ")")
    schema = format_schema(replace(as_inferred(contract), namespace=""))
    define = plan.layout.call_with_text(
        f"{library}.define", schema, [several if len(tags) > 1 else f"tags={tags[0]}"], depth=0
    )
    key = device.upper() if device and _tells_device(form) else "CompositeExplicitAutograd"
    given: list[str | Group] = [library, name, quote(key)]
    decorator = plan.layout.call("@", "torch.library.impl", given, depth=0)
    return Function(
        _head(plan, form, plan.names[f"{variable}_impl"]),
        _guarded_body(plan, form),
        decorator=[*define, "", "", *decorator],
        after=plan.layout.line(f"{variable} = {form.overload}", 0),
    )


def device_registration(
    plan: OpPlan, form: Form, variable: str, device: str, kernel: str
) -> Function:
    """The function that is registered for one type of device; it calls ``kernel``."""
    head = _head(plan, form, plan.names[f"{variable}_{device}"])
    if not plan.library:
        given: list[str | Group] = [quote(device)]
        decorator = plan.layout.call("@", f"{variable}.register_kernel", given, depth=0)
        return Function(head, _registered_body(plan, form, kernel), decorator=decorator)
    given = [plan.names["_library"], quote(form.registered.name), quote(device.upper())]
    decorator = plan.layout.call("@", "torch.library.impl", given, depth=0)
    return Function(head, _guarded_body(plan, form, kernel), decorator=decorator)


def _guarded_body(plan: OpPlan, form: Form, kernel: str = "") -> Lines:
    """The body, behind a guard where the op must refuse gradients by itself."""
    body = _registered_body(plan, form, kernel)
    if not plan.refuses_gradients(form):
        return body
    guard = [quote(form.name), *spread(form.arguments)]
    return [*plan.layout.call("", plan.names["refuse_reverse_mode"], guard), *body]


def library_lines(plan: OpPlan) -> Lines:
    """The Library of a module. It stands at module scope: ops go with it (FACTS section 5)."""
    factory = plan.names["_Library"]
    namespace = quote(plan.first.registered.namespace)
    return [
        "# PyTorch gives this no types.",
        *plan.layout.line(f"{factory}: Any = torch.library.Library", 0),
        *plan.layout.line(f'{plan.names["_library"]} = {factory}({namespace}, "FRAGMENT")', 0),
    ]


def fake_kernel(plan: OpPlan, form: Form, variable: str) -> Function:
    """The fake kernel, under its decorator."""
    name = plan.names["_fake"] if plan.unchecked else "_"
    head = _head(plan, form, name)
    if not plan.dynamic:
        body = _allocation(plan)
    else:
        size = plan.names["size"]
        body = plan.layout.line(f"{size} = torch.library.get_ctx().new_dynamic_size()")
        p = plan.placeholder
        body += p.place_lines(plan.names["first_place"])
        place = [f"({size},)", f"dtype={p.dtype_text()}", f"device={p.device_text()}"]
        call = Group("torch.empty(", tuple(place), ")")
        for target in plan.fresh:
            if target.shape is Shape.LIST:
                calls = tuple(call for _ in target.multiples())
                body += plan.layout.statement(f"{target.name} = ", Group("[", calls, "]"))
            else:
                body += plan.layout.statement(f"{target.name} = ", call)
    body += returned_lines(plan, form)
    if not plan.unchecked:
        return Function(head, body, decorator=plan.layout.line(f"@{variable}.register_fake", 0))
    given: list[str | Group] = [quote(form.registered.qualname), name]
    if plan.library:
        given.append(f"lib={plan.names['_library']}")
    # As a decorator, it would leave the function without types.
    register = plan.layout.call("", "torch.library.register_fake", given, depth=0)
    return Function(head, body, after=register)


def returned_lines(plan: OpPlan, form: Form) -> Lines:
    """The statement that returns fresh tensors and numbers in the order of the schema."""
    returns = form.contract.returns
    if not returns:
        return []
    fresh, like = iter(plan.fresh), plan.placeholder.like
    values = [
        next(fresh).name if returns_tensor(returned) else number_result(returned, index, like)
        for index, returned in enumerate(returns)
    ]
    return plan.layout.returning(values)


def _head(plan: OpPlan, form: Form, name: str) -> Lines:
    contract = form.registered
    words = signature(tuple(Argument(p) for p in contract.parameters))
    return plan.layout.define(name, words, return_annotation_text(contract.returns))


def _registered_body(plan: OpPlan, form: Form, kernel: str = "") -> Lines:
    lines: Lines = []
    inputs = [a.name for a in plan.first.arguments]
    kernel = kernel or plan.names["_kernel"]
    if form.kind in (Kind.INPLACE, Kind.OUT):
        written = [a.name for a in form.written]
        if form.kind is Kind.OUT or plan.checks_inplace(form):
            for name in written:
                lines += plan.layout.call(
                    "",
                    plan.names["check_buffer"],
                    [quote(form.name), quote(name), name, metadata_call(plan)],
                )
        buffers = written if plan.first.kind is Kind.FUNCTIONAL else []
        lines += plan.layout.call("", kernel, [*inputs, *buffers])
        lines += _counting(plan, form)
        return lines + (plan.layout.returning(written) if form.registered.returns else [])
    if not plan.fresh and not plan.mutated:
        return plan.layout.call("return ", kernel, inputs)
    if plan.dynamic:
        targets = ", ".join(t.name for t in plan.fresh)
        lines += plan.layout.call(f"{targets} = ", kernel, inputs)
    else:
        lines += _allocation(plan)
        lines += plan.layout.call("", kernel, [*inputs, *(t.name for t in plan.fresh)])
    return [*lines, *_counting(plan, form), *returned_lines(plan, form)]


def _counting(plan: OpPlan, form: Form) -> Lines:
    """What custom_op does after each call: the version counters of what was written."""
    written = [Argument(p) for p in form.registered.parameters if p.mutated]
    if not plan.library or not written:
        return []
    return plan.layout.call("", plan.names["count_writes"], spread(tuple(written)))


def _allocation(plan: OpPlan) -> Lines:
    lines: Lines = []
    empty = plan.names["empty_result"]
    for target in plan.fresh:
        call = Group(f"{empty}(", (metadata_call(plan),), ")")
        if target.shape is Shape.LIST:
            calls = tuple(call for _ in target.multiples())
            lines += plan.layout.statement(f"{target.name} = ", Group("[", calls, "]"))
        else:
            lines += plan.layout.statement(f"{target.name} = ", call)
    return lines


def metadata_call(plan: OpPlan) -> Group:
    """The metadata of a result, as arguments of a call."""
    names = tuple(a.name for a in plan.placeholder.metadata_inputs())
    return Group(f"*{plan.names['_metadata']}(", names, ")")

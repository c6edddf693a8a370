"""One op's module, as the blocks of code that its template puts in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opscaffold.contract.model import Kind
from opscaffold.scaffold.additions import additions_of
from opscaffold.scaffold.autograd import Autograd, autograd_of
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.kernel import metadata_function
from opscaffold.scaffold.layout import Group, natural_key, quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.public import public_function
from opscaffold.scaffold.registration import library_lines
from opscaffold.scaffold.words import contract_lines

_VARIABLES = {Kind.FUNCTIONAL: "_functional", Kind.INPLACE: "_inplace", Kind.OUT: "_out"}


@dataclass(frozen=True, slots=True)
class FormContext:
    """One op of a module."""

    form: Form
    variable: str
    registration: Function
    fake: Function | None
    autograd: Autograd | None
    public: Function
    additions: tuple[Lines, ...] = ()


@dataclass(frozen=True, slots=True)
class OpContext:
    """One module: its ops over one kernel."""

    name: str
    file: str
    title: str
    language: str
    names_text: str
    doc: Lines
    imports: Lines
    exports: Lines
    library: Lines
    metadata: Function | None
    before_kernel: Lines
    kernel: Function | None
    kernel_does: str
    forms: tuple[FormContext, ...]
    source: object = None
    more_kernels: tuple[Function, ...] = ()
    additions: tuple[str, ...] = ()


def op_context(plan: OpPlan) -> OpContext:
    """The context. Raises TooWideError where the line length is too small."""
    forms = tuple(_form(plan, form) for form in plan.forms)
    return OpContext(
        name=plan.first.name,
        file=plan.first.name.lower(),
        title=_title(plan),
        language=plan.op.kernel.value,
        names_text=" and ".join(f.name for f in plan.forms),
        doc=_doc(plan),
        imports=_imports(plan),
        exports=plan.layout.statement(
            "__all__ = ",
            Group("[", tuple(quote(f.name) for f in plan.forms), "]"),
            depth=0,
        ),
        library=library_lines(plan) if plan.library else [],
        metadata=metadata_function(plan) if plan.needs_metadata else None,
        before_kernel=plan.language.before_kernel(plan),
        kernel=plan.language.kernel(plan),
        kernel_does=_kernel_does(plan),
        forms=forms,
        source=plan.language.source(plan),
        more_kernels=tuple(k for each in additions_of(plan.op) for k in each.kernels(plan)),
        additions=tuple(each.key for each in additions_of(plan.op)),
    )


def _title(plan: OpPlan) -> str:
    kinds = ", ".join(f.kind.value for f in plan.forms)
    return f"{plan.first.name}: {'ops' if len(plan.forms) > 1 else 'an op'} ({kinds})."


def _kernel_does(plan: OpPlan) -> str:
    if plan.dynamic or not (plan.fresh or plan.mutated):
        return "Compute and return the result."
    if plan.fresh and plan.mutated:
        return "Write the mutated arguments, and fill the buffers behind them."
    return "Fill the buffers." if plan.fresh or plan.first.kind is Kind.OUT else "Write."


def _doc(plan: OpPlan) -> Lines:
    lines: Lines = []
    for form in plan.forms:
        if lines:
            lines.append("")
        lines += plan.layout.prose(form.schema, 1, "    ")
    lines += ["", "Contract:"]
    for text in contract_lines(plan):
        lines += plan.layout.prose(f"- {text}", 1, "  ")
    return lines


def _imports(plan: OpPlan) -> Lines:
    lines: Lines = []
    if plan.names.sum_is_hidden and any(a.is_list for a in plan.placeholder.numbers):
        lines.append(f"from builtins import sum as {plan.names.sum}")
    if plan.needs_metadata:
        lines += plan.layout.import_from("collections.abc", ["Sequence"])
    told = [plan.language.imports(plan), *(each.imports(plan) for each in additions_of(plan.op))]
    typing = {"Any"} if plan.op.autograd or plan.library else set()
    typing |= {name for each in told for name in each.typing}
    if typing:
        lines += plan.layout.import_from("typing", typing)
    if lines:
        lines.append("")
    third = {"import torch", *(line for each in told for line in each.third)}
    if any(a.is_tensor for f in plan.forms for a in f.arguments) or plan.fresh:
        third.add("from torch import Tensor")
    lines += sorted(third, key=_import_order)
    wanted = {name for each in told for name in each.helpers}
    helpers = sorted({*_helpers(plan), *wanted})
    local: dict[str, Lines] = {}
    if helpers:
        local[plan.package.support] = helpers
    for each in told:
        local |= {module: [*names] for module, names in each.local.items()}
    if local:
        lines.append("")
    for module in sorted(local, key=natural_key):
        imported = [n if (as_ := plan.names[n]) == n else f"{n} as {as_}" for n in local[module]]
        lines += plan.layout.import_from(f"{plan.package.module}.{module}", imported)
    return lines


def _import_order(line: str) -> tuple[bool, Any]:
    """Ruff's: whole modules first."""
    return line.startswith("from "), natural_key(line.split()[1])


def _helpers(plan: OpPlan) -> list[str]:
    helpers = {"broadcast_metadata"} if plan.needs_metadata and plan.broadcasts else set()
    if plan.placeholder.finds_place and plan.fresh:
        helpers.add("first_place")
    if plan.op.autograd:
        helpers.add("fit_gradient")
    for form in plan.forms:
        if plan.allocates(form):
            helpers.add("empty_result")
        if form.kind is Kind.OUT or plan.checks_inplace(form):
            helpers.add("check_buffer")
        if any(a.is_tensor for a in form.arguments):
            functional = form.kind is Kind.FUNCTIONAL
            helpers.add("refuse_forward_mode" if functional else "refuse_lost_gradients")
            if functional and plan.gapped(form):
                helpers.add("refuse_lost_gradients")
        if plan.refuses_gradients(form):
            helpers -= {"refuse_forward_mode"}
            helpers |= {"refuse_lost_gradients"}
            helpers |= {"refuse_reverse_mode"} if plan.library else set()
        if plan.library and form.written:
            helpers.add("count_writes")
    return sorted(helpers - {*plan.language.unneeded(plan)})


def _form(plan: OpPlan, form: Form) -> FormContext:
    variable = plan.names[_VARIABLES[form.kind] if len(plan.forms) > 1 else "_op"]
    fake = None
    if form.kind is Kind.FUNCTIONAL or (form.kind is Kind.MUTABLE and plan.fresh):
        fake = plan.language.fake(plan, form, variable)
    autograd = None
    if form.kind is Kind.FUNCTIONAL and plan.op.autograd:
        register = plan.language.register_autograd(plan, form, variable)
        autograd = autograd_of(form, plan.placeholder, plan.fresh, register)
    return FormContext(
        form,
        variable,
        plan.language.registration(plan, form, variable),
        fake,
        autograd,
        public_function(plan, form, variable),
        tuple(
            each.lines(plan, form, variable) for each in additions_of(plan.op) if each.serves(form)
        ),
    )

"""One op's module, as the blocks of code that its template puts in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from opscaffold.contract.derive import default_out_names
from opscaffold.contract.model import Kind, Return
from opscaffold.contract.pytypes import return_annotation_text
from opscaffold.scaffold.arguments import (
    Argument,
    Shape,
    passing,
    returns_tensor,
    signature,
    spread,
)
from opscaffold.scaffold.autograd import Autograd, autograd_of
from opscaffold.scaffold.forms import Form, forms_of
from opscaffold.scaffold.layout import Group, Layout, quote
from opscaffold.scaffold.names import Names
from opscaffold.scaffold.placeholder import (
    FIRST_MULTIPLE,
    Placeholder,
    Target,
    fresh_targets,
    mutated_targets,
    number_result,
)
from opscaffold.scaffold.spec import FakeMode, OpSpec, PackageSpec
from opscaffold.scaffold.words import contract_lines, public_doc

Lines = list[str]


@dataclass(frozen=True, slots=True)
class Function:
    """A function in parts: what stands above it, its head, docstring and body."""

    head: Lines
    body: Lines
    doc: Lines = field(default_factory=list)
    decorator: Lines = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FormContext:
    """One op of a module."""

    form: Form
    variable: str
    registration: Function
    fake: Function | None
    autograd: Autograd | None
    public: Function


@dataclass(frozen=True, slots=True)
class OpContext:
    """One module: its ops over one kernel."""

    name: str
    file: str
    title: str
    names_text: str
    doc: Lines
    imports: Lines
    exports: Lines
    metadata: Function | None
    kernel: Function
    kernel_does: str
    forms: tuple[FormContext, ...]


class OpBuilder:
    """Builds the context of one OpSpec for one line length."""

    def __init__(self, op: OpSpec, package: PackageSpec, layout: Layout) -> None:
        self.op = op
        self.package = package
        self.layout = layout
        self.forms = forms_of(op, package.torch_min)
        self.first = self.forms[0]
        taken = {a.name for f in self.forms for a in f.arguments} | {f.name for f in self.forms}
        taken |= {package.module, "ctx", "inputs", "output", "keyword_only_inputs"}
        self.names = Names(taken)
        self.dynamic = op.fake.mode is FakeMode.DYNAMIC
        buffer = self.first.written[0] if self.first.kind is Kind.OUT else None
        self.placeholder = Placeholder(self.first.reads, op.fake, self.names, layout, buffer)
        self.mutated, self.fresh = self._targets()

    def _targets(self) -> tuple[list[Target], list[Target]]:
        """What the kernel writes: arguments, and buffers for what is returned fresh."""
        form = self.first
        if form.kind in (Kind.INPLACE, Kind.OUT):
            return mutated_targets(form.contract), []
        mutated = mutated_targets(form.contract)
        count = len(form.contract.returns)
        if len(self.forms) > 1:
            # The buffers' names of the family's out= op serve the kernel as well.
            names = [a.name for a in self.forms[-1].written]
        else:
            names = [self.names[name] for name in default_out_names(count)]
        first = FIRST_MULTIPLE + len(mutated)
        return mutated, fresh_targets(form.contract.returns, names, first)

    def build(self) -> OpContext:
        """The context. Raises TooWideError where the line length is too small."""
        forms = tuple(self._form(form) for form in self.forms)
        return OpContext(
            name=self.first.name,
            file=self.first.name.lower(),
            title=self._title(),
            names_text=" and ".join(f.name for f in self.forms),
            doc=self._doc(),
            imports=self._imports(),
            exports=self.layout.statement(
                "__all__ = ",
                Group("[", tuple(quote(f.name) for f in self.forms), "]"),
                depth=0,
            ),
            metadata=self._metadata() if self._needs_metadata() else None,
            kernel=self._kernel(),
            kernel_does=self._kernel_does(),
            forms=forms,
        )

    def _title(self) -> str:
        kinds = ", ".join(f.kind.value for f in self.forms)
        return f"{self.first.name}: {'ops' if len(self.forms) > 1 else 'an op'} ({kinds})."

    def _kernel_does(self) -> str:
        if self.dynamic or not (self.fresh or self.mutated):
            return "Compute and return the result."
        if self.fresh and self.mutated:
            return "Write the mutated arguments, and fill the buffers behind them."
        return "Fill the buffers." if self.fresh or self.first.kind is Kind.OUT else "Write."

    def _doc(self) -> Lines:
        lines: Lines = []
        for form in self.forms:
            if lines:
                lines.append("")
            lines += self.layout.prose(form.schema, 1, "    ")
        lines += ["", "Contract:"]
        for text in contract_lines(self.op, self.forms):
            lines += self.layout.prose(f"- {text}", 1, "  ")
        return lines

    def _imports(self) -> Lines:
        lines: Lines = []
        if self.names.sum_is_hidden and any(a.is_list for a in self.placeholder.numbers):
            lines.append(f"from builtins import sum as {self.names.sum}")
        if self._needs_metadata():
            lines += self.layout.import_from("collections.abc", ["Sequence"])
        if self.op.autograd:
            lines += self.layout.import_from("typing", ["Any"])
        if lines:
            lines.append("")
        lines += ["import torch"]
        if any(a.is_tensor for f in self.forms for a in f.arguments) or self.fresh:
            lines.append("from torch import Tensor")
        helpers = self._helpers()
        if helpers:
            lines.append("")
            imported = [h if (n := self.names[h]) == h else f"{h} as {n}" for h in helpers]
            lines += self.layout.import_from(f"{self.package.module}._contract", imported)
        return lines

    def _helpers(self) -> list[str]:
        helpers = {"broadcast_metadata"} if self._needs_metadata() and self._broadcasts() else set()
        if self.placeholder.finds_place and self.fresh:
            helpers.add("first_place")
        if self.op.autograd:
            helpers.add("fit_gradient")
        for form in self.forms:
            if self._allocates(form):
                helpers.add("empty_result")
            if form.kind is Kind.OUT or self._checks_inplace(form):
                helpers.add("check_buffer")
            if any(a.is_tensor for a in form.arguments):
                functional = form.kind is Kind.FUNCTIONAL
                helpers.add("refuse_forward_mode" if functional else "refuse_lost_gradients")
                if functional and self._gapped(form):
                    helpers.add("refuse_lost_gradients")
        return sorted(helpers)

    def _allocates(self, form: Form) -> bool:
        return (
            bool(self.fresh) and form.kind in (Kind.FUNCTIONAL, Kind.MUTABLE) and not self.dynamic
        )

    def _checks_inplace(self, form: Form) -> bool:
        if form.kind is not Kind.INPLACE:
            return False
        fake = self.op.fake
        return not (fake.mode is FakeMode.SAME and fake.like == form.written[0].name)

    def _gapped(self, form: Form) -> list[Argument]:
        if not self.op.autograd:
            return []
        return [a for a in form.arguments if a.is_tensor and a.shape is Shape.GAPPED_LIST]

    def _needs_metadata(self) -> bool:
        return any(
            self._allocates(f) or f.kind is Kind.OUT or self._checks_inplace(f) for f in self.forms
        )

    def _metadata(self) -> Function:
        arguments = self.placeholder.metadata_inputs()
        head = self.layout.define(
            self.names["_metadata"],
            [a.declaration for a in arguments],
            "tuple[Sequence[int], torch.dtype, torch.device]",
        )
        if self._broadcasts():
            call = self.names["broadcast_metadata"]
            return Function(head, self.layout.call("return ", call, [a.name for a in arguments]))
        place = self.placeholder.place_lines(self.names["first_place"])
        _, shape, dtype = self.placeholder.metadata_lines()
        result = self.layout.returning([shape, dtype, self.placeholder.device_text()])
        return Function(head, [*place, *result])

    def _broadcasts(self) -> bool:
        return self.op.fake.mode is FakeMode.BROADCAST and len(self.placeholder.plain) > 1

    def _metadata_call(self) -> Group:
        names = tuple(a.name for a in self.placeholder.metadata_inputs())
        return Group(f"*{self.names['_metadata']}(", names, ")")

    def _kernel(self) -> Function:
        inputs = [a.declaration for a in self.first.arguments]
        body = self.placeholder.value_lines()
        name = self.names["_kernel"]
        if not self.fresh and not self.mutated:
            head = self.layout.define(
                name, inputs, return_annotation_text(self.first.contract.returns)
            )
            return Function(head, self._returned(self.first))
        if not self.dynamic:
            buffers = [
                f"{t.name}: {'list[Tensor]' if t.shape is Shape.LIST else 'Tensor'}"
                for t in self.fresh
            ]
            body += self.placeholder.writing_lines(
                [*self.mutated, *(t for t in self.fresh if t.shape is Shape.PLAIN)]
            )
            body += self._list_writing()
            return Function(self.layout.define(name, [*inputs, *buffers], "None"), body or [])
        returned = tuple(r for r in self.first.contract.returns if returns_tensor(r))
        head = self.layout.define(name, inputs, return_annotation_text(returned))
        return Function(head, [*body, *self._dynamic_body()])

    def _list_writing(self) -> Lines:
        lines: Lines = []
        write = "copy_" if self.placeholder.value_is_tensor else "fill_"
        for target in self.fresh:
            if target.shape is not Shape.LIST:
                continue
            for n, multiple in enumerate(target.multiples()):
                text = f"{target.name}[{n}].{write}({multiple} * {self.placeholder.value})"
                lines += self.layout.line(text)
        return lines

    def _dynamic_body(self) -> Lines:
        lines: Lines = []
        p = self.placeholder
        if p.like:
            lines += self.layout.line(f"{self.names['mask']} = {p.like} > 0")
        lines += p.place_lines(self.names["first_place"])
        lines += p.writing_lines(self.mutated)
        for target in self.fresh:
            texts = [p.selected(m) for m in target.multiples()]
            lines += self._assign_each(target, texts)
        return [*lines, *self.layout.returning([t.name for t in self.fresh])]

    def _assign_each(self, target: Target, texts: list[str]) -> Lines:
        if target.shape is Shape.LIST:
            return self.layout.statement(f"{target.name} = ", Group("[", tuple(texts), "]"))
        return self.layout.line(f"{target.name} = {texts[0]}")

    def _form(self, form: Form) -> FormContext:
        variable = self.names[_VARIABLES[form.kind] if len(self.forms) > 1 else "_op"]
        fake = None
        if form.kind is Kind.FUNCTIONAL or (form.kind is Kind.MUTABLE and self.fresh):
            fake = self._fake(form, variable)
        autograd = None
        if form.kind is Kind.FUNCTIONAL and self.op.autograd:
            autograd = autograd_of(form, self.placeholder, self.fresh, variable)
        return FormContext(
            form,
            variable,
            self._registration(form, variable),
            fake,
            autograd,
            self._public(form, variable),
        )

    def _registration(self, form: Form, variable: str) -> Function:
        contract = form.registered
        written = contract.mutated
        mutates: str | Group = "mutates_args=()"
        if written:
            mutates = Group("mutates_args={", tuple(quote(n) for n in written), "}")
        arguments: list[str | Group] = [quote(contract.qualname), mutates]
        if form.tag:
            arguments.append(f"tags={form.tag}")
        decorator = self.layout.call("@", "torch.library.custom_op", arguments, depth=0)
        return Function(
            self._head(form, variable), self._registered_body(form), decorator=decorator
        )

    def _head(self, form: Form, name: str) -> Lines:
        contract = form.registered
        words = signature(tuple(Argument(p) for p in contract.parameters))
        return self.layout.define(name, words, return_annotation_text(contract.returns))

    def _registered_body(self, form: Form) -> Lines:
        lines: Lines = []
        inputs = [a.name for a in self.first.arguments]
        kernel = self.names["_kernel"]
        if form.kind in (Kind.INPLACE, Kind.OUT):
            written = [a.name for a in form.written]
            if form.kind is Kind.OUT or self._checks_inplace(form):
                for name in written:
                    lines += self.layout.call(
                        "",
                        self.names["check_buffer"],
                        [quote(form.name), quote(name), name, self._metadata_call()],
                    )
            buffers = written if self.first.kind is Kind.FUNCTIONAL else []
            lines += self.layout.call("", kernel, [*inputs, *buffers])
            return lines + (self.layout.returning(written) if form.registered.returns else [])
        if not self.fresh and not self.mutated:
            return self.layout.call("return ", kernel, inputs)
        if self.dynamic:
            targets = ", ".join(t.name for t in self.fresh)
            lines += self.layout.call(f"{targets} = ", kernel, inputs)
        else:
            lines += self._allocation()
            lines += self.layout.call("", kernel, [*inputs, *(t.name for t in self.fresh)])
        return lines + self._returned(form)

    def _allocation(self) -> Lines:
        lines: Lines = []
        empty = self.names["empty_result"]
        for target in self.fresh:
            call = Group(f"{empty}(", (self._metadata_call(),), ")")
            if target.shape is Shape.LIST:
                calls = tuple(call for _ in target.multiples())
                lines += self.layout.statement(f"{target.name} = ", Group("[", calls, "]"))
            else:
                lines += self.layout.statement(f"{target.name} = ", call)
        return lines

    def _returned(self, form: Form) -> Lines:
        returns = form.contract.returns
        if not returns:
            return []
        values: list[str] = []
        fresh = iter(self.fresh)
        for index, returned in enumerate(returns):
            values.append(
                next(fresh).name if returns_tensor(returned) else self._number(returned, index)
            )
        return self.layout.returning(values)

    def _number(self, returned: Return, index: int) -> str:
        return number_result(returned, index, self.placeholder.like)

    def _fake(self, form: Form, variable: str) -> Function:
        head = self._head(form, "_")
        if not self.dynamic:
            body = self._allocation()
        else:
            size = self.names["size"]
            body = self.layout.line(f"{size} = torch.library.get_ctx().new_dynamic_size()")
            p = self.placeholder
            body += p.place_lines(self.names["first_place"])
            place = [f"({size},)", f"dtype={p.dtype_text()}", f"device={p.device_text()}"]
            call = Group("torch.empty(", tuple(place), ")")
            for target in self.fresh:
                if target.shape is Shape.LIST:
                    calls = tuple(call for _ in target.multiples())
                    body += self.layout.statement(f"{target.name} = ", Group("[", calls, "]"))
                else:
                    body += self.layout.statement(f"{target.name} = ", call)
        decorator = self.layout.line(f"@{variable}.register_fake", 0)
        return Function(head, [*body, *self._returned(form)], decorator=decorator)

    def _public(self, form: Form, variable: str) -> Function:
        contract = form.contract
        head = self.layout.define(
            form.name, signature(form.arguments), return_annotation_text(contract.returns)
        )
        body = self._guards(form)
        registered = tuple(Argument(p) for p in form.registered.parameters)
        call = passing(registered)
        if form.kind in (Kind.INPLACE, Kind.OUT):
            written = [a.name for a in form.written]
            body += self.layout.call("", variable, call)
            if form.tag:
                body += self.layout.comment(
                    "What the op returns is another tensor under torch.compile; this is not."
                )
            body += self.layout.returning(written)
        elif contract.returns:
            result = self.names["result"]
            annotation = return_annotation_text(contract.returns)
            body += self.layout.call(f"{result}: {annotation} = ", variable, call)
            body += self.layout.returning([result])
        else:
            body += self.layout.call("", variable, call)
        return Function(head, body, self._docstring(public_doc(self.op, form)))

    def _docstring(self, paragraphs: list[str]) -> Lines:
        first, *rest = paragraphs
        if not rest:
            return [f'    """{first}"""']
        lines = [f'    """{first}']
        for text in rest:
            lines += self.layout.prose(text, 1) or [""]
        return [*lines, '    """']

    def _guards(self, form: Form) -> Lines:
        tensors = spread(form.arguments)
        if not tensors:
            return []
        name = quote(form.name)
        if form.kind is not Kind.FUNCTIONAL:
            return self.layout.call("", self.names["refuse_lost_gradients"], [name, *tensors])
        lines = self.layout.call("", self.names["refuse_forward_mode"], [name, *tensors])
        for argument in self._gapped(form):
            item = self.names["item"]
            lines += self.layout.line(f"if any({item} is None for {item} in {argument.name}):")
            lines += self.layout.comment(
                "PyTorch records no gradient for a list with None in it.", 2
            )
            lines += self.layout.call(
                "", self.names["refuse_lost_gradients"], [name, f"*{argument.name}"], 2
            )
        return lines


_VARIABLES = {Kind.FUNCTIONAL: "_functional", Kind.INPLACE: "_inplace", Kind.OUT: "_out"}


def reference_lines(builder: OpBuilder) -> tuple[Lines, Lines]:
    """Head and body of the reference that the tests compare with."""
    placeholder, first = builder.placeholder, builder.first
    head = builder.layout.define(
        builder.names["_reference"],
        signature(tuple(a for a in placeholder.reads)),
        "list[Any]",
    )
    plain = Placeholder(placeholder.reads, placeholder.fake, placeholder.names, builder.layout)
    helper = f"{builder.package.module}._contract.first_place"
    if first.kind is Kind.OUT:
        fresh = [Target(t.name, t.multiple) for t in builder.mutated]
        body = plain.reference_lines([], fresh, helper)
    else:
        body = plain.reference_lines(builder.mutated, builder.fresh, helper)
    results = builder.names["results"]
    return head, [*body, *_with_numbers(builder, results)]


def _with_numbers(builder: OpBuilder, results: str) -> Lines:
    """Numbers among the returns stand where the op returns them."""
    lines: Lines = []
    returns = builder.first.contract.returns
    before = len(builder.mutated) if builder.first.kind is Kind.MUTABLE else 0
    for index, returned in enumerate(returns):
        if not returns_tensor(returned):
            text = number_result(returned, index, builder.placeholder.like)
            lines += builder.layout.line(f"{results}.insert({before + index}, {text})")
    return [*lines, *builder.layout.returning([results])]

"""The test module of one op or family: which checks it makes, and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscaffold.contract.model import BaseType, Kind
from opscaffold.scaffold.additions import additions_of
from opscaffold.scaffold.arguments import returns_tensor
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.layout import Group, Layout, natural_key, quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.reference import reference_lines
from opscaffold.scaffold.spec import FakeMode

_SUFFIXES = {
    Kind.FUNCTIONAL: "functional",
    Kind.INPLACE: "inplace",
    Kind.OUT: "out",
    Kind.MUTABLE: "mutable",
}


@dataclass(frozen=True, slots=True)
class ModuleTests:
    """What the template of a test module reads."""

    imports: Lines
    reference_does: str
    reference_head: Lines
    reference_body: Lines
    functions: tuple[Function, ...]


def tests_of(plan: OpPlan) -> ModuleTests:
    """The tests of one module."""
    head, body = reference_lines(plan)
    functions: list[Function] = []
    for form in plan.forms:
        functions += FormTests(plan, form).functions()
    kind = plan.first.kind
    does = {
        Kind.FUNCTIONAL: "returned",
        Kind.INPLACE: "written",
        Kind.OUT: "written",
        Kind.MUTABLE: "written, then what is returned" if plan.fresh else "written",
    }[kind]
    return ModuleTests(_imports(plan), does, head, body, tuple(functions))


def _imports(plan: OpPlan) -> Lines:
    lines: Lines = []
    lists = any(a.is_list for a in plan.placeholder.numbers)
    if plan.names.sum_is_hidden and lists:
        lines.append(f"from builtins import sum as {plan.names.sum}")
    lines += ["from typing import Any", ""]
    module, checks = plan.package.module, plan.names["checks"]
    own = {module: f"import {module}", "opscaffold_checks": f"import opscaffold_checks as {checks}"}
    first_party = [own[name] for name in sorted(own, key=natural_key)]
    tensor = any(a.is_tensor for a in plan.placeholder.reads)
    return [
        *lines,
        "import torch",
        *(["from torch import Tensor"] if tensor else []),
        "",
        *first_party,
    ]


class FormTests:
    """The tests of one op of a module, and the means to write more."""

    def __init__(self, plan: OpPlan, form: Form) -> None:
        """Write tests of ``form``, one of the plan's."""
        self.plan = plan
        self.form = form
        self.layout: Layout = plan.layout
        self.checks = plan.names["checks"]
        self.module = plan.package.module
        self.function = f"{self.module}.{form.name}"
        self.qualname = quote(form.registered.qualname)
        self.written = [a.name for a in form.written]
        names = tuple(quote(n) for n in self.written)
        self.writes = Group("(", names, ")", lone_comma=len(names) == 1)
        self.reference = plan.names["_reference"]

    def functions(self) -> list[Function]:
        """All of them, in order."""
        form, returns = self.form, self.form.contract.returns
        functional = form.kind is Kind.FUNCTIONAL
        writing = form.kind in (Kind.INPLACE, Kind.OUT)
        tensors = any(a.is_tensor for a in form.arguments)
        fresh = not writing and any(returns_tensor(r) for r in returns)
        op = form.overload
        found = [
            self.once("schema", "documents_its_schema", [op, quote(self._path())]),
            self.each("opcheck", "opcheck", [self.function, op, "case"], traces=True),
            self.each("numbers", "agrees", [self.function, self.reference, "case", self.writes]),
        ]
        if fresh:
            found.append(self.each("memory", "returns_fresh", [self.function, "case"]))
        found += self._compilation()
        if functional:
            arguments: list[str | Group] = [self.function, op, "case"]
            found.append(self.first("export", "exports", arguments, traces=True))
            found += self._differentiation(tensors=tensors)
        elif tensors:
            found += [
                self.first("lost_gradients", "refuses_lost_gradients", [self.function, "case"]),
                self.first("forward_mode", "refuses_forward_mode", [self.function, "case"]),
            ]
        if writing:
            found += self._identity()
        if self.plan.unchecked and self.written:
            found += self._unchecked(op)
        if form.kind is Kind.OUT:
            found += self._buffers()
        if len(self.plan.forms) > 1 and writing:
            found += self._family()
        for each in additions_of(self.plan.op):
            found += each.tests(self) if each.serves(form) else []
        return [*found, *self.plan.language.more_tests(self)]

    def _path(self) -> str:
        return f"{self.plan.package.ops_package}.{self.plan.first.name.lower()}"

    def _compilation(self) -> list[Function]:
        returns = self.form.contract.returns
        numbers = [r.type for r in returns if not returns_tensor(r)]
        arguments: list[str | Group] = [self.function, "case"]
        if self.written:
            arguments.append(self.writes)
        # A lone number cannot be traced into one graph.
        whole = [] if not numbers or len(returns) > 1 else ["fullgraph=False"]
        found = [self.each("compiled", "compiles", [*arguments, *whole], traces=True)]
        # Inductor knows no op that returns a float (torch 2.13).
        if not any(isinstance(t, BaseType) and t.name in ("float", "Scalar") for t in numbers):
            inductor = ['backend="inductor"', *whole]
            arguments += inductor
            found.append(self.first("inductor", "compiles", arguments, traces=True))
        return found

    def _differentiation(self, *, tensors: bool) -> list[Function]:
        found: list[Function] = []
        if self.plan.op.autograd:
            found += [
                self.each(
                    "opcheck_with_grad",
                    "opcheck_with_grad",
                    [self.function, self.form.overload, "case"],
                    "floating",
                    traces=True,
                ),
                self.each("gradients", "gradients", [self.function, "case"], "double"),
            ]
        if self.plan.refuses_gradients(self.form):
            arguments: list[str | Group] = [self.function, "case"]
            found.append(self.first("lost_gradients", "refuses_lost_gradients", arguments))
            arguments = [self.form.overload, "case"]
            found.append(self.first("op_gradients", "refuses_lost_gradients", arguments))
        if tensors:
            found.append(
                self.first("forward_mode", "refuses_forward_mode", [self.function, "case"])
            )
        return found

    def _identity(self) -> list[Function]:
        arguments: list[str | Group] = [self.function, "case", self.writes]
        return [
            self.first("identity", "returns_what_it_wrote", arguments, traces=True),
            self.first("result", "is_updated_through_its_result", arguments, traces=True),
        ]

    def _unchecked(self, op: str) -> list[Function]:
        """What custom_op would see to at each call."""
        arguments: list[str | Group] = [self.function, "case", self.writes]
        found = [self.first("versions", "counts_writes", arguments)]
        if self.form.registered.tags:
            arguments = [self.function, op, "case", self.writes]
            found.append(self.each("op_identity", "op_returns_what_it_wrote", arguments))
        return found

    def _buffers(self) -> list[Function]:
        placeholder = self.plan.placeholder
        arguments: list[str | Group] = [self.function, "case", self.writes]
        known = placeholder.like or placeholder.dtype_argument
        wrong = [] if known else ["dtypes=False"]
        return [
            self.each("prefilled", "fills_any_buffer", arguments),
            self.first("wrong_buffers", "refuses_wrong_buffers", [*arguments, *wrong]),
        ]

    def _family(self) -> list[Function]:
        functional = f"{self.module}.{self.plan.first.name}"
        first = quote(self.plan.first.arguments[0].name)
        found = [
            self.each(
                "agreement",
                "writes_the_result_of",
                [self.function, functional, "case", self.writes],
            )
        ]
        if self.form.kind is Kind.OUT:
            found.append(
                self.each(
                    "input_as_buffer",
                    "tolerates_an_input_as_buffer",
                    [self.function, functional, "case", quote(self.written[0]), first],
                )
            )
        elif self._can_grow():
            found.append(self.first("growth", "refuses_to_grow", [self.function, "case", first]))
        return found

    def _can_grow(self) -> bool:
        mode = self.plan.op.fake.mode
        return mode is FakeMode.BROADCAST and len(self.plan.placeholder.plain) > 1

    def once(self, name: str, check: str, arguments: Sequence[str | Group]) -> Function:
        """A test that runs no kernel."""
        head = self.layout.define(self._name(name), [], "None")
        return Function(head, self._call(check, arguments))

    def first(
        self, name: str, check: str, arguments: Sequence[str | Group], *, traces: bool = False
    ) -> Function:
        """A test on the first sample. ``traces`` is whether PyTorch must see into the kernel."""
        cases = self.layout.call("@", f"{self.checks}.first_case", [self.qualname], 0)
        return self._on_case(name, check, arguments, cases, traces=traces)

    def each(
        self,
        name: str,
        check: str,
        arguments: Sequence[str | Group],
        which: str = "",
        *,
        traces: bool = False,
    ) -> Function:
        """A test on each sample, or on those that ``which`` of the checks picks."""
        picked = [f"{self.checks}.{which}"] if which else []
        cases = self.layout.call("@", f"{self.checks}.each_case", [self.qualname, *picked], 0)
        return self._on_case(name, check, arguments, cases, traces=traces)

    def _on_case(
        self,
        name: str,
        check: str,
        arguments: Sequence[str | Group],
        cases: Lines,
        *,
        traces: bool,
    ) -> Function:
        head = self.layout.define(self._name(name), [f"case: {self.checks}.Case"], "None")
        marks = self.plan.language.test_marks(self.plan, traces=traces)
        return Function(head, self._call(check, arguments), decorator=[*marks, *cases])

    def _name(self, name: str) -> str:
        suffix = f"{_SUFFIXES[self.form.kind]}_" if len(self.plan.forms) > 1 else ""
        return f"test_{suffix}{name}"

    def _call(self, check: str, arguments: Sequence[str | Group]) -> Lines:
        given = [a for a in arguments if not (isinstance(a, Group) and not a.items)]
        return self.layout.call("", f"{self.checks}.{check}", given)

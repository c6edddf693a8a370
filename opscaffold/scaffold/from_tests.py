"""The tests of an op that wraps a function: what its contract promises, and the function itself."""

from __future__ import annotations

from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import returns_tensor, signature
from opscaffold.scaffold.from_spec import DROP, Wrapped
from opscaffold.scaffold.layout import Group, natural_key, quote
from opscaffold.scaffold.module_tests import FormTests, ModuleTests
from opscaffold.scaffold.plan import Function, Lines, OpPlan

_WRAPPED = "opscaffold_wrapped"


def wrapped_tests(plan: OpPlan, wrapped: Wrapped) -> ModuleTests:
    """The tests of one module."""
    functions = [f for form in plan.forms for f in _Tests(plan, form).functions()]
    written, fresh = bool(plan.first.written), plan.first.kind in (Kind.FUNCTIONAL, Kind.MUTABLE)
    fresh = fresh and bool(plan.first.contract.returns)
    does = "written, then what is returned" if written and fresh else "returned"
    does = "written" if written and not fresh else does
    head = plan.layout.define(
        plan.names["_reference"], signature(plan.first.arguments), "list[Any]"
    )
    return ModuleTests(_imports(plan, wrapped), does, head, _body(plan, wrapped), tuple(functions))


def _imports(plan: OpPlan, wrapped: Wrapped) -> Lines:
    names, module = plan.names, plan.package.module
    own = {
        module: f"import {module}",
        "opscaffold_checks": f"import opscaffold_checks as {names['checks']}",
        "opscaffold_samples": "import opscaffold_samples",
        _WRAPPED: f"import {_WRAPPED} as {names['wrapped']}",
    }
    tensor = any(a.is_tensor for a in plan.first.arguments)
    original = names["original"]
    bound = "" if original == wrapped.function else f" as {original}"
    return [
        "from typing import Any",
        "",
        "import torch",
        *(["from torch import Tensor"] if tensor else []),
        "",
        *[own[name] for name in sorted(own, key=natural_key)],
        f"from originals.{wrapped.file} import {wrapped.function}{bound}",
    ]


def _body(plan: OpPlan, wrapped: Wrapped) -> Lines:
    """The outcome of a call of the function, of which copies of the arguments are given."""
    form, layout, names = plan.first, plan.layout, plan.names
    items = [f"{quote(a.name)}: {a.name}" for a in form.arguments]
    items += [f"{quote(name)}: None" for name in wrapped.absent]
    writes = tuple(quote(a.name) for a in form.written)
    kept = tuple(str(n) for n, action in enumerate(wrapped.results) if action != DROP)
    given: list[str | Group] = [
        names["original"],
        Group("{", tuple(items), "}"),
        Group("(", writes, ")", lone_comma=len(writes) == 1),
        Group("(", kept, ")", lone_comma=len(kept) == 1),
    ]
    results = names["results"]
    lines = layout.call(f"{results}: list[Any] = ", f"{names['wrapped']}.outcome", given)
    return [*lines, *layout.returning([results])]


class _Tests(FormTests):
    """The tests of one op, without those of a placeholder's buffers."""

    def functions(self) -> list[Function]:
        form = self.form
        writing = form.kind in (Kind.INPLACE, Kind.OUT)
        floating = any(a.is_tensor for a in form.arguments)
        fresh = not writing and any(returns_tensor(r) for r in form.contract.returns)
        op = form.overload
        plain: list[str | Group] = [self.function, "case"]
        found = [
            self.once("schema", "documents_its_schema", [op, quote(self._path())]),
            self._original(),
            self.each("opcheck", "opcheck", [self.function, op, "case"], traces=True),
            self.each("numbers", "agrees", [self.function, self.reference, "case", self.writes]),
        ]
        if fresh:
            found.append(self.each("memory", "returns_fresh", plain))
        found += self._compilation()
        if form.kind is Kind.FUNCTIONAL:
            found.append(self.first("export", "exports", [self.function, op, "case"], traces=True))
        if floating:
            if form.kind is not Kind.FUNCTIONAL or self.plan.refuses_gradients(form):
                found.append(self._own("lost_gradients", "refuses_lost_gradients", plain))
            found.append(self._own("forward_mode", "refuses_forward_mode", plain))
        writes: list[str | Group] = [*plain, self.writes]
        if writing:
            found += self._identity()
        if self.plan.unchecked and self.written:
            found += self._unchecked(op)
        if form.kind is Kind.OUT:
            found.append(self._own("prefilled", "ignores_what_buffers_held", writes))
            found.append(self._own("resized", "returns_no_resized_buffer", writes))
        return found

    def _original(self) -> Function:
        samples = f"opscaffold_samples.{self.form.name}_samples"
        head = self.layout.define(self._name("original"), [], "None")
        call = f"{self.plan.names['wrapped']}.takes_what_the_original_takes"
        return Function(head, self.layout.call("", call, [samples, self.plan.names["original"]]))

    def _own(self, name: str, check: str, arguments: list[str | Group]) -> Function:
        """A test of the wrapped function's own checks, on the first sample."""
        decorator = self.layout.call("@", f"{self.checks}.first_case", [self.qualname], 0)
        head = self.layout.define(self._name(name), [f"case: {self.checks}.Case"], "None")
        call = f"{self.plan.names['wrapped']}.{check}"
        return Function(head, self.layout.call("", call, arguments), decorator=decorator)

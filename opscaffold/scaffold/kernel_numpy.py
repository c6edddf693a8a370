"""Kernels that compute with numpy, on the CPU.

What they return is new memory by construction: numbers are copied into tensors that the op made,
since a tensor made of an array of another tensor's memory shares it, and nothing tells (FACTS
section 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.scaffold.arguments import returns_tensor
from opscaffold.scaffold.dialect import NumpyDialect
from opscaffold.scaffold.kernel import kernel_function
from opscaffold.scaffold.language import Dependencies, Imports, Language
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.registration import registration
from opscaffold.scaffold.spec import KernelLanguage

if TYPE_CHECKING:
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec, Setting

_DEVICE = "cpu"
_HELPERS = ("as_array", "fill", "new_tensor")


class Numpy(Language):
    """numpy arrays over the memory of the tensors."""

    word: ClassVar[KernelLanguage] = KernelLanguage.NUMPY
    about: ClassVar[str] = "numpy, on the CPU alone: for code that you have"

    def refusal(self, op: OpSpec, setting: Setting) -> str | None:  # noqa: ARG002
        """Refused where no tensor is computed: there is no array then."""
        if op.contract.mutated or any(map(returns_tensor, op.contract.returns)):
            return None
        return (
            "a numpy kernel fills tensors, and this op neither returns nor writes one; nearest: "
            "--kernel torch"
        )

    def dependencies(self) -> Dependencies:
        """numpy itself."""
        return Dependencies(run=("numpy",))

    def imports(self, plan: OpPlan) -> Imports:
        """numpy where the kernel names it, and the helpers that it calls."""
        lines = "\n".join(self.kernel(plan).body)
        names = plan.names
        used = [helper for helper in _HELPERS if f"{names[helper]}(" in lines]
        if any(self.guards(plan, form) for form in plan.forms):
            used.append("require_cpu")
        third = [f"import numpy as {names['np']}"] if f"{names['np']}." in lines else []
        return Imports(third=third, helpers=used)

    def kernel(self, plan: OpPlan) -> Function:
        """The placeholder on arrays."""
        names = {name: plan.names[name] for name in ("np", *_HELPERS)}
        return kernel_function(plan, NumpyDialect(names))

    def registration(self, plan: OpPlan, form: Form, variable: str) -> Function:
        """As elsewhere, for the CPU alone."""
        return registration(plan, form, variable, _DEVICE)

    def guards(self, plan: OpPlan, form: Form) -> Lines:
        """Name the tensor that is elsewhere: what PyTorch would say names none."""
        tensors = [f"{a.name}={a.name}" for a in form.arguments if a.is_tensor]
        if not tensors or plan.op.additions.device_kernels:
            return []
        return plan.layout.call("", plan.names["require_cpu"], [quote(form.name), *tensors])

    def raises(self, plan: OpPlan, form: Form) -> list[str]:
        """Tensors elsewhere are refused."""
        if not self.guards(plan, form):
            return []
        return ["Raises ValueError for a tensor that is not on the CPU."]

    def contract_lines(self, plan: OpPlan) -> list[str]:
        """Where it runs."""
        others = plan.op.additions.device_kernels
        told = f"; {', '.join(others)} have kernels of their own" if others else " alone"
        return [f"The kernel computes with numpy, on the CPU{told}."]

    def sample_lines(self, plan: OpPlan) -> Lines:
        """None on other devices."""
        devices = tuple(map(quote, (_DEVICE, *plan.op.additions.device_kernels)))
        only = f"!= {devices[0]}" if len(devices) == 1 else f"not in ({', '.join(devices)})"
        return [
            *plan.layout.line(f"if device.type {only}:"),
            *plan.layout.comment("numpy computes on the CPU alone.", 2),
            *plan.layout.line("return", 2),
        ]

    def more_tests(self, tests: FormTests) -> list[Function]:
        """That tensors elsewhere are refused by name."""
        if not self.guards(tests.plan, tests.form):
            return []
        arguments = [tests.function, "case"]
        return [tests.first("other_devices", "refuses_other_devices", arguments)]

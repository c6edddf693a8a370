"""Inputs cast under autocast, by ``register_autocast``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.contract.model import Kind
from opscaffold.scaffold.addition import Addition, register
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.spec import KernelLanguage

if TYPE_CHECKING:
    from opscaffold.contract.releases import Version
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec

_DEVICES = ("cpu", "cuda")


class Autocast(Addition):
    """``register_autocast``, for functional ops alone."""

    key: ClassVar[str] = "autocast"
    since: ClassVar[Version] = (2, 7)

    def refusal(self, op: OpSpec) -> str | None:
        """Refused where it loses what is written, or PyTorch asserts (FACTS sections 2 and 4)."""
        contract = op.contract
        if contract.kind is Kind.OUT or any(p.kw_only for p in contract.parameters):
            return (
                "register_autocast takes no op with keyword-only arguments; nearest: the same "
                "arguments without '*', and no out="
            )
        if contract.kind is not Kind.FUNCTIONAL:
            return (
                "autocast would hand the op a cast copy, and what is written there never reaches "
                "the argument; nearest: a functional op"
            )
        if not any(p.is_tensor_like for p in contract.parameters):
            return "the op takes no Tensor that autocast could cast; leave --autocast out"
        return None

    def serves(self, form: Form) -> bool:
        """The functional op of a family: the others write their arguments."""
        return form.kind is Kind.FUNCTIONAL

    def lines(self, plan: OpPlan, form: Form, variable: str) -> Lines:
        """One call a device."""
        dtype = f"torch.{plan.op.additions.autocast}"
        devices = _DEVICES[:1] if plan.op.kernel is KernelLanguage.NUMPY else _DEVICES
        lines: Lines = []
        for device in devices:
            lines += register(plan, form, variable, "autocast", [quote(device), dtype])
        return lines

    def tests(self, tests: FormTests) -> list[Function]:
        """Against inputs cast by hand."""
        dtype = f"torch.{tests.plan.op.additions.autocast}"
        return [tests.first("autocast", "autocasts", [tests.function, "case", dtype])]

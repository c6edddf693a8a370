"""Kernels for single types of devices, by ``register_kernel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.scaffold.addition import Addition
from opscaffold.scaffold.arguments import arguments_of
from opscaffold.scaffold.kernel import kernel_function
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.registration import device_registration
from opscaffold.scaffold.spec import KernelLanguage

if TYPE_CHECKING:
    from opscaffold.contract.releases import Version
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.layout import Group
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec

_REFUSED = {
    KernelLanguage.TRITON: "torch.compile takes the Triton kernel on every device, whatever is "
    "registered for one; nearest: --kernel torch",
    KernelLanguage.CPP: "kernels in C++ are registered for a device where they are written, by "
    "TORCH_LIBRARY_IMPL; leave --device-kernel out",
    KernelLanguage.WRAPPED: "the function is the kernel on every device; leave --device-kernel out",
}


class DeviceKernels(Addition):
    """``register_kernel``: PyTorch calls, until the author replaces them."""

    key: ClassVar[str] = "device_kernels"
    since: ClassVar[Version] = (2, 4)

    def refusal(self, op: OpSpec) -> str | None:
        """Refused where no argument tells the device, or a language has its own way."""
        if op.kernel in _REFUSED:
            return _REFUSED[op.kernel]
        if not any(a.is_plain_tensor for a in arguments_of(op.contract)):
            return (
                "PyTorch finds the kernel by the device of a Tensor argument, and none is always "
                "given; nearest: choose in the kernel"
            )
        if op.kernel is KernelLanguage.NUMPY and "cpu" in op.additions.device_kernels:
            return "the numpy kernel is the one for the CPU; name other devices"
        return None

    def kernels(self, plan: OpPlan) -> list[Function]:
        """One for each device."""
        devices = plan.op.additions.device_kernels
        return [kernel_function(plan, name=plan.names[f"_{device}_kernel"]) for device in devices]

    def lines(self, plan: OpPlan, form: Form, variable: str) -> Lines:
        """One registration for each device."""
        lines: Lines = []
        for device in plan.op.additions.device_kernels:
            kernel = plan.names[f"_{device}_kernel"]
            made = device_registration(plan, form, variable, device, kernel)
            lines += ["", ""] if lines else []
            lines += [*made.decorator, *made.head, *made.body]
        return lines

    def tests(self, tests: FormTests) -> list[Function]:
        """That it is there, and, where the device is, what it computes."""
        found: list[Function] = []
        for device in tests.plan.op.additions.device_kernels:
            told = [tests.qualname, quote(device)]
            found.append(tests.once(f"{device}_kernel_is_registered", "has_device_kernel", told))
            given: list[str | Group] = [tests.function, tests.reference, *told, tests.writes]
            found.append(tests.once(f"{device}_kernel", "agrees_on_device", given))
        return found

"""Kernels in C++, registered by ``STABLE_TORCH_LIBRARY`` in a library that the package builds.

The stable ABI carries them: one build serves every Python, and each torch from the oldest one on.
It has no Scalar, and no tags for in-place and out= ops (FACTS section 11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.contract.model import Kind
from opscaffold.scaffold.autograd import Call
from opscaffold.scaffold.cpp_names import is_like_a_macro
from opscaffold.scaffold.cpp_source import CppSource, cpp_source, tells_device
from opscaffold.scaffold.cpp_types import uncarried
from opscaffold.scaffold.language import Imports, Language
from opscaffold.scaffold.layout import Group, quote
from opscaffold.scaffold.plan import Function
from opscaffold.scaffold.registration import metadata_call
from opscaffold.scaffold.spec import KernelLanguage

if TYPE_CHECKING:
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.plan import Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec, Setting

FIRST_TORCH = (2, 10)
"""The first torch whose stable ABI has lists, strings and devices."""


class Cpp(Language):
    """C++ kernels in a library that is built with the package."""

    word: ClassVar[KernelLanguage] = KernelLanguage.CPP
    about: ClassVar[str] = "C++, built with the package: for code that must run without Python"
    package_template: ClassVar[str] = "cpp_package"
    op_template: ClassVar[str] = "cpp_op"
    registers: ClassVar[bool] = False

    def refusal(self, op: OpSpec, setting: Setting) -> str | None:
        """Refused where the stable ABI cannot carry the op, in any torch or in the oldest one."""
        if setting.torch_min < FIRST_TORCH:
            return (
                "PyTorch's stable ABI for C++ has lists, strings and devices since torch 2.10; say "
                "--torch-min 2.10 or newer, or --kernel torch"
            )
        if is_like_a_macro(op.contract.namespace):
            return (
                f"the namespace {op.contract.namespace} may be a macro in C++, which would put "
                "something else in its place; take one in small letters"
            )
        return uncarried(op.contract)

    def tagged(self) -> bool:
        """The stable ABI knows the tags of neither in-place nor out= ops."""
        return False

    def imports(self, plan: OpPlan) -> Imports:
        """What loads the library."""
        helpers = ["cpp_op"]
        if any(plan.refuses_gradients(form) for form in plan.forms):
            helpers.append("refuse_backward")
        if any(_needs_fake_of_nothing(plan, form) for form in plan.forms):
            helpers.append("fake_nothing")
        return Imports(local={"_library": helpers})

    def kernel(self, plan: OpPlan) -> Function | None:  # noqa: ARG002
        """None in Python."""
        return None

    def source(self, plan: OpPlan) -> CppSource:
        """The C++ half of the module."""
        return cpp_source(plan)

    def registration(self, plan: OpPlan, form: Form, variable: str) -> Function:
        """The op as the library has registered it."""
        contract = form.registered
        told = [f"torch.ops.{contract.namespace}", quote(contract.name)]
        after = plan.layout.call(f"{variable} = ", plan.names["cpp_op"], told, depth=0)
        if plan.refuses_gradients(form):
            told = [quote(contract.qualname)]
            after += plan.layout.call("", plan.names["refuse_backward"], told, depth=0)
        if _needs_fake_of_nothing(plan, form):
            told = [quote(contract.qualname), plan.names["fake_nothing"]]
            after += plan.layout.call("", "torch.library.register_fake", told, depth=0)
        return Function([], [], after=after)

    def register_autograd(self, plan: OpPlan, form: Form, variable: str) -> Call:  # noqa: ARG002
        """By the op's name."""
        return "torch.library.register_autograd", [quote(form.registered.qualname)], []

    def guards(self, plan: OpPlan, form: Form) -> Lines:
        """Refuse a buffer with the error of its kind: the library can only raise RuntimeError."""
        lines: Lines = []
        if form.kind is Kind.OUT or plan.checks_inplace(form):
            for argument in form.written:
                told = [quote(form.name), quote(argument.name), argument.name]
                call: list[str | Group] = [*told, metadata_call(plan)]
                lines += plan.layout.call("", plan.names["check_buffer"], call)
        return lines

    def contract_lines(self, plan: OpPlan) -> list[str]:
        """Where the kernel is."""
        return [f"The kernel is in C++: csrc/{plan.first.name.lower()}.cpp."]


def _needs_fake_of_nothing(plan: OpPlan, form: Form) -> bool:
    """Whether PyTorch would call the kernel itself on tensors without data.

    An op that returns nothing has a fake kernel by itself, unless one kernel is for all devices.
    """
    return not form.registered.returns and not tells_device(plan)

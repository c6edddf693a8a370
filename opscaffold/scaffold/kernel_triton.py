"""Kernels in Triton, registered through ``torch.library.triton_op``.

triton_op takes no tags (FACTS section 4): in-place and out= ops are untagged mutable ops there, as
on a torch without tags. Under Triton's interpreter kernels run on the CPU, and no compiler sees
into them: what is to be compiled is tested on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from opscaffold.contract.model import Kind
from opscaffold.contract.releases import FIRST_WITH_TRITON_OP
from opscaffold.scaffold.arguments import arguments_of, returns_list, returns_tensor
from opscaffold.scaffold.language import Dependencies, Imports, Language
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.registration import registration
from opscaffold.scaffold.spec import FakeMode, KernelLanguage, Registration
from opscaffold.scaffold.triton_code import HELPERS, TritonCode, decorator

if TYPE_CHECKING:
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.layout import Group
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec, Setting

_GUARD = "require_triton"


class Triton(Language):
    """Triton kernels."""

    word: ClassVar[KernelLanguage] = KernelLanguage.TRITON
    about: ClassVar[str] = "Triton, for GPUs: torch.compile sees into it"
    package_template: ClassVar[str] = "triton"

    def refusal(self, op: OpSpec, setting: Setting) -> str | None:
        """Refused for what no Triton kernel can fill or be handed, and no triton_op can be."""
        contract = op.contract
        torch_kernel = "nearest: --kernel torch"
        if setting.registration is Registration.LIBRARY:
            return (
                "a Triton kernel is registered through triton_op, which shows it to compilers; a "
                "Library would hide it; nearest: --registration custom_op"
            )
        if setting.torch_min < FIRST_WITH_TRITON_OP:
            first = ".".join(map(str, FIRST_WITH_TRITON_OP))
            return f"triton_op came with torch {first}; nearest: --torch-min {first}"
        if not contract.mutated and not any(map(returns_tensor, contract.returns)):
            return (
                "a Triton kernel fills tensors, and this op neither returns nor writes one; "
                f"{torch_kernel}"
            )
        if op.fake.mode is FakeMode.DYNAMIC:
            return (
                "a Triton kernel fills memory whose size is known before it runs, not one that "
                f"only the data tells; {torch_kernel}, or a fake rule of sizes"
            )
        lists = [a.name for a in arguments_of(contract) if a.is_tensor and a.is_list]
        if lists or any(map(returns_list, contract.returns)):
            what = f"{lists[0]} is" if lists else "it returns"
            return (
                "a Triton kernel is handed a fixed number of tensors, and "
                f"{what} a list of them; nearest: one stacked Tensor, or --kernel torch"
            )
        return None

    def tagged(self) -> bool:
        """triton_op has no tags."""
        return False

    def dependencies(self) -> Dependencies:
        """Triton is there for some systems alone, and comes with torch on those with a GPU."""
        return Dependencies(extras=(("triton", ("triton",)),))

    def imports(self, plan: OpPlan) -> Imports:
        """Triton by way of a module that is there without it."""
        kernel, launcher = self.before_kernel(plan), self.kernel(plan)
        text = "\n".join([*kernel, *launcher.head, *launcher.body])
        names = plan.names
        used = [h for h in HELPERS if any(f"{names[h]}{end}" in text for end in ("(", ".", "\n"))]
        return Imports(typing=("Any",), local={"_triton": sorted([*used, _GUARD])})

    def before_kernel(self, plan: OpPlan) -> Lines:
        """The kernel itself."""
        return TritonCode(plan).kernel()

    def kernel(self, plan: OpPlan) -> Function:
        """Its launch."""
        return TritonCode(plan).launcher()

    def registration(self, plan: OpPlan, form: Form, variable: str) -> Function:
        """Through triton_op."""
        registered = form.registered
        lines = decorator(plan, registered.qualname, registered.mutated)
        return replace(registration(plan, form, variable), decorator=lines)

    def fake(self, plan: OpPlan, form: Form, variable: str) -> None:
        """triton_op runs the op's own function on fake tensors."""

    def guards(self, plan: OpPlan, form: Form) -> Lines:
        """Say what is missing, where Triton would end in an error of its own."""
        tensors = [f"{a.name}={a.name}" for a in form.arguments if a.is_tensor]
        return plan.layout.call("", plan.names[_GUARD], [quote(form.name), *tensors])

    def raises(self, plan: OpPlan, form: Form) -> list[str]:  # noqa: ARG002
        """It needs Triton, and tensors where Triton runs."""
        return [
            "Raises RuntimeError where Triton is not installed.",
            "Raises ValueError for a tensor on the CPU, unless Triton interprets kernels.",
        ]

    def contract_lines(self, plan: OpPlan) -> list[str]:
        """Where it runs, and what it lacks."""
        lines = ["The kernel is Triton's: it runs on a GPU, or under Triton's interpreter."]
        if any(form.contract.tags for form in plan.forms):
            lines.append(
                "triton_op takes no tags: in-place and out= ops are registered as mutable."
            )
        return lines

    def sample_lines(self, plan: OpPlan) -> Lines:
        """None where Triton does not run."""
        return [
            *plan.layout.line("if not runs_triton(device):"),
            *plan.layout.line("return", 2),
        ]

    def test_marks(self, plan: OpPlan, *, traces: bool) -> Lines:
        """Skipped without Triton, and under its interpreter where a compiler must see into it."""
        mark = "needs_compiled_triton" if traces else "needs_triton"
        return plan.layout.line(f"@{plan.names['checks']}.{mark}", 0)

    def more_tests(self, tests: FormTests) -> list[Function]:
        """What can be seen of contracts without a compiler."""
        form = tests.form
        arguments: list[str | Group] = [tests.function, form.overload, "case"]
        found = [tests.each("opcheck_in_eager", "opcheck_in_eager", arguments)]
        if form.kind in (Kind.INPLACE, Kind.OUT):
            arguments = [tests.function, "case", tests.writes, "compiled=False"]
            found.append(tests.first("identity_in_eager", "returns_what_it_wrote", arguments))
        return found

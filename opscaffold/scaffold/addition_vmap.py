"""A rule for ``torch.vmap``: the op on a batch, without the fallback and its warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.contract.model import Kind
from opscaffold.scaffold.addition import Addition, register
from opscaffold.scaffold.arguments import returns_tensor
from opscaffold.scaffold.language import Imports
from opscaffold.scaffold.layout import Group
from opscaffold.scaffold.spec import FakeMode

if TYPE_CHECKING:
    from opscaffold.contract.releases import Version
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec


class Vmap(Addition):
    """``register_vmap``. The rule is right for any kernel: it calls the op on each element."""

    key: ClassVar[str] = "vmap"
    since: ClassVar[Version] = (2, 5)

    def refusal(self, op: OpSpec) -> str | None:
        """Refused where results cannot be stacked, or PyTorch takes no rule (FACTS section 4)."""
        contract = op.contract
        if contract.kind is Kind.OUT:
            return (
                "torch.vmap does not unwrap the buffers of an out= op for its rule, and ends in an "
                "internal error; nearest: a functional op"
            )
        if not any(p.is_tensor_like for p in contract.parameters):
            return "the op takes no Tensor, so there is no batch; nearest: --no-vmap"
        if any(not returns_tensor(r) for r in contract.returns):
            return "torch.vmap returns Tensors alone, and the op returns a number; return a Tensor"
        if op.fake.mode is FakeMode.DYNAMIC:
            return (
                "results whose size only the data tells cannot be stacked to a batch; nearest: "
                "--no-vmap"
            )
        return None

    def serves(self, form: Form) -> bool:
        """All but the out= op of a family."""
        return form.kind is not Kind.OUT

    def imports(self, plan: OpPlan) -> Imports:
        """The helpers that the rules call."""
        stacks = any(_stacks(form) for form in plan.forms if self.serves(form))
        helpers = ["each_of_batch", "stack_batch"] if stacks else ["each_of_batch"]
        return Imports(typing=("Any",), helpers=helpers)

    def lines(self, plan: OpPlan, form: Form, variable: str) -> Lines:
        """The rule and its registration."""
        name = plan.names[f"{variable}_vmap"]
        layout, names = plan.layout, plan.names
        words = ["info: Any", "in_dims: tuple[Any, ...]", "*args: Any", "**kwargs: Any"]
        registered = form.registered
        written = tuple(str(n) for n, p in enumerate(registered.parameters) if p.mutated)
        given: list[str | Group] = [variable, "info.batch_size", "in_dims", "args", "kwargs"]
        if written:
            given.append(Group("writes=(", written, ")", lone_comma=len(written) == 1))
        stacks = _stacks(form)
        results = f"{names['results']} = " if stacks else ""
        body = layout.comment(">>> Replace this by one call, where your kernel takes a batch.")
        body += layout.call(results, names["each_of_batch"], given)
        if stacks:
            body += layout.line(f"return {names['stack_batch']}({names['results']})")
        else:
            body += layout.line(
                "return args[0], in_dims[0]" if registered.returns else "return None, None"
            )
        body += layout.comment("<<< Replace up to here.")
        head = layout.define(name, words, "Any")
        return [*head, *body, "", "", *register(plan, form, variable, "vmap", [name])]

    def tests(self, tests: FormTests) -> list[Function]:
        """Against a loop."""
        arguments: list[str | Group] = [tests.function, "case", tests.writes]
        return [tests.first("vmap", "vmaps", arguments)]


def _stacks(form: Form) -> bool:
    """Whether the results are new tensors, to be stacked."""
    return bool(form.registered.returns) and form.kind is not Kind.INPLACE

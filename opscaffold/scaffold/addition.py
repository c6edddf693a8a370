"""What may be registered for an op beside what its contract needs, and what that adds to a module.

``Addition`` is the seam: one subclass each, and ``additions`` lists them.
"""

# ruff: noqa: ARG002 -- the answers here are for the additions to override
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from opscaffold.scaffold.language import Imports
from opscaffold.scaffold.layout import quote

if TYPE_CHECKING:
    from opscaffold.contract.releases import Version
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import OpSpec, Setting


class Addition(ABC):
    """One of them. ``key`` is its answer; ``package_template`` is rendered once where it is used.

    ``since`` is the first torch release after the function it is registered by was proposed
    upstream: none older than 2.13 was run.
    """

    key: ClassVar[str]
    package_template: ClassVar[str] = ""
    since: ClassVar[Version]

    def wanted(self, op: OpSpec) -> bool:
        """Whether the answers ask for it."""
        return bool(getattr(op.additions, self.key))

    def refusal(self, op: OpSpec) -> str | None:
        """Why the op cannot have it, and what would do; None if it can."""
        return None

    def too_old(self, setting: Setting) -> str | None:
        """Why a package for that torch cannot have it; None if it can."""
        if setting.torch_min >= self.since:
            return None
        since = ".".join(map(str, self.since))
        return f"torch has it from {since} on; nearest: --torch-min {since}"

    def serves(self, form: Form) -> bool:
        """Whether an op of a family gets it: some kinds cannot have all that others can."""
        return True

    def imports(self, plan: OpPlan) -> Imports:
        """What the op's module imports for it."""
        return Imports()

    def kernels(self, plan: OpPlan) -> list[Function]:
        """Functions that stand beside the kernel."""
        return []

    @abstractmethod
    def lines(self, plan: OpPlan, form: Form, variable: str) -> Lines:
        """Code below the registration of one op, which ``variable`` names."""

    @abstractmethod
    def tests(self, tests: FormTests) -> list[Function]:
        """Tests that exercise it, and fail where it is not registered."""


def register(plan: OpPlan, form: Form, variable: str, what: str, arguments: Sequence[str]) -> Lines:
    """The call of ``register_<what>``, for an op of custom_op or one of a library."""
    if not plan.unchecked:
        return plan.layout.call("", f"{variable}.register_{what}", arguments, depth=0)
    given = [quote(form.registered.qualname), *arguments]
    given += [f"lib={plan.names['_library']}"] if plan.library else []
    return plan.layout.call("", f"torch.library.register_{what}", given, depth=0)

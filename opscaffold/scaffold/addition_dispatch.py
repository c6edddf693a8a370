"""A rule for a TorchDispatchMode, by ``register_torch_dispatch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opscaffold.scaffold.addition import Addition, register
from opscaffold.scaffold.language import Imports
from opscaffold.scaffold.layout import quote

if TYPE_CHECKING:
    from opscaffold.contract.releases import Version
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.layout import Group
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan

_MODE = "CallLog"


class TorchDispatch(Addition):
    """``register_torch_dispatch``, with a mode that comes with the package and logs calls."""

    key: ClassVar[str] = "torch_dispatch"
    since: ClassVar[Version] = (2, 6)
    package_template: ClassVar[str] = "dispatch"

    def imports(self, plan: OpPlan) -> Imports:  # noqa: ARG002
        """The mode."""
        return Imports(typing=("Any",), local={"_dispatch": (_MODE,)})

    def lines(self, plan: OpPlan, form: Form, variable: str) -> Lines:
        """The rule and its registration."""
        layout, mode = plan.layout, plan.names[_MODE]
        name = plan.names[f"{variable}_logged"]
        words = [f"mode: {mode}", "func: Any", "types: Any", "args: Any", "kwargs: Any"]
        body = layout.comment(">>> Replace this and the mode by what you dispatch to.")
        body += layout.line(f"mode.called.append({quote(form.registered.qualname)})")
        body += layout.line("return func(*args, **kwargs)")
        body += layout.comment("<<< Replace up to here.")
        head = layout.define(name, words, "Any")
        registered = register(plan, form, variable, "torch_dispatch", [mode, name])
        return [*head, *body, "", "", *registered]

    def tests(self, tests: FormTests) -> list[Function]:
        """Under the mode."""
        arguments: list[str | Group] = [tests.function, "case", tests.writes]
        return [tests.first("torch_dispatch", "dispatches", arguments)]

"""What the language of an op's kernel decides about its module, tests and package.

``Language`` is the seam: each method has the answer for a kernel of PyTorch calls, and a language
overrides those that differ. What an op promises does not depend on it.
"""

# ruff: noqa: ARG002 -- the answers here are for other languages to override
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from opscaffold.scaffold.autograd import Call
from opscaffold.scaffold.kernel import kernel_function
from opscaffold.scaffold.layout import quote
from opscaffold.scaffold.registration import fake_kernel, registration

if TYPE_CHECKING:
    from opscaffold.scaffold.forms import Form
    from opscaffold.scaffold.module_tests import FormTests
    from opscaffold.scaffold.plan import Function, Lines, OpPlan
    from opscaffold.scaffold.spec import KernelLanguage, OpSpec, Setting


@dataclass(frozen=True, slots=True)
class Imports:
    """What a module imports beside what its registration needs.

    ``typing`` are names of ``typing``. ``third`` are whole lines that stand among the third-party
    imports. ``helpers`` are names of the package's ``_contract`` module, ``local`` are names of
    its other modules. An op or argument that has such a name too hides it: ``plan.names[name]`` is
    what it is called here.
    """

    typing: Sequence[str] = ()
    third: Sequence[str] = ()
    helpers: Sequence[str] = ()
    local: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the package needs installed, as requirements.

    ``run`` to be imported; ``test`` for its tests. ``extras`` are optional, under the name of
    their extra.
    """

    run: Sequence[str] = ()
    test: Sequence[str] = ()
    extras: Sequence[tuple[str, Sequence[str]]] = field(default=())


class Language:
    """A kernel of PyTorch calls, and the base of the other languages.

    ``about`` is told with the question. ``package_template`` and ``op_template`` name templates
    that are rendered beside those of every package: once, and once for each op of the language.
    ``unready`` is why no op can be written in it, where none can. ``registers`` is whether the
    Python module registers the op: else what it loads does.
    """

    word: ClassVar[KernelLanguage]
    about: ClassVar[str] = ""
    package_template: ClassVar[str] = ""
    op_template: ClassVar[str] = ""
    unready: ClassVar[str] = ""
    registers: ClassVar[bool] = True

    # May the op be written in it?

    def refusal(self, op: OpSpec, setting: Setting) -> str | None:
        """Why the op cannot have a kernel in this language, and what would do; None if it can."""
        return self.unready or None

    def tagged(self) -> bool:
        """Whether in-place and out= ops can carry their tags, where torch has them."""
        return True

    def dependencies(self) -> Dependencies:
        """What a package with such an op needs installed, beside torch."""
        return Dependencies()

    # The module of the op, in the order of its template.

    def imports(self, plan: OpPlan) -> Imports:
        """What the kernel and its registration import."""
        return Imports()

    def before_kernel(self, plan: OpPlan) -> Lines:
        """Code between the metadata rule and the kernel, which the author replaces with it."""
        return []

    def kernel(self, plan: OpPlan) -> Function | None:
        """The kernel as a Python function that all ops of the module share, if there is one."""
        return kernel_function(plan)

    def source(self, plan: OpPlan) -> object:
        """What ``op_template`` reads as ``op.source``."""
        return None

    def registration(self, plan: OpPlan, form: Form, variable: str) -> Function:
        """The registration of one op, after which ``variable`` names it.

        Of the Function, ``decorator``, ``head`` and ``body`` are one function and may all be
        empty; ``after`` are statements at module level.
        """
        return registration(plan, form, variable)

    def fake(self, plan: OpPlan, form: Form, variable: str) -> Function | None:
        """The fake kernel, for a form that needs one: those that return fresh tensors."""
        return fake_kernel(plan, form, variable)

    def register_autograd(self, plan: OpPlan, form: Form, variable: str) -> Call:
        """The function that registers a backward, and what it takes before and behind the two."""
        if not plan.library:
            return f"{variable}.register_autograd", [], []
        op = quote(form.registered.qualname)
        return "torch.library.register_autograd", [op], [f"lib={plan.names['_library']}"]

    def guards(self, plan: OpPlan, form: Form) -> Lines:
        """Statements at the start of the public function, behind those on gradients."""
        return []

    def raises(self, plan: OpPlan, form: Form) -> list[str]:
        """Sentences about what the public function raises, for its docstring."""
        return []

    def promises(self, plan: OpPlan) -> list[str] | None:
        """Sentences in place of those about a placeholder, where they would not be true."""
        return None

    def unneeded(self, plan: OpPlan) -> Sequence[str]:
        """Names of ``_contract`` that a placeholder would need, and this kernel does not."""
        return ()

    def contract_lines(self, plan: OpPlan) -> list[str]:
        """Sentences about the kernel for the module's docstring, below its promises."""
        return []

    # Its tests and samples.

    def sample_lines(self, plan: OpPlan) -> Lines:
        """Statements at the start of a function that yields samples for ``device``."""
        return []

    def test_marks(self, plan: OpPlan, *, traces: bool) -> Lines:
        """Decorators of a test that runs the kernel; ``traces`` where PyTorch must see into it."""
        return []

    def more_tests(self, tests: FormTests) -> list[Function]:
        """Tests of one op beside those of its contract."""
        return []

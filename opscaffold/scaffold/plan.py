"""What is settled of one op or family before its code is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opscaffold.contract.derive import default_out_names
from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import Argument, Shape, returns_tensor
from opscaffold.scaffold.forms import Form, forms_of
from opscaffold.scaffold.layout import Layout
from opscaffold.scaffold.names import Names
from opscaffold.scaffold.placeholder import Placeholder
from opscaffold.scaffold.spec import FakeMode, OpSpec, PackageSpec, Registration
from opscaffold.scaffold.targets import (
    FIRST_MULTIPLE,
    Target,
    fresh_targets,
    mutated_targets,
)

if TYPE_CHECKING:
    from opscaffold.scaffold.language import Language

Lines = list[str]


@dataclass(frozen=True, slots=True)
class Function:
    """A function in parts: what stands above it, its head, docstring and body, what follows."""

    head: Lines
    body: Lines
    doc: Lines = field(default_factory=list)
    decorator: Lines = field(default_factory=list)
    after: Lines = field(default_factory=list)


class OpPlan:
    """What is settled of one OpSpec before any of its code is written, for one line length."""

    def __init__(
        self, op: OpSpec, package: PackageSpec, layout: Layout, language: Language
    ) -> None:
        self.op = op
        self.language = language
        self.package = package
        self.layout = layout
        self.forms = forms_of(op, package.torch_min, tagged=language.tagged())
        self.first = self.forms[0]
        taken = {a.name for f in self.forms for a in f.arguments} | {f.name for f in self.forms}
        taken |= {package.module, "ctx", "inputs", "output", "keyword_only_inputs"}
        self.names = Names(taken)
        self.dynamic = op.fake.mode is FakeMode.DYNAMIC
        self.library = package.registration is Registration.LIBRARY and language.registers
        # Whether nothing but the tests looks at what the op returns.
        self.unchecked = self.library or not language.registers
        buffer = self.first.written[0] if self.first.kind is Kind.OUT else None
        written, returns = self.first.written, self.first.contract.returns
        several = len(written) + len(returns) > 1 or any(a.is_list for a in written)
        overwrites = self.first.kind is Kind.MUTABLE and several
        self.placeholder = Placeholder(
            self.first.reads, op.fake, self.names, layout, buffer, overwrites
        )
        self.mutated, self.fresh = self._targets()

    def _targets(self) -> tuple[list[Target], list[Target]]:
        """What the kernel writes: arguments, and buffers for what is returned fresh."""
        form = self.first
        if form.kind in (Kind.INPLACE, Kind.OUT):
            return mutated_targets(form.contract), []
        mutated = mutated_targets(form.contract)
        count = len(form.contract.returns)
        if len(self.forms) > 1:
            # The buffers' names of the family's out= op serve the kernel as well.
            names = [a.name for a in self.forms[-1].written]
        else:
            names = [self.names[name] for name in default_out_names(count)]
        first = FIRST_MULTIPLE + len(mutated)
        return mutated, fresh_targets(form.contract.returns, names, first)

    def allocates(self, form: Form) -> bool:
        """Whether an op makes the buffers that its kernel fills."""
        return (
            bool(self.fresh) and form.kind in (Kind.FUNCTIONAL, Kind.MUTABLE) and not self.dynamic
        )

    def checks_inplace(self, form: Form) -> bool:
        """Whether an in-place op must look at what it writes first."""
        if form.kind is not Kind.INPLACE:
            return False
        fake = self.op.fake
        return not (fake.mode is FakeMode.SAME and fake.like == form.written[0].name)

    def gapped(self, form: Form) -> list[Argument]:
        """The lists that may hold None, where the op has autograd."""
        if not self.op.autograd:
            return []
        return [a for a in form.arguments if a.is_tensor and a.shape is Shape.GAPPED_LIST]

    def refuses_gradients(self, form: Form) -> bool:
        """Whether a functional op must refuse inputs that require grad by itself.

        custom_op does so when a backward is asked for. Through a Library, autograd would record
        what the kernel does where the op has no backward (FACTS section 5).
        """
        if not self.unchecked or self.op.autograd or form.kind is not Kind.FUNCTIONAL:
            return False
        returns = form.contract.returns
        return any(a.is_tensor for a in form.arguments) and any(map(returns_tensor, returns))

    @property
    def needs_metadata(self) -> bool:
        """Whether the module has a rule for metadata."""
        return any(
            self.allocates(f) or f.kind is Kind.OUT or self.checks_inplace(f) for f in self.forms
        )

    @property
    def broadcasts(self) -> bool:
        """Whether results have the shape to which several tensors broadcast."""
        return self.op.fake.mode is FakeMode.BROADCAST and len(self.placeholder.plain) > 1

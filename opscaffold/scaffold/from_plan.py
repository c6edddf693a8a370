"""What is settled of an op that wraps a function: no placeholder fills its buffers."""

from __future__ import annotations

from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.language import Language
from opscaffold.scaffold.layout import Layout
from opscaffold.scaffold.placeholder import Placeholder
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.spec import OpSpec, PackageSpec


class WrappedPlan(OpPlan):
    """The plan of an op whose kernel allocates what it returns."""

    def __init__(
        self, op: OpSpec, package: PackageSpec, layout: Layout, language: Language
    ) -> None:
        """Settle it, for one line length."""
        super().__init__(op, package, layout, language)
        # The arithmetic of a placeholder is written nowhere: what it would import is not needed.
        reads = tuple(a for a in self.first.reads if a.is_tensor or not a.is_list)
        self.placeholder = Placeholder(reads, op.fake, self.names, layout, self.placeholder.buffer)

    @property
    def derived(self) -> bool:
        """Whether the fake kernel was derived from the function."""
        return self.op.wraps is not None and bool(self.op.wraps.fake)

    def allocates(self, form: Form) -> bool:
        """A fake kernel by a rule allocates; the kernel does so by itself."""
        return not self.derived and super().allocates(form)

    def checks_inplace(self, form: Form) -> bool:
        """Never: the function writes what it is given."""
        del form
        return False

    @property
    def needs_metadata(self) -> bool:
        """Whether the module has a rule for metadata."""
        return any(self.allocates(form) for form in self.forms)

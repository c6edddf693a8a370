"""What generated code says about the contract of its ops."""

from __future__ import annotations

from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import returns_tensor
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.spec import FakeMode, OpSpec

_RULES = {
    FakeMode.SAME: "shape, dtype and device of {like}",
    FakeMode.BROADCAST: "the shape and dtype to which all Tensor arguments broadcast and promote",
    FakeMode.EXPRESSION: "the shape ({shape}), dtype and device {like}",
    FakeMode.DYNAMIC: "one dimension whose size only the data tells, dtype and device {like}",
}


def rule_text(op: OpSpec) -> str:
    """The metadata rule in words."""
    fake = op.fake
    text = _RULES[fake.mode].replace("{shape}", ", ".join(fake.shape))
    like = fake.like
    if fake.mode is FakeMode.SAME:
        return text.replace("{like}", like)
    return text.replace("{like}", f"of {like}" if like else "as the other arguments say")


def contract_lines(plan: OpPlan) -> list[str]:
    """The promises of a module's ops, one a line."""
    op, forms = plan.op, plan.forms
    lines: list[str] = []
    lines += plan.language.promises(plan) or []
    for form in forms if not lines else ():
        lines += _promises(op, form, f"{form.name} " if len(forms) > 1 else "It ")
    if op.autograd:
        lines.append(
            "Gradients are first- and second-order in reverse mode; forward mode is refused."
        )
    if len(forms) > 1:
        lines.append(
            "One kernel serves all three: it must not write a buffer before it has read "
            "all of every input, because in-place the buffer is an input."
        )
    if plan.unchecked and any(form.registered.returns for form in forms):
        lines.append("What is returned is looked at by the tests alone, not at each call.")
    return [*lines, *plan.language.contract_lines(plan)]


def _promises(op: OpSpec, form: Form, who: str) -> list[str]:
    written = ", ".join(a.name for a in form.written)
    if form.kind is Kind.INPLACE:
        return [f"{who}writes {written} and nothing else, and returns that very tensor."]
    if form.kind is Kind.OUT:
        return [
            f"{who}writes all of {written} without reading it, and returns it.",
            f"Each buffer has {rule_text(op)}; any other is refused.",
        ]
    lines = []
    if form.kind is Kind.MUTABLE:
        lines.append(f"{who}writes {written} and no other argument.")
    else:
        lines.append(f"{who}writes none of its arguments.")
    returns = form.contract.returns
    if any(returns_tensor(r) for r in returns):
        lines.append(
            "What it returns is new: contiguous, and sharing memory with no argument and no other "
            "return."
        )
        lines.append(f"Each returned tensor has {rule_text(op)}.")
    if any(not returns_tensor(r) for r in returns):
        lines.append(
            "The numbers it returns follow from metadata: the fake kernel has no data to see."
        )
    return lines


def public_doc(plan: OpPlan, form: Form) -> list[str]:
    """Docstring of the public function, by paragraph, empty ones between."""
    op = plan.op
    qualname = f"{form.contract.namespace}::{form.name}"
    said = op.wraps.doc if op.wraps is not None else ""
    lines = [said or f"Call ``{qualname}``. Say here what it computes."]
    tensors = any(a.is_tensor for a in form.arguments)
    if form.kind is not Kind.FUNCTIONAL:
        lost = "what is written here has no gradient"
        lines += ["", f"Raises RuntimeError where an argument takes part in autograd: {lost}."]
    elif plan.refuses_gradients(form):
        lines += ["", "Raises RuntimeError where an argument takes part in autograd: no backward."]
    elif tensors:
        backward = "" if op.autograd else " It has no backward."
        lines += ["", f"Raises RuntimeError under forward-mode differentiation.{backward}"]
    if form.kind is Kind.OUT and op.wraps is None:
        lines += ["Raises ValueError for a buffer of another shape, dtype or device."]
    more = plan.language.raises(plan, form)
    if more and len(lines) == 1:
        lines.append("")
    lines += more
    return lines

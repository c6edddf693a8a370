"""Fake kernels that return an argument, or a view of one, where the op returns a new tensor.

Source: FACTS section 2; torch.library reference, register_fake.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import alias_of
from opscaffold.effects.summary import Answer, Effects, effects_of
from opscaffold.effects.trace import Trace
from opscaffold.effects.values import UNSEEN, Ref
from opscaffold.findings.intents import MendFake
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import signature_of, tags_of
from opscaffold.rules.fakes import Fake, fake_arguments, fakes_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.outputs import outputs_of


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report returns of a fake that surely share memory with an argument."""
    contract = signature_of(facts.project, facts.op)
    if tags_of(facts.project, facts.op.definition) != frozenset() or contract is None:
        return
    if any(alias_of(r.type) is not None for r in contract.returns):
        return
    for fake in fakes_of(facts.op):
        arguments = fake_arguments(facts.project, facts.op, fake.function)
        names = ProjectNames(facts.project, fake.module)
        lent = _lent_by_kernel(facts)
        effects = effects_of(fake.function, arguments, names)
        for node, refs in _shared(effects.trace).items():
            found = [ref for ref in refs if ref.root not in lent]
            if not found:
                continue
            sure = [ref for ref in found if not ref.perhaps]
            yield RULE.finding(
                fake.module,
                node or fake.function,
                _message(sure) if sure else _perhaps(found),
                op=facts.op.qualname,
                severity=Severity.ERROR if sure else Severity.WARNING,
                intent=MendFake(facts.op.qualname) if sure else None,
            )
        if facts.effects is None or not facts.effects.overlaps:
            yield from _twice(facts, fake, effects)


def _message(found: list[Ref]) -> str:
    exact = [ref for ref in found if ref.exact]
    shown = _said(exact or found)
    what = f"{shown} {'itself' if len(exact) == 1 else 'as passed in'}"
    return (
        f"the fake kernel returns {what if exact else f'a view of {shown}'}, the op a new "
        "tensor: compiled code may take the result and the argument for one memory"
    )


def _perhaps(found: list[Ref]) -> str:
    return (
        f"what the fake kernel returns may be {_said(found)} itself or a view of it, depending on "
        "layout, dtype or device, and the op returns a new tensor: compiled code may take the two "
        "for one memory"
    )


def _said(refs: list[Ref]) -> str:
    return ", ".join(f"`{r.root.removeprefix('param:')}`" for r in refs)


def _twice(facts: OpFacts, fake: Fake, effects: Effects) -> Iterator[Finding]:
    """Report returns of which two are surely one tensor, or views of one."""
    places = {o.place: o for o in reversed(effects.overlaps) if o.answer is Answer.ALWAYS}
    for place, overlap in places.items():
        what = "one tensor for two results" if overlap.same else "several views of one tensor"
        yield RULE.finding(
            fake.module,
            place,
            f"the fake kernel returns {what}, the op separate tensors: compiled code may take the "
            "results for one memory",
            op=facts.op.qualname,
            remedy="allocate each of the results",
        )


def _lent_by_kernel(facts: OpFacts) -> set[str]:
    """Arguments that the kernel itself may return: it is at fault then, and has its own finding."""
    shared = {a.root for a in facts.effects.aliases} if facts.effects is not None else set()
    return shared | {f"param:{name}" for name in (outputs_of(facts) if facts.kernel else ())}


def _shared(trace: Trace) -> dict[ast.AST | None, list[Ref]]:
    """For each way out, the arguments that lend their memory to what is returned."""
    found: dict[ast.AST | None, list[Ref]] = {}
    for way in trace.returns:
        # What code out of sight returned may be anything.
        if UNSEEN in way.value.all_refs():
            continue
        met = found.setdefault(way.node, [])
        for part in way.value.leaves():
            lent = [
                ref
                for ref in part.all_refs()
                if ref.root.startswith("param:")
                and not (ref.hidden or ref.guess)
                and all(ref.root != other.root for other in met)
            ]
            met += sorted(lent, key=lambda ref: (ref.perhaps, not ref.exact, ref.root))
    return found


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, y: Tensor | None = None) -> Tensor:
    return x * 2 if y is None else x * y

"""

RULE = Rule(
    code="OPS112",
    name="fake-returns-input",
    severity=Severity.ERROR,
    summary="The fake kernel returns one of its arguments, or a view of one.",
    why="The op promises a new tensor. The fake kernel tells torch.compile that the result is the "
    "argument: what is traced then differs from what runs, and opcheck fails.",
    remedy="allocate what the op returns, as in torch.empty_like(x)",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@scale.register_fake
def _(x, y=None):
    return x
""",
        _OP
        + """
@torch.library.register_fake("demo::scale")
def scale_fake(x, y=None):
    flat = x.view(-1)
    return flat.view(x.shape)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("turn(Tensor x) -> Tensor")
lib.impl("turn", lambda x: x.t().clone(), "CPU")
lib._register_fake("turn", lambda x: x.t())
""",
    ),
    misses=(
        _OP
        + """
@scale.register_fake
def _(x, y=None):
    return torch.empty_like(x)
""",
        _OP
        + """
@scale.register_fake
def _(x, y=None):
    return x + 0
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::pick", mutates_args=())
def pick(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else x[:n].clone()


@pick.register_fake
def _(x, n):
    return x if n == 0 else x.new_empty(n)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("turn(Tensor(a) x) -> Tensor(a)")
lib._register_fake("turn", lambda x: x.t())
""",
    ),
)

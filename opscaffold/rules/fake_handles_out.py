"""Fake kernels that branch on a buffer which the caller may omit.

Where the op is split, or its buffer required, such a branch is left over; until then it makes
what is traced depend on the call, as the kernel does (FACTS sections 1 and 2).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import OptionalType
from opscaffold.findings.intents import MendFake
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import default_of, signature_of
from opscaffold.rules.fakes import Fake, fakes_of
from opscaffold.rules.functions import own_nodes, positional_names
from opscaffold.rules.outputs import outputs_of


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report the branch of a fake on an Optional buffer that the op writes."""
    contract = signature_of(facts.project, facts.op)
    if contract is None or not contract.returns:
        return
    yield from _leftovers(facts)
    buffers = {
        p.name for p in contract.parameters if p.mutated and isinstance(p.type, OptionalType)
    }
    buffers |= set(outputs_of(facts)) if facts.kernel is not None else set()
    if not buffers:
        return
    order = [p.name for p in contract.parameters if not p.kw_only]
    for fake in fakes_of(facts.op):
        renamed = dict(zip(positional_names(fake.function), order, strict=False))
        renamed |= {a.arg: a.arg for a in fake.function.args.kwonlyargs}
        for node in own_nodes(fake.function):
            name = _tested(node)
            buffer = renamed.get(name) if name is not None else None
            if buffer in buffers and not _comes_to_nothing(node, fake.function):
                yield RULE.finding(
                    fake.module,
                    node,
                    f"the fake kernel branches on `{buffer}`, which may be omitted: what is "
                    "traced differs from call to call",
                    op=facts.op.qualname,
                )
                break


def left_over(facts: OpFacts, fake: Fake) -> list[str]:
    """The buffers that a fake takes and branches on, and that the op does not take."""
    contract = signature_of(facts.project, facts.op)
    spec = fake.function.args
    if contract is None or spec.vararg or spec.kwarg:
        return []
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    own = [p.name for p in contract.parameters if not p.kw_only]
    extra = [n for n in positional[len(own) :] if n not in own]
    extra += [a.arg for a in spec.kwonlyargs if all(p.name != a.arg for p in contract.parameters)]
    tested = {_tested(node) for node in own_nodes(fake.function)}
    return [
        n
        for n in extra
        if n in tested
        and isinstance(default := default_of(fake.function, n), ast.Constant)
        and default.value is None
    ]


def _leftovers(facts: OpFacts) -> Iterator[Finding]:
    """Report what a fake does about a buffer that the op takes no more."""
    for fake in fakes_of(facts.op):
        for name in left_over(facts, fake):
            yield RULE.finding(
                fake.module,
                fake.function,
                f"the fake kernel branches on `{name}`, which the op does not take: the branch is "
                "never run",
                op=facts.op.qualname,
                remedy=f"take `{name}` out of the fake kernel",
                intent=MendFake(facts.op.qualname),
            )


def _tested(node: ast.AST) -> str | None:
    """The name that a branch tests for being given."""
    if not isinstance(node, ast.If | ast.IfExp | ast.While):
        return None
    test: ast.expr = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    match test:
        case ast.Name(id=name):
            return name
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant()]
        ):
            return name
    return None


def _comes_to_nothing(branch: ast.AST, function: ast.AST) -> bool:
    """Whether a branch only settles names that nothing else in the fake kernel reads."""
    within: ast.AST = branch
    if isinstance(branch, ast.If):
        statements = [*branch.body, *branch.orelse]
    else:
        statements = [
            n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.value is branch
        ]
        if not statements:
            return False
        within = statements[0]
    settled: set[str] = set()
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not _calls_on(value, name):
                settled.add(name)
            case ast.Pass():
                continue
            case _:
                return False
    inside = {id(n) for n in ast.walk(within)}
    return not any(
        isinstance(n, ast.Name)
        and n.id in settled
        and isinstance(n.ctx, ast.Load)
        and id(n) not in inside
        for n in ast.walk(function)
    )


def _calls_on(value: ast.expr, name: str) -> bool:
    """Whether a value is what a method of the name's own object gave, and may have changed it."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and isinstance(n.func.value, ast.Name)
        and n.func.value.id == name
        for n in ast.walk(value)
    )


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, scale: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)

"""

RULE = Rule(
    code="OPS114",
    name="fake-handles-out",
    severity=Severity.WARNING,
    summary="The fake kernel branches on a buffer that the caller may omit.",
    why="A fake kernel describes one contract. With a branch on the buffer, what is traced "
    "changes from call to call, and after the op is split the branch is dead code.",
    remedy="let the fake kernel of the functional op only allocate; an op with Tag.out needs none",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    if out is None:
        out = torch.empty_like(x)
    return out
""",
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    return torch.empty_like(x) if out is None else out.new_empty(0)
""",
        _OP
        + """
@torch.library.register_fake("demo::double")
def double_fake(x, scale=None, dst=None):
    if dst:
        return dst
    return torch.empty_like(x)
""",
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    if out is not None:
        rows = out.shape
    else:
        rows = x.shape
    return x.new_empty(rows)
""",
    ),
    misses=(
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    return torch.empty_like(x)
""",
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    if out is None:
        out = torch.empty_like(x)
    else:
        pass
    return torch.empty_like(x)
""",
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    out = torch.empty_like(x) if out is None else out
    return torch.empty_like(x)
""",
        _OP
        + """
@double.register_fake
def _(x, scale=None, out=None):
    return torch.empty_like(x) if scale is None else torch.empty_like(x * scale)
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::shift", mutates_args=())
def shift(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return x + 1 if bias is None else x + bias


@shift.register_fake
def _(x, bias=None):
    return torch.empty_like(x) if bias is None else torch.empty_like(x + bias)
""",
    ),
)

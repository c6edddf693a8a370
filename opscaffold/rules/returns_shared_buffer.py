"""Ops that hand out memory that outlives the call.

Source: FACTS section 2 (S3).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.effects.trace import Effect
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule, position
from opscaffold.rules.declared import tags
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.returned import clone_intent

_SEEN = "callers shared the memory that is kept, and each call copies it now"


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each return of a tensor that a global, an attribute or a cache holds as well."""
    if tags(facts):
        return
    for kernel in kernels_of(facts):
        found = _lasting(kernel)
        if not found:
            continue
        (place, holder), *others = found.items()
        yield RULE.finding(
            kernel.module,
            place,
            f"the result stays in {holder} for the next call: what one call returned changes "
            "when another call, or another holder, writes to it",
            op=facts.op.qualname,
            evidence=[position(kernel.module, node) for node, _ in others[:5]],
            intent=clone_intent(facts, _SEEN),
        )


def _lasting(kernel: Kernel) -> dict[ast.AST, str]:
    """The returns of lasting memory, each with the name of what holds it."""
    kept = {
        e.root: _holder(e.node)
        for e in kernel.effects.trace.events
        if e.effect is Effect.KEEP and e.root.startswith("fresh:") and e.known
    }
    found: dict[ast.AST, str] = {}
    for returned in kernel.effects.trace.returns:
        for ref in sorted(returned.value.all_refs(), key=lambda r: r.root):
            name = ref.root.removeprefix("global:")
            holder = f"`{name}`" if name != ref.root else kept.get(ref.root)
            if holder is not None and not ref.guess:
                found[returned.node or kernel.function] = holder
    return found


def _holder(node: ast.AST) -> str:
    match node:
        case ast.Subscript(value=owner) | ast.Call(func=ast.Attribute(value=owner)):
            return f"`{ast.unparse(owner)}`"
        case ast.Name() | ast.Attribute():
            return f"`{ast.unparse(node)}`"
    return "a cache"


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS205",
    name="returns-shared-buffer",
    severity=Severity.ERROR,
    summary="The op returns a tensor that a global, an attribute or a cache keeps.",
    why="The next call writes to the same memory, so the result of the first call changes under "
    "its owner. Nothing raises: opcheck compares one call at a time, and PyTorch's check looks at "
    "the arguments only. Compiled code may call the op in another order, or once for two.",
    remedy="return a copy of the buffer, or allocate the result in every call",
    repair="unsafe",
    of_op=check,
    hits=(
        _OP
        + """
_WORK = torch.empty(1024)


@torch.library.custom_op("demo::scan", mutates_args=())
def scan(x: Tensor) -> Tensor:
    part = _WORK[: x.numel()]
    torch.cumsum(x.view(-1), 0, out=part)
    return part
""",
        _OP
        + """
_CACHE: dict[int, Tensor] = {}


@torch.library.custom_op("demo::angles", mutates_args=())
def angles(n: int, device: torch.device) -> Tensor:
    if n not in _CACHE:
        _CACHE[n] = torch.arange(n, device=device) / n
    return _CACHE[n]
""",
        _OP
        + """
import functools


@functools.lru_cache(maxsize=8)
def _mask(n: int) -> Tensor:
    return torch.ones(n, n).tril()


@torch.library.custom_op("demo::mask", mutates_args=())
def mask(x: Tensor) -> Tensor:
    return _mask(x.shape[0])
""",
        _OP
        + """
_buffer = None


@torch.library.custom_op("demo::pack", mutates_args=())
def pack(x: Tensor) -> Tensor:
    global _buffer
    if _buffer is None or _buffer.numel() < x.numel():
        _buffer = torch.empty_like(x)
    _buffer.copy_(x)
    return _buffer
""",
        _OP
        + """
class State:
    scratch = torch.zeros(64)


@torch.library.custom_op("demo::tail", mutates_args=())
def tail(x: Tensor) -> Tensor:
    State.scratch.copy_(x)
    return State.scratch
""",
    ),
    misses=(
        _OP
        + """
_WORK = torch.empty(1024)


@torch.library.custom_op("demo::scan", mutates_args=())
def scan(x: Tensor) -> Tensor:
    part = _WORK[: x.numel()]
    torch.cumsum(x.view(-1), 0, out=part)
    return part.clone()
""",
        _OP
        + """
import functools


@functools.lru_cache(maxsize=8)
def _mask(n: int) -> Tensor:
    return torch.ones(n, n).tril()


@torch.library.custom_op("demo::mask", mutates_args=())
def mask(x: Tensor) -> Tensor:
    return x * _mask(x.shape[0])
""",
        _OP
        + """
_KERNELS = {}


@torch.library.custom_op("demo::run", mutates_args=())
def run(x: Tensor, name: str) -> Tensor:
    kernel = _KERNELS[name]
    return kernel(x)
""",
        _OP
        + """
_SCALE = 2.0
_LIMIT = torch.tensor(4.0)


@torch.library.custom_op("demo::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    y = x * _SCALE
    return torch.minimum(y, _LIMIT)
""",
    ),
)

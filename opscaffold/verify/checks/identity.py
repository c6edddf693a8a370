"""In-place and out= ops return the very arguments that they promise, in their order.

By tag, or by a written alias set in the schema. Nothing looks at what a low-level registration
returns (FACTS S10); of a custom_op PyTorch refuses anything else after the kernel ran, and names
no argument. The very object comes back in eager mode without grad only (FACTS S5), so calls that
autograd follows are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from opscaffold.findings.promises import RETURNS_OTHER_OBJECT
from opscaffold.verify.checks.base import Bench, Call, Check, Cost, Observation, call
from opscaffold.verify.checks.watch import (
    kernel_returns,
    promised,
    refused_result,
    shares_by_error,
)
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, describe, tensors_in


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compare what is returned with what was passed."""
    for sample in samples:
        if any(t.requires_grad for t in tensors_in([*sample.args, *sample.kwargs.values()])):
            continue
        done = call(op, sample)
        refused = ""
        if done.error is not None:
            if not refused_result(done.error) or shares_by_error(done.error):
                continue
            done = kernel_returns(op, sample)
            where = f"{op.position.path}:{op.position.line}"
            refused = f": PyTorch refuses the call once the kernel at {where} has run"
        yield from _compared(op, sample, done, refused)


def _compared(op: Op, sample: Sample, done: Call, refused: str) -> Iterator[Observation]:
    passed = op.arguments(done.sample)
    seen = False
    for number, name in enumerate(promised(op)):
        if name is None or name not in passed:
            continue
        returned = done.returned[number] if number < len(done.returned) else None
        if returned is passed[name]:
            continue
        seen = True
        message = f"instead of {name} itself the op returns {_told(returned, passed)}{refused}"
        yield Observation(RETURNS_OTHER_OBJECT, message, sample, name)
    if refused and not seen:
        message = f"the op returns its buffers in another form than the schema declares{refused}"
        yield Observation(RETURNS_OTHER_OBJECT, message, sample, "returns")


def _told(returned: Any, passed: dict[str, Any]) -> str:
    if not isinstance(returned, Tensor):
        return describe(returned)
    for name, value in passed.items():
        if returned is value:
            return f"the argument {name}"
    for name, value in passed.items():
        if any(share_memory(returned, tensor) for tensor in tensors_in(value)):
            return f"another tensor over the memory of {name}"
    return "a tensor of its own"


def _returns_arguments(op: Op) -> bool:
    return any(name is not None for name in promised(op))


CHECK = Check("identity", Cost.CALLS, run, _returns_arguments)

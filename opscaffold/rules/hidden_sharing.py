"""Results that share an argument's memory where PyTorch's check cannot see it.

Source: FACTS section 2 (S2).
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.returned import Sharing, clone_intent, evidence, shared_arguments

_SEEN = "callers could write to the argument through the result, which no call refused"


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument whose memory is returned under a storage object of its own."""
    for shared in shared_arguments(facts):
        if shared.sharing is Sharing.HIDDEN:
            yield RULE.finding(
                shared.kernel.module,
                shared.places[0],
                f"the result stands on the memory of `{shared.argument}`{shared.where}, by way of "
                "an array, where PyTorch's own check does not look: a write to the result changes "
                f"`{shared.argument}` in eager mode, and leaves it alone when compiled",
                op=facts.op.qualname,
                evidence=evidence(shared),
                intent=clone_intent(facts, _SEEN),
            )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS206",
    name="hidden-sharing",
    severity=Severity.ERROR,
    summary="The op returns a tensor that numpy or DLPack made of an argument's own memory.",
    why="`torch.from_numpy(x.numpy())` shares the memory of `x` behind a storage object of its "
    "own. No call raises and opcheck passes on every input. Writing to the result changes `x` in "
    "eager mode, and does not under `torch.compile`.",
    remedy="copy: `torch.tensor(array)`, or `torch.from_numpy(array.copy())`",
    repair="unsafe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy())
""",
        _OP
        + """
import numpy as np


@torch.library.custom_op("demo::turned", mutates_args=())
def turned(x: Tensor) -> Tensor:
    array = np.transpose(x.detach().numpy())
    return torch.as_tensor(array)
""",
        _OP
        + """
@torch.library.custom_op("demo::lent", mutates_args=())
def lent(x: Tensor, n: int) -> Tensor:
    if n:
        return torch.from_dlpack(x)
    return x * 2
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy().copy())
""",
        _OP
        + """
import numpy as np


@torch.library.custom_op("demo::rounded", mutates_args=())
def rounded(x: Tensor) -> Tensor:
    return torch.from_numpy(np.round(x.numpy(), 2))
""",
        _OP
        + """
@torch.library.custom_op("demo::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return torch.tensor(x.numpy())
""",
    ),
)

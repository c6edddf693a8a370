"""The tests of a generated package fail when a promise of the contract is broken."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest
from generated import BROADCAST, DYNAMIC, op, package, pytest_in, write

# One process makes the package for all of them.
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("breaches")]

OPS = {
    "scale": op("ns::scale(Tensor x, float alpha=1.5) -> Tensor"),
    "pick": op("ns::pick(Tensor x) -> Tensor", DYNAMIC),
    "two": op("ns::two(Tensor x, Tensor y) -> (Tensor, Tensor)"),
    "fam": op("ns::fam(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True),
    "move": op("ns::move(Tensor(a!) x, Tensor y) -> ()"),
}

# What is changed where, and the tests that must see it.
BREACHES = {
    "wrong numbers": ("scale", "out.copy_(2 * value)", "out.copy_(3 * value)", {"numbers"}),
    "a number left out": ("scale", "x * factor", "x * 1.5", {"numbers"}),
    "outputs mixed up": ("two", "return out0, out1", "return out1, out0", {"numbers"}),
    "memory of an input behind a new storage": (
        "two",
        "return out0, out1",
        "return out0, torch.from_dlpack(x.detach())",
        {"memory"},
    ),
    "wrong derivative": ("scale", "grad_total = 2 * grad", "grad_total = grad", {"gradients"}),
    "a gradient too few": ("scale", "return grad_x, None", "return None, None", {"gradients"}),
    "no backward": (
        "scale",
        "_op.register_autograd(_backward, setup_context=_setup_context)",
        "",
        {"opcheck_with_grad", "gradients"},
    ),
    "a fake of another dtype": (
        "pick",
        "out = torch.empty((size,), dtype=x.dtype",
        "out = torch.empty((size,), dtype=torch.float16",
        {"opcheck", "opcheck_with_grad"},
    ),
    "a fake of other strides": (
        "scale",
        "    out = empty_result(*_metadata(x))\n    return out",
        "    return torch.empty_like(x.t() if x.dim() == 2 else x).t()",
        {"opcheck", "compiled"},
    ),
    "forward mode let through": (
        "scale",
        'refuse_forward_mode("NAME", x)',
        "pass",
        {"forward_mode"},
    ),
    "gradients lost": (
        "move",
        'refuse_lost_gradients("NAME", x, y)',
        "pass",
        {"lost_gradients", "forward_mode"},
    ),
    "one argument not looked at": (
        "move",
        'refuse_lost_gradients("NAME", x, y)',
        'refuse_lost_gradients("NAME", x)',
        {"lost_gradients"},
    ),
    "an undeclared write": ("scale", "x * factor", "x.add_(1) * factor", {"opcheck"}),
    "nothing written": ("move", "x.copy_(2 * total)", "x.clone()", {"numbers"}),
    "another tensor returned": (
        "fam",
        "    _inplace(x, y)\n",
        "    return _inplace(x, y).clone()\n",
        {"inplace_identity"},
    ),
    "what the op returns handed on": (
        "fam",
        "    _inplace(x, y)\n",
        "    return _inplace(x, y)\n",
        {"inplace_identity", "inplace_result"},
    ),
    "a buffer added to": (
        "fam",
        "    _kernel(x, y, out)\n    return out\n\n\ndef",
        "    old = out.clone()\n    _kernel(x, y, out)\n    out.add_(old)\n    return out\n\n\ndef",
        {"out_prefilled"},
    ),
    "any buffer taken": (
        "fam",
        'check_buffer("NAME_out", "out", out, *_metadata(x, y))',
        "out.resize_(_metadata(x, y)[0])",
        {"out_wrong_buffers"},
    ),
    "a buffer written before the input is read": (
        "fam",
        "    total = x + 2 * y\n",
        "    out.zero_()\n    total = x + 2 * y\n",
        {"inplace_numbers", "inplace_agreement", "out_input_as_buffer"},
    ),
    "a schema that is not the documented one": (
        "scale",
        "alpha: float = 1.5",
        "alpha: float = 2.5",
        {"schema"},
    ),
}


def named(number: int) -> str:
    return f"b{number:02}"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The tests that failed, by op: each breach has an op of its own, all run in one process."""
    ops = []
    for number, (kind, *_) in enumerate(BREACHES.values()):
        original = OPS[kind]
        ops.append(replace(original, contract=replace(original.contract, name=named(number))))
    made = write(package("broken-ops", ops), tmp_path_factory.mktemp("broken"))
    chosen = []
    for number, (_, old, new, seen) in enumerate(BREACHES.values()):
        path = made / "src" / "broken_ops" / "ops" / f"{named(number)}.py"
        text = path.read_text()
        old, new = (part.replace("NAME", named(number)) for part in (old, new))
        assert old in text
        path.write_text(text.replace(old, new))
        chosen.append(f"(test_{named(number)} and ({' or '.join(sorted(seen))}))")
    done = pytest_in(made, "-k", " or ".join(chosen), "-rfE", "--tb=no")
    found: dict[str, set[str]] = defaultdict(set)
    for name, test in re.findall(r"FAILED \S+test_(\w+)\.py::test_(\w+)", done.stdout):
        found[name].add(test)
    return found


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_seen(breach: str, failed: dict[str, set[str]]) -> None:
    number = list(BREACHES).index(breach)
    assert BREACHES[breach][3] <= failed[named(number)]

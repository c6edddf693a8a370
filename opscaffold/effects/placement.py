"""Devices: where an argument stands, and which copies that makes sure of."""

from __future__ import annotations

import ast

from opscaffold.effects.trace import Names
from opscaffold.effects.values import Ref, Value

_METHODS = frozenset({"cpu", "cuda", "xpu"})


def target_device(node: ast.Call, method: str, names: Names) -> str | None:
    """The type of the device that a method moves a tensor to, where that is written out."""
    if method in _METHODS:
        return method
    if method != "to":
        return None
    named = next((k.value for k in node.keywords if k.arg == "device"), None)
    return _device_type(named or (node.args[0] if node.args else None), names)


def _device_type(expr: ast.expr | None, names: Names) -> str | None:
    match expr:
        case ast.Constant(value=str(text)):
            return text.partition(":")[0]
        case ast.Call(func=func, args=[first, *_]) if names.dotted(func) == "torch.device":
            return _device_type(first, names)
    return None


def is_argument(ref: Ref) -> bool:
    """Whether this is memory that was passed in, and so stands where the kernel runs."""
    return ref.root.startswith("param:")


def stands_on(value: Value, attribute: str, devices: frozenset[str]) -> bool | None:
    """What ``x.is_cuda`` or ``x.is_cpu`` says of an argument; None where that is not known."""
    kind = attribute.removeprefix("is_")
    if not devices or attribute not in {"is_cuda", "is_cpu", "is_xpu"}:
        return None
    if not value.is_tensor or not all(is_argument(ref) for ref in value.refs):
        return None
    if kind not in devices:
        return False
    return True if len(devices) == 1 else None

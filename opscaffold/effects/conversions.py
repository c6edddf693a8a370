"""Conversions of dtype and device: when ``to()``, ``cpu()``, ``float()`` and the like surely copy.

They hand back the very tensor where it has the dtype and stands on the device that is asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from opscaffold.effects.terms import of_comparison
from opscaffold.effects.trace import Names
from opscaffold.effects.values import UNSEEN, Ref, Value
from opscaffold.records import dataclass, replace

_DEVICE_METHODS = frozenset({"cpu", "cuda", "xpu"})
_DTYPE_METHODS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_DTYPES = frozenset(_DTYPE_METHODS.values()) | {
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "uint16",
    "uint32",
    "uint64",
}
_FLOATING = frozenset(d for d in _DTYPES if d.startswith(("float", "bfloat")))
# Views of another dtype than their base.
RETYPING = frozenset({"view", "view_as_real", "view_as_complex", "real", "imag"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a conversion asks for, as far as it is written out."""

    device: str | None = None
    dtype: str | None = None


def target_of(node: ast.Call, method: str, names: Names) -> Target:
    """The device type and dtype that a call of a method converts to."""
    if method in _DEVICE_METHODS:
        return Target(device=method)
    if method in _DTYPE_METHODS:
        return Target(dtype=_DTYPE_METHODS[method])
    if method not in {"to", "type"}:
        return Target()
    given = {k.arg: k.value for k in node.keywords}
    device = _device_type(given.get("device"), names)
    dtype = dtype_of(given.get("dtype"), names)
    for arg in node.args[:2]:
        device = device or _device_type(arg, names)
        dtype = dtype or dtype_of(arg, names)
    return Target(device if method == "to" else None, dtype)


def _device_type(expr: ast.expr | None, names: Names) -> str | None:
    match expr:
        case ast.Constant(value=str(text)):
            return text.partition(":")[0]
        case ast.Call(func=func, args=[first, *_]) if names.dotted(func) == "torch.device":
            return _device_type(first, names)
    return None


def dtype_of(expr: ast.expr | None, names: Names) -> str | None:
    """The dtype that an expression names (``torch.half``), or None."""
    dotted = None if expr is None else names.dotted(expr)
    if dotted is None or not dotted.startswith("torch."):
        return None
    name = dotted.removeprefix("torch.")
    name = _DTYPE_METHODS.get(name, name)
    return name if name in _DTYPES else None


def staying(
    value: Value, target: Target, devices: frozenset[str], assumed: Mapping[str, bool]
) -> Value:
    """What of a value's memory a conversion may hand back; the rest is surely copied.

    ``devices`` are the types of device that arguments stand on, empty where not known;
    ``assumed`` gives the outcome of tests by their terms.
    """
    moved = target.device is not None and (
        _stands_elsewhere(value, target.device, assumed)
        or (devices and target.device not in devices)
    )
    other = target.dtype is not None and _differs(f"{value.term}.dtype", target.dtype, assumed)
    kept = set()
    for ref in value.refs:
        cast = target.dtype is not None and ref.dtype not in {"", target.dtype}
        if ref == UNSEEN or not (other or cast or (moved and is_argument(ref))):
            kept.add(ref if ref == UNSEEN else replace(ref, dtype=target.dtype or ref.dtype))
    return replace(value, refs=frozenset(kept))


def _differs(subject: str, dtype: str, assumed: Mapping[str, bool]) -> bool:
    """Whether tests say that something has another dtype: it has one other, or not this one."""
    start, own = f"{subject} == =torch.", f"{subject} == =torch.{dtype}"
    owner = subject.removesuffix(".dtype")
    asked = (f"{owner}.is_floating_point()", f"is_floating_point({owner})")
    if any(assumed.get(term) is (dtype not in _FLOATING) for term in asked):
        return True
    return assumed.get(own) is False or any(
        answer and term.startswith(start) and term != own for term, answer in assumed.items()
    )


def _stands_elsewhere(value: Value, device: str, assumed: Mapping[str, bool]) -> bool:
    """Whether tests say that a tensor is on another type of device."""
    subject = f"{value.term}.device.type == ="
    if assumed.get(f"{subject}{device!r}") is False or (
        assumed.get(f"{value.term}.is_{device}") is False
    ):
        return True
    return any(
        assumed.get(f"{value.term}.is_{other}") or assumed.get(f"{subject}{other!r}")
        for other in _DEVICE_METHODS - {device}
    )


def told_apart(value: Value, asked: Iterable[Value], assumed: Mapping[str, bool]) -> bool:
    """Whether tests say that a value has not the dtype, or device, that ``to`` is given."""
    for attribute in ("dtype", "device"):
        owner = Value(term=f"{value.term}.{attribute}")
        for other in asked:
            # to(None) converts nothing.
            term = of_comparison(owner, ast.Eq(), other) if other.null is False else None
            if value.term is not None and term is not None and assumed.get(term) is False:
                return True
    return False


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

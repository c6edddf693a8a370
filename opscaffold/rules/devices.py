"""On which types of device the arguments of a kernel stand, as its registrations say.

A kernel is only called where its device's dispatch key is met, so that ``x.cpu()`` is surely a
copy in one that is registered for CUDA alone.
"""

from __future__ import annotations

import ast

from opscaffold.rules.fakes import dispatch_key
from opscaffold.rules.functions import AnyFunction
from opscaffold.source.model import Op, Registration, Role

_KEYS = {"cuda": "cuda", "cpu": "cpu", "xpu": "xpu", "mps": "mps", "hpu": "hpu"}


def devices_of(op: Op, function: AnyFunction) -> frozenset[str]:
    """The device types that a function is registered for; empty where it may be any."""
    found: set[str] = set()
    for registration in (op.definition, *op.attached):
        if registration.function is not function:
            continue
        devices = _named(registration)
        if not devices:
            return frozenset()
        found |= devices
    return frozenset(found)


def _named(registration: Registration) -> set[str]:
    if registration.role is Role.IMPL:
        key = dispatch_key(registration)
        words = [] if key is None else key.lower().split()
    elif registration.role in {Role.CUSTOM_OP, Role.KERNEL}:
        words = _words(registration.arguments.get("device_types"))
    else:
        return set()
    types = {_KEYS.get(word.partition(":")[0]) for word in words}
    return {t for t in types if t is not None} if None not in types else set()


def _words(value: ast.expr | None) -> list[str]:
    parts = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
    words = [p.value for p in parts if isinstance(p, ast.Constant)]
    known = [w for w in words if isinstance(w, str)]
    return known if len(known) == len(parts) else []

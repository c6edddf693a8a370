"""Which out= overload Inductor would call in place of a functional op (FACTS section 1)."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from opscaffold.contract.model import Kind
from opscaffold.verify.op import Op

_MODULE = "torch._library._out_variant"


def out_variant(op: Op) -> Any:
    """The overload, None where there is none or this torch does not replace ops."""
    module = _module()
    if module is None or op.kind is not Kind.FUNCTIONAL:
        return None
    try:
        found = module.to_out_variant(op.overload)
    except RuntimeError:
        # The op, or its out= overload, is not of the form that is replaced.
        return None
    return found or module.lookup_manual_out_variant(op.overload)


@contextlib.contextmanager
def without_lowering() -> Iterator[None]:
    """Keep Inductor from replacing ops."""
    module = _module()
    if module is None:
        yield
        return
    with (
        mock.patch.object(module, "to_out_variant", return_value=None),
        mock.patch.object(module, "lookup_manual_out_variant", return_value=None),
    ):
        yield


def _module() -> Any:
    """The private module, None where this torch has none, or one that works otherwise."""
    try:
        module = importlib.import_module(_MODULE)
    except ImportError:
        return None
    needed = ("to_out_variant", "lookup_manual_out_variant")
    return module if all(hasattr(module, name) for name in needed) else None

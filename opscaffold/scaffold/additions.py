"""All that may be registered for an op beside what its contract needs."""

from __future__ import annotations

from opscaffold.scaffold.addition import Addition
from opscaffold.scaffold.addition_autocast import Autocast
from opscaffold.scaffold.addition_device import DeviceKernels
from opscaffold.scaffold.addition_dispatch import TorchDispatch
from opscaffold.scaffold.addition_vmap import Vmap
from opscaffold.scaffold.spec import OpSpec

ADDITIONS: tuple[Addition, ...] = (Vmap(), Autocast(), TorchDispatch(), DeviceKernels())


def additions_of(op: OpSpec) -> list[Addition]:
    """Those that the answers ask for."""
    return [each for each in ADDITIONS if each.wanted(op)]

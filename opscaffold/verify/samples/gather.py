"""Finds the samples of an op: those that were written for it, and else some that are made up."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from opscaffold.findings.promises import NO_SAMPLES
from opscaffold.verify.checks.base import Bench, Observation
from opscaffold.verify.discover import Loaded
from opscaffold.verify.op import Op
from opscaffold.verify.run import Gathered
from opscaffold.verify.sample import Sample

SAMPLES_MODULE = "opscaffold_samples"

Table = Mapping[str, Callable[[torch.device], Iterable[Any]]]


class Gatherer:
    """Gathers samples for the ops of one import."""

    def __init__(self, loaded: Loaded, request: Mapping[str, Any], bench: Bench) -> None:
        self._bench = bench
        self._table = _table()

    def gather(self, op: Op) -> Gathered:
        """The samples of one op, simplest first, and what is to be told of them."""
        make = self._table.get(op.qualname)
        if make is None:
            return Gathered((), (Observation(NO_SAMPLES, "no sample is known"),))
        samples = [
            Sample(tuple(each.args), dict(each.kwargs), f"{each.label} ({device})", SAMPLES_MODULE)
            for device in self._bench.devices
            for each in make(device)
        ]
        return Gathered(samples, (), f"{len(samples)} samples from {SAMPLES_MODULE}.py")

    def save(self) -> None:
        """Write what was made up to the file that was asked for, if one was."""


def _table() -> Table:
    if importlib.util.find_spec(SAMPLES_MODULE) is None:
        return {}
    table: Table = importlib.import_module(SAMPLES_MODULE).SAMPLES
    return table

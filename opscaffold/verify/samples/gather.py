"""Finds the samples of an op: those that were written for it, and else some that are made up.

In this order: ``SAMPLES`` that the author keeps and functions named on the command line; else the
calls that a target's own ``sample_calls`` makes, and a search. All are varied.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from opscaffold.findings.promises import CHECK_FAILED, NO_SAMPLES, NOT_COVERED, SAMPLE_FAILS
from opscaffold.verify.checks.base import Bench, Observation, first_line
from opscaffold.verify.discover import Loaded
from opscaffold.verify.imports import LoadError
from opscaffold.verify.op import Op
from opscaffold.verify.run import Gathered
from opscaffold.verify.sample import Sample
from opscaffold.verify.samples.binding import public_function
from opscaffold.verify.samples.fakes import is_described, warm_up
from opscaffold.verify.samples.points import Point
from opscaffold.verify.samples.recorded import (
    SAMPLE_CALLS,
    Recording,
    named,
    own_functions,
    record,
    returned,
)
from opscaffold.verify.samples.saving import SaveError, Saver
from opscaffold.verify.samples.search import search
from opscaffold.verify.samples.trial import attempt, kernels_of
from opscaffold.verify.samples.trials import SYNTHESISED
from opscaffold.verify.samples.vary import Variation, layout_key, variations
from opscaffold.verify.samples.watch import Line, Watch, ranges
from opscaffold.verify.samples.written import Table, entry_tables, given_for, tables

MOST = 40
"""Samples of one op, unless more are written for it."""
_VARIED_SECONDS = 5.0
_FOR_BACKENDS = re.compile(
    r"arguments from the '(\w+)' backend.*only available for these backends: \[([^]]*)\]", re.DOTALL
)
_DEVICES = ("CPU", "CUDA", "HIP", "XPU", "MPS", "HPU", "MTIA", "MAIA", "XLA", "PrivateUse1")
_VARIED_CALLS = 160


@dataclass
class _Collected:
    """What is gathered of one op."""

    op: Op
    watch: Watch
    samples: list[Sample] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    run: set[Line] = field(default_factory=set)
    refused: set[Line] = field(default_factory=set)

    def take(self, samples: Sequence[Sample], *, given: bool) -> int:
        """Keep those that the op takes; of those that an author gave, tell which it refuses."""
        before = len(self.samples)
        for sample in samples:
            outcome = attempt(self.op, sample, self.watch, seconds=60.0)
            if outcome.accepted:
                self._keep(sample, outcome.seen.lines)
                continue
            self.refused |= outcome.seen.lines
            elsewhere = isinstance(outcome.error, NotImplementedError) and " on " in sample.label
            if given and outcome.error is not None and not elsewhere:
                message = f"{sample.origin}: the op refuses it: {first_line(outcome.error)}"
                self.observations.append(
                    Observation(SAMPLE_FAILS, message, sample, subject=sample.label)
                )
        return len(self.samples) - before

    def vary(self, devices: Sequence[torch.device]) -> int:
        """Add variations, of the first sample all and then of each in turn."""
        bases = tuple(self.samples)
        known = {self._key(sample) for sample in bases}
        until, calls = time.monotonic() + _VARIED_SECONDS, 0
        for variation in _in_turn([variations(self.op, base, devices) for base in bases]):
            if len(self.samples) >= MOST or calls >= _VARIED_CALLS or time.monotonic() > until:
                break
            sample = variation.sample
            key = self._key(sample)
            if key in known:
                continue
            known.add(key)
            calls += 1
            outcome = attempt(self.op, sample, self.watch)
            if not outcome.accepted:
                self.refused |= outcome.seen.lines
            elif not outcome.resized and self._is_meant(variation):
                label = f"{sample.label}, {sample.varied}"
                self._keep(replace(sample, label=label), outcome.seen.lines)
        return len(self.samples) - len(bases)

    def not_run(self) -> set[Line]:
        """The lines of the kernel that no sample runs, but for those that refuse a call."""
        return self.watch.executable() - self.run - self.watch.refusing() - self.refused

    def _is_meant(self, variation: Variation) -> bool:
        return not variation.bold or is_described(self.op, variation.sample)

    def _key(self, sample: Sample) -> Any:
        arguments = self.op.arguments(sample)
        return (tuple(arguments), layout_key(arguments.values()), sample.inference)

    def _keep(self, sample: Sample, lines: set[Line]) -> None:
        labels = {each.label for each in self.samples}
        number, label = 2, sample.label
        while label in labels:
            number, label = number + 1, f"{sample.label} #{number}"
        self.samples.append(replace(sample, label=label))
        self.run |= lines


class Gatherer:
    """Gathers samples for the ops of one import.

    Raises LoadError where a function that was named on the command line is not there, or the
    file for samples cannot be added to.
    """

    def __init__(self, loaded: Loaded, request: Mapping[str, Any], bench: Bench) -> None:
        self._bench = bench
        self._modules = loaded.modules
        self._ops = loaded.ops
        wanted = request.get("ops", ())
        self._asked = [op for op in loaded.ops if not wanted or op.qualname in wanted]
        self._functions = [(text, named(text)) for text in request.get("samples", ())]
        self._tables = tables(loaded.modules)
        self._entries: list[Table] | None = None
        self._recordings: dict[str, Recording] = {}
        self._saver: Saver | None = None
        if request.get("save"):
            path = Path(request["save"])
            known = tables((), [path])[-1] if path.is_file() else Table("")
            try:
                self._saver = Saver(path, known)
            except SaveError as error:
                raise LoadError(f"--save-samples: {error}") from error

    def gather(self, op: Op) -> Gathered:
        """The samples of one op, simplest first, and what is to be told of them."""
        warm_up()
        found = _Collected(op, Watch(kernels_of(op)))
        self._take_written(found)
        self._take_named(found)
        if not found.samples:
            self._take_own(found)
            self._take_synthesised(found)
        if not found.samples:
            if not found.observations:
                found.observations.append(Observation(NO_SAMPLES, "no call of it is known"))
            return Gathered((), found.observations, "no samples: " + "; ".join(found.told))
        varied = found.vary(self._bench.devices)
        if varied:
            found.told.append(f"{varied} by variation")
        missing = found.not_run()
        if missing:
            found.observations.append(Observation(NOT_COVERED, _told_missing(missing)))
        lines = found.watch.executable() - found.watch.refusing() - (found.refused - found.run)
        if lines:
            run = len(lines) - len(missing)
            found.told.append(f"{run} of {len(lines)} lines of the kernel run")
        head = f"{len(found.samples)} samples" if len(found.samples) > 1 else "1 sample"
        return Gathered(found.samples, found.observations, f"{head}: {'; '.join(found.told)}")

    def save(self) -> None:
        """Write what is left to write: nothing, since each op is written when it is gathered."""

    def _take_written(self, found: _Collected) -> None:
        function = public_function(found.op, self._modules)
        for table in self._tables:
            if table.fault:
                fault = Observation(CHECK_FAILED, table.fault, subject=table.fault)
                found.observations.append(fault)
            elif table.entry(found.op) is not None:
                self._take_table(found, table, function)
                return
        if self._entries is None:
            self._entries = list(entry_tables())
        for table in self._entries:
            if table.entry(found.op) is not None:
                self._take_table(found, table, function)
                return

    def _take_table(
        self, found: _Collected, table: Table, function: Callable[..., Any] | None
    ) -> None:
        given = given_for(found.op, table, function, self._bench.devices)
        for fault in given.faults:
            found.observations.append(Observation(SAMPLE_FAILS, fault, subject=fault))
        taken = found.take(given.samples, given=True)
        found.told.append(f"{taken} from {table.origin}")

    def _take_named(self, found: _Collected) -> None:
        for text, function in self._functions:
            recording = self._recorded(text, function)
            calls = recording.calls.get(found.op.qualname, [])
            fault = recording.fault
            if not recording.calls and not fault:
                calls, fault = returned(recording, found.op, self._asked)
            taken = found.take(calls, given=False)
            if taken:
                found.told.append(f"{taken} from {text}")
            if fault and (taken or not recording.calls):
                found.observations.append(Observation(SAMPLE_FAILS, fault, subject=fault))

    def _take_own(self, found: _Collected) -> None:
        for text, function in own_functions(self._modules):
            recording = self._recorded(text, function)
            taken = found.take(recording.calls.get(found.op.qualname, []), given=False)
            if taken:
                found.told.append(f"{taken} from {SAMPLE_CALLS}() of {text.partition(':')[0]}")

    def _take_synthesised(self, found: _Collected) -> None:
        result = search(found.op, found.watch)
        found.refused |= result.refused_lines
        labels = [f"{SYNTHESISED} {number}" for number in range(1, len(result.kept) + 1)]
        samples = [
            replace(each.sample, label=label)
            for each, label in zip(result.kept, labels, strict=True)
        ]
        taken = found.take(samples, given=False)
        found.told.append(
            f"{taken} {SYNTHESISED} ({result.tried} calls tried, {result.accepted} accepted)"
        )
        if not found.samples and result.error is not None:
            message = (
                f"none of {result.tried} made-up calls was accepted; the last word: "
                f"{first_line(result.error)}"
            )
            found.observations.append(Observation(NO_SAMPLES, _no_kernel(result.error) or message))
        points = [each.point for each in result.kept]
        self._save(found, list(zip(labels, points, strict=True)))

    def _save(self, found: _Collected, samples: Sequence[tuple[str, Point]]) -> None:
        if self._saver is None:
            return
        function = public_function(found.op, self._modules)
        names = [parameter.name for parameter in found.op.contract.parameters]
        by_name = function is not None and list(inspect.signature(function).parameters) != names
        try:
            self._saver.add(found.op, samples, by_name=by_name)
        except SaveError as error:
            found.observations.append(Observation(CHECK_FAILED, str(error), subject="save"))

    def _recorded(self, text: str, function: Callable[..., Any]) -> Recording:
        if text not in self._recordings:
            self._recordings[text] = record(function, text, self._ops)
        return self._recordings[text]


def _in_turn(each: Sequence[Iterator[Variation]]) -> Iterator[Variation]:
    """All of the first, then one of each of the others in turn."""
    if each:
        yield from each[0]
    waiting = list(each[1:])
    while waiting:
        for row in tuple(waiting):
            variation = next(row, None)
            if variation is None:
                waiting.remove(row)
            else:
                yield variation


def _told_missing(missing: set[Line]) -> str:
    by_file: dict[str, list[int]] = {}
    for path, line in missing:
        by_file.setdefault(path, []).append(line)
    told = [
        f"line{'s' if len(lines) > 1 else ''} {ranges(lines)} of {Path(path).name}"
        for path, lines in sorted(by_file.items())
    ]
    return f"no sample runs {' and '.join(told)}"


def _no_kernel(error: BaseException) -> str:
    """Say that the op has no kernel for any device that is here; empty where that is not why."""
    match = _FOR_BACKENDS.search(str(error))
    if match is None or not isinstance(error, NotImplementedError):
        return ""
    named = [each.strip() for each in match[2].split(",")]
    there = [each for each in named if each in _DEVICES]
    has = f"it has one for {', '.join(there)}" if there else "it has none for any device"
    return f"the op has no kernel for {match[1]}, and {has}: it can be run on such a machine only"

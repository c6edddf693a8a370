"""Serves the two halves of a comparison: record the old program, then compare the new one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opscaffold.findings.promises import FORMS_DIFFER, NO_SAMPLES, Verdict
from opscaffold.verify.against import (
    SAMPLE_CALLS,
    Record,
    compare_functions,
    compare_op,
    record_functions,
    record_op,
    sample_functions,
)
from opscaffold.verify.checks.base import Bench, Observation
from opscaffold.verify.discover import Loaded, LoadError, load
from opscaffold.verify.op import Op, in_order
from opscaffold.verify.overlay import overlaid
from opscaffold.verify.run import Clock, Tell, findings
from opscaffold.verify.samples.gather import Gatherer
from opscaffold.verify.serving import described


def record(request: Mapping[str, Any], clock: Clock, tell: Tell) -> None:
    """Run the old program and write what its ops did to the file ``request["record"]``.

    Other keys as those of ``serve``; ``ops`` are the old names, and ``skip`` those that killed
    a process before. An op without a call that could be recorded is told as undecided.
    """
    with overlaid(request.get("overlay", {})):
        loaded = _loaded(request, clock, tell)
        if loaded is not None:
            _record(loaded, request, clock, tell)


def _record(loaded: Loaded, request: Mapping[str, Any], clock: Clock, tell: Tell) -> None:
    chosen = [op for op in in_order(loaded.ops) if _asked(op, request)]
    tell({"event": "ops", "ops": [described(op, loaded) for op in chosen], "all": _names(loaded)})
    try:
        gatherer = Gatherer(loaded, request, Bench(fast=True))
    except LoadError as error:
        tell({"event": "error", "kind": "import", "message": str(error)})
        return
    path = Path(request["record"])
    kept = Record.load(path) if path.exists() else Record()
    for op in chosen:
        tell({"event": "op", "op": op.qualname})
        started = time.perf_counter()
        gathered = gatherer.gather(op)
        recorded = record_op(op, gathered.samples)
        clock.timed("record", started)
        kept.ops[op.qualname] = recorded
        # So that it outlives a later op that kills the process.
        kept.save(path)
        if not recorded.calls:
            nothing = Observation(NO_SAMPLES, "no call of it could be recorded")
            why = [o for o in gathered.observations if o.promise.verdict is Verdict.UNDECIDED]
            _tell_findings(op, why or [nothing], tell)
    tell({"event": "op", "op": SAMPLE_CALLS})
    if SAMPLE_CALLS not in request["skip"]:
        kept.functions = record_functions(sample_functions(loaded.modules))
    kept.save(path)
    tell({"event": "done", "spent": clock.spent})


def compare(request: Mapping[str, Any], clock: Clock, tell: Tell) -> None:
    """Run the new program beside what ``request["record"]`` holds.

    ``pairs`` maps old names to those of the ops that took their place; those of an op that is
    not in it are found by name. For each old op a ``compared`` event tells how many calls agreed.
    """
    with overlaid(request.get("overlay", {})):
        loaded = _loaded(request, clock, tell)
        if loaded is not None:
            _compare(loaded, request, clock, tell)


def _compare(loaded: Loaded, request: Mapping[str, Any], clock: Clock, tell: Tell) -> None:
    kept = Record.load(Path(request["record"]))
    ops = {op.qualname: op for op in loaded.ops}
    tell({"event": "ops", "ops": [described(op, loaded) for op in in_order(loaded.ops)]})
    started = time.perf_counter()
    for name, recorded in kept.ops.items():
        if name in request["skip"]:
            continue
        tell({"event": "op", "op": name})
        seen = list(compare_op(recorded, ops, request["pairs"].get(name, ())))
        groups: dict[str, list[Observation]] = {}
        for op, observation in seen:
            groups.setdefault("" if op is None else op.qualname, []).append(observation)
        for qualname, observations in groups.items():
            if qualname:
                _tell_findings(ops[qualname], observations, tell, old=name)
            else:
                tell(_lost(name, observations[0], loaded))
        failed = len({id(each.sample) for _, each in seen})
        agreed = len(recorded.calls) - failed
        tell({"event": "compared", "op": name, "agreed": agreed, "calls": len(recorded.calls)})
    tell({"event": "op", "op": SAMPLE_CALLS})
    before = {} if SAMPLE_CALLS in request["skip"] else kept.functions
    functions = sample_functions(loaded.modules)
    for name, message in compare_functions(before, functions):
        function = functions.get(name)
        code = getattr(function, "__code__", None)
        tell(
            {
                "event": "finding",
                "code": FORMS_DIFFER.code,
                "op": "",
                "old": "",
                "message": message,
                "sample": name,
                "path": getattr(code, "co_filename", "") or str(loaded.modules[0].__file__),
                "line": getattr(code, "co_firstlineno", 1),
            }
        )
    clock.timed("compare", started)
    tell({"event": "functions", "called": sorted(before)})
    tell({"event": "done", "spent": clock.spent})


def _loaded(request: Mapping[str, Any], clock: Clock, tell: Tell) -> Loaded | None:
    """Import each target; one that cannot be is told, and does not keep the others out."""
    started = time.perf_counter()
    loaded = Loaded([], [])
    for target in request["targets"]:
        try:
            each = load([target])
        except LoadError as error:
            tell({"event": "unloaded", "target": target, "message": str(error)})
            continue
        loaded.modules += each.modules
        loaded.ops += each.ops
    clock.timed("import", started)
    if loaded.modules:
        return loaded
    tell({"event": "done", "spent": clock.spent})
    return None


def _asked(op: Op, request: Mapping[str, Any]) -> bool:
    name = op.qualname
    return (not request["ops"] or name in request["ops"]) and name not in request["skip"]


def _names(loaded: Loaded) -> list[str]:
    return sorted(op.qualname for op in loaded.ops)


def _tell_findings(op: Op, observations: Iterable[Observation], tell: Tell, old: str = "") -> None:
    for finding in findings(op, observations):
        tell({"event": "finding", "old": old or op.qualname, **finding})


def _lost(name: str, observation: Observation, loaded: Loaded) -> dict[str, Any]:
    described = observation.sample.described() if observation.sample is not None else ""
    return {
        "event": "finding",
        "code": observation.promise.code,
        "op": name,
        "old": name,
        "message": f"{observation.message}: {name}{described}",
        "sample": observation.sample.label if observation.sample is not None else None,
        "path": str(loaded.modules[0].__file__),
        "line": 1,
    }

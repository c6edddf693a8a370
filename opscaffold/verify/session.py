"""Answers one request: imports, gathers samples, and takes each op through the checks."""

from __future__ import annotations

import time
from typing import Any

import torch

from opscaffold.findings.promises import DEFINED_TWICE
from opscaffold.verify.checks.base import Bench, Observation
from opscaffold.verify.checks.catalog import all_checks
from opscaffold.verify.discover import Loaded, LoadError, load
from opscaffold.verify.op import Op, in_order
from opscaffold.verify.run import Clock, Gathered, Tell, findings, verify_op
from opscaffold.verify.samples.gather import Gatherer


def serve(request: dict[str, Any], clock: Clock, tell: Tell) -> None:
    """Serve a request as the command line writes it, and tell all that happens.

    Keys: ``targets`` (what to import), ``ops`` (qualified names, empty for all), ``skip`` (those
    that are done), ``samples`` (functions named on the command line), ``fast``, ``save``
    (a file for synthesised samples, or null).
    """
    started = time.perf_counter()
    try:
        loaded = load(request["targets"])
    except LoadError as error:
        tell({"event": "error", "kind": "import", "message": str(error)})
        return
    clock.timed("import", started)
    chosen = [op for op in in_order(loaded.ops) if _asked(op, request)]
    tell(
        {
            "event": "ops",
            "ops": [_described(op) for op in chosen],
            "all": sorted(op.qualname for op in loaded.ops),
            "unreadable": loaded.unreadable,
        }
    )
    bench = Bench(fast=request["fast"], devices=devices())
    gatherer = Gatherer(loaded, request, bench)
    checks = all_checks()
    for op in chosen:
        if op.qualname in request["skip"]:
            continue
        tell({"event": "op", "op": op.qualname})
        for finding in findings(op, _twice(op, loaded)):
            tell({"event": "finding", **finding})
        started = time.perf_counter()
        gathered: Gathered = gatherer.gather(op)
        clock.timed("samples", started)
        verify_op(op, gathered, checks, bench, clock, tell)
    gatherer.save()
    tell({"event": "done", "spent": clock.spent})


def devices() -> tuple[torch.device, ...]:
    """The CPU, and the first of each accelerator that is present."""
    found = [torch.device("cpu")]
    if torch.accelerator.is_available():
        present = torch.accelerator.current_accelerator()
        if present is not None:
            found.append(torch.device(present.type, 0))
    return tuple(found)


def _asked(op: Op, request: dict[str, Any]) -> bool:
    return not request["ops"] or op.qualname in request["ops"]


def _described(op: Op) -> dict[str, Any]:
    return {
        "name": op.qualname,
        "schema": str(op.overload._schema),
        "path": str(op.position.path),
        "line": op.position.line,
    }


def _twice(op: Op, loaded: Loaded) -> list[Observation]:
    places = loaded.twice.get(op.qualname, [])
    if not places:
        return []
    named = ", ".join(f"{place.path}:{place.line}" for place in places)
    message = f"{op.qualname} is defined {len(places)} times, at {named}: the last one holds"
    return [Observation(DEFINED_TWICE, message)]

"""Answers one request: imports, gathers samples, and takes each op through the checks."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from typing import Any

import torch

from opscaffold.findings.promises import DEFINED_TWICE
from opscaffold.verify.checks.base import Bench, Observation
from opscaffold.verify.checks.catalog import all_checks
from opscaffold.verify.discover import Loaded, LoadError, load
from opscaffold.verify.op import Op, in_order
from opscaffold.verify.run import Clock, Gathered, Tell, place, verify_op
from opscaffold.verify.samples.gather import Gatherer


def serve(request: dict[str, Any], clock: Clock, tell: Tell) -> None:
    """Serve a request as the command line writes it, and tell all that happens.

    Keys: ``targets`` (what to import), ``ops`` (qualified names, empty for all of the targets'
    own), ``skip`` (those that are done), ``samples`` (functions named on the command line),
    ``fast``, ``save`` (a file for synthesised samples, or null).
    """
    started = time.perf_counter()
    try:
        loaded = load(request["targets"])
        clock.timed("import", started)
        bench = Bench(fast=request["fast"], devices=devices())
        gatherer = Gatherer(loaded, request, bench)
    except LoadError as error:
        tell({"event": "error", "kind": "import", "message": str(error)})
        return
    every = [*loaded.ops, *loaded.others]
    asked = set(request["ops"])
    chosen = in_order([op for op in every if op.qualname in asked] if asked else loaded.ops)
    tell(
        {
            "event": "ops",
            "ops": [described(op, loaded) for op in chosen],
            "all": sorted({*(op.qualname for op in every), *loaded.unreadable}),
            "others": sorted(op.qualname for op in loaded.others),
            "unreadable": [
                {"name": name, "reason": reason, **place(loaded.defined[name])}
                for name, reason in sorted(loaded.unreadable.items())
            ],
        }
    )
    checks = all_checks()
    for op in chosen:
        if op.qualname in request["skip"]:
            continue
        tell({"event": "op", "op": op.qualname})
        started = time.perf_counter()
        gathered: Gathered = gatherer.gather(op)
        known = (*_twice(op, loaded), *gathered.observations)
        gathered = replace(gathered, observations=known)
        clock.timed("samples", started)
        verify_op(op, gathered, checks, bench, clock, tell)
        # What one op left compiled is of no use to the next.
        torch.compiler.reset()
        gc.collect()
    gatherer.save()
    tell({"event": "done", "spent": clock.spent})


def devices() -> tuple[torch.device, ...]:
    """The CPU, and the first of each accelerator that is present."""
    found = [torch.device("cpu")]
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        found.append(torch.device(accelerator.current_accelerator().type, 0))
    elif torch.cuda.is_available():
        # torch before 2.6 has no word for all of them.
        found.append(torch.device("cuda", 0))
    return tuple(found)


def described(op: Op, loaded: Loaded) -> dict[str, Any]:
    """What the command line is told of an op before it is run."""
    return {
        "name": op.qualname,
        "kind": op.kind.value,
        "schema": str(op.overload._schema),
        **place(op.position),
        "defined": place(loaded.defined.get(op.qualname, op.position)),
    }


def _twice(op: Op, loaded: Loaded) -> list[Observation]:
    places = loaded.twice.get(op.qualname, [])
    if not places:
        return []
    named = ", ".join(f"{each.path}:{each.line}" for each in places)
    message = f"{op.qualname} is defined {len(places)} times, at {named}: the last one holds"
    return [Observation(DEFINED_TWICE, message)]

"""Helpers for tests that run ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscaffold.findings.model import Position
from opscaffold.verify.checks.base import Bench, Check
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

HERE = Position(Path(__file__), 1)


def op_of(made: Any, kernel: Any = None) -> Op:
    """The op behind a CustomOpDef, or an OpOverload."""
    if hasattr(made, "_opoverload"):
        return Op(made._opoverload, HERE, made._init_fn)
    return Op(made, HERE, kernel)


def observed(check: Check, op: Op, *samples: Sample) -> list[tuple[str, str]]:
    """Code and message of each thing that a check sees; nothing where it does not apply."""
    if not check.applies(op):
        return []
    return [(each.promise.code, each.message) for each in check.run(op, samples, Bench())]


def codes(check: Check, op: Op, *samples: Sample) -> set[str]:
    """The codes of what a check sees."""
    return {code for code, _ in observed(check, op, *samples)}

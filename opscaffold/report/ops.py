"""Ops as a table for people and as records for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opscaffold.records import dataclass
from opscaffold.report.excerpt import cells, visible
from opscaffold.report.order import relative_name

_HEADER = ("OP", "KIND", "FORM", "MUTATES", "KERNELS", "DEFINED")


@dataclass(frozen=True, slots=True)
class Place:
    """One registration: what it gives the op, how it is written, and where.

    ``cell`` is the cell of a notebook in which ``line`` counts; None for other files.
    """

    role: str
    form: str
    path: Path
    line: int
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel. ``sight`` says how much of it can be followed: understood, opaque, ..."""

    role: str
    function: str | None
    path: Path
    line: int
    sight: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op. ``mutates`` and ``schema`` are None where they cannot be told from the source.

    ``registrations`` start with the definition.
    """

    name: str
    kind: str
    form: str
    path: Path
    line: int
    function: str | None
    mutates: tuple[str, ...] | None
    schema: str | None
    kernels: tuple[KernelRecord, ...] = ()
    registrations: tuple[Place, ...] = ()
    cell: int | None = None


def ops_in_order(ops: Iterable[OpRecord], root: Path) -> list[OpRecord]:
    """Return ops sorted by place, then by name."""
    return sorted(
        ops, key=lambda op: (relative_name(op.path, root), op.cell or 0, op.line, op.name)
    )


def render_ops(ops: Iterable[OpRecord], root: Path) -> str:
    """Return a table, the schema and the other registrations of each op below its row."""
    ordered = ops_in_order(ops, root)
    if not ordered:
        return "no ops\n"
    rows = [_row(op, root) for op in ordered]
    widths = [max(cells(row[i]) for row in [_HEADER, *rows]) for i in range(len(_HEADER))]
    lines = [_aligned(_HEADER, widths)]
    for op, row in zip(ordered, rows, strict=True):
        lines.append(_aligned(row, widths))
        if op.schema is not None:
            lines.append(f"    schema: {visible(op.schema)}")
        lines += [
            f"    {place.role}: {visible(_where(place, root))}" for place in op.registrations[1:]
        ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def op_document(op: OpRecord, root: Path) -> dict[str, Any]:
    """Return an op as JSON holds it."""
    return {
        "name": op.name,
        "kind": op.kind,
        "form": op.form,
        **_place(op, root),
        "function": op.function,
        "mutates": None if op.mutates is None else list(op.mutates),
        "schema": op.schema,
        "kernels": [
            {
                "role": kernel.role,
                "function": kernel.function,
                **_place(kernel, root),
                "sight": kernel.sight,
            }
            for kernel in op.kernels
        ],
        "registrations": [
            {
                "role": place.role,
                "form": place.form,
                **_place(place, root),
            }
            for place in op.registrations
        ],
    }


def _place(at: Place | KernelRecord | OpRecord, root: Path) -> dict[str, Any]:
    cell = {} if at.cell is None else {"cell": at.cell}
    return {"path": relative_name(at.path, root), **cell, "line": at.line}


def _where(at: Place | OpRecord, root: Path) -> str:
    cell = "" if at.cell is None else f"cell {at.cell}:"
    return f"{relative_name(at.path, root)}:{cell}{at.line}"


def _row(op: OpRecord, root: Path) -> tuple[str, ...]:
    counts = Counter(kernel.sight for kernel in op.kernels)
    kernels = ", ".join(f"{number} {sight}" for sight, number in sorted(counts.items()))
    mutates = "?" if op.mutates is None else ", ".join(op.mutates)
    where = _where(op, root)
    return tuple(
        visible(cell) for cell in (op.name, op.kind, op.form, mutates or "-", kernels or "-", where)
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(
        cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
    )

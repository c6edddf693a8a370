"""The ops of a project as records to show."""

from __future__ import annotations

import ast
from pathlib import Path

from opscaffold.contract.printer import format_schema
from opscaffold.report.ops import KernelRecord, OpRecord, Place
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.listing import Kernel, kernels_of, kind_of
from opscaffold.source.model import Op, Registration
from opscaffold.source.project import Project


def op_records(project: Project) -> list[OpRecord]:
    """Return the ops defined in the paths that a project was loaded for."""
    return [_record(project, op) for op in project.ops]


def _record(project: Project, op: Op) -> OpRecord:
    definition = op.definition
    try:
        contract = contract_of(project, op)
    except RecursionError:
        # A default that is nested too deeply to be read.
        contract = None
    schema = definition.schema
    mutates = definition.mutates
    if contract is not None:
        mutates = contract.mutated
        try:
            schema = format_schema(contract)
            if definition.qualname is None:
                # The contract needs a name, and has one that stands for none.
                schema = op.qualname + schema[schema.index("(") :]
        except ValueError:
            # A default that no schema can hold.
            schema = definition.schema

    def placed(path: Path, line: int) -> tuple[Path, int, int | None]:
        cell = project.cell_of(path, line)
        return (path, line, None) if cell is None else (path, cell[1], cell[0])

    def kernel_record(kernel: Kernel) -> KernelRecord:
        registration = kernel.registration
        home = registration.function_module or registration.module
        line = getattr(registration.function, "lineno", _line(registration))
        path, line, cell = placed(home.path, line)
        role, sight = registration.role.value, kernel.sight.value
        return KernelRecord(role, _function(registration), path, line, sight, cell)

    path, line, cell = placed(definition.module.path, _line(definition))
    return OpRecord(
        name=op.qualname,
        kind=kind_of(op, contract),
        form=f"{definition.role.value} ({definition.form.value})",
        path=path,
        line=line,
        cell=cell,
        function=_function(definition),
        mutates=(mutates,) if isinstance(mutates, str) else mutates,
        schema=schema,
        kernels=tuple(kernel_record(kernel) for kernel in kernels_of(project, op)),
        registrations=tuple(
            Place(each.role.value, each.form.value, *placed(each.module.path, _line(each)))
            for each in (definition, *op.attached)
        ),
    )


def _line(registration: Registration) -> int:
    # A bare decorator is no call.
    bare = registration.decorator or registration.operand
    return (registration.call or bare or registration.statement).lineno


def _function(registration: Registration) -> str | None:
    function = registration.function
    if function is None:
        return None
    return "lambda" if isinstance(function, ast.Lambda) else function.name

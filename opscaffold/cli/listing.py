"""The ops of a project as records to show."""

from __future__ import annotations

import ast

from opscaffold.contract.printer import format_schema
from opscaffold.report.ops import KernelRecord, OpRecord, Place
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.listing import kernels_of, kind_of
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
        except ValueError:
            # A default that no schema can hold.
            schema = definition.schema
    return OpRecord(
        name=op.qualname,
        kind=kind_of(op, contract),
        form=f"{definition.role.value} ({definition.form.value})",
        path=definition.module.path,
        line=_line(definition),
        function=_function(definition),
        mutates=(mutates,) if isinstance(mutates, str) else mutates,
        schema=schema,
        kernels=tuple(
            KernelRecord(
                kernel.registration.role.value,
                _function(kernel.registration),
                (kernel.registration.function_module or kernel.registration.module).path,
                getattr(kernel.registration.function, "lineno", _line(kernel.registration)),
                kernel.sight.value,
            )
            for kernel in kernels_of(project, op)
        ),
        registrations=tuple(
            Place(each.role.value, each.form.value, each.module.path, _line(each))
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

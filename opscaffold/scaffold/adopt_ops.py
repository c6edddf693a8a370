"""The ops that the author of a package wrote: those whose contract can be told, and the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.contract.model import OpContract
from opscaffold.contract.printer import format_schema
from opscaffold.contract.releases import Version
from opscaffold.scaffold.adopted import Written
from opscaffold.scaffold.answers import release_of
from opscaffold.scaffold.given import AnswerError, Given
from opscaffold.scaffold.op_answers import build_op, check_table
from opscaffold.scaffold.questions import OP, kind_word
from opscaffold.source.model import Op, Role
from opscaffold.source.project import Project

ContractOf = Callable[[Project, Op], OpContract | None]
"""What tells an op's contract from its registration; None where that cannot be told."""


@dataclass(frozen=True, slots=True)
class Left:
    """A place that may register an op of which no answers can be written, and why."""

    path: str
    line: int
    name: str
    reason: str


@dataclass(slots=True)
class FoundOps:
    """What is registered in a package. ``library`` counts what goes through a ``Library``."""

    written: list[Written] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    library: int = 0

    def namespaces(self) -> dict[str, int]:
        """The namespaces of the ops, with how many each has, the fullest first."""
        counts: dict[str, int] = {}
        for op in self.written:
            namespace = op.name.partition("::")[0]
            counts[namespace] = counts.get(namespace, 0) + 1
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def ops_in(
    project: Project, package: Path, contract_of: ContractOf, torch_min: Version
) -> FoundOps:
    """The ops that are registered below the directory ``package``. Nothing is run."""
    found = FoundOps()

    def place(path: Path) -> str:
        return path.relative_to(project.root).as_posix()

    for op in project.all_ops:
        path = op.definition.module.path
        if not path.is_relative_to(package):
            continue
        found.library += op.definition.role is Role.DEFINE
        line = (op.definition.call or op.definition.statement).lineno
        if op.definition.qualname is None:
            reason = "its name is computed: which op it is cannot be told without running it"
            found.left.append(Left(place(path), line, op.qualname, reason))
            continue
        answers = _answers(project, op, contract_of, torch_min)
        if isinstance(answers, str):
            found.left.append(Left(place(path), line, op.qualname, answers))
            found.written.append(Written(op.qualname, place(path)))
        else:
            schema, kind = answers
            trained = any(each.role is Role.AUTOGRAD for each in op.attached)
            found.written.append(Written(op.qualname, place(path), schema, kind, trained))
    for helper in project.unknown_helpers:
        path = helper.module.path
        if path.is_relative_to(package):
            reason = "a function from elsewhere that may register an op: describe it under "
            reason += "[tool.opscaffold.registrars]"
            found.left.append(Left(place(path), helper.call.lineno, helper.name, reason))
    for problem in project.problems:
        if problem.path.is_relative_to(package):
            reason = f"cannot be read: {problem.message}"
            found.left.append(Left(place(problem.path), problem.line, "", reason))
    found.written.sort(key=lambda op: op.name)
    found.left.sort(key=lambda left: (left.path, left.line))
    return found


def _answers(
    project: Project, op: Op, contract_of: ContractOf, torch_min: Version
) -> tuple[str, str] | str:
    """Schema and kind, or why no answers make this op."""
    try:
        contract = contract_of(project, op)
        schema = "" if contract is None else format_schema(contract)
    except (ValueError, RecursionError) as error:
        return f"its schema cannot be written: {error}"
    if contract is None:
        return "its schema cannot be told from the source"
    try:
        table = check_table({"schema": Given(schema)}, OP)
        made = build_op(table, contract.namespace, release_of(torch_min))
    except AnswerError as error:
        return error.message.removeprefix(f"{contract.name}: ")
    return schema, kind_word(made.contract.kind)


def names_of(several: Sequence[str], most: int = 6) -> str:
    """Names as one line of text."""
    return ", ".join(several[:most]) + (", ..." if len(several) > most else "")

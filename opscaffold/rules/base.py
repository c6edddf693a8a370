"""What every rule is: its code and words, its examples, and the function that applies it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cached_property

from opscaffold.effects.buffers import Argument, BufferUse, use_of_buffer
from opscaffold.effects.summary import Effects, effects_of
from opscaffold.effects.trace import FunctionNode
from opscaffold.findings.intents import Intent
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.patterns import pattern
from opscaffold.records import dataclass
from opscaffold.rules.arguments import arguments_of, kernel_of
from opscaffold.rules.devices import devices_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.load import char_column, span
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project
from opscaffold.source.questions import Question

_DEFINED = pattern(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_LINE_END = pattern(r"\r|\n")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Its words and examples are also its documentation.

    ``summary`` says in one sentence what is reported, ``why`` what happens to the user's
    program, ``remedy`` what to do. ``repair`` is "safe", "unsafe" or None (by hand). ``hits``
    and ``misses`` are small modules in which the rule reports something and nothing.
    ``of_op`` is applied to each op, ``of_project`` once; either may be absent. ``asks`` are the
    questions about all files that either may ask.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    remedy: str
    hits: tuple[str, ...]
    misses: tuple[str, ...]
    repair: str | None = None
    of_op: Callable[[OpFacts], Iterable[Finding]] | None = None
    of_project: Callable[[Project], Iterable[Finding]] | None = None
    asks: tuple[Question, ...] = ()

    def finding(
        self,
        module: Module,
        node: ast.AST,
        message: str,
        *,
        op: str = "",
        remedy: str = "",
        evidence: Iterable[Position] = (),
        intent: Intent | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Make a finding of this rule at a node."""
        return Finding(
            self.code,
            self.name,
            severity or self.severity,
            position(module, node),
            message,
            op,
            remedy or self.remedy,
            tuple(evidence),
            intent,
        )


class OpFacts:
    """What is known of one op; each part is worked out when it is first asked for."""

    def __init__(self, project: Project, op: Op) -> None:
        self.project = project
        self.op = op
        self.module = op.definition.function_module or op.definition.module
        """The module that holds the kernel."""

    @cached_property
    def names(self) -> ProjectNames:
        """How names resolve where the kernel stands."""
        return ProjectNames(self.project, self.module)

    @cached_property
    def kernel(self) -> FunctionNode | ast.Lambda | None:
        """The main kernel, None where it is out of sight."""
        return kernel_of(self.op)

    @cached_property
    def arguments(self) -> list[Argument]:
        """The declared parameters of the kernel; empty where it is out of sight."""
        return arguments_of(self.project, self.op)

    @cached_property
    def effects(self) -> Effects | None:
        """What the kernel does, None where it is out of sight."""
        if self.kernel is None:
            return None
        devices = devices_of(self.op, self.kernel)
        return effects_of(self.kernel, self.arguments, self.names, devices)

    @cached_property
    def buffers(self) -> dict[str, BufferUse]:
        """How the kernel treats each Optional Tensor, with it omitted and with it given."""
        if self.kernel is None:
            return {}
        return {
            a.name: use_of_buffer(self.kernel, self.arguments, a.name, self.names)
            for a in self.arguments
            if a.tensor and a.optional
        }

    def parameter(self, name: str) -> ast.AST:
        """The node of a kernel's parameter."""
        if self.kernel is None:
            return self.op.definition.statement
        spec = self.kernel.args
        every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
        return next((a for a in every if a.arg == name), self.kernel)


def position(module: Module, node: ast.AST) -> Position:
    """Where a node stands, for people: line and column from 1, in characters.

    A definition stands at its name, a parameter is its name; of a node over several lines, the
    end is that of the first of them.
    """
    start, end = span(module, node)
    text = module.source.text
    column = char_column(module, node)
    first = start - column + 1
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        match = _DEFINED.match(text, start, end)
        if match is not None:
            start, end = match.span(1)
    elif isinstance(node, ast.arg):
        end = start + len(node.arg)
    line_end = _LINE_END.search(text, start, end)
    if line_end is not None:
        end = start + len(text[start : line_end.start()].rstrip())
    line = getattr(node, "lineno", 1)
    return Position(module.path, line, start - first + 1, end - first + 1)

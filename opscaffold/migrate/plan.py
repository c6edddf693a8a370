"""What repairs are planned from, and what a plan for one op is."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.contract.releases import MEASURED, Version
from opscaffold.findings.intents import KeepCallable
from opscaffold.findings.model import Finding
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.documents import Snippet
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project


@dataclass(frozen=True, slots=True)
class Options:
    """What may be done, and in which form.

    ``unsafe`` allows repairs that callers could notice. ``target`` is the oldest release of torch
    that what is written must work with. ``out_naming`` is "flat" or "overload". ``compat`` leaves
    a plain function under the old name, which warns where ``deprecate`` is set.
    """

    unsafe: bool = False
    target: Version = MEASURED
    out_naming: str = "flat"
    compat: bool = False
    deprecate: bool = False


@dataclass(slots=True)
class Context:
    """What every plan of one round shares.

    ``snippets`` are the pieces of prose read into the project (see ``documents``). ``reserved``
    are the names that plans made together bind, by file; a plan adds its own.
    """

    project: Project
    syntaxes: Syntaxes
    snippets: Mapping[Path, Snippet]
    options: Options = field(default_factory=Options)
    reserved: dict[Path, set[str]] = field(default_factory=dict)

    def names_in(self, module: Module) -> set[str]:
        """The names that plans made before bind in a module, to read and add to."""
        return self.reserved.setdefault(module.path, set())


@dataclass(slots=True)
class OpPlan:
    """All that one repair of one op changes, and what is left to say.

    ``does`` says what becomes of the op, behind "would be": ``split into a::b and a::b_out``.
    ``new_ops`` are the ops it makes. ``calls`` counts the call sites rewritten,
    ``codes`` are the rules whose findings it repairs. ``keeps`` asks for a function under the
    op's old name.
    """

    op: str
    does: str
    new_ops: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    keeps: KeepCallable | None = None
    edits: dict[Path, FileEdits] = field(default_factory=dict)
    notes: list[Finding] = field(default_factory=list)
    calls: int = 0

    def edits_for(self, module: Module) -> FileEdits:
        """The edits of one file, to add to."""
        return self.edits.setdefault(module.path, FileEdits())

    def take(self, edits: Mapping[Path, FileEdits]) -> None:
        """Add edits made elsewhere."""
        for path, found in edits.items():
            self.edits.setdefault(path, FileEdits()).update(found)


@dataclass(slots=True)
class Refused:
    """An op that stays as it is, and every reason for it.

    ``held`` says that the one reason is that nobody asked for an unsafe repair.
    """

    op: Op
    reasons: list[RefusalError]
    held: bool = False

    @property
    def module(self) -> Module:
        """Where a reason stands that names no module."""
        definition = self.op.definition
        return definition.function_module or definition.module

    @property
    def node(self) -> ast.AST:
        """Where a reason stands that names no node."""
        return self.op.definition.function or self.op.definition.statement


class RefusedError(Exception):
    """Raised by a planner that found several reasons."""

    def __init__(self, reasons: list[RefusalError]) -> None:
        super().__init__(reasons[0].reason)
        self.reasons = reasons

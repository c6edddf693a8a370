"""The file that a function is read from, and how the names in it resolve."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from opscaffold.contract.annotations import Resolver
from opscaffold.contract.pydefaults import Evaluator
from opscaffold.effects.trace import Names
from opscaffold.scaffold.from_error import Place
from opscaffold.source.model import Module


@dataclass(frozen=True, slots=True)
class Origin:
    """One file of a project, as read. Whoever reads projects supplies it.

    ``shown`` is the path as people know it. ``resolver``, ``evaluate`` and ``postponed`` are what
    reading a signature asks for, ``plain`` gives an annotation without the project's own names
    for types. ``op_of`` gives the name of the op that a function of the file is registered as,
    ``is_autograd`` says whether a class is an ``autograd.Function``, ``is_own`` whether a dotted
    name is a module of the project. ``search`` are directories in which a generated package finds
    those modules, from its own.
    """

    shown: str
    module: Module
    names: Names
    resolver: Resolver
    evaluate: Evaluator
    postponed: bool
    plain: Callable[[ast.expr], ast.expr]
    op_of: Callable[[ast.AST], str | None]
    is_autograd: Callable[[ast.ClassDef], bool]
    is_own: Callable[[str], bool]
    search: tuple[str, ...] = ()

    def place(self, node: ast.AST, what: str) -> Place:
        """A piece of evidence at a node of the file."""
        return Place(self.shown, getattr(node, "lineno", 1), what)

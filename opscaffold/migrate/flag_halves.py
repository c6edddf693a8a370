"""Splitting a kernel by a flag: one function becomes a functional and a mutable one."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import libcst as cst

from opscaffold.effects.buffers import Argument, BufferUse
from opscaffold.effects.flags import flag_as_buffer
from opscaffold.effects.trace import FunctionNode
from opscaffold.migrate import docstrings
from opscaffold.migrate.attached import FakeEditor
from opscaffold.migrate.attached_swaps import Renamer
from opscaffold.migrate.delegates import Decorate, calling, undecorated
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.returns import returning_nothing
from opscaffold.migrate.shared import hoist
from opscaffold.migrate.signature import without_parameter
from opscaffold.migrate.split import (
    Cut,
    Half,
    Halves,
    documented,
    folded_half,
    refuse_lost_effects,
    spaced,
)
from opscaffold.migrate.syntax import Syntax
from opscaffold.rules.names import ProjectNames

_READERS = frozenset({"locals", "vars", "exec", "eval"})


def split_by_flag(
    syntax: Syntax,
    function: ast.FunctionDef,
    cut: Cut,
    decorate: Decorate,
    *,
    when: bool,
    written: str,
) -> Halves:
    """Split a kernel by a flag, which is ``when`` where the kernel works in place.

    It then writes to ``written``, as the functions call it.

    ``cut.use`` is the flag as a buffer; its index says, by not being None, that the mutable half
    returns nothing. Raises RefusalError where one half would not be sound by itself.
    """
    node = syntax.find(function, cst.FunctionDef)
    use, flag = cut.use, cut.use.argument.name
    refuse_unseen_reads(function, flag)
    refuse_lost_effects(use, use.omitted, use.given)
    refuse_lost_effects(use, use.given, use.omitted)
    half = Half.OUT if cut.index is None else Half.INTO
    functional = folded_half(syntax, node, use.omitted, use.given)
    functional = _without_flag(functional, flag, value=not when)
    given = folded_half(syntax, node, use.given, use.omitted)
    given = _without_flag(given, flag, value=when).with_changes(name=cst.Name(cut.out_name))
    if half is Half.INTO:
        given = returning_nothing(given)
    functional = decorate(node, functional, None)
    given = decorate(node, given, half)
    kernel = None
    hoisted = hoist(functional, given, cut.kernel_name, "", written)
    if hoisted is not None:
        kernel, functional, given = hoisted
    return spaced(node, kernel, functional, given, 1 if function.col_offset else 2)


def flag_delegates(
    syntax: Syntax,
    function: ast.FunctionDef,
    cut: Cut,
    fresh_name: str,
    decorate: Decorate,
    *,
    when: bool,
) -> list[cst.BaseStatement]:
    """The kernel without its registrations, and a function for each half that calls it."""
    node = syntax.find(function, cst.FunctionDef)
    flag = cut.use.argument.name
    blank = [cst.EmptyLine(indent=False)] * (1 if function.col_offset else 2)
    params = without_parameter(node.params, flag)
    half = Half.OUT if cut.index is None else Half.INTO
    made: list[cst.BaseStatement] = [undecorated(node, decorate)]
    for name, which, value in ((fresh_name, None, not when), (cut.out_name, half, when)):
        void = which is Half.INTO
        returns = returning_nothing(node).returns if void else node.returns
        body = f"    {'' if void else 'return '}{_call(node, flag, value)}\n"
        made.append(calling(node, name, params, returns, body, which, decorate, blank))
    return made


def _call(node: cst.FunctionDef, flag: str, value: bool) -> str:
    """The call of the kernel with its own parameters and a flag; behind it, by keyword."""
    texts: list[str] = []
    for param in node.params.params:
        name = param.name.value
        behind = any("=" in text for text in texts)
        texts.append(f"{flag}={value}" if name == flag else f"{name}={name}" if behind else name)
    for param in node.params.kwonly_params:
        name = param.name.value
        texts.append(f"{name}={value if name == flag else name}")
    return f"{node.name.value}({', '.join(texts)})"


def _without_flag(function: cst.FunctionDef, flag: str, *, value: bool) -> cst.FunctionDef:
    body = with_constant(function.body, flag, value=value)
    function = function.with_changes(body=body, params=without_parameter(function.params, flag))
    return documented(function, lambda text: docstrings.without_entry(text, flag))


def with_constant(node: cst.CSTNode, flag: str, *, value: bool) -> cst.CSTNode:
    """The node with every read of a flag as its value."""
    made = node.visit(_Constant(flag, "True" if value else "False"))
    if not isinstance(made, cst.CSTNode):
        raise TypeError("a body cannot vanish")
    return made


class _Constant(Renamer):
    """Puts the flag's value where the flag is read."""

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        """A parameter of an inner function has a name of its own."""
        return updated_node.with_changes(name=original_node.name)

    def leave_FormattedStringExpression(
        self,
        original_node: cst.FormattedStringExpression,
        updated_node: cst.FormattedStringExpression,
    ) -> Any:
        """``{flag=}`` shows the name."""
        del original_node
        if updated_node.equal is not None:
            raise RefusalError(None, f"`{self.old}` is shown by its name", "show its value")
        return updated_node


def refuse_unseen_reads(function: FunctionNode | ast.Lambda, flag: str) -> None:
    """Raise RefusalError where a function may read its parameters by their names."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _READERS:
                remedy = "read parameters by their names"
                raise RefusalError(node, f"`{name}` may read `{flag}`", remedy)


@dataclass(frozen=True, slots=True)
class FlagFakeEditor(FakeEditor):
    """Takes a flag out of the fake kernels of one op: they stay with the functional one."""

    when: bool = True

    def use_of(
        self,
        function: FunctionNode | ast.Lambda,
        arguments: list[Argument],
        name: str,
        names: ProjectNames,
    ) -> BufferUse:
        """How a fake kernel treats the flag. Raises RefusalError where that is not plain."""
        refuse_unseen_reads(function, name)
        use, rebound = flag_as_buffer(function, arguments, name, names, when=self.when)
        if rebound is not None:
            raise RefusalError(
                rebound, f"the fake kernel binds `{name}` again", "use another name there"
            )
        return use

    def settled(self, body: cst.CSTNode, name: str) -> cst.CSTNode:
        """A body with the flag unset wherever it is still read."""
        return with_constant(body, name, value=not self.when)

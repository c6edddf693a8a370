"""Splitting a kernel by several buffers that are given together or not at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from opscaffold.effects.buffers import Argument
from opscaffold.effects.paired import PairedUse, use_of_pair
from opscaffold.effects.trace import Trace
from opscaffold.migrate import docstrings
from opscaffold.migrate.aliased import respelled
from opscaffold.migrate.attached import FakeEditor, code_words
from opscaffold.migrate.delegates import Decorate, calling, undecorated
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.returns import returning_nothing
from opscaffold.migrate.shared import hoist
from opscaffold.migrate.signature import with_buffer_at, with_keyword_out, without_parameter
from opscaffold.migrate.split import (
    Cut,
    Half,
    Halves,
    documented,
    folded_half,
    refuse_early_use,
    refuse_lost_effects,
    spaced,
    specialised,
)
from opscaffold.migrate.syntax import Syntax, code_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Registration


def split_paired(
    syntax: Syntax,
    function: ast.FunctionDef,
    cut: Cut,
    pair: PairedUse,
    order: Sequence[str],
    decorate: Decorate,
) -> Halves:
    """Split a kernel; ``order`` are its buffers in the order in which they are returned.

    Raises RefusalError where one half would not be sound by itself.
    """
    node = syntax.find(function, cst.FunctionDef)
    _refuse_lost_effects(pair, pair.omitted, pair.beside_omitted)
    _refuse_lost_effects(pair, pair.given, pair.beside_given)
    functional = folded_half(syntax, node, pair.omitted, pair.beside_omitted)
    out = folded_half(syntax, node, pair.given, pair.beside_given)
    out = out.with_changes(name=cst.Name(cut.out_name), params=respelled(out.params, cut.words))
    if cut.index is not None:
        out = returning_nothing(out)
    returned = "" if cut.index is not None else " and returned"
    sentence = f"a buffer to write a result to; it is overwritten{returned}."
    for place, buffer in enumerate(order):
        functional = functional.with_changes(params=without_parameter(functional.params, buffer))
        refuse_early_use(functional, buffer, function)
        if cut.index is None:
            out = out.with_changes(params=with_keyword_out(out.params, buffer))
        else:
            at = cut.index + place
            out = out.with_changes(params=with_buffer_at(out.params, buffer, at))
        functional = documented(functional, _Without(buffer))
        out = documented(out, _With(buffer, sentence))
    functional = decorate(node, functional, None)
    out = decorate(node, out, Half.OUT if cut.index is None else Half.INTO)
    hoisted = hoist(functional, out, cut.kernel_name, order[0])
    kernel = None
    if hoisted is not None:
        kernel, functional, out = hoisted
    return spaced(node, kernel, functional, out, 1 if function.col_offset else 2)


def paired_delegates(
    syntax: Syntax,
    function: ast.FunctionDef,
    cut: Cut,
    order: Sequence[str],
    fresh_name: str,
    decorate: Decorate,
) -> list[cst.BaseStatement]:
    """The kernel without its registrations, and a function for each half that calls it."""
    node = syntax.find(function, cst.FunctionDef)
    blank = [cst.EmptyLine(indent=False)] * (1 if function.col_offset else 2)
    given = node if cut.index is None else returning_nothing(node)
    fresh, params = node.params, respelled(node.params, cut.words)
    for place, buffer in enumerate(order):
        fresh = without_parameter(fresh, buffer)
        if cut.index is None:
            params = with_keyword_out(params, buffer)
        else:
            params = with_buffer_at(params, buffer, cut.index + place)
    half = Half.OUT if cut.index is None else Half.INTO
    kept = "return " if half is Half.OUT else ""
    every = f"    {kept}{_call(node, order, given=True)}\n"
    none = f"    return {_call(node, order, given=False)}\n"
    return [
        undecorated(node, decorate),
        calling(node, fresh_name, fresh, node.returns, none, None, decorate, blank),
        calling(node, cut.out_name, params, given.returns, every, half, decorate, blank),
    ]


def _call(node: cst.FunctionDef, buffers: Sequence[str], *, given: bool) -> str:
    """The call of the kernel with its own parameters; behind the first buffer, by keyword."""
    texts: list[str] = []
    behind = False
    for param in node.params.params:
        name = param.name.value
        behind = behind or name in buffers
        if given or name not in buffers:
            texts.append(f"{name}={name}" if behind else name)
    for param in node.params.kwonly_params:
        name = param.name.value
        if given or name not in buffers:
            texts.append(f"{name}={name}")
    return f"{node.name.value}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class _Without:
    buffer: str

    def __call__(self, text: str) -> str:
        return docstrings.without_entry(text, self.buffer)


@dataclass(frozen=True, slots=True)
class _With:
    buffer: str
    sentence: str

    def __call__(self, text: str) -> str:
        return docstrings.with_entry(text, self.buffer, self.sentence)


def _refuse_lost_effects(pair: PairedUse, trace: Trace, beside: Trace) -> None:
    refuse_lost_effects(pair.uses[0], trace, beside)


@dataclass(frozen=True, slots=True)
class PairedFakeEditor(FakeEditor):
    """Takes several buffers out of the fake kernels of one op."""

    buffers: tuple[str, ...] = ()

    def edit(self, registration: Registration, edits: dict[Module, FileEdits]) -> None:
        """Plan the change of one fake kernel. Raises RefusalError where it is not plain."""
        function = registration.function
        module = registration.function_module or registration.module
        if function is None:
            raise self._refusal(registration, "its fake kernel is not in sight")
        if isinstance(function, ast.AsyncFunctionDef):
            raise self._refusal(registration, "its fake kernel is not a plain function")
        spec = function.args
        own = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        if spec.vararg or spec.kwarg or len(own) != len(self.arguments):
            raise self._refusal(registration, "its fake kernel does not take the op's parameters")
        self._refuse_shared(registration, module, function)
        renamed = [
            Argument(name, a.tensor, a.optional, a.is_list)
            for name, a in zip(own, self.arguments, strict=True)
        ]
        order = [a.name for a in self.arguments]
        buffers = [own[order.index(buffer)] for buffer in self.buffers]
        pair = use_of_pair(function, renamed, buffers, ProjectNames(self.project, module))
        if pair is None:
            raise self._refusal(registration, "its fake kernel cannot be followed")
        _refuse_lost_effects(pair, pair.omitted, pair.beside_omitted)
        syntax = self.syntaxes.of(module)
        target = edits.setdefault(module, FileEdits())
        node: cst.Lambda | cst.FunctionDef
        if isinstance(function, ast.Lambda):
            node = syntax.find(function, cst.Lambda)
        else:
            node = syntax.find(function, cst.FunctionDef)
        params = node.params
        for buffer in buffers:
            params = without_parameter(params, buffer)
        body = specialised(syntax, node.body, pair.omitted, pair.beside_omitted)
        half = node.with_changes(body=body, params=params)
        if isinstance(half, cst.FunctionDef) and isinstance(function, ast.FunctionDef):
            for buffer in buffers:
                refuse_early_use(half, buffer, function)
            target.statements[syntax.key(function)] = [half]
        elif isinstance(half, cst.Lambda):
            left = code_words(code_of(half.body)) & set(buffers)
            if left:
                raise self._refusal(registration, f"its fake kernel needs `{min(left)}`")
            target.lambdas[syntax.key(function)] = half

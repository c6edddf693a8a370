"""Optional buffers that a kernel uses as a place for results, and what keeps it from a split."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from opscaffold.effects.aten import is_allocator
from opscaffold.effects.buffers import BufferUse, Handed
from opscaffold.effects.trace import Effect
from opscaffold.patterns import pattern
from opscaffold.rules.base import OpFacts
from opscaffold.source.model import Op, Role

ALIAS_CHECKED = frozenset({Role.CUSTOM_OP, Role.TRITON_OP})
"""Roles whose kernels PyTorch holds to its alias rule at every call."""

_OUT_LIKE = pattern(
    r"^_?(out|output|dst|dest|destination|result|res)s?(_?(tensor|buffer|buf|\d+))?_?$"
    r"|_(out|output|dst)_?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why an op cannot be split by rule: where it shows, the reason, and what to do instead."""

    node: ast.AST
    reason: str
    remedy: str


def outputs_of(facts: OpFacts) -> dict[str, BufferUse]:
    """How the kernel treats each Optional Tensor that it uses as a place for a result."""
    return {
        name: use
        for name, use in facts.buffers.items()
        if use.is_output or _is_delegated(facts.op, use)
    }


def obstacle_to_split(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    use: BufferUse,
    uses: dict[str, BufferUse],
    declared: frozenset[str] = frozenset(),
) -> Obstacle | None:
    """What keeps a kernel from being split, or None where its halves are sound.

    ``declared`` are the arguments that the op says it mutates: both halves may go on doing so.
    """
    name = use.argument.name
    if use.argument.is_list:
        return Obstacle(
            parameter_node(function, name),
            f"`{name}` is a list, and an out= op takes plain Tensors only",
            "write a functional op that returns the list, and an untagged mutable op that takes "
            "the list by position and returns nothing",
        )
    if len(uses) > 1:
        others = ", ".join(f"`{n}`" for n in uses if n != name)
        return Obstacle(
            parameter_node(function, name),
            f"{others} may be omitted independently of `{name}`",
            "write one functional op, and one out= op that takes all the buffers; or let the op "
            "raise where it is given only some of them",
        )
    return _obstacle_in_body(function, use) or obstacle_in_memory(
        function, use, declared, fresh=use.fresh_when_omitted
    )


def _obstacle_in_body(function: ast.AST, use: BufferUse) -> Obstacle | None:
    name = use.argument.name
    match use.handed:
        case Handed.BUFFER:
            return None
        case Handed.OTHER if use.written and is_dummy(use):
            return None
        case Handed.UNSEEN:
            call = next((e.node for e in use.looks if e.effect is Effect.OPAQUE), function)
            return Obstacle(
                call,
                f"`{name}` goes to code out of sight, which decides what is returned",
                "call it without the buffer in a functional op; call it with the buffer, and "
                "return that buffer, in an out= op",
            )
        case Handed.VIEW if _is_one_of_several(use):
            return Obstacle(
                last_return(use, function),
                f"it returns `{name}` beside other results, and an out= op takes a buffer for each",
                "write a functional op that allocates all it returns, and an out= op that is given "
                "a buffer for each",
            )
        case Handed.VIEW:
            return Obstacle(
                last_return(use, function),
                f"it returns a part or another shape of `{name}`, so `{name}` is scratch memory "
                "and no out= argument",
                "let callers slice or view the memory and pass that as the out= argument",
            )
        case Handed.MIXED:
            return Obstacle(
                last_return(use, function),
                f"given `{name}`, it returns it on some paths and something else on others",
                f"return `{name}` on every path where it is given",
            )
    return Obstacle(
        last_return(use, function),
        f"given `{name}`, it returns something other than `{name}`",
        f"write a functional op, and a mutable op that writes `{name}` and returns nothing",
    )


def obstacle_in_memory(
    function: ast.AST, use: BufferUse, declared: frozenset[str], *, fresh: bool
) -> Obstacle | None:
    """What a kernel does with memory that keeps it from being split, or None.

    ``fresh`` says that what it returns without the buffer is memory of its own.
    """
    name = use.argument.name
    if use.looks:
        event = use.looks[0]
        does = "may read" if event.effect is Effect.OPAQUE else "reads"
        return Obstacle(
            event.node,
            f"it {does} what `{name}` held before, so `{name}` is no out= argument",
            f"write a functional op, and a mutable op that updates `{name}` and returns nothing",
        )
    if use.reshapes:
        return Obstacle(
            use.reshapes[0].node,
            f"it changes the shape or storage of `{name}`",
            f"require a `{name}` of the right shape",
        )
    for event in use.other_mutations():
        mutated = event.root.removeprefix("param:")
        if mutated in declared:
            continue
        return Obstacle(
            event.node,
            f"it also mutates `{mutated}`, and does not say so",
            f"declare that, and write one op that mutates `{mutated}` and returns a fresh tensor, "
            f"and one that mutates `{mutated}` and `{name}` and returns nothing",
        )
    if not fresh:
        return Obstacle(
            _stale_return(use, function),
            f"without `{name}`, it returns memory that it did not allocate in sight",
            "return a fresh tensor there",
        )
    if use.leftover is not None:
        return Obstacle(
            use.leftover,
            f"parts of `{name}` keep what they held before, so `{name}` is no out= argument",
            f"write a functional op, and a mutable op that updates `{name}` and returns nothing",
        )
    return None


def is_dummy(use: BufferUse) -> bool:
    """Whether, given the buffer, the kernel returns an empty tensor that says nothing."""
    values = [r.node.value for r in use.given.returns if r.node is not None]
    return bool(values) and all(v is not None and _is_empty(v) for v in values)


def _is_empty(value: ast.expr) -> bool:
    """``out.new_empty(0)``, ``torch.empty((0,), ...)`` and the like."""
    if not isinstance(value, ast.Call) or not value.args:
        return False
    func = value.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    size = value.args[0]
    if isinstance(size, ast.Tuple | ast.List) and len(size.elts) == 1:
        size = size.elts[0]
    zero = isinstance(size, ast.Constant) and size.value == 0
    return zero and name in {"new_empty", "new_zeros", "empty", "zeros"}


def _is_delegated(op: Op, use: BufferUse) -> bool:
    """Whether an out-like buffer is handed to code out of sight that returns the result."""
    name = use.argument.name
    declared = isinstance(op.definition.mutates, tuple) and name in op.definition.mutates
    opaque = any(e.effect is Effect.OPAQUE for e in use.looks)
    return opaque and use.handed is Handed.UNSEEN and (declared or bool(_OUT_LIKE.search(name)))


def _is_one_of_several(use: BufferUse) -> bool:
    """Whether the buffer itself, and no part of it, is among the results."""
    root = f"param:{use.argument.name}"
    mine = [ref for r in use.given.returns for ref in r.value.all_refs() if ref.root == root]
    return bool(mine) and all(ref.exact and not ref.several for ref in mine)


def is_side_output(op: Op, use: BufferUse) -> bool:
    """Whether the buffer is only written beside a result that has nothing to do with it."""
    if _is_filled_out_of_sight(op, use):
        return True
    if use.handed not in {Handed.OTHER, Handed.NOTHING} or use.argument.is_list:
        return False
    if _returns_dummy(use):
        return False
    results = {ref.root for r in use.omitted.returns for ref in r.value.all_refs()}
    given = {ref.root for r in use.given.returns for ref in r.value.all_refs()}
    # One call may fill results and, beside them, the buffer: what it fills either way it returns.
    replaced = results - given
    at_results = {e.node for e in use.omitted.events if e.root in replaced}
    return not any(e.node in at_results for e in use.written)


def _is_filled_out_of_sight(op: Op, use: BufferUse) -> bool:
    """Whether code out of sight fills a buffer that PyTorch does not let the op return.

    A ``custom_op`` raises where it returns what it mutates (FACTS section 2). One that works
    drops what that code hands back in the buffer's place, and returns another of its results.
    """
    mutates = op.definition.mutates
    return (
        op.definition.role in ALIAS_CHECKED
        and use.handed is Handed.UNSEEN
        and not use.argument.is_list
        and isinstance(mutates, tuple)
        and use.argument.name in mutates
        and not _OUT_LIKE.search(use.argument.name)
    )


def _returns_dummy(use: BufferUse) -> bool:
    """Whether a call with the buffer returns, in a place of its own, a tensor without contents."""
    omitted = {r.node for r in use.omitted.returns}
    given = [r for r in use.given.returns if r.node is not None]
    return bool(given) and all(
        r.node not in omitted and r.node is not None and _is_blank(r.node.value) for r in given
    )


def _is_blank(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return is_allocator(name)
    return False


def parameter_node(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str
) -> ast.AST:
    """The node of a kernel's parameter."""
    spec = function.args
    every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
    return next((a for a in every if a.arg == name), function)


def last_return(use: BufferUse, function: ast.AST) -> ast.AST:
    """The last return of a call that is given the buffer."""
    nodes = [r.node for r in use.given.returns if r.node is not None]
    return nodes[-1] if nodes else function


def _stale_return(use: BufferUse, function: ast.AST) -> ast.AST:
    for returned in use.omitted.returns:
        refs = returned.value.all_refs()
        if not refs or any(not r.root.startswith("fresh:") for r in refs):
            return returned.node or function
    return function

"""Ops whose contract depends on the call: an Optional buffer, written and returned if given.

PyTorch's contracts are fixed when an op is defined. An op that allocates its result in one call
and returns the caller's buffer in the next keeps none of them: ``custom_op`` raises after it has
written the buffer, and a low-level registration compiles to something else without a word
(FACTS sections 1, 2 and 5).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from opscaffold.effects.buffers import BufferUse, Handed, use_of_buffer
from opscaffold.effects.trace import Effect
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.rules.arguments import arguments_of, kernel_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.load import char_column
from opscaffold.source.model import Module, Op, Role
from opscaffold.source.project import Project

CODE = "OPS101"
NAME = "maybe-out"
SIDE_CODE = "OPS102"
SIDE_NAME = "optional-side-output"

_OUT_LIKE = re.compile(
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


def check(project: Project, op: Op) -> Iterator[Finding]:
    """Report every Optional buffer of an op that it may write and hand back."""
    function = kernel_of(op)
    if function is None:
        return
    module = op.definition.function_module or op.definition.module
    uses = uses_of(project, op)
    for use in uses.values():
        obstacle = obstacle_to_split(function, use, uses)
        parameter = _parameter_node(function, use.argument.name)
        if _is_side_output(use):
            yield _side_output(op, module, parameter, use)
            continue
        evidence = tuple(position(module, e.node) for e in use.written[:5])
        intent = None if obstacle else SplitMaybeOut(op.qualname, use.argument.name)
        where, reason, remedy = parameter, "", "split it into a functional and an out= op"
        if obstacle is not None:
            where, reason, remedy = obstacle.node, f": {obstacle.reason}", obstacle.remedy
        yield Finding(
            CODE,
            NAME,
            Severity.ERROR,
            position(module, where),
            _message(op, use) + reason,
            op.qualname,
            remedy,
            evidence,
            intent,
        )


def uses_of(project: Project, op: Op) -> dict[str, BufferUse]:
    """How the op's kernel treats each Optional Tensor that it uses as a place for a result."""
    function = kernel_of(op)
    arguments = arguments_of(op)
    if function is None:
        return {}
    module = op.definition.function_module or op.definition.module
    names = ProjectNames(project, module)
    found = {}
    for argument in arguments:
        if argument.tensor and argument.optional:
            use = use_of_buffer(function, arguments, argument.name, names)
            if use.is_output or _is_delegated(op, use):
                found[argument.name] = use
    return found


def obstacle_to_split(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    use: BufferUse,
    uses: dict[str, BufferUse],
) -> Obstacle | None:
    """What keeps a kernel from being split, or None where its halves are sound."""
    name = use.argument.name
    if use.argument.is_list:
        return Obstacle(
            _parameter_node(function, name),
            f"`{name}` is a list, and an out= op takes plain Tensors only",
            "write a functional op that returns the list, and a mutable op that takes it",
        )
    if len(uses) > 1:
        others = ", ".join(f"`{n}`" for n in uses if n != name)
        return Obstacle(
            _parameter_node(function, name),
            f"{others} may be omitted independently of `{name}`",
            "write one functional op, and one out= op that takes all the buffers",
        )
    return _obstacle_in_body(function, use) or _obstacle_in_memory(function, use)


def _obstacle_in_body(function: ast.AST, use: BufferUse) -> Obstacle | None:
    name = use.argument.name
    match use.handed:
        case Handed.BUFFER:
            return None
        case Handed.UNSEEN:
            call = next((e.node for e in use.looks if e.effect is Effect.OPAQUE), function)
            return Obstacle(
                call,
                f"`{name}` goes to code out of sight, which decides what is returned",
                "call it without the buffer in a functional op; call it with the buffer, and "
                "return that buffer, in an out= op",
            )
        case Handed.VIEW:
            return Obstacle(
                _last_return(use, function),
                f"it returns a part or another shape of `{name}`, so `{name}` is scratch memory "
                "and no out= argument",
                "let callers slice or view the memory and pass that as the out= argument",
            )
        case Handed.MIXED:
            return Obstacle(
                _last_return(use, function),
                f"given `{name}`, it returns it on some paths and something else on others",
                f"return `{name}` on every path where it is given",
            )
    return Obstacle(
        _last_return(use, function),
        f"given `{name}`, it returns something other than `{name}`",
        f"write a functional op, and a mutable op that writes `{name}` and returns nothing",
    )


def _obstacle_in_memory(function: ast.AST, use: BufferUse) -> Obstacle | None:
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
    others = use.other_mutations()
    if others:
        mutated = others[0].root.removeprefix("param:")
        return Obstacle(
            others[0].node,
            f"it also mutates `{mutated}`, so neither half is functional or out=",
            f"write one op that mutates `{mutated}` and returns a fresh tensor, and one that "
            f"mutates `{mutated}` and `{name}` and returns nothing",
        )
    if not use.fresh_when_omitted:
        return Obstacle(
            _stale_return(use, function),
            f"without `{name}`, it returns memory that it did not allocate in sight",
            "return a fresh tensor there",
        )
    return None


def _is_delegated(op: Op, use: BufferUse) -> bool:
    """Whether an out-like buffer is handed to code out of sight that returns the result."""
    name = use.argument.name
    declared = isinstance(op.definition.mutates, tuple) and name in op.definition.mutates
    opaque = any(e.effect is Effect.OPAQUE for e in use.looks)
    return opaque and use.handed is Handed.UNSEEN and (declared or bool(_OUT_LIKE.search(name)))


def _is_side_output(use: BufferUse) -> bool:
    """Whether the buffer is only written beside a result that has nothing to do with it."""
    if use.handed not in {Handed.OTHER, Handed.NOTHING} or use.argument.is_list:
        return False
    results = {ref.root for r in use.omitted.returns for ref in r.value.all_refs()}
    at_results = {e.node for e in use.omitted.events if e.root in results}
    return not any(e.node in at_results for e in use.written)


def _side_output(op: Op, module: Module, parameter: ast.AST, use: BufferUse) -> Finding:
    name = use.argument.name
    returns = any(r.value.refs or r.value.items for r in use.given.returns)
    message = f"`{name}` is mutated if it is given, beside "
    message += "a returned tensor: " if returns else "no returned tensor: "
    message += (
        "torch.compile with Inductor fails where it is omitted, though opcheck passes"
        if returns
        else "callers that omit it get nothing"
    )
    return Finding(
        SIDE_CODE,
        SIDE_NAME,
        Severity.ERROR if returns else Severity.INFO,
        position(module, parameter),
        message,
        op.qualname,
        f"write two ops: one without `{name}`, one that always writes it",
        tuple(position(module, e.node) for e in use.written[:5]),
    )


def _message(op: Op, use: BufferUse) -> str:
    name = use.argument.name
    if op.definition.role is Role.CUSTOM_OP and use.handed is Handed.BUFFER:
        return (
            f"`{name}` is allocated when omitted and returned when given: a call that passes it "
            "raises after the buffer was written"
        )
    if use.handed in {Handed.BUFFER, Handed.VIEW, Handed.MIXED}:
        return (
            f"`{name}` is allocated when omitted and returned when given: eager mode works, "
            "torch.compile takes the two for separate memory"
        )
    return f"whether the result is allocated or goes to `{name}` depends on the call"


def position(module: Module, node: ast.AST) -> Position:
    """Where a node stands."""
    return Position(module.path, getattr(node, "lineno", 1), char_column(module, node))


def _parameter_node(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str
) -> ast.AST:
    spec = function.args
    every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
    return next((a for a in every if a.arg == name), function)


def _last_return(use: BufferUse, function: ast.AST) -> ast.AST:
    nodes = [r.node for r in use.given.returns if r.node is not None]
    return nodes[-1] if nodes else function


def _stale_return(use: BufferUse, function: ast.AST) -> ast.AST:
    for returned in use.omitted.returns:
        refs = returned.value.all_refs()
        if not refs or any(not r.root.startswith("fresh:") for r in refs):
            return returned.node or function
    return function

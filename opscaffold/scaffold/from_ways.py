"""What a function does in one way to call it: with its Optional buffers, or without them.

Source of the rules on aliasing: torch.library reference; FACTS section 2.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from opscaffold.contract.model import BaseType, base_name
from opscaffold.effects.summary import Aliasing, Answer, Effects, effects_of
from opscaffold.effects.trace import MUTATIONS, Effect, Event
from opscaffold.effects.values import UNSEEN
from opscaffold.scaffold.from_error import FromError, Place
from opscaffold.scaffold.from_origin import Origin
from opscaffold.scaffold.from_signature import Signature

_LOOKS = frozenset({Effect.READ, Effect.UPDATE, Effect.OPAQUE})


@dataclass(frozen=True, slots=True)
class Result:
    """What one result of the function is.

    ``buffer`` is the argument that it is on every path, "" where it is none. ``shares`` tells of
    memory that it may share with an argument otherwise, ``unseen`` of code out of sight that made
    it.
    """

    tensor: bool
    buffer: str = ""
    shares: tuple[Place, ...] = ()
    unseen: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to call a function. ``absent`` are the Optional buffers that are not given,
    ``given`` those that are.

    ``written`` holds the arguments that are surely written to with the places, ``opaque`` those
    that code out of sight is given, ``reads`` and ``partly`` those whose old contents may be seen,
    or stay in part. ``overlap`` says that two results share memory.
    """

    function: ast.FunctionDef
    signature: Signature
    absent: tuple[str, ...]
    given: frozenset[str]
    effects: Effects
    results: tuple[Result, ...]
    written: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    opaque: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    reads: dict[str, Place] = field(default_factory=dict)
    partly: frozenset[str] = frozenset()
    overlap: tuple[Place, ...] = ()
    returned: tuple[Place, ...] = ()


def way_of(
    origin: Origin,
    function: ast.FunctionDef,
    signature: Signature,
    absent: Iterable[str] = (),
    given: Iterable[str] = (),
    *,
    may_be_none: bool = False,
) -> Way:
    """Follow a function with the ``absent`` arguments as None and the ``given`` ones not so.

    ``may_be_none`` says that it is annotated to return None at times: in this way it may always.
    Raises FromError for what an op of no kind may do.
    """
    absent, given = tuple(absent), frozenset(given)
    followed = copy.copy(function)
    followed.body = [*(_as_none(function, name) for name in absent), *function.body]
    arguments = [
        replace(a, optional=a.optional and a.name not in given)
        for a in signature.arguments()
        if a.name not in absent
    ]
    effects = effects_of(followed, arguments, origin.names)
    _refuse(origin, function, effects)
    if may_be_none and all(r.value.null is True for r in effects.trace.returns):
        signature = replace(signature, returns=())
    tensors = {p.name for p in signature.parameters if p.is_tensor_like}
    written: dict[str, tuple[Place, ...]] = {}
    for name, mutation in effects.mutations.items():
        if mutation.perhaps:
            raise _conditional(origin, name, mutation.events)
        written[name] = _places(origin, mutation.events, name)
    opaque = {
        name: tuple(
            dict.fromkeys(
                origin.place(n, f"{_call(n)} is out of sight, and is given {name}") for n in nodes
            )
        )
        for name, nodes in effects.opaque.items()
        if name in tensors and name not in written
    }
    return Way(
        function,
        signature,
        absent,
        frozenset(given),
        effects,
        tuple(_results(origin, function, signature, effects)),
        written,
        opaque,
        {name: place for name in tensors if (place := _read(origin, effects, name))},
        frozenset(n for n in tensors if not _is_whole(effects, n)),
        tuple(origin.place(o.place, "two of the results share memory") for o in effects.overlaps),
        tuple(
            dict.fromkeys(
                origin.place(r.node, ast.unparse(r.node)) for r in effects.trace.returns if r.node
            )
        ),
    )


def _as_none(function: ast.FunctionDef, name: str) -> ast.stmt:
    assign = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))
    return ast.fix_missing_locations(ast.copy_location(assign, function))


def _call(node: ast.AST) -> str:
    text = ast.unparse(node.func) if isinstance(node, ast.Call) else ast.unparse(node)
    return text.splitlines()[0][:60]


def _places(origin: Origin, events: Iterable[Event], name: str) -> tuple[Place, ...]:
    found = []
    for event in events:
        what = f"{event.effect.value} {name}"
        if event.inside is not None:
            what += f", in {_call(event.node)}"
        found.append(origin.place(event.node, what))
    return tuple(dict.fromkeys(found))


def _refuse(origin: Origin, function: ast.FunctionDef, effects: Effects) -> None:
    """Raise FromError for what outlives the call, or changes what is no data."""
    for event in effects.trace.events:
        kind, _, name = event.root.partition(":")
        if kind == "global" and event.effect in MUTATIONS:
            raise FromError(
                origin.shown,
                event.node,
                f"{function.name} writes to {name}, which outlives the call and is no argument",
                f"pass {name} as an argument",
            )
        if kind != "param":
            continue
        if event.effect is Effect.KEEP:
            raise FromError(
                origin.shown,
                event.node,
                f"{function.name} keeps {name} beyond the call",
                "keep a clone outside the op",
            )
        if event.effect is Effect.RESHAPE and event.known:
            raise FromError(
                origin.shown,
                event.node,
                f"{function.name} changes the shape or storage of {name}, which no op may",
                "write to a Tensor of the right size, or return a new one",
            )
    for aliasing in effects.aliases:
        if not aliasing.root.startswith("param:"):
            raise FromError(
                origin.shown,
                aliasing.places[0],
                f"{function.name} returns memory that outlives the call "
                f"({aliasing.root.partition(':')[2]})",
                "return a clone of it",
            )


def _conditional(origin: Origin, name: str, events: tuple[Event, ...]) -> FromError:
    return FromError(
        origin.shown,
        events[0].node,
        f"this writes to {name} on some inputs, and to a copy of it on others",
        f"clone {name} first, or write to it by copy_",
        _places(origin, events, name),
    )


def _read(origin: Origin, effects: Effects, name: str) -> Place | None:
    """Where what an argument held before may be seen."""
    undefined = {e.node for e in effects.trace.events if e.root in effects.trace.undefined}
    for event in effects.trace.on(f"param:{name}"):
        if event.effect in _LOOKS and not event.covered and event.node not in undefined:
            return origin.place(event.node, f"{event.effect.value} {name}")
    return None


def _is_whole(effects: Effects, name: str) -> bool:
    root = f"param:{name}"
    return bool(effects.trace.returns) and all(root in r.written for r in effects.trace.returns)


def _results(
    origin: Origin, function: ast.FunctionDef, signature: Signature, effects: Effects
) -> Iterable[Result]:
    count = len(signature.returns)
    for index, returned in enumerate(signature.returns):
        tensor = base_name(returned.type) == "Tensor"
        if not tensor:
            yield Result(tensor=False)
            continue
        mine = [a for a in effects.aliases if count == 1 or a.index in (None, index)]
        buffer = _buffer(mine, plain=isinstance(returned.type, BaseType))
        shares = () if buffer else tuple(p for a in mine for p in _shared(origin, a))
        yield Result(True, buffer, shares, tuple(_unseen(origin, effects, count, index)))
    nothing = [r for r in effects.trace.returns if r.value.null is True]
    if count and nothing:
        raise FromError(
            origin.shown,
            nothing[0].node or function,
            f"{function.name} returns nothing here, and a result elsewhere",
            "return a Tensor on every path",
        )


def _buffer(aliases: list[Aliasing], *, plain: bool) -> str:
    """The one argument that a result is, whatever the inputs."""
    sure = [a for a in aliases if a.exact and a.answer is Answer.ALWAYS and not a.perhaps]
    if plain and len(aliases) == len(sure) == 1:
        return sure[0].root.removeprefix("param:")
    return ""


def _shared(origin: Origin, aliasing: Aliasing) -> Iterable[Place]:
    name = aliasing.root.removeprefix("param:")
    if aliasing.exact and aliasing.answer is Answer.ALWAYS:
        what = f"returns {name} itself"
    elif aliasing.exact:
        what = f"returns {name} itself on some inputs"
    elif aliasing.answer is Answer.ALWAYS:
        what = f"returns memory of {name}"
    else:
        what = f"may return memory of {name}"
    return [origin.place(node, what) for node in aliasing.places]


def _unseen(origin: Origin, effects: Effects, count: int, index: int) -> Iterable[Place]:
    for returned in effects.trace.returns:
        parts = returned.value.parts()
        values = [v for i, v in parts if count == 1 or i in (None, index)]
        refs = {ref for value in values for ref in value.all_refs()}
        if returned.node is not None and any(r == UNSEEN or r.guess for r in refs):
            yield origin.place(
                returned.node, "code out of sight made what is returned, and may have kept it"
            )

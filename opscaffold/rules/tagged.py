"""What kernels of in-place and out= ops do with the arguments that their tag is about."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from opscaffold.effects.trace import MUTATIONS, Effect, Event, Returned
from opscaffold.effects.values import UNSEEN, Value
from opscaffold.rules.kernels import Kernel


def wrong_returns(kernel: Kernel, names: list[str]) -> Iterator[tuple[ast.AST, str]]:
    """Each return of something other than these arguments in this order, and what it is."""
    for returned in kernel.effects.trace.returns:
        what = _wrong(returned, names)
        if what is not None:
            yield returned.node or kernel.function, what


def never_writes(kernel: Kernel, name: str) -> bool:
    """Whether every use of an argument is in sight and none writes to it."""
    events = kernel.effects.trace.on(f"param:{name}")
    may_write = MUTATIONS | {Effect.OPAQUE, Effect.KEEP}
    return bool(kernel.effects.trace.returns) and not any(e.effect in may_write for e in events)


def first_reads(events: Iterable[Event]) -> Iterator[Event]:
    """The places that surely see what a buffer held before the call."""
    for event in events:
        looks = event.effect in {Effect.READ, Effect.UPDATE, Effect.TRUTH}
        if looks and event.first and event.sure and event.known and not event.perhaps:
            yield event


def _wrong(returned: Returned, names: list[str]) -> str | None:
    value = returned.value
    if value.null is True:
        return "nothing"
    if len(names) > 1 and value.items is None:
        return None if UNSEEN in value.all_refs() or not value.all_refs() else "one tensor"
    if len(names) > 1 and value.container:
        return "a list"
    parts = [value] if len(names) == 1 else list(value.items or ())
    if len(parts) != len(names):
        return f"{len(parts)} tensors"
    for part, name in zip(parts, names, strict=True):
        what = _wrong_part(part, name)
        if what is not None:
            return what
    return None


def _wrong_part(part: Value, name: str) -> str | None:
    refs = part.all_refs()
    if UNSEEN in refs or any(r.guess for r in refs):
        return None
    if part.items is not None:
        return "a tuple or list"
    others = [r for r in refs if r.root != f"param:{name}"]
    if others and len(others) == len(refs):
        other = others[0].root
        if other.startswith("param:"):
            return f"`{other.removeprefix('param:')}` in the place of `{name}`"
        return f"another tensor than `{name}`"
    if others:
        return f"another tensor than `{name}` on some path"
    if refs and not all(r.exact for r in refs):
        return f"a view of `{name}`"
    return None if refs else "a number"

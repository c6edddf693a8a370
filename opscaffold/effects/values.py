"""What is known of a value while a function body is followed: nullness, truth and memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ref:
    """Memory a value may stand on.

    ``root`` names it: ``param:x``, ``fresh:12:8`` (allocated at that line and column),
    ``global:cache`` (bound outside the function), ``?`` (out of sight). ``exact`` says that the
    value is that very object, not a view of it; ``whole`` that it covers every element;
    ``perhaps`` that on some inputs it is a copy instead; ``hidden`` that it shares the memory
    behind a storage object of its own, where PyTorch's alias check does not look.
    """

    root: str
    exact: bool = False
    whole: bool = False
    perhaps: bool = False
    hidden: bool = False


UNSEEN = Ref("?")


@dataclass(frozen=True, slots=True)
class Value:
    """An abstract value.

    ``null`` is True for None, False for anything else, None where that is not known; ``truth``
    likewise for truthiness. ``refs`` is empty for what holds no tensor memory. ``items`` keeps
    the elements of a tuple or list display.
    """

    null: bool | None = None
    truth: bool | None = None
    refs: frozenset[Ref] = frozenset()
    items: tuple[Value, ...] | None = None

    @property
    def roots(self) -> frozenset[str]:
        """The memory this value, or anything in it, may stand on."""
        own = frozenset(ref.root for ref in self.refs)
        return own.union(*(item.roots for item in self.items)) if self.items else own

    def viewed(self, *, whole: bool = False, perhaps: bool = False, hidden: bool = False) -> Value:
        """A view of this value."""
        refs = frozenset(
            Ref(r.root, False, whole and r.whole, perhaps or r.perhaps, hidden or r.hidden)
            for r in self.all_refs()
        )
        return Value(null=False, refs=refs)

    def all_refs(self) -> frozenset[Ref]:
        """The references of this value and of its elements."""
        return self.refs.union(*(item.all_refs() for item in self.items or ()))

    def with_null(self, null: bool) -> Value:
        """This value once its nullness is known."""
        if null:
            return NONE
        return Value(False, self.truth, self.refs, self.items)


NONE = Value(null=True, truth=False)
SCALAR = Value(null=False)
ANYTHING = Value(refs=frozenset({UNSEEN}))


def fresh(line: int, column: int) -> Value:
    """A tensor allocated at this place."""
    return Value(null=False, refs=frozenset({Ref(f"fresh:{line}:{column}", True, True)}))


def parameter(name: str, *, null: bool | None = False) -> Value:
    """The tensor passed as this parameter."""
    return Value(null=null, refs=frozenset({Ref(f"param:{name}", True, True)}))


def join(left: Value, right: Value) -> Value:
    """What holds of a value that is one of two."""
    if left == right:
        return left
    items: tuple[Value, ...] | None = None
    refs = left.refs | right.refs
    if left.items and right.items and len(left.items) == len(right.items):
        items = tuple(join(a, b) for a, b in zip(left.items, right.items, strict=True))
    else:
        refs = left.all_refs() | right.all_refs()
    return Value(
        null=left.null if left.null == right.null else None,
        truth=left.truth if left.truth == right.truth else None,
        refs=refs,
        items=items,
    )


@dataclass(slots=True)
class Env:
    """The values of the local names, and what happened to memory on every path to here.

    ``written`` is fully overwritten, ``mutated`` is written to at all.
    """

    names: dict[str, Value] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    mutated: frozenset[str] = frozenset()

    def copy(self) -> Env:
        """An independent copy."""
        return Env(dict(self.names), self.written, self.mutated)


def join_envs(left: Env | None, right: Env | None) -> Env | None:
    """The environment where two paths meet; None stands for a path that does not arrive."""
    if left is None or right is None:
        return left or right
    names = {
        name: join(left.names.get(name, ANYTHING), right.names.get(name, ANYTHING))
        for name in left.names.keys() | right.names.keys()
    }
    return Env(names, left.written & right.written, left.mutated & right.mutated)

"""What is known of a value while a function body is followed: nullness, truth and memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from opscaffold.records import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Ref:
    """Memory a value may stand on.

    ``root`` names it: ``param:x``, ``fresh:12:8`` (allocated at that line and column; by a
    function that is followed, with the place of the call behind ``@``), ``global:cache`` (bound
    outside the function), ``?`` (out of sight). ``exact`` says that the value is that very
    object, not a view of it; ``whole`` that it covers every element; ``perhaps`` that on some
    inputs it is a copy instead; ``hidden`` that it shares the memory behind a storage object of
    its own, where PyTorch's alias check does not look. ``guess`` says that nothing in sight
    makes it so: code out of sight was given the memory, and may have returned it. ``array``
    marks a numpy array, ``several`` a tuple of tensors: of separate ones where it is exact, of
    views of one memory where not. ``dtype`` says that it is this memory only where that has this
    dtype, and a copy otherwise.
    """

    root: str
    exact: bool = False
    whole: bool = False
    perhaps: bool = False
    hidden: bool = False
    guess: bool = False
    array: bool = False
    several: bool = False
    dtype: str = ""


UNSEEN = Ref("?")


@dataclass(frozen=True, slots=True)
class Made:
    """A function that is made while a kernel runs: a lambda, an inner function, a partial.

    ``home`` is how names resolve where it stands, ``given`` and ``named`` are the arguments that
    it was given already.
    """

    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    home: Any
    given: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """An abstract value.

    ``null`` is True for None, False for anything else, None where that is not known; ``truth``
    likewise for truthiness. ``refs`` is empty for what holds no tensor memory. ``items`` keeps
    the elements of a tuple, list or dict display, ``keys`` the keys of a dict. ``container`` says
    that it is a list, a dict or the like, whose elements stand on ``refs``. ``term`` names the
    value where tests of it, and of what is computed of it, must come out alike; ``made`` is the
    function that it is.
    """

    null: bool | None = None
    truth: bool | None = None
    refs: frozenset[Ref] = frozenset()
    items: tuple[Value, ...] | None = None
    container: bool = False
    term: str | None = None
    keys: tuple[object, ...] | None = None
    made: Made | None = None

    @property
    def roots(self) -> frozenset[str]:
        """The memory this value, or anything in it, may stand on."""
        own = frozenset(ref.root for ref in self.refs)
        return own.union(*(item.roots for item in self.items)) if self.items else own

    def viewed(self, *, whole: bool = False, perhaps: bool = False, hidden: bool = False) -> Value:
        """A view of this value."""
        refs = frozenset(
            replace(
                r,
                exact=False,
                whole=whole and r.whole,
                perhaps=perhaps or r.perhaps,
                hidden=hidden or r.hidden,
                several=False,
            )
            for r in self.all_refs()
        )
        return Value(null=False, refs=refs)

    def element(self, index: int | str = "*") -> Value:
        """One element of a tuple or list, or one slice of a tensor."""
        refs = set()
        held = self.container or self.items is not None
        for ref in self.all_refs():
            if ref.several and ref.exact:
                refs.add(replace(ref, root=f"{ref.root}.{index}", several=False))
            elif ref == UNSEEN:
                refs.add(ref)
            elif held:
                refs.add(replace(ref, several=False))
            else:
                refs.add(replace(ref, exact=False, whole=False, several=False))
        return Value(refs=frozenset(refs))

    def parts(self) -> list[tuple[int | None, Value]]:
        """The elements of a display with their places; else the value itself."""
        return [(None, self)] if self.items is None else list(enumerate(self.items))

    def at(self, key: object) -> Value | None:
        """The element of a display at a literal index or key, where that is there."""
        if self.items is None:
            return None
        if self.keys is not None:
            return self.items[self.keys.index(key)] if key in self.keys else None
        within = isinstance(key, int) and -len(self.items) <= key < len(self.items)
        return self.items[key] if within and isinstance(key, int) else None

    def with_element(self, key: object, value: Value) -> Value | None:
        """This display with one element replaced, or added to a dict; None where not known."""
        if self.items is None or not self.container:
            return None
        items = list(self.items)
        if self.keys is not None:
            if key in self.keys:
                items[self.keys.index(key)] = value
                return replace(self, items=tuple(items))
            return replace(self, items=(*items, value), keys=(*self.keys, key))
        if not isinstance(key, int) or not -len(items) <= key < len(items):
            return None
        items[key] = value
        return replace(self, items=tuple(items))

    def leaves(self) -> list[Value]:
        """The values that no display holds in turn, in order."""
        if self.items is None:
            return [self]
        return [leaf for item in self.items for leaf in item.leaves()]

    def guessed(self) -> frozenset[Ref]:
        """The memory as what code out of sight made of it may still stand on."""
        return frozenset(r if r == UNSEEN else Ref(r.root, guess=True) for r in self.all_refs())

    def all_refs(self) -> frozenset[Ref]:
        """The references of this value and of its elements."""
        return self.refs.union(*(item.all_refs() for item in self.items or ()))

    @property
    def is_tensor(self) -> bool:
        """Whether it surely is a tensor, so that what PyTorch says of tensors holds."""
        sure = all(ref != UNSEEN and not ref.guess for ref in self.refs)
        return bool(self.refs) and sure and not self.container and self.items is None

    def reread(self) -> Value:
        """This value as it is read back later: elements of a list may have been replaced."""
        if self.items is None:
            return self
        items = tuple(item.reread() for item in self.items)
        if self.container:
            items = tuple(
                Value(refs=i.all_refs() | {UNSEEN}) if i.null is True else replace(i, null=None)
                for i in items
            )
        return replace(self, items=items)

    def with_null(self, null: bool) -> Value:
        """This value once its nullness is known."""
        if null:
            return NONE
        return replace(self, null=False)


NONE = Value(null=True, truth=False)
SCALAR = Value(null=False)
ANYTHING = Value(refs=frozenset({UNSEEN}))


def is_made_once(ref: Ref) -> bool:
    """Whether a ref is to memory that was allocated, and is the same in each round of a loop.

    An element of several tensors that are gone through is another one in each round.
    """
    return ref.root.startswith("fresh:") and not ref.root.endswith(".*")


def fresh(line: int, column: int, within: str = "", *, several: bool = False) -> Value:
    """A tensor allocated at this place, or several at once; ``within`` tells calls apart."""
    ref = Ref(f"fresh:{line}:{column}{within}", True, True, several=several)
    return Value(null=False, refs=frozenset({ref}))


def gathered(elements: Iterable[Value]) -> Value:
    """A list, a dict or the like of these values; of what containers among them hold, a guess."""
    refs = frozenset[Ref]()
    for value in elements:
        nested = value.container or value.items is not None
        refs |= value.guessed() if nested else value.refs
    return Value(null=False, refs=refs, container=True)


def merged(holders: Iterable[Value], elements: Iterable[Value] = ()) -> Value:
    """A container of what these containers hold, and of these elements."""
    refs = gathered(elements).refs.union(*(h.all_refs() for h in holders))
    return Value(null=False, refs=refs, container=True)


def outer(label: str, *, container: bool = False, null: bool | None = False) -> Value:
    """What is bound outside the function, and lasts from one call to the next."""
    ref = Ref(f"global:{label}", not container, not container)
    return Value(null=null, refs=frozenset({ref}), container=container)


def parameter(name: str, *, null: bool | None = False) -> Value:
    """The tensor passed as this parameter."""
    return Value(null=null, refs=frozenset({Ref(f"param:{name}", True, True)}), term=name)


def join(left: Value, right: Value) -> Value:
    """What holds of a value that is one of two."""
    if left == right:
        return left
    items: tuple[Value, ...] | None = None
    refs = left.refs | right.refs
    same = left.keys == right.keys
    if same and left.items and right.items and len(left.items) == len(right.items):
        items = tuple(join(a, b) for a, b in zip(left.items, right.items, strict=True))
    else:
        refs = left.all_refs() | right.all_refs()
    return Value(
        null=left.null if left.null == right.null else None,
        truth=left.truth if left.truth == right.truth else None,
        refs=refs,
        items=items,
        container=left.container or right.container,
        term=left.term if left.term == right.term else None,
        keys=None if items is None else left.keys,
        made=left.made if left.made == right.made else None,
    )


@dataclass(slots=True)
class Env:
    """The values of the local names, and what happened to memory on the way here.

    ``written`` is fully overwritten on every path, ``mutated`` written to at all on every path.
    ``touched`` is written to, or given to code out of sight, on some path. ``swallowed`` says
    that only a context manager that swallows an exception leads here.
    """

    names: dict[str, Value] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    mutated: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    swallowed: bool = False

    def copy(self) -> Env:
        """An independent copy."""
        return replace(self, names=dict(self.names))

    def take_memory(self, other: Env) -> None:
        """Take over what happened to memory elsewhere."""
        self.written, self.mutated, self.touched = other.written, other.mutated, other.touched


def join_envs(left: Env | None, right: Env | None) -> Env | None:
    """The environment where two paths meet; None stands for a path that does not arrive."""
    if left is None or right is None:
        return left or right
    names = {
        name: join(left.names.get(name, ANYTHING), right.names.get(name, ANYTHING))
        for name in left.names.keys() | right.names.keys()
    }
    return Env(
        names,
        left.written & right.written,
        left.mutated & right.mutated,
        left.touched | right.touched,
        left.swallowed and right.swallowed,
    )

"""A Python file of the author's, with what a new op adds to it.

What to add is the difference of two generated texts: statements at the top of the module, and
items of the collections there. Each goes behind what it follows in the generated text; the rest of
the file stays as it is, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from opscaffold.scaffold.wiring_error import WiringError
from opscaffold.scaffold.wiring_imports import insert_import
from opscaffold.scaffold.wiring_items import Collection, code, item_key, items_of, with_items
from opscaffold.scaffold.wiring_nodes import (
    ALL,
    Key,
    Statement,
    apart,
    bound_name,
    collection_of,
    is_own,
    item_text,
    key_of,
    lines_above,
    names_of,
    says_the_same,
    text_of,
)


def wire_python(text: str, before: str, after: str, *, width: int, package: str = "") -> str:
    """Make the changes that lead from ``before`` to ``after`` in ``text``, and no other.

    ``package`` is the package that relative imports of the file start from. Statements that do not
    fit ``width`` are put on several lines. Raises WiringError where the author's file is no Python,
    or lacks the place, or where a name that is added is taken in it.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    theirs = _parsed(text)
    wiring = _Wiring(
        theirs,
        _generated(before, newline, package),
        _generated(after, newline, package),
        width,
        package,
    )
    made = theirs.with_changes(body=wiring.run()).code
    # A file of nothing but comments has no body to carry the end of its last line.
    return made if made.endswith(("\n", "\r")) or made == text else made + newline


def _parsed(text: str) -> cst.Module:
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise WiringError(f"cannot be read: {error.message}", line=error.raw_line) from None
    except RecursionError:
        raise WiringError("cannot be read: it is nested too deeply") from None
    if module.code != text:
        raise WiringError("cannot be read without loss")
    return _with_comments_of_the_first(module)


def _with_comments_of_the_first(module: cst.Module) -> cst.Module:
    """The module, with comments that stand right above its first statement put to that one.

    Where no blank line parts them from a licence and the like, they are taken for that.
    """
    header = list(module.header)
    blank = [number for number, line in enumerate(header) if line.comment is None]
    if not module.body or not blank or blank[-1] == len(header) - 1:
        return module
    first, *others = module.body
    lead = [*header[blank[-1] + 1 :], *first.leading_lines]
    return module.with_changes(
        header=header[: blank[-1] + 1], body=[first.with_changes(leading_lines=lead), *others]
    )


class _Text:
    """A generated text, by the keys of its statements."""

    def __init__(self, statements: Sequence[Statement], package: str) -> None:
        self.statements = statements
        self.keys = [key_of(each, package) for each in statements]

    def get(self, key: Key) -> Statement | None:
        return self.statements[self.keys.index(key)] if key in self.keys else None


def _generated(text: str, newline: str, package: str) -> _Text:
    return _Text(cst.parse_module(text.replace("\n", newline)).body, package)


class _Wiring:
    def __init__(
        self, theirs: cst.Module, before: _Text, after: _Text, width: int, package: str
    ) -> None:
        self.module = theirs
        self.body: list[Any] = list(theirs.body)
        self.before = before
        self.after = after
        self.width = width
        self.package = package
        self.bound = names_of(self.body)
        self.exports = ALL in self._keys()

    def run(self) -> list[Statement]:
        """The body with all of it put in."""
        added = [key for key in self.after.keys if key not in self.before.keys]
        for key in added:
            self._add(key)
        for key in self.before.keys:
            new = self.after.get(key)
            old = self.before.get(key)
            if new is not None and old is not None and not says_the_same(old, new):
                self._change(key, old, new)
            elif new is None and old is not None and key not in added:
                self._remove(key, old)
        return self.body

    def _keys(self) -> list[Key]:
        return [key_of(each, self.package) for each in self.body]

    # Whole statements.

    def _add(self, key: Key) -> None:
        new = self.after.get(key)
        assert new is not None  # noqa: S101 -- the keys are those of the text
        keys = self._keys()
        if key in keys:
            there = self.body[keys.index(key)]
            if says_the_same(there, new):
                return
            if key[0] != "from":
                raise WiringError(f"{key[1]} is taken there", text_of(new), self._line(there))
        taken = sorted(names_of([new]).keys() & self.bound.keys() - {"__all__"})
        if taken:
            place = self.bound[taken[0]]
            raise WiringError(f"{taken[0]} is taken there", text_of(new), self._line(place))
        if key[0] == "from" and self.package and is_own(key[1], self.package):
            exports = self.exports or ALL not in self.after.keys
            insert_import(self.body, new, keys, self.after.keys, self.package, exports, self.width)
            return
        at = self._behind(key, keys)
        used = [n for n, each in enumerate(self.body) if _collects(each, self.after, self.before)]
        if isinstance(new, cst.FunctionDef) and used:
            # What stands in a table at the top of the module must be defined before it.
            at = min(at, used[0])
        self._insert(at, new)

    def _behind(self, key: Key, keys: Sequence[Key]) -> int:
        order = self.after.keys
        at = order.index(key)
        for earlier in reversed(order[:at]):
            if earlier in keys:
                return keys.index(earlier) + 1
        for later in order[at + 1 :]:
            if later in keys:
                return keys.index(later)
        return len(keys)

    def _insert(self, at: int, new: Any) -> None:
        if at == 0:
            new = new.with_changes(leading_lines=())
        self.body.insert(at, new)
        if at + 1 < len(self.body):
            follower = self._as_generated(self.body[at + 1])
            needed = 2 if isinstance(new, (cst.FunctionDef, cst.ClassDef)) else 0
            self.body[at + 1] = apart(follower, needed)

    def _as_generated(self, follower: Any) -> Any:
        """A statement with the lines above it that are generated now, if it had the former ones."""
        key = key_of(follower, self.package)
        old, new = self.before.get(key), self.after.get(key)
        if old is None or new is None:
            return follower
        had, has = (lines_above(each) for each in (old, follower))
        return follower.with_changes(leading_lines=new.leading_lines) if had == has else follower

    # Changes within a statement.

    def _change(self, key: Key, old: Statement, new: Statement) -> None:
        keys = self._keys()
        if key not in keys:
            if key == ALL or key[0] == "text":
                return
            raise WiringError(f"{key[1]} is gone, to which is added", _difference(old, new))
        at = keys.index(key)
        there = self.body[at]
        if says_the_same(there, new):
            return
        if says_the_same(there, old):
            changed = new.with_changes(leading_lines=there.leading_lines)
            self.body[at] = self._kept_comments(there, old, changed)
            return
        if key[0] == "from":
            raise WiringError(
                f"the import from {key[1]} was changed", text_of(new), self._line(there)
            )
        self.body[at] = self._with_items(there, old, new)

    def _kept_comments(self, there: Any, old: Statement, new: Any) -> Any:
        """The generated statement, unless the author's has comments or a layout of its own."""
        if code(there.with_changes(leading_lines=old.leading_lines)) == code(old):
            return new
        return new if collection_of(there) is None else self._with_items(there, old, new)

    def _with_items(self, there: Any, old: Statement, new: Statement) -> Any:
        theirs, former, target = (collection_of(each) for each in (there, old, new))
        if former is None or target is None:
            raise WiringError("was changed where a new op needs it changed", "", self._line(there))
        was = [item_key(item) for item in items_of(former) or ()]
        order = [item_key(item) for item in items_of(target) or ()]
        added = [item for item in items_of(target) or () if item_key(item) not in was]
        by_hand = "\n".join(f"{item_text(item)}," for item in added)
        name = bound_name(there.body[0])
        if theirs is None:
            raise WiringError(
                f"{name} is no longer written out as it was", by_hand, self._line(there)
            )
        keys = [item_key(item) for item in items_of(theirs) or ()]
        taken = [item_key(item) for item in added if item_key(item) in keys]
        if taken:
            raise WiringError(f"{name} has {taken[0]} already", by_hand, self._line(there))

        def fits(flat: Collection) -> bool:
            statement = there.deep_replace(theirs, flat)
            line = code(statement.with_changes(leading_lines=())).rstrip("\r\n")
            return "\n" not in line and len(line) <= self.width

        made = with_items(theirs, added, order, fits)
        return there.deep_replace(theirs, made)

    def _remove(self, key: Key, old: Statement) -> None:
        keys = self._keys()
        if key not in keys:
            return
        there = self.body[keys.index(key)]
        if not says_the_same(there, old):
            raise WiringError(f"{key[1]} is no longer needed, and was changed")
        self.body.remove(there)

    def _line(self, statement: Any) -> int:
        """The line of a statement in the author's file, 0 for one that was put in."""
        from libcst.metadata import MetadataWrapper, PositionProvider

        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        place = wrapper.resolve(PositionProvider).get(statement)
        return place.start.line if place is not None else 0


def _collects(statement: Any, after: _Text, before: _Text) -> bool:
    """Whether a statement is a table that gets further items."""
    key = key_of(statement) if collection_of(statement) is not None else None
    old, new = (before.get(key), after.get(key)) if key else (None, None)
    return old is not None and new is not None and not says_the_same(old, new)


def _difference(old: Statement, new: Statement) -> str:
    """What is added to a statement, as text to put in by hand."""
    former, target = collection_of(old), collection_of(new)
    if former is None or target is None:
        return text_of(new)
    was = [item_key(item) for item in items_of(former) or ()]
    return "\n".join(
        f"{item_text(item)}," for item in items_of(target) or () if item_key(item) not in was
    )

"""Which files of a tree hold a word, for the names of all ops at once.

To look for one op's names in all files takes as long as to look for those of a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.source.questions import Topic, mentions, named
from opscaffold.source.torch_ops import only_called
from opscaffold.source.words import Words

if TYPE_CHECKING:
    from opscaffold.source.tree import Tree

_COMPUTES = Topic((b"getattr",))


class Holders:
    """The files of one tree by the words they hold.

    ``expected`` says which words are likely to be asked for: they are looked for with the first.
    """

    def __init__(self, tree: Tree, expected: Callable[[], set[str]]) -> None:
        self._tree = tree
        self._expected = expected
        self._files: dict[str, set[Path]] = {}
        self._naming: dict[tuple[str, bool], set[Path]] = {}

    def of(self, words: Iterable[str]) -> set[Path]:
        """Return the files that hold any of the words."""
        wanted = set(words)
        if not wanted <= self._files.keys():
            self._look_for(wanted if self._files else wanted | self._expected())
        return set().union(*(self._files[word] for word in wanted))

    def _look_for(self, words: set[str]) -> None:
        new = words - self._files.keys()
        self._files.update((word, set()) for word in new)
        plain = {word for word in new if word.isascii()}
        for path, found in self._tree.ask(named(plain)).items() if plain else ():
            for word in found:
                self._files[word].add(path)
        for word in new - plain:
            self._files[word] = set(self._tree.ask(mentions([word])))

    def computing(self, owners: Iterable[str]) -> set[Path]:
        """Return the files that hold any of the words and may read a name that is computed."""
        words = Words(owners)
        return {path for path in self._computing if words.in_(self._tree.read(path) or b"")}

    @cached_property
    def _computing(self) -> set[Path]:
        return set(self._tree.ask(_COMPUTES.question))

    def naming(self, space: str, *, all_of_them: bool) -> set[Path]:
        """Return the files that hold a namespace and may give a name to it.

        With ``all_of_them``, those too that only call ops of it by their full name.
        """
        key = (space, all_of_them)
        if key not in self._naming:
            holding = self.of([space])
            self._naming[key] = {p for p in holding if self._may_name(p, all_of_them=all_of_them)}
        return self._naming[key]

    def _may_name(self, path: Path, *, all_of_them: bool) -> bool:
        data = self._tree.read(path) or b""
        if b"ops" not in data or all_of_them:
            return b"ops" in data
        return only_called(data) is None

"""Holding findings back by comments and by file, and reporting the comments that hold nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.config.model import Config
from opscaffold.findings.model import Finding, Position
from opscaffold.rules.ignores import MARK, Ignore, read_ignores
from opscaffold.rules.notices import BARE_IGNORE, UNUSED_IGNORE
from opscaffold.rules.selection import (
    UnknownSelectorError,
    coded,
    find,
    ignored_per_file,
    near,
)
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project
from opscaffold.source.questions import Topic

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MARKED = Topic((MARK,), any_case=True)
"""What a file is about that has an ignore comment, or may have."""

_MOVE = "put it behind the statement that it is about, on a line of that, or remove the code"


def _spec(glob: str) -> GitIgnoreSpec:
    # Loaded where something is ignored by file: it takes as long as to read hundreds of files.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines([glob])


class Suppression:
    """What holds findings back in a project that was read."""

    def __init__(self, project: Project, config: Config) -> None:
        """Raise UnknownSelectorError for a rule in per-file-ignores that there is not."""
        self._project = project
        self._by_file = [(_spec(glob), codes) for glob, codes in ignored_per_file(config)]
        self._marked = project.ask(MARKED.question)
        self._ignores = {path: self._read(path) for path in project.selected}
        self._used: set[tuple[Path, Ignore, str]] = set()
        self._names = {word: r.code for r in coded() for word in (r.code, r.name)}
        self._ops: dict[str, list[Op]] = {}
        for op in project.all_ops:
            self._ops.setdefault(op.qualname, []).append(op)

    def apply(self, findings: Iterable[Finding], codes: frozenset[str]) -> list[Finding]:
        """Return the findings that stay, with those about the comments themselves.

        ``codes`` are the rules that hold: whether a comment about another one is used cannot
        be told.
        """
        left = [f for f in findings if not self._ignored_in_file(f) and not self._ignored(f)]
        said = [f for f in self._about_comments(codes) if f.code in codes]
        return left + [f for f in said if not self._ignored_in_file(f) and not self._ignored(f)]

    def _ignored_in_file(self, finding: Finding) -> bool:
        return finding.code in self._codes_of_file(finding.position.path)

    def _codes_of_file(self, path: Path) -> frozenset[str]:
        root = self._project.root
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
        matching = [codes for spec, codes in self._by_file if spec.match_file(name)]
        return frozenset().union(*matching)

    def _ignored(self, finding: Finding) -> bool:
        hit = False
        for path, line in self._lines(finding):
            for ignore in self._ignores_of(path):
                if not ignore.first <= line <= ignore.last:
                    continue
                for word in ignore.words:
                    if self._code(word) == finding.code:
                        self._used.add((path, ignore, word))
                        hit = True
        return hit

    def _lines(self, finding: Finding) -> Iterator[tuple[Path, int]]:
        """The line reported, and those on which the op is defined."""
        yield finding.position.path, finding.position.line
        for op in self._ops.get(finding.op, ()):
            definition = op.definition
            yield from _head(definition.module, definition.statement)
            if definition.function is not None:
                yield from _head(
                    definition.function_module or definition.module, definition.function
                )

    def _about_comments(self, codes: frozenset[str]) -> Iterator[Finding]:
        # Few files hold any, and to sort all paths takes longer than to look.
        for path in sorted(path for path in self._project.selected if self._ignores_of(path)):
            for ignore in self._ignores_of(path):
                position = Position(path, ignore.line, ignore.column, ignore.end)
                if not ignore.words:
                    message = "this comment names no rule, so nothing is held back by it"
                    yield BARE_IGNORE.finding(position, message)
                for word in ignore.words:
                    message = self._fault(path, ignore, word, codes)
                    if message:
                        known = ignore.alone and self._code(word) is not None
                        remedy = _MOVE if known else ""
                        yield UNUSED_IGNORE.finding(position, message, remedy=remedy)

    def _fault(self, path: Path, ignore: Ignore, word: str, codes: frozenset[str]) -> str:
        code = self._code(word)
        if code is None:
            return _unknown(word)
        if (path, ignore, word) in self._used or code in (UNUSED_IGNORE.code, BARE_IGNORE.code):
            return ""
        if code not in codes or code in self._codes_of_file(path):
            return ""
        message = f"{word} is not reported here, so this comment holds nothing back"
        return (
            f"{message}: it stands alone on its line, and is about no other"
            if ignore.alone
            else (message)
        )

    def _code(self, word: str) -> str | None:
        return self._names.get(word.lower()) or self._names.get(word.upper())

    def _ignores_of(self, path: Path) -> list[Ignore]:
        if path not in self._ignores:
            self._ignores[path] = self._read(path)
        return self._ignores[path]

    def _read(self, path: Path) -> list[Ignore]:
        if path not in self._marked:
            return []
        module = self._project.module_for(path)
        return [] if module is None else read_ignores(module.source.text)


def _head(module: Module, node: ast.AST) -> Iterator[tuple[Path, int]]:
    for decorator in getattr(node, "decorator_list", ()):
        yield module.path, decorator.lineno
    yield module.path, getattr(node, "lineno", 1)


def _unknown(word: str) -> str:
    try:
        several = find(word)
    except UnknownSelectorError:
        return f"there is no rule {word!r}, so this comment holds nothing back{near(word)}"
    return (
        f"{word} stands for {len(several)} rules, and a comment must name each, so it holds "
        "nothing back"
    )

"""Where a project uses its ops, looked up in few files: cheaper than all references, less sure.

A file is only parsed where it mentions the op by a name of its own, and the topic that the caller
cares about. What reaches an op under another name, through another file, is not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

from opscaffold.source.hits import OpIndex
from opscaffold.source.model import Module, Op
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project
from opscaffold.source.questions import Topic, named


class Uses:
    """The uses of all ops of one project. Make it with ``uses_of``."""

    def __init__(self, project: Project) -> None:
        self._words = {op: _words(op) for op in project.all_ops}
        results = {op.definition.result: op for op in project.all_ops}
        self._index = OpIndex(
            project.all_ops, {node: op for node, op in results.items() if node is not None}
        )
        self._names = named(set().union(*self._words.values()))
        self._about: dict[Topic, list[tuple[Path, frozenset[str]]]] = {}
        self._named: dict[Path, frozenset[str]] = {}
        self._found: dict[Module, list[tuple[ast.expr, Op]]] = {}

    def modules(self, project: Project, op: Op, topic: Topic) -> Iterator[Module]:
        """The modules that mention an op and are about a topic."""
        if topic not in self._about:
            self._about[topic] = list(self._mentioning(project, topic))
        for path, words in self._about[topic]:
            if not words.isdisjoint(self._words[op]):
                module = project.module_for(path)
                if module is not None:
                    yield module

    def nodes(self, project: Project, op: Op, module: Module) -> Iterator[ast.expr]:
        """The expressions of a module that surely denote an op, outermost ones."""
        if module not in self._found:
            self._found[module] = list(self._in_module(project, module))
        return (node for node, found in self._found[module] if found is op)

    def calls(self, project: Project, op: Op, module: Module) -> Iterator[ast.Call]:
        """The calls of an op in a module."""
        for node in self.nodes(project, op, module):
            parent = module.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield parent

    def _mentioning(self, project: Project, topic: Topic) -> Iterator[tuple[Path, frozenset[str]]]:
        """The files about a topic that mention any op by a name of its own, and by which."""
        about = project.ask(topic.question)
        unknown = about.keys() - self._named.keys()
        if unknown:
            found = project.ask(self._names, unknown)
            self._named |= {path: frozenset(found.get(path, ())) for path in unknown}
        for path in about:
            if self._named[path]:
                yield path, self._named[path]

    def _in_module(self, project: Project, module: Module) -> Iterator[tuple[ast.expr, Op]]:
        words = set().union(*self._words.values())
        words |= _other_names(module, words)
        for node in module.parents:
            name = _name(node)
            if name not in words or not isinstance(node, ast.Name | ast.Attribute):
                continue
            if not isinstance(node.ctx, ast.Load):
                continue
            outer: ast.expr = node
            parent = module.parents.get(outer)
            while isinstance(parent, ast.Attribute) and self._op(project, module, parent):
                outer, parent = parent, module.parents.get(parent)
            op = self._op(project, module, outer)
            if op is not None:
                yield outer, op

    def _op(self, project: Project, module: Module, node: ast.expr) -> Op | None:
        hits = self._index.hits(project.resolve(module, node))
        return hits[0].op if len(hits) == 1 and not hits[0].reason else None


_USES: WeakKeyDictionary[Project, Uses] = WeakKeyDictionary()


def uses_of(project: Project) -> Uses:
    """The uses of a project's ops; what was found is kept as long as the project."""
    if project not in _USES:
        _USES[project] = Uses(project)
    return _USES[project]


def _words(op: Op) -> frozenset[str]:
    words = {op.name.partition(".")[0]}
    definition = op.definition
    if isinstance(definition.result, ast.FunctionDef | ast.AsyncFunctionDef):
        words.add(definition.result.name)
    elif isinstance(definition.statement, ast.Assign | ast.AnnAssign):
        words |= {
            n.id
            for n in walk(definition.statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
    return frozenset(word for word in words if word.isidentifier() and word.isascii())


def _other_names(module: Module, words: set[str]) -> set[str]:
    """Names that a module gives to what goes by one of the words elsewhere."""
    found: set[str] = set()
    for node in module.parents:
        match node:
            case ast.alias(name=name, asname=str(other)) if name in words:
                found.add(other)
            case ast.Assign(targets=[ast.Name(id=other)], value=value) if _mentions(value, words):
                found.add(other)
    return found


def _mentions(value: ast.expr, words: set[str]) -> bool:
    while isinstance(value, ast.Attribute):
        if value.attr in words:
            return True
        value = value.value
    return isinstance(value, ast.Name) and value.id in words


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

"""A project as read: its modules, its ops, and who refers to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscaffold.config.model import Registrar
from opscaffold.fs.paths import real_path
from opscaffold.source.collector import collector_paused
from opscaffold.source.files import find_root
from opscaffold.source.found import FoundFiles, project_files
from opscaffold.source.load import Problem
from opscaffold.source.model import Module, Op, Reference, Registration
from opscaffold.source.ops import OpFinder
from opscaffold.source.questions import Question
from opscaffold.source.references import ReferenceFinder
from opscaffold.source.resolve import Resolution, Resolver
from opscaffold.source.tree import Tree

if TYPE_CHECKING:
    from opscaffold.source.scanner import Scanner


class Project:
    """What ``load_project`` yields.

    ``ops`` are those defined in the paths asked for, ``all_ops`` those of the whole root;
    registrations attached to them and references come from the whole root. ``stray`` are the
    registrations, within the paths, for an op that the root does not define. ``helpers`` are
    the project's functions that register what they are given, ``unknown_helpers`` the calls,
    within the paths, of functions from elsewhere that look like them and are not described.
    """

    def __init__(
        self,
        root: Path,
        selected: frozenset[Path],
        tree: Tree,
        registrars: Sequence[Registrar] = (),
        known_files: frozenset[Path] | None = None,
    ) -> None:
        self.root = root
        self.selected = selected
        self.tree = tree
        self.known_files = tree.files if known_files is None else known_files
        """The files that were found, without those that only an overlay has."""
        self._resolver = Resolver(tree)
        self._finder = OpFinder(tree, self._resolver, registrars)
        self._found = self._finder.find()
        self.all_ops: list[Op] = self._found.ops
        self.ops = [op for op in self.all_ops if op.definition.module.path in selected]
        self.stray: list[Registration] = [r for r in self._found.stray if r.module.path in selected]
        self.unknown_helpers = [h for h in self._found.unknown if h.module.path in selected]
        self._references: dict[Op, list[Reference]] = {}
        self._made_finder: ReferenceFinder | None = None

    @property
    def files(self) -> list[Path]:
        """All Python files of the root, read or not, by path."""
        return list(self.tree.ordered)

    @property
    def modules(self) -> list[Module]:
        """The modules parsed so far, by path."""
        return self.tree.loaded()

    @property
    def problems(self) -> list[Problem]:
        """What could not be read so far, by path: ask again after ``references``."""
        return sorted(self.tree.problems, key=lambda p: (str(p.path), p.line, p.column))

    @property
    def described_calls(self) -> set[ast.AST]:
        """The calls and decorators that are read as the configuration describes their helper."""
        return self._finder.described.taken

    @property
    def helpers(self) -> list[tuple[Module, ast.AST]]:
        """The functions of the project that register what they are given."""
        known = self._finder.helpers.modules
        return sorted(
            ((module, node) for node, module in known.items()),
            key=lambda pair: (str(pair[0].path), getattr(pair[1], "lineno", 0)),
        )

    def calls_of(self, module: Module, names: re.Pattern[str]) -> list[ast.Call]:
        """Return the calls of a module that may be of something whose name a pattern matches."""
        return self.tree.calls(module).calls_matching(names)

    def aliases(self, module: Module, names: set[str]) -> set[str]:
        """Return the names, and those a module binds to something written with one of them."""
        return self.tree.calls(module).closure(names)

    def exported(self, module: Module, names: set[str], start: str) -> set[str]:
        """Return what a module calls things from outside whose full name starts with ``start``.

        Only what is written with one of the names is looked into.
        """
        near = self.tree.calls(module).bound(names)
        bound = self.tree.scopes(module).top.bindings if near else {}
        return {
            name
            for name in near & bound.keys()
            if any(
                (target.dotted or "").startswith(start)
                for binding in bound[name]
                for target in self._resolver.binding(module, binding).targets
            )
        }

    def module_for(self, path: Path) -> Module | None:
        """Return the module of a file of the project; None where it cannot be read."""
        return self.tree.load(real_path(path))

    def read(self, path: Path) -> bytes | None:
        """Return what a file holds, or is taken to hold; None where it cannot be read."""
        return self.tree.read(path)

    def ask(self, question: Question, among: Collection[Path] | None = None) -> dict[Path, Any]:
        """Return the answers to a question about what files hold, in their order.

        Files whose answer is empty are left out; ``among`` are those asked about, else all.
        """
        return self.tree.ask(question, among)

    def expect(self, names: Iterable[str]) -> None:
        """Say of which ops references will be asked for, so that they are looked for at once."""
        self._reference_finder().expected = frozenset(names)

    def mentioning_ops(self) -> set[Path]:
        """Return the files that hold the name of an op that is expected, or else of any."""
        return self._reference_finder().mentioning()

    def cell_of(self, path: Path, line: int) -> tuple[int, int] | None:
        """Return the cell of a notebook that a line stands in, and its line there, from 1.

        None for a file that is no notebook.
        """
        notebook = self.tree.notebook(path)
        return None if notebook is None else notebook.place(line)

    def module_named(self, name: str) -> Module | None:
        """Return the module with a dotted name, or None."""
        for path in self.tree.ordered:
            if self.tree.name_of(path) == name:
                return self.tree.load(path)
        return None

    def resolve(self, module: Module, expression: ast.expr) -> Resolution:
        """Return what an expression may stand for."""
        return self._resolver.resolve(module, expression)

    def resolve_dotted(self, module: Module, expression: ast.expr) -> str | None:
        """Return the full dotted name of what an expression stands for, if that is sure.

        ``torch.library.custom_op``, ``torch.ops.ns.op``, ``builtins.len``; for a definition or
        a module of the tree, its module's name and its own.
        """
        target = self._resolver.resolve(module, expression).certain
        if target is None:
            return None
        if target.dotted is not None:
            return target.dotted
        if target.module is None:
            return None
        if target.node is None:
            return target.module.name
        names: list[str] = []
        node: ast.AST | None = target.node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return None
        while node is not None:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.append(node.name)
            node = target.module.parents.get(node)
        return ".".join([target.module.name, *reversed(names)])

    def op_of(self, module: Module, expression: ast.expr) -> Op | None:
        """Return the op an expression stands for (itself, or by ``torch.ops``), if that is sure."""
        return self._reference_finder().sure_op(module, expression)

    def bindings_in_scope(self, module: Module, node: ast.AST) -> set[str]:
        """Return every name bound in the scope a node stands in, or in one around it.

        A new name that is none of these hides nothing there. Builtins are not among them;
        names that star imports of tree modules bring are.
        """
        names = self.tree.scopes(module).names_at(node)
        for statement in self.tree.scopes(module).top.stars:
            source, _ = self._resolver.source_of(module, statement)
            if source is not None:
                top = self.tree.scopes(source).top
                names |= {n for n in top.bindings if self._resolver.exports(source, n) is not False}
        return names

    def references(self, op: Op) -> list[Reference]:
        """Return every place in the root that denotes an op or may, by file and position."""
        if op not in self._references:
            if op not in self.all_ops:
                return []
            with collector_paused():
                self._references[op] = self._reference_finder().find(op)
        return self._references[op]

    def _reference_finder(self) -> ReferenceFinder:
        if self._made_finder is None:
            self._made_finder = ReferenceFinder(
                self.tree, self._resolver, self.all_ops, self._found.by_object
            )
        return self._made_finder


def load_project(
    paths: Sequence[Path],
    root: Path | None = None,
    exclude: Sequence[str] = (),
    overlay: Mapping[Path, bytes] | None = None,
    registrars: Sequence[Registrar] = (),
    *,
    notebooks: bool = False,
    earlier: Project | None = None,
    found: FoundFiles | None = None,
    scanner: Scanner | None = None,
) -> Project:
    """Read a project. Nothing in it is imported or run.

    ``paths`` (files or directories) say whose ops are wanted, ``root`` where the rest of the
    project is; without it, ``find_root`` decides. ``exclude`` are git-ignore patterns, relative
    to the root, of files to leave out altogether: neither ops nor references in them are seen.
    ``overlay`` maps paths to bytes that are read in place of what is on disk, also where no such
    file is there. ``registrars`` describe helpers whose body is not in sight. ``notebooks`` has
    the cells of notebooks read too; what stands in them cannot be written to. ``earlier`` is what
    the same call returned before, perhaps with another overlay: files are taken to be those they
    were then, and what is the same is not read again. ``found`` is what ``project_files`` says of
    the paths, where it was asked before, ``scanner`` what looks through those very files.
    """
    root = real_path(root if root is not None else find_root(paths))
    kept: Mapping[Path, bytes] = {}
    if earlier is not None:
        known, selected = earlier.known_files, earlier.selected
    else:
        found = found or project_files(paths, root, exclude, notebooks=notebooks)
        known, selected, kept = found.known, found.selected, found.kept
    files = known | frozenset(overlay or ())
    with collector_paused():
        before = earlier.tree if earlier is not None else None
        tree = Tree(
            root, files, overlay, notebooks=notebooks, earlier=before, kept=kept, scanner=scanner
        )
        return Project(root, selected, tree, registrars, known)

"""The Python files of a project by module name, each parsed when it is first asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscaffold.fs.text import SourceError, SourceText, decode, read_source
from opscaffold.source.calls import CallIndex
from opscaffold.source.files import parts_of, read_bytes
from opscaffold.source.load import Problem, parse_module
from opscaffold.source.model import Module
from opscaffold.source.notebooks import SUFFIX, Notebook, NotebookError, read_notebook
from opscaffold.source.questions import Question, answers
from opscaffold.source.scopes import Scopes

if TYPE_CHECKING:
    from opscaffold.source.scanner import Scanner

# What is kept of the files' contents once read, in bytes. Looking through all files of a usual
# tree several times then opens each once; a larger tree reads the rest again.
KEPT = 48_000_000
# A longer file is not parsed: its syntax tree can take some hundred times its own memory.
LONGEST = 5_000_000


class Tree:
    """All Python files of a project. Modules are parsed once, on demand.

    ``problems`` holds what could not be read so far. ``overlay`` holds what files are taken to
    hold in place of what is on disk, ``kept`` what was read of them before; ``scanner`` looks
    through the same files, as they are on disk.
    """

    def __init__(
        self,
        root: Path,
        files: Iterable[Path],
        overlay: Mapping[Path, bytes] | None = None,
        *,
        notebooks: bool = False,
        earlier: Tree | None = None,
        kept: Mapping[Path, bytes] | None = None,
        scanner: Scanner | None = None,
    ) -> None:
        self.root = root
        self._notebooks: dict[Path, Notebook | NotebookError] | None = {} if notebooks else None
        self.overlay = dict(overlay or {})
        self.files = frozenset(files)
        self._scanner = None if overlay or notebooks else scanner
        self.ordered: Sequence[Path] = (
            sorted(self.files, key=parts_of) if self._scanner is None else self._scanner.files
        )
        """The files, by path."""
        self.problems: list[Problem] = []
        self._kept: dict[Path, bytes] = dict(kept or {})
        self._room = KEPT - sum(map(len, self._kept.values()))
        # The directory from which Python would import what stands in a directory.
        self._base: dict[Path, Path] = {}
        self._directories: set[Path] = set()
        self._modules: dict[Path, Module | None] = {}
        self._scopes: dict[Module, Scopes] = {}
        self._calls: dict[Module, CallIndex] = {}
        self._found: dict[tuple[str, Path], tuple[Path, bool] | None] = {}
        self._bases: dict[str, list[Path]] = {}
        self._changes_path: dict[Path, bool] = {}
        self._answers: dict[Question, dict[Path, Any]] = {}
        # What was answered of files that are still the same.
        self._past: dict[Question, dict[Path, Any]] = {}
        self._new: frozenset[Path] = frozenset()
        self._earlier: Tree | None = None
        if earlier is not None:
            self._take_over(earlier)
        self._look_over_directories()

    def _look_over_directories(self) -> None:
        # By text, as a Path costs more than all else that is asked of it. The name in the base that
        # leads to a directory is None where the directory is the base.
        known: dict[str, tuple[Path, str | None]] = {}
        for file in self.ordered:
            place, name = os.path.split(file)
            if place not in known:
                directory = file.parent
                base = self._base_of(directory)
                top = None if base == directory else directory.parts[len(base.parts)]
                known[place] = base, top
                while directory not in self._directories:
                    self._directories.add(directory)
                    directory = directory.parent
            base, top = known[place]
            bases = self._bases.setdefault((top or name).removesuffix(".py"), [])
            if base not in bases:
                bases.append(base)

    @cached_property
    def _stems(self) -> dict[str, list[Path]]:
        """The directories that hold a module of a name, in whatever package it is."""
        stems: dict[str, list[Path]] = {}
        for file in self.ordered:
            stems.setdefault(file.stem, []).append(file.parent)
        return stems

    def _take_over(self, earlier: Tree) -> None:
        """Keep what an earlier reading of the tree read from disk, and did not find wanting."""
        self._earlier = earlier
        self._kept, self._room = earlier._kept, earlier._room
        self._past = earlier._answers
        overlaid = {*self.overlay, *earlier.overlay}
        self._new = (self.files - earlier.files) | {p for p in overlaid if p in self.files}
        # Of what was read still earlier, the earlier tree has taken what it needs.
        earlier._earlier = None

    def _known_module(self, path: Path, name: str, source: SourceText) -> Module | None:
        """Return a module as it was parsed earlier, with what is known of it alone."""
        earlier = self._earlier
        module = earlier._modules.get(path) if earlier is not None else None  # noqa: SLF001
        if earlier is None or module is None or module.name != name or module.source != source:
            return None
        if module in earlier._scopes:  # noqa: SLF001
            self._scopes[module] = earlier._scopes[module]  # noqa: SLF001
        if module in earlier._calls:  # noqa: SLF001
            self._calls[module] = earlier._calls[module]  # noqa: SLF001
        return module

    def load(self, path: Path) -> Module | None:
        """Return the parsed file, or None where it is none of the tree or cannot be read."""
        if path not in self._modules:
            module: Module | None = None
            if path in self.files:
                loaded = self._parse(path)
                if isinstance(loaded, Problem):
                    self.problems.append(loaded)
                else:
                    module = loaded
            self._modules[path] = module
        return self._modules[path]

    def read(self, path: Path) -> bytes | None:
        """Return what a file holds, or is taken to hold; None where it cannot be read.

        Of a notebook it is the Python in its cells.
        """
        if self._notebooks is not None and path.suffix == SUFFIX:
            notebook = self.notebook(path)
            return None if notebook is None else notebook.text.encode("utf-8", "surrogatepass")
        data = self.overlay.get(path)
        return self._read(path) if data is None else data

    def ask(self, question: Question, among: Collection[Path] | None = None) -> dict[Path, Any]:
        """Return the answers to a question about what files hold, in their order.

        Files whose answer is empty are left out; ``among`` are those asked about, else all.
        """
        wanted = None
        if among is not None and len(among) < len(self.ordered):
            wanted = [n for n, path in enumerate(self.ordered) if path in among]
        if self._scanner is not None:
            found = self._scanner.ask(question, wanted, self.read)
        elif wanted is not None:
            found = answers(question, self.ordered, wanted, self.read)
        else:
            return dict(self._answer(question))
        return {self.ordered[number]: answer for number, answer in found}

    def _answer(self, question: Question) -> dict[Path, Any]:
        """Ask a question of all files, or of those whose answer is not known from earlier."""
        if question not in self._answers:
            past = self._past.get(question)
            numbers: Iterable[int] = range(len(self.ordered))
            if past is not None:
                numbers = [n for n in numbers if self.ordered[n] in self._new]
            found = answers(question, self.ordered, numbers, self.read)
            known = {self.ordered[number]: answer for number, answer in found}
            if past:
                same = {p: a for p, a in past.items() if p in self.files and p not in self._new}
                both = {**same, **known}
                known = {path: both[path] for path in self.ordered if path in both}
            self._answers[question] = known
        return self._answers[question]

    def _read(self, path: Path) -> bytes | None:
        data = self._kept.get(path)
        if data is None:
            data = read_bytes(path)
            if data is not None and path in self.files and len(data) <= self._room:
                self._kept[path] = data
                self._room -= len(data)
        return data

    def notebook(self, path: Path) -> Notebook | None:
        """Return a notebook of the tree; None for other files, and where it cannot be read."""
        if self._notebooks is None or path.suffix != SUFFIX:
            return None
        if path not in self._notebooks:
            data = self.overlay.get(path)
            data = read_bytes(path) if data is None else data
            try:
                self._notebooks[path] = read_notebook(data or b"")
            except NotebookError as error:
                self._notebooks[path] = error
        found = self._notebooks[path]
        return None if isinstance(found, NotebookError) else found

    def _parse(self, path: Path) -> Module | Problem:
        try:
            data = self.overlay.get(path)
            if self._notebooks is not None and path.suffix == SUFFIX:
                notebook = self.notebook(path)
                if notebook is None:
                    return Problem(path, 1, 1, str(self._notebooks[path]))
                source = SourceText(notebook.text, "utf-8")
            else:
                data = self._read(path) if data is None else data
                if data is not None and len(data) > LONGEST:
                    return Problem(path, 1, 1, f"is longer than {LONGEST:,} bytes")
                # What cannot be read is read again for the reason.
                source = read_source(path) if data is None else decode(data, path)
        except SourceError as error:
            return Problem(path, error.line, error.column, error.message)
        name = self.name_of(path)
        return self._known_module(path, name, source) or parse_module(path, name, source)

    def loaded(self) -> list[Module]:
        """Return the modules parsed so far, by path."""
        return sorted((m for m in self._modules.values() if m is not None), key=lambda m: m.path)

    def scopes(self, module: Module) -> Scopes:
        """Return the scopes of a module."""
        if module not in self._scopes:
            self._scopes[module] = Scopes(module)
        return self._scopes[module]

    def calls(self, module: Module) -> CallIndex:
        """Return the calls of a module by name."""
        if module not in self._calls:
            self._calls[module] = CallIndex(module)
        return self._calls[module]

    def base_of(self, path: Path) -> Path:
        """Return the directory from which Python would import the file.

        That is the one above its outermost package.
        """
        return self._base_of(path.parent)

    def _base_of(self, directory: Path) -> Path:
        base = self._base.get(directory)
        if base is None:
            base = directory
            if directory != directory.parent and (directory / "__init__.py") in self.files:
                base = self._base_of(directory.parent)
            self._base[directory] = base
        return base

    def name_of(self, path: Path) -> str:
        """Return the dotted module name of a file.

        By its packages where it has any; otherwise, as a namespace package would, by its path
        from the root (without a leading ``src``).
        """
        base = self.base_of(path)
        if base == path.parent and path.is_relative_to(self.root):
            base = self.root
        parts = list(path.relative_to(base).with_suffix("").parts)
        if base == self.root and parts[0] == "src" and len(parts) > 1:
            del parts[0]
        if parts[-1] == "__init__" and len(parts) > 1:
            del parts[-1]
        return ".".join(parts)

    def at(self, directory: Path, parts: Iterable[str]) -> Path | None:
        """Return the file of the module that stands at these names below a directory."""
        place = directory.joinpath(*parts)
        package = place / "__init__.py"
        if package in self.files:
            return package
        file = place.with_name(place.name + ".py") if place != directory else package
        if file in self.files:
            return file
        for path in (package, file):
            # A link is another name of the module it leads to.
            if path.exists() and (real := path.resolve()) in self.files:
                return real
        return None

    def is_package_directory(self, directory: Path) -> bool:
        """Say whether files of the tree lie below the directory."""
        return directory in self._directories

    def relative(self, importer: Path, level: int) -> Path | None:
        """Return the directory that ``from ..`` with so many dots starts at."""
        directory = importer.parent
        for _ in range(level - 1):
            directory = directory.parent
        return directory if self.is_package_directory(directory) else None

    def find(self, dotted: str, importer: Path) -> tuple[Path, bool] | None:
        """Return the file that an absolute import reads, and whether that is sure.

        Not sure is a module that is known by its name only, standing in a directory that need
        not be on the import path, and any name that several files bear.
        """
        key = (dotted, self.base_of(importer))
        if key not in self._found:
            self._found[key] = self._find(dotted, importer)
        return self._found[key] or self._find_by_path(dotted, importer)

    def _find_by_path(self, dotted: str, importer: Path) -> tuple[Path, bool] | None:
        """Return what an import finds whose file adds a directory of the tree to ``sys.path``."""
        parts = dotted.split(".")
        places = self._stems.get(parts[0], ())
        if len(places) != 1 or parts[0] in sys.stdlib_module_names or parts[0] == "torch":
            return None
        if importer not in self._changes_path:
            self._changes_path[importer] = b"sys.path" in (self.read(importer) or b"")
        if not self._changes_path[importer]:
            return None
        file = self.at(places[0], parts)
        return None if file is None else (file, False)

    def _find(self, dotted: str, importer: Path) -> tuple[Path, bool] | None:
        parts = dotted.split(".")
        # What a tree calls torch is torch itself, or is hidden by it.
        if parts[0] == "torch":
            return None
        near = self.base_of(importer)
        for base in (near, self.root, self.root / "src"):
            file = self.at(base, parts)
            if file is not None:
                return file, True
        if parts[0] in sys.stdlib_module_names:
            return None
        others = [f for b in self._bases.get(parts[0], ()) if (f := self.at(b, parts))]
        if not others:
            return None
        packaged = len(parts) > 1 or others[0].name == "__init__.py"
        return others[0], len(others) == 1 and packaged

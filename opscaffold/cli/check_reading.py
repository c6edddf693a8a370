"""Which project a check reads, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.cli.outcome import Format, terminal_width
from opscaffold.cli.streams import read_stdin
from opscaffold.config.load import load_config
from opscaffold.errors import UserError
from opscaffold.fs.paths import real_path
from opscaffold.source.files import find_root, without_excluded
from opscaffold.source.found import FoundFiles, project_files

if TYPE_CHECKING:
    from opscaffold.cli.check_cache import Entry
    from opscaffold.source.project import Project
    from opscaffold.source.questions import Question
    from opscaffold.source.scanner import Scanner

STDIN = "-"
STDIN_NAME = "stdin.py"
MANY = 300
"""With fewer files, a second process takes longer to start than it saves."""


class Reading:
    """Which project is read: its root, its configuration, and what stands in for files."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path | None,
        exclude: list[str] | None,
        stdin_filename: Path | None,
        *,
        notebooks: bool = False,
        force_exclude: bool = False,
    ) -> None:
        self.overlay: dict[Path, bytes] = {}
        self._found: FoundFiles | None = None
        self._scanner: Scanner | None = None
        if any(str(path) == STDIN for path in paths):
            if len(paths) > 1:
                raise UserError("- stands alone: stdin is one file")
            path = real_path(stdin_filename or Path(STDIN_NAME))
            self.overlay[path] = read_stdin()
            self.paths = [path]
        elif stdin_filename is not None:
            raise UserError("--stdin-filename goes with the path -")
        else:
            self.paths = list(paths) or [Path()]
        for path in [*self.paths, *([root] if root else [])]:
            if path not in self.overlay and not path.exists():
                raise UserError(f"{path}: there is no such file or directory")
        if root is not None and not root.is_dir():
            raise UserError(f"--root: {root} is no directory")
        self.root = real_path(root if root is not None else find_root(self.paths))
        self.config = load_config(self.root)
        self.exclude = self.config.excluded(exclude)
        if force_exclude and not self.overlay:
            self.paths = without_excluded(self.paths, self.root, self.exclude)
        named = any(path.suffix == ".ipynb" for path in self.paths)
        self.notebooks = notebooks or named or self.config.notebooks

    def entry(self, output_format: Format, *asked: object) -> Entry | None:
        """Return where the check is kept; None where it is not."""
        from opscaffold.cli.check_cache import directory, entry

        if directory() is None:
            return None
        width = terminal_width() if output_format is Format.TEXT else None
        named = [path for path in self.paths if not path.is_dir()]
        asked = (*asked, output_format, width, self.config, self.exclude, self.notebooks, named)
        return entry(self.found(), self.root, asked)

    def found(self) -> FoundFiles:
        """Return which files there are, looked up once."""
        if self._found is None:
            self._found = project_files(
                self.paths, self.root, self.exclude, notebooks=self.notebooks
            )
        return self._found

    @contextmanager
    def scanned(self) -> Iterator[None]:
        """Have a second process look through the files, where there are many of them."""
        if not self.overlay and not self.notebooks and len(self.found().known) >= MANY:
            from opscaffold.source.scanner import Scanner

            found = self.found()
            self._scanner = Scanner(found.ordered, found.kept)
        try:
            yield
        finally:
            if self._scanner is not None:
                self._scanner.close()

    def foresee(self, questions: Sequence[Question]) -> None:
        """Say what will be asked of all files."""
        if self._scanner is not None:
            self._scanner.foresee(questions)

    def project(self) -> Project:
        """Read the project."""
        return self._read(self.paths, self.overlay)

    def project_before(
        self, now: Project, contents: Mapping[Path, bytes | None], moved: Mapping[Path, Path]
    ) -> Project | None:
        """Read the project with other contents of files; None where all of its own are as now.

        ``moved`` tells which files went by another name.
        """
        files = set(now.files)
        overlay = {
            # A file that was not there is taken for an empty one.
            path: data or b""
            for path, data in contents.items()
            if path in files or (data is not None and path.suffix == ".py" and not path.exists())
        }
        if not overlay:
            return None
        old = [path for path, new in moved.items() if path in overlay and new in files]
        return self._read([*self.paths, *old], overlay)

    def _read(self, paths: Sequence[Path], overlay: Mapping[Path, bytes]) -> Project:
        from opscaffold.source.project import load_project

        as_found = paths is self.paths and not overlay
        project = load_project(
            paths,
            self.root,
            self.exclude,
            overlay,
            self.config.registrars,
            notebooks=self.notebooks,
            found=self.found() if as_found else None,
            scanner=self._scanner if as_found else None,
        )
        for path in paths:
            # Named by itself, so looked at whatever it holds: it may be no Python at all.
            if not path.is_dir() and not _is_long_and_of_something_else(project, path):
                project.module_for(path)
        return project


def _is_long_and_of_something_else(project: Project, path: Path) -> bool:
    """Whether a file is too long to be parsed, and has no word that would make it worth telling."""
    from opscaffold.fs.paths import real_path
    from opscaffold.source.tree import LONGEST
    from opscaffold.source.words import may_register

    data = project.read(real_path(path))
    return data is not None and len(data) > LONGEST and not may_register(data)

"""Further ops for a package that opscaffold keeps: what that changes, planned before any write.

What the templates make of the package without the ops and with them differs in new files, and in
what is put into files that are there. The author's files get that difference and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opscaffold import __version__
from opscaffold.errors import UserError
from opscaffold.fs.journal import Unit
from opscaffold.fs.tree import Found, Unusable, read_below
from opscaffold.scaffold.add_names import refuse_taken
from opscaffold.scaffold.add_width import line_length
from opscaffold.scaffold.answers import answers_of
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.layout import TooWideError
from opscaffold.scaffold.managed import RECORD_FILES, Record, record_files
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.managed_render import rendered
from opscaffold.scaffold.spec import OpSpec, PackageSpec
from opscaffold.scaffold.wiring import wire
from opscaffold.scaffold.wiring_error import WiringError

Files = Mapping[PurePosixPath, Generated]

_BRING_BACK = "bring it back from version control"
# Whatever ops there are, their modules and tests import these.
_NEEDED = frozenset({"__init__.py", "_contract.py", "opscaffold_checks.py"})


class CannotAddError(UserError):
    """The package cannot take the ops as it is. The text names each place, and what would do."""


@dataclass(frozen=True, slots=True)
class ByHand:
    """What the author sees to: they said so, or it is theirs alone. ``where`` names the place."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Addition:
    """What adding ops does. ``changes`` map each path below the root to (old, new) bytes.

    The record is among them. ``executable`` are new files that may be executed.
    """

    root: Path
    spec: PackageSpec
    ops: tuple[OpSpec, ...]
    changes: Mapping[PurePosixPath, tuple[bytes | None, bytes]]
    by_hand: tuple[ByHand, ...] = ()
    executable: tuple[PurePosixPath, ...] = ()

    @property
    def shown(self) -> dict[PurePosixPath, tuple[bytes | None, bytes]]:
        """The changes that a person reads: those of the record follow from them."""
        return {path: both for path, both in self.changes.items() if path not in RECORD_FILES}

    def unit(self) -> Unit:
        """All of it as one unit of a journalled write."""
        name = ", ".join(op.contract.name for op in self.ops)
        return Unit(f"add {name}", {self.root / path: both for path, both in self.changes.items()})


def plan_addition(
    root: Path,
    record: Record,
    spec: PackageSpec,
    count: int,
    *,
    own: Path | None = None,
    by_hand: Collection[PurePosixPath] = (),
) -> Addition:
    """Plan to add the last ``count`` ops of ``spec`` to the package at ``root``.

    ``spec`` describes the whole package with them. ``own`` are templates of the user's own,
    ``by_hand`` the files that the author will see to. Nothing is written. Raises CannotAddError,
    which lists every obstacle, and what ``render_files`` raises.
    """
    return _Planner(root, record, spec, count, own, by_hand).plan()


class _Planner:
    def __init__(
        self,
        root: Path,
        record: Record,
        spec: PackageSpec,
        count: int,
        own: Path | None,
        by_hand: Collection[PurePosixPath],
    ) -> None:
        self.root = root
        self.record = record
        self.spec = spec
        self.former = replace(spec, ops=spec.ops[: len(spec.ops) - count])
        self.added = spec.ops[len(spec.ops) - count :]
        self.own = own
        self.left = by_hand
        self.obstacles: list[str] = []
        self.by_hand: list[ByHand] = []
        self.changes: dict[PurePosixPath, tuple[bytes | None, bytes]] = {}

    def plan(self) -> Addition:
        refuse_taken(self.root, self.record, self.spec, self.added)
        before, after = self._rendered(self.former), self._rendered(self.spec)
        self._refuse_outdated(before)
        width = line_length(self.root, before)
        old, new = before, after
        if width is not None:
            old, new = self._rendered(self.former, width), self._rendered(self.spec, width)
        self._refuse_unknown(new)
        length = width if width is not None else _width_of(new)
        for path, file in new.items():
            self._file(path, old.get(path), file, length)
        if self.obstacles:
            raise CannotAddError("\n".join(self.obstacles))
        self._add_record(before, after)
        self._say_needs()
        made = [path for path, (was, _) in self.changes.items() if was is None]
        return Addition(
            self.root,
            self.spec,
            self.added,
            dict(sorted(self.changes.items())),
            tuple(self.by_hand),
            tuple(path for path in made if path in new and new[path].executable),
        )

    def _rendered(self, spec: PackageSpec, width: int | None = None) -> Files:
        try:
            return rendered(spec, self.record.adopted, self.own, width)
        except TooWideError:
            raise CannotAddError(
                f"an op needs longer lines than the {width} that ruff is told in this package: "
                "give its arguments shorter names, or raise line-length"
            ) from None

    # What must hold before anything is planned.

    def _refuse_outdated(self, now: Files) -> None:
        """What is put in must fit what is there: the templates and answers that made it."""
        for path, file in self.record.files.items():
            if now.get(path) != file and isinstance(read_below(self.root, path), Found):
                raise CannotAddError(
                    f"{path} is not what this opscaffold, its templates and the answers in "
                    f"{RECORD_FILES[0]} make: run opscaffold update first"
                )

    def _refuse_unknown(self, new: Files) -> None:
        """In a package that somebody wrote, nothing is built but Python."""
        adopted = self.record.adopted
        if adopted is None:
            return
        if any(op.wraps is not None for op in self.added):
            raise CannotAddError(
                "kernels that are functions get a package of their own, and what the packages of "
                "an adopted one are is its author's: add the op by --schema, and call the function "
                "in its kernel"
            )
        languages = {op.kernel.value for op in self.added} - {"torch", "numpy", "triton"}
        if languages:
            raise CannotAddError(
                f"a kernel in {min(languages)} needs to be built, and how an adopted "
                "package is built is its author's: take another --kernel"
            )
        missing = [
            path for path in new if adopted.needs(path) and read_below(self.root, path) is None
        ]
        if missing:
            raise CannotAddError(
                f"{missing[0]} is gone, which added ops need: bring it back from version control, "
                "or remove .opscaffold and run opscaffold adopt"
            )

    # File by file.

    def _file(self, path: PurePosixPath, old: Generated | None, new: Generated, width: int) -> None:
        theirs = read_below(self.root, path)
        if old is not None and old.data == new.data:
            if theirs is None and path.name in _NEEDED and not self.record.adopted:
                self._obstacle(path, "it is gone, and ops need it", _BRING_BACK)
            return
        if isinstance(theirs, Unusable) and (old is None or path not in self.left):
            self._obstacle(
                path, f"it {theirs.reason}", f"put the file itself there, or --by-hand {path}"
            )
        elif old is None and not isinstance(theirs, Unusable):
            self._new_file(path, theirs, new)
        elif old is None:
            return
        elif path in self.left:
            if theirs is not None:
                self.by_hand.append(ByHand(str(path), _lines_added(old.data, new.data)))
        elif theirs is None and self.record.adopted and path.name == "conftest.py":
            self.by_hand.append(ByHand(str(path), _lines_added(old.data, new.data)))
        elif theirs is None:
            self._obstacle(
                path, "it is gone", f"{_BRING_BACK}, or --by-hand {path} where you need none"
            )
        elif isinstance(theirs, Found):
            self._wired(path, theirs, old, new, width)

    def _new_file(self, path: PurePosixPath, theirs: Found | None, new: Generated) -> None:
        there = path if theirs is not None else _alike(self.root, path)
        if there is not None:
            self._obstacle(there, "it is there already", "name the op otherwise, or move the file")
            return
        twin = _twin(self.root, path)
        if twin is not None:
            remedy = "rename one, or make their folders packages with an __init__.py"
            self._obstacle(twin, f"pytest cannot tell it from {path} by its name", remedy)
            return
        self.changes[path] = (None, new.data)

    def _wired(
        self, path: PurePosixPath, theirs: Found, old: Generated, new: Generated, width: int
    ) -> None:
        package = self.spec.module if path.name == "__init__.py" else ""
        try:
            made = wire(path, theirs.data, old.data, new.data, width=width, package=package)
        except WiringError as error:
            place = f"{path}:{error.line}" if error.line else str(path)
            text = f"{place}: {error.reason}"
            if error.by_hand:
                text += f"; mend it, or write this there and pass --by-hand {path}:\n"
                text += "\n".join(f"    {line}" for line in error.by_hand.splitlines())
            self.obstacles.append(text)
            return
        if made != theirs.data:
            self.changes[path] = (theirs.data, made)

    def _obstacle(self, path: PurePosixPath, reason: str, remedy: str = "") -> None:
        self.obstacles.append(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))

    def _say_needs(self) -> None:
        """In a package that somebody wrote, what it depends on is written where they know."""
        if self.record.adopted is None:
            return
        had = {each for op in self.former.ops for each in LANGUAGES[op.kernel].dependencies().run}
        wanted = [each for op in self.added for each in LANGUAGES[op.kernel].dependencies().run]
        missing = [each for each in dict.fromkeys(wanted) if each not in had]
        if missing:
            self.by_hand.append(ByHand("what the package depends on", "\n".join(missing)))

    # The record.

    def _add_record(self, before: Files, after: Files) -> None:
        """Note the answers, and what was generated: the base that an update starts from."""
        files = dict(self.record.files)
        for path, file in after.items():
            managed = path in files or path not in before
            if managed and before.get(path) != file:
                files[path] = file
        answers = answers_of(self.spec)
        record = replace(
            self.record,
            answers=answers,
            files=dict(sorted(files.items())),
            origin=replace(self.record.origin, version=__version__),
        )
        for path, data in record_files(record).items():
            was = read_below(self.root, path)
            if isinstance(was, Unusable):
                raise CannotAddError(f"{path}: it {was.reason}")
            self.changes[path] = (None if was is None else was.data, data)


def _width_of(files: Files) -> int:
    """The line length that generated files were laid out for."""
    from opscaffold.scaffold.layout import WIDTHS

    lines = (
        len(line)
        for path, file in files.items()
        if path.suffix == ".py"
        for line in file.data.decode("utf-8", "replace").splitlines()
    )
    widest = max(lines, default=0)
    return next((width for width in WIDTHS if widest <= width), WIDTHS[-1])


def _alike(root: Path, path: PurePosixPath) -> PurePosixPath | None:
    """A file that is the same one where case does not tell names apart."""
    try:
        names = sorted(each.name for each in (root / path.parent).iterdir())
    except OSError:
        return None
    found = next((name for name in names if name.lower() == path.name.lower()), None)
    return None if found is None else path.with_name(found)


def _twin(root: Path, path: PurePosixPath) -> PurePosixPath | None:
    """A test module of the same name: outside of packages, the name is all that pytest imports."""
    target = root / path
    if not path.name.startswith("test_") or (target.parent / "__init__.py").exists():
        return None
    for found in sorted((root / path.parts[0]).rglob(path.name)):
        if found != target and not (found.parent / "__init__.py").exists():
            return PurePosixPath(found.relative_to(root).as_posix())
    return None


def _lines_added(old: bytes, new: bytes) -> str:
    from difflib import ndiff

    was, now = (data.decode("utf-8", "replace").splitlines() for data in (old, new))
    return "\n".join(line[2:] for line in ndiff(was, now) if line.startswith("+ "))

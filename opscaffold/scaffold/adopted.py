"""A package that somebody wrote and opscaffold took in: where things lie in it, and whose they are.

Templates render the layout of a generated package. Here the few files of it that an adopted one
needs are put where they belong in the layout that is there; all others are its author's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

SAMPLES = PurePosixPath("opscaffold_samples.py")
CHECKS = "opscaffold_checks.py"

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Written:
    """An op that its author wrote: its answers. ``schema`` is empty where none can be told."""

    name: str
    file: str
    schema: str = ""
    kind: str = ""
    autograd: bool = False


@dataclass(frozen=True, slots=True)
class Adopted:
    """Where an adopted package keeps what a generated one has in fixed places.

    Paths are relative to its root, ``.`` for the root itself: ``source`` is the directory that
    holds the package ``module``, ``tests`` that of its tests. ``folder`` and ``support`` are those
    of ``PackageSpec``.
    """

    module: str
    source: str = "src"
    tests: str = "tests"
    folder: str = "ops"
    support: str = "_contract"
    written: tuple[Written, ...] = field(default=())

    @property
    def package(self) -> PurePosixPath:
        """The directory of the package."""
        return PurePosixPath(self.source, self.module)

    def place(self, path: PurePosixPath, module: str) -> PurePosixPath | None:
        """Where a rendered file goes, None for one that an adopted package has no use for."""
        if path == SAMPLES:
            return path
        if path.parts[0] == "tests" and len(path.parts) == 2:
            return PurePosixPath(self.tests, path.name)
        inside = PurePosixPath("src", module)
        if not path.is_relative_to(inside):
            return None
        below = path.relative_to(inside)
        if below.parts[0] == "ops" and len(below.parts) > 1:
            return self.package.joinpath(self.folder, *below.parts[1:])
        if below == PurePosixPath("_contract.py"):
            return self.package / f"{self.support}.py"
        # What kernels of some languages share lies beside it.
        return self.package / below if len(below.parts) == 1 and below.suffix == ".py" else None

    def needs(self, path: PurePosixPath) -> bool:
        """Whether a file at its place here is one that every op that is added relies on."""
        return path in (
            SAMPLES,
            PurePosixPath(self.tests, CHECKS),
            self.package / f"{self.support}.py",
            self.package / self.folder / "__init__.py",
        )

    def header(self) -> dict[str, str]:
        """What the record says of it beside its own keys."""
        return {
            "module": self.module,
            "source": self.source,
            "tests": self.tests,
            "folder": self.folder,
            "support": self.support,
        }


def adopted_of(header: Mapping[str, object]) -> Adopted | None:
    """What a record's table says, None for a generated package. Raises ValueError."""
    if "module" not in header:
        return None
    told: dict[str, str] = {}
    for key in ("module", "source", "tests", "folder", "support"):
        value = header.get(key)
        if not isinstance(value, str) or not value:
            raise ValueError(f"has no {key} under [opscaffold]")
        path = PurePosixPath(value)
        names = key in ("module", "folder", "support")
        if names and not _IDENTIFIER.fullmatch(value):
            raise ValueError(f"has a {key} under [opscaffold] that is no name")
        if path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value:
            raise ValueError(f"has a {key} under [opscaffold] that leads out of the package")
        told[key] = value
    tables = header.get("written", [])
    written: list[Written] = []
    for table in tables if isinstance(tables, list) else [None]:
        if not isinstance(table, dict) or not table.get("name"):
            raise ValueError("has a table under [[opscaffold.written]] that names no op")
        name, file, schema, kind = (
            str(table.get(key, "")) for key in ("name", "file", "schema", "kind")
        )
        written.append(Written(name, file, schema, kind, table.get("autograd") is True))
    return Adopted(**told, written=tuple(written))


def written_text(adopted: Adopted) -> str:
    """The ops that their author wrote, as tables for the end of a record."""
    from opscaffold.scaffold.answers_file import line_of

    out: list[str] = []
    for op in adopted.written:
        out.append("\n[[opscaffold.written]]\n")
        out += [line_of("name", op.name), line_of("file", op.file)]
        if op.schema:
            out += [line_of("schema", op.schema), line_of("kind", op.kind)]
            out.append(line_of("autograd", op.autograd))
    return "".join(out)

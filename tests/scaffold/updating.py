"""Small packages with a record, to be updated without rendering anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from opscaffold.scaffold.given import Answers, Given
from opscaffold.scaffold.managed import (
    Origin,
    Record,
    read_record,
    write_record,
)
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.merge import Resolution
from opscaffold.scaffold.update_apply import Update, apply, between
from opscaffold.scaffold.update_plan import Action, Conflict, Entry

LINES = "".join(f"line {number}\n" for number in range(1, 13))
ANSWERS = Answers({"package": Given("some-ops")}, ())
Files = Mapping[str, str | bytes | Generated]


def generated(files: Files) -> dict[PurePosixPath, Generated]:
    def of(content: str | bytes | Generated) -> Generated:
        if isinstance(content, Generated):
            return content
        return Generated(content.encode() if isinstance(content, str) else content)

    return {PurePosixPath(name): of(content) for name, content in files.items()}


def record(files: Files, version: str = "0.0.1") -> Record:
    return Record(ANSWERS, generated(files), Origin(version, "0" * 64))


class Package:
    """A package as it was generated, on the disk and with its record."""

    def __init__(self, root: Path, files: Files) -> None:
        self.root = root
        for path, file in generated(files).items():
            self.write(path.as_posix(), file.data)
            if file.executable:
                root.joinpath(path).chmod(0o755)
        write_record(root, record(files))

    def write(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_bytes().decode()
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def plan(self, files: Files, resolution: Resolution | None = None) -> Update:
        self.asked: list[Conflict] = []

        def resolve(conflict: Conflict) -> Resolution | None:
            self.asked.append(conflict)
            return resolution

        return between(self.root, read_record(self.root), record(files, "0.0.2"), resolve)

    def update(self, files: Files, resolution: Resolution | None = None) -> dict[str, Entry]:
        """Plan and write; then hold that nothing is left to do but what is in conflict."""
        planned = self.plan(files, resolution)
        apply(planned)
        again = self.plan(files)
        assert not again.writes, again.changes
        assert {e.path for e in again.conflicts} == {e.path for e in planned.conflicts}
        return {entry.path.as_posix(): entry for entry in planned.entries}

    def bases(self) -> dict[str, bytes]:
        return {path.as_posix(): f.data for path, f in read_record(self.root).files.items()}

    def version(self) -> str:
        return read_record(self.root).origin.version

    def text(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def tree(self) -> dict[str, tuple[bytes, int]]:
        return {
            path.relative_to(self.root).as_posix(): (path.read_bytes(), path.stat().st_mode)
            for path in self.root.rglob("*")
            if path.is_file()
        }


def actions(entries: Mapping[str, Entry]) -> dict[str, Action]:
    return {name: entry.action for name, entry in entries.items()}

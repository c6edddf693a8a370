"""The record that a generated package keeps of itself: how it was made, and what that gave.

``.opscaffold/answers.toml`` holds the answers as ``new --answers`` reads them, and which opscaffold
and which templates rendered them. ``.opscaffold/generated.zip`` holds every file as it was
rendered, before its author changed a thing: the base of each three-way merge, which no later
opscaffold could render again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opscaffold import __version__
from opscaffold.errors import UserError
from opscaffold.fs.atomic import shown
from opscaffold.scaffold.adopted import Adopted, adopted_of, written_text
from opscaffold.scaffold.answers_file import RECORD, dump, parse
from opscaffold.scaffold.given import Answers
from opscaffold.scaffold.managed_files import DamagedArchiveError, Generated, pack, unpack

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DIRECTORY = ".opscaffold"
ANSWERS = PurePosixPath(DIRECTORY, "answers.toml")
GENERATED = PurePosixPath(DIRECTORY, "generated.zip")
RECORD_FILES = (ANSWERS, GENERATED)
FORMAT = 1

_VERSION = re.compile(r"\d+(\.\d+)*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class NotManagedError(UserError):
    """A directory that is no generated package, or one that keeps no record. ``root`` names it."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"{shown(root)} is no package that opscaffold keeps: it holds no {ANSWERS}. Make one "
            "with opscaffold new, or let opscaffold adopt take in one that is there"
        )
        self.root = root


class DamagedRecordError(UserError):
    """A record that cannot be used as it is. The text names the file, the fault and the way out."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{shown(path)} {reason}: bring it back from version control, or remove "
            f"{DIRECTORY} and run opscaffold adopt"
        )
        self.path = path


class NewerRecordError(UserError):
    """A record of a later opscaffold, whose templates and answers this one does not know."""

    def __init__(self, root: Path, version: str) -> None:
        super().__init__(
            f"{shown(root)} was made or updated by opscaffold {version}, and this is "
            f"{__version__}: install that one or a later one"
        )
        self.version = version


@dataclass(frozen=True, slots=True)
class Origin:
    """What rendered a package: opscaffold's version, and the templates by their digest.

    ``own`` says where the user's own templates lie, as ``managed_origin.recorded_source`` writes
    it; "" for those that opscaffold brings.
    """

    version: str
    templates: str
    own: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a generated package. ``files`` are as rendered, by path below the root.

    ``adopted`` is set for a package that somebody wrote: the answers are then those of the ops that
    were added since, and ``files`` what opscaffold put beside what was there.
    """

    answers: Answers
    files: Mapping[PurePosixPath, Generated]
    origin: Origin
    adopted: Adopted | None = None


def is_managed(root: Path) -> bool:
    """Whether a directory holds a record; nothing is read."""
    return root.joinpath(ANSWERS).is_file()


def find_package(start: Path) -> Path:
    """The package that a file or directory is in: the nearest directory with a record.

    Raises NotManagedError where there is none up to the root of the file system.
    """
    start = start.absolute()
    for directory in (start, *start.parents):
        if is_managed(directory):
            return directory
    raise NotManagedError(start)


def read_record(root: Path) -> Record:
    """Read the record of the package at ``root``.

    The answers are those of the file, edits included: each is looked at by itself, not together.
    Raises NotManagedError where there is no record, NewerRecordError, DamagedRecordError, and
    AnswerError for an answer that cannot be used. All of them are UserErrors.
    """
    answers_path, files_path = root.joinpath(ANSWERS), root.joinpath(GENERATED)
    if not is_managed(root):
        raise NotManagedError(root)
    text = _read(answers_path)
    try:
        text_ = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DamagedRecordError(answers_path, "is not UTF-8") from None
    answers = _answers(text_, answers_path, root)
    origin = _origin(text_, answers_path, root)
    try:
        files = unpack(_read(files_path))
    except DamagedArchiveError as error:
        raise DamagedRecordError(files_path, f"cannot be read: {error}") from None
    try:
        adopted = adopted_of(_header(text_, answers_path, root))
    except ValueError as error:
        raise DamagedRecordError(answers_path, str(error)) from None
    return Record(answers, files, origin, adopted)


def record_files(record: Record) -> dict[PurePosixPath, bytes]:
    """The files of a record, by path below the root: for writing them with others in one unit.

    The same record gives the same bytes, on every system.
    """
    header: dict[str, str | int] = {
        "record": FORMAT,
        "version": record.origin.version,
        "templates": record.origin.templates,
    }
    if record.origin.own:
        header["own"] = record.origin.own
    if record.adopted is not None:
        header |= record.adopted.header()
    text = dump(record.answers, header)
    if record.adopted is not None:
        text += written_text(record.adopted)
    return {
        ANSWERS: text.encode("utf-8"),
        GENERATED: pack(record.files),
    }


def write_record(root: Path, record: Record) -> None:
    """Write or replace the record of the package at ``root``: both files, or neither.

    Raises what ``write_units`` raises.
    """
    # `new` writes in another way, and is not to wait for this.
    from opscaffold.fs.journal import Unit, write_units

    changes: dict[Path, tuple[bytes | None, bytes]] = {}
    for name, data in record_files(record).items():
        path = root.joinpath(name)
        changes[path] = (path.read_bytes() if path.exists() else None, data)
    root.joinpath(DIRECTORY).mkdir(exist_ok=True)
    write_units(root, [Unit("the record", changes)])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise DamagedRecordError(path, f"cannot be read ({reason.lower()})") from None


def _answers(text: str, path: Path, root: Path) -> Answers:
    # A later opscaffold may know answers that this one does not: say that first.
    _header(text, path, root)
    return parse(text, shown(path))


def _origin(text: str, path: Path, root: Path) -> Origin:
    header = _header(text, path, root)
    templates, own = header.get("templates"), header.get("own", "")
    if not isinstance(templates, str) or not _DIGEST.fullmatch(templates):
        raise DamagedRecordError(path, f"tells no digest of templates under [{RECORD}]")
    if not isinstance(own, str) or "\0" in own:
        raise DamagedRecordError(path, f"has an own under [{RECORD}] that is no path")
    return Origin(str(header["version"]), templates, own)


def _header(text: str, path: Path, root: Path) -> Mapping[str, object]:
    try:
        header = tomllib.loads(text).get(RECORD)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        # The reader of answers says where.
        parse(text, shown(path))
        raise
    if not isinstance(header, dict):
        raise DamagedRecordError(path, f"has no table [{RECORD}]")
    version, number = header.get("version"), header.get("record")
    if not isinstance(version, str) or not _VERSION.match(version):
        raise DamagedRecordError(path, f"tells no version under [{RECORD}]")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise DamagedRecordError(path, f"tells no format under [{RECORD}]")
    if number > FORMAT or _release(version) > _release(__version__):
        raise NewerRecordError(root, version)
    return header


def _release(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    numbers = [int(part) for part in found[0].split(".")] if found else [0]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)

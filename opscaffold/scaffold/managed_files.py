"""Files as they were rendered, packed into one archive whose bytes depend on nothing else."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

# The oldest that the format knows.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_FILE, _EXECUTABLE = 0o100644, 0o100755
# A package of hundreds of ops takes a few.
_MAX_BYTES = 1 << 28
_MAX_FILES = 100_000
# Ours are stored; somebody may have packed them again.
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError)
_ON_WINDOWS = re.compile(r"[\\:]")
# What no template makes, and no record may name: git runs what lies in the first.
_FORBIDDEN = frozenset({".git", ".opscaffold", ".opscaffold.run"})


class DamagedArchiveError(ValueError):
    """An archive that this module did not write, or that was changed since."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A file as rendered."""

    data: bytes
    executable: bool = False


def pack(files: Mapping[PurePosixPath, Generated]) -> bytes:
    """The archive of files by their paths. The same files give the same bytes, on every system.

    Raises ValueError for a path that ``unpack`` would refuse.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            info = zipfile.ZipInfo(_checked(path.as_posix()), _TIME)
            info.create_system = _UNIX
            info.external_attr = (_EXECUTABLE if files[path].executable else _FILE) << 16
            # Compressed bytes depend on the version of zlib; git compresses what it keeps.
            info.compress_type = zipfile.ZIP_STORED
            archive.writestr(info, files[path].data)
    return stream.getvalue()


def unpack(data: bytes) -> dict[PurePosixPath, Generated]:
    """The files of an archive, sorted by path.

    Raises DamagedArchiveError for what is no such archive, a path that leads out of the package
    or into git's own files, and for contents beyond reason.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > _MAX_FILES or sum(e.file_size for e in entries) > _MAX_BYTES:
                raise DamagedArchiveError("it holds more than a package can")
            files: dict[PurePosixPath, Generated] = {}
            for entry in entries:
                if entry.compress_type not in _READ:
                    raise DamagedArchiveError(f"{entry.filename!r} is packed in a way unknown here")
                path = PurePosixPath(_checked(entry.filename))
                if path in files:
                    raise DamagedArchiveError(f"it holds {entry.filename!r} twice")
                executable = bool(entry.external_attr >> 16 & 0o100)
                files[path] = Generated(archive.read(entry), executable)
    except (*_BROKEN, NotImplementedError, RuntimeError) as error:
        raise DamagedArchiveError(str(error) or type(error).__name__) from error
    except ValueError as error:
        raise DamagedArchiveError(str(error)) from error
    return dict(sorted(files.items()))


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    odd = path.is_absolute() or ".." in path.parts or path.as_posix() != name or not path.parts
    if odd or "\0" in name or _ON_WINDOWS.search(name) or not _is_text(name):
        raise ValueError(f"{name!r} is no path below a package")
    if _FORBIDDEN & {part.casefold() for part in path.parts}:
        raise ValueError(f"{name!r} is not a template's to make")
    return name


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

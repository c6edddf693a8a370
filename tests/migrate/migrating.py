"""Migrating small projects in a test's directory, and holding what every migration must keep."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscaffold.cli import app
from opscaffold.migrate.engine import Migration, Request, migrate

HEADER = "import torch\nfrom torch import Tensor\n\n\n"

# What stands before a kernel in most tests: line 5 is the first line after it.
OP = HEADER + '@torch.library.custom_op("demo::double", mutates_args=("out",))\n'


@dataclass(frozen=True)
class Answer:
    """What one run of the command answered."""

    code: int
    out: bytes
    err: str


def cli(*arguments: str | Path) -> Answer:
    """Run the command in this process, as a module-scoped fixture may."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.main([str(argument) for argument in arguments])
    out.flush()
    return Answer(code, out.buffer.getvalue(), err.getvalue())  # type: ignore[attr-defined]


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below a directory; text is dedented."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = textwrap.dedent(content).encode()
        path.write_bytes(content)


def run(root: Path, *paths: str, exclude: Sequence[str] = ()) -> Migration:
    """Migrate a directory in memory."""
    request = Request(exclude=tuple(exclude))
    return migrate([root / path for path in paths] or [root], request, root=root)


def apply(migration: Migration) -> None:
    """Write what a migration would change."""
    for path, (_, new) in migration.changes.items():
        path.write_bytes(new)


def migrate_files(
    files: Mapping[str, str | bytes], *paths: str
) -> tuple[dict[str, bytes], Migration]:
    """Migrate a project given as a mapping; return every file afterwards, and the first run.

    A second run must change nothing, and the first may not call anything a fault of opscaffold.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        write(root, files)
        first = run(root, *paths)
        assert not [f for f in first.findings if "fault of opscaffold" in f.message], first.findings
        apply(first)
        after = {name: (root / name).read_bytes() for name in files}
        second = run(root, *paths)
        assert second.changes == {}, "a second run changes something"
        assert second.plans == []
        for changed in first.changes:
            assert changed.relative_to(root).as_posix() in files
    return after, first


def check_migrated(before: str, after: str) -> Migration:
    """Assert what one module becomes, character by character."""
    result, migration = migrate_files({"ops.py": before})
    assert result["ops.py"].decode() == textwrap.dedent(after)
    assert migration.plans
    return migration


def check_noop(source: str) -> Migration:
    """Assert that a module stays as it is."""
    result, migration = migrate_files({"ops.py": source})
    assert result["ops.py"].decode() == textwrap.dedent(source)
    assert migration.changes == {}
    assert migration.plans == []
    return migration


def migrated(source: str, name: str = "ops.py") -> str:
    """What one module becomes."""
    return migrate_files({name: source})[0][name].decode()


def reasons(migration: Migration) -> list[str]:
    """The messages of the findings, those of refusals cut to the reason."""
    return [f.message.rpartition("not rewritten: ")[2] for f in migration.findings]


def places(migration: Migration, root: Path | None = None) -> list[tuple[str, str, int]]:
    """File, code and line of each finding, by place."""
    return sorted((f.position.path.name, f.code, f.position.line) for f in migration.findings)


def python(script: Path, *arguments: str | Path, timeout: float = 300) -> str:
    """Run a script with this Python and a compile cache of its own; return its output."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, str(script), *map(str, arguments)],
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""A PackageSpec to a package on disk: rendered aside, checked, then moved into place."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscaffold.errors import UserError
from opscaffold.scaffold.package_context import PackageContext, build_context
from opscaffold.scaffold.spec import PackageSpec
from opscaffold.scaffold.templates import template_directory

_PREFIX = ".opscaffold-new-"


class TargetExists(UserError):  # noqa: N818 -- says what is the case, like FileExistsError
    """The package's directory is there already. ``path`` names it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists already; choose another place, or replace it with --force")
        self.path = path


class CannotWriteError(UserError):
    """The package cannot be put where it was wanted."""


class RenderError(Exception):
    """What was rendered is not what it should be: a defect of a template, not of an answer."""


@dataclass(frozen=True, slots=True)
class RenderResult:
    """What was made: the package's directory, and its files relative to it, sorted."""

    path: Path
    files: tuple[Path, ...]


def render_package(spec: PackageSpec, parent: Path, *, force: bool = False) -> RenderResult:
    """Write the package into a new directory ``parent / spec.name``.

    The same spec gives the same bytes. Raises TargetExists unless ``force``, which replaces the
    whole directory; CannotWriteError; NoSizesError for a shape expression that fits no sample.
    Whatever is raised, KeyboardInterrupt too, ``parent`` is as it was.
    """
    context = build_context(spec)
    parent = Path(os.path.abspath(parent))  # noqa: PTH100 -- resolve() would follow links
    target = parent / spec.name
    _require_free(target, force=force)
    made = _make_directories(parent)
    try:
        with _scratch(parent) as scratch:
            files = _render_into(context, Path(scratch))
            _move(Path(scratch) / spec.name, target, Path(scratch), force=force)
    except OSError as error:
        _remove_directories(made)
        raise CannotWriteError(f"cannot write {target}: {error.strerror or error}") from error
    except BaseException:
        _remove_directories(made)
        raise
    return RenderResult(target, files)


def preview(spec: PackageSpec) -> dict[Path, str]:
    """What ``render_package`` would write: each file's text by its path below the package.

    Nothing is written outside the system's temporary directory. Raises like ``render_package``.
    """
    context = build_context(spec)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
        files = _render_into(context, Path(scratch))
        root = Path(scratch) / spec.name
        return {path: (root / path).read_text(encoding="utf-8") for path in files}


def _render_into(context: PackageContext, scratch: Path) -> tuple[Path, ...]:
    _generate("package", {"package": context}, scratch)
    for module in context.modules:
        _generate("op", {"package": context, "op": module.op, "test": module.test}, scratch)
    root = scratch / context.name
    files = tuple(sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file()))
    for path in files:
        if path.suffix == ".py":
            _check_python(root / path)
    return files


def _generate(template: str, values: dict[str, object], output: Path) -> None:
    # Not cookiecutter's front door: it renders answers as templates, reads the user's
    # configuration and keeps a replay file.
    from cookiecutter.generate import generate_files

    with template_directory(template) as directory:
        context: dict[str, Any] = {
            "cookiecutter": {
                **values,
                "_new_lines": "\n",
                "_jinja2_env_vars": {"trim_blocks": True, "lstrip_blocks": True},
            }
        }
        generate_files(
            repo_dir=os.fspath(directory),
            context=context,
            output_dir=os.fspath(output),
            overwrite_if_exists=True,
            accept_hooks=False,
        )


def _check_python(path: Path) -> None:
    try:
        ast.parse(path.read_bytes(), path.name)
    except SyntaxError as error:
        raise RenderError(f"{path.name}:{error.lineno}: {error.msg}") from error


def _scratch(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory beside the target: moving from it never copies."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True)


def _require_free(target: Path, *, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not force:
        raise TargetExists(target)
    if target.is_symlink() or not target.is_dir():
        raise CannotWriteError(f"{target} is no directory, and only a directory is replaced")


def _move(rendered: Path, target: Path, scratch: Path, *, force: bool) -> None:
    _require_free(target, force=force)
    if not target.exists():
        rendered.rename(target)
        return
    old = scratch / "replaced"
    target.rename(old)
    try:
        rendered.rename(target)
    except BaseException:
        if target.exists():
            shutil.rmtree(target)
        old.rename(target)
        raise


def _make_directories(parent: Path) -> list[Path]:
    """Make ``parent``. Returns what had to be made, the deepest first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_directories(missing)
        raise CannotWriteError(
            f"cannot make the directory {parent}: {error.strerror or error}"
        ) from error
    return missing


def _remove_directories(made: list[Path]) -> None:
    # Another program may have put something there meanwhile.
    with contextlib.suppress(OSError):
        for path in made:
            path.rmdir()

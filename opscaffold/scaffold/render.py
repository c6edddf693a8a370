"""A PackageSpec to a package on disk: rendered aside, checked, then moved into place."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from opscaffold.errors import UserError
from opscaffold.scaffold.additions import ADDITIONS
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.managed import record_files
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.managed_origin import make_record
from opscaffold.scaffold.package_context import PackageContext, build_context
from opscaffold.scaffold.spec import KernelLanguage, PackageSpec
from opscaffold.scaffold.templates import TemplateError, template_directory

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


def render_package(
    spec: PackageSpec, parent: Path, *, force: bool = False, own: Path | None = None
) -> RenderResult:
    """Write the package into a new directory ``parent / spec.name``.

    The same spec gives the same bytes. ``own`` is a directory of the user's own templates, whose
    hooks are not run. Raises TargetExists unless ``force``, which replaces the whole directory;
    CannotWriteError; NoSizesError for a shape expression that fits no sample; TemplateError where
    the ``own`` templates make no package. Whatever is raised, KeyboardInterrupt too, ``parent`` is
    as it was. The working directory is another one meanwhile: not for several threads at once.
    """
    context = build_context(spec)
    parent = Path(os.path.abspath(parent))  # noqa: PTH100 -- resolve() would follow links
    target = parent / spec.name
    _require_free(target, force=force)
    made = _make_directories(parent)
    try:
        with _scratch(parent) as scratch:
            rendered = Path(scratch) / spec.name
            files = _render_into(context, Path(scratch), own)
            files = (*_write_record(spec, rendered, files, target, own), *files)
            _move(rendered, target, Path(scratch), force=force)
    except OSError as error:
        _remove_directories(made)
        raise CannotWriteError(f"cannot write {target}: {error.strerror or error}") from error
    except BaseException:
        _remove_directories(made)
        raise
    return RenderResult(target, tuple(sorted(files)))


def preview(spec: PackageSpec, own: Path | None = None) -> dict[Path, str]:
    """What ``render_package`` would write: each file's text by its path below the package.

    The record that the package keeps of itself is left out. Nothing is written outside the
    system's temporary directory. Raises like ``render_package``.
    """
    # Templates of one's own may have files that are no text.
    return {
        Path(path): file.data.decode("utf-8", "backslashreplace")
        for path, file in render_files(spec, own).items()
    }


def render_files(
    spec: PackageSpec, own: Path | None = None, width: int | None = None
) -> dict[PurePosixPath, Generated]:
    """Each file that the templates make of ``spec``, by its path below the package, sorted.

    The record of the package is none of them. Nothing is written outside the system's temporary
    directory. Raises like ``render_package``, and TooWideError where a line of ``width`` is too
    short; without one, the line length is that which the ops need.
    """
    context = build_context(spec, width)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
        files = _render_into(context, Path(scratch), own)
        return _generated(Path(scratch) / spec.name, files)


def _generated(root: Path, files: tuple[Path, ...]) -> dict[PurePosixPath, Generated]:
    return {
        PurePosixPath(path.as_posix()): Generated(
            (root / path).read_bytes(), bool((root / path).stat().st_mode & 0o100)
        )
        for path in files
    }


def _write_record(
    spec: PackageSpec, rendered: Path, files: tuple[Path, ...], target: Path, own: Path | None
) -> list[Path]:
    record = make_record(spec, _generated(rendered, files), target, own)
    made: list[Path] = []
    try:
        for path, data in record_files(record).items():
            rendered.joinpath(path).parent.mkdir(exist_ok=True)
            rendered.joinpath(path).write_bytes(data)
            made.append(Path(path))
    except ValueError as error:
        raise TemplateError(
            f"the templates in {own} make a file that may not be: {error}"
        ) from None
    return made


def _render_into(context: PackageContext, scratch: Path, own: Path | None) -> tuple[Path, ...]:
    if own is None:
        return _render(context, scratch, None)
    own = own.resolve()
    try:
        return _render(context, scratch, own)
    except RenderError as error:
        raise TemplateError(f"the templates in {own} make no package: {error}") from error


def _render(context: PackageContext, scratch: Path, own: Path | None) -> tuple[Path, ...]:
    _generate("package", {"package": context}, scratch, own)
    for word in context.languages:
        template = LANGUAGES[KernelLanguage(word)].package_template
        if template:
            _generate(template, {"package": context}, scratch, own)
    for addition in ADDITIONS:
        if addition.key in context.additions and addition.package_template:
            _generate(addition.package_template, {"package": context}, scratch, own)
    for module in context.modules:
        values = {"package": context, "op": module.op, "test": module.test}
        _generate("op", values, scratch, own)
        template = LANGUAGES[KernelLanguage(module.op.language)].op_template
        if template:
            _generate(template, values, scratch, own)
    made = sorted(path.name for path in scratch.iterdir())
    if made != [context.name]:
        raise RenderError(f"they make {' and '.join(made)} in place of {context.name} alone")
    root = scratch / context.name
    files = tuple(sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file()))
    for path in files:
        if path.suffix == ".py":
            _check_python(root / path)
    return files


def _generate(template: str, values: dict[str, object], output: Path, own: Path | None) -> None:
    # Not cookiecutter's front door: it renders answers as templates, reads the user's
    # configuration and keeps a replay file.
    from cookiecutter.generate import generate_files

    with template_directory(template, own) as directory:
        context: dict[str, Any] = {
            "cookiecutter": {
                **values,
                "_new_lines": "\n",
                "_jinja2_env_vars": {"trim_blocks": True, "lstrip_blocks": True},
            }
        }
        try:
            generate_files(
                repo_dir=os.fspath(directory),
                context=context,
                output_dir=os.fspath(output),
                overwrite_if_exists=True,
                accept_hooks=False,
            )
        except Exception as error:
            if own is None or _is_of_the_disk(error):
                raise
            # A template is a program: it may raise whatever it likes.
            raise RenderError(f"{template}: {_said(error)}") from error


def _is_of_the_disk(error: Exception) -> bool:
    from jinja2 import TemplateError as JinjaError

    return isinstance(error, OSError) and not isinstance(error, JinjaError)


def _said(error: Exception) -> str:
    """An error of a template in one line, with the place where it is known."""
    from cookiecutter.exceptions import UndefinedVariableInTemplate
    from jinja2 import TemplateSyntaxError

    if isinstance(error, UndefinedVariableInTemplate):
        return f"{error.message}: {error.error.message}"
    if isinstance(error, TemplateSyntaxError):
        return f"{error.filename or error.name or 'a file name'}:{error.lineno}: {error.message}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _check_python(path: Path) -> None:
    try:
        ast.parse(path.read_bytes(), path.name)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise RenderError(f"{path.name}:{line}: {getattr(error, 'msg', error)}") from error


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

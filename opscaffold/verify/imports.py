"""Finds what a target stands for, and imports it, from where it stands.

Nothing need be installed: of a project directory its packages are meant, of a file in a package
the module, and a directory ``src`` beside a project's own files is where imports start.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

TORCH = Path(torch.__file__).parent

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SOURCES = "src"
# Directories of a project that hold packages which are no part of what it installs.
_NOT_INSTALLED = frozenset(
    {"tests", "test", "docs", "doc", "examples", "benchmarks", "build", "dist", "tools", "scripts"}
)
# Modules beside a project file that set it up, or belong to another tool.
_NOT_MODULES = frozenset({"setup", "conftest", "noxfile", "tasks", "opscaffold_samples"})


class LoadError(Exception):
    """The import failed; the text says what, where and what to do."""


@dataclass(frozen=True)
class Wanted:
    """A module to import: its dotted name; for a path, where to start, and the file it is."""

    name: str
    root: Path | None = None
    file: Path | None = None


def imported(target: str) -> list[ModuleType]:
    """Import what a target stands for: a path of a file or directory, or a dotted name.

    Raises LoadError.
    """
    return [_import(target, each) for each in wanted(target)]


def wanted(target: str) -> list[Wanted]:
    """Return the modules that a target stands for. Raises LoadError."""
    path = Path(target)
    if path.suffix == ".py" and path.is_file():
        return [_at(path.resolve())]
    if not path.is_dir():
        return [Wanted(target)]
    path = path.resolve()
    if (path / "__init__.py").is_file():
        return [_at(path / "__init__.py")]
    found = list(_packages(path))
    if found:
        return found
    if target.isidentifier() and importlib.util.find_spec(target) is not None:
        return [Wanted(target)]
    raise LoadError(
        f"{target}: no package is in this directory; name a file, a package or a dotted name"
    )


def directory_of(module: ModuleType) -> Path | None:
    """Return the directory of the top-level package that holds a module, or of its file."""
    top = sys.modules.get(module.__name__.partition(".")[0], module)
    if getattr(top, "__file__", None) is None:
        top = module
    return None if top.__file__ is None else Path(top.__file__).resolve().parent


def _at(file: Path) -> Wanted:
    """Return what to import for a file."""
    parts = [] if file.name == "__init__.py" else [file.stem]
    directory = file.parent
    root = _source_root(file)
    if root is not None:
        parts = [*directory.relative_to(root).parts, *parts]
    else:
        while (directory / "__init__.py").is_file() and directory.parent != directory:
            parts.insert(0, directory.name)
            directory = directory.parent
        root = directory
    return Wanted(".".join(parts), root, file)


def _source_root(file: Path) -> Path | None:
    """Return the ``src`` of the project that holds a file, if it has one around it."""
    for directory in file.parent, *file.parents:
        if directory.name == _SOURCES and _is_project(directory.parent):
            parts = file.parent.relative_to(directory).parts
            return directory if all(part.isidentifier() for part in parts) else None
    return None


def _is_project(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _PROJECT_FILES)


def _packages(project: Path) -> Iterator[Wanted]:
    sources = project / _SOURCES
    start = sources if sources.is_dir() and project.name != _SOURCES else project
    files = sorted(start.glob("*/__init__.py"))
    if start is sources:
        # Packages of a namespace, which has no file of its own.
        files += [
            file
            for file in sorted(start.glob("*/*/__init__.py"))
            if not (file.parent.parent / "__init__.py").is_file()
        ]
    if start is sources or _is_project(project):
        files += sorted(start.glob("*.py"))
    for file in files:
        parts = file.parent.relative_to(start).parts or (file.stem,)
        if not all(part.isidentifier() for part in parts):
            continue
        if start is project and parts[0] in _NOT_INSTALLED:
            continue
        if parts[0] in _NOT_MODULES or parts[0].startswith("test_") or parts == ("__init__",):
            continue
        yield Wanted(".".join(parts), start, file)


def _import(target: str, module: Wanted) -> ModuleType:
    if module.root is not None and sys.path[:1] != [str(module.root)]:
        sys.path.insert(0, str(module.root))
        importlib.invalidate_caches()
    try:
        if module.file is not None and _is_taken(module.name, module.file):
            return _alone(module.file)
        found = importlib.import_module(module.name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(_told(target, module, error)) from error
    real = getattr(found, "__file__", None)
    if module.file is not None and real is not None and Path(real).resolve() != module.file:
        raise LoadError(
            f"{target}: the name {module.name} leads to {real}; rename one of them, or uninstall "
            "the other"
        )
    return found


def _is_taken(name: str, file: Path) -> bool:
    """Whether a lone file cannot be imported by its name: another module has it, or it is none."""
    if file.name == "__init__.py" or (file.parent / "__init__.py").is_file():
        return False
    if not name.replace(".", "").isidentifier():
        return True
    if "." in name:
        return False
    loaded = sys.modules.get(name)
    if loaded is not None:
        real = getattr(loaded, "__file__", None)
        return real is None or Path(real).resolve() != file
    return name in sys.builtin_module_names


def _alone(file: Path) -> ModuleType:
    name = "verified_" + "".join(c if c.isalnum() else "_" for c in file.stem)
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _told(target: str, module: Wanted, error: BaseException) -> str:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = _place(error)
    said = f"{place}{': ' if place else ''}importing {target} raised {' '.join(what.split())}"
    return f"{said}; {_remedy(module, error)}"


def _place(error: BaseException) -> str:
    """Where user code raised, as ``file:line``; where all of it is torch's, there."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    places: list[tuple[str, int]] = []
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<") and name not in (__file__, importlib.__file__):
            places.append((name, trace.tb_lineno))
        trace = trace.tb_next
    theirs = [place for place in places if not Path(place[0]).is_relative_to(TORCH)]
    return "{}:{}".format(*(theirs or places)[-1]) if places else ""


def _remedy(module: Wanted, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if error.name == module.name.partition(".")[0] and module.root is None:
            return "give a path, or run where Python finds that name"
        return (
            f"install it for {sys.executable}, or put the directory that holds "
            f"{error.name.partition('.')[0]} on PYTHONPATH"
        )
    if isinstance(error, SystemExit):
        return 'put what is to run as a program behind `if __name__ == "__main__":`'
    start = "" if module.root is None else f"PYTHONPATH={module.root} "
    if module.file is not None and not module.name.replace(".", "").isidentifier():
        return f"`{sys.executable} {module.file}` shows the whole error"
    return f"`{start}{sys.executable} -c 'import {module.name}'` shows the whole error"

"""Imports what is to be verified, and notes every op that the import registers, and where."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from torch._library import custom_ops

from opscaffold.findings.model import Position
from opscaffold.verify.op import Op, place_of

_TORCH = Path(torch.__file__).parent


class LoadError(Exception):
    """The import failed; the text says what, where and what to do."""


@dataclass
class Loaded:
    """What an import left behind."""

    modules: list[ModuleType]
    ops: list[Op]
    twice: dict[str, list[Position]] = field(default_factory=dict)
    """Names that were defined more than once, with the places."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Ops whose schema cannot be read, with the reason."""


@dataclass
class _Seen:
    defined: dict[str, list[Position]] = field(default_factory=dict)
    kernels: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    keep: list[torch.library.Library] = field(default_factory=list)


def load(targets: list[str]) -> Loaded:
    """Import modules, packages and files, in that order, and find the ops they register.

    A target that ends in ``.py`` or names a directory is a path; another is a dotted name.
    Raises LoadError.
    """
    before = _registered()
    seen = _Seen()
    with _noting(seen):
        modules = [_import(target) for target in targets]
    loaded = Loaded(modules, [])
    for name in sorted(_registered() - before):
        found = _op(name, seen)
        if isinstance(found, Op):
            loaded.ops.append(found)
        else:
            loaded.unreadable[name] = found
    loaded.twice = {name: places for name, places in seen.defined.items() if len(places) > 1}
    return loaded


def _registered() -> set[str]:
    return set(torch._C._dispatch_get_all_op_names()) - set(
        # Registered for nothing but a kernel: there is no schema to call it by.
        torch._C._dispatch_find_dangling_impls()
    )


def _op(name: str, seen: _Seen) -> Op | str:
    """The op of that name, or why it cannot be read."""
    base, _, overload = name.partition(".")
    namespace, _, short = base.partition("::")
    packet = getattr(getattr(torch.ops, namespace), short)
    found = getattr(packet, overload or "default")
    places = seen.defined.get(name) or [Position(Path("<unknown>"), 1)]
    definition = custom_ops.OPDEFS.get(name)
    kernel = definition._init_fn if definition is not None else _kernel(name, seen)
    try:
        return Op(found, place_of(kernel, places[-1]) if kernel else places[-1], kernel)
    except ValueError as error:
        return " ".join(str(error).split())


def _kernel(name: str, seen: _Seen) -> Any:
    order = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "", "CUDA")
    by_key = dict(seen.kernels.get(name, ()))
    for key in order:
        if key in by_key:
            return by_key[key]
    return next((fn for key, fn in by_key.items() if not key.startswith(("Auto", "Meta"))), None)


@contextlib.contextmanager
def _noting(seen: _Seen) -> Iterator[None]:
    """Note definitions and kernels while modules are imported."""
    library = torch.library.Library
    define, impl = library.define, library.impl
    make = custom_ops.CustomOpDef.__init__

    def note_define(self: Any, schema: str, *args: Any, **kwargs: Any) -> Any:
        name = define(self, schema, *args, **kwargs)  # type: ignore[no-untyped-call]
        qualname = f"{self.ns}::{str(name).rpartition('::')[2]}"
        if not _within_custom_op():
            seen.defined.setdefault(qualname, []).append(_caller())
        return name

    def note_impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> Any:
        done = impl(self, op_name, fn, dispatch_key, **kwargs)  # type: ignore[no-untyped-call]
        key = dispatch_key or self.dispatch_key
        qualname = f"{self.ns}::{_name_of(op_name).rpartition('::')[2]}"
        seen.kernels.setdefault(qualname, []).append((key, fn))
        return done

    def note_custom_op(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        place = place_of(self._init_fn, _caller())
        seen.defined.setdefault(self._qualname, []).append(place)

    library.define = note_define  # type: ignore[method-assign]
    library.impl = note_impl  # type: ignore[method-assign]
    custom_ops.CustomOpDef.__init__ = note_custom_op  # type: ignore[method-assign]
    try:
        yield
    finally:
        library.define = define  # type: ignore[method-assign]
        library.impl = impl  # type: ignore[method-assign]
        custom_ops.CustomOpDef.__init__ = make  # type: ignore[method-assign]


def _name_of(op: Any) -> str:
    if isinstance(op, str):
        return op
    schema = op._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _within_custom_op() -> bool:
    return any(
        frame.f_code.co_name == "_register_to_dispatcher" and _is_torch(frame)
        for frame in _frames()
    )


def _caller() -> Position:
    """Where the code stands, outside torch and this module, that asks for a registration."""
    for frame in _frames():
        if frame.f_code.co_filename != __file__ and not _is_torch(frame):
            return Position(Path(frame.f_code.co_filename), frame.f_lineno)
    return Position(Path("<unknown>"), 1)


def _is_torch(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(_TORCH)


def _import(target: str) -> ModuleType:
    path = Path(target)
    is_path = path.suffix == ".py" or path.is_dir()
    name, root = _module_name(path.resolve()) if is_path else (target, None)
    if root is not None and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(_told(target, error)) from error


def _module_name(path: Path) -> tuple[str, Path]:
    """The dotted name by which a file or package is imported, and the directory to find it in."""
    parts = [path.stem if path.is_file() else path.name]
    directory = path.parent
    if parts == ["__init__"]:
        parts = []
    while (directory / "__init__.py").exists() and directory.parent != directory:
        parts.insert(0, directory.name)
        directory = directory.parent
    return ".".join(parts), directory


def _told(target: str, error: BaseException) -> str:
    place = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<") and name != __file__ and "importlib" not in name:
            place = f"{name}:{trace.tb_lineno}: "
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{place}importing {target} raised {' '.join(what.split())}"

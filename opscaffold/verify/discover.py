"""Imports what is to be verified, and notes every op that the import registers, and where."""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from torch._library import custom_ops

from opscaffold.findings.model import Position
from opscaffold.verify.imports import TORCH, LoadError, directory_of, imported
from opscaffold.verify.op import Op, author_of, place_of

__all__ = ["LoadError", "Loaded", "load"]

_UNKNOWN = Position(Path("<unknown>"), 1)
# Where what was installed lies, in an environment or beside the system.
_INSTALLED = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")})
_INSTALLED_NAMES = frozenset({"site-packages", "dist-packages"})


@dataclass
class Loaded:
    """What an import left behind."""

    modules: list[ModuleType]
    ops: list[Op]
    """Those of the targets, and of what lies beside them."""
    others: list[Op] = field(default_factory=list)
    """Those of installed packages that the targets import."""
    defined: dict[str, Position] = field(default_factory=dict)
    """Where ops are defined; their kernels may stand elsewhere."""
    twice: dict[str, list[Position]] = field(default_factory=dict)
    """Names that were defined more than once, with the places."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Ops of the targets whose schema cannot be read, with the reason."""


@dataclass
class _Seen:
    defined: dict[str, list[Position]] = field(default_factory=dict)
    kernels: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    keep: list[torch.library.Library] = field(default_factory=list)


def load(targets: list[str]) -> Loaded:
    """Import modules, packages and files, in that order, and find the ops they register.

    Raises LoadError.
    """
    before = _registered()
    seen = _Seen()
    with _noting(seen):
        modules = [module for target in targets for module in imported(target)]
    loaded = Loaded(modules, [])
    own = tuple(home for module in modules if (home := directory_of(module)) is not None)
    fallback = _first_place(modules)
    for name in sorted(_registered() - before):
        places = seen.defined.get(name) or [fallback]
        loaded.defined[name] = places[-1]
        found = _op(name, seen, places[-1])
        spots = [places[-1].path, *([found.position.path] if isinstance(found, Op) else [])]
        mine = any(_is_own(spot, own) for spot in spots)
        if isinstance(found, str):
            if mine:
                loaded.unreadable[name] = found
        elif mine:
            loaded.ops.append(found)
        elif not _is_in_torch(found.position.path):
            loaded.others.append(found)
    loaded.twice = {name: places for name, places in seen.defined.items() if len(places) > 1}
    return loaded


def _first_place(modules: list[ModuleType]) -> Position:
    files = [module.__file__ for module in modules if getattr(module, "__file__", None)]
    return Position(Path(files[0]), 1) if files and files[0] else _UNKNOWN


def _is_own(path: Path, own: tuple[Path, ...]) -> bool:
    """Whether a file belongs to the targets: it lies in one, or in nothing that was installed."""
    if _is_in_torch(path):
        return False
    path = path.resolve()
    inside = [path.relative_to(home).parts for home in own if path.is_relative_to(home)]
    if any(not _INSTALLED_NAMES & set(parts) for parts in inside):
        # An environment may lie within a project.
        return True
    installed = any(path.is_relative_to(directory) for directory in _INSTALLED)
    return not installed and not _INSTALLED_NAMES & set(path.parts)


def _is_in_torch(path: Path) -> bool:
    return path.resolve().is_relative_to(TORCH.resolve())


def _registered() -> set[str]:
    return set(torch._C._dispatch_get_all_op_names()) - set(
        # Registered for nothing but a kernel: there is no schema to call it by.
        torch._C._dispatch_find_dangling_impls()
    )


def _op(name: str, seen: _Seen, place: Position) -> Op | str:
    """The op of that name, or why it cannot be read."""
    base, _, overload = name.partition(".")
    namespace, _, short = base.partition("::")
    definition = custom_ops.OPDEFS.get(name)
    kernel = author_of(definition._init_fn) if definition is not None else _kernel(name, seen)
    try:
        packet = getattr(getattr(torch.ops, namespace), short)
        found = getattr(packet, overload or "default")
        return Op(found, place_of(kernel, place) if kernel else place, kernel)
    except (ValueError, AttributeError, RuntimeError) as error:
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
        # What define returns leaves out the overload.
        qualname = f"{self.ns}::{schema.partition('(')[0].strip().rpartition('::')[2]}"
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
        place = place_of(author_of(self._init_fn), _caller())
        seen.defined.setdefault(self._qualname, []).append(place)

    load_library = type(torch.ops).load_library
    create = ExtensionFileLoader.create_module

    def note_loaded(load: Callable[..., Any]) -> Callable[..., Any]:
        def noting(self: Any, what: Any) -> Any:
            before = _registered()
            try:
                return load(self, what)
            finally:
                for name in _registered() - before:
                    seen.defined.setdefault(name, [_caller()])

        return noting

    library.define = note_define  # type: ignore[method-assign]
    type(torch.ops).load_library = note_loaded(load_library)  # type: ignore[method-assign]
    ExtensionFileLoader.create_module = note_loaded(create)  # type: ignore[method-assign]
    library.impl = note_impl  # type: ignore[method-assign]
    custom_ops.CustomOpDef.__init__ = note_custom_op  # type: ignore[method-assign]
    try:
        yield
    finally:
        library.define = define  # type: ignore[method-assign]
        library.impl = impl  # type: ignore[method-assign]
        custom_ops.CustomOpDef.__init__ = make  # type: ignore[method-assign]
        type(torch.ops).load_library = load_library  # type: ignore[method-assign]
        ExtensionFileLoader.create_module = create  # type: ignore[method-assign]


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
    """Where the code stands that asks for a registration: outside torch, unless torch is loading.

    A module of torch that is imported late registers for itself, not for who imports it.
    """
    for frame in _frames():
        name = frame.f_code.co_filename
        if name == __file__ or name.startswith("<frozen importlib"):
            continue
        if not _is_torch(frame) or frame.f_code.co_name == "<module>":
            return Position(Path(name), frame.f_lineno)
    return _UNKNOWN


def _is_torch(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(TORCH)

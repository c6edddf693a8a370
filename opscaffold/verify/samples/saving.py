"""Writes made-up samples down as an opscaffold_samples.py that an author can keep and edit.

A file that is there keeps all it holds: ops that it has no samples of are added at its end. Each
op is written as soon as it is known, so that an op that kills the process takes none with it.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from opscaffold.verify.op import Op
from opscaffold.verify.samples import recipes
from opscaffold.verify.samples.points import Point
from opscaffold.verify.samples.recipes import NewGenerator, Recipe
from opscaffold.verify.samples.written import Table

_WIDTH = 100
_HELPER = recipes.filled_tensor.__name__
_HEAD = '''"""The samples on which ops are verified: the one place to say what your kernels accept.

Each function below yields the samples of one op: positional arguments, keyword arguments, and a
label that is unique for the op. They were made up by `opscaffold verify --save-samples`: change
sizes, dtypes and values as your kernels demand.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Sample(NamedTuple):
    """One call of an op."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    label: str


SAMPLES: dict[str, Callable[[torch.device], Iterator[Sample]]] = {}
'''


_IMPORTS = {
    "Iterator": "from collections.abc import Iterator",
    "torch": "import torch",
    "Tensor": "from torch import Tensor",
}


class SaveError(Exception):
    """The file cannot be written, or added to; the text says why."""


class UnwritableError(Exception):
    """A value has no text that makes it again."""


class Saver:
    """Writes samples to one file; ``known`` is what it holds. Raises SaveError where it cannot."""

    def __init__(self, path: Path, known: Table) -> None:
        self._path = path
        self._known = known
        try:
            self._text = path.read_text(encoding="utf-8") if path.exists() else ""
            self._names = _top_level(self._text)
        except (OSError, ValueError, SyntaxError) as error:
            raise SaveError(f"{path} cannot be added to: {error}") from error
        if self._text and not {"Sample", "SAMPLES"} <= self._names:
            raise SaveError(f"{path} cannot be added to: it defines no Sample and no SAMPLES")

    def add(self, op: Op, samples: Sequence[tuple[str, Point]], *, by_name: bool) -> None:
        """Add the samples of an op that the file has none of, by label. Raises SaveError.

        ``by_name`` passes every argument by keyword: the public function, by whose signature
        samples are read, has another order.
        """
        if self._known.entry(op) is not None or _entry(op) in self._text or not samples:
            return
        text = self._text or _HEAD
        missing = [line for name, line in _IMPORTS.items() if name not in _top_level(text)]
        if missing:
            text = "\n".join([f"{_closed(text)}\n", *missing, ""])
        helper = inspect.getsource(recipes.filled_tensor)
        if helper not in text:
            if _HELPER in self._names:
                raise SaveError(f"{self._path} defines another {_HELPER}")
            text = f"{_closed(text)}\n\n{helper}"
        name = self._free(f"{op.contract.name}_samples", op)
        text = f"{_closed(text)}\n\n{function_text(op, name, samples, by_name=by_name)}"
        _write(self._path, text)
        self._text, self._names = text, _top_level(text)

    def _free(self, name: str, op: Op) -> str:
        if name in self._names:
            name = f"{op.contract.namespace}_{op.contract.overload}_{name}".replace("__", "_")
        number, free = 2, name
        while free in self._names:
            number, free = number + 1, f"{name}_{number}"
        return free


def function_text(
    op: Op, name: str, samples: Sequence[tuple[str, Point]], *, by_name: bool = False
) -> str:
    """The function that yields the samples of an op, and its entry in SAMPLES."""
    lines = [f"def {name}(device: torch.device) -> Iterator[Sample]:"]
    lines += [f'    """Calls of {op.qualname}."""']
    for label, point in samples:
        lines += _yielded_or_told(op, point, label, by_name)
    if not any(line.startswith("    yield") for line in lines):
        lines.append("    yield from ()")
    return "\n".join([*lines, "", "", f"{_entry(op)} = {name}", ""])


def _entry(op: Op) -> str:
    return f'SAMPLES["{op.qualname}"]'


def _yielded_or_told(op: Op, point: Point, label: str, by_name: bool) -> list[str]:
    try:
        return _yielded(op, point, label, by_name)
    except UnwritableError as error:
        return [f"    # {label} is left out: {error}"]


def _yielded(op: Op, point: Point, label: str, by_name: bool) -> list[str]:
    given = point.recipes()
    args: list[str] = []
    kwargs: list[str] = []
    gap = by_name
    for parameter in op.contract.parameters:
        if parameter.name not in given:
            gap = True
        elif parameter.kw_only or gap:
            kwargs.append(f'"{parameter.name}": {value_text(given[parameter.name])}')
        else:
            args.append(value_text(given[parameter.name]))
    comma = "," if len(args) == 1 else ""
    told = _string(label)
    line = f"    yield Sample(({', '.join(args)}{comma}), {{{', '.join(kwargs)}}}, {told})"
    if len(line) <= _WIDTH:
        return [line]
    lines = ["    yield Sample("]
    lines += _group("(", args, "),")
    lines += _group("{", kwargs, "},")
    return [*lines, f"        {told},", "    )"]


def _group(start: str, items: list[str], end: str) -> list[str]:
    if not items:
        return [f"        {start}{end}"]
    return [f"        {start}", *(f"            {item}," for item in items), f"        {end}"]


def value_text(value: Any) -> str:
    """The expression that makes a value again. Raises UnwritableError where there is none."""
    if isinstance(value, Recipe):
        return value.text(_HELPER)
    if isinstance(value, NewGenerator):
        return "torch.Generator(device).manual_seed(0)"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, torch.device):
        return "device"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    raise UnwritableError(f"{value!r} has no plain text")


def _string(text: str) -> str:
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def _closed(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _top_level(text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
    return names


def _write(path: Path, text: str) -> None:
    """Put the text in place at once: a reader sees the old file or the new one."""
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error}") from error

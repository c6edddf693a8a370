"""The samples that an author keeps: ``SAMPLES`` in opscaffold_samples.py, or an entry point.

The file is looked for beside each target, and in the directories above it up to the root of its
project (where pyproject.toml or .git is); last on the import path. An installed package may name
a table of its own by an entry point in the group ``opscaffold.samples``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opscaffold.verify.checks.base import first_line
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample
from opscaffold.verify.samples.binding import BindError, bound

MODULE = "opscaffold_samples"
FILE = f"{MODULE}.py"
GROUP = "opscaffold.samples"
_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


@dataclass(frozen=True)
class Table:
    """Samples by op, from one file or entry point. ``fault`` says why there are none."""

    origin: str
    entries: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""

    def entry(self, op: Op) -> Any:
        """What is written for an op, or None."""
        names = [op.qualname]
        if not op.contract.overload:
            names.append(f"{op.qualname}.default")
        return next((self.entries[name] for name in names if name in self.entries), None)


@dataclass
class Given:
    """What one source gives for an op, and what is wrong with it."""

    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def tables(modules: Sequence[ModuleType], extra: Sequence[Path] = ()) -> list[Table]:
    """The tables of the modules' projects, nearest first, then that of the import path."""
    files = [path for each in _directories(modules) for path in [each / FILE] if path.is_file()]
    spec = importlib.util.find_spec(MODULE)
    if spec is not None and spec.origin is not None:
        files.append(Path(spec.origin))
    files += extra
    return [_from_file(path) for path in dict.fromkeys(path.resolve() for path in files)]


def entry_tables() -> Iterator[Table]:
    """The tables of installed packages. One that cannot be loaded is left out."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            table = entry.load()
            if callable(table):
                table = table()
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:  # noqa: BLE001, S112 -- it is another package's fault
            continue
        if isinstance(table, Mapping):
            yield Table(f"the entry point {entry.name} = {entry.value}", table)


def given_for(
    op: Op,
    table: Table,
    function: Callable[..., Any] | None,
    devices: Iterable[torch.device],
) -> Given:
    """The samples that a table has for an op, on each device."""
    given = Given()
    entry = table.entry(op)
    for device in devices if entry is not None else ():
        where = "" if device.type == "cpu" else f" on {device}"
        try:
            values = called(entry, device)
            for number, value in enumerate(values, 1):
                sample = bound(op, function, value, f"sample {number}", table.origin)
                given.samples.append(_labelled(sample, f"{sample.label}{where}"))
        except BindError as error:
            given.faults.append(f"{table.origin}: a sample of {op.qualname} does not fit: {error}")
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # noqa: BLE001 -- it is the author's code
            if device.type == "cpu":
                told = first_line(error)
                message = f"{table.origin}: making the samples of {op.qualname} raised {told}"
                given.faults.append(message)
    return given


def called(entry: Any, device: torch.device) -> list[Any]:
    """The values that an entry yields: a function of a device, or of nothing, or what it holds.

    Raises BindError where that is no row of samples, and what the function raises.
    """
    values = entry
    if callable(entry):
        takes = inspect.signature(entry).parameters.values()
        plain = [p for p in takes if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        positional = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in takes)
        values = entry(device) if plain or positional else entry()
    if isinstance(values, (str, torch.Tensor, Mapping)) or not isinstance(values, Iterable):
        raise BindError(f"there is a {type(values).__name__} where samples should be")
    return list(values)


def _labelled(sample: Sample, label: str) -> Sample:
    return Sample(sample.args, sample.kwargs, label, sample.origin)


def _directories(modules: Sequence[ModuleType]) -> Iterator[Path]:
    for module in modules:
        name = getattr(module, "__file__", None)
        if name is None:
            continue
        directory = Path(name).resolve().parent
        above = [directory, *directory.parents]
        root = next(
            (n for n, each in enumerate(above) if any((each / f).exists() for f in _ROOTS)), None
        )
        if root is None:
            # Without a project: the packages that the file is in, and what holds them.
            inside = 0
            while (above[inside] / "__init__.py").is_file() and inside + 1 < len(above):
                inside += 1
            root = inside
        yield from above[: root + 1]


def _from_file(path: Path) -> Table:
    origin = str(path)
    try:
        module = loaded_from(path, MODULE)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 -- it is the author's code
        return Table(origin, fault=f"importing {origin} raised {first_line(error)}")
    found = getattr(module, "SAMPLES", None)
    if found is None:
        return Table(origin, fault=f"{origin} has no SAMPLES")
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        return Table(origin, fault=f"SAMPLES in {origin} is a {kind}, not a dict by op name")
    return Table(origin, found)


def loaded_from(path: Path, name: str) -> ModuleType:
    """The module of a file, imported unless it is there already. Raises what the import raises."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    if name in sys.modules:
        number = 2
        while f"{name}_{number}" in sys.modules:
            number += 1
        name = f"{name}_{number}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        # It may import what stands beside it.
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

"""What ``opscaffold new`` says of a package: its ops, its files, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opscaffold.scaffold.spec import OpSpec, PackageSpec


def ops_text(spec: PackageSpec) -> str:
    """One line an op: kind, schema, and what else was decided."""
    from opscaffold.contract.printer import format_schema

    lines: list[str] = []
    for op in spec.ops:
        extra = [f"fake {op.fake.mode.value}"] if op.contract.kind.value == "functional" else []
        extra += ["autograd"] if op.autograd else []
        extra += ["family"] if op.family else []
        extra += [f"kernel {op.kernel.value}"] if op.kernel.value != "torch" else []
        extra += additions_text(op)
        note = f"  [{', '.join(extra)}]" if extra else ""
        lines.append(f"{op.contract.kind.value:<10}  {format_schema(op.contract)}{note}")
    return "\n".join(lines)


def additions_text(op: OpSpec) -> list[str]:
    """What is registered beside what the contract needs."""
    added = op.additions
    words = ["vmap"] if added.vmap else []
    words += [f"autocast {added.autocast}"] if added.autocast else []
    words += ["torch dispatch"] if added.torch_dispatch else []
    return words + [f"{device} kernel" for device in added.device_kernels]


def tree_text(spec: PackageSpec, parent: Path, own: Path | None = None) -> str:
    """The files as a tree below the target."""
    from opscaffold.scaffold.managed import RECORD_FILES
    from opscaffold.scaffold.render import preview

    lines = [f"{parent / spec.name}/"]
    paths = sorted(PurePosixPath(path).parts for path in (*preview(spec, own), *RECORD_FILES))
    shown: set[tuple[str, ...]] = set()
    for parts in paths:
        for depth in range(1, len(parts)):
            if parts[:depth] not in shown:
                shown.add(parts[:depth])
                lines.append(f"{'  ' * depth}{parts[depth - 1]}/")
        lines.append(f"{'  ' * len(parts)}{parts[-1]}")
    return "\n".join(lines)


def next_steps_text(spec: PackageSpec, made: Path) -> str:
    """What was made, and the commands that follow."""
    from opscaffold.scaffold.answers import op_names
    from opscaffold.scaffold.languages import LANGUAGES

    names = [name for op in spec.ops for name in op_names(op)]
    what = "1 op" if len(names) == 1 else f"{len(names)} ops"
    install = "  python -m pip install -e '.[test]'\n"
    if not all(LANGUAGES[op.kernel].registers for op in spec.ops):
        # It is built against the torch that is there.
        install = (
            "  python -m pip install torch 'setuptools>=70.1'\n"
            "  python -m pip install --no-build-isolation -e '.[test]'\n"
        )
    return (
        f"Made {made}: {what} ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''}).\n"
        "Next:\n"
        f"  cd {shlex.quote(str(made))}\n"
        f"{install}"
        "  python -m pytest"
    )

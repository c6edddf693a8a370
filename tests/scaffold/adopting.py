"""Projects in the layouts that people use, with ops written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opscaffold.rules.contracts import contract_of
from opscaffold.scaffold.adopt import Adoption, Wanted, plan_adoption, refuse_managed
from opscaffold.scaffold.adopt_write import write_adoption
from opscaffold.source.project import load_project

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("acme::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@double.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _backward(ctx, grad):
    return grad * 2


double.register_autograd(_backward)


@torch.library.custom_op("acme::fill", mutates_args=("out",))
def fill(x: Tensor, out: Tensor | None = None) -> Tensor:
    return x.clone()
"""
INIT = '"""Mine."""\n\nfrom acme.kernels import double\n\n__all__ = ["double"]\n'


def project(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files, and make the directories that end in a slash."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    return root


def package(inside: str = "", module: str = "acme", init: str = INIT) -> dict[str, str]:
    """A package with ops, in a folder."""
    where = f"{inside}/{module}" if inside else module
    return {f"{where}/__init__.py": init, f"{where}/kernels.py": OPS}


def plan(root: Path, **wanted: object) -> Adoption:
    refuse_managed(root)
    read = load_project([root], root)
    return plan_adoption(root, read, contract_of, Wanted(**wanted))  # type: ignore[arg-type]


def adopt(root: Path, **wanted: object) -> Adoption:
    planned = plan(root, **wanted)
    write_adoption(planned)
    return planned

"""Functions read from small modules, and the ops that they make."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscaffold.cli.new_from import origin_of
from opscaffold.contract.model import Kind
from opscaffold.contract.releases import release_for
from opscaffold.scaffold.answers import build
from opscaffold.scaffold.from_decide import Flags
from opscaffold.scaffold.from_wrap import Request, Wrapping, wrap
from opscaffold.scaffold.given import Answers, Given
from opscaffold.scaffold.spec import PackageSpec

HEAD = """\
import math
from typing import List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
import vendor
from torch import Tensor

"""


def read(
    directory: Path,
    code: str,
    function: str = "f",
    *,
    head: str = HEAD,
    kind: Kind | None = None,
    mutates: tuple[str, ...] | None = None,
    clone: bool = False,
    **asked: Any,
) -> Wrapping:
    """What the function of a module makes. The code stands behind HEAD, from its line 9 on."""
    path = directory / "module.py"
    path.write_text(head + textwrap.dedent(code), "utf-8")
    origin = origin_of(path, directory / "made")
    request = Request(f"module.py:{function}", function, flags=Flags(kind, mutates, clone), **asked)
    return wrap(origin, request, release_for())


def schemas(wrapping: Wrapping) -> list[str]:
    """Each op as its kind and schema."""
    return [f"{op.kind.value}: {op.schema}" for op in wrapping.ops]


def package(*wrappings: Wrapping, name: str = "made", rule: str = "") -> PackageSpec:
    """A package of the ops."""
    tables = []
    for wrapping in wrappings:
        for op in wrapping.ops:
            answers = {**op.answers, **({"fake": rule} if op.by_rule else {})}
            tables.append({key: Given(value) for key, value in answers.items()})
    return build(Answers({"package": Given(name)}, tuple(tables)))


MODULE = """\
import numpy as np
import torch
from torch import Tensor

TABLE = {'a': 2.0, 'b': 3.0}


def rms(x: Tensor, weight: Tensor, *, mode: str = 'a', eps: float = 1e-6) -> Tensor:
    '''Root mean square norm.'''
    return x*torch.rsqrt(x.pow(2).mean(-1, keepdim = True)+eps)*weight * TABLE[mode]


def gain(x: Tensor, factor: float, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, factor, out=out)


def shift_(x: Tensor, by: float = 1.0) -> Tensor:
    x += by
    return x


def step(x: Tensor, state: Tensor | None = None) -> Tensor:
    if state is not None:
        state.add_(x)
    return x * 2


def both(x: Tensor, cache: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    cache.index_add_(0, idx, x)
    return cache, x.sum(dim=-1)


def parts(xs: list[Tensor], n: int, dims: list[int] | None = None) -> list[Tensor]:
    return [x.narrow(-1, 0, n) * 2 for x in xs]


def turned(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.t(), x + 1


def exp(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.numpy()))


def fill(n: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    return torch.full((n, 2), n, dtype=dtype, device=device)


def op_kernel(result: Tensor, sizes: Tensor, wrapped: float, original: int) -> Tensor:
    return result * sizes + wrapped * original
"""
PLAIN = ("rms", "gain", "shift_", "step", "both", "parts", "fill", "op_kernel")


def made(directory: Path, plain: Sequence[str] = PLAIN) -> PackageSpec:
    """A package of them: in-place, out=, mutable, cloned, by a rule, imported."""

    def one(function: str, **asked: Any) -> Wrapping:
        return read(directory, MODULE, function, head="", **asked)

    found = [one(name) for name in plain]
    found.append(one("turned", clone=True))
    found.append(one("exp", fake=True, kind=Kind.FUNCTIONAL))
    found.append(one("shift_", mode="import", name="moved_"))
    return package(*found, rule="same")

"""Functions read from small modules, and the ops that they make."""

from __future__ import annotations

import textwrap
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

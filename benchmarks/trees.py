"""Write a synthetic source tree, the same for the same arguments on every machine and Python.

The tree stands for a project with custom ops as they are found: nine files in ten are models,
layers, utilities and tests that have nothing to do with registering; some ops are registered by
decorator, some through a ``Library`` or a project helper; some break their contract; a few files
hold words such as ``Library`` or ``define`` and mean something else; calls stand all over.

    python benchmarks/trees.py /tmp/tree --files 2600 --megabytes 29 --ops 120 --calls 1500
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "bench"
NAMESPACE = "bench"
OPS_IN_A_FILE = 4
# One file in so many holds a word of the registration API and registers nothing.
INCIDENTAL = 30

_NOUNS = (
    *("attention", "block", "cache", "config", "decoder", "embedding", "expert", "gate", "head"),
    *("hidden", "kernel", "layer", "logit", "mask", "mixer", "norm", "page", "position", "prompt"),
    *("query", "request", "rotary", "router", "sampler", "scale", "sequence", "shard", "slot"),
    *("state", "token", "tower", "vision", "weight", "window", "worker"),
)
_VERBS = (
    *("align", "apply", "build", "check", "collect", "compute", "copy", "fetch", "fill", "flush"),
    *("gather", "load", "merge", "pack", "pad", "plan", "prune", "read", "reset", "resolve"),
    *("select", "shift", "split", "store", "trim", "update", "validate", "wrap"),
)
_PLACES = ("models", "layers", "utils", "engine", "tests", "quantization", "distributed", "tools")


@dataclass(frozen=True)
class Shape:
    """How large a tree is. ``megabytes`` are of a million bytes."""

    files: int = 2600
    megabytes: float = 29.0
    ops: int = 120
    calls: int = 1500

    def scaled(self, files: int) -> Shape:
        """A tree of so many files that is otherwise alike."""
        share = files / self.files
        return Shape(
            files, self.megabytes * share, round(self.ops * share), round(self.calls * share)
        )


@dataclass(frozen=True)
class Op:
    """One op of the tree: its function's name, its module, and whether it takes ``out``."""

    name: str
    module: str
    takes_out: bool


def write_tree(root: Path, shape: Shape) -> int:
    """Write a tree below an empty or missing directory; return how many bytes it holds.

    Raises FileExistsError where something is there already.
    """
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty")
    written = 0
    made: set[Path] = set()
    for relative, text in files_of(shape):
        path = root / relative
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        data = text.encode()
        path.write_bytes(data)
        written += len(data)
    return written


def files_of(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the files of a tree, by path from its root, and what each holds."""
    yield "pyproject.toml", _PROJECT
    ops = _ops(shape.ops)
    modules = sorted({op.module for op in ops})
    directories = max(1, shape.files // 60)
    packages = [PACKAGE, f"{PACKAGE}/ops"]
    for number in range(directories):
        place = _PLACES[number % len(_PLACES)]
        packages += [p for p in (f"{PACKAGE}/{place}",) if p not in packages]
        packages.append(f"{PACKAGE}/{place}/part_{number}")
    for package in packages:
        yield f"{package}/__init__.py", '"""Part of the tree."""\n'
    yield f"{PACKAGE}/ops/registry.py", _REGISTRY
    for module in modules:
        yield (
            module.replace(".", "/") + ".py",
            _op_module([op for op in ops if op.module == module]),
        )
    rest = max(0, shape.files - len(packages) - len(modules) - 1)
    size = shape.megabytes * 1e6 / max(1, shape.files)
    leaves = packages[2:]
    leaves = [p for p in leaves if "/part_" in p]
    for number in range(rest):
        chance = random.Random(number)
        first = number * shape.calls // rest
        calls = [ops[n % len(ops)] for n in range(first, (number + 1) * shape.calls // rest)]
        # Real files vary in length: most are shorter than the mean, a few much longer.
        length = size * (0.3, 0.5, 0.7, 0.9, 1.1, 2.5)[number % 6]
        name = f"{chance.choice(_NOUNS)}_{chance.choice(_NOUNS)}_{number}"
        yield (
            f"{leaves[number % len(leaves)]}/{name}.py",
            _plain_module(number, chance, int(length), calls if ops else []),
        )


def _ops(number: int) -> list[Op]:
    chance = random.Random(1)
    found = []
    for index in range(number):
        name = f"{chance.choice(_VERBS)}_{chance.choice(_NOUNS)}_{index}"
        module = f"{PACKAGE}.ops.family_{index // OPS_IN_A_FILE}"
        # One in twelve returns the buffer that it may be given.
        found.append(Op(name, module, takes_out=index % 12 == 5))
    return found


def _op_module(ops: list[Op]) -> str:
    parts = [_OP_HEADER]
    for op in ops:
        index = int(op.name.rpartition("_")[2])
        if op.takes_out:
            form = _MAYBE_OUT
        elif index % 12 == 9:
            form = _NO_FAKE
        elif index % 4 == 2:
            form = _BY_HELPER
        elif index % 8 == 4:
            form = _BY_LIBRARY
        elif index % 8 == 7:
            form = _MUTABLE
        else:
            form = _FUNCTIONAL
        parts.append(form.replace("NAME", op.name).replace("SPACE", NAMESPACE))
    return "\n\n".join(parts)


def _plain_module(number: int, chance: random.Random, length: int, calls: list[Op]) -> str:
    title = f"{chance.choice(_VERBS)} the {chance.choice(_NOUNS)}s".capitalize()
    imported = sorted({(op.module, op.name) for op in calls if not op.takes_out})
    lines = "".join(f"from {module} import {name}\n" for module, name in imported)
    header = _HEADER.replace("TITLE", title)
    parts = []
    if number % INCIDENTAL == 7:
        parts.append(_INCIDENTAL[number // INCIDENTAL % len(_INCIDENTAL)])
    waiting = list(calls)
    size = len(header) + len(lines) + sum(map(len, parts))
    serial = 0
    while size < length or waiting:
        part = _part(chance, serial, waiting)
        serial += 1
        parts.append(part)
        size += len(part) + 2
    body = "\n\n".join(parts)
    used = "".join(f"{line}\n" for word, line in _IMPORTS if word in body)
    return "\n\n".join([header.replace("IMPORTS", f"{used}{lines}"), body])


def _part(chance: random.Random, serial: int, waiting: list[Op]) -> str:
    words = {
        "NOUN": chance.choice(_NOUNS),
        "OTHER": chance.choice(_NOUNS),
        "THIRD": chance.choice(_NOUNS),
        "VERB": chance.choice(_VERBS),
        "SECOND": chance.choice(_VERBS),
        "SERIAL": str(serial),
        "NUMBER": str(chance.randrange(2, 4096)),
    }
    if waiting:
        op = waiting.pop()
        text = _CALLER
        if op.takes_out:
            call = f"torch.ops.{NAMESPACE}.{op.name}(hidden, weight, out=buffer)"
        else:
            call = f"{op.name}(hidden, weight)"
        words["CALL"] = call
    else:
        text = chance.choice(_PARTS)
    words["CLASS"] = words["NOUN"].capitalize() + words["OTHER"].capitalize()
    for word, value in words.items():
        text = text.replace(word, value)
    return text


_HEADER = '''\
# Copyright of the authors of this tree.
"""TITLE.

What is here is shared by the parts of the engine that run on the device, and by the tests.
"""

from __future__ import annotations

import logging

IMPORTS
logger = logging.getLogger(__name__)
'''

# What a file imports where the word is used in it, as people keep it: nothing unused.
_IMPORTS = (
    ("functools.", "import functools"),
    ("math.", "import math"),
    ("Callable[", "from collections.abc import Callable"),
    ("Iterable[", "from collections.abc import Iterable"),
    ("Sequence[", "from collections.abc import Sequence"),
    ("@dataclass", "from dataclasses import dataclass, field"),
    ("Any]", "from typing import Any"),
    ("torch.", "import torch"),
    ("nn.", "from torch import nn"),
    ("F.", "from torch.nn import functional as F"),
)

# The rules that ruff's documentation calls its defaults, whatever a release adds to them.
_PROJECT = f"""\
[project]
name = "{PACKAGE}"
version = "1.0"

[tool.ruff.lint]
select = ["E4", "E7", "E9", "F"]
"""

_PARTS = (
    '''\
@dataclass
class CLASSConfigSERIAL:
    """How the NOUN and its OTHER are laid out.

    Args:
        hidden_size: Width of the NOUN.
        num_heads: Number of heads, of which the THIRD has NUMBER at most.
        dropout: Chance that an element of the OTHER is left out.
    """

    hidden_size: int = NUMBER
    num_heads: int = 32
    dropout: float = 0.0
    eps: float = 1e-6
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads != 0:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_heads {self.num_heads}"
            )

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads
''',
    '''\
class CLASSSERIAL(nn.Module):
    """Runs the NOUN over the OTHER, then the THIRD."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int = NUMBER,
        bias: bool = False,
        eps: float = 1e-6,
        prefix: str = "",
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=bias)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=bias)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=bias)
        self.norm = nn.LayerNorm(hidden_size, eps=eps)
        self.register_buffer("NOUN_scale", torch.ones(hidden_size), persistent=False)
        self.prefix = prefix

    def forward(
        self,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # The first of the THIRDs has no residual yet.
        if residual is None:
            residual = hidden_states
            hidden_states = self.norm(hidden_states)
        else:
            residual = hidden_states + residual
            hidden_states = self.norm(residual)
        gate = F.silu(self.gate_proj(hidden_states))
        if position_ids is not None:
            gate = gate * self.NOUN_scale[position_ids % self.hidden_size]
        hidden_states = self.down_proj(gate * self.up_proj(hidden_states))
        return hidden_states, residual

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        parameters = dict(self.named_parameters())
        loaded: set[str] = set()
        for name, tensor in weights:
            if "rotary_emb.inv_freq" in name:
                continue
            for shard, target in (("q_proj", "qkv"), ("k_proj", "qkv"), ("v_proj", "qkv")):
                if shard not in name:
                    continue
                name = name.replace(shard, target)
                break
            if name.endswith(".bias") and name not in parameters:
                logger.debug("no parameter for %s in %s", name, self.prefix)
                continue
            with torch.no_grad():
                parameters[name].copy_(tensor.to(parameters[name].dtype))
            loaded.add(name)
        return loaded
''',
    '''\
def VERB_NOUN_SERIAL(
    values: torch.Tensor,
    lengths: Sequence[int],
    *,
    limit: int = NUMBER,
    device: torch.device | str = "cpu",
    callback: Callable[[int, torch.Tensor], None] | None = None,
) -> tuple[torch.Tensor, list[int]]:
    """SECOND the OTHER of every THIRD up to a limit.

    Returns what was kept, padded to the longest, and how much of each that is. Entries that are
    longer than the limit are cut; the caller is told of each by the callback.
    """
    kept: list[int] = []
    rows = []
    start = 0
    for index, length in enumerate(lengths):
        end = start + length
        row = values[start:end]
        if length > limit:
            logger.warning("NOUN %d has %d entries, and %d are kept", index, length, limit)
            row = row[:limit]
            if callback is not None:
                callback(index, row)
        kept.append(min(length, limit))
        rows.append(F.pad(row, (0, max(0, limit - row.shape[0]))))
        start = end
    if not rows:
        return torch.empty(0, limit, device=device), kept
    stacked = torch.stack(rows).to(device, non_blocking=True)
    mask = torch.arange(limit, device=device)[None, :] < torch.tensor(kept, device=device)[:, None]
    return torch.where(mask, stacked, torch.zeros_like(stacked)), kept
''',
    '''\
@functools.lru_cache(maxsize=NUMBER)
def VERB_OTHER_SERIAL(name: str, width: int = 128, depth: int = 4) -> dict[str, Any]:
    """Return the table of the NOUN for a device, SECONDed to its width."""
    table: dict[str, Any] = {"name": name, "width": width, "depth": depth}
    try:
        number = int(name.rpartition(":")[2])
    except ValueError:
        number = -1
    block = 2 ** int(math.log2(max(width, 1)))
    while block > 16 and width % block:
        block //= 2
    table["block"] = block
    table["stages"] = [min(depth, stage + 1) for stage in range(depth) if stage != number]
    table["warps"] = {64: 4, 128: 8}.get(block, 2)
    if number >= 0 and table["warps"] > 4:
        table["pinned"] = tuple(f"{name}/{stage}" for stage in table["stages"])
    return {key: value for key, value in table.items() if value is not None}
''',
    '''\
class TestCLASSSERIAL:
    """The NOUN, SECONDed and not."""

    @staticmethod
    def _make(batch: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        generator = torch.Generator().manual_seed(NUMBER)
        return torch.randn(batch, width, generator=generator).to(dtype)

    def test_VERB_keeps_the_OTHER(self) -> None:
        for batch, width in ((1, 16), (3, 64), (17, 256)):
            given = self._make(batch, width)
            expected = given.float().softmax(dim=-1)
            found = torch.exp(given - given.logsumexp(dim=-1, keepdim=True))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_VERB_refuses_a_wrong_THIRD(self) -> None:
        given = self._make(2, 8)
        try:
            given.view(3, 7)
        except RuntimeError as error:
            assert "shape" in str(error)
        else:
            raise AssertionError("a wrong shape was taken")
''',
)

_CALLER = '''\
def SECOND_NOUN_with_op_SERIAL(
    hidden: torch.Tensor, weight: torch.Tensor, buffer: torch.Tensor | None = None
) -> torch.Tensor:
    """VERB the NOUN, then the OTHER, on the device."""
    if hidden.dim() != 2:
        hidden = hidden.reshape(-1, hidden.shape[-1])
    result = CALL
    if buffer is not None and buffer.numel() < NUMBER:
        logger.debug("a small buffer for the THIRD: %d", buffer.numel())
    return result * weight.mean()
'''

_INCIDENTAL = (
    '''\
def load_shared_library_names(names: Iterable[str]) -> list[str]:
    """Names of what CDLL calls a Library, in the order of loading."""
    return [f"lib{name}.so" for name in sorted(names)]
''',
    '''\
class Parser:
    """Collects settings; see torch.library for what is registered elsewhere."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def define(self, name: str, default: Any = None) -> None:
        self.known[name] = default


settings = Parser()
settings.define("port", default=8000)
settings.define("host", default="localhost")
''',
    """\
# The ops themselves are made with custom_op, beside their kernels.
USES_OPS = True
""",
)

_OP_HEADER = '''\
"""Ops of one family."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import Library, custom_op

from bench.ops.registry import direct_register_custom_op

lib = Library("bench", "FRAGMENT")


def scaled(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return x, normed and weighted."""
    variance = x.float().pow(2).mean(dim=-1, keepdim=True)
    return (x.float() * torch.rsqrt(variance + eps) * weight).to(x.dtype)
'''

_REGISTRY = '''\
"""How this project registers ops without the cost of custom_op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.library import Library, infer_schema

bench_lib = Library("bench", "FRAGMENT")


def direct_register_custom_op(
    op_name: str,
    op_func: Callable,
    mutates_args: Sequence[str] = (),
    fake_impl: Callable | None = None,
    dispatch_key: str = "CUDA",
) -> None:
    """Register a function under a name."""
    schema = infer_schema(op_func, mutates_args=mutates_args)
    bench_lib.define(op_name + schema)
    bench_lib.impl(op_name, op_func, dispatch_key=dispatch_key)
    if fake_impl is not None:
        bench_lib._register_fake(op_name, fake_impl)
'''

_FUNCTIONAL = '''\
@custom_op("SPACE::NAME", mutates_args=())
def NAME(x: Tensor, weight: Tensor) -> Tensor:
    """Return x, scaled row by row."""
    rows = x.shape[0]
    result = torch.empty_like(x)
    for row in range(0, rows, 128):
        chunk = x[row : row + 128]
        result[row : row + 128] = scaled(chunk, weight)
    return result


@NAME.register_fake
def _NAME_fake(x: Tensor, weight: Tensor) -> Tensor:
    return torch.empty_like(x)
'''

_NO_FAKE = '''\
@custom_op("SPACE::NAME", mutates_args=())
def NAME(x: Tensor, weight: Tensor) -> Tensor:
    """Return x, scaled."""
    return scaled(x, weight)
'''

_MUTABLE = '''\
@custom_op("SPACE::NAME", mutates_args=("x",))
def NAME(x: Tensor, weight: Tensor) -> None:
    """Scale x where it stands."""
    x.copy_(scaled(x, weight))
'''

_MAYBE_OUT = '''\
@custom_op("SPACE::NAME", mutates_args=("out",))
def NAME(x: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """Return x, scaled, in a buffer where one is given."""
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, weight, out=out)
    return out


@NAME.register_fake
def _NAME_fake(x: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.empty_like(x) if out is None else out
'''

_BY_HELPER = '''\
def NAME(x: Tensor, weight: Tensor) -> Tensor:
    """Return x, scaled on the device."""
    result = torch.empty_like(x)
    result.copy_(scaled(x, weight))
    return result


def _NAME_fake(x: Tensor, weight: Tensor) -> Tensor:
    return torch.empty_like(x)


direct_register_custom_op(
    op_name="NAME",
    op_func=NAME,
    mutates_args=[],
    fake_impl=_NAME_fake,
)
'''

_BY_LIBRARY = '''\
lib.define("NAME(Tensor x, Tensor weight) -> Tensor")


def NAME(x: Tensor, weight: Tensor) -> Tensor:
    """Return x, scaled."""
    return scaled(x, weight)


@torch.library.register_fake("SPACE::NAME")
def _NAME_fake(x: Tensor, weight: Tensor) -> Tensor:
    return torch.empty_like(x)


lib.impl("NAME", NAME, "CompositeExplicitAutograd")
'''


def main() -> None:
    """Write the tree that the command line asks for."""
    usual = Shape()
    parser = argparse.ArgumentParser(description="Write a synthetic source tree.")
    parser.add_argument("root", type=Path, help="an empty or missing directory")
    parser.add_argument("--files", type=int, default=usual.files)
    parser.add_argument("--megabytes", type=float, default=usual.megabytes)
    parser.add_argument("--ops", type=int, default=usual.ops)
    parser.add_argument("--calls", type=int, default=usual.calls)
    given = parser.parse_args()
    shape = Shape(given.files, given.megabytes, given.ops, given.calls)
    print(f"{write_tree(given.root, shape)} bytes in {given.files} files")


if __name__ == "__main__":
    main()

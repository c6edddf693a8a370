"""What a call of a generated op costs, and what a split op saves under torch.compile.

The first table calls ops of every kind, as `opscaffold new` makes them with ``--registration
custom_op`` and with ``library``: what each call takes on top of the same function called directly,
beside a whole call of the like op of PyTorch. The second compiles the same few programs over one
op in four forms, and counts the copies and the buffers in the code that Inductor generates. All of
it is measured in turn in one process, on the CPU. Nothing is asserted.

    python benchmarks/call_overhead.py [--rounds N] [--calls N] [--only calls|compiled]
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import tempfile
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CORES = 2
SIZE = 512
Function = Callable[..., Any]


@dataclass(frozen=True)
class Kind:
    """One op to call: its schema, its arguments, and the op of PyTorch that it is like."""

    name: str
    schema: str
    arguments: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]
    aten: Function
    autograd: bool = False
    like: str = "x"


def kinds(torch: Any) -> Iterator[Kind]:
    """Every kind that `new` generates."""

    def tensor(*, grad: bool = False) -> Any:
        return torch.ones(2, 3, requires_grad=grad)

    a = torch.ops.aten
    one = "(Tensor x) -> Tensor"
    yield Kind("functional", f"pure{one}", lambda _: ((tensor(),), {}), a.clone.default)
    yield Kind(
        "functional, two results",
        "two(Tensor x) -> (Tensor, Tensor)",
        lambda _: ((tensor(),), {}),
        lambda x: a.aminmax.default(x, dim=0),
    )
    yield Kind(
        "functional, a list",
        "many(Tensor[] xs) -> Tensor",
        lambda _: (([tensor(), tensor()],), {}),
        a.stack.default,
        like="xs",
    )
    yield Kind(
        "functional with autograd",
        f"trained{one}",
        lambda _: ((tensor(),), {}),
        a.clone.default,
        autograd=True,
    )
    yield Kind(
        "the same, recording",
        f"recorded{one}",
        lambda _: ((tensor(grad=True),), {}),
        a.clone.default,
        autograd=True,
    )
    yield Kind(
        "in-place",
        "own_(Tensor(a!) x) -> Tensor(a!)",
        lambda _: ((tensor(),), {}),
        a.neg_.default,
    )
    yield Kind(
        "out=",
        "into_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        lambda _: ((tensor(),), {"out": tensor()}),
        a.neg.out,
    )
    yield Kind("mutable", "move(Tensor(a!) x) -> ()", lambda _: ((tensor(),), {}), a.neg_.default)
    yield Kind(
        "mutable, with a result",
        "pop(Tensor(a!) x) -> Tensor",
        lambda _: ((tensor(),), {}),
        a.clone.default,
    )


def generated(scratch: Path, which: Sequence[Kind]) -> dict[str, Any]:
    """The same ops in two packages, imported, by the way that they are registered."""
    from opscaffold.scaffold.matrix_ops import op_of
    from opscaffold.scaffold.render import render_package
    from opscaffold.scaffold.spec import PackageSpec, Registration

    made: dict[str, Any] = {}
    for way in Registration:
        name = f"bench_{way.value}"
        ops = tuple(op_of(f"{name}::{k.schema}", like=k.like, autograd=k.autograd) for k in which)
        spec = PackageSpec(name, name, name, ops, description="To measure.", registration=way)
        package = render_package(spec, scratch).path
        sys.path.insert(0, str(package / "src"))
        made[way.value] = {
            k.name: importlib.import_module(f"{name}.ops.{k.schema.partition('(')[0].lower()}")
            for k in which
        }
        for module in made[way.value].values():
            # The time of a call is what is measured, so the kernels do nothing.
            module._kernel = _nothing  # noqa: SLF001
    return made


def _nothing(*_: Any) -> None:
    """Stand for a kernel."""


def fastest(functions: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, float]:
    """Microseconds a call: of each the fastest round, all in turn. Noise only ever adds time."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], timeit.timeit(function, number=calls) / calls * 1e6)
    return best


def calls_table(torch: Any, scratch: Path, rounds: int, calls: int) -> None:
    """Print what calls cost."""
    which = [*kinds(torch)]
    made = generated(scratch, which)
    print(
        "| kind | the function itself | op of PyTorch | custom_op adds | library adds | "
        "library / custom_op | custom_op / op of PyTorch | library / op of PyTorch | guards add |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in which:
        args, kwargs = kind.arguments(torch)
        one, other = (vars(made[way][kind.name]) for way in ("custom_op", "library"))
        public = other[kind.schema.partition("(")[0]]
        functions: dict[str, Function] = {
            # What the op runs in the end, without a gradient to record.
            "direct": torch.no_grad()(vars(one["_op"])["_init_fn"]),
            "nothing": torch.no_grad()(lambda *_, **__: None),
            "aten": kind.aten,
            "custom_op": one["_op"],
            "library": other["_op"],
            "public": public,
        }
        bound = {name: _bound(function, args, kwargs) for name, function in functions.items()}
        took = fastest(bound, rounds, calls)
        direct = took["direct"] - took["nothing"]
        custom, library = took["custom_op"] - direct, took["library"] - direct
        print(
            f"| {kind.name} | {direct:.1f} us | {took['aten']:.1f} us | {custom:.1f} us | "
            f"{library:.1f} us | {library / custom:.2f}x | {custom / took['aten']:.1f}x | "
            f"{library / took['aten']:.1f}x | {took['public'] - took['library']:.1f} us |",
            flush=True,
        )


def _bound(function: Function, args: Any, kwargs: Any) -> Callable[[], Any]:
    return lambda: function(*args, **kwargs)


class Forms:
    """One op, ``x + y``, in the forms in which it is met; each takes a buffer or none."""

    def __init__(self, torch: Any) -> None:
        self.copied = self.allocated = 0
        """Copies made and buffers asked for within ops, where no compiler sees them."""
        self.torch = torch
        define = torch.library.Library("bench_forms", "FRAGMENT")
        tag = torch.Tag.pt2_compliant_tag
        read = "Tensor x, Tensor y"
        define.define(f"pure({read}) -> Tensor", tags=tag)
        define.define(
            f"into_out({read}, *, Tensor(a!) out) -> Tensor(a!)", tags=(tag, torch.Tag.out)
        )
        define.define(f"exact({read}, Tensor(a!) out) -> ()", tags=tag)
        define.define("over(Tensor(a!) x, Tensor(b!) y, Tensor(c!) out) -> ()", tags=tag)
        define.define(f"maybe({read}, Tensor(a!)? out=None) -> Tensor", tags=tag)
        key = "CompositeExplicitAutograd"
        define.impl("pure", self._add, key)
        define.impl("into_out", lambda x, y, *, out: torch.add(x, y, out=out), key)
        define.impl("exact", self._write, key)
        define.impl("over", self._write, key)
        define.impl("maybe", self._maybe, key)
        for name in ("pure", "maybe"):
            torch.library.register_fake(f"bench_forms::{name}", self._fake, lib=define)
        self.library = define
        self.ops = torch.ops.bench_forms

    def _fake(self, x: Any, _y: Any, _out: Any = None) -> Any:
        return self.torch.empty_like(x)

    def _add(self, x: Any, y: Any) -> Any:
        self.allocated += 1
        return self.torch.add(x, y)

    def _write(self, x: Any, y: Any, out: Any) -> None:
        self.torch.add(x, y, out=out)

    def _maybe(self, x: Any, y: Any, out: Any = None) -> Any:
        if out is None:
            return self._add(x, y)
        self.torch.add(x, y, out=out)
        # PyTorch refuses the buffer itself.
        self.copied += 1
        self.allocated += 1
        return out.clone()

    def split(self, x: Any, y: Any, out: Any = None) -> Any:
        """Two ops: a functional one, and one with Tag.out."""
        if out is None:
            return self.ops.pure.default(x, y)
        self.ops.into_out.default(x, y, out=out)
        return out

    def maybe(self, x: Any, y: Any, out: Any = None) -> Any:
        """The maybe-out: one op with an Optional buffer, which returns a copy of it."""
        return self.ops.maybe.default(x, y, out)

    def exact(self, x: Any, y: Any, out: Any = None) -> Any:
        """One mutable op, which always takes a buffer."""
        out = self.torch.empty_like(x) if out is None else out
        self.ops.exact.default(x, y, out)
        return out

    def over(self, x: Any, y: Any, out: Any = None) -> Any:
        """The same, with all it takes declared as written, as ``mutates_args="unknown"`` does."""
        out = self.torch.empty_like(x) if out is None else out
        self.ops.over.default(x, y, out)
        return out


def _fresh(op: Function, x: Any, w: Any, _: Any) -> Any:
    a = x.sin()
    return op(a, w) * a


def _twice(op: Function, x: Any, w: Any, _: Any) -> Any:
    a = x.sin()
    return op(a, a) * op(a, w)


def _trained(op: Function, x: Any, w: Any, _: Any) -> Any:
    a = (x * w).exp()
    return (op(a.detach(), x) * a).sum()


def _inner(op: Function, x: Any, w: Any, _: Any) -> Any:
    own = x.new_empty(x.shape)
    op(x.sin(), w, own)
    return own * x


def _given(op: Function, x: Any, w: Any, buffer: Any) -> Any:
    return op(x.sin(), w, buffer) * x


PROGRAMS = {
    "a fresh result": _fresh,
    "two results, one of one tensor twice": _twice,
    "an input that backward needs": _trained,
    "into a buffer of the program": _inner,
    "into a buffer of the caller": _given,
}


def compiled_table(torch: Any, rounds: int) -> None:
    """Print what Inductor makes of each form."""
    from torch._inductor.utils import run_and_get_code

    torch._inductor.config.force_disable_caches = True  # noqa: SLF001
    forms = Forms(torch)
    names = ("split", "exact", "over", "maybe")
    print("| program | split | mutable | over-declared mutable | maybe-out |")
    print("|---|---|---|---|---|")
    for what, program in PROGRAMS.items():
        cells: list[str] = []
        ready: dict[str, Callable[[], Any]] = {}
        counts: dict[str, str] = {}
        for name in names:
            x = torch.randn(SIZE, SIZE)
            w = torch.randn(SIZE, SIZE, requires_grad=program is _trained)
            buffer = torch.zeros(SIZE, SIZE)
            torch._dynamo.reset()  # noqa: SLF001
            made = torch.compile(program, fullgraph=True)
            given = (getattr(forms, name), x, w, buffer)
            try:
                _, (code, *_) = run_and_get_code(made, *given)
            except (AssertionError, RuntimeError) as error:
                refused = "modified by an inplace operation" in str(error)
                counts[name] = "no backward" if refused else "does not compile"
                continue
            expected = program(forms.split, x, w, buffer.clone())
            forms.copied = forms.allocated = 0
            torch.testing.assert_close(made(*given), expected, rtol=1e-3, atol=1e-3)
            copied = copies(code) + forms.copied
            counts[name] = f"{copied} copies, {buffers(code) + forms.allocated} buffers"
            ready[name] = _bound(made, given, {})
        took = fastest(ready, rounds, 20)
        for name in names:
            ratio = f", {took[name] / took['split']:.2f}x" if name in took else ""
            cells.append(counts[name] + ratio)
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


def copies(code: str) -> int:
    """How many tensors the generated code writes that hold what another one holds."""
    found = 0
    for part in code.split("async_compile.cpp_pybinding")[1:]:
        kernel = part.split("'''")[1]
        loaded = r"auto (tmp\d+) = (?:at::vec::Vectorized<\w+>::loadu\(|\w+_ptr\d+\[)"
        loads = set(re.findall(loaded, kernel))
        stores = [(p, v) for v, p in re.findall(r"(tmp\d+)\.store\((\w+_ptr\d+)", kernel)]
        stores += re.findall(r"(\w+_ptr\d+)\[[^\n]*\] = (tmp\d+);", kernel)
        found += len({pointer for pointer, value in stores if value in loads})
    wrapper = code.partition("def call(self, args)")[2]
    return found + len(re.findall(r"\baten\.(?:copy_|clone)\b|\.copy_\(", wrapper))


def buffers(code: str) -> int:
    """How many buffers the generated code asks for."""
    return code.partition("def call(self, args)")[2].count("empty_strided_cpu(")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="Measure generated ops.")
    parser.add_argument("--rounds", type=int, default=15, help="rounds, in turn (default: 15)")
    parser.add_argument("--calls", type=int, default=2000, help="calls a round (default: 2000)")
    parser.add_argument("--only", choices=("calls", "compiled"), help="one of the two tables")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {CORES} cores\n")
    with tempfile.TemporaryDirectory(prefix="opscaffold-bench-") as scratch:
        if given.only != "compiled":
            calls_table(torch, Path(scratch), given.rounds, given.calls)
        if given.only is None:
            print()
        if given.only != "calls":
            compiled_table(torch, given.rounds)


if __name__ == "__main__":
    main()

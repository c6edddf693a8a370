"""Small programs, each with one breach that is repaired or left, and calls of the op."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = "import torch\nfrom torch import Tensor\n\n\n"
DENSE = "torch.randn(4, 6)"
TURNED = "torch.randn(6, 4).t()"
SPREAD = "torch.randn(4, 1).expand(4, 6)"
LATER = "torch.randn(5, 6)[1:]"
LAYOUTS = (DENSE, TURNED, SPREAD)
WRITABLE = (DENSE, TURNED, LATER)


@dataclass(frozen=True)
class Program:
    """A module, and the arguments to call its op ``f`` (or another) with, as expressions.

    ``namespace`` is that of its ops, ``unsafe`` says that only --unsafe repairs it.
    """

    source: str
    calls: tuple[str, ...]
    op: str = "f"
    namespace: str = "demo"
    unsafe: bool = False


def calls(*more: str, layouts: Sequence[str] = LAYOUTS) -> tuple[str, ...]:
    """Arguments of a call for each layout, each with each of the other arguments."""
    return tuple(
        f"({x}, {other})" if other else f"({x},)" for x in layouts for other in more or [""]
    )


def kernel(
    body: str,
    parameters: str = "x: Tensor",
    returns: str = "Tensor",
    *,
    mutates: str = "()",
    fake: str = "",
    above: str = "",
    below: str = "",
    by: str = "custom_op",
    given: Sequence[str] | None = None,
    unsafe: bool = False,
) -> Program:
    """A program of one op that is defined by a decorator."""
    head = f'@torch.library.{by}("demo::f", mutates_args={mutates})\n'
    text = f"{HEADER}{above}{head}def f({parameters}) -> {returns}:\n"
    text += textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    if fake:
        text += f"\n\n@f.register_fake\n{fake}\n"
    return Program(text + below, tuple(given) if given is not None else calls(), unsafe=unsafe)


NUMBERED = "x: Tensor, n: int"
TWO, THREE = "tuple[Tensor, Tensor]", "tuple[Tensor, Tensor, Tensor]"
LIKE = "def _(x):\n    return torch.empty_like(x)"

CLONES: dict[str, Program] = {
    "the argument": kernel("return x"),
    "and its fake too": kernel("return x", fake="def _(x):\n    return x"),
    "with a fake alike": kernel("return x", fake=LIKE),
    "with a contiguous fake": kernel("return x", fake="def _(x):\n    return x.new_empty(x.shape)"),
    "on one path": kernel(
        "if n == 0:\n    return x\nreturn x * n", NUMBERED, given=calls("0", "2")
    ),
    "cut, or whole": kernel(
        "if n >= x.shape[0]:\n    return x\nreturn x[:n]",
        NUMBERED,
        fake="def _(t, k):\n    return t[:k]",
        given=calls("1", "9"),
    ),
    "an arm": kernel("return x if n == 0 else x * 2", NUMBERED, given=calls("0", "2")),
    "nested arms": kernel(
        "return (x if n == 0 else x.t().contiguous() if n == 1 else x.view_as(x))",
        NUMBERED,
        given=calls("0", "1", "2"),
    ),
    "bound by an arm": kernel(
        "y = x if n == 0 else x * 2\nreturn y", NUMBERED, given=calls("0", "2")
    ),
    "bound in a branch": kernel(
        "if n == 0:\n    y = x\nelse:\n    y = x * 2\nreturn y", NUMBERED, given=calls("0", "2")
    ),
    "bound and used": kernel(
        "y = x\nif n:\n    y = y * 2\nreturn y", NUMBERED, given=calls("0", "2")
    ),
    "bound twice over": kernel("y = x.t()\nz = y\nreturn z"),
    "a walrus in a test": kernel(
        "if (y := x.contiguous()).numel() > n:\n    return y\nreturn x * 1",
        NUMBERED,
        given=calls("0", "100"),
    ),
    "a walrus": kernel("return (y := x.view(x.shape))"),
    "contiguous": kernel("return x.contiguous()"),
    "contiguous, fake alike": kernel("return x.contiguous()", fake=LIKE),
    "contiguous, same fake": kernel(
        "return x.contiguous()", fake="def _(x):\n    return x.contiguous()"
    ),
    "contiguous, kept": kernel("y = x.contiguous()\nreturn y"),
    "contiguous, used": kernel("y = x.contiguous()\nz = y + 1\nz.sum()\nreturn y"),
    "channels last": kernel(
        "return x.contiguous(memory_format=torch.channels_last)",
        given=["(torch.randn(2, 3, 4, 5),)"],
    ),
    "to": kernel(
        "return x.to(dt)", "x: Tensor, dt: torch.dtype", given=calls("torch.half", "torch.float32")
    ),
    "to, over lines": kernel("return x.to(\n    torch.float32,\n    non_blocking=False,\n)"),
    "to, with a comment": kernel("return x.to(\n    torch.float32,  # wide\n)"),
    "to a device": kernel("return x.to('cpu', torch.float32, False)"),
    "float": kernel("return x.float()", given=[*calls(), "(torch.ones(2, dtype=torch.int64),)"]),
    "type_as": kernel("return x.type_as(y)", "x: Tensor, y: Tensor", given=calls("torch.ones(1)")),
    "reshape": kernel("return x.reshape(-1)"),
    "a slice": kernel("return x[1:3]", fake="def _(x):\n    return x.new_empty((2, *x.shape[1:]))"),
    "turned": kernel("return x.T"),
    "turned, same fake": kernel("return x.t()", fake="def _(x):\n    return x.t()"),
    "detached": kernel("return x.detach()"),
    "a list of parts": kernel("return list(x.chunk(2))", returns="list[Tensor]"),
    "parts": kernel("return x.chunk(2, dim=1)", returns="list[Tensor]"),
    "parts as a tuple": kernel("return x.chunk(2)", returns=TWO),
    "parts by name": kernel("a, b = x.chunk(2)\nreturn a, b", returns=TWO),
    "rows": kernel("return [x[i] for i in range(x.shape[0])]", returns="list[Tensor]"),
    "rows of a new one": kernel(
        "y = x * 2\nreturn [y[i] for i in range(y.shape[0])]", returns="list[Tensor]"
    ),
    "appended": kernel(
        "out = []\nfor i in range(2):\n    out.append(x[i])\nreturn out", returns="list[Tensor]"
    ),
    "starred": kernel("return [*x.chunk(2)]", returns="list[Tensor]"),
    "beside a new one": kernel("return x, x * 2", returns=TWO),
    "twice": kernel("y = x + 1\nreturn y, y", returns=TWO),
    "twice, under a name": kernel("y = x * 2\nout = (y, y)\nreturn out", returns=TWO),
    "three times": kernel("y = x + 1\nreturn y, y.t(), y", returns=THREE),
    "a part and the whole": kernel("full = x.cumsum(0)\nreturn full[:1], full", returns=TWO),
    "new parts": kernel("return list((x * 1.0).chunk(2))", returns="list[Tensor]"),
    "new parts, contiguous fake": kernel(
        "y = x * 2\na, b = y.chunk(2, dim=-1)\nreturn a, b",
        returns=TWO,
        fake="def _(x):\n    a = x.new_empty((x.shape[0], x.shape[1] // 2))\n"
        "    return a, torch.empty_like(a)",
    ),
    "twice in an arm": kernel(
        "y = x * 2\nreturn (y, y) if n else (y, y + 1)", NUMBERED, TWO, given=calls("0", "1")
    ),
    "a helper's": kernel("return _same(x)", above="def _same(t):\n    return t\n\n\n"),
    "a helper's pair": kernel(
        "return _pair(x)", returns=TWO, above="def _pair(t):\n    return t, t * 2\n\n\n"
    ),
    "an element": kernel(
        "return xs[0]", "xs: list[Tensor]", given=["([torch.ones(2), torch.zeros(2)],)"]
    ),
    "a list given": kernel(
        "return xs", "xs: list[Tensor]", "list[Tensor]", given=["([torch.ones(2)],)"]
    ),
    "a sign": kernel("return +x"),
    "conjugate": kernel("return x.conj()", given=["(torch.randn(3, dtype=torch.cfloat),)"]),
    "parameter bound anew": kernel(
        "x = x.contiguous()\nif n:\n    x = x * 2\nreturn x", NUMBERED, given=calls("0", "1")
    ),
    "another kernel": kernel(
        "return x * 1", below='\n\n@f.register_kernel("cpu")\ndef _(x):\n    return x[:]\n'
    ),
    "triton_op": kernel("return x.contiguous()", by="triton_op"),
    "beside a mutation": kernel(
        "x.mul_(2)\nreturn x[:1]", mutates='("x",)', given=calls(layouts=WRITABLE)
    ),
    "an array's": kernel("return torch.from_numpy(x.numpy())", unsafe=True),
    "a buffer that stays": kernel("return _W", above="_W = torch.ones(3)\n\n\n", unsafe=True),
    "a cache": kernel(
        "y = _C.get(n)\nif y is None:\n    y = torch.zeros(n)\n    _C[n] = y\nreturn y",
        NUMBERED,
        above="_C = {}\n\n\n",
        given=calls("3"),
        unsafe=True,
    ),
    "low-level": Program(
        HEADER + 'lib = torch.library.Library("demo", "FRAGMENT")\n'
        'lib.define("f(Tensor x, int n) -> Tensor")\n\n\n@torch.library.impl(lib, "f", "CPU")\n'
        "def _f(x, n):\n    return x if n else x * 2\n\n\nf = torch.ops.demo.f\n",
        calls("0", "1"),
        unsafe=True,
    ),
    "a lambda": Program(
        HEADER + 'lib = torch.library.Library("demo", "FRAGMENT")\n'
        'lib.define("f(Tensor x) -> Tensor")\nlib.impl("f", lambda x: x.detach(), "CPU")\n'
        "f = torch.ops.demo.f\n",
        calls(),
        unsafe=True,
    ),
    "where a buffer may be omitted": kernel(
        "if out is None:\n    return x\nout.copy_(x)\nreturn out",
        "x: Tensor, out: Tensor | None = None",
        mutates='("out",)',
    ),
    "crop, as reported": Program(
        """\
import torch


@torch.library.custom_op("demo::crop_tile", mutates_args=())
def crop_tile(tile: torch.Tensor, keep: int) -> torch.Tensor:
    if keep >= tile.shape[0]:
        return tile  # fault: nothing to crop, so the caller's storage escapes
    return tile[:keep].clone()


@crop_tile.register_fake
def _(tile, keep):
    return tile.new_empty((min(keep, tile.shape[0]), *tile.shape[1:]))
""",
        (
            "(torch.arange(12.0).reshape(6, 2), 2)",
            "(torch.arange(12.0).reshape(6, 2), 6)",
            "(torch.arange(12.0).reshape(2, 6).t(), 6)",
        ),
        op="crop_tile",
    ),
}

GIVEN = calls("torch.ones(4, 6)", layouts=WRITABLE)
ALONE = calls(layouts=WRITABLE)
PAIR = "x: Tensor, y: Tensor"
INSTALL = """\
_LIB = torch.library.Library("demo", "FRAGMENT")


def install(name, fn, mutates_args=(), fake=None):
    schema = torch.library.infer_schema(fn, mutates_args=mutates_args)
    _LIB.define(name + schema)
    _LIB.impl(name, fn, "CPU")
    if fake is not None:
        _LIB._register_fake(name, fake)


def guarded(mutates_args="unknown", fake=None):
    def deco(fn):
        install(fn.__name__, fn, mutates_args=mutates_args, fake=fake)
        return fn

    return deco


def _f(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def _f_like(x):
    return torch.empty_like(x)


"""
WRITES = "x.add_(1)\nreturn x * 2"
LIB = HEADER + 'lib = torch.library.Library("demo", "FRAGMENT")\n'


def installed(line: str) -> Program:
    """A program whose op is registered by a helper of its own."""
    return Program(f"{HEADER}{INSTALL}{line}\nf = torch.ops.demo.f\n", ALONE)


MUTATIONS: dict[str, Program] = {
    "an empty tuple": kernel(WRITES, given=ALONE),
    "an empty list": kernel(WRITES, mutates="[]", given=ALONE, fake=LIKE),
    "an empty set": kernel(WRITES, mutates="set()", given=ALONE),
    "one more, single quotes": kernel(
        "x.add_(1)\ny.mul_(2)\nreturn x + y", PAIR, mutates="{'y'}", given=GIVEN
    ),
    "one more, in lines": kernel(
        "x.add_(1)\ny.mul_(2)\nreturn x + y", PAIR, mutates='(\n    "y",  # the sum\n)', given=GIVEN
    ),
    "nothing returned": kernel("x.add_(1)", returns="None", given=ALONE),
    "on some path": kernel(
        "if step:\n    x.add_(step)\nreturn x * 2",
        "x: Tensor, step: float",
        given=calls("0.0", "1.0", layouts=WRITABLE),
    ),
    "through a view": kernel("first = x[0]\nfirst += 1\nreturn x * 2", given=ALONE),
    "by out=": kernel("torch.add(y, 1, out=x)\nreturn y * 2", PAIR, given=GIVEN),
    "in a helper": kernel(
        "_w(y, x)\nreturn x * 2", PAIR, given=GIVEN, above="def _w(c, r):\n    c.copy_(r)\n\n\n"
    ),
    "a list of tensors": kernel(
        "for x in xs:\n    x.add_(1)", "xs: list[Tensor]", "None", given=["([torch.ones(2)],)"]
    ),
    "may be omitted": kernel(
        "if b is not None:\n    b.add_(x)",
        "x: Tensor, b: Tensor | None = None",
        "None",
        given=[*GIVEN, *ALONE],
    ),
    "an array of it": kernel("a = x.numpy()\na += 1\nreturn x * 2", given=ALONE),
    "and a view returned": kernel("x.add_(1)\nreturn x[:1]", given=ALONE),
    "where no copy was made": kernel("x = x.contiguous()\nx.div_(2)\nreturn x * 1", given=ALONE),
    "call": Program(
        HEADER + "def _f(x: Tensor) -> Tensor:\n    x.add_(1)\n    return x * 2\n\n\n"
        'f = torch.library.custom_op("demo::f", _f, mutates_args=())\n',
        ALONE,
    ),
    "curried call": Program(
        HEADER + "def _f(x: Tensor) -> Tensor:\n    x.add_(1)\n    return x * 2\n\n\n"
        "f = torch.library.custom_op('demo::f', mutates_args=())(_f)\n",
        ALONE,
    ),
    "a schema beside": Program(
        HEADER + '@torch.library.custom_op("demo::f", mutates_args=(), '
        'schema="(Tensor x, int n=2) -> Tensor")\n'
        "def f(x, n=2):\n    x.add_(1)\n    return x * n\n",
        ALONE,
    ),
    "a schema alone": Program(
        LIB + 'lib.define("f(Tensor x, Tensor[] ys, Tensor? z=None) -> Tensor")\n\n\n'
        '@torch.library.impl(lib, "f", "CPU")\ndef _f(x, ys, z=None):\n    x.add_(1)\n'
        "    for y in ys:\n        y.mul_(2)\n    return x * 2\n\n\nf = torch.ops.demo.f\n",
        ("(torch.ones(3), [torch.ones(2)])",),
    ),
    "a schema in pieces": Program(
        LIB + 'lib.define(\n    "f(Tensor(a!) w, "\n    "Tensor x) -> Tensor"\n)\n\n\n'
        "def _f(w, x):\n    x.add_(1)\n    return x * w\n\n\n"
        'lib.impl("f", _f, "CPU")\nf = torch.ops.demo.f\n',
        ("(torch.ones(3), torch.ones(3))",),
    ),
    "an inferred schema": Program(
        LIB + "\n\ndef _f(x: Tensor) -> Tensor:\n    x.add_(1)\n    return x * 2\n\n\n"
        'lib.define("f" + torch.library.infer_schema(_f, mutates_args=()))\n'
        'lib.impl("f", _f, "CPU")\nf = torch.ops.demo.f\n',
        ALONE,
    ),
    "a helper's default": installed('install("f", _f, fake=_f_like)'),
    "a helper's keyword": installed('install("f", _f, mutates_args=[], fake=_f_like)'),
    "by place": installed('install("f", _f, (), _f_like)'),
    "one too many": kernel("x.mul_(y)", PAIR, "None", mutates='("x", "y")', given=GIVEN),
    "none needed": kernel("return x * 2", mutates='{"x"}'),
    "the wrong one": kernel("x.add_(y)", PAIR, "None", mutates="['y']", given=GIVEN),
    "a schema too wide": Program(
        LIB + 'lib.define("f(Tensor(a!) x) -> Tensor")\n\n\n@torch.library.impl(lib, "f", "CPU")\n'
        "def _f(x):\n    return x * 2\n\n\nf = torch.ops.demo.f\n",
        calls(),
    ),
    "unknown": kernel("y.copy_(x)", PAIR, "None", mutates='"unknown"', given=GIVEN),
    "unknown and pure": kernel(
        "return p + 0.5 * (q - p)",
        "p: Tensor, q: Tensor",
        mutates='"unknown"',
        given=calls("torch.ones(4, 6)"),
    ),
    "a bare string": kernel("y.copy_(x)", PAIR, "None", mutates="('y')", given=GIVEN),
    "two in a string": kernel("y.copy_(x)\nx.zero_()", PAIR, "None", mutates='"x, y"', given=GIVEN),
    "an empty string": kernel("return x + 1", mutates='""'),
    "no parameter": kernel("y.copy_(x)", PAIR, "None", mutates='("out",)', given=GIVEN),
    "no tensor": kernel(
        "x.add_(n)", NUMBERED, "None", mutates='["x", "n"]', given=calls("3", layouts=WRITABLE)
    ),
    "beside a buffer that may be omitted": kernel(
        "if out is None:\n    out = torch.empty_like(x)\nx.add_(1)\nout.copy_(x)\nreturn out",
        "x: Tensor, out: Tensor | None = None",
        mutates='("out",)',
        given=ALONE,
    ),
    "triton_op": kernel(WRITES, by="triton_op", given=ALONE),
    "tally, as reported": Program(
        """\
import torch


@torch.library.custom_op("demo::tally", mutates_args=())
def tally(count: torch.Tensor, step: float) -> torch.Tensor:
    if step:
        count.add_(step)  # fault: undeclared write
    return count * 2


@tally.register_fake
def _(count, step):
    return torch.empty_like(count)
""",
        ("(torch.zeros(4), 0.0)", "(torch.zeros(4), 1.0)"),
        op="tally",
    ),
    "wipe, as reported": Program(
        """\
import torch


@torch.library.custom_op("demo::wipe", mutates_args=())
def wipe(count: torch.Tensor) -> torch.Tensor:
    count.zero_()
    return count + 1


wipe.register_fake(lambda count: torch.empty_like(count))
""",
        ("(torch.ones(4),)",),
        op="wipe",
    ),
    "lerp, as reported": Program(
        """\
import torch


@torch.library.custom_op("demo::lerp2", mutates_args="unknown")
def lerp2(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return p + 0.5 * (q - p)


lerp2.register_fake(lambda p, q: torch.empty_like(p))
""",
        ("(torch.ones(4), torch.zeros(4))",),
        op="lerp2",
    ),
}

INPLACE = (
    HEADER + '@torch.library.custom_op("demo::f_", mutates_args={"x"}, tags=torch.Tag.inplace)\n'
    "def f(x: Tensor) -> Tensor:\n    return x.mul_(2)\n"
)
COMPILED = "\n\ndef run(x):\n    return torch.compile(f)(x)\n"

FAKES: dict[str, Program] = {
    "redundant": Program(INPLACE + "\n\n@f.register_fake\ndef _(x):\n    return x\n", ALONE),
    "redundant, under a heading": Program(
        INPLACE + "\n\n# ---- fakes ----\n\n# this one\n@f.register_fake\ndef _(x):\n"
        "    return x\n\n\n# ---- end ----\ny = 1\n",
        ALONE,
    ),
    "redundant, by a call": Program(
        INPLACE + '\n\ntorch.library.register_fake("demo::f_", lambda x: x)\n\ny = 1\n', ALONE
    ),
    "redundant, a function": Program(
        INPLACE + "\n\ndef _fake(x):\n    return x\n\n\nf.register_fake(_fake)\n", ALONE
    ),
    "redundant, and used": Program(
        INPLACE + "\n\n@f.register_fake\ndef _same(x):\n    return x\n\n\ng = _same\n", ALONE
    ),
    "redundant, low-level": Program(
        LIB + 'lib.define("f(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))\n'
        'lib.impl("f", lambda x: x.mul_(2), "CPU")\nlib._register_fake("f", lambda x: x)\n'
        "f = torch.ops.demo.f\n",
        ALONE,
    ),
    "the argument": kernel("return x * 2", fake="def _(x):\n    return x  # like x"),
    "an allocation": kernel(
        "out = x.new_empty(x.shape)\nout.copy_(x)\nreturn out", fake="def _(x):\n    return x"
    ),
    "a view": kernel("return x.t() * 2", fake="def _(x):\n    return x.t()"),
    "of another name": kernel("return x * 2", fake="def _(t):\n    return t"),
    "a lambda": kernel("return x * 2", below="\n\nf.register_fake(lambda x: x)\n"),
    "in a branch": kernel(
        "if n:\n    return x * 2\nreturn x.sum(0)",
        NUMBERED,
        fake="def _(x, n):\n    if n:\n        return x\n    return x.sum(0)",
        given=calls("0", "1"),
    ),
    "two of them": kernel("return x * 2, x + 1", returns=TWO, fake="def _(x):\n    return x, x"),
    "a buffer that is gone": kernel(
        "return x * 2",
        fake="def _(x, out=None):\n    if out is not None:\n        return out\n"
        "    return torch.empty_like(x)",
    ),
    "a keyword that is gone": kernel(
        "return x * 2",
        fake="def _(x, *, out=None):\n    out = torch.empty_like(x) if out is None else out\n"
        "    return out",
    ),
    "missing": kernel("return x * 2", below=COMPILED),
    "missing, by allocation": kernel(
        "out = x.new_empty(x.shape[0], n)\nout.fill_(0)\nreturn out",
        NUMBERED,
        given=calls("3"),
        below=COMPILED,
    ),
    "missing, beside a mutation": kernel(
        "x.mul_(2)\nreturn x.sum(0)", mutates='("x",)', given=ALONE, below=COMPILED
    ),
    "missing, low-level": Program(
        LIB + 'lib.define("f(Tensor x) -> Tensor")\n\n\n@torch.library.impl(lib, "f", "CPU")\n'
        "def _f(x):\n    return x * 2\n\n\nf = torch.ops.demo.f\ng = torch.compile(f)\n",
        calls(),
    ),
    "missing, by a call": Program(
        HEADER + "def _f(x: Tensor) -> Tensor:\n    return torch.sin(x)\n\n\n"
        'f = torch.library.custom_op("demo::f", _f, mutates_args=())\ng = torch.compile(f)\n',
        calls(),
    ),
    "missing, beside an int": kernel(
        "return x * 2, x.shape[0]", returns="tuple[Tensor, int]", below=COMPILED
    ),
}

GRAD = "\n\nf.register_autograd(lambda ctx, g: g)\n"
LEFT: dict[str, tuple[Program, str]] = {
    "what is new already": (kernel("y = x * 2\nreturn y.to(y.dtype)"), ""),
    "a function that is called too": (
        Program(
            HEADER + "def _f(x: Tensor) -> Tensor:\n    return x.contiguous()\n\n\n"
            'f = torch.library.custom_op("demo::f", _f, mutates_args=())\n\n\n'
            "def run(x):\n    return _f(x)\n",
            (),
        ),
        "used as a plain function too",
    ),
    "a mutation under a gradient": (kernel(WRITES, below=GRAD), "gradient formula"),
    "a mutation that may be omitted": (
        kernel(
            "if b is not None:\n    b.add_(1)\nreturn x * 2", "x: Tensor, b: Tensor | None = None"
        ),
        "may be omitted",
    ),
    "a mutation beside a list": (
        kernel("x.add_(1)\nreturn [x * 2]", returns="list[Tensor]"),
        "returns something other than plain tensors",
    ),
    "a parameter called mode": (
        kernel("x.add_(mode)\nreturn x * 2", "x: Tensor, mode: int"),
        "a parameter called `mode`",
    ),
    "nothing written, nothing returned": (
        kernel("print(x)", returns="None", mutates='("x",)'),
        "may drop the call",
    ),
    "unknown, out of sight": (
        kernel("run(x, y)", PAIR, "None", mutates='"unknown"', above="from ext import run\n\n\n"),
        "PyTorch takes every tensor argument for mutated",
    ),
    "too wide, out of sight": (
        kernel("run(x, y)", PAIR, "None", mutates='("x", "y")', above="from ext import run\n\n\n"),
        "",
    ),
    "names kept elsewhere": (
        Program(
            HEADER + 'NAMES = ()\n\n\n@torch.library.custom_op("demo::f", mutates_args=NAMES)\n'
            "def f(x: Tensor) -> Tensor:\n    x.add_(1)\n    return x * 2\n",
            (),
        ),
        "not written out",
    ),
    "a helper that fixes them": (
        Program(
            HEADER
            + INSTALL.replace("mutates_args=mutates_args)\n    _LIB", "mutates_args=())\n    _LIB")
            + 'install("f", _f, fake=_f_like)\n',
            (),
        ),
        "not written",
    ),
    "a tag that settles it": (
        Program(
            INPLACE.replace("x: Tensor)", "x: Tensor, y: Tensor)").replace(
                "    return", "    y.add_(1)\n    return"
            ),
            (),
        ),
        "its tag settles",
    ),
    "a fake of another shape": (
        kernel("return x.sum(0)", fake="def _(x):\n    return x"),
        "cannot be told",
    ),
    "a fake of another dtype": (
        kernel("return x.float() * 2", fake="def _(x):\n    return x"),
        "cannot be told",
    ),
    "a fake of another layout": (
        kernel("return x.contiguous() * 2", fake="def _(x):\n    return x"),
        "cannot be told",
    ),
    "a fake that is used": (
        Program(
            kernel("return x * 2").source + "\n\ndef _fake(x):\n    return x\n\n\n"
            "f.register_fake(_fake)\ng = _fake(3)\n",
            (),
        ),
        "is used elsewhere too",
    ),
    "a fake all of a block": (
        Program(
            INPLACE + "\n\nif True:\n    @f.register_fake\n    def _(x):\n        return x\n", ()
        ),
        "is all of its block",
    ),
    "an op that a lambda makes": (
        Program(
            HEADER + "def _f(x: Tensor) -> Tensor:\n    return x * 2\n\n\n"
            'make = lambda: torch.library.custom_op("demo::f", _f, mutates_args=())\n'
            "run = torch.compile(make())\n",
            (),
        ),
        "which may never be called",
    ),
    "sizes that depend on data": (
        kernel("return x[x > 0]", below=COMPILED),
        "cannot be told from metadata",
    ),
}

"""What the rules on effects say of small kernels, each in a way of its own to write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [
    r
    for r in all_rules()
    if r.code in {"OPS101", "OPS102", "OPS401", "OPS402", "OPS403"}
    or r.code[:4] in {"OPS2", "OPS3"}
]
HEAD = """\
import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


"""


def kernel(body: str, ret: str = "Tensor", mut: str = "()", pre: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        f"{HEAD}{pre}\n@torch.library.custom_op('d::f', mutates_args={mut})\n"
        f"def f(x: Tensor, y: Tensor, n: int, xs: list[Tensor]) -> {ret}:\n{lines}"
    )


def reported(source: str, directory: Path) -> list[str]:
    (directory / "module.py").write_text(source, "utf-8")
    project = load_project([directory], directory)
    return sorted({f.code for f in apply_rules(project, RULES)})


KERNELS: list[tuple[str, str, dict[str, str]]] = [
    ("OPS201", "return x", {}),
    ("OPS201", "if n == 0:\n    return x\nreturn x * n", {}),
    ("OPS201", "return x if n else y + 1", {}),
    ("OPS201", "out = x\nfor i in range(n):\n    out = out + i\nreturn out", {}),
    ("OPS201", "y, z = x, n\nreturn y", {}),
    ("OPS201", "return (r := x)", {}),
    ("OPS201", "return x + 1, x", {"ret": "tuple[Tensor, Tensor]"}),
    ("OPS201", "return xs[0]", {}),
    ("OPS201", "d = {'a': x}\nreturn d['a']", {}),
    ("OPS201", "try:\n    return x + 1\nexcept RuntimeError:\n    return x", {}),
    ("OPS201", "with torch.no_grad():\n    return x", {}),
    ("OPS201", "match n:\n    case 0:\n        return x\n    case _:\n        return x + 1", {}),
    ("OPS201", "return [x, y + 1]", {"ret": "list[Tensor]"}),
    ("OPS201", "r = []\nfor z in xs:\n    r.append(z)\nreturn r", {"ret": "list[Tensor]"}),
    (
        "OPS201",
        "return helper(x, n)",
        {"pre": "def helper(a, k):\n    if k:\n        return a\n    return a + 1\n"},
    ),
    ("OPS202", "return x[0]", {}),
    ("OPS202", "return x[:, 1:]", {}),
    ("OPS202", "return x.unsqueeze(0).expand(2, 3)", {}),
    ("OPS202", "return torch.transpose(x, 0, 1)", {}),
    ("OPS202", "return x.T", {}),
    ("OPS202", "return x.data", {}),
    ("OPS202", "a, b = x.chunk(2)\nreturn a", {}),
    ("OPS202", "return [t for t in x.unbind(0)]", {"ret": "list[Tensor]"}),
    ("OPS202", "return x.view(torch.int32)", {}),
    ("OPS202", "return x.narrow(0, 0, n)", {}),
    ("OPS203", "return x.contiguous()", {}),
    ("OPS203", "return x.to('cpu')", {}),
    ("OPS203", "return x.reshape(-1)", {}),
    ("OPS203", "return x.flatten(1)", {}),
    ("OPS203", "return x.float()", {}),
    ("OPS203", "return F.dropout(x, 0.5, False)", {}),
    ("OPS203", "return torch.atleast_2d(x)", {}),
    ("OPS203", "return torch.as_tensor(x)", {}),
    ("OPS203", "return x.type_as(y)", {}),
    ("OPS203", "y = x.float()\nif n:\n    y = y + 1\nreturn y", {}),
    ("", "return x.clone()", {}),
    ("", "return x[y > 0]", {}),
    ("", "return x[y]", {}),
    ("", "mask = x > n\nreturn x[mask]", {}),
    ("", "mask = (x > n) & (y < n)\nreturn x[mask]", {}),
    ("", "return x[[0, 2]]", {}),
    ("", "idx = [i for i in range(n)]\nreturn x[idx]", {}),
    ("", "return x[..., y]", {}),
    ("", "idx = torch.arange(n)\nreturn x[idx, idx]", {}),
    ("", "idx = x.argsort()\nreturn x[idx]", {}),
    ("", "return x[n == 1]", {}),
    ("", "return torch.where(x > 0, x, y)", {}),
    ("", "return x.masked_select(y)", {}),
    ("", "return x.repeat(2)", {}),
    ("", "return (x + 0).contiguous()", {}),
    ("", "return x.contiguous().clone()", {}),
    ("", "return -x", {}),
    ("", "return x.sum(dim=0).view(-1)", {}),
    ("", "return torch.empty_like(x).copy_(x)", {}),
    ("", "y = torch.zeros_like(x)\ny[0] = x[0]\nreturn y", {}),
    ("", "r = x\nr = r.clone()\nr.add_(1)\nreturn r", {}),
    ("", "x = x.clone()\nx += 1\nreturn x", {}),
    ("", "y = x.to(torch.float32, copy=True)\ny.mul_(2)\nreturn y", {}),
    ("", "out = torch.empty(n)\nlib.launch(x, out)\nreturn out", {"pre": "import lib\n"}),
    ("", "return lib.launch(x)", {"pre": "import lib\n"}),
    (
        "",
        "y = torch.empty_like(x)\nkernel[(n,)](x, y, BLOCK=64)\nreturn y",
        {"pre": "from k import kernel\n"},
    ),
    ("", "v, i = x.sort()\nreturn v, i", {"ret": "tuple[Tensor, Tensor]"}),
    ("", "return torch.svd(x)[0], torch.svd(x)[1]", {"ret": "tuple[Tensor, Tensor]"}),
    ("", "u = torch.linalg.qr(x)\nreturn u.Q, u.R", {"ret": "tuple[Tensor, Tensor]"}),
    ("", "u = torch.linalg.qr(x)\nreturn u[0], u[1]", {"ret": "tuple[Tensor, Tensor]"}),
    ("", "return x.max(dim=0)", {"ret": "tuple[Tensor, Tensor]"}),
    ("", "return x + 1, x.new_empty(0)", {"ret": "tuple[Tensor, Tensor]"}),
    (
        "",
        "a = x.new_empty(n)\nb = x.new_empty(n)\nif n:\n    a, b = b, a\nreturn a, b",
        {"ret": "tuple[Tensor, Tensor]"},
    ),
    ("", "rs = [z * 2 for z in xs]\nreturn rs", {"ret": "list[Tensor]"}),
    (
        "",
        "rs = []\nfor z in xs:\n    w = z.clone()\n    rs.append(w)\nreturn rs",
        {"ret": "list[Tensor]"},
    ),
    ("", "rs = [torch.empty_like(x)] * 1\nreturn [r.clone() for r in rs]", {"ret": "list[Tensor]"}),
    ("OPS204", "r = torch.empty(4, n)\nreturn r[0], r[1]", {"ret": "tuple[Tensor, Tensor]"}),
    (
        "OPS204",
        "q, k, v = (x @ y).chunk(3, dim=-1)\nreturn q, k, v",
        {"ret": "tuple[Tensor, Tensor, Tensor]"},
    ),
    ("OPS204", "r = x * 2\nreturn r, r.view(-1)", {"ret": "tuple[Tensor, Tensor]"}),
    ("OPS204", "r = x * 2\nreturn [r, r.contiguous()]", {"ret": "list[Tensor]"}),
    ("OPS204", "return list(torch.unbind(x * 2))", {"ret": "list[Tensor]"}),
    ("OPS204", "return torch.split(x * 2, n)", {"ret": "list[Tensor]"}),
    (
        "OPS204",
        "z = x * 2\nif n:\n    return z, z\nreturn z, z.clone()",
        {"ret": "tuple[Tensor, Tensor]"},
    ),
    ("OPS205", "return BUF", {"pre": "BUF = torch.zeros(3)\n"}),
    ("OPS205", "return BUF[:n]", {"pre": "BUF = torch.zeros(3).share_memory_()\n"}),
    (
        "OPS205",
        (
            "k = (n, x.device)\nb = C.get(k)\nif b is None:\n    b = torch.empty(n)\n"
            "    C[k] = b\nb.copy_(x)\nreturn b"
        ),
        {"pre": "C = {}\n"},
    ),
    ("OPS205", "b = C.setdefault(n, torch.empty(n))\nreturn b", {"pre": "C = {}\n"}),
    (
        "OPS205",
        "try:\n    return C[n]\nexcept KeyError:\n    C[n] = torch.empty(n)\n    return C[n]",
        {"pre": "C = dict()\n"},
    ),
    (
        "OPS205",
        "return ws(n)",
        {"pre": "@functools.cache\ndef ws(n):\n    return torch.empty(n)\n"},
    ),
    (
        "OPS205",
        "return ws(n)",
        {
            "pre": "C={}\ndef ws(n):\n    if n not in C:\n"
            "        C[n] = torch.empty(n)\n    return C[n]\n"
        },
    ),
    ("OPS205", "r = x * 2\nLAST.append(r)\nreturn r", {"pre": "LAST = []\n"}),
    (
        "OPS205",
        "st.buf = torch.empty(n)\nreturn st.buf",
        {"pre": "class S:\n    def __init__(self):\n        self.buf = torch.empty(1)\nst = S()\n"},
    ),
    (
        "",
        "return ws(n).clone()",
        {"pre": "@functools.cache\ndef ws(n):\n    return torch.empty(n)\n"},
    ),
    (
        "",
        "b = C.setdefault(n, torch.empty(n))\ntorch.mul(x, 2, out=b)\nreturn b * 1",
        {"pre": "C = {}\n"},
    ),
    ("", "return x * TABLE[n]", {"pre": "TABLE = {0: 1.0}\n"}),
    ("", "return x.view(-1).clone() if FLAG else x * K", {"pre": "FLAG = False\nK = 3\n"}),
    ("OPS206", "return torch.from_numpy(x.numpy())", {}),
    ("OPS206", "a = x.detach().cpu().numpy()\nreturn torch.from_numpy(a)", {}),
    ("OPS206", "return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))", {}),
    ("OPS206", "a = np.asarray(x)\nreturn torch.from_numpy(a.reshape(-1))", {}),
    ("", "a = x.numpy()\nreturn torch.from_numpy(a * 2)", {}),
    ("", "a = x.numpy()\nreturn torch.from_numpy(np.ascontiguousarray(a[::-1] + 1))", {}),
    ("", "return torch.from_numpy(np.sort(x.numpy()))", {}),
    ("", "return torch.from_numpy(x.numpy().astype(np.float32))", {}),
    ("OPS301", "x.add_(1)\nreturn x * 2", {}),
    ("OPS301", "x[0] = 1\nreturn x * 2", {}),
    ("OPS301", "x[y > 0] = 0\nreturn x * 2", {}),
    ("OPS301", "x += 1\nreturn x * 2", {}),
    ("OPS301", "v = x.view(-1)\nv[n] -= 1\nreturn v * 2", {}),
    ("OPS301", "torch.add(x, y, out=x)\nreturn y * 2", {}),
    ("OPS301", "F.relu(x, inplace=True)\nreturn y * 2", {}),
    ("OPS301", "x.numpy()[0] = 3\nreturn y * 2", {}),
    ("OPS301", "np.add(x.numpy(), 1, out=x.numpy())\nreturn y * 2", {}),
    ("OPS301", "a = x.numpy()\na.sort()\nreturn y * 2", {}),
    ("OPS301", "a = x.numpy()\na *= 2\nreturn y * 2", {}),
    ("OPS301", "for z in xs:\n    z.zero_()\nreturn y * 2", {}),
    ("OPS301", "for i in range(len(xs)):\n    xs[i].zero_()\nreturn y * 2", {}),
    ("OPS301", "for z, w in zip(xs, xs):\n    z += w\nreturn y * 2", {}),
    ("OPS301", "torch._foreach_add_(xs, 1.0)\nreturn y * 2", {}),
    ("OPS301", "a, b = x.chunk(2)\na.copy_(b)\nreturn y * 2", {}),
    ("OPS301", "x.data.fill_(n)\nreturn y * 2", {}),
    ("OPS301", "x.data = y\nreturn y * 2", {}),
    ("OPS301", "def inner():\n    x.add_(1)\ninner()\nreturn y * 2", {}),
    ("OPS301", "torch.nn.init.normal_(x)\nreturn y * 2", {}),
    ("OPS301", "torch.distributed.all_reduce(x)\nreturn y * 2", {}),
    ("OPS301", "z = x.contiguous()\nz.add_(1)\nreturn z * 2", {}),
    ("OPS301", "z = x if n else y\nz.add_(1)\nreturn z * 2", {}),
    ("OPS301 OPS305", "return x.mul_(2)", {}),
    ("OPS301", "x.resize_(3)\nreturn y * 2", {}),
    ("", "x.requires_grad_(False)\nreturn y * 2", {}),
    ("", "state = {'n': 0, 'x': x}\nstate['n'] += 1\nreturn y * 2", {}),
    ("", "out = [x]\nout[0] = y\nreturn out[0] * 2", {}),
    ("", "acc = 0\nfor z in xs:\n    acc += z.sum()\nreturn acc", {}),
    (
        "",
        "acc = None\nfor z in xs:\n    acc = z * 1 if acc is None else acc.add_(z)\nreturn acc",
        {},
    ),
    ("OPS305", "x.add_(1)\nreturn x", {"mut": "('x',)"}),
    ("OPS302", "return y * 2", {"mut": "('x',)"}),
    ("", "lib.go(x)\nreturn y * 2", {"mut": "('x',)", "pre": "import lib\n"}),
    (
        "",
        "k = functools.partial(lib.go, x)\nk()\nreturn y * 2",
        {"mut": "('x',)", "pre": "import lib\n"},
    ),
    ("", "x.copy_(y)\nreturn y * 2", {"mut": "['x']"}),
    ("", "torch.mul(y, 2, out=x)\nreturn y * 2", {"mut": "{'x'}"}),
    ("", "lib.go(x.data_ptr())\nreturn y * 2", {"mut": "('x',)", "pre": "import lib\n"}),
    (
        "",
        "def inner():\n    x.add_(1)\nlib.run(inner)\nreturn y*2",
        {"mut": "('x',)", "pre": "import lib\n"},
    ),
    ("", "np.copyto(x.numpy(), y.numpy())\nreturn y * 2", {"mut": "('x',)"}),
    ("", "xs[0].copy_(y)\nreturn y * 2", {"mut": "('xs',)"}),
]


@pytest.mark.parametrize(("codes", "body", "more"), KERNELS)
def test_kernel(codes: str, body: str, more: dict[str, str], tmp_path: Path) -> None:
    assert reported(kernel(body, **more), tmp_path) == codes.split()


OPS = [
    (
        "OPS201",
        """\
lib = torch.library.Library('d', 'FRAGMENT')
lib.define('f(Tensor x) -> Tensor')
lib.impl('f', lambda x: x, 'CPU')
""",
    ),
    (
        "",
        """\
lib = torch.library.Library('d', 'FRAGMENT')
lib.define('f(Tensor x) -> Tensor')
lib.impl('f', lambda x: x)
""",
    ),
    (
        "",
        """\
lib = torch.library.Library('d', 'FRAGMENT')
lib.define('f(Tensor x) -> Tensor')
lib.impl('f', lambda x: x, 'Autograd')
""",
    ),
    (
        "OPS201",
        """\
torch.library.define('d::f', '(Tensor x) -> Tensor')
@torch.library.impl('d::f', 'cpu')
def g(t):
    return t
""",
    ),
    (
        "OPS301",
        """\
torch.library.define('d::f', '(Tensor x) -> Tensor')
@torch.library.impl('d::f', ('cpu','cuda'))
def g(t):
    t.add_(1)
    return t * 2
""",
    ),
    (
        "OPS201",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    return x * 2
@f.register_kernel('cuda')
def _(x):
    return x
""",
    ),
    (
        "OPS301",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    return x * 2
@torch.library.register_kernel('d::f', 'cuda')
def _(x):
    x.mul_(2)
    return x * 1
""",
    ),
    (
        "OPS202",
        """\
@torch.library.triton_op('d::f', mutates_args={})
def f(x: Tensor) -> Tensor:
    return x.view(-1)
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    torch.add(x, out, out=out)
    return out
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    if out.sum() > 0:
        out.copy_(x)
    else:
        out.zero_()
    return out
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    out.copy_(x)
    return out.clone()
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    out = x + 1
    return out
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    out.data = x
    return out
""",
    ),
    (
        "OPS401",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'a','b'}, tags=torch.Tag.out)
def f(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a.copy_(x)
    b.copy_(x)
    return a, a
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'b','a'}, tags=torch.Tag.out)
def f(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a.copy_(x)
    b.copy_(x)
    return a, b
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    torch.cat([x, x], out=out)
    out[0] += 1
    return out
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    np.add(x.numpy(), 1, out=out.numpy())
    return out
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_out', mutates_args={'out'}, tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    out.view(-1)[:] = x.view(-1)
    return out
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    return x + 1
@torch.library.custom_op('d::f.out', mutates_args=('out',), tags=torch.Tag.out)
def fo(x: Tensor, *, out: Tensor) -> Tensor:
    return out.copy_(f(x))
""",
    ),
    (
        "OPS403",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',), tags=torch.Tag.inplace)
def f(x: Tensor) -> Tensor:
    x.add_(1)
    return x.clone()
""",
    ),
    (
        "OPS403",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',), tags=torch.Tag.inplace)
def f(x: Tensor) -> Tensor:
    x.add_(1)
""",
    ),
    (
        "OPS403",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',), tags=torch.Tag.inplace)
def f(x: Tensor) -> None:
    x.add_(1)
""",
    ),
    (
        "OPS303 OPS403",
        """\
@torch.library.custom_op('d::f_', mutates_args='unknown', tags=torch.Tag.inplace)
def f(x: Tensor) -> Tensor:
    return x.add_(1)
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',), tags=torch.Tag.inplace)
def f(x: Tensor, y: Tensor) -> Tensor:
    x[:] = x + y
    return x
""",
    ),
    (
        "OPS301",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',), tags=torch.Tag.inplace)
def f(x: Tensor, y: Tensor) -> Tensor:
    y.zero_()
    x.add_(y)
    return x
""",
    ),
    (
        "OPS402",
        """\
@torch.library.custom_op('d::f_out', mutates_args=('out',), tags=torch.Tag.out)
def f(x: Tensor, out: Tensor) -> Tensor:
    return out.copy_(x)
""",
    ),
    (
        "OPS402",
        """\
@torch.library.custom_op('d::f_out', mutates_args=('a','b'), tags=torch.Tag.out)
def f(x: Tensor, *, a: Tensor, b: Tensor) -> Tensor:
    a.copy_(x)
    b.copy_(x)
    return a
""",
    ),
    (
        "OPS402",
        """\
@torch.library.custom_op('d::f_out', mutates_args=(), tags=torch.Tag.out)
def f(x: Tensor, *, out: Tensor) -> Tensor:
    return out.copy_(x)
""",
    ),
    (
        "OPS304",
        """\
@torch.library.custom_op('d::f', mutates_args='x')
def f(x: Tensor) -> None:
    x.zero_()
""",
    ),
    (
        "OPS304",
        """\
@torch.library.custom_op('d::f', mutates_args=['x', 'z'])
def f(x: Tensor) -> None:
    x.zero_()
""",
    ),
    (
        "OPS304",
        """\
@torch.library.custom_op('d::f', mutates_args=['n'])
def f(x: Tensor, n: int) -> Tensor:
    return x + n
""",
    ),
    (
        "OPS303",
        """\
@torch.library.custom_op('d::f', mutates_args='unknown')
def f(x: Tensor, n: int) -> None:
    x.zero_()
""",
    ),
    (
        "OPS303 OPS305",
        """\
@torch.library.custom_op('d::f', mutates_args='unknown')
def f(x: Tensor, n: int) -> Tensor:
    return x.zero_()
""",
    ),
    (
        "OPS306",
        """\
@torch.library.custom_op('d::f_', mutates_args=())
def f(x: Tensor, n: int) -> Tensor:
    return x + n
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f_', mutates_args=('x',))
def f(x: Tensor, n: int) -> None:
    lib.go(x)
""",
    ),
    (
        "OPS301",
        """\
@torch.library.custom_op('d::g', mutates_args=('b',))
def g(a: Tensor, b: Tensor) -> None:
    lib.go(a, b)
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, y: Tensor) -> Tensor:
    torch.ops.d.g(x, b=y)
    return x * 2
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::g', mutates_args=())
def g(a: Tensor) -> Tensor:
    return lib.go(a)
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    return g(x)
""",
    ),
    (
        "OPS201",
        """\
def reg(name, fn, mutates_args=()):
    torch.library.custom_op(name, fn, mutates_args=mutates_args)
def f(x: Tensor) -> Tensor:
    return x
reg('d::f', f)
""",
    ),
    (
        "OPS101",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        return x * 2
    torch.mul(x, 2, out=out)
    return out
""",
    ),
    (
        "OPS101 OPS301",
        """\
@torch.library.custom_op('d::f', mutates_args=('out',))
def f(x: Tensor, c: Tensor, out: Tensor | None = None) -> Tensor:
    c.add_(1)
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x)
    return out
""",
    ),
    (
        "OPS101 OPS201",
        """\
@torch.library.custom_op('d::f', mutates_args=('out',))
def f(x: Tensor, n: int, out: Tensor | None = None) -> Tensor:
    if n == 0:
        return x
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x)
    return out
""",
    ),
    (
        "OPS102 OPS301",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, tr: Tensor | None = None) -> Tensor:
    if tr is not None:
        tr.copy_(x)
    return x * 2
""",
    ),
    (
        "OPS201",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, b: Tensor | None = None) -> Tensor:
    if b is None:
        return x
    return x + b
""",
    ),
    (
        "OPS205",
        """\
def make(n):
    buf = torch.empty(n)
    @torch.library.custom_op('d::f', mutates_args=())
    def f(x: Tensor) -> Tensor:
        buf.copy_(x)
        return buf
    return f
""",
    ),
    (
        "OPS203",
        """\
class K:
    @staticmethod
    def go(x):
        return x.contiguous()
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    return x.contiguous() if x.dim() else x.clone()
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, dims: list[int]) -> Tensor:
    y = x
    for d in dims:
        y = y.sum(d, keepdim=True)
    y = y * 1
    return y
""",
    ),
    (
        "OPS201",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, dims: list[int]) -> Tensor:
    y = x
    for d in dims:
        y = y.sum(d, keepdim=True)
    return y
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, i: Tensor | None) -> Tensor:
    i = torch.arange(3) if i is None else i
    return x[i]
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for b in range(x.shape[0]):
        row = x[b]
        dst = out[b]
        dst.copy_(row)
        dst += 1
    return out
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor) -> Tensor:
    q, s = _q(x)
    q.mul_(s)
    return q
def _q(t):
    s = t.abs().amax()
    return t / s, s
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=('c',))
def f(x: Tensor, c: Tensor) -> Tensor:
    def put(t):
        c[0] = t
    put(x)
    return x * 2
""",
    ),
    (
        "",
        """\
@torch.library.custom_op('d::f', mutates_args=())
def f(x: Tensor, w: Tensor) -> Tensor:
    from mylib import go
    return go(x, w)
""",
    ),
]


@pytest.mark.parametrize(("codes", "source"), OPS)
def test_op(codes: str, source: str, tmp_path: Path) -> None:
    assert reported(HEAD + source, tmp_path) == codes.split()

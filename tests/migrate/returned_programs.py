"""Programs whose ops return what they mutate: what becomes of them, and how they run then."""

from __future__ import annotations

H = "import torch\nfrom torch import Tensor\n\n\n"

# Each holds a function ``check`` that fails before, or shows what must stay as it is. Behind it
# stand the lines that change.
PROGRAMS: dict[str, tuple[str, str]] = {
    "tagged": (
        H
        + """\
@torch.library.custom_op("t1::fade_", mutates_args=("x",))
def fade_(x: Tensor, k: float) -> Tensor:
    x.mul_(k)
    return x


@fade_.register_fake
def _(x, k):
    return x


def check():
    x = torch.ones(3)
    y = fade_(x, 0.5)
    assert y is x and x.tolist() == [0.5] * 3
    torch.library.opcheck(fade_, (torch.ones(3), 0.5))
    assert torch.Tag.inplace in fade_._opoverload.tags
""",
        """\
-@torch.library.custom_op("t1::fade_", mutates_args=("x",))
+@torch.library.custom_op("t1::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
-    return x
-
-
-@fade_.register_fake
-def _(x, k):
""",
    ),
    "kept tags": (
        H
        + """\
@torch.library.custom_op(
    "t2::fade_",
    mutates_args=("x",),
    tags=[torch.Tag.needs_fixed_stride_order],  # why
)
def fade_(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)


fade_.register_fake(lambda x, k: x)


@fade_.register_kernel("cuda")
def _(x, k):
    return x.mul_(k)


def check():
    x = torch.ones(3)
    assert fade_(x, 0.5) is x
    torch.library.opcheck(fade_, (torch.ones(3), 0.5))
    assert {torch.Tag.inplace, torch.Tag.needs_fixed_stride_order} <= set(fade_._opoverload.tags)
""",
        """\
-    tags=[torch.Tag.needs_fixed_stride_order],  # why
+    tags=[torch.Tag.needs_fixed_stride_order, torch.Tag.inplace],  # why
-
-
-fade_.register_fake(lambda x, k: x)
""",
    ),
    "one tag": (
        H
        + """\
@torch.library.custom_op("t3::fade_", mutates_args={"x"}, tags=torch.Tag.core)
def fade_(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)


def check():
    x = torch.ones(3)
    assert fade_(x, 0.5) is x
    torch.library.opcheck(fade_, (torch.ones(3), 0.5))
""",
        """\
-@torch.library.custom_op("t3::fade_", mutates_args={"x"}, tags=torch.Tag.core)
+@torch.library.custom_op("t3::fade_", mutates_args={"x"}, tags=(torch.Tag.core, torch.Tag.inplace))
""",
    ),
    "no torch name": (
        """\
from torch import Tensor
from torch.library import custom_op, opcheck


@custom_op("t4::fade_", mutates_args=["x"])
def fade_(x: Tensor, k: float) -> Tensor:
    if k == 1.0:
        return x
    x *= k
    return x


def check():
    x = Tensor([1.0, 2.0])
    assert fade_(x, 0.5) is x
    assert fade_(x, 1.0) is x
    opcheck(fade_, (Tensor([1.0]), 0.5))
""",
        """\
+import torch
-@custom_op("t4::fade_", mutates_args=["x"])
+@custom_op("t4::fade_", mutates_args=["x"], tags=torch.Tag.inplace)
""",
    ),
    "call form": (
        H
        + """\
def _fade(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)


fade_ = torch.library.custom_op("t5::fade_", _fade, mutates_args=("x",))


@fade_.register_fake
def _(x, k):
    return torch.empty_like(x)


def check():
    x = torch.ones(3)
    assert fade_(x, 0.5) is x
    torch.library.opcheck(fade_, (torch.ones(3), 0.5))
""",
        """\
-fade_ = torch.library.custom_op("t5::fade_", _fade, mutates_args=("x",))
-
-
-@fade_.register_fake
-def _(x, k):
-    return torch.empty_like(x)
+fade_ = torch.library.custom_op("t5::fade_", _fade, mutates_args=("x",), tags=torch.Tag.inplace)
""",
    ),
    "schema": (
        H
        + """\
@torch.library.custom_op(
    "t6::fade_", mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor(a!)"
)
def fade_(x):
    return x.mul_(2)


def check():
    x = torch.ones(3)
    assert fade_(x) is x
    torch.library.opcheck(fade_, (torch.ones(3),))
""",
        """\
-    "t6::fade_", mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor(a!)"
+    "t6::fade_", mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor(a!)", tags=torch.Tag.inplace
""",
    ),
    "library": (
        H
        + """\
lib = torch.library.Library("t7", "FRAGMENT")
lib.define("fade_(Tensor(a!) x, float k) -> Tensor(a!)")


@torch.library.impl(lib, "fade_", "CPU")
def _fade(x, k):
    return x.mul_(k)


@torch.library.register_fake("t7::fade_")
def _fade_fake(x, k):
    return x


def check():
    x = torch.ones(3)
    assert torch.ops.t7.fade_(x, 0.5) is x
    torch.library.opcheck(torch.ops.t7.fade_.default, (torch.ones(3), 0.5))
    assert torch.Tag.inplace in torch.ops.t7.fade_.default.tags
""",
        """\
-lib.define("fade_(Tensor(a!) x, float k) -> Tensor(a!)")
+lib.define("fade_(Tensor(a!) x, float k) -> Tensor(a!)", tags=torch.Tag.inplace)
-@torch.library.register_fake("t7::fade_")
-def _fade_fake(x, k):
-    return x
-
-
""",
    ),
    "library out": (
        H
        + """\
lib = torch.library.Library("t8", "FRAGMENT")
lib.define("fade_out(Tensor x, float k, *, Tensor(a!) out) -> Tensor(a!)")
lib.impl("fade_out", lambda x, k, *, out: torch.mul(x, k, out=out), "CPU")


def check():
    x, out = torch.ones(3), torch.empty(3)
    assert torch.ops.t8.fade_out(x, 0.5, out=out) is out
    torch.library.opcheck(torch.ops.t8.fade_out.default, (x, 0.5), {"out": out})
""",
        """\
-lib.define("fade_out(Tensor x, float k, *, Tensor(a!) out) -> Tensor(a!)")
+lib.define("fade_out(Tensor x, float k, *, Tensor(a!) out) -> Tensor(a!)", tags=torch.Tag.out)
""",
    ),
    "two": (
        H
        + """\
@torch.library.custom_op("t9::norm", mutates_args=("x", "res"))
def norm(x: Tensor, res: Tensor, w: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    '''Normalise.

    Returns:
        both
    '''
    if w.numel() == 0:
        return x, res
    res.add_(x)
    x.copy_(res * w)
    # both were given
    return x, res


@norm.register_fake
def _(x, res, w, eps=1e-6):
    return torch.empty_like(x), torch.empty_like(res)


def block(x, r, w):
    x, r = norm(x, r, w)
    return x + r


def first(x, r, w):
    return norm(x, r, w)[0]


def last(x, r, w):
    y = norm(x, r, w)[-1]  # the residual
    return y


def renamed(x, r, w):
    y, r = norm(x, r, w)
    return y, r


def swapped(x, r, w):
    r, x = norm(x, r, w)
    return r, x


def whole(x, r, w):
    return norm(res=r, x=x, w=w)


def unpacked(x, r, w):
    return torch.add(*norm(x, r, w))


def kept(x, r, w):
    both = norm(x, r, w)
    return both


def ignored(x, r, w):
    _, r = norm(x, r, w)
    norm(x, r, w)
    return r


def check():
    def fresh():
        return torch.ones(2), torch.ones(2), torch.full((2,), 3.0)

    x, r, w = fresh()
    assert block(x, r, w).tolist() == [8.0, 8.0]
    x, r, w = fresh()
    assert first(x, r, w) is x
    x, r, w = fresh()
    assert last(x, r, w) is r
    x, r, w = fresh()
    y, s = renamed(x, r, w)
    assert y is x and s is r
    a, b = swapped(x, r, w)
    assert a is x and b is r
    assert isinstance(whole(x, r, w), tuple) and whole(x, r, w)[1] is r
    x, r, w = fresh()
    assert unpacked(x, r, w).tolist() == [8.0, 8.0]
    assert kept(x, r, w)[0] is x and ignored(x, r, w) is r
    torch.library.opcheck(norm, fresh())
""",
        """\
-def norm(x: Tensor, res: Tensor, w: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
+def norm(x: Tensor, res: Tensor, w: Tensor, eps: float = 1e-6) -> None:
-        return x, res
+        return
-    return x, res
-
-
-@norm.register_fake
-def _(x, res, w, eps=1e-6):
-    return torch.empty_like(x), torch.empty_like(res)
-    x, r = norm(x, r, w)
+    norm(x, r, w)
-    return norm(x, r, w)[0]
+    norm(x, r, w)
+    return x
-    y = norm(x, r, w)[-1]  # the residual
+    norm(x, r, w)
+    y = r  # the residual
-    y, r = norm(x, r, w)
+    norm(x, r, w)
+    y = x
-    r, x = norm(x, r, w)
+    norm(x, r, w)
+    r, x = x, r
-    return norm(res=r, x=x, w=w)
+    norm(res=r, x=x, w=w)
+    return x, r
-    return torch.add(*norm(x, r, w))
+    norm(x, r, w)
+    return torch.add(*(x, r))
-    both = norm(x, r, w)
+    norm(x, r, w)
+    both = x, r
-    _, r = norm(x, r, w)
+    norm(x, r, w)
""",
    ),
    "second argument": (
        H
        + """\
@torch.library.custom_op("t10::store", mutates_args=("cache",))
def store(x: Tensor, cache: Tensor, at: int = 0) -> Tensor:
    cache[at].copy_(x)
    return cache


@torch.library.register_fake("t10::store")
def _store_fake(x, cache, at=0):
    torch._check(x.dim() == 1)
    return cache


@store.register_kernel("cuda")
def _(x, cache, at=0):
    cache[at] = x; return cache


class Layer:
    def __init__(self):
        self.cache = torch.zeros(2, 3)

    def __call__(self, x):
        self.cache = store(x, self.cache)
        return store(x + 1, self.cache, at=1).sum()


def check():
    cache = torch.zeros(2, 3)
    y = torch.ops.t10.store.default(torch.ones(3), cache)
    assert y is cache and cache[0].sum() == 3
    assert Layer()(torch.ones(3)) == 9
    torch.library.opcheck(store, (torch.ones(3), cache))
""",
        """\
-def store(x: Tensor, cache: Tensor, at: int = 0) -> Tensor:
+def store(x: Tensor, cache: Tensor, at: int = 0) -> None:
-    return cache
-    return cache
-    cache[at] = x; return cache
+    cache[at] = x
-        self.cache = store(x, self.cache)
-        return store(x + 1, self.cache, at=1).sum()
+        store(x, self.cache)
+        store(x + 1, self.cache, at=1)
+        return self.cache.sum()
-    y = torch.ops.t10.store.default(torch.ones(3), cache)
+    torch.ops.t10.store.default(torch.ones(3), cache)
+    y = cache
""",
    ),
    "schema of a second": (
        H
        + """\
@torch.library.custom_op(
    "t11::store",
    mutates_args=("cache",),
    schema="(Tensor x, Tensor(a!) cache) -> Tensor",
)
def store(x, cache):
    cache.copy_(x)
    return cache


store.register_fake(lambda x, cache: cache)


def check():
    cache = torch.zeros(3)
    assert (c := store(torch.ones(3), cache)) is cache
    torch.library.opcheck(store, (torch.ones(3), cache))
""",
        """\
-    schema="(Tensor x, Tensor(a!) cache) -> Tensor",
+    schema="(Tensor x, Tensor(a!) cache) -> ()",
-    return cache
-
-
-store.register_fake(lambda x, cache: cache)
-    assert (c := store(torch.ones(3), cache)) is cache
+    store(torch.ones(3), cache)
+    assert (c := cache) is cache
""",
    ),
    "calls": (
        H
        + """\
def _impl(x: Tensor, cache: Tensor) -> Tensor:
    return cache.copy_(x)


store = torch.library.custom_op("t12::store", mutates_args=("cache",))(_impl)


def _fake(x, cache):
    return torch.empty_like(cache)


store.register_fake(_fake)


def check():
    cache = torch.zeros(3)
    if store(torch.ones(3), cache).sum() > 2: z = store(torch.ones(3), cache) + 1
    assert z.tolist() == [2.0] * 3
    rows = [c for c in store(torch.ones(3), cache)]
    assert len(rows) == 3
    assert store(torch.ones(3), torch.zeros(3)).sum() == 3
    torch.library.opcheck(store, (torch.ones(3), cache))
""",
        """\
-def _impl(x: Tensor, cache: Tensor) -> Tensor:
-    return cache.copy_(x)
+def _impl(x: Tensor, cache: Tensor) -> None:
+    cache.copy_(x)
-def _fake(x, cache):
-    return torch.empty_like(cache)
-
-
-store.register_fake(_fake)
-
-
-    if store(torch.ones(3), cache).sum() > 2: z = store(torch.ones(3), cache) + 1
+    store(torch.ones(3), cache)
+    if cache.sum() > 2:
+        store(torch.ones(3), cache)
+        z = cache + 1
-    rows = [c for c in store(torch.ones(3), cache)]
+    store(torch.ones(3), cache)
+    rows = [c for c in cache]
-    assert store(torch.ones(3), torch.zeros(3)).sum() == 3
+    store(torch.ones(3), (buffer := torch.zeros(3)))
+    assert buffer.sum() == 3
""",
    ),
    "exhaustive": (
        H
        + """\
@torch.library.custom_op("t13::both", mutates_args=("a", "b"))
def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.numel() > 2:
        t = (a.add_(1), b.mul_(2))
        return t
    else: return a.add_(1), b.mul_(2)


def check():
    a, b = torch.ones(3), torch.ones(3)
    c, d = both(a, b)
    assert c is a and d is b and a.sum() == 6 and b.sum() == 6
    a, b = torch.ones(1), torch.ones(1)
    c, d = both(b=b, a=a)
    assert c is a and d is b and a.sum() == 2 and b.sum() == 2
    torch.library.opcheck(both, (a, b))
    torch.library.opcheck(both, (torch.ones(4), torch.ones(4)))
""",
        """\
-def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
+def both(a: Tensor, b: Tensor) -> None:
-        return t
-    else: return a.add_(1), b.mul_(2)
+        return
+    else: a.add_(1), b.mul_(2); return
-    c, d = both(a, b)
+    both(a, b)
+    c, d = a, b
-    c, d = both(b=b, a=a)
+    both(b=b, a=a)
+    c, d = a, b
""",
    ),
    "positional last": (
        H
        + """\
lib = torch.library.Library("t15", "FRAGMENT")
lib.define("scale(Tensor x, float k, Tensor(a!) dst) -> Tensor(a!)")
lib.impl("scale", lambda x, k, dst: torch.mul(x, k, out=dst), "CPU")


def check():
    x, b = torch.ones(3), torch.empty(3)
    assert torch.ops.t15.scale(x, 2.0, b) is b
    assert torch.ops.t15.scale.default(x, 2.0, b)[0] == 2.0
    torch.ops.t15.scale(k=2.0, dst=b, x=x)
    torch.ops.t15.scale(
        x,  # in
        2.0,
        b,  # out
    )
""",
        """\
-lib.define("scale(Tensor x, float k, Tensor(a!) dst) -> Tensor(a!)")
+lib.define("scale(Tensor x, float k, *, Tensor(a!) dst) -> Tensor(a!)", tags=torch.Tag.out)
-    assert torch.ops.t15.scale(x, 2.0, b) is b
-    assert torch.ops.t15.scale.default(x, 2.0, b)[0] == 2.0
+    assert torch.ops.t15.scale(x, 2.0, dst=b) is b
+    assert torch.ops.t15.scale.default(x, 2.0, dst=b)[0] == 2.0
-        b,  # out
+        dst=b,  # out
""",
    ),
    "rename": (
        H
        + """\
@torch.library.custom_op("t16::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0) -> Tensor:
    return x * k


@scale.register_fake
def _(x, k=2.0):
    return torch.empty_like(x)


@torch.library.custom_op("t16::scale.out", mutates_args={"out"}, tags=torch.Tag.out)
def scale_out(x: Tensor, k: float = 2.0, *, out: Tensor) -> Tensor:
    return torch.mul(x, k, out=out)


@torch.library.register_kernel("t16::scale.out", "cuda")
def _(x, k=2.0, *, out):
    return torch.mul(x, k, out=out)


def check():
    x, b = torch.ones(3), torch.empty(3)
    torch.ops.t16.scale.out(x, out=b)
    assert torch.ops.t16.scale(x, out=b) is b
    assert torch.ops.t16.scale(x, k=3.0)[0] == 3.0
    assert scale_out(x, out=b) is b
    torch.library.opcheck(torch.ops.t16.scale.out, (x,), {"out": b})
    torch.library.opcheck(torch.ops.t16.scale.default, (x,))
    assert torch.compile(lambda t: scale(t) + 1)(x).tolist() == [3.0] * 3
""",
        """\
-@torch.library.custom_op("t16::scale.out", mutates_args={"out"}, tags=torch.Tag.out)
+@torch.library.custom_op("t16::scale_out", mutates_args={"out"}, tags=torch.Tag.out)
-@torch.library.register_kernel("t16::scale.out", "cuda")
+@torch.library.register_kernel("t16::scale_out", "cuda")
-    torch.ops.t16.scale.out(x, out=b)
-    assert torch.ops.t16.scale(x, out=b) is b
+    torch.ops.t16.scale_out(x, out=b)
+    assert torch.ops.t16.scale_out(x, out=b) is b
-    torch.library.opcheck(torch.ops.t16.scale.out, (x,), {"out": b})
+    torch.library.opcheck(torch.ops.t16.scale_out.default, (x,), {"out": b})
""",
    ),
    "rename low": (
        H
        + """\
lib = torch.library.Library("t17", "FRAGMENT")
lib.define("scale(Tensor x, float k=2.0) -> Tensor")
lib.define(
    "scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)",
    tags=torch.Tag.out,
)
lib.impl("scale", lambda x, k=2.0: x * k, "CPU")
lib.impl("scale.out", lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")


def check():
    x, b = torch.ones(3), torch.empty(3)
    f = torch.ops.t17.scale.out
    f(x, out=b)
    assert f.overloads() == ["default"] if hasattr(f, "overloads") else True
    assert torch.ops.t17.scale(x, 2.0, out=b) is b
    assert torch.ops.t17.scale.default(x)[0] == 2.0
""",
        """\
-    "scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)",
+    "scale_out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)",
-lib.impl("scale.out", lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
+lib.impl("scale_out", lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
-    f = torch.ops.t17.scale.out
+    f = torch.ops.t17.scale_out.default
-    assert torch.ops.t17.scale(x, 2.0, out=b) is b
+    assert torch.ops.t17.scale_out(x, 2.0, out=b) is b
""",
    ),
    "low two": (
        H
        + """\
lib = torch.library.Library("t19", "FRAGMENT")
lib.define("norm(Tensor(a!) x, Tensor(b!) r) -> (Tensor(a!), Tensor(b!))")


@torch.library.impl(lib, "norm", "CPU")
def _norm(x, r):
    x.add_(r)
    r.mul_(2)
    return x, r


def check():
    x, r = torch.ones(3), torch.ones(3)
    a, b = torch.ops.t19.norm(x, r)
    assert a is x and b is r and x[0] == 2
    torch.library.opcheck(torch.ops.t19.norm.default, (x, r))
""",
        """\
-lib.define("norm(Tensor(a!) x, Tensor(b!) r) -> (Tensor(a!), Tensor(b!))")
+lib.define("norm(Tensor(a!) x, Tensor(b!) r) -> ()")
-    return x, r
-    a, b = torch.ops.t19.norm(x, r)
+    torch.ops.t19.norm(x, r)
+    a, b = x, r
""",
    ),
    "over": (
        H
        + """\
@torch.library.custom_op("u1::fade_", mutates_args=("x", "w"))
def fade_(x: Tensor, w: Tensor) -> Tensor:
    return x.mul_(w)


def check():
    x = torch.ones(3)
    assert fade_(x, x + 1) is x
    torch.library.opcheck(fade_, (torch.ones(3), torch.ones(3)))
""",
        """\
-@torch.library.custom_op("u1::fade_", mutates_args=("x", "w"))
+@torch.library.custom_op("u1::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
""",
    ),
    "under": (
        H
        + """\
@torch.library.custom_op("u2::fade_", mutates_args=())
def fade_(x: Tensor, w: Tensor) -> Tensor:
    return x.mul_(w)


def check():
    x = torch.ones(3)
    assert fade_(x, x + 1) is x
    torch.library.opcheck(fade_, (torch.ones(3), torch.ones(3)))
""",
        """\
-@torch.library.custom_op("u2::fade_", mutates_args=())
+@torch.library.custom_op("u2::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
""",
    ),
    "under two": (
        H
        + """\
@torch.library.custom_op("u3::fade_", mutates_args=("x",))
def fade_(x: Tensor, w: Tensor) -> Tensor:
    w.add_(1)
    return x.mul_(w)


def check():
    x = torch.ones(3)
    y = fade_(x, x + 1)
    assert y is x
    torch.library.opcheck(fade_, (torch.ones(3), torch.ones(3)))
""",
        """\
-@torch.library.custom_op("u3::fade_", mutates_args=("x",))
-def fade_(x: Tensor, w: Tensor) -> Tensor:
+@torch.library.custom_op("u3::fade_", mutates_args=("x", "w"))
+def fade_(x: Tensor, w: Tensor) -> None:
-    return x.mul_(w)
+    x.mul_(w)
-    y = fade_(x, x + 1)
+    fade_(x, x + 1)
+    y = x
""",
    ),
    "helper": (
        H
        + """\
lib = torch.library.Library("u4", "FRAGMENT")


def direct_register_custom_op(op_name, op_func, mutates_args, fake_impl=None):
    schema = torch.library.infer_schema(op_func, mutates_args=mutates_args)
    lib.define(op_name + schema)
    lib.impl(op_name, op_func, "CPU")
    if fake_impl is not None:
        lib._register_fake(op_name, fake_impl)


def store(x: Tensor, cache: Tensor) -> Tensor:
    cache.copy_(x)
    return cache


def store_fake(x: Tensor, cache: Tensor) -> Tensor:
    return cache


direct_register_custom_op("store", store, ["cache"], fake_impl=store_fake)


def check():
    c = torch.zeros(3)
    y = torch.ops.u4.store(torch.ones(3), c)
    assert y is c
    torch.library.opcheck(torch.ops.u4.store.default, (torch.ones(3), torch.ones(3)))
""",
        """\
-def store(x: Tensor, cache: Tensor) -> Tensor:
+def store(x: Tensor, cache: Tensor) -> None:
-    return cache
-def store_fake(x: Tensor, cache: Tensor) -> Tensor:
-    return cache
+def store_fake(x: Tensor, cache: Tensor) -> None:
+    pass
-    y = torch.ops.u4.store(torch.ones(3), c)
+    torch.ops.u4.store(torch.ones(3), c)
+    y = c
""",
    ),
    "inner helper": (
        H
        + """\
def _apply(x: Tensor, w: Tensor) -> Tensor:
    x.mul_(w)
    return x


@torch.library.custom_op("u5::fade_", mutates_args=("x",))
def fade_(x: Tensor, w: Tensor) -> Tensor:
    return _apply(x, w)


@torch.library.custom_op("u5::other", mutates_args=("w",))
def other(x: Tensor, w: Tensor) -> Tensor:
    return _apply(w, x)


def check():
    x, w = torch.ones(3), torch.ones(3)
    assert fade_(x, w) is x
    y = other(x, w) + fade_(x, w)
    fade_(x, w).add_(1)
    other(x, w)[0].add_(1)
    assert other(x, w).sum() > 0 and x.sum() > 0
    torch.library.opcheck(fade_, (x, w))
    torch.library.opcheck(other, (x, w))
""",
        """\
-@torch.library.custom_op("u5::fade_", mutates_args=("x",))
+@torch.library.custom_op("u5::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
-def other(x: Tensor, w: Tensor) -> Tensor:
-    return _apply(w, x)
+def other(x: Tensor, w: Tensor) -> None:
+    _apply(w, x)
-    y = other(x, w) + fade_(x, w)
+    other(x, w)
+    y = w + fade_(x, w)
-    other(x, w)[0].add_(1)
-    assert other(x, w).sum() > 0 and x.sum() > 0
+    other(x, w)
+    w[0].add_(1)
+    other(x, w)
+    assert w.sum() > 0 and x.sum() > 0
""",
    ),
    "ops in one": (
        H
        + """\
@torch.library.custom_op("u6::a", mutates_args=("w",))
def a(x: Tensor, w: Tensor) -> Tensor:
    return w.copy_(x)


@torch.library.custom_op("u6::b", mutates_args=("w",))
def b(x: Tensor, w: Tensor) -> Tensor:
    return w.add_(x)


def check():
    x, w, v = torch.ones(3), torch.zeros(3), torch.zeros(3)
    assert b(a(x, w), v) is v
    y = a(x, w) + b(x, v)
    assert y.tolist() == [3.0] * 3
    t = (a(x, torch.zeros(3)), b(x, torch.ones(3)))
    assert t[0][0] == 1 and t[1][0] == 2
""",
        """\
-def a(x: Tensor, w: Tensor) -> Tensor:
-    return w.copy_(x)
+def a(x: Tensor, w: Tensor) -> None:
+    w.copy_(x)
-def b(x: Tensor, w: Tensor) -> Tensor:
-    return w.add_(x)
+def b(x: Tensor, w: Tensor) -> None:
+    w.add_(x)
-    assert b(a(x, w), v) is v
-    y = a(x, w) + b(x, v)
+    a(x, w)
+    b(w, v)
+    assert v is v
+    a(x, w)
+    b(x, v)
+    y = w + v
-    t = (a(x, torch.zeros(3)), b(x, torch.ones(3)))
+    buffer = torch.zeros(3)
+    a(x, buffer)
+    out_buffer = torch.ones(3)
+    b(x, out_buffer)
+    t = (buffer, out_buffer)
""",
    ),
    "method": (
        H
        + """\
@torch.library.custom_op("u7::store", mutates_args=("cache",))
def store(x: Tensor, cache: Tensor) -> Tensor:
    return cache.copy_(x)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3))

    @property
    def twice(self):
        return self.cache * 2

    def forward(self, x):
        h = store(x, self.cache) * 2
        g = store(x, self.twice)
        return h + store(x, cache=self.cache) + g


def check():
    m = M()
    assert m(torch.ones(3)).tolist() == [4.0] * 3
""",
        """\
-def store(x: Tensor, cache: Tensor) -> Tensor:
-    return cache.copy_(x)
+def store(x: Tensor, cache: Tensor) -> None:
+    cache.copy_(x)
-        h = store(x, self.cache) * 2
-        g = store(x, self.twice)
-        return h + store(x, cache=self.cache) + g
+        store(x, self.cache)
+        h = self.cache * 2
+        buffer = self.twice
+        store(x, buffer)
+        g = buffer
+        store(x, cache=self.cache)
+        return h + self.cache + g
""",
    ),
    "loop": (
        H
        + """\
@torch.library.custom_op("u8::store", mutates_args=("cache",))
def store(x: Tensor, cache: Tensor) -> Tensor:
    return cache.copy_(x)


def check():
    xs, cs, n = [torch.ones(2)] * 2, [torch.zeros(2), torch.zeros(2)], 0
    for x, c in zip(xs, cs):
        n += store(x, c).sum()
    else:
        n = n + store(xs[0], cs[0]).sum()
    with torch.no_grad(): r = store(xs[0], cs[1])
    try:
        z = store(xs[0], cs[i])
    except NameError:
        z = None
    d = {}
    d["k"] = store(xs[0], cs[0])
    max(store(xs[0], cs[0]).sum(), 1)
    assert n == 6 and z is None and d["k"] is cs[0]
""",
        """\
-def store(x: Tensor, cache: Tensor) -> Tensor:
-    return cache.copy_(x)
+def store(x: Tensor, cache: Tensor) -> None:
+    cache.copy_(x)
-        n += store(x, c).sum()
+        store(x, c)
+        n += c.sum()
-        n = n + store(xs[0], cs[0]).sum()
-    with torch.no_grad(): r = store(xs[0], cs[1])
+        store(xs[0], (buffer := cs[0]))
+        n = n + buffer.sum()
+    with torch.no_grad():
+        store(xs[0], (out_buffer := cs[1]))
+        r = out_buffer
-        z = store(xs[0], cs[i])
+        store(xs[0], (buffer_2 := cs[i]))
+        z = buffer_2
-    d["k"] = store(xs[0], cs[0])
-    max(store(xs[0], cs[0]).sum(), 1)
+    store(xs[0], (buffer_3 := cs[0]))
+    d["k"] = buffer_3
+    store(xs[0], (buffer_4 := cs[0]))
+    max(buffer_4.sum(), 1)
""",
    ),
    "rename registered by object": (
        H
        + """\
lib = torch.library.Library("u9", "FRAGMENT")
lib.define("scale(Tensor x, float k=2.0) -> Tensor")
lib.define(
    "scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,)
)
lib.impl(torch.ops.u9.scale.default, lambda x, k=2.0: x * k, "CPU")
lib.impl(torch.ops.u9.scale.out, lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
lib._register_fake("scale", lambda x, k=2.0: torch.empty_like(x))


def check():
    x, b = torch.ones(3), torch.empty(3)
    ops = torch.ops.u9
    assert ops.scale.out(x, out=b) is b
    assert ops.scale(x, out=b) is b
    assert ops.scale.out._schema.name == "u9::scale_out"
    torch.library.opcheck(torch.ops.u9.scale.out, (x,), {"out": b})
""",
        """\
-    "scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,)
+    "scale_out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,)
-lib.impl(torch.ops.u9.scale.out, lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
+lib.impl(torch.ops.u9.scale_out.default, lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
-    assert ops.scale.out(x, out=b) is b
-    assert ops.scale(x, out=b) is b
-    assert ops.scale.out._schema.name == "u9::scale_out"
-    torch.library.opcheck(torch.ops.u9.scale.out, (x,), {"out": b})
+    assert ops.scale_out(x, out=b) is b
+    assert ops.scale_out(x, out=b) is b
+    assert ops.scale_out.default._schema.name == "u9::scale_out"
+    torch.library.opcheck(torch.ops.u9.scale_out.default, (x,), {"out": b})
""",
    ),
    "tag by constructor": (
        H
        + """\
def make(x: Tensor) -> Tensor:
    '''Double x.

    >>> import torch
    >>> x = torch.ones(2)
    >>> double_(x)
    tensor([2., 2.])
    '''
    return x.mul_(2)


double_ = torch.library.custom_op(
    "u13::double_",
    make,
    mutates_args=("x",),
)


def check():
    x = torch.ones(3)
    assert double_(x) is x
""",
        """\
+    tags=torch.Tag.inplace,
""",
    ),
    "conditional": (
        H
        + """\
if hasattr(torch, "library"):

    @torch.library.custom_op("u10::fade_", mutates_args=("x",))
    def fade_(x: Tensor) -> Tensor:
        return x.mul_(2)

    @fade_.register_fake
    def _(x):
        return x


def check():
    x = torch.ones(3)
    assert fade_(x) is x
    torch.library.opcheck(fade_, (x,))
""",
        """\
-    @torch.library.custom_op("u10::fade_", mutates_args=("x",))
+    @torch.library.custom_op("u10::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
-
-    @fade_.register_fake
-    def _(x):
-        return x
""",
    ),
    "only fake in if": (
        H
        + """\
@torch.library.custom_op("u11::fade_", mutates_args=("x",))
def fade_(x: Tensor) -> Tensor:
    return x.mul_(2)


if hasattr(fade_, "register_fake"):
    @fade_.register_fake
    def _(x):
        return x


def check():
    x = torch.ones(3)
    assert fade_(x) is x
""",
        """\
-@torch.library.custom_op("u11::fade_", mutates_args=("x",))
+@torch.library.custom_op("u11::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
-    @fade_.register_fake
-    def _(x):
-        return x
+    pass
""",
    ),
    "scalar first": (
        H
        + """\
@torch.library.custom_op("u12::axpy_", mutates_args=["y"])
def axpy_(a: float, x: Tensor, y: Tensor) -> "Tensor":
    # scale, then add
    y += a * x  # in place
    # done
    return y  # the same


def run(x, y):
    return axpy_(2.0, x, y=y)


def check():
    x, y = torch.ones(3), torch.ones(3)
    assert run(x, y) is y and y[0] == 3
    torch.library.opcheck(axpy_, (2.0, x, y))
""",
        """\
-def axpy_(a: float, x: Tensor, y: Tensor) -> "Tensor":
+def axpy_(a: float, x: Tensor, y: Tensor) -> None:
-    return y  # the same
+    return  # the same
-    return axpy_(2.0, x, y=y)
+    axpy_(2.0, x, y=y)
+    return y
""",
    ),
}

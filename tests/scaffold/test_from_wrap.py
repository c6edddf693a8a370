"""What functions do decides what ops they make, with the places that show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from from_reading import HEAD, read, schemas

from opscaffold.contract.model import Kind
from opscaffold.scaffold.from_error import FromError, UndecidedError

FIRST = HEAD.count("\n") + 1

KINDS = {
    "functional": (
        "def f(x: Tensor, alpha: float = 1.0) -> Tensor:\n    return x * alpha\n",
        ["functional: f(Tensor x, float alpha=1.0) -> Tensor"],
    ),
    "several results": (
        "def f(x: Tensor) -> Tuple[Tensor, Tensor]:\n    return x + 1, x - 1\n",
        ["functional: f(Tensor x) -> (Tensor, Tensor)"],
    ),
    "lists": (
        (
            "def f(xs: List[Tensor], n: Optional[List[int]] = None) -> List[Tensor]:\n"
            "    return [x * 2 for x in xs]\n"
        ),
        ["functional: f(Tensor[] xs, SymInt[]? n=None) -> Tensor[]"],
    ),
    "dtype and device": (
        (
            "def f(n: int, dtype: torch.dtype, device: Optional[torch.device] = None) -> Tensor:\n"
            "    return torch.zeros(n, dtype=dtype, device=device)\n"
        ),
        ["functional: f(SymInt n, ScalarType dtype, Device? device=None) -> Tensor"],
    ),
    "a keyword-only tensor": (
        (
            "def f(x: Tensor, *, weight: Tensor, eps: float = 0.5) -> Tensor:\n"
            "    return x * weight + eps\n"
        ),
        ["functional: f(Tensor x, Tensor weight, *, float eps=0.5) -> Tensor"],
    ),
    "an old-style optional": (
        (
            "def f(x: Tensor, bias: Tensor = None) -> Tensor:\n"
            "    return x * 2 if bias is None else x + bias\n"
        ),
        ["functional: f(Tensor x, Tensor? bias=None) -> Tensor"],
    ),
    "in-place": (
        "def f_(x: Tensor, alpha: float) -> Tensor:\n    x.mul_(alpha)\n    return x\n",
        ["in-place: f_(Tensor(a0!) x, float alpha) -> Tensor(a0!)"],
    ),
    "in-place through a helper": (
        (
            "def helper(y):\n    y[0] = 1\n    return y\n\n"
            "def f_(x: Tensor) -> Tensor:\n    return helper(x)\n"
        ),
        ["in-place: f_(Tensor(a0!) x) -> Tensor(a0!)"],
    ),
    "writing and returning nothing": (
        "def f(x: Tensor) -> None:\n    x += 1\n",
        ["mutable: f(Tensor(a0!) x) -> ()"],
    ),
    "writing what is not first, and returning it": (
        "def f(x: Tensor, cache: Tensor) -> Tensor:\n    cache.add_(x)\n    return cache\n",
        ["mutable: f(Tensor x, Tensor(a1!) cache) -> ()"],
    ),
    "writing, and returning something fresh": (
        "def f(x: Tensor, cache: Tensor) -> Tensor:\n    cache.add_(x)\n    return cache * 2\n",
        ["mutable: f(Tensor x, Tensor(a1!) cache) -> Tensor"],
    ),
    "writing, and returning that beside something fresh": (
        (
            "def f(x: Tensor, cache: Tensor) -> Tuple[Tensor, Tensor]:\n"
            "    cache.add_(x)\n    return cache, x * 2\n"
        ),
        ["mutable: f(Tensor x, Tensor(a1!) cache) -> Tensor"],
    ),
    "a list that is written": (
        "def f(xs: List[Tensor], v: float) -> None:\n    for x in xs:\n        x.add_(v)\n",
        ["mutable: f(Tensor(a0!)[] xs, float v) -> ()"],
    ),
    "out=": (
        (
            "def f_out(x: Tensor, *, out: Tensor) -> Tensor:\n"
            "    torch.mul(x, 2, out=out)\n    return out\n"
        ),
        ["out=: f_out(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"],
    ),
    "a positional buffer": (
        "def f_out(x: Tensor, out: Tensor) -> Tensor:\n    out.copy_(x)\n    return out\n",
        ["out=: f_out(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"],
    ),
    "two buffers": (
        (
            "def f_out(x: Tensor, *, lo: Tensor, hi: Tensor) -> Tuple[Tensor, Tensor]:\n"
            "    lo.copy_(x - 1)\n    hi.copy_(x + 1)\n    return lo, hi\n"
        ),
        ["out=: f_out(Tensor x, *, Tensor(a1!) lo, Tensor(a2!) hi) -> (Tensor(a1!), Tensor(a2!))"],
    ),
    "a buffer that is read": (
        "def f(x: Tensor, *, out: Tensor) -> Tensor:\n    out.add_(x)\n    return out\n",
        ["mutable: f(Tensor x, Tensor(a1!) out) -> ()"],
    ),
    "a buffer that is written in part": (
        "def f(x: Tensor, *, out: Tensor) -> Tensor:\n    out[0] = x[0]\n    return out\n",
        ["mutable: f(Tensor x, Tensor(a1!) out) -> ()"],
    ),
}

PAIR = [
    "functional: f(Tensor x) -> Tensor",
    "out=: f_out(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)",
]
MAYBE_OUT = {
    "an if at the top": "    if out is None:\n        out = torch.empty_like(x)\n"
    "    out.copy_(x)\n    return out\n",
    "a conditional expression": "    y = torch.empty_like(x) if out is None else out\n"
    "    y.copy_(x).mul_(2)\n    return y\n",
    "turned round": "    y = out if out is not None else x.new_empty(x.shape)\n"
    "    y.copy_(x)\n    return y\n",
    "an early return": "    if out is None:\n        return x * 2\n"
    "    torch.mul(x, 2, out=out)\n    return out\n",
    "an else": "    if out is not None:\n        out.copy_(x * 2)\n        return out\n"
    "    else:\n        return x * 2\n",
    "handed to torch": "    return torch.mul(x, 2, out=out)\n",
    "or": "    out = out or torch.empty_like(x)\n    out.copy_(x)\n    return out\n",
}

REFUSED = {
    "async": ("async def f(x: Tensor) -> Tensor:\n    return x + 1\n", 0, "is async", "plain def"),
    "a generator": ("def f(x: Tensor):\n    yield x\n", 1, "is a generator", "list of Tensors"),
    "*args": ("def f(*xs: Tensor) -> Tensor:\n    return xs[0] + 1\n", 0, "*xs", "list[Tensor]"),
    "**kwargs": ("def f(x: Tensor, **k: int) -> Tensor:\n    return x + 1\n", 0, "**k", "write"),
    "positional-only": ("def f(x: Tensor, /) -> Tensor:\n    return x + 1\n", 0, "x is", "'/'"),
    "a dict": ("def f(x: Tensor, d: dict) -> Tensor:\n    return x + 1\n", 0, "dict", "arguments"),
    "a decorator": ("@vendor.jit\ndef f(x: Tensor) -> Tensor:\n    return x + 1\n", 0, "@", "with"),
    "an op": (
        (
            "@torch.library.custom_op('ns::f', mutates_args=())\n"
            "def f(x: Tensor) -> Tensor:\n    return x + 1\n"
        ),
        0,
        "the op ns::f already",
        "opscaffold migrate",
    ),
    "a lambda": ("f = lambda x: x + 1\n", 0, "is a lambda", "def with annotations"),
    "a method": ("class A:\n    def f(self, x):\n        return x\n", 1, "a method of A", "move"),
    "a closure": (
        "def outer(y):\n    def f(x):\n        return x + y\n    return f\n",
        1,
        "a closure inside outer",
        "move it to the top level",
    ),
    "an autograd.Function": (
        "class f(torch.autograd.Function):\n    pass\n",
        0,
        "is an autograd.Function",
        "register_autograd",
    ),
    "an import": ("from vendor import f\n", 0, "is imported from vendor", "name the file"),
    "two of the name": (
        (
            "def f(x: Tensor) -> Tensor:\n    return x + 1\n\n"
            "def f(x: Tensor) -> Tensor:\n    return x + 2\n"
        ),
        3,
        "is bound here and on line",
        "name of its own",
    ),
    "a condition": (
        "if vendor.new:\n    def f(x: Tensor) -> Tensor:\n        return x + 1\n",
        1,
        "under a condition",
        "top level",
    ),
    "a global": (
        "N = 0\n\ndef f(x: Tensor) -> Tensor:\n    global N\n    N += 1\n    return x + N\n",
        3,
        "rebinds N",
        "argument",
    ),
    "state": (
        "N = 0\n\ndef f(x: Tensor) -> Tensor:\n    return x + N\n\ndef g():\n    global N\n",
        3,
        "reads N",
        "pass N as an argument",
    ),
    "a cache": (
        "C = {}\n\ndef f(x: Tensor, k: int) -> Tensor:\n    return C.setdefault(k, x)\n",
        3,
        "reads C",
        "pass C as an argument",
    ),
    "a tensor of the module": (
        "E = torch.eye(3)\n\ndef f(x: Tensor) -> Tensor:\n    return x @ E\n",
        3,
        "a Tensor that lasts",
        "pass E as an argument",
    ),
    "chance": ("def f(x: Tensor) -> Tensor:\n    return x + torch.rand(3)\n", 1, "random", "pass"),
    "a name that is nowhere": (
        "def f(x: Tensor) -> Tensor:\n    return x + gone\n",
        1,
        "gone is defined nowhere",
        "import or define",
    ),
    "the argument itself": (
        "def f(x: Tensor) -> Tensor:\n    return x\n",
        1,
        "x itself",
        "--clone",
    ),
    "a view": ("def f(x: Tensor) -> Tensor:\n    return x[0]\n", 1, "memory of x", "--clone"),
    "perhaps a view": (
        "def f(x: Tensor) -> Tensor:\n    return x.contiguous()\n",
        1,
        "may return memory of x",
        "--clone-returns",
    ),
    "one tensor twice": (
        "def f(x: Tensor) -> Tuple[Tensor, Tensor]:\n    y = x + 1\n    return y, y\n",
        2,
        "share memory",
        "--clone-returns",
    ),
    "in-place or not": (
        (
            "def f(x: Tensor, inplace: bool = False) -> Tensor:\n"
            "    if inplace:\n        return x.add_(1)\n    return x + 1\n"
        ),
        2,
        "x itself on some inputs",
        "clone",
    ),
    "a shape that changes": (
        "def f(x: Tensor) -> Tensor:\n    x.unsqueeze_(0)\n    return x\n",
        1,
        "shape or storage of x",
        "right size",
    ),
    "a copy on some inputs": (
        "def f(x: Tensor) -> None:\n    x.contiguous().add_(1)\n",
        1,
        "to a copy of it on others",
        "clone x first",
    ),
    "nothing to do": (
        "def f(x: Tensor) -> None:\n    y = x + 1\n",
        0,
        "would do nothing",
        "return a Tensor",
    ),
    "None at times": (
        (
            "def f(x: Tensor, n: int) -> Optional[Tensor]:\n"
            "    if n:\n        return x + n\n    return None\n"
        ),
        3,
        "returns nothing here",
        "on every path",
    ),
    "a number": (
        "def f(x: Tensor) -> int:\n    return x.shape[0]\n",
        0,
        "a number",
        "Tensor of no",
    ),
    "an argument that torch.compile trips over": (
        "def f(x: Tensor, mode: int) -> None:\n    x.add_(mode)\n",
        0,
        "has one called 'mode'",
        "rename it",
    ),
    "a dtype with a default": (
        (
            "def f(n: int, d: torch.dtype = torch.float32) -> Tensor:\n"
            "    return torch.zeros(n, dtype=d)\n"
        ),
        0,
        "as a number, not as a dtype",
        "Optional",
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_what_it_does_decides_the_kind(case: str, tmp_path: Path) -> None:
    code, expected = KINDS[case]
    name = expected[0].partition(": ")[2].partition("(")[0]
    assert schemas(read(tmp_path, code, name)) == expected


@pytest.mark.parametrize("star", ["", "*, "])
@pytest.mark.parametrize("shape", MAYBE_OUT)
def test_a_maybe_out_becomes_a_pair(shape: str, star: str, tmp_path: Path) -> None:
    head = f"def f(x: Tensor, {star}out: Optional[Tensor] = None) -> Tensor:\n"
    wrapping = read(tmp_path, head + MAYBE_OUT[shape])
    assert schemas(wrapping) == PAIR
    functional, out = (op.wrapped for op in wrapping.ops)
    assert (functional.code, functional.file) == (out.code, out.file)
    assert functional.absent == ("out",)
    assert "out" not in functional.fakes[functional.fake].replace("without", "")


def test_a_maybe_out_whose_buffer_is_read_has_a_mutable_half(tmp_path: Path) -> None:
    code = """\
    def f(x: Tensor, out: Optional[Tensor] = None) -> Tensor:
        if out is None:
            out = torch.zeros_like(x)
        out.add_(x)
        return out
    """
    assert schemas(read(tmp_path, code)) == [
        PAIR[0],
        "mutable: f_out(Tensor x, Tensor(a1!) out) -> ()",
    ]


def test_a_buffer_that_is_not_returned_when_it_is_given_makes_an_out_op(tmp_path: Path) -> None:
    code = """\
    def f(x: Tensor, out: Optional[Tensor] = None) -> Optional[Tensor]:
        if out is None:
            return x * 2
        out.copy_(x * 2)
        return None
    """
    assert schemas(read(tmp_path, code)) == PAIR


def test_buffers_that_come_together_make_one_op_of_both(tmp_path: Path) -> None:
    code = """\
    def f(
        x: Tensor, a: Optional[Tensor] = None, b: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        a = torch.empty_like(x) if a is None else a
        b = torch.empty_like(x) if b is None else b
        a.copy_(x)
        b.copy_(-x)
        return a, b
    """
    wrapping = read(tmp_path, code)
    assert schemas(wrapping) == [
        "functional: f(Tensor x) -> (Tensor, Tensor)",
        "out=: f_out(Tensor x, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))",
    ]
    assert any("only some of a and b" in note for note in wrapping.notes)


def test_a_state_that_may_be_missing_makes_a_pair(tmp_path: Path) -> None:
    code = """\
    def f(x: Tensor, state: Optional[Tensor] = None) -> Tensor:
        if state is not None:
            state.add_(x)
        return x * 2
    """
    wrapping = read(tmp_path, code)
    assert schemas(wrapping) == [PAIR[0], "mutable: f_out(Tensor x, Tensor(a1!) state) -> Tensor"]
    assert len(wrapping.ops[1].wrapped.fakes) == 2


def test_each_step_of_the_tree_says_why_with_its_place(tmp_path: Path) -> None:
    code = "def f(x: Tensor, cache: Tensor) -> None:\n    cache.add_(x)\n"
    (op,) = read(tmp_path, code).ops
    assert [step.answer for step in op.steps] == ["no", "yes", "no", "no"]
    (place,) = op.steps[1].evidence
    assert (place.line, place.what) == (FIRST + 1, "reads and writes cache")
    assert place.path.endswith("module.py")
    assert "its first argument is x" in op.steps[2].why


def test_evidence_in_a_helper_names_the_call(tmp_path: Path) -> None:
    code = "def g(y):\n    y.zero_()\n\ndef f(x: Tensor) -> None:\n    g(x)\n"
    (op,) = read(tmp_path, code).ops
    assert [str(p).partition("module.py")[2] for p in op.steps[1].evidence] == [
        f":{FIRST + 4}: overwrites x, in g"
    ]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_an_op_is_refused_with_place_and_remedy(case: str, tmp_path: Path) -> None:
    code, line, reason, remedy = REFUSED[case]
    with pytest.raises(FromError) as caught:
        read(tmp_path, code)
    error = caught.value
    assert reason in error.reason
    assert remedy in error.remedy
    assert error.place.endswith(f"module.py:{FIRST + line}")
    assert not isinstance(error, UndecidedError)


def test_a_missing_function_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(FromError, match="did you mean scale"):
        read(tmp_path, "def scale(x: Tensor) -> Tensor:\n    return x * 2\n", "scael")
    with pytest.raises(FromError, match="it has scale"):
        read(tmp_path, "def scale(x: Tensor) -> Tensor:\n    return x * 2\n", "zzz")
    with pytest.raises(FromError, match="no function at its top level"):
        read(tmp_path, "x = 1\n", "zzz")


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FromError, match=r"module.py:9: syntax error"):
        read(tmp_path, "def f(x:\n")


def test_missing_annotations_are_offered_and_taken_from_flags(tmp_path: Path) -> None:
    code = "def f(x, n=2):\n    return x * n\n"
    with pytest.raises(UndecidedError, match="x: Tensor, n: Tensor") as caught:
        read(tmp_path, code)
    assert caught.value.keys == ("params",)
    told = ("x: Tensor", "n: int")
    with pytest.raises(UndecidedError) as caught:
        read(tmp_path, code, params=told)
    assert caught.value.keys == ("returns",)
    found = read(tmp_path, code, params=told, returns="Tensor")
    assert schemas(found) == ["functional: f(Tensor x, SymInt n=2) -> Tensor"]


@pytest.mark.parametrize("told", ["y: Tensor", "x: Tensor", "*"])
def test_a_param_that_says_nothing_new_is_an_error(told: str, tmp_path: Path) -> None:
    with pytest.raises(FromError, match="--param"):
        read(tmp_path, "def f(x: Tensor) -> Tensor:\n    return x + 1\n", params=(told,))


OPAQUE = "def f(x: Tensor, y: Tensor) -> Tensor:\n    return vendor.run(x, y)\n"


def test_code_out_of_sight_leaves_it_to_the_author(tmp_path: Path) -> None:
    with pytest.raises(UndecidedError) as caught:
        read(tmp_path, OPAQUE, fake=True)
    assert caught.value.keys == ("mutates", "kind")
    shown = [str(p).partition("module.py:")[2] for p in caught.value.evidence]
    assert shown == [f"{FIRST + 1}: vendor.run is out of sight, and is given {n}" for n in "xy"]
    fresh = read(tmp_path, OPAQUE, fake=True, kind=Kind.FUNCTIONAL)
    assert schemas(fresh) == ["functional: f(Tensor x, Tensor y) -> Tensor"]
    assert fresh.ops[0].by_rule
    writes = read(tmp_path, OPAQUE, fake=True, mutates=("y",))
    assert schemas(writes) == ["mutable: f(Tensor x, Tensor(a1!) y) -> Tensor"]


def test_in_place_out_of_sight_is_in_place_once_the_author_says_so(tmp_path: Path) -> None:
    code = "def f_(x: Tensor) -> Tensor:\n    vendor.run(x)\n    return x\n"
    found = read(tmp_path, code, "f_", mutates=("x",))
    assert schemas(found) == ["in-place: f_(Tensor(a0!) x) -> Tensor(a0!)"]


def test_a_buffer_filled_out_of_sight_is_an_out_argument_where_the_author_says_so(
    tmp_path: Path,
) -> None:
    code = "def f(x: Tensor, *, out: Tensor) -> Tensor:\n    vendor.run(x, out)\n    return out\n"
    found = read(tmp_path, code, mutates=("out",))
    assert schemas(found) == ["mutable: f(Tensor x, Tensor(a1!) out) -> ()"]
    found = read(tmp_path, code, mutates=("out",), kind=Kind.OUT)
    assert schemas(found) == ["out=: f(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"kind": Kind.FUNCTIONAL}, "--kind says functional, and x is written to"),
        ({"kind": Kind.OUT}, "--kind says out=, and f_ is in-place"),
        ({"mutates": ("y",)}, "--mutates leaves out x"),
        ({"mutates": ("x", "y")}, "nothing writes to y"),
        ({"mutates": ("n",)}, "no Tensor argument"),
    ],
)
def test_flags_that_the_code_contradicts_are_errors_with_evidence(
    flags: dict[str, object], reason: str, tmp_path: Path
) -> None:
    code = "def f_(x: Tensor, y: Tensor, n: int) -> Tensor:\n    x.add_(y, alpha=n)\n    return x\n"
    with pytest.raises(FromError, match=reason) as caught:
        read(tmp_path, code, "f_", **flags)
    lines = {place.line for place in caught.value.evidence}
    assert lines <= {FIRST + 1, FIRST + 2}
    assert bool(lines) == (flags.get("mutates") not in (("x", "y"), ("n",)))


def test_a_kind_that_promises_less_is_taken(tmp_path: Path) -> None:
    code = "def f_(x: Tensor) -> Tensor:\n    return x.add_(1)\n"
    assert schemas(read(tmp_path, code, "f_", kind=Kind.MUTABLE)) == [
        "mutable: f(Tensor(a0!) x) -> ()"
    ]


def test_results_that_share_memory_are_cloned_where_that_is_asked(tmp_path: Path) -> None:
    code = "def f(x: Tensor) -> Tuple[Tensor, Tensor]:\n    return x.t(), x + 1\n"
    (op,) = read(tmp_path, code, clone=True).ops
    assert op.wrapped.results == ("clone", "keep")
    assert op.wrapped.fakes == {"f_fake": "def f_fake(x):\n    return (x.t().clone(), x + 1)\n"}


def test_a_fake_kernel_that_does_not_follow_has_to_be_told(tmp_path: Path) -> None:
    code = "def f(x: Tensor) -> Tensor:\n    return x[x > 0]\n"
    with pytest.raises(UndecidedError, match="no fake kernel can be derived") as caught:
        read(tmp_path, code, clone=True)
    assert caught.value.keys == ("fake",)
    assert read(tmp_path, code, clone=True, fake=True).ops[0].by_rule


def test_the_derived_fake_kernel_is_of_the_way_to_call(tmp_path: Path) -> None:
    code = """\
    def f(x: Tensor, n: int, out: Optional[Tensor] = None) -> Tensor:
        if out is None and n > 2:
            out = torch.empty(n, x.shape[0], dtype=x.dtype)
        elif out is None:
            out = x.new_empty(n)
        out.fill_(1)
        return out
    """
    wrapping = read(tmp_path, code)
    text = wrapping.ops[0].wrapped.fakes["f_fake"]
    assert "x.new_empty(n)" in text
    assert "torch.empty(n, x.shape[0], dtype=x.dtype)" in text


def test_another_name_is_the_ops_and_not_the_functions(tmp_path: Path) -> None:
    code = "def _f(x: Tensor) -> Tensor:\n    return x + 1\n"
    assert schemas(read(tmp_path, code, "_f")) == ["functional: f(Tensor x) -> Tensor"]
    found = read(tmp_path, code, "_f", name="shift")
    assert schemas(found) == ["functional: shift(Tensor x) -> Tensor"]
    assert (found.ops[0].wrapped.function, found.ops[0].wrapped.file) == ("_f", "shift")

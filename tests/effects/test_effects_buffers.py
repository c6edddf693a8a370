"""How a kernel treats an Optional buffer, from many small kernels."""

from __future__ import annotations

import ast

import pytest
from kernels import kernel

from opscaffold.effects.buffers import Argument, BufferUse, Handed, use_of_buffer
from opscaffold.effects.trace import Effect

ARGUMENTS = [
    Argument("x", tensor=True),
    Argument("n", tensor=False),
    Argument("out", tensor=True, optional=True),
]


def use(body: str, more: str = "") -> BufferUse:
    function, names = kernel(body, "x, n, out=None", more)
    return use_of_buffer(function, ARGUMENTS, "out", names)


ZEROS = "if out is None:\n    out = torch.zeros_like(x)\n"
ALLOCATE = "if out is None:\n    out = torch.empty_like(x)\n"

HANDED = [
    (ALLOCATE + "out.copy_(x)\nreturn out", Handed.BUFFER),
    (ALLOCATE + "return out.copy_(x)", Handed.BUFFER),
    (ALLOCATE + "return out.copy_(x).add_(1).mul_(2)", Handed.BUFFER),
    (ALLOCATE + "return torch.mul(x, 2, out=out)", Handed.BUFFER),
    ("y = out if out is not None else torch.empty_like(x)\ny.copy_(x)\nreturn y", Handed.BUFFER),
    ("y = torch.empty_like(x) if None is out else out\ny.copy_(x)\nreturn y", Handed.BUFFER),
    ("out = out or torch.empty_like(x)\nout.copy_(x)\nreturn out", Handed.BUFFER),
    ("if out is None:\n    return x * 2\nout.copy_(x)\nreturn out", Handed.BUFFER),
    ("y = x * 2\nif out is not None:\n    out.copy_(y)\n    return out\nreturn y", Handed.BUFFER),
    (ALLOCATE + "a = b = out\nb.copy_(x)\nreturn a", Handed.BUFFER),
    (ALLOCATE + "a, b = out, x\na.copy_(b)\nreturn a", Handed.BUFFER),
    (ALLOCATE + "with torch.no_grad():\n    out.copy_(x)\nreturn out", Handed.BUFFER),
    (ALLOCATE + "for i in range(n):\n    out[i] = x[i]\nreturn out", Handed.BUFFER),
    (ALLOCATE + "try:\n    out.copy_(x)\nfinally:\n    n = 0\nreturn out", Handed.BUFFER),
    (ALLOCATE + "out.copy_(x)\nreturn out.view(-1)", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn out[:n]", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn out.contiguous()", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn out.t()", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn out, x + 1", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn (out,)", Handed.VIEW),
    (ALLOCATE + "out.copy_(x)\nreturn out.clone()", Handed.OTHER),
    (ALLOCATE + "out.copy_(x)\nreturn out + 0", Handed.OTHER),
    (ALLOCATE + "out.copy_(x)\nreturn x.sum()", Handed.OTHER),
    ("if out is not None:\n    out.copy_(x)\nreturn x * 2", Handed.OTHER),
    ("if out is not None:\n    out.copy_(x)\n    return out.new_empty(0)\nreturn x * 2",
     Handed.OTHER),
    (ALLOCATE + "out.copy_(x)\nif n:\n    return out\nreturn out.clone()", Handed.MIXED),
    (ALLOCATE + "if n:\n    out = x + 1\nreturn out", Handed.MIXED),
    ("if out is None or n:\n    out = torch.empty_like(x)\nout.copy_(x)\nreturn out",
     Handed.MIXED),
    (ALLOCATE + "out.copy_(x)\nif n:\n    return out", Handed.MIXED),
    (ALLOCATE + "return backend.run(x, out)", Handed.UNSEEN),
    ("return backend.run(x, out)", Handed.UNSEEN),
    (ALLOCATE + "return torch.ops.other.run(x, out)", Handed.UNSEEN),
    (ALLOCATE + "out.copy_(x)", Handed.NOTHING),
    (ALLOCATE + "out.copy_(x)\nreturn None", Handed.NOTHING),
]  # fmt: skip


@pytest.mark.parametrize(("body", "handed"), HANDED)
def test_what_is_handed_back_when_a_buffer_is_given(body: str, handed: Handed) -> None:
    assert use(body).handed is handed


WRITTEN = [
    ("out.copy_(x)", Effect.WRITE),
    ("out.fill_(0)", Effect.WRITE),
    ("out[:] = x", Effect.WRITE),
    ("out[...] = x", Effect.WRITE),
    ("torch.mul(x, 2, out=out)", Effect.WRITE),
    ("torch.ops.aten.mul.out(x, 2, out=out)", Effect.WRITE),
    ("out.view(-1).copy_(x.view(-1))", Effect.WRITE),
    ("out.t().copy_(x)", Effect.WRITE),
    ("out.data.copy_(x)", Effect.WRITE),
    ("out[0] = 1", Effect.WRITE_PART),
    ("out[:n] = x", Effect.WRITE_PART),
    ("out.narrow(0, 0, 1).copy_(x)", Effect.WRITE_PART),
    ("out[0].copy_(x)", Effect.WRITE_PART),
    ("out.add_(1)", Effect.UPDATE),
    ("out += 1", Effect.UPDATE),
    ("out[0] += 1", Effect.UPDATE),
    ("out.index_put_((x,), x)", Effect.UPDATE),
    ("out.resize_(4)", Effect.RESHAPE),
    ("out.t_()", Effect.RESHAPE),
    ("out.data = x", Effect.RESHAPE),
]


@pytest.mark.parametrize(("statement", "effect"), WRITTEN)
def test_writes_are_seen_by_kind(statement: str, effect: Effect) -> None:
    found = use(f"{ALLOCATE}{statement}\nreturn out")
    assert [event.effect for event in found.written] == [effect]
    assert found.is_output


LOOKS = [
    ("out.add_(x)", True),
    ("out += x", True),
    ("y = out + x\nout.copy_(y)", True),
    ("out[0] += 1", True),
    ("torch.add(out, x, out=out)", True),
    ("out.copy_(x)\nout.add_(1)", False),
    ("out.zero_()\nout += x", False),
    ("out[:] = x\nout[0] += 1", False),
    ("torch.mul(x, 2, out=out)\nout.neg_()", False),
    ("out.view(-1).copy_(x.view(-1))\nout.neg_()", False),
    ("if n:\n    out.copy_(x)\nout.neg_()", True),
    ("if n:\n    out.copy_(x)\nelse:\n    out.zero_()\nout.neg_()", False),
    ("for i in range(n):\n    out.copy_(x)\nout.neg_()", True),
    ("out[:n] = x\nout.neg_()", True),
    ("print(out.shape, out.dtype, out.size(0), out.stride())\nout.copy_(x)", False),
    ("assert out.is_contiguous() and out.device == x.device\nout.copy_(x)", False),
    ("if out.sum() > 0:\n    n = 1\nout.copy_(x)", True),
    ("print(out)\nout.copy_(x)", True),
    ("n = float(out[0])\nout.copy_(x)", True),
    ("backend.run(out)\nout.copy_(x)", True),
    ("n = lambda: out\nout.copy_(x)", True),
]


@pytest.mark.parametrize(("body", "looks"), LOOKS)
def test_reads_of_what_the_buffer_held_before(body: str, looks: bool) -> None:
    # A full allocation: with an empty one, nothing can mean to read its contents.
    found = use(f"{ZEROS}{body}\nreturn out")
    assert bool(found.looks) is looks


def test_reading_undefined_memory_is_no_look() -> None:
    assert not use(f"{ALLOCATE}out.add_(x)\nreturn out").looks


@pytest.mark.parametrize(
    ("body", "fresh"),
    [
        (ALLOCATE + "out.copy_(x)\nreturn out", True),
        ("if out is None:\n    return x + 1\nout.copy_(x)\nreturn out", True),
        ("if out is None:\n    return torch.stack([x, x]).sum(0)\nout.copy_(x)\nreturn out", True),
        ("if out is None:\n    return x\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    return x.view(-1)\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    return x.contiguous()\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    out = CACHE\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    out = pool.get(x)\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    return\nout.copy_(x)\nreturn out", False),
        ("if out is None:\n    out = x if n else torch.empty_like(x)\nout.copy_(x)\nreturn out",
         False),
    ],
)  # fmt: skip
def test_whether_the_result_is_fresh_without_a_buffer(body: str, fresh: bool) -> None:
    assert use(body).fresh_when_omitted is fresh


@pytest.mark.parametrize(
    ("body", "mutated"),
    [
        ("x.add_(1)", {"param:x"}),
        ("x[0] = 1", {"param:x"}),
        ("torch.mul(x, 2, out=x)", {"param:x"}),
        ("fill(x)", {"param:x"}),
        ("x.clone().add_(1)", set()),
        ("y = x if n else torch.ones(3)\ny.add_(1)", set()),
        ("backend.run(x)", set()),
    ],
)
def test_sure_mutations_of_other_arguments(body: str, mutated: set[str]) -> None:
    more = "def fill(t):\n    t.fill_(1)\n"
    found = use(f"{ALLOCATE}{body}\nout.copy_(x)\nreturn out", more)
    assert {event.root for event in found.other_mutations()} == mutated


HELPERS = """
def fill(target, source):
    target.copy_(source)

def allocated(target, like):
    return torch.empty_like(like) if target is None else target

def picked(target, like):
    if target is not None:
        return target
    return like.new_empty(like.shape)

def looked(target):
    return target.sum()

def again(target, source):
    again(target, source)

async def later(target):
    target.fill_(1)

def many(*targets):
    targets[0].fill_(1)
"""


@pytest.mark.parametrize(
    ("body", "handed", "written", "looks"),
    [
        (ALLOCATE + "fill(out, x)\nreturn out", Handed.BUFFER, True, False),
        (ALLOCATE + "fill(source=x, target=out)\nreturn out", Handed.BUFFER, True, False),
        ("out = allocated(out, x)\nfill(out, x)\nreturn out", Handed.BUFFER, True, False),
        ("y = picked(out, x)\ny.copy_(x)\nreturn y", Handed.BUFFER, True, False),
        (ZEROS + "looked(out)\nfill(out, x)\nreturn out", Handed.BUFFER, True, True),
        (ALLOCATE + "again(out, x)\nreturn out", Handed.BUFFER, False, False),
        (ZEROS + "again(out, x)\nreturn out", Handed.BUFFER, False, True),
        (ALLOCATE + "later(out)\nreturn out", Handed.BUFFER, False, False),
        (ZEROS + "later(out)\nreturn out", Handed.BUFFER, False, True),
        (ALLOCATE + "many(out)\nreturn out", Handed.BUFFER, False, False),
        (ZEROS + "many(out)\nreturn out", Handed.BUFFER, False, True),
    ],
)  # fmt: skip
def test_functions_of_the_project_are_followed(
    body: str, handed: Handed, written: bool, looks: bool
) -> None:
    found = use(body, HELPERS)
    assert found.handed is handed
    assert bool(found.written) is written
    # What cannot be followed may read what it is given, unless that is undefined anyway.
    assert bool(found.looks) is looks


@pytest.mark.parametrize(
    ("test", "tested"),
    [
        ("if out is None: pass", True),
        ("if out is not None: pass", True),
        ("if not out: pass", True),
        ("if out: pass", True),
        ("y = out or x", True),
        ("y = 1 if out else 2", True),
        ("if x is None: pass", False),
        ("y = out", False),
    ],
)
def test_whether_nullness_is_tested(test: str, tested: bool) -> None:
    assert use(f"{test}\nreturn out").tested is tested


def test_an_optional_that_is_only_read_is_no_output() -> None:
    found = use(ZEROS + "return x + out")
    assert not found.is_output
    assert found.handed is Handed.OTHER


def test_a_write_to_one_of_two_is_not_sure() -> None:
    found = use("y = out if n else x\ny.fill_(0)\nreturn x + 1")
    assert not found.written


def test_lambda_kernels_are_followed() -> None:
    function = ast.parse("lambda x, out=None: torch.mul(x, 2, out=out)", mode="eval").body
    assert isinstance(function, ast.Lambda)
    _, names = kernel("pass")
    arguments = [ARGUMENTS[0], ARGUMENTS[2]]
    assert use_of_buffer(function, arguments, "out", names).handed is Handed.BUFFER

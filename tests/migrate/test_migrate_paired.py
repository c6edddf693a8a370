"""Ops with several buffers that are given together or not at all."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from migrating import HEADER, apply, check_noop, cli, migrated, python, reasons, run

RUNNER = Path(__file__).with_name("run_paired.py")

_SIZES = ["torch.empty_like(x)", "x.new_empty(x.shape[0])", "torch.empty_like(x.t())"]
_FILLS = [
    "torch.mul(x, k, out={0}).add_(1)",
    "torch.sum(x, 1, out={0})",
    "{0}.copy_(x.t())\n    {0}.mul_(2)",
]
_VALUES = ["x * k + 1", "x.sum(1)", "x.t() * 2"]


def _allocate(names: list[str], indent: str) -> str:
    sizes = zip(names, _SIZES, strict=False)
    return "".join(f"{indent}{name} = {size}\n" for name, size in sizes)


def guard(style: str, names: list[str], order: list[str]) -> tuple[str, bool]:
    """The head of a kernel, and whether it still has to allocate buffers."""
    first, second = names[:2]
    pairs = list(itertools.pairwise(names))
    match style:
        case "unequal":
            tests = [f"({a} is None) != ({b} is None)" for a, b in pairs]
            text = f"    if {' or '.join(tests)}:\n        raise ValueError('all or none')\n"
        case "xor":
            tests = [f"(({a} is None) ^ ({b} is None))" for a, b in pairs]
            text = f"    if {' or '.join(tests)}:\n        raise ValueError('all or none')\n"
        case "assert":
            tests = [f"({a} is None) == ({b} is None)" for a, b in pairs]
            text = "".join(f"    assert {test}, 'all or none'\n" for test in tests)
        case "elif":
            none = " and ".join(f"{n} is None" for n in names)
            some = " or ".join(f"{n} is None" for n in names)
            text = f"    if {none}:\n{_allocate(names, '        ')}"
            text += f"    elif {some}:\n        raise ValueError('all or none')\n"
            return text, False
        case "nested":
            some = " or ".join(f"{n} is None" for n in names[1:])
            none = " or ".join(f"{n} is not None" for n in names[1:])
            text = f"    if {first} is None:\n        if {none}:\n            raise ValueError\n"
            text += _allocate(names, "        ")
            text += f"    elif {some}:\n        raise ValueError('all or none')\n"
            return text, False
        case "early":
            none = " and ".join(f"{n} is None" for n in names)
            some = " or ".join(f"{n} is None" for n in names)
            values = ", ".join(_VALUES[names.index(name)] for name in order)
            text = f"    if {none}:\n        return {values}\n"
            text += f"    if {some}:\n        raise ValueError('all or none')\n"
            return text, False
        case _:
            text = f"    given = {second} is not None\n    if {first} is None:\n        if given:\n"
            text += "            raise ValueError('both')\n"
            text += _allocate(names, "        ")
            text += "    elif not given:\n        raise ValueError('both')\n"
            return text, False
    return text, True


def program(number: int, style: str, form: str, names: list[str], order: list[str]) -> str:
    """An op, its fake kernel if it has one, and callers of both kinds."""
    head, allocates = guard(style, names, order)
    body = head
    if allocates:
        body += f"    if {names[0]} is None:\n{_allocate(names, '        ')}"
    fills = zip(names, _FILLS, strict=False)
    body += "".join(f"    {fill.format(name)}\n" for name, fill in fills)
    body += f"    return {', '.join(order)}\n"
    op, count = f"pair::op{number}", len(names)
    results = ", ".join(["Tensor"] * count)
    optional = [f"{n}: Tensor | None = None" for n in names]
    parameters = ["x: Tensor", "k: float = 3.0", *optional]
    declared = f"mutates_args=({', '.join(repr(n) for n in names)})"
    lines = HEADER
    # A kernel that other files may name stays what it is, and both halves call it.
    kernel = "norm" if number % 2 else f"norm_{number}"
    called = "norm"
    bare = ", ".join(p.replace(": Tensor | None", "").partition(":")[0] if i < 1 else
                     p.replace(": Tensor | None", "").replace(": float", "")
                     for i, p in enumerate(parameters))  # fmt: skip
    match form:
        case "library":
            schema = [f"Tensor(a{i}!)? {n}=None" for i, n in enumerate(names)]
            schema = ["Tensor x", "float k=3.0", *schema]
            lines += 'lib = torch.library.Library("pair", "FRAGMENT")\n'
            lines += f'lib.define("op{number}({", ".join(schema)}) -> ({results})")\n\n\n'
            lines += f"def {kernel}({bare}):\n{body}\n\n"
            lines += f'lib.impl("op{number}", {kernel}, "CompositeExplicitAutograd")\n'
            called = f"torch.ops.pair.op{number}"
        case "schema":
            schema = [f"Tensor(a{i}!)? {n}=None" for i, n in enumerate(names)]
            schema = ["Tensor x", "float k=3.0", *schema]
            lines += f'@torch.library.custom_op(\n    "{op}",\n    {declared},\n'
            lines += f'    schema="({", ".join(schema)}) -> ({results})",\n)\n'
            lines += f"def norm({bare}):\n{body}"
        case "call":
            head = f"def _{kernel}({', '.join(parameters)}) -> tuple[{results}]:\n"
            lines += (
                f'{head}{body}\n\nnorm = torch.library.custom_op("{op}", _{kernel}, {declared})\n'
            )
        case "first":
            parameters = ["x: Tensor", *optional, "k: float = 3.0"]
            lines += f'@torch.library.custom_op("{op}", {declared})\n'
            lines += f"def norm({', '.join(parameters)}) -> tuple[{results}]:\n"
            lines += f'    """Normalise.\n\n    Args:\n        {names[0]}: first, or None.\n'
            lines += f'        {names[1]}: second.\n        k: a factor.\n    """\n{body}'
        case "fake":
            lines += f'@torch.library.custom_op("{op}", {declared})\n'
            lines += f"def norm({', '.join(parameters)}) -> tuple[{results}]:\n{body}"
            lines += f"\n\n@norm.register_fake\ndef _({bare}):\n"
            lines += f"    if {names[0]} is not None:\n        return {', '.join(order)}\n"
            lines += f"    return {', '.join(_SIZES[names.index(n)] for n in order)}\n"
        case _:
            lines += f'@torch.library.custom_op("{op}", {declared})\n'
            lines += f"def norm({', '.join(parameters)}) -> tuple[{results}]:\n{body}"
    named = ", ".join(f"{n}={n}" for n in order)
    placed = ", ".join(names)
    annotated = ", ".join(f"{n}: Tensor" for n in order)
    by_place = f"x, {placed}" if form == "first" else f"x, 3.0, {placed}"
    nones = ", ".join(f"{n}=None" for n in names)
    lines += f"""

def fresh(x: Tensor):
    return {called}(x)


def fresh_none(x: Tensor):
    return {called}(x, {nones})


def fresh_unpacked(x: Tensor):
    {", ".join(order)} = {called}(x, k=3.0)
    return {", ".join(order)}


def into_named(x: Tensor, {annotated}):
    return {called}(x, k=3.0, {named})  # by name


def into_placed(x: Tensor, {annotated}):
    {", ".join(f"r{i}" for i in range(count))} = {called}({by_place})
    return {", ".join(f"r{i}" for i in range(count))}


def into_dropped(x: Tensor, {annotated}):
    {called}(
        x,
        # above
        {named.replace(", ", "," + chr(10) + "        ")},
    )
    return {", ".join(order)}


FRESH, INTO = [fresh, fresh_none, fresh_unpacked], [into_named, into_placed, into_dropped]
"""
    return lines


STYLES = ["unequal", "xor", "assert", "elif", "nested", "early", "flag"]
FORMS = ["plain", "library", "schema", "call", "first", "fake"]


def programs() -> Iterator[tuple[dict[str, Any], str]]:
    for number, (style, form) in enumerate(itertools.product(STYLES, FORMS), 1):
        count = 3 if number % 4 == 0 and style != "flag" else 2
        names = [["out", "scale", "more"], ["values", "sums", "turned"]][number % 2][:count]
        order = names[::-1] if number % 3 == 0 else names
        spec = {
            "module": f"paired_{number}",
            "op": f"pair::op{number}",
            "order": order,
            "places": [names.index(name) for name in order],
            "into": form == "library",
            "name": f"{style}-{form}-{count}",
        }
        yield spec, program(number, style, form, names, order)


@pytest.fixture(scope="module")
def outcome() -> tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]:
    """The faults by module, the texts afterwards, and what was generated."""
    pytest.importorskip("torch")
    specs, texts = [], {}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for spec, text in programs():
            compile(text, spec["module"], "exec")
            (root / f"{spec['module']}.py").write_text(text)
            specs.append(spec)
        first = run(root)
        apply(first)
        assert not first.findings, [(f.op, f.message) for f in first.findings]
        again = run(root)
        assert again.changes == {}
        for spec in specs:
            texts[spec["module"]] = (root / f"{spec['module']}.py").read_text()
        (root / "specs.json").write_text(json.dumps(specs))
        faults = json.loads(python(RUNNER, root, timeout=580).splitlines()[-1])
    return faults, texts, specs


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("spec", [s for s, _ in programs()], ids=lambda s: s["name"])
def test_split_op_of_several_buffers_keeps_every_promise(
    spec: dict[str, Any], outcome: tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]
) -> None:
    faults, texts, _ = outcome
    fault = faults.get(spec["module"], "")
    assert not fault, fault + texts[spec["module"]]


GUARDED = """\
    if (out is None) != (scale is None):
        raise ValueError("all or none")
    if out is None:
        out = torch.empty_like(x)
        scale = x.new_empty(x.shape[0])
"""
FILLED = """\
    torch.mul(x, 2, out=out)
    torch.sum(x, 1, out=scale)
"""
RETURNED = "    return out, scale\n"


def op(body: str, more: str = "", head: str = "") -> str:
    """A module with one op of two buffers."""
    return (
        HEADER
        + (head or '@torch.library.custom_op("demo::norm", mutates_args=("out", "scale"))\n')
        + "def norm(\n    x: Tensor, out: Tensor | None = None, scale: Tensor | None = None\n"
        + f") -> tuple[Tensor, Tensor]:\n{body}{more}"
    )


def calling(code: str) -> str:
    """The op with a caller."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    more = f"\n\ndef use(x: Tensor, a: Tensor, b: Tensor, m, n, args):\n{body}\n"
    return op(GUARDED + FILLED + RETURNED, more)


CALLS = [
    ("return norm(x)", "return norm(x)"),
    ("return norm(x, None, None)", "return norm(x)"),
    ("return norm(x, None)", "return norm(x)"),
    ("return norm(scale=None, x=x)", "return norm(x=x)"),
    ("return norm(x, a, b)", "return norm_out(x, out=a, scale=b)"),
    ("return norm(x, scale=b, out=a)", "return norm_out(x, scale=b, out=a)"),
    ("return norm(x, a, scale=b)[0]", "return norm_out(x, out=a, scale=b)[0]"),
    (
        "return norm(x, torch.empty(2), x.new_empty(2))",
        "return norm_out(x, out=torch.empty(2), scale=x.new_empty(2))",
    ),
    (
        "if m is not None and n is not None:\n    return norm(x, m, n)",
        "if m is not None and n is not None:\n    return norm_out(x, out=m, scale=n)",
    ),
]


@pytest.mark.parametrize(("before", "after"), CALLS)
def test_a_call_passes_all_buffers_or_none(before: str, after: str) -> None:
    text = migrated(calling(before))
    assert textwrap.dedent(text.partition("args):\n")[2]).rstrip("\n") == after


UNSURE = [
    ("return norm(x, m, n)", "whether `out` and `scale` are None is not known here"),
    ("return norm(x, m, b)", "whether `out` is None is not known here"),
    ("return norm(x, m)", "whether `out` is None is not known here"),
    ("return norm(x, a)", "gives some buffers but not `scale`"),
    ("return norm(x, None, b)", "gives some buffers but not `out`"),
    ("return norm(x, *args)", "star arguments"),
    ("return map(norm, x)", "used here as a value"),
    ("return torch.library.opcheck(norm, (x, a, b))", "is given `out` and `scale` for the op"),
]


@pytest.mark.parametrize(("code", "reason"), UNSURE)
def test_a_call_that_may_pass_some_buffers_keeps_the_op_as_it_is(code: str, reason: str) -> None:
    assert any(reason in found for found in reasons(check_noop(calling(code))))


INDEPENDENT = [
    GUARDED.replace('raise ValueError("all or none")', "pass"),
    GUARDED.replace("!=", "=="),
    (
        "    if out is None:\n        out = torch.empty_like(x)\n"
        "    if scale is None:\n        scale = x.new_empty(x.shape[0])\n"
    ),
    (
        "    if out is None and scale is None:\n        out = torch.empty_like(x)\n"
        "        scale = x.new_empty(x.shape[0])\n"
    ),
    (
        "    if out is None:\n        if scale is not None:\n            raise ValueError\n"
        "        out = torch.empty_like(x)\n        scale = x.new_empty(x.shape[0])\n"
        "    if scale is None:\n        scale = x.new_empty(x.shape[0])\n"
    ),
    "    try:\n" + textwrap.indent(GUARDED, "    ") + "    except ValueError:\n"
    "        out, scale = torch.empty_like(x), x.new_empty(x.shape[0])\n",
    GUARDED.replace("raise ValueError", "warn"),
    GUARDED.replace("if (out", "if x.sum() > 0 and (out"),
]


@pytest.mark.parametrize("head", INDEPENDENT)
def test_buffers_that_may_be_given_one_by_one_are_reported_one_by_one(head: str) -> None:
    migration = check_noop(op(head + FILLED + RETURNED))
    found = [f for f in migration.findings if f.code == "OPS101"]
    assert len(found) == 2
    assert all("may be omitted independently of" in f.message for f in found)
    assert all("raise where it is given only some of them" in f.remedy for f in found)


UNSOUND = [
    (GUARDED + FILLED + "    return out, scale, x.sum()\n", "something other than these"),
    (GUARDED + FILLED + "    return [out, scale]\n", "something other than these"),
    (GUARDED + FILLED + "    return out.view(-1), scale\n", "something other than these"),
    (
        GUARDED + FILLED + "    if x.dim() == 2:\n        return out, scale\n"
        "    return scale, out\n",
        "in one order",
    ),
    (GUARDED + "    out.add_(x)\n    torch.sum(x, 1, out=scale)\n" + RETURNED, "held before"),
    (
        GUARDED.replace("x.new_empty(x.shape[0])", "out")
        + "    out.copy_(x)\n    scale.copy_(x)\n" + RETURNED,
        "did not allocate in sight",
    ),
    (GUARDED + "    out.resize_(x.shape)\n" + FILLED + RETURNED, "shape or storage"),
    (
        GUARDED.replace("torch.empty_like(x)", "torch.zeros_like(x)")
        + "    out[0] = 1\n    torch.sum(x, 1, out=scale)\n" + RETURNED,
        "keep what they held",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), UNSOUND)
def test_a_kernel_whose_halves_would_not_be_sound_stays_and_says_why(
    body: str, reason: str
) -> None:
    migration = check_noop(op(body))
    found = [f.message for f in migration.findings if f.code == "OPS101"]
    assert found
    assert any(reason in message for message in found), found


ATTACHED = [
    ("\n\n@norm.register_vmap\ndef _(info, in_dims, x, out=None, scale=None):\n"
    "    return norm(x), (0, 0)\n"),
    ("\n\ndef _setup(ctx, inputs, output):\n    x, out, scale = inputs\n\n\n"
    "def _bwd(ctx, a, b):\n    return a, None, None\n\n\n"
    "norm.register_autograd(_bwd, setup_context=_setup)\n"),
    "\n\n@norm.register_kernel('cuda')\ndef _(x, out=None, scale=None):\n" + GUARDED + FILLED
    + RETURNED,
]  # fmt: skip


@pytest.mark.parametrize("more", ATTACHED)
def test_what_is_attached_beside_a_fake_kernel_keeps_the_op_as_it_is(more: str) -> None:
    migration = check_noop(op(GUARDED + FILLED + RETURNED, more))
    assert any("is attached to the op" in reason for reason in reasons(migration))


def test_what_it_mutates_besides_is_declared_before_it_is_split() -> None:
    after = migrated(op(GUARDED + FILLED + "    x.add_(1)\n" + RETURNED))
    assert '"demo::norm", mutates_args=("x",)' in after
    assert '"demo::norm_out", mutates_args=("x", "out", "scale")' in after
    assert ") -> None:" in after


def test_there_is_one_finding_for_all_buffers_of_an_op(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(op(GUARDED + FILLED + RETURNED))
    migration = run(tmp_path.resolve())
    assert [plan.does for plan in migration.plans] == ["split into demo::norm and demo::norm_out"]
    (step,) = migration.steps
    assert [intent.buffers for intent in step.intents] == [("out", "scale")]  # type: ignore


def test_an_op_that_mutates_more_fills_its_buffers_and_returns_nothing() -> None:
    head = '@torch.library.custom_op("demo::norm", mutates_args=("ws", "out", "scale"))\n'
    text = op(GUARDED + "    ws.add_(1)\n" + FILLED + RETURNED, head=head)
    after = migrated(text.replace("x: Tensor, out", "x: Tensor, ws: Tensor, out"))
    assert '"demo::norm", mutates_args=("ws",)' in after
    assert '"demo::norm_out", mutates_args=("ws", "out", "scale")' in after
    assert "x: Tensor, ws: Tensor, out: Tensor, scale: Tensor\n) -> None:" in after


def test_a_triton_op_fills_its_buffers_and_returns_nothing() -> None:
    head = '@torch.library.triton_op("demo::norm", mutates_args=("out", "scale"))\n'
    after = migrated(op(GUARDED + FILLED + RETURNED, head=head))
    assert "x: Tensor, out: Tensor, scale: Tensor\n) -> None:" in after
    assert "Tag.out" not in after


def test_a_registration_by_schema_names_the_buffers_in_the_order_of_the_results() -> None:
    head = (
        '@torch.library.custom_op(\n    "demo::norm",\n    mutates_args=("out", "scale"),\n'
        '    schema="(Tensor x, Tensor(a!)? out=None, Tensor(b!)? scale=None)'
        ' -> (Tensor, Tensor)",\n)\n'
    )
    after = migrated(op(GUARDED + FILLED + "    return scale, out\n", head=head))
    assert 'schema="(Tensor x) -> (Tensor, Tensor)"' in after
    assert (
        'schema="(Tensor x, *, Tensor(a1!) scale, Tensor(a2!) out) -> (Tensor(a1!), Tensor(a2!))"'
    ) in after


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["custom_op", "triton_op"])
def test_tests_that_are_written_try_the_buffers_in_their_order(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    head = f'@torch.library.{kind}("{kind}::norm", mutates_args=("out", "scale"))\n'
    body = GUARDED + FILLED + "    return scale, out\n"
    (tmp_path / "ops.py").write_text(op(body, head=head))
    answer = cli("migrate", tmp_path, "--root", tmp_path, "--write", "--tests", tmp_path / "t")
    assert answer.code == 0, answer.err
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "t"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout

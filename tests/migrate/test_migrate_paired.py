"""Ops with several buffers that are given together or not at all."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from migrating import HEADER, apply, python, run

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
    number = 0
    for style, form in itertools.product(STYLES, FORMS):
        number += 1
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

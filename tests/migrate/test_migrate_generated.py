"""Programs put together from the ways to write a maybe-out op: each is split and runs."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from migrating import python, run

RUNNER = Path(__file__).with_name("run_generated.py")

# How the kernel finds its memory; {b} is the buffer, {d} what is written and returned.
IDIOMS = {
    "if block": ("{b}", "if {b} is None:\n    {b} = torch.empty_like(x)"),
    "if not None": ("memory", "if {b} is not None:\n    memory = {b}\nelse:\n    memory = {a}"),
    "ternary": ("{b}", "{b} = {b} if {b} is not None else {a}"),
    "inverted": ("{b}", "{b} = {a} if {b} is None else {b}"),
    "new name": ("memory", "memory = {b} if {b} is not None else {a}"),
    "new name inverted": ("memory", "memory = {a} if {b} is None else {b}"),
    "validated": (
        "{b}",
        'if {b} is None:\n    {b} = {a}\nelif {b}.shape != x.shape:\n    raise ValueError("shape")',
    ),
}
ALLOCATIONS = (
    "torch.empty_like(x)",
    "x.new_empty(x.shape)",
    "torch.zeros(*x.shape, dtype=x.dtype)",
)
WORK = {
    "out=": ["torch.mul(x, k, out={d})", "{d}.add_(1)", "return {d}"],
    "returned": ["return torch.add(x * k, 1, out={d})"],
    "copied": ["{d}.copy_(x * k)", "{d} += 1", "return {d}"],
    "long": [
        "rows = x * k",
        "if rows.dim() == 0:",
        '    raise ValueError("0-d")',
        "rows = rows + 1",
        "{d}.copy_(rows)",
        "return {d}",
    ],
}
POSITIONS = ("last", "middle", "first")
ANNOTATIONS = (
    "Optional[Tensor] = None",
    "Tensor | None = None",
    '"Optional[Tensor]" = None',
    '"torch.Tensor | None" = None',
    "Union[None, torch.Tensor] = None",
    "Tensor = None",
)
DECLARED = ('mutates_args=("{b}",)', 'mutates_args=["{b}"]', 'mutates_args={{"{b}"}}',
            "mutates_args=()", "mutates_args=[]")  # fmt: skip
BUFFERS = ("out", "dst", "y_out", "_result")
FAKES = ("none", "decorator", "by name", "call", "lambda", "other names")
CALLS = ("name", "torch.ops", "default", "module attribute", "keywords", "alias")

AXES = (IDIOMS, ALLOCATIONS, WORK, POSITIONS, ANNOTATIONS, DECLARED, BUFFERS, FAKES, CALLS)


def chosen(number: int) -> list[tuple[Any, ...]]:
    """Combinations that hold every pair of values of two axes, and more up to a number."""
    pick = random.Random(20260101)
    axes = [list(axis) for axis in AXES]
    missing = {
        (i, a, j, b)
        for i, j in itertools.combinations(range(len(axes)), 2)
        for a in range(len(axes[i]))
        for b in range(len(axes[j]))
    }
    found: list[tuple[int, ...]] = []
    while missing or len(found) < number:
        tried = [tuple(pick.randrange(len(axis)) for axis in axes) for _ in range(30)]
        best = max(tried, key=lambda t: len(pairs(t) & missing))
        missing -= pairs(best)
        found.append(best)
    return [tuple(axis[at] for axis, at in zip(axes, one, strict=True)) for one in found]


def pairs(one: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
    return {(i, one[i], j, one[j]) for i, j in itertools.combinations(range(len(one)), 2)}


def program(index: int, combination: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """One combination: what is to be checked, and its files."""
    idiom, allocation, work, position, annotation, declared, buffer, fake, call = combination
    memory, prologue = IDIOMS[idiom]
    words = {"b": buffer, "a": allocation, "d": memory.format(b=buffer)}
    optional = f"{buffer}: {annotation}"
    if position == "last":
        params = f"x: Tensor, k: float = 3.0, {optional}"
    elif position == "middle":
        params = f"x: Tensor, {optional}, k: float = 3.0"
    else:
        # Without a default, only the annotation says that None may be passed.
        type_ = "Optional[Tensor]" if annotation == "Tensor = None" else annotation
        params = f"{buffer}: {type_.removesuffix(' = None')}, x: Tensor, k: float = 3.0"
    names = {
        "last": ["x", "k", buffer],
        "middle": ["x", buffer, "k"],
        "first": [buffer, "x", "k"],
    }[position]
    op = f"made::op_{index}"
    lines = "\n".join([prologue, *WORK[work]]).format(**words).split("\n")
    text = "from typing import Optional, Union\n\nimport torch\nfrom torch import Tensor\n\n\n"
    text += f'@torch.library.custom_op("{op}", {declared.format(**words)})\n'
    text += f"def op_{index}({params}) -> Tensor:\n"
    text += "".join(f"    {line}\n" for line in lines)
    text += fake_of(fake, index, op, names, buffer)
    module, callers = f"made_{index}", ""
    target = {
        "torch.ops": f"torch.ops.made.op_{index}",
        "default": f"torch.ops.made.op_{index}.default",
        "alias": "run",
        "module attribute": f"{module}.op_{index}",
    }.get(call, f"op_{index}")
    imports = {
        "alias": f"from {module} import op_{index} as run\n",
        "module attribute": f"import {module}\n",
    }.get(call, f"from {module} import op_{index}\n")
    callers = f"import torch\nfrom torch import Tensor\n\n{imports}\n\n"
    none, given = calls(call, position, buffer, target)
    callers += f"def fresh(x):\n    return {none}\n\n\n"
    callers += f"def into(x: Tensor, buf: Tensor) -> Tensor:\n    return {given}\n\n\n"
    callers += f"def either(x, buf=None):\n    return {given}\n"
    spec = {"module": f"call_{index}", "op": op, "buffer": buffer, "factor": 3.0}
    return spec, {f"{module}.py": text, f"call_{index}.py": callers}


def calls(form: str, position: str, buffer: str, target: str) -> tuple[str, str]:
    """A call without and a call with a buffer."""
    if form == "keywords":
        none = f"{target}(x=x, {buffer}=None)"
        return none, f"{target}({buffer}=buf, k=3.0, x=x)"
    if position == "last":
        return f"{target}(x, 3.0)", f"{target}(x, 3.0, buf)"
    if position == "middle":
        return f"{target}(x, None, 3.0)", f"{target}(x, buf, 3.0)"
    return f"{target}(None, x)", f"{target}(buf, x)"


def fake_of(form: str, index: int, op: str, names: list[str], buffer: str) -> str:
    own = [f"arg_{n}" for n in names] if form == "other names" else names
    x, b = own[names.index("x")], own[names.index(buffer)]
    parameters = ", ".join(n if n in {x, b} and n == own[0] else f"{n}=None" for n in own)
    body = f"return torch.empty_like({x}) if {b} is None else {b}"
    if form == "none":
        return ""
    if form == "lambda":
        return f"\n\nop_{index}.register_fake(lambda {parameters}: torch.empty_like({x}))\n"
    function = f"def fake_{index}({parameters}):\n    {body}\n"
    if form == "call":
        return f"\n\n{function}\n\nop_{index}.register_fake(fake_{index})\n"
    if form == "by name":
        return f'\n\n@torch.library.register_fake("{op}")\n{function}'
    return f"\n\n@op_{index}.register_fake\n{function}"


@pytest.mark.torch
@pytest.mark.slow
def test_generated_programs_are_split_and_keep_their_promises(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    specs, files = [], {}
    for index, combination in enumerate(chosen(100)):
        spec, texts = program(index, combination)
        specs.append({**spec, "combination": combination})
        files |= texts
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    migration = run(tmp_path)
    assert migration.findings == []
    assert migration.notes == []
    assert {plan.op for plan in migration.plans} == {spec["op"] for spec in specs}
    for path, (_, new) in migration.changes.items():
        path.write_bytes(new)
    again = run(tmp_path)
    assert again.changes == {}
    assert again.findings == []
    (tmp_path / "specs.json").write_text(json.dumps(specs), "utf-8")
    faults = json.loads(python(RUNNER, tmp_path).splitlines()[-1])
    told = [
        f"{spec['combination']}\n{(tmp_path / (spec['module'] + '.py')).read_text('utf-8')}\n"
        f"{(tmp_path / (spec['module'].replace('call', 'made') + '.py')).read_text('utf-8')}\n"
        f"{faults[spec['module']]}"
        for spec in specs
        if spec["module"] in faults
    ]
    assert not faults, "\n".join([f"{len(faults)} of {len(specs)} fail", *told[:3]])

"""Programs put together from the ways to register a maybe-out op: each is split and runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from migrating import python, run

RUNNER = Path(__file__).with_name("run_generated.py")
HEAD = "from typing import Optional\n\nimport torch\nfrom torch import Tensor\n\n"

# How the kernel finds its memory, and what it writes and returns.
BODIES = {
    "block": "if {b} is None:\n    {b} = torch.empty_like(x)\n{w}torch.mul(x, k, out={b}).add_(1)\n"
    "return {b}\n",
    "ternary": "y = {b} if {b} is not None else x.new_empty(x.shape)\n{w}y.copy_(x * k + 1)\n"
    "return y\n",
    "returned": "if {b} is None:\n    {b} = torch.empty_like(x)\n{w}"
    "return torch.add(x * k, 1, out={b})\n",
    "early": "if k == 0:\n    if {b} is None:\n        return torch.ones_like(x)\n"
    "    return {b}.fill_(1)\n"
    "if {b} is None:\n    {b} = torch.empty_like(x)\n{w}{b}.copy_(x * k + 1)\nreturn {b}\n",
}
ANNOTATIONS = ("Optional[Tensor]", "Tensor | None", '"Optional[torch.Tensor]"')
POSITIONS = ("last", "middle")
BUFFERS = ("out", "dst")
FAKES = (False, True)
CALLS = ("returned", "assigned", "keyword", "in a branch")


def parameters(position: str, buffer: str, annotation: str, more: str) -> str:
    optional = f"{buffer}: {annotation} = None"
    parts = [f"x: Tensor{more}", "k: float = 3.0", optional]
    return ", ".join([parts[0], parts[2], parts[1]] if position == "middle" else parts)


def schema(position: str, buffer: str, more: str) -> str:
    parts = [f"Tensor x{more}", "float k=3.0", f"Tensor(z!)? {buffer}=None"]
    return ", ".join([parts[0], parts[2], parts[1]] if position == "middle" else parts)


def function(name: str, params: str, body: str) -> str:
    return f"def {name}({params}) -> Tensor:\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )


# Each gives the text of a module for the op ``made::f_N``: {n} is its number, {p} the parameters,
# {f} the function as a kernel named {name}, {s} the parameters of the schema, {m} what it mutates.
FORMS: dict[str, str] = {
    "decorator": '@torch.library.custom_op("made::f_{n}", mutates_args={m})\n{f}',
    "call": '{f}\n\nf_{n} = torch.library.custom_op("made::f_{n}", _f_{n}, mutates_args={m})\n',
    "curried": '{f}\n\nf_{n} = torch.library.custom_op("made::f_{n}", mutates_args={m})(_f_{n})\n',
    "shared kernel": '{f}\n\nf_{n} = torch.library.custom_op("made::f_{n}", _f_{n}, '
    "mutates_args={m})\n\n\ndef plain(x):\n    return _f_{n}(x, k=2.0)\n",
    "triton_op": '@torch.library.triton_op("made::f_{n}", mutates_args={m})\n{f}',
    "Library": 'lib = torch.library.Library("made", "FRAGMENT")\nlib.define("f_{n}({s}) -> Tensor")'
    '\n\n\n{f}\n\nlib.impl("f_{n}", _f_{n}, "CPU")\n',
    "Library, two keys": 'lib = torch.library.Library("made", "FRAGMENT")\n'
    'lib.define("f_{n}({s}) -> Tensor")\n\n\n{f}\n\n'
    'for key in ("CPU", "CUDA"):\n    lib.impl("f_{n}", _f_{n}, key)\n',
    "Library decorator": 'lib = torch.library.Library("made", "FRAGMENT")\n'
    'lib.define("f_{n}({s}) -> Tensor")\n\n\n@torch.library.impl(lib, "f_{n}", "CPU")\n{f}',
    "define": 'torch.library.define("made::f_{n}", "({s}) -> Tensor")\n\n\n{f}\n\n'
    'torch.library.impl("made::f_{n}", "cpu", _f_{n})\n',
    "define decorator": 'torch.library.define("made::f_{n}", "({s}) -> Tensor")\n\n\n'
    '@torch.library.impl("made::f_{n}", "cpu")\n{f}',
    "helper": 'lib = torch.library.Library("made", "FRAGMENT")\n\n\n'
    "def direct_register(op_name, op_func, mutates_args, fake_impl=None):\n"
    "    text = torch.library.infer_schema(op_func, mutates_args=mutates_args)\n"
    '    lib.define(op_name + text)\n    lib.impl(op_name, op_func, "CPU")\n'
    "    if fake_impl is not None:\n        lib._register_fake(op_name, fake_impl)\n\n\n"
    '{f}\n\ndirect_register(op_name="f_{n}", op_func=_f_{n}, mutates_args={m})\n',
    "helper decorator": "def register(name, *, mutates_args):\n    def put(fn):\n"
    '        return torch.library.custom_op("made::" + name, fn, mutates_args=mutates_args)\n\n'
    '    return put\n\n\n@register("f_{n}", mutates_args={m})\n{f}',
    "fallback": 'if hasattr(torch.library, "custom_op"):\n'
    "    deco = torch.library.custom_op\nelse:\n"
    "\n    def deco(name, *, mutates_args):\n        return lambda f: f\n\n\n"
    '@deco("made::f_{n}", mutates_args={m})\n{f}',
    "workspace": '@torch.library.custom_op("made::f_{n}", mutates_args={m})\n{f}',
}
NAMED = {"decorator", "call", "curried", "shared kernel", "triton_op", "fallback", "workspace"}
DECORATED = {"decorator", "triton_op", "helper decorator", "fallback", "workspace"}
OUT = {"decorator", "call", "curried", "shared kernel"}


def program(index: int, combination: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    form, body, annotation, position, buffer, fake, call = combination
    workspace = form == "workspace"
    more = (", ws: Tensor", ", Tensor ws") if workspace else ("", "")
    text = BODIES[body].format(b=buffer, w="ws.fill_(k)\n" if workspace else "")
    params = parameters(position, buffer, annotation, more[0])
    name = f"f_{index}" if form in DECORATED else f"_f_{index}"
    mutated = ["ws", buffer] if workspace else [buffer]
    module = HEAD + "\n" + FORMS[form].format(
        n=index,
        f=function(name, params, text),
        s=schema(position, buffer, more[1]),
        m=json.dumps(mutated),
    )  # fmt: skip
    if fake:
        own = params.replace(f": {annotation}", "").replace(": Tensor", "").replace(": float", "")
        module += f'\n\n@torch.library.register_fake("made::f_{index}")\ndef fake_{index}({own}):\n'
        module += f"    return torch.empty_like(x) if {buffer} is None else {buffer}\n"
    target = f"f_{index}" if form in NAMED and index % 2 else f"torch.ops.made.f_{index}"
    head = "import torch\nfrom torch import Tensor\n\n"
    head += (
        f"from made_{index} import f_{index}\n" if target[0] == "f" else f"import made_{index}\n"
    )
    ws = ", torch.empty(2)" if workspace else ""
    args = f"x{ws}, buf, 3.0" if position == "middle" else f"x{ws}, 3.0, buf"
    args = f"x{ws}, {buffer}=buf" if call == "keyword" else args
    lines = {
        "returned": f"    return {target}({args})\n",
        "keyword": f"    return {target}({args})\n",
        "assigned": f"    y = {target}({args})\n    return y\n",
        "in a branch": f"    if x.dim():\n        y = {target}({args})\n        return y\n",
    }[call]
    callers = f"{head}\n\ndef fresh(x):\n    return {target}(x{ws})\n\n\n"
    callers += f"def into(x: Tensor, buf: Tensor) -> Tensor:\n{lines}\n\n"
    callers += f"def either(x, buf=None):\n{lines}"
    spec = {
        "module": f"call_{index}",
        "op": f"made::f_{index}",
        "buffer": buffer,
        "factor": 3.0,
        "into": form not in OUT,
        "workspace": workspace,
    }
    return spec, {f"made_{index}.py": module, f"call_{index}.py": callers}


def chosen() -> list[tuple[Any, ...]]:
    """Every form with every body; the other axes take turns."""
    axes = (ANNOTATIONS, POSITIONS, BUFFERS, FAKES, CALLS)
    found = []
    for number, (form, body) in enumerate(itertools.product(FORMS, BODIES)):
        rest = tuple(axis[(number // (1 + at)) % len(axis)] for at, axis in enumerate(axes))
        found.append((form, body, *rest))
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_every_form_is_split_and_keeps_its_promises(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    specs, files = [], {}
    for index, combination in enumerate(chosen()):
        spec, texts = program(index, combination)
        specs.append({**spec, "combination": combination})
        files |= texts
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    migration = run(tmp_path)
    told = [f"{f.position.path.name}:{f.position.line}: {f.message}" for f in migration.findings]
    assert not told, "\n".join(told)
    for path, (_, new) in migration.changes.items():
        path.write_bytes(new)
    again = run(tmp_path)
    assert (again.changes, again.findings) == ({}, [])
    (tmp_path / "specs.json").write_text(json.dumps(specs), "utf-8")
    faults = json.loads(python(RUNNER, tmp_path).splitlines()[-1])
    shown = [
        f"{spec['combination']}\n"
        f"{(tmp_path / (spec['module'].replace('call', 'made') + '.py')).read_text('utf-8')}\n"
        f"{(tmp_path / (spec['module'] + '.py')).read_text('utf-8')}\n{faults[spec['module']]}"
        for spec in specs
        if spec["module"] in faults
    ]
    assert not faults, "\n".join([f"{len(faults)} of {len(specs)} fail", *shown[:3]])

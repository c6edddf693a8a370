"""An op with an in-place flag becomes a functional and an in-place one, and its callers follow."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from migrating import (
    HEADER,
    apply,
    check_migrated,
    check_noop,
    cli,
    migrate_files,
    migrated,
    python,
    reasons,
    run,
    write,
)

RUNNER = Path(__file__).with_name("run_inplace_flags.py")

# How a kernel chooses its memory by the flag {f}; {on} and {off} are what it is in either case.
SPELLINGS = {
    "ternary": "out = x if {on} else torch.empty_like(x)\n"
    "torch.where(x > 0, x, x * slope, out=out)\nreturn out",
    "inverted ternary": "out = torch.empty_like(x) if {off} else x\n"
    "torch.where(x > 0, x, x * slope, out=out)\nreturn out",
    "if and else": "if {on}:\n    out = x\nelse:\n    out = x.new_empty(x.shape)\n"
    "out.copy_(torch.where(x > 0, x, x * slope))\nreturn out",
    "clone": "if {off}:\n    x = x.clone()\nx.copy_(torch.where(x > 0, x, x * slope))\nreturn x",
    "clone in a ternary": "x = x if {on} else x.clone()\nx[x < 0] *= slope\nreturn x",
    "early return": "rows = torch.where(x > 0, x, x * slope)\n"
    "if {on}:\n    return x.copy_(rows)\nreturn rows",
    "late return": "rows = torch.where(x > 0, x, x * slope)\n"
    "if {off}:\n    return rows\nx.copy_(rows)\nreturn x",
    "shared work": "out = x if {on} else torch.empty_like(x)\n"
    "small = x * slope\nlarge = x > 0\nif small.dim() > 9:\n    raise ValueError('dim')\n"
    "out.copy_(torch.where(large, x, small))\nreturn out",
    "handed on": "return F.leaky_relu(x, slope, {on})",
    "another name": "fresh = {off}\nif fresh:\n    x = x.clone()\n"
    "x.copy_(torch.where(x > 0, x, x * slope))\nreturn x",
    "helper": "return _work(x, slope, {on})",
    "checked": "if {on} and x.requires_grad:\n    raise ValueError('leaf')\n"
    "out = x if {on} else x.clone()\nreturn F.leaky_relu_(out, slope)",
}
# The flag's name, its value that works in place, and its default.
FLAGS = (
    ("inplace", True, False),
    ("in_place", True, None),
    ("copy", False, True),
    ("overwrite", True, True),
    ("inplace_", True, False),
    ("keep", False, None),
    ("fast", True, False),
    ("out_of_place", False, False),
)
DECLARED = ('mutates_args=("x",)', "mutates_args=()", "mutates_args=[]", 'mutates_args={"x"}')
TESTS = {True: ("{f}", "not {f}"), False: ("not {f}", "{f}")}
COMPARED = {True: ("{f} is True", "{f} == False"), False: ("{f} is False", "{f} != False")}
FAKES = ("none", "decorator", "by name", "lambda", "same for both")
FORMS = ("decorator", "call", "first last", "library", "triton", "schema")

HEAD = '''\
"""An op."""

import torch
import torch.nn.functional as F
from torch import Tensor
'''

HELPER = """

def _work(x, slope, write):
    out = x if write else torch.empty_like(x)
    return torch.where(x > 0, x, x * slope, out=out)
"""

CALLERS = """

class Config:
    flag = None


def fresh(x):
    return {op}({fresh})


def into(x):
    return {op}({into})


def either(x, flag):
    y = {op}({either})
    return y


def keyword(x, flag):
    return {torch_op}({keyword})


def attribute(x, flag):
    config = Config()
    config.flag = flag
    y = {op}({attribute})
    return y


def unused(x):
    {op}({into})


def unused_fresh(x):
    {op}({fresh})


def unused_either(x, flag):
    {op}({either})


def nested(x):
    return torch.add({op}({into}).where(x > 0, x * 0.5), 1)


def once(x, seen):
    def flag():
        seen.append({when})
        return {when}

    value = {op}({once})
    return value
"""


def program(number: int, spelling: str, flag: tuple[str, bool, bool | None]) -> tuple[str, Any]:
    """A module with one op and its callers, and what is to be held of it once it is migrated."""
    name, when, default = flag
    form = FORMS[number % len(FORMS)]
    form = "decorator" if form in ("library", "schema") and default is None else form
    on, off = (COMPARED if number % 4 == 3 else TESTS)[when]
    first = form != "first last"
    body = SPELLINGS[spelling].format(on=on.format(f=name), off=off.format(f=name))
    op = f"flags::op{number}"
    given = f"{name}: bool" + ("" if default is None else f" = {default}")
    order = ["x: Tensor", "slope: float", given] if first else ["slope: float", "x: Tensor", given]
    declared = DECLARED[number % len(DECLARED)]
    kernel = f"def act({', '.join(order)}) -> Tensor:\n{textwrap.indent(body, '    ')}\n"
    lines = HEAD + HELPER + "\n\n"
    called = "act"
    bare = ", ".join(p.partition(":")[0] for p in order)
    match form:
        case "library":
            lines += 'lib = torch.library.Library("flags", "FRAGMENT")\n'
            schema = f"op{number}(Tensor x, float slope, bool {name}={default}) -> Tensor"
            lines += f'lib.define("{schema}")\n'
            lines += f"\n\n{kernel}\n\n"
            lines += f'lib.impl("op{number}", act, "CompositeExplicitAutograd")\n'
            called = f"torch.ops.flags.op{number}"
        case "call":
            lines += (
                f'{kernel}\n\nact = torch.library.custom_op("{op}", act, {declared})\n'.replace(
                    "def act(", "def _act("
                ).replace(", act, ", ", _act, ")
            )
        case "triton":
            lines += f'@torch.library.triton_op("{op}", {declared})\n{kernel}'
        case "schema":
            marked = "Tensor(a!)" if '"x"' in declared else "Tensor"
            lines += f'@torch.library.custom_op(\n    "{op}",\n    {declared},\n'
            lines += (
                f'    schema="({marked} x, float slope, bool {name}={default}) -> Tensor",\n)\n'
            )
            lines += kernel
        case _:
            lines += f'@torch.library.custom_op("{op}", {declared})\n{kernel}'
    fake = FAKES[number % len(FAKES)]
    choice = f"x if {on.format(f=name)} else torch.empty_like(x)"
    if form in ("decorator", "first last", "call", "schema"):
        lines += {
            "none": "",
            "decorator": f"\n\n@act.register_fake\ndef _({bare}):\n    return {choice}\n",
            "by name": f'\n\n@torch.library.register_fake("{op}")\ndef _meta({bare}):\n'
            f"    if {on.format(f=name)}:\n        return x\n    return x.new_empty(x.shape)\n",
            "lambda": f"\n\nact.register_fake(lambda {bare}: torch.empty_like(x))\n",
            "same for both": f"\n\n@act.register_fake\ndef _({bare}):\n"
            "    return torch.empty_like(x)\n",
        }[fake]
    elif form == "library":
        lines += f'\n\n@torch.library.register_fake("{op}")\ndef _({bare}):\n    return {choice}\n'

    def call(value: str, *, keyword: bool = False) -> str:
        values = ["x", "0.5"] if first else ["0.5", "x"]
        return ", ".join([*values, f"{name}={value}" if keyword else value])

    lines += CALLERS.format(
        op=called,
        torch_op=f"torch.ops.flags.op{number}",
        fresh=call(str(not when), keyword=number % 2 == 0),
        into=call(str(when), keyword=number % 2 == 1),
        either=call("flag", keyword=number % 2 == 0),
        keyword=call("flag", keyword=True),
        attribute=call("config.flag", keyword=True),
        once=call("flag()"),
        when=when,
    )
    if default is not None:
        values = "x, 0.5" if first else "0.5, x"
        lines += f"\n\nOMITTED = {default}\n\n\ndef omitted(x):\n    return {called}({values})\n"
        lines += (
            f"\n\ndef omitted_op(x):\n    return torch.ops.flags.op{number}.default({values})\n"
        )
    void = form in ("library", "triton", "first last")
    spec = {"op": op, "flag": name, "when": when, "void": void, "first": first}
    return lines, spec


PROGRAMS = [
    (f"flags{number}", *program(number, spelling, flag))
    for number, (spelling, flag) in enumerate(
        (spelling, flag)
        for i, spelling in enumerate(SPELLINGS)
        for j, flag in enumerate(FLAGS)
        if (i + j) % 2 == 0
    )
]


@pytest.mark.torch
def test_every_spelling_becomes_two_ops_that_keep_their_contracts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    specs = []
    for name, source, spec in PROGRAMS:
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        specs.append(spec | {"module": name})
    first = run(tmp_path)
    assert len(PROGRAMS) >= 40
    assert [f.message for f in first.findings if f.code == "OPS103"] == []
    assert {p.op for p in first.plans} == {spec["op"] for spec in specs}
    apply(first)
    again = run(tmp_path)
    assert again.changes == {}
    (tmp_path / "specs.json").write_text(json.dumps(specs), "utf-8")
    faults = json.loads(python(RUNNER, tmp_path).splitlines()[-1])
    assert faults == {}, next(iter(faults.values()))


ACT = (
    HEADER
    + """\
@torch.library.custom_op("demo::act", mutates_args=("x",))
def act(x: Tensor, slope: float = 0.1, inplace: bool = False) -> Tensor:
    out = x if inplace else torch.empty_like(x)
    torch.where(x > 0, x, x * slope, out=out)
    return out
"""
)


def body(lines: str, head: str = "x: Tensor, slope: float = 0.1, inplace: bool = False") -> str:
    kernel = f"def act({head}) -> Tensor:\n{textwrap.indent(lines, '    ')}\n"
    return f'{HEADER}@torch.library.custom_op("demo::act", mutates_args=())\n{kernel}'


def test_comments_docstrings_and_what_stands_around_stay() -> None:
    check_migrated(
        HEADER
        + '''\
# Leaky, in two ways.
@torch.library.custom_op("demo::act", mutates_args=["x"])
def act(
    x: Tensor,
    slope: float = 0.1,  # of what is below zero
    inplace: bool = False,
) -> Tensor:
    """Leaky.

    Args:
        x: the input.
        inplace: write to ``x``.
    """
    # where it goes
    out = x if inplace else torch.empty_like(x)
    return torch.where(x > 0, x, x * slope, out=out)  # the work


@act.register_fake
def _(x, slope=0.1, inplace=False):
    return x if inplace else torch.empty_like(x)


def use(x, flag):
    # keeps
    y = act(x, inplace=flag)  # or not
    return y, act(x, 0.2, True)
''',
        HEADER
        + '''\
# Leaky, in two ways.
@torch.library.custom_op("demo::act", mutates_args=[])
def act(
    x: Tensor,
    slope: float = 0.1,  # of what is below zero
) -> Tensor:
    """Leaky.

    Args:
        x: the input.
    """
    # where it goes
    out = torch.empty_like(x)
    return torch.where(x > 0, x, x * slope, out=out)  # the work


@torch.library.custom_op("demo::act_", mutates_args=["x"], tags=torch.Tag.inplace)
def act_(
    x: Tensor,
    slope: float = 0.1,  # of what is below zero
) -> Tensor:
    """Leaky.

    Args:
        x: the input.
    """
    # where it goes
    out = x
    return torch.where(x > 0, x, x * slope, out=out)  # the work


@act.register_fake
def _(x, slope=0.1):
    return torch.empty_like(x)


def use(x, flag):
    # keeps
    y = act_(x) if flag else act(x)  # or not
    return y, act_(x, 0.2)
''',
    )


def test_an_op_that_returns_nothing_leaves_its_argument_as_the_value() -> None:
    before = (
        HEADER
        + """\
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("act(Tensor x, bool keep=True) -> Tensor")


def act(x, keep=True):
    return x * 2 if keep else x.mul_(2)


lib.impl("act", act, "CPU")


@torch.library.register_fake("demo::act")
def _(x, keep=True):
    return torch.empty_like(x)


def use(x, keep):
    torch.ops.demo.act(x, keep)
    y = torch.ops.demo.act(x, False)
    z = torch.ops.demo.act(x)
    return y, z, torch.ops.demo.act(x, keep=False)
"""
    )
    after = migrated(before)
    assert 'lib.define("act(Tensor x) -> Tensor")' in after
    assert 'lib.define("act_(Tensor(a0!) x) -> ()")' in after
    assert (
        after.partition("def use(")[2]
        == """\
x, keep):
    if keep:
        torch.ops.demo.act(x)
    else:
        torch.ops.demo.act_(x)
    torch.ops.demo.act_(x)
    y = x
    z = torch.ops.demo.act(x)
    torch.ops.demo.act_(x)
    return y, z, x
"""
    )


def test_the_new_op_is_imported_wherever_the_old_one_is_called_in_place() -> None:
    files: dict[str, str | bytes] = {
        "ops.py": ACT,
        "a.py": "from ops import act\n\n\ndef f(x):\n    return act(x, inplace=True)\n",
        "b.py": "from ops import act as leaky\n\n\ndef f(x, q):\n    return leaky(x, 0.1, q)\n",
        "c.py": "import ops\n\n\ndef f(x):\n    return ops.act(x, inplace=False)\n",
        "d.py": "from ops import act\n\n\ndef f(x):\n    return act(x)\n",
    }
    after, migration = migrate_files(files)
    text = {name: data.decode() for name, data in after.items()}
    assert text["a.py"] == "from ops import act, act_\n\n\ndef f(x):\n    return act_(x)\n"
    assert "import act as leaky, act_ as leaky_" in text["b.py"]
    assert "return leaky_(x, 0.1) if q else leaky(x, 0.1)" in text["b.py"]
    assert text["c.py"].endswith("return ops.act(x)\n")
    assert text["d.py"] == files["d.py"]
    assert [plan.new_ops for plan in migration.plans] == [("demo::act", "demo::act_")]


def test_tests_of_the_op_test_the_one_they_meant() -> None:
    tests = """

torch.library.opcheck(act, (torch.ones(3), 0.1, True))
torch.library.opcheck(act, (torch.ones(3), 0.1, False))
torch.library.opcheck(act, (torch.ones(3),))
"""
    after = migrated(ACT + tests)
    assert "opcheck(act_, (torch.ones(3), 0.1))\n" in after
    assert "opcheck(act, (torch.ones(3), 0.1))\n" in after
    assert "opcheck(act, (torch.ones(3),))\n" in after


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("def act_(x):\n    return x", "the name `act_`"),
        (
            "@torch.library.custom_op('demo::act_', mutates_args=())\ndef g(x: Tensor) -> int: ...",
            "there is an op `demo::act_` already",
        ),
        ("every = [act]", "used here as a value: whoever receives it may call it with `inplace`"),
        ("def f(*a):\n    return act(*a)", "star arguments may pass `inplace` or not"),
        ("def f(g, x):\n    return act(g(x), inplace=g(1))", "change the order of evaluation"),
        (
            "@act.register_kernel('cuda')\ndef _(x, slope=0.1, inplace=False):\n    return x * 2",
            "what `inplace` decides in this kernel",
        ),
        (
            "@act.register_vmap\ndef _(info, dims, x, slope, inplace):\n    return act(x), dims[0]",
            "`register_vmap` is attached to the op",
        ),
        (
            "@act.register_fake\ndef _(x, slope=0.1, inplace=0):\n    inplace = 1\n    return x",
            "the fake kernel binds `inplace` again",
        ),
        (
            "torch.library.opcheck(act, (torch.ones(3),), {'inplace': True})",
            "is given `inplace` for the op",
        ),
        ("def f(a):\n    a = act if a else len\n    return a(1, inplace=True)", "may be one of"),
    ],
)
def test_a_use_that_cannot_be_told_keeps_the_op_as_it_is(more: str, reason: str) -> None:
    migration = check_noop(f"{ACT}\n\n{more}\n")
    assert any(reason in said for said in reasons(migration)), reasons(migration)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            body("if inplace:\n    return x.mul_(slope)\nreturn unseen(x)"),
            "it returns memory that it did not allocate in sight",
        ),
        (
            body("out = x if inplace else x.clone()\nunseen(x, out)\nreturn out").replace(
                "mutates_args=()", 'mutates_args=("x",)'
            ),
            "it goes to code out of sight, which may write to it",
        ),
        (
            body("out = x if inplace else x.clone()\ninplace = 3\nreturn out.mul_(2)"),
            "`inplace` is bound again",
        ),
        (
            body("print(locals())\nout = x if inplace else x.clone()\nreturn out.mul_(slope)"),
            "`locals` may read `inplace`",
        ),
        (
            body("out = x if inplace else x.clone()\nreturn out.mul_(2)").replace(
                "demo::act", "demo::act_"
            ),
            "ends in an underscore",
        ),
    ],
)
def test_an_op_whose_halves_would_not_be_sound_is_not_split(source: str, reason: str) -> None:
    migration = check_noop("from elsewhere import unseen\n" + source)
    assert any(reason in said for said in reasons(migration)), reasons(migration)


@pytest.mark.parametrize(
    "lines",
    [
        "y = x * slope\nif inplace:\n    x.copy_(y)\nreturn y",
        "y = x.clone() if inplace else x * 2\nreturn y.mul_(slope)",
        "return x * slope if inplace else x + slope",
    ],
    ids=["fresh in either case", "fresh memory twice", "no write"],
)
def test_a_flag_that_decides_something_else_is_left_alone(lines: str) -> None:
    _, migration = migrate_files({"ops.py": body(lines)})
    assert "OPS103" not in {f.code for f in migration.findings}
    assert all(plan.new_ops == () for plan in migration.plans)


def test_further_kernels_and_a_formula_follow() -> None:
    after = migrated(
        ACT.replace('("x",)', "()")
        + """

@act.register_kernel("cuda")
def _(x, slope=0.1, inplace=False):
    if inplace:
        return x.mul_(slope)
    return x * slope


def setup(ctx, inputs, output):
    x, slope, inplace = inputs
    ctx.save_for_backward(x)
    ctx.slope = slope


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.where(x > 0, grad, grad * ctx.slope), None, None


act.register_autograd(backward, setup_context=setup)
"""
    )
    assert '@act.register_kernel("cuda")\ndef _(x, slope=0.1):\n    return x * slope\n' in after
    assert '@act_.register_kernel("cuda")\ndef _(x, slope=0.1):\n    return x.mul_(s' in after
    assert "    x, slope = inputs\n" in after
    assert "grad * ctx.slope), None\n" in after
    assert after.count("register_autograd") == 1


def test_an_older_torch_gets_an_op_that_returns_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"ops.py": ACT + "\n\ndef f(x):\n    return act(x, inplace=True)\n"})
    answer = cli("migrate", tmp_path, "--target-torch", "2.5", "--write", "--allow-dirty")
    assert answer.code in (0, 1), answer.err
    after = (tmp_path / "ops.py").read_text("utf-8")
    assert "Tag.inplace" not in after
    assert "def act_(x: Tensor, slope: float = 0.1) -> None:\n" in after
    assert after.endswith("def f(x):\n    act_(x)\n    return x\n")


def test_the_old_name_can_be_kept_for_callers_out_of_the_tree(tmp_path: Path) -> None:
    write(tmp_path, {"ops.py": ACT})
    cli("migrate", tmp_path, "--compat", "--write", "--allow-dirty")
    after = (tmp_path / "ops.py").read_text("utf-8")
    assert after.endswith(
        "def act(x: Tensor, slope: float = 0.1, inplace: bool = False) -> Tensor:\n"
        '    """Call act_fresh, or act_ where inplace is True."""\n'
        "    if not inplace:\n"
        "        return act_fresh(x, slope)\n"
        "    return act_(x, slope)\n"
    )


def test_what_both_ops_do_is_written_once() -> None:
    after = migrated(
        body(
            "y = x if inplace else torch.zeros_like(x)\n"
            "mean = x.pow(2).mean(-1, keepdim=True)\n"
            "scale = torch.rsqrt(mean + slope)\n"
            "torch.mul(x, scale, out=y)\n"
            "return y"
        )
    )
    assert after.count("rsqrt") == 1
    assert "def _act_kernel(x: Tensor, slope: float, y: Tensor) -> None:\n" in after
    assert after.count("    _act_kernel(x, slope, y)\n    return y\n") == 2

"""Calls of an op whose mutable half returns nothing: the value they had was the buffer."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from migrating import HEADER

from opscaffold.migrate.bindings import Bindings, Syntaxes
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.rewrite_file import rewrite
from opscaffold.migrate.sites import Sites
from opscaffold.source.project import load_project

OP = (
    HEADER
    + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None, k: float = 2.0) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


"""
)
# ``b`` and ``c`` are no None, ``m`` may be; ``g`` and ``h`` are whatever can be called.
HEAD = "def f(x: Tensor, b: Tensor, c: Tensor, m, g, h, self):\n"


class Refusal(str):
    """The reason why a call cannot be rewritten."""


def planned(code: str, root: Path, into: int = 1) -> str:
    path = root.resolve() / "ops.py"
    path.write_text(OP + HEAD + textwrap.indent(textwrap.dedent(code), "    ") + "\n")
    project = load_project([path], path.parent)
    (op,), syntaxes = project.ops, Syntaxes()
    function = op.definition.function
    assert function is not None
    bindings = Bindings(project, op, "double_out", "demo::double_out", syntaxes)
    signature = replace(Signature.of(function, "out"), into=into)
    sites = Sites(project, bindings, signature, {})
    for reference in project.references(op):
        try:
            sites.plan(reference)
        except RefusalError as refusal:
            return Refusal(refusal.reason)
    module = project.module_for(path)
    assert module is not None
    text = rewrite(syntaxes.of(module), bindings.edits.get(path, FileEdits()))
    compile(text, str(path), "exec")
    return textwrap.dedent(text[text.index(HEAD) + len(HEAD) :]).rstrip("\n")


PASSED = [
    ("double(x, b)", 1, "double_out(x, b)"),
    ("double(x, b, 3.0)", 1, "double_out(x, b, 3.0)"),
    ("double(x, k=3.0, out=b)", 1, "double_out(x, b, k=3.0)"),
    ("double(out=b, x=x)", 1, "double_out(out=b, x=x)"),
    ("double(x=x, out=b)", 1, "double_out(x=x, out=b)"),
    ("double(x, b)", 0, "double_out(b, x)"),
    ("double(x, b, 3.0)", 0, "double_out(b, x, 3.0)"),
    ("double(g(), b, 3.0)", 0, "double_out(b, g(), 3.0)"),
    ("double(g(), x.mul(b), 3.0)", 0, "double_out(x=g(), out=x.mul(b), k=3.0)"),
    ("double(x, b, 3.0)", 2, "double_out(x, 3.0, b)"),
    ("double(x, b)", 2, "double_out(x, out=b)"),
    ("double(x, k=3.0, out=b)", 2, "double_out(x, k=3.0, out=b)"),
    ("double(x, b, g())", 2, "double_out(x, g(), b)"),
    ("double(x, b or c, g())", 2, "double_out(x, out=b or c, k=g())"),
    ("double(x, None)", 1, "double(x)"),
    ("double(x)", 1, "double(x)"),
]


@pytest.mark.parametrize(("before", "into", "after"), PASSED)
def test_the_buffer_takes_its_place_without_another_order_of_evaluation(
    before: str, into: int, after: str, tmp_path: Path
) -> None:
    assert planned(before, tmp_path, into) == after


VALUES = [
    ("y = double(x, b)", "double_out(x, b)\ny = b"),
    ("# up\ny = double(x, out=b)  # behind", "# up\ndouble_out(x, b)\ny = b  # behind"),
    ("b = double(x, b)", "double_out(x, b)"),
    ("b = double(x, b)  # behind", "double_out(x, b)  # behind"),
    ("_ = double(x, b)", "double_out(x, b)"),
    ("_ = double(x, b)\nprint(_)", "double_out(x, b)\n_ = b\nprint(_)"),
    ("return double(x, b)", "double_out(x, b)\nreturn b"),
    ("y: Tensor = double(x, b)", "double_out(x, b)\ny: Tensor = b"),
    ("y += double(x, b)", "double_out(x, b)\ny += b"),
    ("z = y = double(x, b)", "double_out(x, b)\nz = y = b"),
    ("x, y = double(x, b), 1", "double_out(x, b)\nx, y = b, 1"),
    ("b.foo[0] = double(x, b)", "double_out(x, b)\nb.foo[0] = b"),
    ("y = double(x, b).sum() + 1", "double_out(x, b)\ny = b.sum() + 1"),
    ("return g(double(x, b), 3)", "double_out(x, b)\nreturn g(b, 3)"),
    ("return x + double(x, b)", "double_out(x, b)\nreturn x + b"),
    ("y = (z := double(x, b))", "double_out(x, b)\ny = (z := b)"),
    ("y = double(x, b) and g", "double_out(x, b)\ny = b and g"),
    ("y = [v for v in double(x, b)]", "double_out(x, b)\ny = [v for v in b]"),
    ("print(f'{double(x, b)} {g()}')", "double_out(x, b)\nprint(f'{b} {g()}')"),
    ("assert torch.equal(double(x, b), c)", "double_out(x, b)\nassert torch.equal(b, c)"),
    ("for i in double(x, b):\n    pass", "double_out(x, b)\nfor i in b:\n    pass"),
    (
        "# up\nif double(x, b).any():\n    pass\nelif x:\n    pass",
        "# up\ndouble_out(x, b)\nif b.any():\n    pass\nelif x:\n    pass",
    ),
    ("with g(double(x, b)) as k, h:\n    pass", "double_out(x, b)\nwith g(b) as k, h:\n    pass"),
    ("y = double(double(x, b), c)", "double_out(x, b)\ndouble_out(b, c)\ny = c"),
    ("return double(x, b), double(x, c)", "double_out(x, b)\ndouble_out(x, c)\nreturn b, c"),
    ("if x: y = double(x, b)", "if x:\n    double_out(x, b)\n    y = b"),
    (
        "if x: y = double(x, b)  # why\nelse: g()",
        "if x:  # why\n    double_out(x, b)\n    y = b\nelse: g()",
    ),
    ("if x: double(x, b)", "if x: double_out(x, b)"),
    ("a = 1; y = double(x, b); d = 2  # t", "a = 1\ndouble_out(x, b)\ny = b\nd = 2  # t"),
    ("a = 1; double(x, b); d = 2", "a = 1; double_out(x, b); d = 2"),
    (
        "async def q():\n    return await g(double(x, b))",
        "async def q():\n    double_out(x, b)\n    return await g(b)",
    ),
    ("class A:\n    b = double(x, c)", "class A:\n    double_out(x, c)\n    b = c"),
    (
        "y = (\n    # note\n    double(\n        x,  # i\n        # up\n        b,  # it\n    )\n)",
        "double_out(\n    x,  # i\n    # up\n    b,  # it\n)\ny = (\n    # note\n    b\n)",
    ),
    (
        "y = g(\n    torch.ops.demo\n    .double(x, b),\n    2,\n)",
        "torch.ops.demo.double_out(x, b)\ny = g(\n    b,\n    2,\n)",
    ),
]


@pytest.mark.parametrize(("before", "after"), VALUES)
def test_the_call_is_made_first_and_its_value_is_the_buffer(
    before: str, after: str, tmp_path: Path
) -> None:
    assert planned(before, tmp_path) == after


NAMED = [
    ("y = double(x, c.T)", "buffer = c.T\ndouble_out(x, buffer)\ny = buffer"),
    (
        "y = double(x, torch.empty(3))",
        "buffer = torch.empty(3)\ndouble_out(x, buffer)\ny = buffer",
    ),
    (
        "y = double(g(), torch.empty(3))",
        "double_out(g(), (buffer := torch.empty(3)))\ny = buffer",
    ),
    ("double(x, torch.empty(3))", "double_out(x, torch.empty(3))"),
    ("y = double(x, (d := torch.empty(3)))", "double_out(x, (d := torch.empty(3)))\ny = d"),
    (
        "return double(x, c[0]), double(x, c[1])",
        (
            "buffer = c[0]\ndouble_out(x, buffer)\nout_buffer = c[1]\n"
            "double_out(x, out_buffer)\nreturn buffer, out_buffer"
        ),
    ),
]


@pytest.mark.parametrize(("before", "after"), NAMED)
def test_a_buffer_that_is_made_in_the_call_is_given_a_name(
    before: str, after: str, tmp_path: Path
) -> None:
    assert planned(before, tmp_path) == after


CHOSEN = [
    ("double(x, m)", "if m is None:\n    double(x)\nelse:\n    double_out(x, m)"),
    (
        "# up\ny = double(x, m)  # why",
        "# up\nif m is None:  # why\n    y = double(x)\nelse:\n    double_out(x, m)\n    y = m",
    ),
    (
        "return double(x, m)",
        "if m is None:\n    return double(x)\nelse:\n    double_out(x, m)\n    return m",
    ),
    (
        "y: Tensor = double(x, m)",
        "if m is None:\n    y: Tensor = double(x)\nelse:\n    double_out(x, m)\n    y = m",
    ),
    ("m = double(x, m)", "if m is None:\n    m = double(x)\nelse:\n    double_out(x, m)"),
    (
        "y = double(x, self.buf)",
        (
            "if (buffer := self.buf) is None:\n    y = double(x)\n"
            "else:\n    double_out(x, buffer)\n    y = buffer"
        ),
    ),
    (
        "if x: y = double(x, m); z = 2",
        (
            "if x:\n    if m is None:\n        y = double(x)\n    else:\n"
            "        double_out(x, m)\n        y = m\n    z = 2"
        ),
    ),
    (
        "y = double(double(x, b), m)",
        (
            "double_out(x, b)\nif m is None:\n    y = double(b)\nelse:\n"
            "    double_out(b, m)\n    y = m"
        ),
    ),
]

_BRANCHES = "if m is None:\n    result = double(x)\nelse:\n    double_out(x, m)\n    result = m\n"
CHOSEN_AHEAD = [
    ("y = double(x, m) + 1", _BRANCHES + "y = result + 1"),
    ("return g(double(x, out=m), m)", _BRANCHES + "return g(result, m)"),
    ("# up\ny = g(double(x, m))  # why", "# up\n" + _BRANCHES + "y = g(result)  # why"),
    ("x, y = double(x, m), 1", _BRANCHES + "x, y = result, 1"),
    ("y = double(x, m)[0]", _BRANCHES + "y = result[0]"),
    ("for i in double(x, m):\n    pass", _BRANCHES + "for i in result:\n    pass"),
    ("if double(x, m).any():\n    pass", _BRANCHES + "if result.any():\n    pass"),
    ("y = [v for v in double(x, m)]", _BRANCHES + "y = [v for v in result]"),
    (
        "if x: y = g(double(x, m))",
        "if x:\n" + textwrap.indent(_BRANCHES, "    ") + "    y = g(result)",
    ),
    ("a = 1; y = g(double(x, m)); d = 2", "a = 1\n" + _BRANCHES + "y = g(result)\nd = 2"),
    (
        "return g(double(x, self.buf))",
        (
            "if (buffer := self.buf) is None:\n    result = double(x)\nelse:\n"
            "    double_out(x, buffer)\n    result = buffer\nreturn g(result)"
        ),
    ),
    (
        "result = 1\nreturn g(double(x, m))",
        "result = 1\n" + _BRANCHES.replace("result", "op_result") + "return g(op_result)",
    ),
    (
        "return double(x, m), double(x, m)",
        _BRANCHES + _BRANCHES.replace("result", "op_result") + "return result, op_result",
    ),
    (
        "return double(double(x, m), b)",
        _BRANCHES + "double_out(result, b)\nreturn b",
    ),
    (
        "y = g(\n    # note\n    double(\n        x,\n        # up\n        m,  # it\n    ),\n)",
        (
            "if m is None:\n    result = double(\n        x,\n    )\nelse:\n    double_out(\n"
            "        x,\n        # up\n        m,  # it\n    )\n    result = m\n"
            "y = g(\n    # note\n    result,\n)"
        ),
    ),
    (
        "y = g(\n    torch.ops.demo\n    .double(x, m),\n)",
        (
            "if m is None:\n    result = (torch.ops.demo\n        .double(x))\nelse:\n"
            "    torch.ops.demo.double_out(x, m)\n    result = m\ny = g(\n    result,\n)"
        ),
    ),
]


@pytest.mark.parametrize(("before", "after"), CHOSEN_AHEAD)
def test_a_choice_inside_a_statement_is_made_in_front_of_it_and_named(
    before: str, after: str, tmp_path: Path
) -> None:
    assert planned(before, tmp_path) == after


@pytest.mark.parametrize(("before", "after"), CHOSEN)
def test_a_choice_at_run_time_is_a_statement_of_two_branches(
    before: str, after: str, tmp_path: Path
) -> None:
    assert planned(before, tmp_path) == after


REFUSED = [
    ("return g() + double(x, b)", "`g()` is evaluated before it"),
    ("return x.y.z[0] + double(x, b)", "`x.y.z[0]` is evaluated before it"),
    ("return (b := c) + double(x, b)", "is evaluated before it"),
    ("return c + double(x, (c := h(b)), 2)", "whether"),
    ("return self.n + double(self.step(), b)", "`self.n` is evaluated before it"),
    ("print(f'{x} {double(x, b)}')", "`{x}` is evaluated before it"),
    (
        (
            "d = c\ndef s():\n    nonlocal d\n    d = g()\n    return d\n"
            "def q(x: Tensor, b: Tensor):\n    return d + double(s(), b)"
        ),
        "`d` is evaluated before it",
    ),
    ("y[g()] += double(x, b)", "`y[g()]` is evaluated before it"),
    ("if x:\n    pass\nelif double(x, b).any():\n    pass", "the test of an `elif`"),
    ("while double(x, b).any():\n    pass", "the test of a loop"),
    ("y = [double(v, b) for v in x]", "a comprehension"),
    ("y = [v for u in x for v in double(u, b)]", "a comprehension"),
    ("y = g and double(x, b)", "the right side of `and`"),
    ("y = g or double(x, b)", "the right side of `or`"),
    ("y = double(x, b) if g else x", "one branch of a conditional expression"),
    ("y = 1 < g() < double(x, b)", "a chained comparison"),
    ("y = lambda: double(x, b)", "a lambda"),
    ("def q(a=double(x, b)):\n    pass", "the default of a parameter"),
    ("@g(double(x, b))\ndef q():\n    pass", "the head of a definition"),
    ("class Q(double(x, b)):\n    pass", "the head of a definition"),
    ("with h, g(double(x, b)):\n    pass", "a later item of a `with`"),
    ("assert x, double(x, b)", "a place that it cannot be taken out of"),
    ("y[double(x, b)] = g()", "a place that it cannot be taken out of"),
    ("match x:\n    case 1 if double(x, b):\n        pass", "the guard of a case"),
    ("class A:\n    y = double(x, torch.empty(3))", "cannot be given a name here"),
    ("class A:\n    y = g(double(x, m))", "its result cannot be given a name here"),
    ("y = g and g(double(x, m))", "the right side of `and`"),
    ("y = [double(v, m) for v in x]", "a comprehension"),
    ("if x:\n    pass\nelif double(x, m).any():\n    pass", "the test of an `elif`"),
    ("y = g() + double(x, m)", "`g()` is evaluated before it"),
    ("y = x.y[0] + double(x, m)", "`x.y[0]` is evaluated before it"),
    ("y[g()] += double(x, m)", "`y[g()]` is evaluated before it"),
    ("y = g(double(h(), torch.empty(2) if g else None))", "the order of evaluation"),
    (
        (
            "d = m\ndef s():\n    nonlocal d\n    d = g()\n    return 2.0\n"
            "def q(x: Tensor):\n    y = double(x, d, s())\n    return y"
        ),
        "`d` may be bound again",
    ),
]


@pytest.mark.parametrize(("before", "reason"), REFUSED)
def test_a_call_that_cannot_be_made_first_for_sure_is_refused(
    before: str, reason: str, tmp_path: Path
) -> None:
    answer = planned(before, tmp_path)
    assert isinstance(answer, Refusal), answer
    assert reason in answer

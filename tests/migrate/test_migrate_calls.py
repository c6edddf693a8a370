"""What each call of a split op becomes, by what is known of the buffer it passes."""

from __future__ import annotations

import textwrap
from functools import cache

import pytest
from migrating import HEADER, check_noop, migrate_files, migrated, reasons

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


def after(code: str) -> str:
    """What code behind the op becomes."""
    text = migrated(OP + textwrap.dedent(code))
    return text[text.index("    return out\n\n\n", text.index("def double_out")) + 17 - 1 :].strip()


PARAMETERS = "x: Tensor, b: Tensor, m"


def call(code: str, parameters: str = PARAMETERS) -> str:
    """What one statement of a function becomes. ``b`` is no None, ``m`` may be."""
    return all_calls(((parameters, textwrap.dedent(code)),))[0]


@cache
def all_calls(functions: tuple[tuple[str, str], ...], more: str = "") -> list[str]:
    """The same for many functions, given by parameters and body, in one module."""
    text = OP + more
    for number, (parameters, code) in enumerate(functions):
        text += f"def f_{number}({parameters}):\n{textwrap.indent(code, '    ')}\n\n\n"
    text = migrated(text)
    found = []
    for number in range(len(functions)):
        start = text.index("\n", text.index(f"def f_{number}(")) + 1
        end = text.find(f"\n\n\ndef f_{number + 1}(", start)
        body = text[start:end] if end > 0 else text[start:].rstrip("\n")
        found.append(textwrap.dedent(body))
    return found


def refused(code: str, parameters: str = "x, b, m, g, h") -> str:
    body = textwrap.indent(textwrap.dedent(code), "    ")
    migration = check_noop(f"{OP}def f({parameters}):\n{body}\n")
    (reason,) = reasons(migration)
    assert migration.findings[0].position.line > 13
    return reason


FRESH = [
    ("double(x)", "double(x)"),
    ("double(x, None)", "double(x)"),
    ("double(x, out=None)", "double(x)"),
    ("double(x=x, out=None)", "double(x=x)"),
    ("double(out=None, x=x)", "double(x=x)"),
    ("double(x, None, 3.0)", "double(x, 3.0)"),
    ("double(x, None, k=3.0)", "double(x, k=3.0)"),
    ("double(x, k=3.0)", "double(x, k=3.0)"),
    ("torch.ops.demo.double(x, None, 3.0)", "torch.ops.demo.double(x, 3.0)"),
    ("torch.ops.demo.double.default(x, None)", "torch.ops.demo.double.default(x)"),
    ("y = double(double(x, None), None)", "y = double(double(x))"),
    ("double( x , None )", "double( x )"),
    ("double(x, (None))", "double(x)"),
]
GIVEN = [
    ("double(x, b)", "double_out(x, out=b)"),
    ("double(x, out=b)", "double_out(x, out=b)"),
    ("double(out=b, x=x)", "double_out(out=b, x=x)"),
    ("double(x, b, 3.0)", "double_out(x, 3.0, out=b)"),
    ("double(x, b, k=3.0)", "double_out(x, out=b, k=3.0)"),
    ("double(x, k=3.0, out=b)", "double_out(x, k=3.0, out=b)"),
    ("torch.ops.demo.double(x, b)", "torch.ops.demo.double_out(x, out=b)"),
    ("torch.ops.demo.double.default(x, b)", "torch.ops.demo.double_out.default(x, out=b)"),
    ("double(x, x.new_empty(2))", "double_out(x, out=x.new_empty(2))"),
    ("double(x, torch.empty(2), 3.0)", "double_out(x, 3.0, out=torch.empty(2))"),
    ("double(x, b[1:])", "double_out(x, out=b[1:])"),
    ("double(x, b[0])", "double_out(x, out=b[0])"),
    ("double(x, b.view(-1))", "double_out(x, out=b.view(-1))"),
    ("y = double(x, b).sum()", "y = double_out(x, out=b).sum()"),
    ("double(double(x, b), b)", "double_out(double_out(x, out=b), out=b)"),
    # Evaluated in the written order still.
    ("double(x, b.neg_(), b.sum())", "double_out(x, out=b.neg_(), k=b.sum())"),
    ("g(double(x, b), k=double(x, b))", "g(double_out(x, out=b), k=double_out(x, out=b))"),
    ("y = [double(x, b) for _ in range(2)]", "y = [double_out(x, out=b) for _ in range(2)]"),
    ("y = lambda: double(x, b)", "y = lambda: double_out(x, out=b)"),
    ("double(x, b); double(x, b)", "double_out(x, out=b); double_out(x, out=b)"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), [*FRESH, *GIVEN])
def test_call_with_a_known_buffer(code: str, expected: str) -> None:
    every = tuple((PARAMETERS, c) for c, _ in [*FRESH, *GIVEN])
    assert all_calls(every)[every.index((PARAMETERS, code))] == expected


EITHER = [
    ("return double(x, m)", "return double(x) if m is None else double_out(x, out=m)"),
    ("return double(x, out=m)", "return double(x) if m is None else double_out(x, out=m)"),
    (
        "y = double(out=m, x=x)",
        "y = double(x=x) if m is None else double_out(out=m, x=x)",
    ),
    (
        "double(x, m)  # now",
        "if m is None:  # now\n    double(x)\nelse:\n    double_out(x, out=m)",
    ),
    ("y = double(x, m).sum()", "y = (double(x) if m is None else double_out(x, out=m)).sum()"),
    ("y = -double(x, m)", "y = -(double(x) if m is None else double_out(x, out=m))"),
    ("print(double(x, m))", "print(double(x) if m is None else double_out(x, out=m))"),
    ("y = double(x, m) + 1", "y = (double(x) if m is None else double_out(x, out=m)) + 1"),
    (
        'return double(x, m["k"])',
        'return double(x) if (buffer := m["k"]) is None else double_out(x, out=buffer)',
    ),
    (
        "return double(x, m.buf)",
        "return double(x) if (buffer := m.buf) is None else double_out(x, out=buffer)",
    ),
    (
        "return double(x, m())",
        "return double(x) if (buffer := m()) is None else double_out(x, out=buffer)",
    ),
    (
        "y = [double(x, t) for t in m]",
        "y = [(double(x) if t is None else double_out(x, out=t)) for t in m]",
    ),
    ("yield double(x, m)", "yield (double(x) if m is None else double_out(x, out=m))"),
]


@pytest.mark.parametrize(("code", "expected"), EITHER)
def test_call_whose_buffer_may_be_none_tests_it_once(code: str, expected: str) -> None:
    every = tuple((PARAMETERS, c) for c, _ in EITHER)
    found = all_calls(every)[every.index((PARAMETERS, code))]
    if "\n" in found and "\n" not in expected:
        # Too long for one line: the same, on several lines in parentheses.
        flat = "".join(found.split()).replace("(double(", "double(", 1).removesuffix(")")
        assert flat == "".join(expected.split())
        return
    assert found == expected


def test_name_of_the_tested_buffer_is_new_in_its_scope() -> None:
    assert call("buffer = x\nreturn double(x, m())") == (
        "buffer = x\n"
        "return double(x) if (out_buffer := m()) is None else double_out(x, out=out_buffer)"
    )


def test_a_long_conditional_goes_on_several_lines() -> None:
    name = "a_name_that_is_rather_long_for_a_buffer"
    code = f"return torch.ops.demo.double(x, {name})"
    assert call(code, f"x, {name}") == textwrap.dedent(
        f"""\
        return (
            torch.ops.demo.double(x)
            if {name} is None
            else torch.ops.demo.double_out(x, out={name})
        )"""
    )


NULLNESS = [
    # Annotations.
    ("b: Tensor", "", False),
    ("b: torch.Tensor", "", False),
    ('b: "Tensor"', "", False),
    ('b: "torch.Tensor"', "", False),
    ("b: torch.nn.Parameter", "", False),
    ("b", "", None),
    ("b=None", "", None),
    ("b: Tensor = None", "", None),
    ("b: Tensor | None", "", None),
    ("b: 'Tensor | None'", "", None),
    ("b: object", "", None),
    ("*b", "", None),
    # Narrowing.
    ("b=None", "if b is None:\n    return x", False),
    ("b=None", "if b is not None:\n    return x", True),
    ("b=None", "if not b is None:\n    pass\nelse:\n    return x", False),
    ("b=None", "if b is None:\n    raise ValueError", False),
    ("b=None", "if b is None:\n    b = torch.empty_like(x)", False),
    ("b=None", "if b is None: b = torch.empty_like(x)", False),
    ("b=None", "b = torch.empty_like(x) if b is None else b", False),
    ("b=None", "b = b if b is not None else torch.empty_like(x)", False),
    ("b=None", "assert b is not None", False),
    ("b=None", "assert isinstance(b, torch.Tensor)", False),
    ("b=None", "if isinstance(b, torch.Tensor):\n    pass\nelse:\n    return x", False),
    ("b=None", "if x.dim() and b is None:\n    return x", None),
    ("b=None", "if x.dim() or b is None:\n    return x", False),
    ("b=None", "while b is None:\n    b = torch.empty_like(x)", False),
    ("b: Tensor", "b = None", True),
    ("b: Tensor", "if x.dim():\n    b = None", None),
    ("b: Tensor", "b = pick(b)", None),
    ("b=None", "b = torch.empty_like(x)", False),
    ("b=None", "b = x.new_empty(3)", False),
    ("b=None", "b = x + 1", False),
    ("b=None", "b, c = torch.empty(2), 1", False),
    ("b=None", "b = torch.empty(4, 2)[0]", False),
    ("b=None", "try:\n    b = torch.empty(2)\nexcept RuntimeError:\n    pass", None),
    ("b=None", "with torch.no_grad():\n    b = torch.empty(2)", False),
    ("b=None", "for _ in range(3):\n    b = torch.empty(2)", False),
    ("b=None", "if (b := x + 1) is None:\n    pass", False),
    ("b=None", "del b\nb = made(x)", False),
    ("b=None", "b = maybe(x)", None),
    ("b=None", "b = x.grad", None),
    ("b=None", "b = getattr(x, 'buf')", None),
    ("b=None", "b = BUFFER", False),
    ("b=None", "b = NOTHING", None),
    ("b=None", "b = LATER", None),
]
MORE = """\
def made(x):
    return torch.empty_like(x)


def maybe(x):
    if x.dim():
        return torch.empty_like(x)


BUFFER = torch.empty(2)
NOTHING = None
LATER = None
LATER = torch.empty(2)


"""


@pytest.mark.parametrize(("parameter", "code", "null"), NULLNESS)
def test_whether_a_name_may_be_none(parameter: str, code: str, null: bool | None) -> None:
    every = tuple((f"x, {p}", f"{c}\nreturn double(x, out=b)".lstrip()) for p, c, _ in NULLNESS)
    body = all_calls(every, MORE)[NULLNESS.index((parameter, code, null))]
    expected = {
        False: "return double_out(x, out=b)",
        True: "return double(x)",
        None: "return double(x) if b is None else double_out(x, out=b)",
    }[null]
    assert body.split("\n")[-1] == expected


NESTED = [
    ("def g():\n    return double(x, b)\nreturn g", False),
    ("return lambda: double(x, b)", False),
    ("return lambda b: double(x, b)", None),
    ("return lambda b=None: double(x, b)", None),
    ("return [double(x, b) for b in bs]", None),
    ("def g(b):\n    return double(x, b)\nreturn g", None),
    ("def g():\n    nonlocal b\n    b = None\n\ng()\nreturn double(x, b)", None),
    ("class C:\n    def m(self, b):\n        return double(x, b)\nreturn C", None),
]


@pytest.mark.parametrize(("code", "null"), NESTED)
def test_names_of_inner_scopes(code: str, null: bool | None) -> None:
    every = tuple(("x, b: Tensor, bs", c) for c, _ in NESTED)
    text = all_calls(every)[NESTED.index((code, null))]
    assert "double_out(x, out=b)" in text
    assert ("b is None" in text) is (null is None)


REFUSED = [
    ("return double(g(), out=h())", "order of evaluation"),
    ("return double(g(), h())", "order of evaluation"),
    ("return double(x[0], m.buf)", "order of evaluation"),
    ("return double(x, (b := m))", "order of evaluation"),
    ("return double((m := x), m)", "order of evaluation"),
    ("return lambda: double(x, h())", "cannot be named first"),
    ("return [double(x, t.buf) for t in m]", "cannot be named first"),
    ("return double(*m)", "star arguments"),
    ("return double(x, **m)", "star arguments"),
    ("return double(x, b, 1.0, 2.0)", "does not fit"),
    ("return double(x, buf=b)", "does not fit"),
    ("yield double((yield), m)", "order of evaluation"),
]


@pytest.mark.parametrize(("code", "reason"), REFUSED)
def test_call_that_cannot_be_told_keeps_the_op(code: str, reason: str) -> None:
    assert reason in refused(code)


def test_await_before_an_unknown_buffer() -> None:
    migration = check_noop(f"{OP}async def f(x, m):\n    return double(await x, m)\n")
    assert "order of evaluation" in reasons(migration)[0]


VALUES = [
    ("return [double]", "used here as a value"),
    ("return functools.partial(double, out=b)", "used here as a value"),
    ("return map(double, m)", "used here as a value"),
    ("m.op = double", "used here as a value"),
    ("return double._init_fn", "used here as a value"),
    ("return getattr(torch.ops.demo, m)(x)", None),
]


@pytest.mark.parametrize(("code", "reason"), VALUES)
def test_the_op_as_a_value_keeps_the_op(code: str, reason: str | None) -> None:
    if reason is None:
        # Any op of the namespace may be meant, and no buffer is passed.
        assert call(code, "x, m") == code
        return
    assert reason in refused(code)


HARMLESS = [
    "assert double is not None",
    "print(double._schema)",
    "torch.library.opcheck(double, (x,))",
    "torch.library.opcheck(torch.ops.demo.double.default, (x,), {'k': 1.0})",
    "run = double\nrun(x)",
    "double",
]


@pytest.mark.parametrize("code", HARMLESS)
def test_uses_that_cannot_pass_a_buffer_stay(code: str) -> None:
    every = tuple(("x", c) for c in HARMLESS)
    assert all_calls(every)[HARMLESS.index(code)] == code


def test_opcheck_with_a_buffer_keeps_the_op() -> None:
    for arguments in ("(x, b)", "(x,), {'out': b}"):
        code = f"torch.library.opcheck(double, {arguments})"
        migration = check_noop(f"{OP}def f(x, b):\n    {code}\n")
        assert reasons(migration)


def test_opcheck_with_arguments_out_of_sight_is_noted() -> None:
    for arguments in ("(x, *m)", "m", "(x,), m"):
        code = f"torch.library.opcheck(double, {arguments})"
        files, migration = migrate_files({"ops.py": f"{OP}def f(x, m):\n    {code}\n"})
        assert code.encode() in files["ops.py"]
        assert ["not in sight" in note.message for note in migration.notes] == [True]


def test_opcheck_loses_a_none() -> None:
    files, migration = migrate_files(
        {"ops.py": f"{OP}def f(x):\n    torch.library.opcheck(double, (x, None))\n"}
    )
    assert b"opcheck(double, (x,))" in files["ops.py"]
    assert not migration.findings


def test_comments_and_layout_of_a_call_stay() -> None:
    code = """\
        return double(
            x,  # input
            # the buffer
            b,  # buffer
            # the factor
            3.0,  # three
        )
    """
    assert call(code) == textwrap.dedent(
        """\
        return double_out(
            x,  # input
            # the buffer
            out=b,  # buffer
            # the factor
            k=3.0,  # three
        )"""
    )
    code = """\
        return double(
            x,  # input
            # no buffer
            None,  # nothing
            # the factor
            3.0,  # three
        )
    """
    assert call(code) == textwrap.dedent(
        """\
        return double(
            x,  # input
            # no buffer
            # nothing
            # the factor
            3.0,  # three
        )"""
    )


def test_calls_at_module_level_and_in_classes() -> None:
    code = """\
        BUF = torch.empty(2)
        TOP = double(torch.ones(2), BUF)


        class Layer(torch.nn.Module):
            scale = double(torch.ones(2), None)

            def forward(self, x: Tensor, out: Tensor) -> Tensor:
                return double(x, out)
    """
    text = after(code)
    assert "TOP = double_out(torch.ones(2), out=BUF)" in text
    assert "scale = double(torch.ones(2))" in text
    assert "return double_out(x, out=out)" in text


def test_an_op_that_calls_itself_with_its_buffer_keeps_its_form() -> None:
    source = OP.replace("    return out\n", "    double(x, out, k)\n    return out\n", 1)
    migration = check_noop(source)
    assert migration.findings


def test_ops_that_call_one_another_are_split_in_turn() -> None:
    other = OP[len(HEADER) :].replace("double", "triple")
    other = other.replace("torch.mul(x, k, out=out)", "double(x, out, k)")
    other = other.replace("out = torch.empty_like(x)", "out = torch.zeros_like(x)")
    for source in (OP + other, HEADER + other + OP[len(HEADER) :]):
        files, migration = migrate_files({"ops.py": source})
        text = files["ops.py"].decode()
        assert {plan.op for plan in migration.plans} >= {"demo::double"}
        assert "double(x, out" not in text.replace("double_out(", "")

"""Fake kernels: derived where the functional op had none, or freed of the buffer."""

from __future__ import annotations

import ast
import textwrap

import pytest
from migrating import HEADER, check_noop, migrate_files, migrated, reasons

from opscaffold.findings.model import Severity

HEAD = '@torch.library.custom_op("demo::double", mutates_args=("out",))\n'
ALLOCATE = "if out is None:\n    out = {}\n"
WORK = "out.copy_(x)\nreturn out\n"


def source(
    body: str, parameters: str = "x: Tensor, n: int, out: Tensor | None = None", more: str = ""
) -> str:
    head = f"{HEADER}{more}{HEAD}def double({parameters}) -> Tensor:\n"
    return head + textwrap.indent(textwrap.dedent(body), "    ")


def derived(text: str) -> str | None:
    """The body of the derived fake kernel, None where there is none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "_double_fake":
            lines = text.split("\n")[node.body[0].lineno - 1 : node.end_lineno]
            return textwrap.dedent("\n".join(lines))
    return None


def allocated(expression: str, more: str = "") -> str:
    return source(ALLOCATE.format(expression) + WORK, more=more)


DERIVED = [
    "torch.empty_like(x)",
    "torch.zeros_like(x)",
    "torch.empty(x.shape, dtype=x.dtype, device=x.device)",
    "torch.empty((n, x.size(0)), dtype=torch.float16, device=x.device)",
    "x.new_empty(x.shape[0], n // 2)",
    "x.new_zeros(x.shape)",
    "x.new_full((n,), 0.0)",
    "torch.empty_like(x, memory_format=torch.contiguous_format)",
    "torch.empty_strided(x.size(), x.stride(), dtype=x.dtype)",
    "torch.empty(*x.shape[:-1], max(n, 1), dtype=x.dtype)",
    "torch.empty([s * 2 for s in x.shape], dtype=x.dtype)",
    "torch.empty_like(x) if x.dim() > 1 else x.new_empty(n)",
    "torch.empty_like(x.t())",
    "torch.empty(x.numel(), dtype=torch.promote_types(x.dtype, torch.float32))",
    "x.new_empty(math.ceil(n / 2))",
    "x.new_empty(BLOCK)",
    "x.clone()",
    "x + 1",
    "torch.cat([x, x], dim=0)",
]


@pytest.mark.parametrize("expression", DERIVED)
def test_fake_returns_the_allocation(expression: str) -> None:
    more = "import math\n\nBLOCK = 128\n\n\n"
    assert derived(migrated(allocated(expression, more))) == f"return {expression}"


BODIES = {
    "a branch on metadata": (
        """\
        if x.dim() > 1:
            if out is None:
                out = x.new_empty(x.shape[0])
        elif out is None:
            out = torch.empty_like(x)
        out.copy_(x)
        return out
        """,
        """\
        if x.dim() > 1:
            out = x.new_empty(x.shape[0])
        else:
            out = torch.empty_like(x)
        return out""",
    ),
    "sizes computed before": (
        """\
        rows, columns = x.shape
        half = columns // 2
        unused = x.sum()
        if out is None:
            out = x.new_empty(rows, half)
        out.copy_(x[:, :half])
        return out
        """,
        """\
        rows, columns = x.shape
        half = columns // 2
        return x.new_empty(rows, half)""",
    ),
    "validation stays out unless it leads to the result": (
        """\
        if n < 0:
            raise ValueError("n")
        assert x.is_contiguous()
        if out is None:
            out = torch.empty_like(x)
        out.copy_(x)
        return out
        """,
        "return torch.empty_like(x)",
    ),
    "two equal returns become one": (
        """\
        if x.numel() == 0:
            return torch.empty_like(x) if out is None else out
        if out is None:
            out = torch.empty_like(x)
        out.copy_(x)
        return out
        """,
        "return torch.empty_like(x)",
    ),
    "two returns that differ": (
        """\
        if n == 0:
            return x.new_empty(0) if out is None else out
        if out is None:
            out = torch.empty_like(x)
        out.copy_(x)
        return out
        """,
        """\
        if n == 0:
            return x.new_empty(0)
        return torch.empty_like(x)""",
    ),
    "inside no_grad": (
        """\
        with torch.no_grad():
            if out is None:
                out = torch.empty_like(x)
            out.copy_(x)
        return out
        """,
        "return torch.empty_like(x)",
    ),
    "written in a loop": (
        """\
        if out is None:
            out = torch.empty_like(x)
        for i in range(n):
            out[i] = x[i]
        return out
        """,
        "return torch.empty_like(x)",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_fake_holds_what_leads_to_the_result(name: str) -> None:
    body, expected = BODIES[name]
    assert derived(migrated(source(body))) == textwrap.dedent(expected)


UNDERIVABLE = [
    "x.new_empty(int(x.sum()))",
    "x.new_empty(x[0].item())",
    "torch.nonzero(x)",
    "x[x > 0]",
    "torch.unique(x)",
    "helper(x)",
    "x.new_empty(SIZES[0])",
    "torch.empty_like(x) if x.sum() > 0 else x.new_empty(n)",
    "torch.empty(len(x.tolist()))",
    "torch.empty_like(x) if bool(x.any()) else x.new_empty(n)",
]


@pytest.mark.parametrize("expression", UNDERIVABLE)
def test_what_depends_on_values_or_hidden_code_has_no_fake(expression: str) -> None:
    more = (
        "SIZES = [1]\nSIZES = [2]\n\n\ndef helper(t):\n    return torch.empty(t.sum().item())\n\n\n"
    )
    body = f"if out is None:\n    y = {expression} + 0\nelse:\n    y = out\ny.copy_(x)\nreturn y\n"
    files, migration = migrate_files({"ops.py": source(body, more=more)})
    assert derived(files["ops.py"].decode()) is None
    (note,) = migration.notes
    assert (note.code, note.severity) == ("OPS110", Severity.WARNING)
    assert note.op == "demo::double"
    assert "register_fake" in note.remedy


def test_allocation_inside_a_try_is_not_derived() -> None:
    body = """\
        try:
            if out is None:
                out = torch.empty_like(x)
        finally:
            n = 0
        out.copy_(x)
        return out
    """
    files, migration = migrate_files({"ops.py": source(body)})
    assert derived(files["ops.py"].decode()) is None
    assert "settled inside `try:`" in migration.notes[0].message


OP = source(ALLOCATE.format("torch.empty_like(x)") + WORK, "x: Tensor, out: Tensor | None = None")

FAKES = {
    "if block": (
        (
            "\n\n@double.register_fake\ndef _(x, out=None):\n    if out is None:\n"
            "        out = torch.empty_like(x)\n    return out\n"
        ),
        "\n\n@double.register_fake\ndef _(x):\n    out = torch.empty_like(x)\n    return out\n",
    ),
    "ternary": (
        (
            "\n\n@double.register_fake\ndef _(x, out=None):\n"
            "    return torch.empty_like(x) if out is None else out\n"
        ),
        "\n\n@double.register_fake\ndef _(x):\n    return torch.empty_like(x)\n",
    ),
    "buffer not used": (
        "\n\n@double.register_fake\ndef _(x, out=None):\n    return torch.empty_like(x)\n",
        "\n\n@double.register_fake\ndef _(x):\n    return torch.empty_like(x)\n",
    ),
    "other names": (
        (
            "\n\n@double.register_fake\ndef fake(inp, dest=None):\n"
            "    return torch.empty_like(inp) if dest is None else dest\n"
        ),
        "\n\n@double.register_fake\ndef fake(inp):\n    return torch.empty_like(inp)\n",
    ),
    "typed": (
        (
            "\n\n@double.register_fake\n"
            'def fake(x: Tensor, out: "Tensor | None" = None) -> Tensor:\n'
            "    # same as x\n    return torch.empty_like(x)  # fake\n"
        ),
        (
            "\n\n@double.register_fake\ndef fake(x: Tensor) -> Tensor:\n"
            "    # same as x\n    return torch.empty_like(x)  # fake\n"
        ),
    ),
    "by name": (
        (
            '\n\n@torch.library.register_fake("demo::double")\ndef fake(x, out=None):\n'
            "    return torch.empty_like(x)\n"
        ),
        (
            '\n\n@torch.library.register_fake("demo::double")\ndef fake(x):\n'
            "    return torch.empty_like(x)\n"
        ),
    ),
    "lambda": (
        "\n\ndouble.register_fake(lambda x, out=None: torch.empty_like(x))\n",
        "\n\ndouble.register_fake(lambda x: torch.empty_like(x))\n",
    ),
    "lambda with a test": (
        (
            '\n\ntorch.library.register_fake("demo::double")(\n'
            "    lambda x, out=None: torch.empty_like(x) if out is None else out\n)\n"
        ),
        '\n\ntorch.library.register_fake("demo::double")(\n    lambda x: torch.empty_like(x)\n)\n',
    ),
    "call": (
        (
            "\n\ndef fake(x, out=None):\n    return torch.empty_like(x)\n\n\n"
            "double.register_fake(fake)\n"
        ),
        "\n\ndef fake(x):\n    return torch.empty_like(x)\n\n\ndouble.register_fake(fake)\n",
    ),
}


@pytest.mark.parametrize("name", FAKES)
def test_an_existing_fake_loses_the_buffer(name: str) -> None:
    before, after = FAKES[name]
    text = migrated(OP + before)
    assert text.endswith(after)
    assert "_double_fake" not in text


def test_a_fake_in_another_module() -> None:
    files, _ = migrate_files(
        {
            "ops.py": OP,
            "fakes.py": "import torch\nfrom ops import double\n\n\n@double.register_fake\n"
            "def _(x, out=None):\n    return torch.empty_like(x)\n",
        }
    )
    assert b"def _(x):\n    return torch.empty_like(x)\n" in files["fakes.py"]
    assert b"register_fake" not in files["ops.py"]


REFUSED = {
    "used elsewhere": (
        (
            "\n\ndef fake(x, out=None):\n    return torch.empty_like(x)\n\n\n"
            "double.register_fake(fake)\nprint(fake(torch.ones(1), None))\n"
        ),
        "is used elsewhere too",
    ),
    "star arguments": (
        (
            "\n\n@double.register_fake\ndef _(*args, **kwargs):\n"
            "    return torch.empty_like(args[0])\n"
        ),
        "does not take the parameters",
    ),
    "buffer needed": (
        (
            "\n\n@double.register_fake\ndef _(x, out=None):\n    print(out)\n"
            "    return torch.empty_like(x)\n"
        ),
        None,
    ),
    "out of sight": ("\n\nfrom elsewhere import fake\n\ndouble.register_fake(fake)\n", "in sight"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fake_that_cannot_lose_the_buffer_keeps_the_op(name: str) -> None:
    more, reason = REFUSED[name]
    if reason is None:
        # None can be passed on as well as the buffer.
        assert "print(None)" in migrated(OP + more)
        return
    migration = check_noop(OP + more)
    assert any(reason in text for text in reasons(migration)), reasons(migration)


def test_name_of_the_fake_that_is_taken() -> None:
    files, migration = migrate_files({"ops.py": "_double_fake = None\n" + OP})
    assert not migration.notes
    assert b"def _double_fake_2(" in files["ops.py"]


KEPT = {
    "what is written into memory inside a longer expression is left out": (
        """\
        scaled = x * 2
        out = torch.empty_like(x)
        return out.copy_(scaled).view(-1).view(x.shape)
        """,
        "out = torch.empty_like(x)\nreturn out.view(-1).view(x.shape)",
    ),
    "an out= inside a longer expression is left out": (
        """\
        scaled = x * 2
        out = torch.empty_like(x)
        return torch.mul(x, scaled, out=out).view(x.shape)
        """,
        "out = torch.empty_like(x)\nreturn out.view(x.shape)",
    ),
}


@pytest.mark.parametrize("body", KEPT, ids=list(KEPT))
def test_fake_names_nothing_that_it_leaves_out(body: str) -> None:
    kernel, fake = KEPT[body]
    head = '@torch.library.custom_op("demo::double", mutates_args=())\n'
    text = f"{HEADER}{head}def double(x: Tensor) -> Tensor:\n"
    text += textwrap.indent(textwrap.dedent(kernel), "    ")
    text += "\n\n@torch.compile\ndef run(x: Tensor) -> Tensor:\n    return double(x)\n"
    assert derived(migrated(text)) == fake


LAID_OUT = [
    """\
    return (
        torch.clamp(torch.round(x) + n, 0, 15)  # four bits
        .to(torch.uint8)
        .view(x.shape)
    )""",
    """\
    return x.new_empty(
        x.shape[0],
        n,
        dtype=torch.uint8,
    )""",
    """\
    rows = (
        x.shape[0]
        * n
    )
    return x.new_empty(rows)""",
    """\
    if x.dim() > 1:
        return torch.empty(
            (n, n), dtype=x.dtype
        )
    return torch.empty_like(x)""",
]


@pytest.mark.parametrize("kernel", LAID_OUT)
def test_fake_keeps_the_lines_of_the_kernel(kernel: str) -> None:
    kernel = textwrap.dedent(kernel)
    head = '@torch.library.custom_op("demo::double", mutates_args=())\n'
    text = f"{HEADER}{head}def double(x: Tensor, n: int) -> Tensor:\n"
    text += textwrap.indent(kernel, "    ")
    text += "\n\n\n@torch.compile\ndef run(x: Tensor) -> Tensor:\n    return double(x, 2)\n"
    assert derived(migrated(text)) == kernel


def test_fake_keeps_a_string_over_lines_as_it_is() -> None:
    kernel = 'return x.new_empty(\n    len("""one\n  two""")\n)'
    head = '@torch.library.custom_op("demo::double", mutates_args=())\n'
    text = f"{HEADER}{head}def double(x: Tensor) -> Tensor:\n"
    text += '    return x.new_empty(\n        len("""one\n  two""")\n    )\n'
    text += "\n\n@torch.compile\ndef run(x: Tensor) -> Tensor:\n    return double(x)\n"
    fake = derived(migrated(text))
    assert fake is not None
    assert ast.dump(ast.parse(fake)) == ast.dump(ast.parse(kernel))


HELPER = """
def register(name, fn, mutates=(), fake=None, more=None):
    op = torch.library.custom_op(f"demo::{name}", mutates_args=mutates)(fn)
    if fake is not None:
        op.register_fake(fake)
    if more is not None:
        more.append(op)
    return op


def _double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


def _double_fake(x, out=None):
    if out is None:
        out = torch.empty_like(x)
    return out


"""


def test_a_fake_that_a_helper_registers_for_the_object_it_makes_goes_to_the_functional_half() -> (
    None
):
    text = migrated(
        f'{HEADER}{HELPER}double = register("double", _double, ["out"], fake=_double_fake)\n'
    )
    assert text.endswith(
        'double = register("double", _double, [], fake=_double_fake)\n'
        'double_out = register("double_out", _double_out, ["out"])\n'
    )
    assert "def _double_fake(x):\n    out = torch.empty_like(x)\n    return out\n" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('"double", _double, ["out"], _double_fake', "its fake kernel is passed by position"),
        ('"double", _double, ["out"], more=_double_fake', "what it does with it is not known"),
        ('"double", _double, ["out"], more=lambda op: op', "what it does with it is not known"),
    ],
)
def test_a_function_that_a_helper_takes_for_whatever_keeps_the_op(
    arguments: str, reason: str
) -> None:
    migration = check_noop(f"{HEADER}{HELPER}double = register({arguments})\n")
    assert any(reason in text for text in reasons(migration)), reasons(migration)

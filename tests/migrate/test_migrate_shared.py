"""Which part of a kernel both halves share, and what must not be moved out of them."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from migrating import HEADER, migrated

from opscaffold.migrate.shared import hoist, names_in

HEAD = '@torch.library.custom_op("demo::double", mutates_args=("out",))\n'


def split(body: str, parameters: str = "x: Tensor, out: Tensor | None = None") -> str:
    head = f"{HEADER}{HEAD}def double({parameters}) -> Tensor:\n"
    return migrated(head + textwrap.indent(textwrap.dedent(body), "    "))


def kernel(text: str) -> str | None:
    if "def _double_kernel(" not in text:
        return None
    start = text.index("def _double_kernel(")
    return text[start : text.index("\n\n\n", start)]


ALLOCATE = "if out is None:\n    out = torch.empty_like(x)\n"


def test_a_long_body_is_written_once() -> None:
    text = split(
        ALLOCATE
        + "# the work\nwork = x * k\nif work.dim() > 1:\n    work = work.sum(0)\n"
        + "out.copy_(work)  # done\nreturn out\n",
        "x: Tensor, k: float = 2.0, out: Tensor | None = None",
    )
    assert kernel(text) == textwrap.dedent(
        """\
        def _double_kernel(x: Tensor, k: float, out: Tensor) -> None:
            # the work
            work = x * k
            if work.dim() > 1:
                work = work.sum(0)
            out.copy_(work)  # done"""
    )
    assert text.count("    _double_kernel(x, k, out)\n    return out\n") == 2
    assert text.index("def _double_kernel") < text.index("@torch.library.custom_op")


def test_what_is_computed_before_is_handed_over() -> None:
    text = split(
        "rows = x.shape[0]\n"
        "y = x.new_empty(rows) if out is None else out\n"
        "for i in range(rows):\n    y[i] = x[i].sum()\ny.mul_(2)\nreturn y\n"
    )
    assert kernel(text) == textwrap.dedent(
        """\
        def _double_kernel(x: Tensor, rows, y: Tensor) -> None:
            for i in range(rows):
                y[i] = x[i].sum()
            y.mul_(2)"""
    )
    assert text.count("    _double_kernel(x, rows, y)\n    return y\n") == 2


STAYS = {
    "too short": "out.copy_(x)\nout.mul_(2)\nreturn out\n",
    "what is bound inside is used behind": (
        "a = x * 2\nb = a + 1\nc = b + 1\nreturn out.copy_(c)\n"
    ),
    "returns": (
        "if x.dim() == 0:\n    return out.copy_(x)\nif x.dim() == 1:\n    return out.copy_(x)\n"
        "return out.copy_(x)\n"
    ),
    "import of the function": (
        "import math as m\nprint(1)\nout.fill_(m.pi)\nout.add_(m.e)\nout.mul_(m.tau)\nreturn out\n"
    ),
    "locals": "print(locals())\nprint(1)\nout.copy_(x)\nreturn out\n",
    "global": "global COUNT\nCOUNT = 1\nprint(COUNT)\nout.copy_(x)\nreturn out\n",
}


@pytest.mark.parametrize("name", STAYS)
def test_what_must_stay_where_it_is(name: str) -> None:
    text = split(ALLOCATE + STAYS[name])
    moved = kernel(text)
    if name == "import of the function":
        # The import may move along, but never without what uses it.
        assert moved is None or "import math as m" in moved
        return
    for word in ("locals()", "global", "return"):
        assert moved is None or word not in moved
    if name in {"too short", "what is bound inside is used behind"}:
        assert moved is None


def test_a_name_bound_on_some_path_only_is_not_handed_over() -> None:
    text = split(
        ALLOCATE
        + "if x.dim() > 1:\n    scale = 2\n"
        + "if out is not None:\n    print('checked')\n"
        + "if x.dim() > 1:\n    out.copy_(x * scale)\nelse:\n    out.copy_(x)\nreturn out\n"
    )
    moved = kernel(text)
    assert moved is None or "scale" not in moved.split("\n")[0]


def test_long_parameters_go_on_lines_of_their_own() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(5)]
    parameters = ", ".join(["x: Tensor", *(f"{n}: float" for n in names)])
    body = "".join(f"out.add_({n})\n" for n in names)
    text = split(
        f"{ALLOCATE}out.copy_(x)\n{body}return out\n",
        f"{parameters}, out: Tensor | None = None",
    )
    moved = kernel(text)
    assert moved is not None
    assert moved.startswith("def _double_kernel(\n    x: Tensor,\n    a_rather_long_name_0: float,")
    assert all(len(line) <= 88 for line in moved.split("\n"))


def function(text: str) -> cst.FunctionDef:
    return cst.ensure_type(cst.parse_statement(textwrap.dedent(text)), cst.FunctionDef)


def test_nothing_is_moved_where_the_bodies_differ() -> None:
    first = function("def f(x):\n    a(x)\n    b(x)\n    c(x)\n    return x\n")
    second = function("def g(x, *, out):\n    d(x)\n    e(x)\n    f(x)\n    return out\n")
    assert hoist(first, second, "_kernel", "out") is None


def test_a_docstring_is_not_moved() -> None:
    text = '    """Doc\n    of\n    three lines.\n    """\n'
    first = function(f"def f(x):\n{text}    return x\n")
    second = function(f"def g(x, *, out):\n{text}    return out\n")
    assert hoist(first, second, "_kernel", "out") is None


@pytest.mark.parametrize(
    ("code", "loads", "stores"),
    [
        ("a = b", {"b"}, {"a"}),
        ("a += b", {"a", "b"}, {"a"}),
        ("a.b = c", {"a", "c"}, set()),
        ("a[b] = c", {"a", "b", "c"}, set()),
        ("a, (b, *c) = d", {"d"}, {"a", "b", "c"}),
        ("for a in b: c", {"b", "c"}, {"a"}),
        ("with a as b: pass", {"a"}, {"b"}),
        ("import a.b", set(), {"a"}),
        ("from a import b as c", set(), {"c"}),
        ("try: pass\nexcept a as b: pass", {"a"}, {"b"}),
        ("[a for a in b]", {"b"}, set()),
        ("{a: c for a in b}", {"b", "c"}, set()),
        ("lambda a: a + b", {"b"}, set()),
        ("def a(b=c): return b + d", {"c", "d"}, {"a"}),
        ("class A(B): c = d", {"B", "d"}, {"A"}),
        ("if (a := b): pass", {"b"}, {"a"}),
        ("[(a := b) for b in c]", {"c"}, {"a"}),
        ("del a", set(), {"a"}),
        ("print(f'{a}')", {"print", "a"}, set()),
    ],
)
def test_names_that_statements_read_and_bind(code: str, loads: set[str], stores: set[str]) -> None:
    found = names_in(cst.parse_module(code).body)  # type: ignore[arg-type]
    assert found.loads >= loads
    assert found.stores == stores

"""How the new ops are named, and how old callers are kept working."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from migrating import OP, python, reasons, write

from opscaffold.migrate.engine import Migration, Request, migrate
from opscaffold.migrate.plan import Options

SOURCE = """\
import torch
from torch import Tensor


@torch.library.custom_op("kept::scale", mutates_args=("out",))
def scale(x: Tensor, k: float, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, k, out=out)


def _shift(x: Tensor, by: float = 1.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.add(x, by, out=out)


shift = torch.library.custom_op("kept::shift", _shift, mutates_args=("out",))


@shift.register_fake
def _(x, by=1.0, out=None):
    return torch.empty_like(x)


def both(x, buffer: Tensor):
    fresh = shift(x)
    return fresh, shift(x, out=buffer)


def check():
    torch.library.opcheck(scale, (torch.ones(3), 2.0))
"""

USE = """\
import warnings

import torch
from ops import both, check, scale, shift, scale_out, shift_out

x, buffer = torch.arange(3.0), torch.empty(3)
check()
assert both(x, buffer)[1] is buffer
for op, expected in ((scale, x * 2), (shift, x + 2)):
    fresh = torch.compile(lambda x: op(x, 2.0) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(fresh(x), expected + 1)
    given = torch.compile(lambda x, b: op(x, 2.0, b) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(given(x, buffer.fill_(9)), expected + 1)
    assert torch.equal(buffer, expected)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert op(x, 2.0, out=buffer.fill_(9)) is buffer
    assert torch.equal(buffer, expected)
    assert [w.category for w in caught] == [DeprecationWarning] * WARNS
"""


def run(root: Path, **options: Any) -> Migration:
    return migrate([root], Request(options=Options(**options)), root=root)


def applied(root: Path, source: str, **options: Any) -> str:
    """Migrate one module twice; the second run changes nothing."""
    write(root, {"ops.py": source})
    first = run(root, **options)
    assert not [f for f in first.findings if "fault of opscaffold" in f.message], first.findings
    for path, (_, new) in first.changes.items():
        path.write_bytes(new)
    assert run(root, **options).changes == {}
    return (root / "ops.py").read_text()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("deprecate", [False, True])
def test_old_names_stay_callable(tmp_path: Path, *, deprecate: bool) -> None:
    pytest.importorskip("torch")
    applied(tmp_path, SOURCE, compat=True, deprecate=deprecate)
    use = tmp_path / "use.py"
    use.write_text(f"WARNS = {int(deprecate)}\n{USE}")
    python(use)


def test_only_on_request_a_function_stays_under_the_old_name(tmp_path: Path) -> None:
    assert "_fresh" not in applied(tmp_path, SOURCE)


def test_an_overload_is_made_where_it_is_safe(tmp_path: Path) -> None:
    source = SOURCE.partition("def _shift")[0] + textwrap.dedent("""\
        def use(x, b: Tensor):
            return scale(x, 1.0, b), torch.ops.kept.scale.default(x, 2.0, b)
        """)
    after = applied(tmp_path, source, out_naming="overload")
    assert '"kept::scale.out", mutates_args=("out",), tags=torch.Tag.out' in after
    assert "scale_out(x, 1.0, out=b), torch.ops.kept.scale.out(x, 2.0, out=b)" in after


def test_an_overload_that_would_break_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"ops.py": OP + textwrap.dedent("""\
        def double(x: Tensor, k: int = 2, out: Tensor | None = None) -> Tensor:
            if out is None:
                out = torch.empty_like(x)
            return torch.mul(x, k, out=out)
        """)})  # fmt: skip
    migration = run(tmp_path, out_naming="overload")
    assert migration.changes == {}
    assert any("left at its default" in reason for reason in reasons(migration))
    assert [left.remedy for left in migration.left] == [
        "run again with --only demo::double --out-naming flat, which makes it `demo::double_out`"
    ]


def test_what_cannot_be_excluded_of_an_overload_is_a_note_and_no_breach(tmp_path: Path) -> None:
    write(tmp_path, {"ops.py": SOURCE.partition("def _shift")[0]})
    migration = run(tmp_path, out_naming="overload")
    notes = [note for note in migration.notes if note.op == "kept::scale.out"]
    assert notes
    assert {note.code for note in notes} == {"OPS190"}
    assert all("is an overload, as was asked for" in note.message for note in notes)


def test_a_release_without_tags_gets_a_mutable_half(tmp_path: Path) -> None:
    after = applied(tmp_path, SOURCE, target=(2, 8))
    assert "tags=" not in after
    assert "def scale_out(x: Tensor, k: float, out: Tensor) -> None:" in after
    assert "def _shift_out(x: Tensor, out: Tensor, by: float = 1.0) -> None:" in after


BRANCHES = """\
import torch
from torch import Tensor

FAST = False
if FAST:

    @torch.library.custom_op("kept::g", mutates_args=("out",))
    def g(x: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            out = torch.empty_like(x)
        torch.mul(x, 2, out=out)
        return out

else:

    @torch.library.custom_op("kept::g", mutates_args=("out",))
    def g(x: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            out = torch.empty_like(x)
        return torch.add(x, x, out=out)


@g.register_fake
def _(x, out=None):
    return torch.empty_like(x)


def use(x, b: Tensor):
    return g(x), g(x, b)
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("fast", [False, True])
def test_an_op_defined_in_two_branches_is_split_in_both(tmp_path: Path, *, fast: bool) -> None:
    pytest.importorskip("torch")
    after = applied(tmp_path, BRANCHES)
    assert after.count("def g_out(x: Tensor, *, out: Tensor) -> Tensor:") == 2
    (tmp_path / "ops.py").write_text(after.replace("FAST = False", f"FAST = {fast}"))
    use = tmp_path / "use.py"
    use.write_text(
        "import torch\nfrom ops import g, g_out, use\nx, b = torch.ones(2), torch.zeros(2)\n"
        "fresh, given = use(x, b)\nassert given is b\nassert torch.equal(fresh, b)\n"
        "torch.library.opcheck(g, (x,))\ntorch.library.opcheck(g_out, (x,), {'out': b})\n"
    )
    python(use)


A, R = "        x.add_(1)\n", "        return torch.add(x, x, out=out)\n"
BODY = '("out",))\n' + BRANCHES.rpartition('("out",))\n')[2]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("if FAST:", "if True:\n    pass\nif FAST:", ""),
        ("else:\n", "if not FAST:\n", "registered more than once"),
        (BODY, BODY.replace('"out",', '"out", "x"').replace(R, A + R), "defined otherwise"),
    ],
)
def test_branches_that_differ_are_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in BRANCHES
    write(tmp_path, {"ops.py": BRANCHES.replace(old, new)})
    found = run(tmp_path)
    assert bool(found.plans) == (not reason)
    assert all(reason in r for r in reasons(found)), reasons(found)

"""Names that several splits choose together, and fakes of sizes that are changed in place."""

from __future__ import annotations

import pytest
from migrating import HEADER, migrate_files, migrated, reasons

LONG = """\
@torch.library.custom_op("demo::{op}", mutates_args=("out",))
def {name}(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, {factor}, out=out)
    out.add_({factor})
    out.neg_()
    return out


"""


def test_kernels_of_ops_with_almost_the_same_name_are_two() -> None:
    source = HEADER + LONG.format(op="f", name="f", factor=2)
    source += LONG.format(op="g", name="_f", factor=3)
    after = migrated(source)
    assert after.count("def _f_kernel(") == 1
    assert after.count("def _f_kernel_2(") == 1
    assert after.count("_f_kernel_2(x, out)") == 2


SIZES = {
    "augmented": "n, d = x.shape\n    d //= 2",
    "item": "d = list(x.shape)\n    d[-1] = d[-1] // 2",
    "method": "d = list(x.shape)\n    d.append(3)",
    "deleted": "d = list(x.shape)\n    del d[0]",
    "branch": "n, d = x.shape\n    if d % 4:\n        d += 4 - d % 4",
}


@pytest.mark.parametrize("lines", SIZES.values(), ids=SIZES)
def test_what_changes_a_size_in_place_is_in_the_fake(lines: str) -> None:
    source = f"""{HEADER}
@torch.library.custom_op("demo::f", mutates_args=("out",))
def f(x: Tensor, out: Tensor | None = None) -> Tensor:
    {lines}
    if out is None:
        out = x.new_empty(d)
    out.fill_(1.0)
    return out
"""
    after = migrated(source)
    fake = after[after.index("def _f_fake(") : after.index("def f_out(")]
    assert lines in fake
    assert "return x.new_empty(d)" in fake


def test_no_fake_of_memory_that_an_out_grows() -> None:
    source = f"""{HEADER}
@torch.library.custom_op("demo::f", mutates_args=("out",))
def f(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty(0)
    torch.add(x, 1, out=out)
    return out
"""
    _, migration = migrate_files({"ops.py": source})
    assert "resizes memory" in migration.notes[0].message


def test_fake_through_a_helper_of_the_project() -> None:
    source = f"""{HEADER}
def rows(x: Tensor, k: int) -> Tensor:
    n, d = x.shape
    if k > d:
        raise ValueError("k")
    return x.new_empty(n, k)


@torch.library.custom_op("demo::f", mutates_args=("out",))
def f(x: Tensor, k: int, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = rows(x, k)
    out.copy_(x[:, :k])
    return out
"""
    assert "    return rows(x, k)" in migrated(source)


@pytest.mark.parametrize("tags", ["TAGS", "make_tags()"])
def test_tags_out_of_sight_keep_the_op(tags: str) -> None:
    source = HEADER + LONG.format(op="f", name="f", factor=2)
    source = source.replace('("out",))', f'("out",), tags={tags})', 1)
    _, migration = migrate_files({"ops.py": source})
    assert "tags" in reasons(migration)[0]


def test_parameter_with_which_no_mutable_op_compiles() -> None:
    source = HEADER + LONG.format(op="f", name="f", factor=2)
    source = source.replace("x: Tensor, out", 'x: Tensor, mode: str = "a", out')
    _, migration = migrate_files({"ops.py": source})
    assert "`mode`" in reasons(migration)[0]


def test_torch_that_only_type_checkers_import_is_imported() -> None:
    source = LONG.format(op="f", name="f", factor=2).replace("torch.library.custom_op", "custom_op")
    source = source.replace("torch.", "th.").replace("Tensor", "th.Tensor")
    header = "from typing import TYPE_CHECKING\n\nfrom torch.library import custom_op\n\n"
    header += "if TYPE_CHECKING:\n    import torch as th\n\n\n"
    after = migrated(header + source)
    assert "from torch.library import custom_op\nimport torch\n" in after
    assert "tags=torch.Tag.out" in after


def test_call_in_an_f_string_stays_on_its_line() -> None:
    source = HEADER + LONG.format(op="f", name="long_name_of_an_op", factor=2)
    source += "def show(x, maybe_given):\n"
    source += '    return f"{long_name_of_an_op(x, maybe_given)} {long_name_of_an_op(x)}"\n'
    after = migrated(source)
    assert "(long_name_of_an_op(x) if maybe_given is None else " in after


def test_call_through_a_module_that_hides_its_names_keeps_the_op() -> None:
    lazy = "def __getattr__(name):\n    from . import ops\n    return getattr(ops, name)\n"
    caller = "import pkg\n\n\ndef g(x, o):\n    return pkg.f(x, out=o)\n"
    files = {
        "pkg/__init__.py": lazy,
        "pkg/ops.py": HEADER + LONG.format(op="f", name="f", factor=2),
        "use.py": caller,
    }
    after, migration = migrate_files(files)
    assert after["use.py"] == caller.encode()
    assert reasons(migration)


def test_call_through_something_out_of_sight_is_said() -> None:
    caller = "def g(ops, x, o):\n    return ops.f(x, out=o)\n"
    files = {"ops.py": HEADER + LONG.format(op="f", name="f", factor=2), "use.py": caller}
    _, migration = migrate_files(files)
    note = next(n for n in migration.notes if n.position.path.name == "use.py")
    assert note.severity.value == "warning"
    assert note.position.line == 2

"""Which repair is intended where an op returns what it mutates."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from opscaffold.findings.intents import AddTag, Intent, RenameOverload, ReturnNothing, TagSchema
from opscaffold.findings.model import Finding
from opscaffold.rules import unsafe_out_overload, untagged_alias_schema, untagged_returned_mutated
from opscaffold.rules.catalog import apply_rules
from opscaffold.source.project import load_project

RULES = [untagged_returned_mutated.RULE, untagged_alias_schema.RULE, unsafe_out_overload.RULE]
HEADER = (
    "import torch\nfrom torch import Tensor\n\nlib = torch.library.Library('demo', 'FRAGMENT')\n"
)


def found(code: str, root: Path) -> list[Finding]:
    path = root.resolve() / "ops.py"
    path.write_text(HEADER + textwrap.dedent(code))
    return apply_rules(load_project([path], path.parent), RULES)


CASES: list[tuple[str, type[Intent] | None, bool]] = [
    (
        """
        @torch.library.custom_op("demo::f", mutates_args=("x",))
        def f(x: Tensor, w: Tensor) -> Tensor:
            return x.mul_(w)
        """,
        AddTag,
        True,
    ),
    (
        """
        @torch.library.custom_op("demo::f", mutates_args=("w",))
        def f(x: Tensor, w: Tensor) -> Tensor:
            return w.mul_(x)
        """,
        ReturnNothing,
        True,
    ),
    (
        """
        @torch.library.custom_op("demo::f", mutates_args=("x",))
        def f(x: Tensor, w: Tensor) -> tuple[Tensor]:
            return (x.mul_(w),)
        """,
        ReturnNothing,
        True,
    ),
    (
        """
        @torch.library.triton_op("demo::f", mutates_args=("x",))
        def f(x: Tensor, w: Tensor) -> Tensor:
            return x.mul_(w)
        """,
        ReturnNothing,
        True,
    ),
    (
        """
        lib.define("f(Tensor x, Tensor(a!) w) -> Tensor")
        lib.impl("f", lambda x, w: w.copy_(x), "CPU")
        """,
        ReturnNothing,
        False,
    ),
    ('lib.define("f(Tensor(a!) x) -> Tensor(a!)")\n', AddTag, True),
    ('lib.define("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")\n', AddTag, True),
    ('lib.define("f(Tensor x, Tensor(a!) out) -> Tensor(a!)")\n', ReturnNothing, False),
    (
        """
        lib.define("f(Tensor x, Tensor(a!) out) -> Tensor(a!)")
        lib.impl("f", lambda x, out: torch.mul(x, 2, out=out), "CPU")
        """,
        TagSchema,
        False,
    ),
    (
        """
        lib.define("f(Tensor x, Tensor(a!) acc) -> Tensor(a!)")
        lib.impl("f", lambda x, acc: acc.add_(x), "CPU")
        """,
        ReturnNothing,
        False,
    ),
    ('lib.define("f(Tensor(a) x) -> Tensor(a)")\n', None, True),
    (
        """
        lib.define("f(Tensor x) -> Tensor")
        lib.define("f.out(Tensor x, Tensor(a!) out) -> ()")
        """,
        None,
        True,
    ),
    (
        """
        lib.define("f(Tensor x, float k=2.0) -> Tensor")
        lib.define(
            "f.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)", tags=torch.Tag.out
        )
        """,
        RenameOverload,
        False,
    ),
]


@pytest.mark.parametrize(("code", "kind", "safe"), CASES)
def test_the_intent_fits_what_is_returned(
    code: str, kind: type[Intent] | None, safe: bool, tmp_path: Path
) -> None:
    (finding,) = found(code, tmp_path)
    if kind is None:
        assert finding.intent is None
        return
    assert isinstance(finding.intent, kind)
    assert finding.intent.op == finding.op
    assert finding.intent.safe is safe
    assert bool(finding.intent.why) is not safe


def test_an_overload_is_to_be_named_after_the_op_it_stands_beside(tmp_path: Path) -> None:
    (finding,) = found(CASES[-1][0], tmp_path)
    assert isinstance(finding.intent, RenameOverload)
    assert (finding.op, finding.intent.new) == ("demo::f.out", "demo::f_out")

"""What the two rules on Optional buffers say of ops in all forms of registration."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.arguments import arguments_of
from opscaffold.rules.catalog import apply_rules
from opscaffold.rules.maybe_out import RULE as MAYBE_OUT
from opscaffold.rules.optional_side_output import RULE as SIDE_OUTPUT
from opscaffold.source.project import load_project

HEAD = "import torch\nfrom typing import List, Optional, Union\nfrom torch import Tensor\n\n\n"


def found(directory: Path, source: str) -> list[Finding]:
    (directory / "ops.py").write_text(HEAD + source, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return list(apply_rules(project, [MAYBE_OUT, SIDE_OUTPUT]))


def op(
    body: str,
    parameters: str = "x: Tensor, out: Optional[Tensor] = None",
    registration: str = 'torch.library.custom_op("demo::run", mutates_args=())',
) -> str:
    lines = textwrap.indent(textwrap.dedent(body), "    ")
    return f"@{registration}\ndef run({parameters}) -> Tensor:\n{lines}"


ALLOCATE = "if out is None:\n    out = torch.empty_like(x)\n"
SPLIT = ALLOCATE + "out.copy_(x)\nreturn out\n"
LIBRARY = """\
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("run(Tensor x, Tensor(a!)? out=None) -> Tensor")


def run(x, out=None):
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x)
    return out


lib.impl("run", run, "CPU")
"""


def test_a_sound_split_is_intended(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, op(SPLIT))
    assert (finding.code, finding.op, finding.severity) == ("OPS101", "demo::run", Severity.ERROR)
    assert finding.intent == SplitMaybeOut("demo::run", "out")
    assert (finding.position.line, finding.position.column) == (7, 20)
    assert [place.line for place in finding.evidence] == [10]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (op(SPLIT), "raises after the buffer was written"),
        (op(ALLOCATE + "out.copy_(x)\nreturn out[:1]\n"), "raises after the buffer was written"),
        (
            op(ALLOCATE + "out.copy_(x)\nif x.dim():\n    return out\nreturn x + 1\n"),
            "raises after the buffer was written",
        ),
        (
            op(SPLIT, registration='torch.library.triton_op("demo::run", mutates_args=())'),
            "raises after the buffer was written",
        ),
        (LIBRARY, "eager mode works, torch.compile takes the two for separate memory"),
        (op("return ext.run(x, out)\n"), "depends on the call"),
    ],
)
def test_what_happens_to_callers_depends_on_the_form(
    source: str, words: str, tmp_path: Path
) -> None:
    (finding,) = found(tmp_path, source)
    assert finding.code == "OPS101"
    assert words in finding.message


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (ALLOCATE + "out.add_(x)\nreturn out\n", None, None),
        ("if out is None:\n    out = x.new_zeros(3)\nout.add_(x)\nreturn out\n", 10, "reads what"),
        (ALLOCATE + "out.copy_(x)\nreturn out.view(-1)\n", 11, "another shape of `out`"),
        (ALLOCATE + "out.resize_(3)\nout.copy_(x)\nreturn out\n", 10, "shape or storage"),
        (ALLOCATE + "x.zero_()\nout.copy_(x)\nreturn out\n", 10, "also mutates `x`"),
        ("if out is None:\n    return x\nout.copy_(x)\nreturn out\n", 9, "did not allocate"),
        ("return ext.run(x, out)\n", 8, "code out of sight"),
    ],
)
def test_an_obstacle_is_named_where_it_stands(
    body: str, line: int | None, words: str | None, tmp_path: Path
) -> None:
    (finding,) = found(tmp_path, op(body))
    if line is None:
        assert finding.intent is not None
        return
    assert finding.intent is None
    assert finding.position.line == line
    assert words is not None
    assert words in finding.message
    assert finding.remedy


@pytest.mark.parametrize(
    ("body", "code", "severity"),
    [
        ("if out is not None:\n    out.copy_(x)\nreturn x * 2\n", "OPS102", Severity.ERROR),
        ("if out is not None:\n    out.fill_(0)\n    out.add_(1)\nreturn x.sum()\n", "OPS102",
         Severity.ERROR),
        ("if out is None:\n    return x * 2\nreturn x + out\n", None, None),
        ("return x if out is None else x + out\n", None, None),
        ("y = x * 2\nif out is not None:\n    y += out\nreturn y\n", None, None),
    ],
)  # fmt: skip
def test_side_outputs_and_plain_optionals(
    body: str, code: str | None, severity: Severity | None, tmp_path: Path
) -> None:
    declared = '("out",)' if code else "()"
    registration = f'torch.library.custom_op("demo::run", mutates_args={declared})'
    reported = found(tmp_path, op(body, registration=registration))
    expected = [] if code is None else [(code, severity)]
    assert [(f.code, f.severity) for f in reported] == expected
    assert all(f.intent is None for f in reported)


def test_a_side_output_beside_nothing_is_only_worth_a_note(tmp_path: Path) -> None:
    source = op("if out is not None:\n    out.copy_(x)\n").replace("-> Tensor", "-> None")
    (finding,) = found(tmp_path, source)
    assert (finding.code, finding.severity) == ("OPS102", Severity.INFO)


@pytest.mark.parametrize(
    ("parameter", "tensor", "optional", "is_list"),
    [
        ("y: Tensor", True, False, False),
        ("y: torch.Tensor", True, False, False),
        ("y: Optional[Tensor]", True, True, False),
        ("y: Optional[torch.Tensor] = None", True, True, False),
        ("y: Tensor | None", True, True, False),
        ("y: Union[None, Tensor]", True, True, False),
        ('y: "Tensor | None" = None', True, True, False),
        ("y: Tensor = None", True, True, False),
        ("y: List[Tensor]", True, False, True),
        ("y: Optional[List[Tensor]] = None", True, True, True),
        ("y: list[Tensor]", True, False, True),
        ("y: int = 1", False, False, False),
        ("y: Optional[int] = None", False, True, False),
        ("y: 'not python ('", False, False, False),
        ("y", False, False, False),
    ],
)
def test_declared_arguments_by_annotation(
    parameter: str, tensor: bool, optional: bool, is_list: bool, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text(
        HEAD + op("return x + 1\n", f"x: Tensor, {parameter}"), "utf-8"
    )
    project = load_project([tmp_path], tmp_path)
    argument = arguments_of(project, project.ops[0])[1]
    assert (argument.name, argument.tensor) == ("y", tensor)
    assert (argument.optional, argument.is_list) == (optional, is_list)


def test_a_schema_says_more_than_annotations(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(HEAD + LIBRARY, "utf-8")
    project = load_project([tmp_path], tmp_path)
    x, out = arguments_of(project, project.ops[0])
    assert (x.tensor, x.optional) == (True, False)
    assert (out.tensor, out.optional) == (True, True)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("y, out", "it returns `out` beside other results"),
        ("y, out[:1]", "it returns a part or another shape of `out`"),
    ],
)
def test_a_buffer_beside_other_results_is_told_from_a_part_of_one(
    returned: str, reason: str, tmp_path: Path
) -> None:
    body = f"y = torch.empty_like(x)\n{ALLOCATE}unseen(y, x, out)\nreturn {returned}\n"
    source = op(body).replace("-> Tensor:", "-> tuple[Tensor, Tensor]:")
    (finding,) = found(tmp_path, "from elsewhere import unseen\n\n\n" + source)
    assert finding.intent is None
    assert reason in finding.message


SIDE = "if extra is not None:\n    extra.copy_(x)\n"


def test_a_side_output_that_is_not_declared_is_no_matter_of_inductor(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, op(SIDE.replace("extra", "out") + "return x * 2\n"))
    assert finding.severity is Severity.INFO


def test_inductor_does_not_fail_where_the_call_mutates_something_else(tmp_path: Path) -> None:
    source = op(
        SIDE + "state.add_(1)\nreturn x * 2\n",
        "x: Tensor, state: Tensor, extra: Optional[Tensor] = None",
        'torch.library.custom_op("demo::run", mutates_args=("state", "extra"))',
    )
    (finding,) = found(tmp_path, source)
    assert finding.severity is Severity.INFO
    assert "callers that omit it get nothing" in finding.message


def test_inductor_fails_where_all_that_is_mutated_is_omitted(tmp_path: Path) -> None:
    source = op(
        SIDE + "if more is not None:\n    more.copy_(x)\nreturn x * 2\n",
        "x: Tensor, extra: Optional[Tensor] = None, more: Optional[Tensor] = None",
        'torch.library.custom_op("demo::run", mutates_args=("extra", "more"))',
    )
    findings = found(tmp_path, source)
    assert [f.severity for f in findings] == [Severity.ERROR] * 2
    assert "fails where `extra` and `more` are omitted" in findings[0].message


UNSEEN = {
    "results by name": "dq, dk, rows = vendor_kernels.run(x, dq, dk)\nreturn rows\n",
    "the first of several": "rows, *rest = vendor_kernels.run(x, dq, dk)\nreturn rows\n",
    "all that comes back": "return vendor_kernels.run(x, dq, dk)\n",
}


@pytest.mark.parametrize("body", UNSEEN.values(), ids=list(UNSEEN))
def test_a_buffer_that_the_op_may_not_return_is_filled_beside_the_result(
    tmp_path: Path, body: str
) -> None:
    source = "import vendor_kernels\n\n\n" + op(
        body,
        "x: Tensor, dq: Optional[Tensor] = None, dk: Optional[Tensor] = None",
        'torch.library.custom_op("demo::run", mutates_args=("dq", "dk"))',
    )
    assert {f.code for f in found(tmp_path, source)} == {"OPS102"}


def test_a_buffer_that_unseen_code_may_return_of_a_low_level_op_is_a_maybe_out(
    tmp_path: Path,
) -> None:
    source = (
        "import vendor_kernels\n\n"
        'lib = torch.library.Library("demo", "FRAGMENT")\n'
        'lib.define("run(Tensor x, Tensor(a!)? out=None) -> Tensor")\n\n\n'
        "def run(x, out=None):\n    return vendor_kernels.run(x, out)\n\n\n"
        'lib.impl("run", run, "CPU")\n'
    )
    assert {f.code for f in found(tmp_path, source)} == {"OPS101"}

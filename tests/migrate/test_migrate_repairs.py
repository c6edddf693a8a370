"""Copies, declared mutations and fakes: each kind of program is repaired, and keeps its word."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from migrating import python, reasons
from repair_programs import CLONES, FAKES, LEFT, MUTATIONS, Program

from opscaffold.findings.model import Severity
from opscaffold.migrate.engine import Migration, Request, migrate
from opscaffold.migrate.outcomes import State
from opscaffold.migrate.plan import Options

CASES = Path(__file__).resolve().parent.parent / "cases"
ASK = "pass --unsafe if that is what you want"
RUNNER = Path(__file__).with_name("run_repaired.py")


def case(number: str, op: str, *calls: str) -> Program:
    source = next(CASES.glob(f"{number}_*")) / "before.py"
    return Program(source.read_text("utf-8"), calls, op, "crag")


CACHED = (
    "torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2), torch.zeros(4, 2), torch.zeros(4, 2)"
)
EXAMPLES = {
    "no ids to map": case(
        "042",
        "remap",
        "(torch.tensor([1, 0]), torch.tensor([5, 6]))",
        "(torch.tensor([1, 0]), torch.empty(0, dtype=torch.int64))",
        "(torch.tensor([1, 0], dtype=torch.int32), torch.tensor([5, 6]))",
    ),
    "packed": case("044", "packed", "(torch.ones(2, 3),)", "(torch.ones(2, 3).t(),)"),
    "as half": case(
        "044", "as_half", "(torch.ones(2), torch.float32)", "(torch.ones(2), torch.float16)"
    ),
    "new anyway": case("044", "fresh_to", "(torch.ones(2), torch.float32)"),
    "given twice": case("045", "twice", "(torch.ones(4),)"),
    "in parts": case("045", "parts", "(torch.ones(4), 2)", "(torch.ones(5), 3)"),
    "head and all": case("045", "head_and_all", "(torch.ones(4),)"),
    "two caches": case("049", "cached_dot", f"({CACHED}, torch.tensor([0]))"),
}
PROGRAMS = {
    f"{kind}: {name}": program
    for kind, table in {
        "clone": CLONES,
        "mutates": MUTATIONS,
        "fake": FAKES,
        "example": EXAMPLES,
    }.items()
    for name, program in table.items()
}


# No fake kernel follows from what these do, or none is written where nothing else changes.
UNTRACED = {
    *("clone: a walrus", "clone: a walrus in a test", "clone: appended", "clone: another kernel"),
    *("clone: an array's", "clone: a buffer that stays", "clone: a cache", "clone: a lambda"),
    *("mutates: an empty string", "example: new anyway", "example: no ids to map"),
}


def repaired(root: Path, program: Program, *, unsafe: bool) -> tuple[str, Migration]:
    """What a program becomes; a second run must find nothing more to do."""
    path = root / "ops.py"
    path.write_text(program.source, "utf-8")
    request = Request(options=Options(unsafe=unsafe))
    first = migrate([root], request, root=root)
    assert not [f for f in first.findings if "fault of opscaffold" in f.message], first.findings
    after = next((new.decode() for _, new in first.changes.values()), program.source)
    path.write_text(after, "utf-8")
    second = migrate([root], request, root=root)
    assert second.changes == {}, "a second run changes something"
    return after, first


@functools.cache
def after(name: str) -> tuple[str, Migration]:
    """One program as it is afterwards."""
    program = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as directory:
        return repaired(Path(directory).resolve(), program, unsafe=program.unsafe)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_repaired_and_nothing_is_left(name: str) -> None:
    text, migration = after(name)
    assert text != PROGRAMS[name].source
    assert not [f for f in migration.findings if f.severity is not Severity.INFO]
    assert migration.plans
    if any(note.code == "OPS110" for note in migration.notes):
        assert name in UNTRACED or name.startswith("example")


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.unsafe])
def test_what_callers_could_notice_waits_for_unsafe(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    text, migration = repaired(tmp_path.resolve(), program, unsafe=False)
    assert text == program.source
    assert {f.code for f in migration.findings} <= {"OPS201", "OPS202", "OPS205", "OPS206"}
    assert "--unsafe" in migration.findings[0].remedy


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_repaired_stays_with_a_reason(name: str, tmp_path: Path) -> None:
    program, reason = LEFT[name]
    text, migration = repaired(tmp_path.resolve(), program, unsafe=False)
    assert text == program.source
    if not reason:
        assert migration.findings == []
        return
    assert any(reason in found for found in reasons(migration)), reasons(migration)
    assert all(finding.remedy for finding in migration.findings)


CACHED_LIST = """\
import torch
from torch import Tensor

_kept = {}


@torch.library.custom_op("demo::f", mutates_args=())
def f(x: Tensor) -> Tensor:
    if "f" not in _kept:
        _kept["f"] = torch.empty_like(x)
    return %s
"""


@pytest.mark.parametrize(
    ("returned", "held"), [('_kept["f"]', False), ('_kept["f"].view(x.shape)', True)]
)
def test_nobody_is_told_to_ask_for_what_would_be_refused(
    tmp_path: Path, returned: str, held: bool
) -> None:
    path = tmp_path.resolve() / "ops.py"
    path.write_text(CACHED_LIST % returned, "utf-8")
    (left,) = migrate([path], root=path.parent).left
    assert left.finding.code == "OPS205"
    assert (left.state is State.UNSAFE) is held
    assert (left.remedy == ASK) is held
    asked = migrate([path], Request(options=Options(unsafe=True)), root=path.parent)
    assert bool(asked.changes) is held


def test_a_kernel_that_another_module_calls_stays(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    kernel = (
        "from torch import Tensor\n\n\ndef run(x: Tensor) -> Tensor:\n    return x.contiguous()\n"
    )
    (root / "kernels.py").write_text(kernel, "utf-8")
    (root / "user.py").write_text("from kernels import run\n\nprint(run(1))\n", "utf-8")
    registered = (
        "import torch\nfrom kernels import run\n\n"
        'f = torch.library.custom_op("demo::f", run, mutates_args=())\n'
    )
    (root / "ops.py").write_text(registered, "utf-8")
    left = migrate([root], root=root)
    assert left.changes == {}
    assert [f.position.path.name for f in left.findings] == ["user.py"]
    (root / "user.py").unlink()
    assert [p.name for p in migrate([root], root=root).changes] == ["kernels.py"]


def words(text: str, kind: int) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(t.string for t in tokens if t.type == kind)


DROPPED = {"fake: redundant, under a heading": {"# this one"}}


@pytest.mark.parametrize("name", PROGRAMS)
def test_comments_and_all_other_lines_stay(name: str) -> None:
    text, before = after(name)[0], PROGRAMS[name].source
    lost = words(before, tokenize.COMMENT) - words(text, tokenize.COMMENT)
    assert set(lost) <= DROPPED.get(name, set())
    kept = [line for line in before.splitlines() if _stays(line)]
    new = iter(text.splitlines())
    assert all(line in new for line in kept)


def _stays(line: str) -> bool:
    """Whether no repair has a reason to touch a line."""
    starts = ("import ", "from ", "class ", "lib = ", "    x.", "    y.", "        y.", "def _f(")
    return line.startswith(starts) and "contiguous" not in line


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How the programs run, all in one process."""
    pytest.importorskip("torch")
    jobs = []
    for number, (name, program) in enumerate(PROGRAMS.items()):
        space = program.namespace
        sources = [
            text.replace(f'"{space}', f'"{prefix}{number}')
            .replace(f"'{space}", f"'{prefix}{number}")
            .replace(f"torch.ops.{space}", f"torch.ops.{prefix}{number}")
            for prefix, text in (("old", program.source), ("new", after(name)[0]))
        ]
        job = {"name": name, "op": program.op, "calls": program.calls}
        job |= {"traced": name not in UNTRACED}
        jobs.append(job | dict(zip(("before", "after"), sources, strict=True)))
    path = tmp_path_factory.mktemp("jobs") / "jobs.json"
    path.write_text(json.dumps(jobs), "utf-8")
    found: dict[str, Any] = json.loads(python(RUNNER, path, timeout=900).splitlines()[-1])
    return found


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_repaired_op_means_the_same_and_keeps_its_contract(
    name: str, outcomes: dict[str, Any]
) -> None:
    assert outcomes[name]["faults"] == []

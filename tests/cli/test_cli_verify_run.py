from __future__ import annotations

import os
from pathlib import Path

import pytest
from stub_worker import stub

from opscaffold.cli import verify_process
from opscaffold.cli.verify_memory import GIB
from opscaffold.cli.verify_process import Limits
from opscaffold.cli.verify_run import CUT_SHORT, STARTS, Outcome, Run
from opscaffold.errors import UserError
from opscaffold.findings.promises import CHECK_FAILED, CRASHED, Verdict

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups")


def run(directory: Path, body: str, *, seconds: float = 30, **request: object) -> Outcome:
    asked = {"targets": ["demo"], "ops": [], "save": None, **request}
    limits = Limits(seconds, 4 * GIB)
    return Run(asked, limits, lambda *_: None, command=stub(directory, body)).run()


def verdicts(outcome: Outcome) -> dict[str, Verdict | None]:
    return {op.name: op.verdict for op in outcome.ops}


def told(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.op, each.promise.code) for each in outcome.told]


def test_ops_findings_and_times_are_kept(tmp_path: Path) -> None:
    body = """
        ops("d::f", "d::g", others=["x::y"])
        for name in ("d::f", "d::g"):
            tell(event="op", op=name)
            tell(event="check", op=name, check="aliasing")
            if name == "d::g": finding(name, "OPS702")
            verdict(name, "breach" if name == "d::g" else "sound")
        tell(event="done", spent={"import torch": 1.5})
    """
    outcome = run(tmp_path, body)
    assert verdicts(outcome) == {"d::f": Verdict.SOUND, "d::g": Verdict.BREACH}
    assert told(outcome) == [("d::g", "OPS702")]
    assert outcome.others == ["x::y"]
    assert outcome.spent["import torch"] == 1.5
    assert outcome.spent.keys() == {"import torch", STARTS}
    assert [op.samples for op in outcome.ops] == [3, 3]


CRASH = """
    ops("d::f", "d::g", "d::h")
    for name in left("d::f", "d::g", "d::h"):
        tell(event="op", op=name)
        if name == "d::g":
            tell(event="check", op=name, check="opcheck")
            {before}
            print("the last words", flush=True)
            {end}
        verdict(name)
    tell(event="done", spent={{"import torch": 1.0}})
"""


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "its process died of SIGSEGV"),
        ("os._exit(7)", "its process exited with code 7"),
        ("sys.exit()", "its process exited with code 0"),
        ("time.sleep(600)", "it took longer than 1 seconds"),
    ],
)
def test_an_op_that_ends_the_process_is_undecided_and_the_rest_goes_on(
    tmp_path: Path, end: str, reason: str
) -> None:
    outcome = run(tmp_path, CRASH.format(before="", end=end), seconds=1)
    assert verdicts(outcome) == {
        "d::f": Verdict.SOUND,
        "d::g": Verdict.UNDECIDED,
        "d::h": Verdict.SOUND,
    }
    (crash,) = outcome.told
    assert (crash.promise, crash.op) == (CRASHED, "d::g")
    first, *rest = crash.message.splitlines()
    assert first == f"while the check opcheck ran, {reason}; the last it wrote:"
    assert rest == ["  | the last words"]
    assert outcome.spent["import torch"] == 2.0
    assert CUT_SHORT in outcome.spent


def test_a_breach_that_was_told_before_the_crash_counts(tmp_path: Path) -> None:
    body = CRASH.format(before="finding(name, 'OPS704')", end="os._exit(1)")
    outcome = run(tmp_path, body)
    assert verdicts(outcome)["d::g"] is Verdict.BREACH
    assert told(outcome) == [("d::g", "OPS704"), ("d::g", "OPS792")]


def test_a_crash_before_the_checks_is_one_of_the_samples(tmp_path: Path) -> None:
    outcome = run(tmp_path, "ops('d::f')\ntell(event='op', op='d::f')\nos._exit(1)\n")
    assert outcome.told[0].message == (
        "while its samples were gathered, its process exited with code 1"
    )


def test_every_op_may_crash(tmp_path: Path) -> None:
    body = """
        names = ["d::f", "d::g", "d::h"]
        ops(*names)
        for name in left(*names):
            tell(event="op", op=name)
            os.abort()
    """
    outcome = run(tmp_path, body)
    assert set(verdicts(outcome).values()) == {Verdict.UNDECIDED}
    assert len(outcome.told) == 3


def test_a_crash_after_the_last_op_changes_nothing(tmp_path: Path) -> None:
    body = "ops('d::f')\ntell(event='op', op='d::f')\nverdict('d::f')\nos.abort()\n"
    assert verdicts(run(tmp_path, body)) == {"d::f": Verdict.SOUND}


def test_what_is_left_when_no_second_process_starts_is_undecided(tmp_path: Path) -> None:
    body = """
        if request["skip"]: os._exit(9)
        ops("d::f", "d::g", "d::h")
        tell(event="op", op="d::f")
        verdict("d::f")
        tell(event="op", op="d::g")
        os.abort()
    """
    outcome = run(tmp_path, body)
    assert verdicts(outcome) == {
        "d::f": Verdict.SOUND,
        "d::g": Verdict.UNDECIDED,
        "d::h": Verdict.UNDECIDED,
    }
    assert outcome.told[1].message == (
        "it was not run, since before that its process exited with code 9"
    )


def test_an_op_that_cannot_be_read_is_undecided(tmp_path: Path) -> None:
    body = "ops('d::f', unreadable=['d::odd'])\n"
    body += "tell(event='op', op='d::f')\nverdict('d::f')\ntell(event='done', spent={})\n"
    outcome = run(tmp_path, body)
    assert verdicts(outcome) == {"d::f": Verdict.SOUND, "d::odd": Verdict.UNDECIDED}
    (finding,) = outcome.told
    assert (finding.promise, finding.op) == (CHECK_FAILED, "d::odd")
    assert finding.message == "the schema of d::odd cannot be read: it is odd"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("tell(event='error', kind='torch', message='No module')", r"opscaffold\[torch\].*No mod"),
        ("tell(event='error', kind='import', message='a.py:3: no')", r"^a\.py:3: no$"),
        ("os.abort()", "importing demo came to nothing: its process died of SIGABRT"),
        ("print('bye'); os._exit(0)", r"importing demo came to nothing.*code 0.*\n  \| bye"),
        ("time.sleep(600)", "importing demo came to nothing: it took longer than 0.5 seconds"),
        ("ops()", "importing demo registers no op; name the file"),
        ("ops(others=['x::y'])", r"only ops of installed packages \(x::y\); name them with --op"),
    ],
)
def test_what_cannot_be_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.setattr(verify_process, "MIN_IMPORT", 0.5)
    with pytest.raises(UserError, match=said):
        run(tmp_path, body, seconds=0.5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("d::fg", "did you mean d::f"),
        ("frobnicate", "did you mean d::frobnicate"),
        ("zzzzzz", "registers no zzzzzz, but d::f, d::frobnicate"),
    ],
)
def test_an_unknown_op_names_what_is_near(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^--op: .*{said}"):
        run(tmp_path, "ops(known=['d::f', 'd::frobnicate'])\ntime.sleep(60)\n", ops=[name])


def test_progress_names_op_and_check(tmp_path: Path) -> None:
    shown: list[tuple[str, int, int]] = []
    body = """
        ops("d::f")
        tell(event="op", op="d::f")
        tell(event="check", op="d::f", check="aliasing")
        verdict("d::f")
        tell(event="done", spent={})
    """
    request = {"targets": ["demo"], "ops": [], "save": None}
    limits = Limits(30, 4 * GIB)
    Run(request, limits, lambda *told: shown.append(told), command=stub(tmp_path, body)).run()
    assert shown == [("importing", 0, 0), ("d::f: samples", 0, 1), ("d::f: aliasing", 0, 1)]

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from checking import Checker
from stub_worker import stub

from opscaffold.cli.app import main
from opscaffold.cli.verify_run import Run
from opscaffold.rules.document import promise_table

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups")

SOUND = """
    ops("d::f")
    tell(event="op", op="d::f")
    verdict("d::f")
    tell(event="done", spent={"import torch": 1.0})
"""
BREACH = """
    ops("d::f")
    tell(event="op", op="d::f")
    finding("d::f", "OPS702")
    verdict("d::f", "breach")
    tell(event="done", spent={"import torch": 1.0})
"""

Verify = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verify(project: Checker, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Runs the command on a worker that does ``body``; exit code, stdout and stderr."""
    project.write("ops.py", "import torch\n")

    def run(body: str, *arguments: str) -> tuple[int, str, str]:
        command = stub(project.directory, body)
        assert Run.__init__.__kwdefaults__ is not None
        monkeypatch.setitem(Run.__init__.__kwdefaults__, "command", command)
        project.capsys.readouterr()
        code = main(["verify", *arguments])
        shown = project.capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_no_breach_exits_with_zero(verify: Verify) -> None:
    code, out, err = verify(SOUND, "ops.py")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "0 findings; 1 op run: 1 sound"


def test_a_breach_exits_with_one(verify: Verify) -> None:
    code, out, _ = verify(BREACH, "ops.py")
    assert code == 1
    assert "stub.py:1:1: OPS702 return-shares-memory: it is so" in out
    assert verify(BREACH, "ops.py", "--exit-zero")[0] == 0
    assert verify(BREACH, "ops.py", "--ignore", "OPS702")[0] == 0
    assert verify(BREACH, "ops.py", "--select", "OPS701,OPS703")[0] == 0


def test_what_is_undecided_exits_with_one(verify: Verify) -> None:
    code, out, _ = verify("ops('d::f')\ntell(event='op', op='d::f')\nos._exit(4)\n", "ops.py")
    assert code == 1
    assert "OPS792 crashed: while its samples were gathered, its process exited with" in out


def test_the_report_goes_to_a_file(verify: Verify) -> None:
    code, out, err = verify(BREACH, "ops.py", "--format", "json", "--output", "report.json")
    assert (code, out) == (1, "")
    assert err == "1 finding (1 error); 1 op run: 1 in breach, written to report.json\n"
    assert json.loads(Path("report.json").read_text("utf-8"))["ops"][0]["verdict"] == "breach"
    assert verify(BREACH, "ops.py", "-q", "-o", "report.json")[1:] == ("", "")


def test_the_worker_is_told_what_was_asked_for(verify: Verify) -> None:
    body = """
        open("request.json", "w").write(line)
        ops("d::f")
        tell(event="op", op="d::f")
        verdict("d::f")
        tell(event="done", spent={})
    """
    options = [
        "--fast",
        "--op",
        "d::f.default",
        "--samples",
        "ops.py:calls",
        "--save-samples",
        "new.py",
    ]
    assert verify(body, "ops.py", "demo.ops", *options)[0] == 0
    request = json.loads(Path("request.json").read_text("utf-8"))
    assert not Path(request.pop("private")).exists()
    assert request == {
        "targets": ["ops.py", "demo.ops"],
        "ops": ["d::f"],
        "skip": [],
        "samples": ["ops.py:calls"],
        "fast": True,
        "save": str(Path.cwd() / "new.py"),
    }


def test_ctrl_c_ends_the_worker(verify: Verify) -> None:
    body = """
        import threading
        open("pid", "w").write(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)
    """
    code, out, err = verify(body, "ops.py")
    assert (code, out, err) == (130, "", "opscaffold: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text("utf-8")), 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.py"], "gone.py: there is no such file or directory"),
        (["some/where"], "some/where: there is no such file or directory"),
        (["pyproject.toml"], "pyproject.toml: is no Python file"),
        (["a-b"], "'a-b' is no path and no dotted name"),
        (["ops.py", "--samples", "calls"], "--samples: 'calls' is not FILE.py:FUNC"),
        (["ops.py", "--samples", "gone.py:calls"], "--samples: gone.py: there is no such file"),
        (["ops.py", "--samples", "a/b:calls"], "--samples: 'a/b' is no .py file and no dotted"),
        (["ops.py", "--memory", "lots"], "--memory: 'lots' is no size"),
        (["ops.py", "--select", "OPS101"], "--select: OPS101 stands for what `opscaffold check`"),
        (["ops.py", "--ignore", "OPS79x"], "--ignore: there is no rule 'OPS79x'"),
        (["ops.py", "--save-samples", "x.txt"], "--save-samples: x.txt: samples are Python"),
        (["ops.py", "--save-samples", "no/x.py"], "--save-samples: no: there is no such dir"),
        (["ops.py", "--output", "ops.py"], "--output: ops.py is there, and its name says"),
        (["ops.py", "--root", "gone"], "--root: gone: there is no such file or directory"),
        (["ops.py", "--timeout", "0"], "--timeout"),
        ([], "TARGETS"),
    ],
)
def test_wrong_usage_is_refused_before_anything_runs(
    project: Checker, arguments: list[str], said: str
) -> None:
    project.write("ops.py", "raise SystemExit('this ran')\n")
    assert main(["verify", *arguments]) == 2
    shown = project.capsys.readouterr()
    assert said in " ".join(shown.err.split())
    assert shown.out == ""


def test_without_torch_it_says_what_to_install(
    project: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("ops.py", "import torch\n")
    project.write("torch.py", "raise ImportError('libtorch.so: no such file')\n")
    assert main(["verify", "ops.py"]) == 2
    error = project.capsys.readouterr().err
    assert error == (
        "opscaffold: error: verify runs ops, and needs torch: python -m pip install "
        "'opscaffold[torch]' (importing it said: libtorch.so: no such file)\n"
    )


def test_the_help_says_that_it_runs_code(project: Checker) -> None:
    assert main(["verify", "--help"]) == 0
    text = " ".join(project.capsys.readouterr().out.split())
    assert "This imports torch and runs your code" in text


def test_the_page_lists_what_is_reported(repository_root: Path) -> None:
    page = (repository_root / "docs" / "verify.md").read_text("utf-8")
    assert page.endswith(f"\n\n{promise_table()}\n"), "put promise_table() at its end"

"""Writing: each repair whole or not at all, whatever comes in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from migrate_runs import CALLER, OPS, Run, commit, contents, git, write

from opscaffold.cli import migrate_run
from opscaffold.cli.migrate_write import refuse_dirty
from opscaffold.contract.model import OpContract
from opscaffold.errors import UserError
from opscaffold.fs import journal
from opscaffold.fs.atomic import StaleFileError
from opscaffold.fs.journal import Unit, write_units
from opscaffold.migrate import postcheck

SECOND = OPS.replace("double", "halve")


def files_of(tree: Path) -> dict[str, str]:
    return {name: data.decode() for name, data in contents(tree).items()}


def is_whole(files: dict[str, str], op: str, definition: str, caller: str) -> bool:
    """Whether an op and its caller are both old or both new."""
    return (f"{op}_out" in files[definition]) == (f"{op}_out" in files[caller])


def test_backups_hold_what_files_held_at_first(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER, other="A = 1\n")
    assert Run(capsysbinary, "--write", "--backup").code == 0
    after = contents(tree)
    assert after["ops.py.orig"] == OPS.encode()
    assert after["caller.py.orig"] == CALLER.encode()
    assert "other.py.orig" not in after
    assert b"double_out" in after["ops.py"]


def test_a_backup_in_the_way_is_not_overwritten(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    (tree / "ops.py.orig").write_text("mine\n", "utf-8")
    run = Run(capsysbinary, "--write", "--backup")
    assert run.code == 2
    assert "ops.py.orig" in run.err
    assert contents(tree) == {"ops.py": OPS.encode(), "ops.py.orig": b"mine\n"}


def test_a_file_that_changes_after_planning_stops_everything(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, a=SECOND, ops=OPS, caller=CALLER)
    changed = CALLER + "\n# mine\n"

    def plan_then_change(*arguments: object, **options: object) -> object:
        result = plan(*arguments, **options)  # type: ignore[arg-type]
        write(tree, caller=changed)
        return result

    plan = migrate_run.migrate
    monkeypatch.setattr(migrate_run, "migrate", plan_then_change)
    run = Run(capsysbinary, "--write")
    assert run.code == 2
    assert "caller.py: it changed since it was read; nothing was written" in run.err
    assert contents(tree) == {
        "a.py": SECOND.encode(),
        "ops.py": OPS.encode(),
        "caller.py": changed.encode(),
    }


@pytest.mark.parametrize(("stop_after", "in_git"), [(1, True), (2, False), (4, True), (5, False)])
def test_what_a_killed_run_left_is_mended_by_the_next(
    tree: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    repository_root: Path,
    stop_after: int,
    in_git: bool,
) -> None:
    write(tree, ops=OPS, caller=CALLER, more=SECOND)
    write(tree, calls=CALLER.replace("double", "halve").replace("from ops", "from more"))
    if in_git:
        commit(tree)
    program = textwrap.dedent(
        """\
        import os, pathlib, sys
        from opscaffold.cli.app import main
        left = int(sys.argv[1])
        replace = pathlib.Path.replace
        def killed(self, target):
            global left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), 9)
            return replace(self, target)
        pathlib.Path.replace = killed
        main(["migrate", "--write"])
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(stop_after)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(repository_root)},
        check=False,
        capture_output=True,
        text=True,
    )
    killed = done.returncode == -signal.SIGKILL
    # The journal, and two files for each of two ops.
    assert killed == (stop_after < 5), done.stderr
    if killed:
        told = Run(capsysbinary, "--check")
        assert "--write" in told.err
    run = Run(capsysbinary, "--write", "--allow-dirty")
    assert run.code == 0
    assert ("an earlier run was killed while it wrote" in run.err) == killed
    files = files_of(tree)
    assert all("_out" in files[name] for name in ("ops.py", "caller.py", "more.py", "calls.py"))
    assert set(files) == {"ops.py", "caller.py", "more.py", "calls.py"}
    assert Run(capsysbinary, "--check").code == 0
    if in_git:
        assert "??" not in git(tree, "status", "--porcelain")


def test_recovery_alone_leaves_each_op_whole(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, ops=OPS, caller=CALLER)

    class KilledError(BaseException):
        pass

    def die(*_: object) -> None:
        raise KilledError

    real = journal.commit
    done: list[object] = []

    def commit_one(item: journal.Staged, *, sync: bool = True) -> None:
        if done:
            os._exit(9)
        done.append(item)
        real(item, sync=sync)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(journal, "commit", commit_one)
        Run(capsysbinary, "--write")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    half = files_of(tree)
    assert not is_whole(half, "double", "ops.py", "caller.py")
    write(tree, marker="import torch\n")
    run = Run(capsysbinary, "--write", "--only", "demo::double")
    assert "finished now: demo::double" in run.err
    assert is_whole(files_of(tree), "double", "ops.py", "caller.py")


@pytest.mark.parametrize("other", [False, True])
def test_what_an_earlier_run_wrote_is_told_from_other_changes(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], other: bool
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    commit(tree)
    whole = Run(capsysbinary, "--write")
    assert whole.code == 0
    if other:
        write(tree, notes="import torch\n")
    made = [tree / "ops.py", tree / "caller.py"]
    with pytest.raises(UserError, match="commit them, or pass --allow-dirty") as raised:
        refuse_dirty(tree, allow_dirty=False, earlier=made)
    said = "caller.py, ops.py from the run" if other else "all from the run that was killed"
    assert said in str(raised.value).replace(f"{tree}/", "")


def test_ctrl_c_while_writing_leaves_nothing_half_written(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, ops=OPS, caller=CALLER, more=SECOND)
    real = journal.commit

    def interrupted(item: journal.Staged, *, sync: bool = True) -> None:
        real(item, sync=sync)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(journal, "commit", interrupted)
    run = Run(capsysbinary, "--write")
    assert run.code == 130
    assert "written before it stopped: demo::" in run.err
    assert "TORCHINDUCTOR_CACHE_DIR" in run.err
    files = files_of(tree)
    assert is_whole(files, "double", "ops.py", "caller.py")
    changed = ["double_out" in files["ops.py"], "halve_out" in files["more.py"]]
    assert sorted(changed) == [False, True]
    assert set(files) == {"ops.py", "caller.py", "more.py"}


def test_ctrl_c_while_planning_writes_nothing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, ops=OPS, caller=CALLER)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(migrate_run, "migrate", interrupted)
    assert Run(capsysbinary, "--write").code == 130
    assert contents(tree) == {"ops.py": OPS.encode(), "caller.py": CALLER.encode()}


def test_another_run_at_work_is_an_error(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, held="A = 1\n")
    codes: list[Run] = []

    def meanwhile(_: str) -> None:
        codes.append(Run(capsysbinary, "--write"))

    held = {tree / "held.py": (b"A = 1\n", b"A = 2\n")}
    write_units(tree, [Unit("held", held)], progress=meanwhile)
    assert [run.code for run in codes] == [2]
    assert "another run of opscaffold" in codes[0].err
    assert (tree / "ops.py").read_bytes() == OPS.encode()


def test_a_refused_write_leaves_no_directory_behind(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, ops=OPS)
    monkeypatch.setattr(journal, "require_unchanged", _stale)
    run = Run(capsysbinary, "--write", "--tests", "deep/er/tests")
    assert run.code == 2
    assert [path.name for path in tree.iterdir()] == ["ops.py"]
    monkeypatch.undo()
    monkeypatch.chdir(tree)
    assert Run(capsysbinary, "--write", "--tests", "deep/er/tests").code == 0
    assert len(list((tree / "deep/er/tests").iterdir())) == 1


def _stale(path: Path, old: bytes | None) -> None:
    del old
    raise StaleFileError(path, "it changed since it was read")


@pytest.fixture
def wrong_contract(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets an op look afterwards as if its definition were another."""

    def install(name: str) -> None:
        real = postcheck._contract

        def wrong(project: object, found: str) -> OpContract | None:
            other = "demo::triple_out" if name == "demo::double" else "demo::triple"
            shown = other if found == name else found
            return real(project, shown)  # type: ignore[arg-type]

        monkeypatch.setattr(postcheck, "_contract", wrong)

    return install


@pytest.mark.parametrize("half", ["demo::double", "demo::double_out"])
def test_an_op_without_the_contract_it_should_have_is_withdrawn_everywhere(
    tree: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    wrong_contract: Callable[[str], None],
    half: str,
) -> None:
    triple = OPS.replace("double", "triple")
    write(tree, ops=OPS, caller=CALLER, more=triple)
    wrong_contract(half)
    run = Run(capsysbinary, "--write")
    assert run.code == 1
    assert "withdrawn" in run.err
    assert "fault of opscaffold" in run.err
    after = contents(tree)
    assert after["ops.py"] == OPS.encode()
    assert after["caller.py"] == CALLER.encode()
    assert b"triple_out" in after["more.py"]


def test_an_op_that_is_there_twice_afterwards_is_withdrawn(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    real = postcheck.definitions
    monkeypatch.setattr(
        postcheck,
        "definitions",
        lambda project, name: real(project, name) + 2 * (name == "demo::double_out"),
    )
    run = Run(capsysbinary, "--write")
    assert run.code == 1
    assert "`demo::double_out` is defined 3 times afterwards" in run.err
    assert contents(tree) == {"ops.py": OPS.encode(), "caller.py": CALLER.encode()}


def test_the_line_about_caches_is_said_once_and_only_after_writing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    assert "cached" not in Run(capsysbinary).err
    assert Run(capsysbinary, "--write").err.count("Compiled code that torch has cached") == 1
    assert "cached" not in Run(capsysbinary, "--write").err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--write", "--check"], "exclude each other"),
        (["--write", "--interactive"], "exclude each other"),
        (["--write", "--plan", "p.json"], "exclude each other"),
        (["--backup"], "--backup goes with"),
        (["--force"], "--force goes with --tests"),
        (["--deprecate"], "--deprecate goes with --compat"),
        (["--target-torch", "new"], "--target-torch: 'new' is no torch version"),
        (["--target-torch", "2.3"], "--target-torch: 2.3 has no custom_op, which came with 2.4"),
        (["--out-naming", "other"], "other"),
        (["--root", "ops.py"], "is no directory"),
        (["--only", "demo::doubel"], "did you mean demo::double?"),
        (["--only", "other::thing"], "--list-ops"),
        (["--select", "OPS9999"], "no rule"),
        (["--select", "maybe-ot"], "did you mean 'maybe-out'"),
    ],
)
def test_wrong_usage_is_exit_2_and_writes_nothing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], flags: list[str], said: str
) -> None:
    write(tree, ops=OPS)
    run = Run(capsysbinary, *flags)
    assert run.code == 2
    assert said in run.err
    assert contents(tree) == {"ops.py": OPS.encode()}


def test_an_op_outside_of_the_paths_is_said_to_be_there(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, more=SECOND)
    run = Run(capsysbinary, "more.py", "--only", "demo::double")
    assert run.code == 2
    assert "ops.py, outside of the paths" in run.err


def test_only_repairs_the_named_ops_with_their_call_sites(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER, more=SECOND, third=OPS.replace("double", "third"))
    run = Run(capsysbinary, "--write", "--only", "demo::double", "--only", "demo::third")
    assert run.code == 0
    files = files_of(tree)
    assert "double_out" in files["caller.py"]
    assert "third_out" in files["third.py"]
    assert files["more.py"] == SECOND


def test_ignored_and_unselected_rules_repair_nothing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    for flags in (["--ignore", "OPS101"], ["--ignore", "maybe-out"], ["--select", "OPS2"]):
        run = Run(capsysbinary, "--write", *flags)
        assert run.code == 0
        assert contents(tree) == {"ops.py": OPS.encode()}
    assert Run(capsysbinary, "--write", "--select", "OPS101").code == 0
    assert b"double_out" in contents(tree)["ops.py"]


def test_an_older_torch_gets_no_tags(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    assert Run(capsysbinary, "--write", "--target-torch", "2.9").code == 0
    files = files_of(tree)
    assert "Tag" not in files["ops.py"]
    assert "double_out(x, buf)" in files["caller.py"]


def test_quiet_says_only_what_needs_a_person(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    run = Run(capsysbinary, "--quiet", "--report", "r.html")
    assert run.code == 0
    assert run.err == ""
    assert run.out.startswith(b"diff --git")

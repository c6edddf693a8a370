from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opscaffold
from opscaffold.cli import app

ROOT = str(Path(opscaffold.__file__).resolve().parent.parent)

SCALE = "my_ops::scale(Tensor x, float alpha=1.0) -> Tensor"
BLEND = "blend(Tensor x, Tensor y) -> Tensor"


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, which is the current directory."""
    assert app.main(["new", "my-ops", "--schema", SCALE, "--output-dir", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path / "my-ops")
    return tmp_path / "my-ops"


class Said:
    """What one run of ``add`` said, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = app.main(["add", *arguments])
        self.out, self.err = capsys.readouterr()


def files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_ops_of_every_wording_are_added_at_once(
    made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = tmp_path / "ops.toml"
    told.write_text('[[op]]\nschema = "count(Tensor x) -> int"\n', "utf-8")
    said = Said(
        capsys,
        *("--schema", BLEND, "--signature", "def shift(x: Tensor, by: float) -> Tensor"),
        *("--answers", str(told)),
    )
    assert said.code == 0, said.err
    assert "Added 3 ops (count, blend, shift)" in said.out
    assert "  new   src/my_ops/ops/count.py\n" in said.out
    assert "  edit  README.md\n" in said.out
    again = Said(capsys, "--op", "fill_", "--kind", "in-place", "--param", "Tensor x")
    assert again.code == 0, again.err
    names = ["blend", "count", "fill_", "scale", "shift"]
    init = (made / "src/my_ops/__init__.py").read_text("utf-8")
    assert init.endswith(f"__all__ = [{', '.join(f'{chr(34)}{n}{chr(34)}' for n in names)}]\n")


def test_a_dry_run_shows_the_diff_and_writes_nothing(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(made)
    said = Said(capsys, "--schema", BLEND, "--family", "--fake", "broadcast", "--dry-run")
    assert said.code == 0
    assert "+from my_ops.ops.blend import blend, blend_, blend_out\n" in said.out
    assert "new file mode 100644" in said.out
    assert "generated.zip" not in said.out
    assert "Nothing was written" in said.err
    assert files(made) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no op is told"),
        (["--op", "fill_"], "answers are missing: --param"),
        (["--schema", SCALE], "has an op scale already"),
        (["--schema", "SCALE(Tensor x) -> Tensor"], "has an op scale already"),
        (
            ["--schema", BLEND, "--schema", "BLEND_(Tensor(a!) x) -> Tensor(a!)", "--family"],
            "BLEND_: a family is told by its functional op",
        ),
        (["--schema", "other::blend(Tensor x) -> Tensor"], "a package has one namespace"),
        (["--schema", "blend(Tensor x) -> Tensor(a)"], "--schema: "),
        (["--schema", BLEND, "--by-hand", "nothing.md"], "is no file of"),
        (["nowhere", "--schema", BLEND], "there is no such directory"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    before = files(made)
    said = Said(capsys, *arguments)
    assert said.code == 2
    assert reason in said.err
    assert files(made) == before


def test_outside_of_a_package_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = Said(capsys, "--schema", BLEND)
    assert said.code == 2
    assert "opscaffold new" in said.err
    assert "opscaffold adopt" in said.err


def test_the_answers_of_the_package_are_not_changed_by_a_file(
    made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = tmp_path / "ops.toml"
    told.write_text(f'torch_min = "2.6"\n[[op]]\nschema = "{BLEND}"\n', "utf-8")
    said = Said(capsys, "--answers", str(told))
    assert said.code == 2
    assert f"{told}:1: the package has '2.13' as its torch_min" in said.err
    told.write_text(f'torch_min = "2.13"\n[[op]]\nschema = "{BLEND}"\n', "utf-8")
    assert Said(capsys, "--answers", str(told)).code == 0


def test_what_is_left_to_the_author_is_told(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made / "README.md").write_text("# Mine\n", "utf-8")
    refused = Said(capsys, "--schema", BLEND)
    assert refused.code == 2
    assert "--by-hand README.md" in refused.err
    said = Said(capsys, "--schema", BLEND, "--by-hand", "README.md")
    assert said.code == 0
    assert "By hand, into README.md:\n    | `my_ops.blend` | functional |" in said.err
    assert (made / "README.md").read_text("utf-8") == "# Mine\n"


def test_an_update_afterwards_finds_nothing_to_do(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (made / "src/my_ops/__init__.py").open("a", encoding="utf-8") as file:
        file.write("\n# Mine.\n")
    assert Said(capsys, "--schema", BLEND).code == 0
    assert app.main(["update", "--check"]) == 0


def test_defaults_make_an_op_of_a_free_name(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Added 1 op (my_op)" in Said(capsys, "--defaults").out
    assert "Added 1 op (my_op2)" in Said(capsys, "--defaults").out


def test_on_a_terminal_ops_are_asked_for_and_shown(made: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "opscaffold", "add", str(made), "--schema", BLEND],
        encoding="utf-8",
        timeout=60,
        dimensions=(60, 200),
        env={**os.environ, "TERM": "dumb", "PYTHONPATH": ROOT},
    )
    try:
        while child.expect_exact(["Another op?", "] > "]):
            child.sendline("")
        child.expect_exact("] > ")
        child.sendline("")
        child.expect_exact("new   src/my_ops/ops/blend.py")
        child.expect_exact("Write these files?")
        child.expect_exact("] > ")
        child.sendline("n")
        child.expect(pexpect.EOF)
        child.close()
    finally:
        child.close(force=True)
    assert child.exitstatus == 1
    assert not (made / "src/my_ops/ops/blend.py").exists()


def test_what_is_in_the_way_is_said_before_a_question_is_asked(made: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    (made / "README.md").write_text("# Mine\n", "utf-8")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "opscaffold", "add", str(made)],
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "TERM": "dumb", "PYTHONPATH": ROOT},
    )
    try:
        child.expect_exact("table of ops")
        child.expect(pexpect.EOF)
        child.close()
    finally:
        child.close(force=True)
    assert child.exitstatus == 2

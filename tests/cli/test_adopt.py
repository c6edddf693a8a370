from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opscaffold
from opscaffold.cli import app

ROOT = str(Path(opscaffold.__file__).resolve().parent.parent)

OPS = """\
import torch


@torch.library.custom_op("acme::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
"""


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an op written by hand, which is the current directory."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme/__init__.py").write_text("from .kernels import double as double\n", "utf-8")
    (tmp_path / "acme/kernels.py").write_text(OPS, "utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'acme-ops'\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_shows_and_writes_nothing(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(written.rglob("*"))
    assert app.main(["adopt", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "functional  acme::double(Tensor x) -> Tensor  [acme/kernels.py]" in said.out
    assert "  opscaffold_samples.py\n" in said.out
    assert "Note: the project does not say which torch it needs" in said.out
    assert "Nothing was written" in said.err
    assert sorted(written.rglob("*")) == before


def test_adopted_once_ops_are_added_and_updates_find_nothing(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["adopt", "--torch-min", "2.12", "--tests", "checks"]) == 0
    assert app.main(["add", "--schema", "fill_(Tensor(a!) x) -> Tensor(a!)"]) == 0
    assert (written / "acme/__init__.py").read_text("utf-8") == (
        "from .kernels import double as double\nfrom .ops.fill_ import fill_ as fill_\n"
    )
    assert (written / "checks/test_fill_.py").is_file()
    # Before 2.13 there are no tags.
    assert "tags=" not in (written / "acme/ops/fill_.py").read_text("utf-8")
    assert app.main(["update", "--check"]) == 0
    capsys.readouterr()
    assert app.main(["adopt"]) == 2
    assert "opscaffold add" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--namespace", "aten"], "--namespace: "),
        (["--torch-min", "1.9"], "--torch-min: "),
        (["--registration", "magic"], "--registration: "),
        (["--module", "other"], "--module: there is no package other"),
        (["--tests", "../elsewhere"], "--tests: "),
        (["nowhere"], "there is no such directory"),
        (["pyproject.toml"], "is no directory"),
    ],
)
def test_what_cannot_be_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    before = sorted(written.rglob("*"))
    assert app.main(["adopt", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(written.rglob("*")) == before


def test_on_a_terminal_a_namespace_is_asked_for_and_the_rest_confirmed(written: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    (written / "acme/more.py").write_text(OPS.replace("acme::", "zeta::"), "utf-8")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "opscaffold", "adopt", str(written)],
        encoding="utf-8",
        timeout=60,
        dimensions=(60, 200),
        env={**os.environ, "TERM": "dumb", "PYTHONPATH": ROOT},
    )
    try:
        child.expect_exact("several namespaces: acme, zeta")
        child.expect_exact("Which one")
        child.sendline("beta")
        child.expect_exact("is none of them")
        child.sendline("zeta")
        child.expect_exact("namespace zeta")
        child.expect_exact("Write these files?")
        child.sendline("n")
        child.expect(pexpect.EOF)
        child.close()
    finally:
        child.close(force=True)
    assert child.exitstatus == 1
    assert not (written / ".opscaffold").exists()

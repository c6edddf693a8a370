"""``--from`` on the command line: what is said, what is refused, what is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscaffold.cli import app
from opscaffold.cli.new_from import Functions, read_functions
from opscaffold.errors import UserError
from opscaffold.scaffold.given import Answers

MODULE = '''\
import torch
import vendor
from torch import Tensor


def gain(x: Tensor, factor: float, out: Tensor | None = None) -> Tensor:
    """Multiply."""
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, factor, out=out)


def shift_(x: Tensor) -> Tensor:
    return x.add_(1)


def plain(x, n=2):
    return x * n


def hidden(x: Tensor, y: Tensor) -> Tensor:
    return vendor.run(x, y)


def view(x: Tensor) -> Tensor:
    return x[0]
'''


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "code" / "module.py"
    path.parent.mkdir()
    path.write_text(MODULE, "utf-8")
    return path


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_it_shows_each_step_and_makes_the_package(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["new", "made", "--from", "code/module.py:gain"]) == 0
    out = capsys.readouterr().out
    assert "it becomes two ops over one kernel" in out
    assert "code/module.py:10: overwrites out" in out
    assert "-> functional: gain(Tensor x, float factor) -> Tensor" in out
    assert "-> out=: gain_out(Tensor x, float factor, *, Tensor(a2!) out) -> Tensor(a2!)" in out
    made = tmp_path / "made" / "src" / "made"
    assert MODULE[MODULE.index("def gain") : MODULE.index("\n\n\ndef shift_")] in (
        made / "kernels" / "gain.py"
    ).read_text("utf-8")
    assert "def gain_out(x: Tensor, factor: float, *, out: Tensor) -> Tensor:" in (
        made / "ops" / "gain_out.py"
    ).read_text("utf-8")
    assert source.read_text("utf-8") == MODULE


def test_the_saved_answers_make_the_same_package_without_the_file(
    source: Path, tmp_path: Path
) -> None:
    where = ["--from", "code/module.py:gain", "--from", "code/module.py:shift_"]
    assert app.main(["new", "made", *where, "--save-answers", "answers.toml"]) == 0
    source.unlink()
    assert app.main(["new", "--answers", "answers.toml", "-o", "again"]) == 0
    assert files(tmp_path / "again" / "made") == files(tmp_path / "made")


def test_add_puts_functions_into_a_package_that_is_there(source: Path, tmp_path: Path) -> None:
    assert source.is_file()
    assert app.main(["new", "made", "--schema", "first(Tensor x) -> Tensor"]) == 0
    assert app.main(["add", "made", "--from", "code/module.py:gain"]) == 0
    init = (tmp_path / "made" / "src" / "made" / "__init__.py").read_text("utf-8")
    assert '__all__ = ["first", "gain", "gain_out"]' in init
    samples = (tmp_path / "made" / "opscaffold_samples.py").read_text("utf-8")
    assert "def tried(" in samples
    assert '"made::gain_out": gain_out_samples' in samples
    assert app.main(["update", "made", "--check"]) == 0


def test_the_module_is_never_run(source: Path, tmp_path: Path) -> None:
    trap = "from pathlib import Path\nPath('ran').touch()\nraise SystemExit(3)\n"
    source.write_text(trap + MODULE, "utf-8")
    assert app.main(["new", "made", "--from", "code/module.py:gain"]) == 0
    assert not (tmp_path / "ran").exists()
    kernel = (tmp_path / "made" / "src" / "made" / "kernels" / "gain.py").read_text("utf-8")
    assert "SystemExit" not in kernel


def test_an_adopted_package_is_told_what_to_do_instead(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert source.is_file()
    package = tmp_path / "own" / "own"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Own."""\n', "utf-8")
    project = '[project]\nname = "own"\nversion = "1"\n'
    (tmp_path / "own" / "pyproject.toml").write_text(project, "utf-8")
    assert app.main(["adopt", "own"]) == 0
    assert app.main(["add", "own", "--from", "code/module.py:gain"]) == 2
    assert "call the function in its kernel" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    assert source.is_file()
    assert app.main(["new", "made", "--dry-run", "--from", "code/module.py:gain"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "code/module.py"], "names no function"),
        (["--from", "code/gone.py:f"], "is not there"),
        (["--from", "code:f"], "is a directory"),
        (["--from", "code/module.py:gian"], "did you mean gain?"),
        (["--from", "code/module.py:view"], "code/module.py:26: view returns memory of x"),
        (["--from", "code/module.py:plain"], "--param 'x: Tensor'"),
        (["--from", "code/module.py:hidden"], "whether hidden writes to x and y cannot be seen"),
        (["--from", "code/module.py:hidden", "--kind", "functional"], "--fake same"),
        (["--from", "code/module.py:shift_", "--kind", "functional"], "x is written to"),
        (["--from", "code/module.py:shift_", "--autograd"], "register_autograd"),
        (["--from", "code/module.py:shift_", "--family"], "a function is one op"),
        (["--from", "code/module.py:shift_", "--kernel", "numpy"], "the function is the kernel"),
        (["--from", "code/module.py:shift_", "--out", "x"], "is read from it"),
        (["--from", "code/module.py:gain", "--vmap"], "does not go with --from"),
        (["--clone-returns", "--schema", "f(Tensor x) -> Tensor"], "name one with --from"),
        (["--from-import", "--schema", "f(Tensor x) -> Tensor"], "name one with --from"),
        (["--kernel", "wrapped", "--schema", "f(Tensor x) -> Tensor"], "no function to wrap"),
        (
            ["--from", "code/module.py:gain", "--from", "code/module.py:view", "--kind", "out"],
            "--from names several",
        ),
        (
            ["--from", "code/module.py:gain", "--from", "./code/module.py:gain"],
            "it makes an op gain",
        ),
    ],
)
def test_what_will_not_do_is_said_and_nothing_is_written(
    arguments: list[str],
    message: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert source.is_file()
    assert app.main(["new", "made", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_flags_say_what_cannot_be_seen(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert source.is_file()
    where = ["new", "made", "--from", "code/module.py:hidden", "--mutates", "y", "--op", "seen"]
    assert app.main([*where, "--fake", "expression", "--fake-shape", "x.shape[0], 2"]) == 0
    assert "-> mutable: seen(Tensor x, Tensor(a1!) y) -> Tensor" in capsys.readouterr().out
    op = (tmp_path / "made" / "src" / "made" / "ops" / "seen.py").read_text("utf-8")
    assert "return (x.shape[0], 2), x.dtype, x.device" in op
    assert "from made.kernels.seen import op_kernel" in op


class Typed:
    """A terminal on which answers are typed in order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.said: list[str] = []

    def show(self, text: str, style: str = "") -> None:
        self.said.append(text)

    def read(self, default: str) -> str:
        if not self.answers:
            raise EOFError
        return self.answers.pop(0) or default


def asked(source: Path, function: str, *typed: str) -> tuple[list[str], Typed]:
    screen = Typed(*typed)
    functions = Functions([f"{source}:{function}"])
    tables = read_functions(functions, {}, Answers(), source.parent, screen=screen)
    assert not screen.answers
    return [f"{t['kind'].value}: {t['schema'].value}" for t in tables], screen


def test_what_the_code_leaves_open_is_asked_one_thing_at_a_time(source: Path) -> None:
    found, _ = asked(source, "plain", "x: tensr", "x: Tensor", "n: int", "")
    assert found == ["functional: plain(Tensor x, SymInt n=2) -> Tensor"]
    found, screen = asked(source, "hidden", "none", "sme", "same")
    assert found == ["functional: hidden(Tensor x, Tensor y) -> Tensor"]
    assert any("vendor.run is out of sight, and is given x" in text for text in screen.said)
    found, _ = asked(source, "hidden", "y", "expression", "x.shape[0]")
    assert found == ["mutable: hidden(Tensor x, Tensor(a1!) y) -> Tensor"]


def test_the_end_of_the_input_is_an_error_and_no_answer(source: Path) -> None:
    with pytest.raises(UserError, match="the input ended"):
        asked(source, "hidden", "none")

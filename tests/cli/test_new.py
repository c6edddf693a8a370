from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscaffold.cli import app
from opscaffold.scaffold.templates import ROOT, template_directory

SCALE = "mylib::scale(Tensor x, float alpha=1.0) -> Tensor"
ANSWERS = """\
package = "filed"
namespace = "ns"

[[op]]
schema = "scale(Tensor x, float alpha=1.0) -> Tensor"
family = true

[[op]]
signature = "def norm(x: Tensor, dims: int) -> Tensor"
fake = "expression"
fake_shape = ["x.shape[0]", "dims"]
autograd = false
"""


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


@pytest.fixture
def new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> type[Run]:
    Run.directory = tmp_path
    Run.capsys = capsys
    return Run


class Run:
    """One run of the command in the test's directory."""

    directory: Path
    capsys: pytest.CaptureFixture[str]

    def __init__(self, *arguments: str) -> None:
        where = [] if "--output-dir" in arguments else ["--output-dir", str(self.directory)]
        self.code = app.main(["new", *arguments, *where])
        self.out, self.err = self.capsys.readouterr()

    @classmethod
    def files(cls, name: str) -> dict[str, bytes]:
        root = cls.directory / name
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def failed(self) -> str:
        """The one line of a refused run, after which nothing was made."""
        assert self.code == 2
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        assert not list(self.directory.glob("my-ops*"))
        return self.err


def test_a_schema_makes_a_package_and_says_what_is_next(new: type[Run]) -> None:
    run = new("my-ops", "--schema", SCALE)
    assert (run.code, run.err) == (0, "")
    assert (new.directory / "my-ops" / "pyproject.toml").is_file()
    assert "1 op (scale)" in run.out
    for command in ("cd ", "pip install -e", "pytest"):
        assert command in run.out


def test_a_signature_makes_the_same_package_as_its_schema(new: type[Run]) -> None:
    new("my-ops", "--schema", SCALE)
    first = new.files("my-ops")
    text = "def scale(x: Tensor, alpha: float = 1.0) -> Tensor"
    assert new("my-ops", "--signature", text, "--namespace", "mylib", "--force").code == 0
    assert new.files("my-ops") == first


def test_flags_alone_tell_an_op(new: type[Run]) -> None:
    new("my-ops", "--schema", SCALE)
    first = new.files("my-ops")
    parts = ["--op", "scale", "--kind", "functional", "--param", "Tensor x", "--returns", "Tensor"]
    parts += ["--param", "alpha: float = 1.0", "--namespace", "mylib", "--fake", "same"]
    parts += ["--fake-like", "x", "--autograd", "--no-family", "--torch-min", "2.13"]
    assert new("my-ops", *parts, "--force").code == 0
    assert new.files("my-ops") == first


def test_saved_answers_make_the_package_again_byte_for_byte(new: type[Run]) -> None:
    saved = new.directory / "saved.toml"
    source = new.directory / "answers.toml"
    source.write_text(ANSWERS)
    assert new("--answers", str(source), "--save-answers", str(saved)).code == 0
    first = new.files("filed")
    text = saved.read_bytes()
    assert new("--answers", str(saved), "--force", "--save-answers", str(saved)).code == 0
    assert new.files("filed") == first
    assert saved.read_bytes() == text


def test_flags_overrule_the_file(new: type[Run]) -> None:
    source = new.directory / "answers.toml"
    source.write_text(ANSWERS)
    saved = new.directory / "saved.toml"
    arguments = ["my-ops", "--namespace", "other", "--op", "scale", "--no-family"]
    assert new("--answers", str(source), "--save-answers", str(saved), *arguments).code == 0
    text = saved.read_text()
    assert 'package = "my-ops"' in text
    assert 'namespace = "other"' in text
    assert "family = true" not in text


def test_defaults_answer_everything(new: type[Run]) -> None:
    assert new("--defaults").code == 0
    assert new.files("my-ops")


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ([], ["PACKAGE", "--schema", "--signature", "--op"]),
        (["my-ops"], ["--schema"]),
        (["my-ops", "--op", "f"], ["--param", "--returns"]),
        (["--schema", SCALE], ["PACKAGE"]),
        (["my-ops", "--op", "f", "--kind", "out", "--param", "Tensor x"], ["--out"]),
    ],
)
def test_without_a_terminal_missing_answers_are_named(
    new: type[Run], arguments: list[str], flags: list[str]
) -> None:
    message = new(*arguments).failed()
    assert "no terminal" in message
    for flag in flags:
        assert flag in message


def test_a_dry_run_shows_the_tree_and_makes_nothing(new: type[Run]) -> None:
    below = new.directory / "not" / "there"
    saved = new.directory / "saved.toml"
    run = new(
        "my-ops", "--schema", SCALE, "--dry-run", "--output-dir", str(below),
        "--save-answers", str(saved),
    )  # fmt: skip
    assert run.code == 0
    assert run.out.startswith(f"{below / 'my-ops'}/\n")
    assert "pyproject.toml" in run.out
    assert "src/" in run.out
    assert list(new.directory.iterdir()) == []


def test_the_tree_of_a_dry_run_is_what_is_made(new: type[Run]) -> None:
    shown = new("my-ops", "--schema", SCALE, "--dry-run").out
    assert new("my-ops", "--schema", SCALE).code == 0
    names = [Path(path).name for path in new.files("my-ops")]
    lines = [line.strip() for line in shown.splitlines() if not line.endswith("/")]
    assert sorted(names) == sorted(lines)


def test_the_output_directory_is_made(new: type[Run]) -> None:
    below = new.directory / "a b" / "c"
    assert new("my-ops", "--schema", SCALE, "--output-dir", str(below)).code == 0
    assert (below / "my-ops" / "pyproject.toml").is_file()


@pytest.mark.parametrize("kind", ["directory", "empty", "file", "link"])
def test_what_stands_at_the_target_is_kept(new: type[Run], kind: str) -> None:
    target = new.directory / "my-ops"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        if kind == "directory":
            (target / "mine.txt").write_text("mine")
    before = sorted(new.directory.rglob("*"))
    run = new("my-ops", "--schema", SCALE)
    assert run.code == 2
    assert "--force" in run.err
    assert run.err.count("\n") == 1
    assert sorted(new.directory.rglob("*")) == before


def test_force_replaces_the_package_whole(new: type[Run]) -> None:
    new("my-ops", "--schema", SCALE)
    first = new.files("my-ops")
    (new.directory / "my-ops" / "stale.txt").write_text("old")
    assert new("my-ops", "--schema", SCALE, "--force").code == 0
    assert new.files("my-ops") == first


def test_saved_answers_are_not_written_over_a_file(new: type[Run]) -> None:
    saved = new.directory / "saved.toml"
    saved.write_text("mine")
    message = new("my-ops", "--schema", SCALE, "--save-answers", str(saved)).failed()
    assert "--save-answers" in message
    assert saved.read_text() == "mine"


def test_answers_are_saved_only_where_there_is_a_directory(new: type[Run]) -> None:
    saved = new.directory / "none" / "saved.toml"
    assert "no directory" in new("my-ops", "--schema", SCALE, "--save-answers", str(saved)).failed()


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["../evil", "--schema", SCALE], "PACKAGE: "),
        (["/tmp/evil", "--schema", SCALE], "PACKAGE: "),
        (["torch", "--schema", SCALE], "PACKAGE: "),
        (["my-ops", "--schema", "aten::f(Tensor x) -> Tensor"], "--schema: "),
        (["my-ops", "--schema", "f(Tensor x"], "--schema: "),
        (["my-ops", "--schema", "f(Tensor x)\n -> Tensor(("], "--schema: "),
        (["my-ops", "--signature", "import os"], "--signature: "),
        (["my-ops", "--signature", "def f(x: Tensor, y: Tensor) -> None"], "--signature: "),
        (["my-ops", "--schema", SCALE, "--kind", "odd"], "--kind: "),
        (["my-ops", "--schema", SCALE, "--fake-shape", "__import__('os')"], "--fake-shape: "),
        (["my-ops", "--schema", SCALE, "--fake", "odd"], "--fake: "),
        (["my-ops", "--schema", SCALE, "--namespace", "torch"], "--namespace: "),
        (["my-ops", "--schema", SCALE, "--description", "{{ x }}"], "--description: "),
        (["my-ops", "--schema", SCALE, "--torch-min", "1.0"], "--torch-min: "),
        (["my-ops", "--schema", "f_(Tensor x) -> Tensor", "--autograd"], "--autograd: "),
        (["my-ops", "--schema", SCALE, "--schema", "g() -> Tensor", "--kind", "out"], "--kind: "),
        (["my-ops", "--answers", "none.toml"], "none.toml: cannot be read"),
    ],
)  # fmt: skip
def test_a_bad_answer_is_one_line_that_names_its_flag(
    new: type[Run], arguments: list[str], start: str
) -> None:
    assert new(*arguments).failed().startswith(f"opscaffold: error: {start}")


def test_a_bad_answer_in_a_file_is_one_line_with_its_place(new: type[Run]) -> None:
    source = new.directory / "answers.toml"
    source.write_text(ANSWERS.replace("family", "familly").replace("filed", "my-ops"))
    message = new("--answers", str(source)).failed()
    assert f"{source}:6: unknown key 'familly'" in message
    assert "nearest known key: family" in message


def test_dozens_of_ops_of_one_run(new: type[Run]) -> None:
    schemas = [text for n in range(30) for text in ("--schema", f"op{n}(Tensor x) -> Tensor")]
    run = new("my-ops", *schemas)
    assert run.code == 0
    assert "30 ops" in run.out


def test_the_command_loads_nothing_heavy_before_it_runs() -> None:
    code = (
        "import sys, opscaffold.cli.new as m; "
        "heavy = {'cookiecutter', 'jinja2', 'libcst', 'torch', 'rich', 'tomllib', 'tomlkit'}; "
        "print(sorted(heavy & set(sys.modules)) + [n for n in sys.modules if '.scaffold' in n])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_templates_of_ones_own_are_rendered_and_shown(new: type[Run], tmp_path: Path) -> None:
    with template_directory("package") as brought:
        shutil.copytree(brought.parent, tmp_path / "own")
    (tmp_path / "own" / "package" / ROOT / "NOTICE").write_text("{{cookiecutter.package.name}}\n")
    arguments = ["my-ops", "--schema", SCALE, "--template", str(tmp_path / "own")]
    shown = new(*arguments, "--dry-run")
    assert (shown.code, "NOTICE" in shown.out) == (0, True)
    assert new(*arguments).code == 0
    assert new.files("my-ops")["NOTICE"] == b"my-ops\n"


def test_what_holds_no_templates_is_refused_before_anything_is_read(new: type[Run]) -> None:
    run = new("my-ops", "--template", str(new.directory), "--answers", "nowhere.toml")
    assert run.code == 2
    assert "holds no directory 'package'" in run.err
    assert list(new.directory.iterdir()) == []

"""Templates of one's own: rendered as those that are brought along, or refused with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from generated import op, package

from opscaffold.errors import UserError
from opscaffold.scaffold.render import preview, render_package
from opscaffold.scaffold.templates import ROOT, check_layout, template_directory

SPEC = package("some-ops", [op("ns::scale(Tensor x, float alpha=1.5) -> Tensor")])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the templates."""
    with template_directory("package") as path:
        shutil.copytree(path.parent, tmp_path / "own")
    check_layout(tmp_path / "own")
    return tmp_path / "own"


def test_a_copy_renders_the_same(own: Path) -> None:
    assert preview(SPEC, own) == preview(SPEC)


def test_what_is_changed_is_rendered(own: Path, tmp_path: Path) -> None:
    readme = own / "package" / ROOT / "README.md"
    readme.write_text("Ops: {{ cookiecutter.package.name }}\n")
    (readme.parent / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff\xfe")
    assert Path("logo.png") in preview(SPEC, own)
    made = render_package(SPEC, tmp_path / "out", own=own).path
    assert (made / "README.md").read_text() == "Ops: some-ops\n"
    assert (made / "logo.png").read_bytes() == b"\x89PNG\r\n\x1a\n\x00\xff\xfe"


def test_a_relative_directory_is_one_of_the_working_directory(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert preview(SPEC, Path("own")) == preview(SPEC)


def test_hooks_are_not_run(own: Path, tmp_path: Path) -> None:
    for name in ("package", "op"):
        (own / name / "hooks").mkdir()
        for hook in ("pre_prompt.py", "pre_gen_project.py", "post_gen_project.py"):
            text = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
            (own / name / "hooks" / hook).write_text(text)
    render_package(SPEC, tmp_path / "out", own=own)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("part", ["package", "op"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ cookiecutter.package.nmae }}", "has no attribute 'nmae'"),
        ("{% for x in y %}", "Unexpected end of template"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{% include 'nothing' %}", "nothing"),
    ],
)
def test_a_broken_template_is_named(
    part: str, text: str, reason: str, own: Path, tmp_path: Path
) -> None:
    (own / part / ROOT / "broken.txt").write_text(text)
    with pytest.raises(UserError, match=reason) as caught:
        render_package(SPEC, tmp_path / "out", own=own)
    assert f"{own}" in str(caught.value)
    assert f"{part}: " in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_python_that_does_not_parse_is_refused(own: Path, tmp_path: Path) -> None:
    (own / "package" / ROOT / "setup.py").write_text("def (\n")
    with pytest.raises(UserError, match=r"setup\.py:1"):
        render_package(SPEC, tmp_path / "out", own=own)


def test_the_package_must_be_made_where_it_is_looked_for(own: Path, tmp_path: Path) -> None:
    (own / "op" / ROOT).rename(own / "op" / "{{cookiecutter.op.file}}")
    with pytest.raises(UserError, match="they make scale and some-ops in place of some-ops alone"):
        render_package(SPEC, tmp_path / "out", own=own)


def test_a_directory_of_another_layout_is_refused(own: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no directory"):
        check_layout(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no directory 'package'"):
        check_layout(own / "package")
    (own / "op" / "{{cookiecutter.other}}").mkdir()
    with pytest.raises(UserError, match="one directory"):
        check_layout(own)
    shutil.rmtree(own / "op")
    with pytest.raises(UserError, match="no directory 'op'"):
        check_layout(own)
    (own / "op").mkdir()
    with pytest.raises(UserError, match="holds none such"):
        check_layout(own)

"""A package appears whole or not at all, and the same answers give the same bytes."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from generated import EXPRESSION, op, package

from opscaffold.contract.derive import DerivationError
from opscaffold.scaffold import render
from opscaffold.scaffold.matrix_ops import UNUSUAL
from opscaffold.scaffold.package_context import UnfitSpecError
from opscaffold.scaffold.render import (
    CannotWriteError,
    RenderError,
    TargetExists,
    preview,
    render_package,
)
from opscaffold.scaffold.sizes import NoSizesError
from opscaffold.scaffold.spec import PackageSpec

SPEC = package(
    "some-ops",
    [
        op("ns::scale(Tensor x, float alpha=1.5) -> Tensor"),
        op("ns::fam(Tensor x, Tensor y) -> Tensor", family=True),
    ],
)


def tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def rendered(root: Path) -> dict[str, bytes]:
    """What the templates made, without the record that the package keeps of it."""
    return {path: data for path, data in tree(root).items() if not path.startswith(".opscaffold/")}


def names_in(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def test_it_makes_the_files_it_names(tmp_path: Path) -> None:
    result = render_package(SPEC, tmp_path)
    assert result.path == tmp_path / "some-ops"
    assert sorted(tree(result.path)) == sorted(p.as_posix() for p in result.files)
    assert names_in(tmp_path) == ["some-ops"]
    for needed in (
        "src/some_ops/__init__.py",
        "src/some_ops/py.typed",
        "src/some_ops/ops/scale.py",
        "src/some_ops/ops/fam.py",
        "opscaffold_samples.py",
        "tests/test_fam.py",
        "pyproject.toml",
        "README.md",
        ".github/workflows/ci.yml",
        ".pre-commit-config.yaml",
        ".gitignore",
    ):
        assert (result.path / needed).is_file()


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    spec = package("many-ops", UNUSUAL)
    first = render_package(spec, tmp_path / "a").path
    second = render_package(spec, tmp_path / "b").path
    assert tree(first) == tree(second)


def test_the_order_of_the_ops_does_not_matter(tmp_path: Path) -> None:
    turned = replace(SPEC, ops=SPEC.ops[::-1])
    first, second = render_package(SPEC, tmp_path / "a"), render_package(turned, tmp_path / "b")
    assert rendered(first.path) == rendered(second.path)


def test_line_ends_are_those_of_unix(tmp_path: Path) -> None:
    for content in rendered(render_package(SPEC, tmp_path).path).values():
        assert b"\r" not in content
        assert content == b"" or (content.endswith(b"\n") and not content.endswith(b"\n\n"))


def test_a_module_holds_its_parts_in_order(tmp_path: Path) -> None:
    made = render_package(SPEC, tmp_path).path
    text = (made / "src/some_ops/ops/scale.py").read_text()
    parts = [
        '"""scale: an op (functional).',
        "some_ops::scale(Tensor x, float alpha=1.5) -> Tensor",
        "def _kernel(",
        "@torch.library.custom_op(",
        "@_op.register_fake",
        "_op.register_autograd(",
        "def scale(",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.count(">>> Replace this placeholder") == 1
    tree_ = ast.parse(text)
    assert ast.get_docstring(tree_)


def test_only_functional_ops_have_autograd_and_only_untagged_ones_a_fake(tmp_path: Path) -> None:
    ops = [
        op("ns::i_(Tensor(a!) x) -> Tensor(a!)"),
        op("ns::o_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"),
        op("ns::m(Tensor(a!) x) -> ()"),
        op("ns::m1(Tensor(a!) x) -> Tensor"),
        op("ns::plain(Tensor x) -> Tensor", autograd=False),
    ]
    made = render_package(package("some-ops", ops), tmp_path).path
    texts = {p.stem: p.read_text() for p in (made / "src/some_ops/ops").glob("*.py")}
    assert {name for name, text in texts.items() if "register_fake" in text} == {"m1", "plain"}
    assert not any("register_autograd" in text for text in texts.values())
    assert "tags=torch.Tag.inplace" in texts["i_"]
    assert "tags=torch.Tag.out" in texts["o_out"]
    assert "tags=" not in texts["m"] + texts["m1"] + texts["plain"]


def test_an_existing_target_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "some-ops"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(TargetExists) as caught:
        render_package(SPEC, tmp_path)
    assert caught.value.path == target
    assert tree(tmp_path) == {"some-ops/mine.txt": b"mine"}


def test_force_replaces_the_whole_directory(tmp_path: Path) -> None:
    target = tmp_path / "some-ops"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    render_package(SPEC, tmp_path, force=True)
    assert not (target / "mine.txt").exists()
    assert (target / "pyproject.toml").is_file()
    assert names_in(tmp_path) == ["some-ops"]


def test_force_replaces_neither_a_file_nor_what_a_link_leads_to(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = tmp_path / "some-ops"
    target.symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(CannotWriteError, match="no directory"):
        render_package(SPEC, tmp_path, force=True)
    target.unlink()
    target.write_text("a file")
    with pytest.raises(CannotWriteError, match="no directory"):
        render_package(SPEC, tmp_path, force=True)
    assert target.read_text() == "a file"
    assert names_in(elsewhere) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("the disk is full"), RuntimeError])
@pytest.mark.parametrize("step", ["_generate", "_check_python", "_move"])
def test_a_failure_at_any_step_leaves_nothing(
    step: str, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(render, step, fail)
    with pytest.raises((KeyboardInterrupt, CannotWriteError, RuntimeError)):
        render_package(SPEC, tmp_path / "new" / "deep")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["some-ops", "replaced"])
def test_a_failed_replacement_puts_the_old_package_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "some-ops"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    rename = Path.rename

    def interrupted(self: Path, to: Path) -> Path:
        if Path(to).name == name and (name == "replaced" or self.parent != tmp_path):
            monkeypatch.setattr(Path, "rename", rename)
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        render_package(SPEC, tmp_path, force=True)
    assert tree(tmp_path) == {"some-ops/mine.txt": b"mine"}


def test_python_that_does_not_parse_is_never_moved_into_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = render._generate

    def spoil(template: str, values: dict[str, object], output: Path, own: Path | None) -> None:
        generate(template, values, output, own)
        (output / "some-ops" / "src" / "some_ops" / "__init__.py").write_text("def (")

    monkeypatch.setattr(render, "_generate", spoil)
    with pytest.raises(RenderError, match=r"__init__\.py:1"):
        render_package(SPEC, tmp_path)
    assert names_in(tmp_path) == []


def test_a_parent_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWriteError, match="file"):
        render_package(SPEC, tmp_path / "file")
    assert names_in(tmp_path) == ["file"]


def test_a_preview_is_what_would_be_written_and_writes_nothing(tmp_path: Path) -> None:
    shown = preview(SPEC)
    made = render_package(SPEC, tmp_path).path
    assert {p.as_posix(): text.encode() for p, text in shown.items()} == rendered(made)


def test_the_working_directory_and_the_home_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work, out = (tmp_path / name for name in ("home", "work", "out"))
    for directory in (home, work, out):
        directory.mkdir()
    (home / ".cookiecutterrc").write_text("default_context: [this is no mapping\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    render_package(SPEC, Path("../out"))
    assert Path.cwd() == work
    assert names_in(work) == []
    assert names_in(home) == [".cookiecutterrc"]
    assert names_in(out) == ["some-ops"]


@pytest.mark.parametrize(
    "text",
    [
        '""" + __import__("os").abort() + """',
        "{{ cookiecutter.__class__ }} {% for x in y %}",
        'a \\ b \\" c',
        "two\nlines",
        "# >>> Replace",
        'ends with a quote "',
        "ends with a backslash \\",
        "${{ secrets.TOKEN }}",
        "Öffne — ∑",
    ],
)
def test_a_description_stays_text(text: str, tmp_path: Path) -> None:
    made = render_package(replace(SPEC, description=text), tmp_path).path
    module = ast.parse((made / "src/some_ops/__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in module.body if not isinstance(node, (ast.ImportFrom, ast.Assign))]
    assert len(imports) == 1
    assert " ".join((ast.get_docstring(module) or "").split()) == " ".join(text.split())
    assert _project(made)["description"] == " ".join(text.split())


def _project(made: Path) -> dict[str, object]:
    import tomlkit

    text = (made / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomlkit.parse(text).unwrap()["project"])


def test_a_default_stays_text(tmp_path: Path) -> None:
    spec = package("some-ops", [op('ns::say(Tensor x, str how="{{ 7*7 }} it\'s") -> Tensor')])
    made = render_package(spec, tmp_path).path
    text = (made / "src/some_ops/ops/say.py").read_text()
    function = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == "say"
    )
    assert ast.literal_eval(function.args.defaults[0]) == "{{ 7*7 }} it's"


def test_the_torch_range_and_the_tags_follow_the_oldest_torch(tmp_path: Path) -> None:
    old = render_package(replace(SPEC, torch_min=(2, 6)), tmp_path / "old").path
    new = render_package(SPEC, tmp_path / "new").path
    assert _project(old)["dependencies"] == ["torch>=2.6"]
    assert _project(new)["dependencies"] == ["torch>=2.13"]
    module = "src/some_ops/ops/fam.py"
    assert "Tag" not in (old / module).read_text()
    assert "torch.Tag.out" in (new / module).read_text()


def test_sizes_that_no_tensor_has_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    ops = [op("ns::odd(Tensor x) -> Tensor", EXPRESSION, shape=("x.shape[0] - 100000",))]
    with pytest.raises(NoSizesError, match=r"x\.shape\[0\] - 100000"):
        render_package(package("some-ops", ops), tmp_path)
    assert names_in(tmp_path) == []


def test_a_family_of_two_results_is_refused(tmp_path: Path) -> None:
    ops = [op("ns::f(Tensor x) -> (Tensor, Tensor)", family=True)]
    with pytest.raises(DerivationError, match="in-place"):
        render_package(package("some-ops", ops), tmp_path)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("schemas", "reason"),
    [
        (["ns::f(Tensor x=None) -> Tensor"], r"write Tensor\? x=None"),
        (["ns::f(Tensor x) -> Tensor", "ns::F(Tensor x) -> Tensor"], "one file"),
        (["ns::f(Tensor x) -> Tensor", "ns::f(Tensor y) -> Tensor"], "one file"),
    ],
)
def test_ops_that_make_no_typed_package_are_refused(
    schemas: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UnfitSpecError, match=reason):
        render_package(package("some-ops", [op(s) for s in schemas]), tmp_path)
    assert names_in(tmp_path) == []


def test_an_empty_package_is_one_all_the_same(tmp_path: Path) -> None:
    spec = PackageSpec("no-ops", "no_ops", "no_ops", ())
    made = render_package(spec, tmp_path).path
    assert "__all__ = []" in (made / "src/no_ops/__init__.py").read_text()

"""Nothing that is read is run: no module of a tree, no program that its git names, no answer.

As with the guards of writing, each stands here with an attack, made with it and without it.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guarding import Guard, does_harm, project, refused, replaced, without_arguments

import opscaffold
from opscaffold.cli.app import main
from opscaffold.fs import git
from opscaffold.scaffold import fakes, questions, render
from opscaffold.scaffold.layout import Layout
from opscaffold.scaffold.templates import template_directory
from opscaffold.source import load

OPS = '''\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    """Double it.

    >>> double(x, out=y)
    """
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


double(x, out=y)
'''


def trap(mark: Path) -> str:
    """Python that leaves a mark where it is run."""
    return f"open({os.fspath(mark)!r}, 'w').close()\n"


# -- the tree --------------------------------------------------------------------------------------

RUN_BY_OTHER_TOOLS = (
    "conftest", "setup", "sitecustomize", "usercustomize", "opscaffold_samples", "noxfile",
    "opscaffold", "typer", "libcst", "tomlkit", "json", "__init__", "__main__",
    "torch", "sample_inputs",
)  # fmt: skip
COMMANDS: list[list[str]] = [
    ["check", "--no-cache", "--format", "json"],
    ["check", "--no-cache", "--list-ops"],
    ["migrate", "--unsafe"],
    ["migrate", "--plan", "../plan.json"],
    ["migrate", "--apply", "../plan.json"],
    ["migrate", "--write", "--unsafe", "--tests", "tests", "--report", "../page.html"],
]


def tree_of_traps(directory: Path, mark: Path) -> Path:
    """A project in which every module leaves a mark when it is run."""
    root = project(directory, ops=trap(mark) + OPS)
    for name in RUN_BY_OTHER_TOOLS:
        (root / f"{name}.py").write_text(trap(mark) + "import torch\n", "utf-8")
    (root / "tests").mkdir()
    (root / "tests" / "conftest.py").write_text(trap(mark), "utf-8")
    (root / "encodings").mkdir()
    for name in ("__init__", "mine"):
        (root / "encodings" / f"{name}.py").write_text(trap(mark), "utf-8")
    (root / "coded.py").write_text("# coding: mine\nx = 1\n", "utf-8")
    (root / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'setup'\nbackend-path = ['.']\n"
        "[[tool.opscaffold.registrars]]\nhelper = 'setup.register'\nname = 'op'\nfunction = 'fn'\n"
        "[tool.pytest.ini_options]\naddopts = '-p setup'\n",
        "utf-8",
    )
    return root


def reading_a_tree(directory: Path) -> bool:
    mark = directory / "mark"
    root = tree_of_traps(directory, mark)
    before, path = Path.cwd(), list(sys.path)
    os.chdir(root)
    try:
        for command in COMMANDS:
            assert main([*command, "--root", "."]) in (0, 1), command
            if mark.exists():
                return True
    finally:
        os.chdir(before)
        sys.path[:] = path
    return False


def run_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that a reader of code must not make."""
    parse = load.parse_module

    def parse_and_run(path: Path, name: str, source: Any) -> object:
        with contextlib.suppress(SyntaxError, NameError):
            exec(source.text.split("\n")[0])
        return parse(path, name, source)

    for module in [m for name, m in sys.modules.items() if name.startswith("opscaffold.")]:
        if getattr(module, "parse_module", None) is parse:
            monkeypatch.setattr(module, "parse_module", parse_and_run)


# -- git -------------------------------------------------------------------------------------------


def program(directory: Path, mark: Path) -> str:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n", "utf-8")
    path.chmod(0o755)
    return os.fspath(path)


def asked(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    allowed = ["-c", "protocol.file.allow=always"]
    command = ["git", *identity, *allowed, *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "GIT_DIR"}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        assert process.wait() == 0, command


def repository(directory: Path) -> Path:
    root = project(directory, ops=OPS)
    asked(root, "init", "-q")
    (root / ".gitattributes").write_text("*.py filter=mine diff=mine\n", "utf-8")
    asked(root, "add", ".")
    asked(root, "commit", "-qm", "first")
    return root


def age(path: Path) -> None:
    """Have git look into a file, by a time that is not the one it noted."""
    os.utime(path, (1, 1))


def asking_git(act: Callable[[Path], object], **settings: str) -> Callable[[Path], bool]:
    """What a repository's own settings make git run; dots of their names are ``__``."""

    def attack(directory: Path) -> bool:
        root, mark = repository(directory), directory / "mark"
        mine = program(directory, mark)
        for name, value in settings.items():
            asked(root, "config", name.replace("__", "."), value.replace("PROGRAM", mine))
        hooks = directory / "hooks"
        hooks.mkdir()
        for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
            (hooks / hook).symlink_to(mine)
        if "core__hooksPath" in settings:
            asked(root, "config", "core.hooksPath", os.fspath(hooks))
        age(root / "ops.py")
        refused(lambda: act(root))
        return mark.exists()

    return attack


def check(root: Path) -> None:
    main(["check", "--no-cache", "--root", os.fspath(root), os.fspath(root)])


def since(root: Path) -> None:
    git.changed_lines(root, "HEAD")
    git.contents_at(root, "HEAD")


def edited_since(root: Path) -> None:
    (root / "ops.py").write_text("x = 1\n", "utf-8")
    git.changed_lines(root, "HEAD")


def asking_about_a_submodule(directory: Path) -> bool:
    (directory / "other").mkdir()
    other = repository(directory / "other")
    root, mark = repository(directory), directory / "mark"
    asked(root, "submodule", "add", "-q", os.fspath(other), "sub")
    asked(root, "commit", "-qm", "second")
    asked(root / "sub", "config", "filter.mine.clean", program(directory, mark))
    age(root / "sub" / "ops.py")
    refused(lambda: git.dirty_files(root))
    return mark.exists()


def asking_for_what_a_clone_lacks(directory: Path) -> bool:
    (directory / "other").mkdir()
    other = repository(directory / "other")
    asked(other, "config", "uploadpack.allowFilter", "true")
    (other / "ops.py").write_text("x = 1\n", "utf-8")
    asked(other, "commit", "-qam", "second")
    clone, mark = directory / "clone", directory / "mark"
    asked(directory, "clone", "-q", "--filter=blob:none", other.as_uri(), os.fspath(clone))
    asked(clone, "config", "remote.origin.uploadpack", program(directory, mark))
    refused(lambda: git.contents_at(clone, "HEAD~1"))
    return mark.exists()


# -- python -m -------------------------------------------------------------------------------------

START = "import sys, opscaffold.__main__ as start; {guard}sys.exit(start.main())"
PASS_OVER = "start._pass_over_the_working_directory(); "


def started(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = os.fspath(Path(opscaffold.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": home, "OPSCAFFOLD_CACHE_DIR": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("guard", "harm"), [(PASS_OVER, False), ("", True)])
def test_modules_of_the_working_directory_are_not_taken(
    guard: str, harm: bool, tmp_path: Path
) -> None:
    root, mark = project(tmp_path), tmp_path / "mark"
    (root / "typer.py").write_text(trap(mark), "utf-8")
    started(root, "-c", START.format(guard=guard), "check", "typer.py")
    assert mark.exists() is harm


def test_started_as_a_module_in_a_tree_nothing_of_it_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    root = tree_of_traps(tmp_path, mark)
    (root / "opscaffold.py").unlink()
    done = started(root, "-m", "opscaffold", "migrate", "--unsafe")
    assert done.returncode in (0, 1), done.stderr
    assert "demo::double_out" in done.stdout
    assert not mark.exists()


# -- new -------------------------------------------------------------------------------------------


def made(directory: Path, *arguments: str) -> str:
    """All Python of the package that ``new`` makes; empty where it makes none."""
    out = directory / "out"
    code = main(["new", "some-ops", "--defaults", "-o", os.fspath(out), *arguments])
    assert code in (0, 2)
    return "\n".join(p.read_text("utf-8") for p in sorted(out.rglob("*.py")))


def hooks_of_templates(directory: Path) -> bool:
    own, mark = directory / "own", directory / "mark"
    with template_directory("package") as path:
        shutil.copytree(path.parent, own)
    for part in ("package", "op"):
        (own / part / "hooks").mkdir()
        for hook in ("pre_prompt", "pre_gen_project", "post_gen_project"):
            (own / part / "hooks" / f"{hook}.py").write_text(trap(mark), "utf-8")
    made(directory, "--template", os.fspath(own))
    return mark.exists()


def run_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    from cookiecutter import generate

    generate_files = generate.generate_files

    def with_hooks(*arguments: object, **options: object) -> object:
        return generate_files(*arguments, **{**options, "accept_hooks": True})

    monkeypatch.setattr(generate, "generate_files", with_hooks)
    monkeypatch.setattr(render, "_check_python", lambda _: None)


def sizes_that_are_code(directory: Path) -> bool:
    answers = ["--op", "f", "--kind", "functional", "--param", "Tensor x", "--returns", "Tensor"]
    sizes = ["--fake", "expression", "--fake-shape", "harm(x)"]
    return "harm(x)" in made(directory, *answers, *sizes)


def a_name_that_leads_elsewhere(directory: Path) -> bool:
    out = directory / "out"
    out.mkdir()
    with contextlib.suppress(ValueError, SystemExit):
        main(["new", "../elsewhere", "--defaults", "--namespace", "ns", "-o", os.fspath(out)])
    return list(directory.rglob("elsewhere")) != []


def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions.Question, "check", lambda self, value: value)


def a_description_that_is_code(directory: Path) -> bool:
    tree = ast.parse(made(directory, "--description", '"""; HARM = 1; """'))
    return any(isinstance(node, ast.Name) and node.id == "HARM" for node in ast.walk(tree))


def written_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    without_checks(monkeypatch)
    prose = Layout.prose

    def unescaped(self: Layout, text: str, *how: Any, **more: Any) -> object:
        return prose(self, text.replace('\\"', '"'), *how, **more)

    monkeypatch.setattr(Layout, "prose", unescaped)


def a_description_that_is_a_template(directory: Path) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        without_checks(patch)
        made(directory, "--description", "{{ 6 * 7 }}")
    return "42" in (directory / "out" / "some-ops" / "README.md").read_text("utf-8")


def render_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cookiecutter does where it asks for answers itself."""
    from cookiecutter import generate, prompt
    from cookiecutter.environment import StrictEnvironment

    generate_files = generate.generate_files

    def with_answers_rendered(*arguments: Any, context: Any, **options: Any) -> object:
        package = context["cookiecutter"]["package"]
        text = prompt.render_variable(StrictEnvironment(), package.description, {})
        rendered = dataclasses.replace(package, description=text)
        context = {"cookiecutter": {**context["cookiecutter"], "package": rendered}}
        return generate_files(*arguments, context=context, **options)

    monkeypatch.setattr(generate, "generate_files", with_answers_rendered)


GUARDS = {
    "a tree": Guard(reading_a_tree, run_what_is_read),
    "a monitor of files": Guard(
        asking_git(check, core__fsmonitor="PROGRAM"), without_arguments("core.fsmonitor")
    ),
    "a monitor of files, asked what is dirty": Guard(
        asking_git(git.dirty_files, core__fsmonitor="PROGRAM"), without_arguments("core.fsmonitor")
    ),
    "a filter": Guard(
        asking_git(git.dirty_files, filter__mine__clean="PROGRAM"),
        replaced(git, "_own_filters", lambda _: {}),
    ),
    "a filter that is a process": Guard(
        asking_git(git.dirty_files, filter__mine__process="PROGRAM"),
        replaced(git, "_own_filters", lambda _: {}),
    ),
    "a filter, asked for changes": Guard(
        asking_git(since, filter__mine__clean="PROGRAM", filter__mine__required="true"),
        replaced(git, "_own_filters", lambda _: {}),
    ),
    "a hook": Guard(
        asking_git(since, core__hooksPath="HOOKS"), without_arguments("core.hooksPath")
    ),
    "a program that shows differences": Guard(
        asking_git(edited_since, diff__external="PROGRAM"), without_arguments("--no-ext-diff")
    ),
    "a program that shows a file as text": Guard(
        asking_git(edited_since, diff__mine__textconv="PROGRAM"),
        without_arguments("--no-textconv"),
    ),
    "a submodule": Guard(asking_about_a_submodule, without_arguments("--ignore-submodules")),
    "a clone without all files": Guard(
        asking_for_what_a_clone_lacks, replaced(git, "_FETCH_NOTHING", {})
    ),
    "hooks of templates": Guard(hooks_of_templates, run_hooks),
    "a name that leads elsewhere": Guard(a_name_that_leads_elsewhere, without_checks),
    "sizes that are code": Guard(
        sizes_that_are_code, replaced(fakes, "check_expression", lambda text, *_: text)
    ),
    "a description that is code": Guard(a_description_that_is_code, written_as_given),
    "a description that is a template": Guard(a_description_that_is_a_template, render_answers),
}  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_an_attack_does_no_harm(guard: Guard, tmp_path: Path) -> None:
    assert not does_harm(guard, tmp_path)


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_without_its_guard_the_same_attack_does_harm(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.remove(monkeypatch)
    assert does_harm(guard, tmp_path)

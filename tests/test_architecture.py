"""The house rules: who may import whom, and what may be loaded when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "opscaffold"

# What each package may import of opscaffold, beside itself. `errors`, `records`, `patterns` and the
# top-level package (the version) are open to all.
MAY_IMPORT = {
    "errors": set(),
    "records": set(),
    "patterns": set(),
    "contract": set(),
    "fs": set(),
    "config": {"contract", "fs"},
    "findings": {"contract"},
    "source": {"contract", "fs", "config"},
    "effects": {"contract", "source"},
    "rules": {"contract", "source", "effects", "findings", "config"},
    "migrate": {"contract", "fs", "config", "source", "effects", "findings", "rules"},
    "report": {"findings"},
    "scaffold": {"contract", "fs", "source", "effects"},
    "verify": {"contract", "findings"},
    "cli": {
        *("contract", "fs", "config", "source", "effects", "findings", "rules", "migrate"),
        *("report", "scaffold"),
    },
    "__main__": {"cli"},
}

# The packages that may import a library that is slow to load, or need not be there.
ONLY_UNDER = {
    "torch": {"verify"},
    "numpy": {"verify"},
    # Both change files of an author's: their repairs, and what a further op adds.
    "libcst": {"migrate", "scaffold"},
    "cookiecutter": {"scaffold"},
    "jinja2": {"scaffold"},
}
PURE = {"contract": {"os", "io", "pathlib", "subprocess", "shutil", "tempfile", "socket"}}

# Packages that read the user's code and must have no means to run it.
READERS = ("source", "effects", "rules", "migrate")
# Of subprocess, they may ask git which files there are.
RUNNERS = {"importlib", "runpy", "multiprocessing", "code", "codeop", "pickle", "pty"}
# The rules find one another, by the names of the modules beside them.
MAY_IMPORT_BY_NAME = PACKAGE / "rules" / "catalog.py"
RUNNING_CALLS = {"exec", "eval", "compile", "__import__"}

MAX_LINES = 400


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_templates" not in path.parts)


def package_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, at whatever depth, by its absolute dotted name."""
    dotted = ("opscaffold", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = dotted[: len(dotted) - node.level + 1] if node.level else ()
            target = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, target
            if target == "opscaffold":
                yield from ((node.lineno, f"opscaffold.{alias.name}") for alias in node.names)


def each(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


@pytest.mark.parametrize("path", each(modules()))
def test_imports_point_one_way(path: Path) -> None:
    own = package_of(path)
    if own == "__init__":
        allowed: set[str] = set()
    else:
        allowed = {own, "errors", "records", "patterns", "__version__"} | MAY_IMPORT[own]
    wrong = [
        f"line {line}: {name}"
        for line, name in imports(path)
        if name.startswith("opscaffold.") and name.split(".")[1] not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("path", each(modules()))
def test_heavy_libraries_stay_where_they_are_used(path: Path) -> None:
    own = package_of(path)
    wrong = [
        f"line {line}: {name}"
        for line, name in imports(path)
        if own not in ONLY_UNDER.get(name.split(".")[0], {own})
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(PURE))
def test_pure_packages_reach_nothing_outside(package: str) -> None:
    wrong = [
        f"{path.name}:{line}: {name}"
        for path in modules()
        if package_of(path) == package
        for line, name in imports(path)
        if name.split(".")[0] in PURE[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("path", each([p for p in modules() if package_of(p) in READERS]))
def test_what_reads_code_cannot_run_it(path: Path) -> None:
    found = [(line, name) for line, name in imports(path) if _runs(name)]
    if path == MAY_IMPORT_BY_NAME:
        found = [(line, name) for line, name in found if name != "importlib"]
    wrong = [f"line {line}: {name}" for line, name in found]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in RUNNING_CALLS or (called.startswith("subprocess.") and not _asks_git(node)):
            wrong.append(f"line {node.lineno}: {called}()")
    assert wrong == []


def _runs(name: str) -> bool:
    # Data files of the package itself are read through importlib.resources.
    return name.partition(".")[0] in RUNNERS and not name.startswith("importlib.resources")


def _asks_git(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.List) or not first.elts:
        return False
    program = first.elts[0]
    return isinstance(program, ast.Constant) and program.value == "git"


@pytest.mark.parametrize("path", each(modules()))
def test_modules_stay_small(path: Path) -> None:
    lines = path.read_bytes().count(b"\n")
    assert lines <= MAX_LINES


def test_every_package_has_its_rule() -> None:
    found = {package_of(path) for path in modules()} - {"__init__"}
    assert found <= MAY_IMPORT.keys()


def test_the_rules_name_no_way_back() -> None:
    def reaches(package: str, seen: frozenset[str] = frozenset()) -> set[str]:
        below = MAY_IMPORT[package] - seen
        return below.union(*(reaches(each, seen | below) for each in below))

    assert [package for package in MAY_IMPORT if package in reaches(package)] == []


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["new", "--help"], ["verify", "--help"]]
)
def test_start_up_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from opscaffold.cli.app import main\n"
        "code = main(sys.argv[1:])\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    code, *loaded = done.stderr.split()
    assert code == "0"
    assert "typer" in loaded
    assert (
        set(loaded) & {*ONLY_UNDER, "rich", "pygments", "yaml", "requests", "hypothesis"} == set()
    )

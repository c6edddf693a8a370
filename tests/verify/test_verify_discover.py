from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscaffold.verify import discover
from opscaffold.verify.discover import Loaded, LoadError, load
from opscaffold.verify.imports import wanted


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to import from; what was imported is forgotten."""
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if not name.startswith("torch"):
            del sys.modules[name]


def op(namespace: str, name: str = "f") -> str:
    return (
        "import torch\n"
        f"@torch.library.custom_op('{namespace}::{name}', mutates_args=())\n"
        f"def {name}(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x + 1\n"
    )


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def names(loaded: Loaded) -> list[str]:
    return [each.qualname for each in loaded.ops]


def test_a_file_is_imported_with_what_lies_beside_it(tree: Path, namespace: str) -> None:
    write(tree / f"{namespace}_beside.py", op(namespace, "beside"))
    write(tree / "12-odd.name.py", f"import {namespace}_beside\n" + op(namespace))
    loaded = load(["12-odd.name.py"])
    assert names(loaded) == [f"{namespace}::beside", f"{namespace}::f"]
    assert loaded.ops[1].position.path.name == "12-odd.name.py"
    assert loaded.ops[1].position.line == 3


@pytest.mark.parametrize("name", ["types", "time", "json"])
def test_a_file_may_have_the_name_of_another_module(tree: Path, namespace: str, name: str) -> None:
    write(tree / f"{name}.py", op(namespace))
    assert names(load([f"{name}.py"])) == [f"{namespace}::f"]


@pytest.mark.parametrize("layout", ["src", "."])
def test_a_project_stands_for_its_packages(tree: Path, namespace: str, layout: str) -> None:
    project = tree / "project"
    package = project / layout / f"pkg_{namespace}"
    write(project / "pyproject.toml")
    write(project / "setup.py", "raise SystemExit('setup ran')\n")
    write(project / "tests" / "__init__.py", "raise SystemExit('tests ran')\n")
    write(package / "__init__.py", "from . import kernels\n")
    write(package / "kernels.py", op(namespace))
    for target in ("project", str(package), str(package / "kernels.py")):
        (found,) = {each.name.partition(".")[0] for each in wanted(target)}
        assert found == f"pkg_{namespace}"
    assert names(load(["project"])) == [f"{namespace}::f"]


def test_a_package_of_a_namespace_keeps_its_whole_name(tree: Path, namespace: str) -> None:
    package = tree / "src" / f"ns_{namespace}" / "part"
    write(tree / "pyproject.toml")
    write(package / "__init__.py", f"from ns_{namespace}.part import kernels\n")
    write(package / "kernels.py", op(namespace))
    name = f"ns_{namespace}.part"
    assert [each.name for each in wanted(".")] == [name]
    assert [each.name for each in wanted(str(package))] == [name]
    loaded = load([str(package / "kernels.py")])
    assert names(loaded) == [f"{namespace}::f"]
    assert loaded.twice == {}


def test_a_dotted_name_is_imported_from_the_path(
    tree: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tree))
    write(tree / f"pkg_{namespace}" / "__init__.py")
    write(tree / f"pkg_{namespace}" / "deep.py", op(namespace))
    assert names(load([f"pkg_{namespace}.deep"])) == [f"{namespace}::f"]


def test_a_directory_without_a_package_is_refused(tree: Path) -> None:
    (tree / "data").mkdir()
    with pytest.raises(LoadError, match=r"data: no package is in this directory; name a file"):
        load(["data"])


def test_another_module_of_that_name_is_told(tree: Path, namespace: str) -> None:
    name = f"pkg_{namespace}"
    write(tree / "one" / name / "__init__.py")
    write(tree / "two" / name / "__init__.py")
    load(["one/" + name])
    with pytest.raises(LoadError, match=f"the name {name} leads to .*one"):
        load(["two/" + name])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import gone_for_good.part\n", r"bad\.py:1: .*ModuleNotFoundError: .*; install it for "),
        ("\n\nx = 1 / 0\n", r"bad\.py:3: .*ZeroDivisionError: .*-c 'import bad'` shows the whole"),
        ("def f(:\n", r"bad\.py:1: .*SyntaxError"),
        ("raise SystemExit\n", r"bad\.py:1: .*SystemExit; put what is to run .*__main__"),
        (
            "import torch\n@torch.library.custom_op('d::bad', mutates_args=())\ndef f(x): pass\n",
            r"bad\.py:[23]: .*ValueError: infer_schema",
        ),
    ],
)
def test_an_import_that_fails_says_where_and_what_to_do(tree: Path, text: str, said: str) -> None:
    write(tree / "bad.py", text)
    with pytest.raises(LoadError) as caught:
        load(["bad.py"])
    assert re.search(said, str(caught.value)), str(caught.value)


def test_low_level_ops_are_found_by_kernel_and_definition(tree: Path, namespace: str) -> None:
    write(
        tree / f"low_{namespace}.py",
        "import torch\n"
        f"lib = torch.library.Library('{namespace}', 'FRAGMENT')\n"
        "lib.define('f(Tensor x) -> Tensor')\n"
        "lib.define('f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)')\n"
        "def kernel(x):\n"
        "    return x + 1\n"
        "lib.impl('f', kernel, 'CPU')\n",
    )
    loaded = load([f"low_{namespace}.py"])
    f, out = f"{namespace}::f", f"{namespace}::f.out"
    assert names(loaded) == [f, out]
    assert [each.position.line for each in loaded.ops] == [5, 4]
    assert [loaded.defined[name].line for name in (f, out)] == [3, 4]


def test_a_name_that_is_defined_twice_is_noted(tree: Path, namespace: str) -> None:
    write(tree / f"twice_{namespace}.py", op(namespace) + op(namespace))
    loaded = load([f"twice_{namespace}.py"])
    assert [place.line for place in loaded.twice[f"{namespace}::f"]] == [2, 6]


def test_ops_of_installed_packages_are_set_apart(
    tree: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tree / "lib" / "site-packages"
    write(site / f"dep_{namespace}.py", op(namespace, "theirs"))
    monkeypatch.syspath_prepend(str(site))
    write(tree / f"mine_{namespace}.py", f"import dep_{namespace}\n" + op(namespace, "mine"))
    loaded = load([f"mine_{namespace}.py"])
    assert names(loaded) == [f"{namespace}::mine"]
    assert [each.qualname for each in loaded.others] == [f"{namespace}::theirs"]


def test_an_installed_package_may_be_the_target(
    tree: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tree / "lib" / "site-packages"
    write(site / f"dep_{namespace}" / "__init__.py", op(namespace))
    monkeypatch.syspath_prepend(str(site))
    assert names(load([f"dep_{namespace}"])) == [f"{namespace}::f"]


def test_modules_of_torch_that_are_imported_late_register_for_themselves(
    tree: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tree / "torch"
    monkeypatch.setattr(discover, "TORCH", home)
    write(home / f"late_{namespace}.py", op(namespace, "late"))
    monkeypatch.syspath_prepend(str(home))
    write(tree / f"mine_{namespace}.py", f"import late_{namespace}\n" + op(namespace, "mine"))
    loaded = load([f"mine_{namespace}.py"])
    assert names(loaded) == [f"{namespace}::mine"]
    assert loaded.others == []


def test_nothing_is_noted_once_the_import_is_over(tree: Path, namespace: str) -> None:
    import torch

    define = torch.library.Library.define
    write(tree / f"mine_{namespace}.py", op(namespace))
    load([f"mine_{namespace}.py"])
    assert torch.library.Library.define is define


def test_a_triton_op_is_its_author_s(tmp_path: Path, namespace: str) -> None:
    path = tmp_path / f"{namespace}_triton.py"
    path.write_text(
        "import torch\n"
        "from torch import Tensor\n\n\n"
        f'@torch.library.triton_op("{namespace}::f", mutates_args=())\n'
        "def f(x: Tensor) -> Tensor:\n"
        "    return x * 2\n"
    )
    (op,) = load([str(path)]).ops
    assert (op.position.path, op.position.line) == (path, 5)
    assert op.kernel is not None
    assert op.kernel.__name__ == "f"

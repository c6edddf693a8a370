"""Packages made of functions: they pass lint, format, types, and their tests on real torch."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from from_reading import MODULE, made
from generated import pytest_in, require, write

from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import Registration


def test_every_file_is_python_and_the_kernels_are_the_functions(tmp_path: Path) -> None:
    files = preview(made(tmp_path))
    for path, text in files.items():
        if path.suffix == ".py":
            compile(text, path.as_posix(), "exec")
    kernel = files[Path("src/made/kernels/gain.py")]
    assert "def gain_fake(x, factor):\n    return torch.empty_like(x)\n" in kernel
    given = {ast.unparse(n) for n in ast.parse(MODULE).body if isinstance(n, ast.FunctionDef)}
    copied = {
        ast.unparse(node)
        for path, text in files.items()
        if path.parent.name == "kernels" and path.name != "moved_.py"
        for node in ast.parse(text).body
    }
    assert given <= copied
    assert "from module import shift_" in files[Path("src/made/kernels/moved_.py")]
    assert 'pythonpath = [".", "src", ".."]' in files[Path("pyproject.toml")]


def test_ops_call_the_function_by_its_own_names(tmp_path: Path) -> None:
    files = preview(made(tmp_path))

    def body(name: str) -> str:
        return files[Path(f"src/made/ops/{name}.py")]

    assert "op_kernel(x, weight, mode=mode, eps=eps)" in body("rms")
    assert "op_kernel(x, factor, out=None)" in body("gain")
    assert "op_kernel(x, factor, out)\n    refuse_resized(" in body("gain_out")
    assert "result1: Tensor = result[1]\n    return result1\n" in body("both")
    assert "return result0.clone(), result1\n" in body("turned")
    assert 'check_buffer("exp", "what the kernel returns", result, *_metadata(x))' in body("exp")
    assert "import op_kernel_, op_op_kernel_fake\n" in body("op_kernel")


@pytest.mark.parametrize(
    "changed",
    [{"registration": Registration.LIBRARY}, {"torch_min": (2, 12)}],
    ids=["library", "untagged"],
)
def test_other_registrations_render_as_well(changed: dict[str, object], tmp_path: Path) -> None:
    files = preview(replace(made(tmp_path), **changed))
    for path, text in files.items():
        if path.suffix == ".py":
            compile(text, path.as_posix(), "exec")
    source = "".join(text for path, text in files.items() if "ops" in path.parts)
    assert ("torch.Tag" in source) == ("registration" in changed)


@pytest.mark.slow
@pytest.mark.torch
def test_the_package_passes_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    root = write(made(tmp_path, ("gain", "both", "op_kernel")), tmp_path)
    # What compiles is the same for every kernel, and takes most of the time.
    cheap = ("original", "numbers", "memory", "identity", "prefilled", "resized")
    require(pytest_in(root, "-k", " or ".join([*cheap, "(opcheck and first)"])))

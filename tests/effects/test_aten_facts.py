"""The shipped facts on ATen are those of the installed torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opscaffold.effects import aten

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.torch
def test_facts_are_what_the_tool_generates() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the facts are those of torch 2.13")
    spec = importlib.util.spec_from_file_location(
        "generate_aten_facts", ROOT / "tools" / "generate_aten_facts.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.TARGET.read_text("utf-8") == tool.render(tool.native_functions())


@pytest.mark.parametrize("name", ["view", "transpose", "contiguous", "chunk", "numpy"])
def test_views(name: str) -> None:
    assert aten.is_view(name)


@pytest.mark.parametrize("name", ["topk", "max", "unbind", "split", "svd"])
def test_functions_that_return_several_tensors(name: str) -> None:
    assert aten.returns_several(name)


@pytest.mark.parametrize("name", ["add", "clone", "softmax", "stack"])
def test_functions_that_return_one_new_tensor(name: str) -> None:
    assert aten.is_known(name)
    assert not aten.is_view(name)
    assert not aten.returns_several(name)
    assert not aten.may_mutate(name)

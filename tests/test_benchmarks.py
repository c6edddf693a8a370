"""The tree that speed is measured on: the same everywhere, and what it says it is."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from pathlib import Path

import pytest

from opscaffold.source.project import load_project

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def trees():
    spec = importlib.util.spec_from_file_location("trees", BENCHMARKS / "trees.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_tree_is_the_same_on_every_machine(trees):
    whole = hashlib.sha256()
    for path, text in trees.files_of(trees.Shape(60, 0.3, 12, 30)):
        whole.update(f"{path}\0{text}\0".encode())
    assert whole.hexdigest() == "413f9339421f2e1a7aff900aed9b34e2e60cf6cb0df01ea2dd244b8b95ae1d43"


def test_the_tree_is_as_large_as_was_asked(trees, tmp_path):
    shape = trees.Shape(80, 0.8, 24, 60)
    size = trees.write_tree(tmp_path, shape)
    files = list(tmp_path.rglob("*.py"))
    assert len(files) == shape.files
    assert abs(size / 1e6 - shape.megabytes) < 0.2
    calls = 0
    for path in files:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef) and "_with_op_" in node.name:
                calls += 1
    assert calls == shape.calls
    read = load_project([tmp_path], tmp_path)
    assert len(read.ops) == shape.ops
    assert read.problems == []


def test_a_directory_that_holds_something_is_left_alone(trees, tmp_path):
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(FileExistsError):
        trees.write_tree(tmp_path, trees.Shape(10, 0.1, 1, 1))

"""What the tests of running ops share; without torch there are none."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count()

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.torch)


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"verified_{next(_numbers)}"


@pytest.fixture
def library(namespace: str) -> Iterator[Any]:
    """A Library for low-level definitions."""
    import torch

    made = torch.library.Library(namespace, "FRAGMENT")
    yield made
    made._destroy()

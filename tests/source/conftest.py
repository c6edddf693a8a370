from __future__ import annotations

from pathlib import Path

import pytest
from source_reading import Reader


@pytest.fixture
def tree(tmp_path: Path) -> Reader:
    return Reader(tmp_path.resolve())


@pytest.fixture
def read(tree: Reader):
    def go(files: dict[str, str]):
        for name, text in files.items():
            tree.file(name, text)
        return tree.read()

    return go

from __future__ import annotations

from pathlib import Path

import pytest
from checking import Checker


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Checker:
    """An empty project that is the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
    return Checker(tmp_path, capsys)

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from opscaffold.verify.overlay import overlaid


def test_an_import_reads_what_lies_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "over_one.py"
    plain.write_text("VALUE = 'disk'\n")
    (tmp_path / "over_two.py").write_text("from over_one import VALUE\n")
    instead = tmp_path / "other.txt"
    instead.write_text("VALUE = 'over'\n\ndef where(): return where.__code__.co_filename\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("over_one", "over_two")
    try:
        with overlaid({str(plain.resolve()): str(instead)}):
            one, two = (importlib.import_module(name) for name in names)
        assert (one.VALUE, two.VALUE, one.where()) == ("over", "over", str(plain))
        assert not (tmp_path / "__pycache__").exists()
        for name in names:
            del sys.modules[name]
        assert importlib.import_module("over_two").VALUE == "disk"
    finally:
        for name in names:
            sys.modules.pop(name, None)

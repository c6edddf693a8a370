"""Some files of the standard library: `make stress` runs over all of it, and over site-packages."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from planting import PLANTERS
from stress import Stress, files_of, sample

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
LONGEST = 6_000  # bytes: for the time that it takes
HOW_MANY = 24


def test_files_of_the_standard_library_are_survived(tmp_path: Path) -> None:
    files = sample(files_of([STANDARD_LIBRARY]), STANDARD_LIBRARY, 0.1)
    chosen = [path for path in files if 200 < path.stat().st_size < LONGEST][:HOW_MANY]
    assert chosen
    # The bar for time is make stress's: a test may run on a busy machine.
    stress = Stress(tmp_path, slow=60)
    for number, path in enumerate(chosen):
        stress.file(path, [list(PLANTERS)[number % len(PLANTERS)]])
    assert stress.faults == []
    assert stress.runs >= 2 * len(chosen)
    assert stress.rewritten > 0


def test_faults_are_noticed(tmp_path: Path) -> None:
    stress = Stress(tmp_path, slow=0)
    source = tmp_path / "source.py"
    source.write_text("x = 1\n", "utf-8")
    stress.file(source, [])
    assert {fault.what.split()[1] for fault in stress.faults} == {"takes"}


def test_every_deliberately_bad_file_of_python_s_own_tests_is_survived(tmp_path: Path) -> None:
    folders = ["test", "test/tokenizedata", "lib2to3/tests/data"]
    bad = sorted(
        path
        for folder in folders
        for path in (STANDARD_LIBRARY / folder).glob("*.py")
        if path.name.startswith(("bad", "badsyntax_", "nocaret", "coding20731", "bom", "crlf"))
    )
    stress = Stress(tmp_path, slow=60)
    for path in bad:
        stress.file(path, ["schemas"])
    assert stress.faults == []

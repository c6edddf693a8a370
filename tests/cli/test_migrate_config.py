"""``migrate`` follows the same configuration as ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import BREACH

from opscaffold.cli.app import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(BREACH, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("configured", "arguments", "changed"),
    [
        ("", [], True),
        ('exclude = ["ops.py"]', [], False),
        ('extend-exclude = ["*.py"]', [], False),
        ('exclude = ["ops.py"]', ["--exclude", "other.py"], True),
        ('extend-exclude = ["ops.py"]', ["--exclude", "other.py"], False),
    ],
)
def test_excluded_files_are_left_alone(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    configured: str,
    arguments: list[str],
    changed: bool,
) -> None:
    (project / "pyproject.toml").write_text(f"[tool.opscaffold]\n{configured}\n", "utf-8")
    main(["migrate", *arguments])
    assert ("+++ b/ops.py" in capsys.readouterr().out) is changed


def test_a_wrong_configuration_stops_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "opscaffold.toml").write_text("exclud = []\n", "utf-8")
    assert main(["migrate"]) == 2
    assert "opscaffold.toml:1: unknown key 'exclud'" in capsys.readouterr().err


def test_ops_of_described_helpers_are_split_through_the_helper(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = BREACH[BREACH.index("def double") : BREACH.index("@double")]
    (project / "ops.py").write_text(
        "import torch\nfrom torch import Tensor\nfrom kernels import op\n\n\n"
        f'@op("demo::double", mutates=["out"])\n{body}',
        "utf-8",
    )
    (project / "opscaffold.toml").write_text(
        '[[registrars]]\nhelper = "kernels.op"\nparameters = ["name"]\nname = "name"\n'
        'mutates_args = "mutates"\n',
        "utf-8",
    )
    assert main(["migrate", "--write"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "split into demo::double and demo::double_out" in shown.err
    after = (project / "ops.py").read_text("utf-8")
    assert '@op("demo::double", mutates=[])' in after
    assert '@op("demo::double_out", mutates=["out"])' in after

"""What ends up in the packages, and what an install of them asks for."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from opscaffold import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}


def files_under(*parts: str) -> set[str]:
    """The files below a folder of the checkout, as paths from the checkout."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.joinpath(*parts).rglob("*")
        if path.is_file() and CACHES.isdisjoint(path.parts)
    }


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # The build backend is a development dependency, so no environment need be made for it.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(packages: Path) -> zipfile.ZipFile:
    (path,) = packages.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def sdist(packages: Path) -> set[str]:
    (path,) = packages.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers()}


def test_the_wheel_holds_the_package_and_its_templates(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    templates = {
        name.replace("templates/", "opscaffold/_templates/", 1) for name in files_under("templates")
    }
    assert templates
    assert files_under("opscaffold") | templates <= names


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops == {"opscaffold", f"opscaffold-{__version__}.dist-info"}


def test_the_wheel_has_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    info = f"opscaffold-{__version__}.dist-info"
    entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    assert "opscaffold = opscaffold.__main__:main" in entry_points
    assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()


def test_torch_is_asked_for_by_extras_alone(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(f"opscaffold-{__version__}.dist-info/METADATA").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: torch")]
    assert required
    assert all("extra ==" in line for line in required)


def test_the_sdist_can_be_tested(sdist: set[str]) -> None:
    kept = {"Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"}
    kept |= {"pyproject.toml", ".ci/run"}
    for folder in ("opscaffold", "templates", "tests", "docs", "examples", "tools"):
        kept |= files_under(folder)
    assert kept - sdist == set()

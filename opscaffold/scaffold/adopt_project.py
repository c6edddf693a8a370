"""What a Python project says of itself: its name, what it needs, where packages and tests lie.

Read from pyproject.toml of any backend, setup.cfg and setup.py. Nothing of it is run: of setup.py
counts what is written out in its call of ``setup``.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from opscaffold.fs.text import SourceError, read_source
from opscaffold.fs.tree import Found, read_below

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TORCH = re.compile(r"torch\s*(?:\[[^\]]*\])?\s*(?P<bounds>[^;#]*)")
_LOWER = re.compile(r"(?:>=|==|~=|\^|>)\s*(?P<version>\d+\.\d+)")


@dataclass(slots=True)
class Described:
    """What is said. ``sources`` are directories with packages, ``tests`` those of tests.

    ``imports`` are what pytest puts on the import path, ``torch`` the oldest release asked for.
    ``broken`` are files that could not be read, with the reason.
    """

    name: str = ""
    modules: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    torch: str = ""
    broken: list[str] = field(default_factory=list)


def describe(root: Path) -> Described:
    """Read the project files at ``root``. What is not there says nothing."""
    told = Described()
    for read in (_pyproject, _setup_cfg, _setup_py, _pytest_ini):
        read(root, told)
    told.sources = _each_once(_clean(each) for each in told.sources)
    told.tests = _each_once(_clean(each) for each in told.tests)
    told.imports = _each_once(_clean(each) for each in told.imports)
    return told


def _each_once(several: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(each for each in several if each))


def _clean(path: str) -> str:
    """A directory below the root as one way of writing it; empty for what is none."""
    pure = PurePosixPath(path.strip().replace("\\", "/") or ".")
    if pure.is_absolute() or ".." in pure.parts or any(c in path for c in "*?[\0"):
        return ""
    return pure.as_posix()


# pyproject.toml


def _pyproject(root: Path, told: Described) -> None:
    found = read_below(root, PurePosixPath("pyproject.toml"))
    if not isinstance(found, Found):
        return
    try:
        data = tomllib.loads(found.data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        told.broken.append(f"pyproject.toml: {error}")
        return
    project, tool = _table(data, "project"), _table(data, "tool")
    poetry = _table(tool, "poetry")
    told.name = _text(project.get("name")) or _text(poetry.get("name"))
    _needs(_texts(project.get("dependencies")), told)
    for name, wanted in _table(poetry, "dependencies").items():
        version = wanted.get("version") if isinstance(wanted, dict) else wanted
        _needs([f"{name} {_text(version)}"], told)
    _setuptools(_table(tool, "setuptools"), told)
    build = _table(_table(tool, "hatch"), "build")
    wheel = _table(_table(build, "targets"), "wheel")
    for path in _texts(wheel.get("packages")) + _texts(build.get("packages")):
        _package_at(path, told)
    packages = poetry.get("packages")
    for package in packages if isinstance(packages, list) else ():
        if isinstance(package, dict):
            told.modules.append(_text(package.get("include")).partition("/")[0])
            told.sources.append(_text(package.get("from")) or ".")
    told.modules.append(_text(_table(_table(tool, "flit"), "module").get("name")))
    maturin = _table(tool, "maturin")
    told.modules.append(_text(maturin.get("module-name")).partition(".")[0])
    told.sources += _texts(maturin.get("python-source"))
    backend = _table(_table(tool, "pdm"), "build")
    told.sources += _texts(backend.get("package-dir"))
    backend = _table(_table(tool, "uv"), "build-backend")
    told.modules += [name.partition(".")[0] for name in _texts(backend.get("module-name"))]
    told.sources += _texts(backend.get("module-root"))
    _pytest(_table(_table(tool, "pytest"), "ini_options"), told)


def _setuptools(table: Mapping[str, Any], told: Described) -> None:
    packages = table.get("packages")
    if isinstance(packages, dict):
        told.sources += _texts(_table(packages, "find").get("where"))
    _package_dir(_table(table, "package-dir"), _texts(packages), told)


def _package_dir(places: Mapping[str, Any], packages: list[str], told: Described) -> None:
    """``package_dir`` of setuptools: where packages lie, by name; "" stands for all."""
    for name, place in places.items():
        if not name:
            told.sources.append(_text(place))
        elif PurePosixPath(_text(place)).name == name:
            _package_at(_text(place), told)
    told.modules += [each.partition(".")[0] for each in packages]


def _package_at(path: str, told: Described) -> None:
    pure = PurePosixPath(path)
    told.modules.append(pure.name)
    told.sources.append(pure.parent.as_posix())


# setup.cfg, pytest.ini, tox.ini


def _ini(root: Path, name: str, told: Described) -> configparser.ConfigParser | None:
    found = read_below(root, PurePosixPath(name))
    if not isinstance(found, Found):
        return None
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(found.data.decode("utf-8-sig"))
    except (configparser.Error, UnicodeDecodeError) as error:
        told.broken.append(f"{name}: {' '.join(str(error).split())}")
        return None
    return parser


def _setup_cfg(root: Path, told: Described) -> None:
    parser = _ini(root, "setup.cfg", told)
    if parser is None:
        return
    told.name = told.name or parser.get("metadata", "name", fallback="")
    _needs(_lines(parser, "options", "install_requires"), told)
    pairs = (line.partition("=") for line in _lines(parser, "options", "package_dir"))
    places = {name.strip(): place.strip() for name, _, place in pairs}
    packages = [
        each for each in _lines(parser, "options", "packages") if not each.startswith("find")
    ]
    _package_dir(places, packages, told)
    told.sources += _lines(parser, "options.packages.find", "where")


def _pytest_ini(root: Path, told: Described) -> None:
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        parser = _ini(root, name, Described())
        if parser is not None and parser.has_section(section):
            keys = ("testpaths", "pythonpath")
            _pytest({key: _lines(parser, section, key) for key in keys}, told)
            return


def _pytest(table: Mapping[str, Any], told: Described) -> None:
    told.tests += _words(table.get("testpaths"))
    told.imports += _words(table.get("pythonpath"))


def _lines(parser: configparser.ConfigParser, section: str, key: str) -> list[str]:
    text = parser.get(section, key, fallback="")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _words(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else _texts(value)
    return [word for text in texts for word in text.split()]


# setup.py


def _setup_py(root: Path, told: Described) -> None:
    path = root / "setup.py"
    if not isinstance(read_below(root, PurePosixPath("setup.py")), Found):
        return
    try:
        tree = ast.parse(read_source(path).text)
    except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.message if isinstance(error, SourceError) else str(error)
        told.broken.append(f"setup.py: {reason}")
        return
    known = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    call = next((n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_setup(n)), None)
    if call is None:
        return
    said = {k.arg: k.value for k in call.keywords if k.arg}

    def value(key: str) -> Any:
        node = said.get(key)
        if isinstance(node, ast.Name):
            node = known.get(node.id)
        return _literal(node)

    told.name = told.name or _text(value("name"))
    _needs(_texts(value("install_requires")), told)
    places = value("package_dir")
    _package_dir(places if isinstance(places, dict) else {}, _texts(value("packages")), told)
    packages = said.get("packages")
    if isinstance(packages, ast.Call):
        # find_packages("src"), find_packages(where="src")
        where = [k.value for k in packages.keywords if k.arg == "where"] or packages.args[:1]
        told.sources += [_text(_literal(node)) for node in where if _literal(node)]


def _is_setup(call: ast.Call) -> bool:
    name = call.func
    return (isinstance(name, ast.Name) and name.id == "setup") or (
        isinstance(name, ast.Attribute) and name.attr == "setup"
    )


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


# Values of any kind, taken for what they should be.


def _needs(requirements: list[str], told: Described) -> None:
    """Note the oldest torch that is asked for."""
    for text in requirements:
        found = _TORCH.fullmatch(text.strip())
        lower = _LOWER.search(found["bounds"]) if found else None
        if lower and not told.torch:
            told.torch = lower["version"]


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

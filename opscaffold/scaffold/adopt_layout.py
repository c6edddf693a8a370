"""Where the package of a project lies, where its tests do, and which names are free in it."""

from __future__ import annotations

import ast
import contextlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opscaffold.errors import UserError
from opscaffold.fs.text import SourceError, read_source
from opscaffold.scaffold.adopt_project import Described

FOLDERS = ("ops", "custom_ops", "opscaffold_ops")
SUPPORTS = ("_contract", "_opscaffold_contract")

_NO_PACKAGES = frozenset(
    [
        *("test", "tests", "testing", "doc", "docs", "example", "examples", "sample", "samples"),
        *("benchmark", "benchmarks", "script", "scripts", "tools", "build", "dist", "venv", "env"),
        *("node_modules", "third_party", "3rdparty", "vendor"),
    ]
)
_EXTENSIONS = (".so", ".pyd", ".dylib")


class ChoiceError(UserError):
    """Something that only a person can choose. ``flag`` says how, ``choices`` what there is."""

    def __init__(self, what: str, flag: str, choices: Sequence[str]) -> None:
        super().__init__(f"{what}: {', '.join(choices)}; say which with {flag}")
        self.what = what
        self.flag = flag
        self.choices = tuple(choices)


class CannotAdoptError(UserError):
    """A project that cannot be taken in as it is. The text says what would do."""


@dataclass(frozen=True, slots=True)
class Package:
    """An import package: its name, and the directory that holds it, relative to the root."""

    module: str
    source: str

    def directory(self, root: Path) -> Path:
        """Where it lies."""
        return root / self.source / self.module


def find_package_in(
    root: Path, told: Described, module: str | None, holding_ops: Sequence[Path]
) -> Package:
    """The package of the project at ``root``: as told, else as its files say, else that with ops.

    ``holding_ops`` are the files that register ops. Raises ChoiceError where several would do,
    CannotAdoptError where there is none.
    """
    found = _packages(root, told)
    if module is not None:
        chosen = [each for each in found if each.module == module]
        if len(chosen) > 1:
            places = ", ".join(f"{each.source}/{each.module}" for each in chosen)
            raise CannotAdoptError(f"{module} lies in {len(chosen)} places: {places}")
        if not chosen:
            raise CannotAdoptError(f"--module: there is no package {module} with an __init__.py")
        return chosen[0]
    if not found:
        raise CannotAdoptError(
            f"there is no package below {root}: a directory with an __init__.py, in the root or in "
            "a folder such as src. Ops in single files cannot be added to: make them a package"
        )
    wanted = told.name.replace("-", "_").replace(".", "_").lower()
    for narrowed in (
        [each for each in found if _holds(root, each, holding_ops)],
        [each for each in found if each.module in told.modules],
        [each for each in found if each.module.lower() == wanted],
    ):
        chosen = [each for each in narrowed if each in found]
        if len(chosen) == 1:
            return chosen[0]
        found = chosen or found
    raise ChoiceError("there are several packages", "--module", [each.module for each in found])


def _packages(root: Path, told: Described) -> list[Package]:
    """The packages that lie right in the root, or in a folder that is none itself."""
    sources = dict.fromkeys([*told.sources, "src", "."])
    sources |= dict.fromkeys(
        path.name
        for path in _listed(root)
        if _is(path, stat.S_IFDIR) and _is_source(path) and not _is_package(path)
    )
    found: list[Package] = []
    for source in sources:
        directory = root / source
        if _is_package(directory):
            continue
        found += [
            Package(path.name, PurePosixPath(source).as_posix())
            for path in _listed(directory)
            if _is(path, stat.S_IFDIR) and _is_source(path) and _is_package(path)
        ]
    return list(dict.fromkeys(found))


def _listed(directory: Path) -> list[Path]:
    """What a directory holds, nothing where it cannot be read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _is(path: Path, kind: int) -> bool:
    """Whether a path is there and of that kind itself: no link is followed."""
    try:
        return stat.S_IFMT(path.lstat().st_mode) == kind
    except OSError:
        return False


def _is_source(path: Path) -> bool:
    name = path.name.lower()
    return not (name.startswith((".", "_")) or name in _NO_PACKAGES)


def _is_package(path: Path) -> bool:
    return path.name.isidentifier() and _is(path / "__init__.py", stat.S_IFREG)


def _holds(root: Path, package: Package, files: Sequence[Path]) -> bool:
    directory = package.directory(root)
    return any(path.is_relative_to(directory) for path in files)


def find_tests(root: Path, told: Described, given: Path | None) -> str:
    """The folder of tests, relative to the root; it need not be there. Raises CannotAdoptError."""
    if given is not None:
        pure = PurePosixPath(given.as_posix())
        if pure.is_absolute() or ".." in pure.parts:
            raise CannotAdoptError(f"--tests: {given} is no folder below {root}")
        if (root / pure).exists() and not (root / pure).is_dir():
            raise CannotAdoptError(f"--tests: {given} is no directory")
        return pure.as_posix()
    names = [*told.tests, "tests", "test"]
    return next((n for n in names if (root / n).is_dir() and n != "."), "tests")


def free_folder(package: Path) -> str:
    """The name of the package, within another, that added ops go to. Raises CannotAdoptError."""
    bound = _bound_names(package)
    for name in FOLDERS:
        inside = package / name
        if name in bound or _is_module(package, name):
            continue
        if not inside.exists() or (inside.is_dir() and (inside / "__init__.py").is_file()):
            return name
    raise CannotAdoptError(f"{package} has {', '.join(FOLDERS)} already: no name is left for ops")


def free_support(package: Path, shared: bytes) -> str:
    """The name of the module that added ops share. Raises CannotAdoptError.

    ``shared`` is what it is to hold: a file that holds just that is it.
    """
    bound = _bound_names(package)
    for name in SUPPORTS:
        if _is(package / f"{name}.py", stat.S_IFREG):
            with contextlib.suppress(OSError):
                if (package / f"{name}.py").read_bytes() == shared:
                    return name
        taken = name in bound or _is_module(package, name) or (package / name).exists()
        if not taken:
            return name
    raise CannotAdoptError(f"{package} has {' and '.join(SUPPORTS)} already: rename one of them")


def _is_module(package: Path, name: str) -> bool:
    """Whether a module of that name is a file, built ones included."""
    return any(
        path.name == f"{name}.py"
        or (path.name.startswith(f"{name}.") and path.suffix in _EXTENSIONS)
        for path in _listed(package)
    )


def _bound_names(package: Path) -> set[str]:
    """What ``__init__`` binds by itself: importing a submodule of that name would replace it.

    Raises CannotAdoptError for a file that cannot be read.
    """
    path = package / "__init__.py"
    try:
        tree = ast.parse(read_source(path).text)
    except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or getattr(error, "line", None) or 1
        reason = getattr(error, "msg", None) or getattr(error, "message", None) or str(error)
        raise CannotAdoptError(f"{path}:{line}: cannot be read: {reason}") from None
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not _from_itself(node, package.name):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def _from_itself(node: ast.ImportFrom, package: str) -> bool:
    """Whether names are submodules: ``from . import ops``, ``from package import ops``."""
    return (node.level == 1 and node.module is None) or (node.level == 0 and node.module == package)

"""Taking in a package that somebody wrote: what would be recorded and put beside what is there.

Nothing that is there is changed. The few files that added ops need are put under names that are
free; where none is, that is said instead.
"""

from __future__ import annotations

import ast
import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opscaffold import __version__
from opscaffold.contract.naming import validate_namespace
from opscaffold.contract.releases import FIRST_WITH_CUSTOM_OP, parse_version
from opscaffold.fs.journal import Unit
from opscaffold.fs.text import SourceError, read_source
from opscaffold.fs.tree import Unusable, read_below
from opscaffold.scaffold.adopt_layout import (
    CannotAdoptError,
    ChoiceError,
    Package,
    find_package_in,
    find_tests,
    free_folder,
    free_support,
)
from opscaffold.scaffold.adopt_ops import ContractOf, FoundOps, ops_in
from opscaffold.scaffold.adopt_project import Described, describe
from opscaffold.scaffold.adopted import SAMPLES, Adopted
from opscaffold.scaffold.answers import DEFAULT_TORCH, answers_of
from opscaffold.scaffold.given import Answers, Given
from opscaffold.scaffold.managed import (
    ANSWERS,
    RECORD_FILES,
    NotManagedError,
    Origin,
    Record,
    find_package,
    record_files,
)
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.managed_origin import templates_digest
from opscaffold.scaffold.managed_render import rendered, spec_of
from opscaffold.scaffold.package_name import check_package_name
from opscaffold.scaffold.spec import PackageSpec, Registration
from opscaffold.source.project import Project

_USED = frozenset({"SAMPLES", "Sample", "Make", "CASES", "CONTIGUOUS", "devices"})
_CONFTEST = PurePosixPath("conftest.py")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the person said; None for what is to be found out."""

    module: str | None = None
    namespace: str | None = None
    tests: Path | None = None
    torch_min: str | None = None
    registration: str | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """What taking a package in does. ``notes`` are what its author has to see to."""

    root: Path
    spec: PackageSpec
    adopted: Adopted
    ops: FoundOps
    files: dict[PurePosixPath, bytes]
    notes: tuple[str, ...]

    @property
    def shown(self) -> list[PurePosixPath]:
        """The files that are made, the record aside."""
        return [path for path in self.files if path not in RECORD_FILES]

    def unit(self) -> Unit:
        """All of it as one unit of a journalled write."""
        changes = {self.root / path: (None, data) for path, data in self.files.items()}
        return Unit(f"adopt {self.spec.name}", changes)


def refuse_managed(root: Path) -> None:
    """Raise CannotAdoptError for a package that is kept already, or lies in one."""
    if not root.is_dir():
        known = "is no directory" if root.exists() else "there is no such directory"
        raise CannotAdoptError(f"{root}: {known}")
    if os.path.lexists(root / ANSWERS):
        raise CannotAdoptError(f"{root} is kept by opscaffold already: opscaffold add adds to it")
    try:
        outer = find_package(root)
    except NotManagedError:
        return
    raise CannotAdoptError(f"{root} lies in {outer}, which opscaffold keeps already")


def plan_adoption(
    root: Path, project: Project, contract_of: ContractOf, wanted: Wanted
) -> Adoption:
    """Plan to take in the project at ``root``, as it was read. Nothing is written or run.

    Raises ChoiceError where a person must choose, CannotAdoptError, and AnswerError for what was
    said and cannot be used.
    """
    told = describe(root)
    holding = [op.definition.module.path for op in project.all_ops]
    package = find_package_in(root, told, wanted.module, holding)
    notes = [f"{each}; what it says was left out" for each in told.broken]
    torch_min = _torch_min(told, wanted, notes)
    ops = ops_in(project, package.directory(root), contract_of, parse_version(torch_min))
    way = wanted.registration or _way(ops)
    answers = Answers(
        {
            "package": Given(_name(told, package), "the project's name"),
            "namespace": Given(_namespace(ops, package, wanted), "--namespace"),
            "torch_min": Given(torch_min, "--torch-min"),
            "registration": Given(way, "--registration"),
        }
    )
    adopted = Adopted(
        module=package.module,
        source=package.source,
        tests=find_tests(root, told, wanted.tests),
        folder=free_folder(package.directory(root)),
        written=tuple(ops.written),
    )
    usual = rendered(spec_of(answers, adopted), adopted)
    shared = usual[adopted.package / f"{adopted.support}.py"].data
    adopted = replace(adopted, support=free_support(package.directory(root), shared))
    spec = spec_of(answers, adopted)
    _refuse_other_samples(root)
    files = _files(root, spec, adopted, told, notes)
    return Adoption(root, spec, adopted, ops, files, tuple(notes))


def _name(told: Described, package: Package) -> str:
    """The project's name, or that of its package where nothing could be made under the former."""
    with contextlib.suppress(ValueError):
        return check_package_name(told.name)
    try:
        return check_package_name(package.module)
    except ValueError as error:
        raise CannotAdoptError(f"nothing can be added to this package: {error}") from None


def _torch_min(told: Described, wanted: Wanted, notes: list[str]) -> str:
    if wanted.torch_min is not None:
        return wanted.torch_min
    first = ".".join(map(str, FIRST_WITH_CUSTOM_OP))
    if not told.torch:
        notes.append(
            f"the project does not say which torch it needs: {DEFAULT_TORCH} is taken, another by "
            "--torch-min"
        )
        return DEFAULT_TORCH
    if parse_version(told.torch) < FIRST_WITH_CUSTOM_OP:
        notes.append(f"the project runs on torch {told.torch}, added ops need {first}")
        return first
    return told.torch


def _way(ops: FoundOps) -> str:
    """What added ops are registered through: what most that are there are."""
    way = Registration.CUSTOM_OP
    if 2 * ops.library > len(ops.written):
        way = Registration.LIBRARY
    return str(way.value)


def _namespace(ops: FoundOps, package: Package, wanted: Wanted) -> str:
    if wanted.namespace is not None:
        return wanted.namespace
    found = ops.namespaces()
    if len(found) > 1:
        raise ChoiceError("ops are registered in several namespaces", "--namespace", [*found])
    if found:
        return next(iter(found))
    reason = validate_namespace(package.module)
    if reason is not None:
        raise CannotAdoptError(
            f"no op tells the namespace, and the package's name does not do: {reason} (--namespace)"
        )
    return package.module


def _refuse_other_samples(root: Path) -> None:
    """Samples of the author's own must have what those of added ops are made with."""
    found = read_below(root, SAMPLES)
    if found is None:
        return
    try:
        tree = ast.parse(read_source(root / SAMPLES).text)
    except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
        raise CannotAdoptError(f"{SAMPLES} cannot be read as Python: mend it first") from None
    bound = {
        name
        for node in tree.body
        for name in (
            [node.name]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            else [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        )
    }
    missing = sorted(_USED - bound)
    if missing:
        raise CannotAdoptError(
            f"{SAMPLES} is there, and has no {', '.join(missing)}, which the samples of added ops "
            "are made with: move it aside, adopt, then put its samples into the new one"
        )


def _files(
    root: Path, spec: PackageSpec, adopted: Adopted, told: Described, notes: list[str]
) -> dict[PurePosixPath, bytes]:
    """What is made: what added ops need, where it is not there, and the record of that."""
    generated: dict[PurePosixPath, Generated] = {}
    files: dict[PurePosixPath, bytes] = {}
    for path, file in rendered(spec, adopted).items():
        there = read_below(root, path) if adopted.needs(path) else None
        if isinstance(there, Unusable):
            raise CannotAdoptError(f"{path} is needed, but it {there.reason}")
        if adopted.needs(path) and (there is None or there.data == file.data):
            generated[path] = file
        if adopted.needs(path) and there is None:
            files[path] = file.data
    files |= _conftest(root, adopted, told, notes)
    record = Record(
        answers_of(spec),
        generated,
        Origin(__version__, templates_digest()),
        adopted,
    )
    files |= record_files(record)
    return files


def _conftest(
    root: Path, adopted: Adopted, told: Described, notes: list[str]
) -> dict[PurePosixPath, bytes]:
    """What lets the tests of added ops find what they import: theirs to change from then on."""
    tests = PurePosixPath(adopted.tests)
    needed = {PurePosixPath()}
    if read_below(root, tests / "__init__.py") is not None:
        # Pytest puts a folder of tests on the path, but not a package.
        needed.add(tests)
    found = needed <= {PurePosixPath(each) for each in told.imports}
    for directory in (tests,) if found else dict.fromkeys((tests, PurePosixPath())):
        path = directory / _CONFTEST
        if read_below(root, path) is None:
            text = _CONFTEST_TEXT.replace("PATHS", _paths(adopted, directory))
            return {path: text.encode()}
    if not found:
        notes.append(
            "tests of added ops import opscaffold_samples and opscaffold_checks: let pytest find "
            f'them, with pythonpath = [".", "{adopted.tests}"] in its configuration'
        )
    return {}


def _paths(adopted: Adopted, directory: PurePosixPath) -> str:
    """The directories to import from, relative to the conftest, as items of a tuple."""
    wanted = dict.fromkeys((".", adopted.tests, adopted.source))
    found = [Path(os.path.relpath(each, directory)).as_posix() for each in wanted]
    return ", ".join(f'"{each}"' for each in found) + ("," if len(found) == 1 else "")


_CONFTEST_TEXT = '''\
"""Lets the tests find what they import, and gives each run a compile cache of its own.

PyTorch's caches do not notice that an op's contract changed, and would show the old result.
"""

import os
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
for _path in (PATHS):
    # Behind all others: what is installed comes first.
    sys.path.append(str((_HERE / _path).resolve()))

_CACHE = tempfile.TemporaryDirectory(prefix="inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _CACHE.name
'''

"""Names that an added op would share with something that its package has already."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opscaffold.errors import UserError
from opscaffold.scaffold.answers import op_names
from opscaffold.scaffold.managed import Record
from opscaffold.scaffold.spec import OpSpec, PackageSpec
from opscaffold.source.project import Project, load_project


class NameTakenError(UserError):
    """A name of an op that is taken. The text says by what, and where."""


def refuse_taken(root: Path, record: Record, spec: PackageSpec, added: Iterable[OpSpec]) -> None:
    """Raise NameTakenError for an op whose name an op or a module of the package has.

    Ops that the author registers by hand are found by reading the package; nothing of it is run.
    That two generated ops share a name is told where the answers are read.
    """
    names = [name for op in added for name in op_names(op)]
    inside = _source(root, record, spec)
    for name in names:
        for there in (inside / f"{name}.py", inside / name):
            if there.exists():
                raise NameTakenError(
                    f"the name {name} is taken: {there.relative_to(root)} is a module that the "
                    f"function {spec.module}.{name} would hide; name the op otherwise"
                )
    wanted = {f"{spec.namespace}::{name}": name for name in names}
    if record.adopted is not None:
        for op in record.adopted.written:
            if _base(op.name) in wanted:
                raise _taken(wanted[_base(op.name)], op.file)
    for qualname, place in _registered(load_project([root], root)):
        if qualname in wanted:
            raise _taken(wanted[qualname], place)


def _source(root: Path, record: Record, spec: PackageSpec) -> Path:
    if record.adopted is not None:
        return root / record.adopted.package
    return root / "src" / spec.module


def _registered(project: Project) -> Iterable[tuple[str, str]]:
    """Each op of a project with the place that registers it."""
    for op in project.all_ops:
        path = op.definition.module.path
        line = (op.definition.call or op.definition.statement).lineno
        if op.definition.qualname is not None:
            yield _base(op.qualname), f"{path.relative_to(project.root)}:{line}"


def _base(qualname: str) -> str:
    """The name without an overload: PyTorch puts one in the place of another of its name."""
    namespace, _, name = qualname.partition("::")
    return f"{namespace}::{name.partition('.')[0]}"


def _taken(name: str, place: str) -> NameTakenError:
    return NameTakenError(
        f"the name {name} is taken by an op at {place}; give the new one a name of its own"
    )

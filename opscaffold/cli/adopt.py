"""``opscaffold adopt``: let opscaffold keep a package that somebody wrote by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion

if TYPE_CHECKING:
    from opscaffold.scaffold.adopt import Adoption, Wanted
    from opscaffold.scaffold.adopt_layout import ChoiceError

OK = 0
DECLINED = 1


def adopt(
    package: Annotated[
        Path | None,
        typer.Argument(
            metavar="PACKAGE_DIR",
            help="The project, with its pyproject.toml or setup.py; default: this directory.",
        ),
    ] = None,
    *,
    module: Annotated[
        str | None,
        typer.Option(
            "--module", metavar="NAME", help="The import package, where there are several."
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAME",
            help="The torch.ops namespace that added ops go to, where there are several.",
        ),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option("--tests", metavar="DIR", help="The folder of tests, below the project."),
    ] = None,
    torch_min: Annotated[
        str | None,
        typer.Option("--torch-min", metavar="RELEASE", help="Oldest torch it must run on."),
    ] = None,
    registration: Annotated[
        str | None,
        typer.Option(
            "--registration",
            metavar="WAY",
            autocompletion=completion.one_of("custom_op", "library"),
            help="What added ops are registered through: custom_op or library.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be recorded, and write nothing.")
    ] = False,
) -> int:
    """Let opscaffold keep a package with ops that were written by hand.

    Finds its ops, package, namespace and tests by reading, and runs nothing. Shows what would be
    recorded, and on a terminal asks; then `opscaffold add` works in it. No file that is there is
    changed, then or by `opscaffold update`.

    Exit codes: 0 done, 1 declined, 2 something in the way.
    """
    from opscaffold.cli.migrate_write import mend
    from opscaffold.fs.paths import real_path
    from opscaffold.scaffold.adopt import Wanted, refuse_managed
    from opscaffold.scaffold.adopt_write import write_adoption

    root = real_path(package if package is not None else Path())
    mend(root, writing=not dry_run)
    refuse_managed(root)
    wanted = Wanted(
        module,
        _checked("namespace", namespace),
        tests,
        _checked("torch_min", torch_min),
        _checked("registration", registration),
    )
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    planned = _plan(root, wanted, asks=asks)
    typer.echo(_text(planned))
    if dry_run:
        typer.echo("Nothing was written.", err=True)
        return OK
    if asks and not typer.confirm("Write these files?", default=True):
        typer.echo("Nothing was written.")
        return DECLINED
    write_adoption(planned)
    typer.echo("Adopted. Next: opscaffold add --schema ...")
    return OK


def _checked(key: str, value: str | None) -> str | None:
    """What a flag says, in its normal form. Raises AnswerError."""
    from opscaffold.scaffold.given import Given
    from opscaffold.scaffold.op_answers import check_one
    from opscaffold.scaffold.questions import PACKAGE

    if value is None:
        return None
    question = PACKAGE[key]
    return str(check_one(Given(value, question.flag), question).value)


def _plan(root: Path, wanted: Wanted, *, asks: bool) -> Adoption:
    """The plan; what only a person can choose is asked on a terminal."""
    from dataclasses import replace

    from opscaffold.config.load import load_config
    from opscaffold.rules.contracts import contract_of
    from opscaffold.scaffold.adopt import plan_adoption
    from opscaffold.scaffold.adopt_layout import ChoiceError
    from opscaffold.source.project import load_project

    config = load_config(root)
    project = load_project(
        [root], root, exclude=config.excluded(None), registrars=config.registrars
    )

    def plan(wanted: Wanted) -> Adoption:
        try:
            return plan_adoption(root, project, contract_of, wanted)
        except ChoiceError as choice:
            if not asks:
                raise
            chosen = _choose(choice)
            if choice.flag == "--module":
                return plan(replace(wanted, module=chosen))
            return plan(replace(wanted, namespace=chosen))

    return plan(wanted)


def _choose(choice: ChoiceError) -> str:
    typer.echo(f"{choice.what}: {', '.join(choice.choices)}")
    while True:
        answer = str(typer.prompt("Which one", default=choice.choices[0]))
        if answer in choice.choices:
            return answer
        typer.echo(f"{answer!r} is none of them.")


def _text(planned: Adoption) -> str:
    """What would be recorded and made, and what the author has to see to."""
    from opscaffold.fs.atomic import shown

    spec, adopted = planned.spec, planned.adopted
    told = [op for op in planned.ops.written if op.schema]
    torch = ".".join(map(str, spec.torch_min))
    where = adopted.package.as_posix()
    way = spec.registration.value
    count = len(planned.ops.written)
    lines = [
        f"{shown(planned.root)}: package {spec.name}, imported as {spec.module} from {where}",
        f"  namespace {spec.namespace}, torch {torch} or newer, new ops through {way}",
        f"  new ops go to {where}/{adopted.folder}, their tests to {adopted.tests}",
        f"Ops written by hand: {count or 'none was found'}",
    ]
    lines += [f"  {op.kind:<10}  {op.schema}  [{op.file}]" for op in told]
    if planned.ops.left:
        lines.append("Not expressed as answers:")
    for left in planned.ops.left:
        name = f"{left.name}: " if left.name else ""
        lines.append(f"  {left.path}:{left.line}: {name}{left.reason}")
    lines.append("New files:")
    lines += [f"  {path}" for path in sorted(planned.files)]
    lines += [f"Note: {note}" for note in planned.notes]
    return "\n".join(lines)

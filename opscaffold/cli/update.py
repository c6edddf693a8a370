"""``opscaffold update``: bring a generated package to the templates of now, edits kept."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion

if TYPE_CHECKING:
    from opscaffold.scaffold.given import Answers, Value
    from opscaffold.scaffold.update_apply import Update
    from opscaffold.scaffold.update_plan import Resolve

OK = 0
REMAINS = 1


class ConflictChoice(str, enum.Enum):
    """What becomes of the places that author and templates both changed."""

    LEAVE = "leave"
    MARKERS = "markers"
    KEEP = "keep"
    NEW = "new"


class Format(str, enum.Enum):
    """How the result is written."""

    TEXT = "text"
    JSON = "json"


def update(
    package: Annotated[
        Path | None,
        typer.Argument(
            metavar="PACKAGE_DIR", help="The package; default: the one that this directory is in."
        ),
    ] = None,
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the changes to the files.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Print no diff; exit 1 if anything would change or is in conflict."
        ),
    ] = False,
    conflict: Annotated[
        ConflictChoice | None,
        typer.Option(
            "--conflict",
            metavar="HOW",
            help="Where you and the templates changed the same place: leave the file as it is "
            "(default), set markers, keep yours, or take the new. With --write on a terminal, "
            "each is asked about.",
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", metavar="TEXT", help="Another description than before."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="Another torch.ops namespace."),
    ] = None,
    torch_min: Annotated[
        str | None,
        typer.Option("--torch-min", metavar="RELEASE", help="Another oldest torch to run on."),
    ] = None,
    registration: Annotated[
        str | None,
        typer.Option(
            "--registration",
            metavar="WAY",
            autocompletion=completion.one_of("custom_op", "library"),
            help="Register ops another way: custom_op or library.",
        ),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="DIR",
            help="Render your own templates. They are programs: use those you trust.",
        ),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="text or json.")
    ] = Format.TEXT,
    allow_dirty: Annotated[
        bool,
        typer.Option("--allow-dirty", help="Write although git has uncommitted changes."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say only what needs a person.")
    ] = False,
) -> int:
    """Merge what templates make now into a package that opscaffold made, edits kept.

    Each file is merged from what was generated before, what it holds, and what is generated now.
    Prints a diff that `git apply` takes, and writes nothing, unless told to. Every file is listed
    with what happens to it.

    Exit codes: 0 done, 1 conflicts are left (or, with --check, something would change), 2 usage.
    """
    from opscaffold.errors import UserError
    from opscaffold.fs.paths import real_path
    from opscaffold.scaffold.managed import find_package, read_record

    if write and check:
        raise UserError("--write and --check exclude each other: choose one")
    if package is not None and not package.exists():
        raise UserError(f"{package}: there is no such directory")
    root = real_path(find_package(package if package is not None else Path()))
    # What is wrong with the record is said before what is wrong with an answer in it.
    read_record(root)
    whole: dict[str, Value | None] = {
        "description": description,
        "namespace": namespace,
        "torch_min": torch_min,
        "registration": registration,
    }
    run = _Run(root, whole, template, conflict, quiet=quiet)
    if write:
        planned = run.write(allow_dirty=allow_dirty)
    else:
        planned = run.show(check=check, diff=not check and output_format is Format.TEXT)
    run.report(planned, output_format, written=write, diff=not write and not check)
    return REMAINS if planned.conflicts or (check and planned.writes) else OK


class _Run:
    def __init__(
        self,
        root: Path,
        whole: dict[str, Value | None],
        own: Path | None,
        conflict: ConflictChoice | None,
        *,
        quiet: bool,
    ) -> None:
        self.root, self.whole, self.own, self.conflict = root, whole, own, conflict
        self.quiet = quiet

    def write(self, *, allow_dirty: bool) -> Update:
        from opscaffold.cli.migrate_write import CACHES, mend, refuse_dirty
        from opscaffold.scaffold.update_apply import apply

        earlier = mend(self.root, writing=True)
        planned = self.plan(self.fixed())
        asks = self.conflict is None and bool(planned.conflicts) and _on_terminal()
        if planned.writes or asks:
            # Before anybody has answered a question in vain.
            refuse_dirty(self.root, allow_dirty=allow_dirty, earlier=earlier)
        if asks:
            from opscaffold.cli.update_ask import Asker

            planned = self.plan(Asker(self.root))
        apply(planned)
        if planned.asked and not self.quiet:
            # Other answers may make for other contracts.
            typer.echo(CACHES, err=True)
        return planned

    def show(self, *, check: bool, diff: bool) -> Update:
        from opscaffold.cli.migrate_write import mend
        from opscaffold.cli.update_report import write_changes

        mend(self.root, writing=False)
        planned = self.plan(self.fixed())
        if diff and not check:
            write_changes(planned)
        return planned

    def plan(self, resolve: Resolve) -> Update:
        from opscaffold.scaffold.update_apply import plan

        return plan(self.root, self.answers(), self.own, resolve)

    def answers(self) -> Answers:
        from opscaffold.cli.new_answers import gather
        from opscaffold.scaffold.update_apply import answers_file

        return gather(self.whole, [], {}, answers_file(self.root))

    def fixed(self) -> Resolve:
        from opscaffold.scaffold.merge import Resolution

        chosen = self.conflict
        if chosen is None or chosen is ConflictChoice.LEAVE:
            return lambda _: None
        resolution = Resolution(chosen.value)
        return lambda _: resolution

    def report(self, planned: Update, output_format: Format, *, written: bool, diff: bool) -> None:
        from opscaffold.cli.update_report import render_json, render_text

        if output_format is Format.JSON:
            typer.echo(render_json(planned, written=written), nl=False)
        else:
            # A diff has stdout for itself.
            text = render_text(planned, written=written, quiet=self.quiet)
            typer.echo(text, nl=False, err=diff)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()

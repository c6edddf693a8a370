"""One run of ``add``: new answers beside those of the record, then a plan, shown or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import typer

from opscaffold.cli.new import INTERRUPTED
from opscaffold.cli.new_texts import ops_text
from opscaffold.errors import UserError
from opscaffold.fs.atomic import shown
from opscaffold.fs.paths import real_path
from opscaffold.scaffold.add import Addition, plan_addition
from opscaffold.scaffold.answers import build, missing, op_names, with_defaults
from opscaffold.scaffold.given import AnswerError, Answers, Given, Table
from opscaffold.scaffold.managed import find_package, read_record
from opscaffold.scaffold.managed_render import placed
from opscaffold.scaffold.own_templates import templates_of
from opscaffold.scaffold.spec import PackageSpec

# Nobody calls an op this.
_TRIAL = "op_trial_0"


class Run:
    """What is added to one package. Raises UserError where there is none."""

    def __init__(
        self,
        package: Path | None,
        template: Path | None,
        by_hand: Sequence[Path],
        *,
        writes: bool,
    ) -> None:
        from opscaffold.cli.migrate_write import mend

        if package is not None and not package.exists():
            raise UserError(f"{package}: there is no such directory")
        self.root = real_path(find_package(package if package is not None else Path()))
        # Before anything is read: a killed run may have left files that do not fit together.
        mend(self.root, writing=writes)
        self.record = read_record(self.root)
        self.own = templates_of(self.root, self.record, template)
        self.by_hand = [self._below(path) for path in by_hand]

    def _below(self, path: Path) -> PurePosixPath:
        for base in (Path(), self.root):
            real = real_path(base / path)
            if real.is_relative_to(self.root) and real.is_file():
                return PurePosixPath(real.relative_to(self.root).as_posix())
        raise UserError(f"--by-hand: {path} is no file of {shown(self.root)}")

    # Answers.

    def read(self, given: Answers, *, defaults: bool) -> Addition:
        """The plan, without asking."""
        given = self._together(given)
        count = len(given.ops) - self._settled
        if count == 0 and defaults:
            given, count = Answers(given.package, (*given.ops, {})), 1
        if count == 0:
            raise UserError(
                "no op is told, and there is no terminal to ask on; give --schema, --signature, "
                "or --op with --param and --returns"
            )
        lacking = missing(given)
        if lacking and not defaults:
            raise UserError(
                "there is no terminal to ask on, and these answers are missing: "
                f"{', '.join(lacking)}; give them, or --defaults"
            )
        return self._plan(build(with_defaults(given) if defaults else given))

    def ask(self, given: Answers, *, all_questions: bool, dry_run: bool) -> Addition | None:
        """The plan, asking for what is open; None where the person declines."""
        from opscaffold.cli.screen import Terminal
        from opscaffold.scaffold.tree import Declined
        from opscaffold.scaffold.walk import walk

        given = self._together(given)
        if not all_questions and len(given.ops) > self._settled and not missing(given):
            return self._plan(build(given))
        self._try()
        planned: list[Addition] = []

        def summary(spec: PackageSpec) -> str:
            planned[:] = [self._plan(spec)]
            return self._summary(planned[0])

        try:
            spec = walk(
                Terminal(),
                given,
                all_questions=all_questions,
                summary=None if dry_run else summary,
                settled=self._settled,
            )
        except Declined as declined:
            typer.echo(f"{declined}.")
            return None
        except KeyboardInterrupt:
            typer.echo("\nopscaffold: interrupted; nothing was written", err=True)
            raise typer.Exit(INTERRUPTED) from None
        return planned[0] if planned else self._plan(spec)

    def _try(self) -> None:
        """Say what is in the way of any op, before anybody answers a question in vain."""
        table = {"name": Given(_TRIAL)}
        answers = Answers(self.record.answers.package, (*self.record.answers.ops, table))
        self._plan(build(with_defaults(answers)))

    @property
    def _settled(self) -> int:
        return len(self.record.answers.ops)

    def _together(self, given: Answers) -> Answers:
        """The record's answers with the new ones. Raises AnswerError where they disagree."""
        package = self.record.answers.package
        for key, answer in given.package.items():
            if key in package and package[key].value != answer.value:
                raise AnswerError(
                    f"the package has {package[key].value!r} as its {key}, and adding an op does "
                    "not change that; leave it out",
                    answer.origin,
                    (key,),
                )
        self._refuse_again(given.ops)
        return Answers(package, (*self.record.answers.ops, *given.ops))

    def _refuse_again(self, tables: Sequence[Table]) -> None:
        """Say of an op that is there that it is there, rather than that two answers clash."""
        from opscaffold.scaffold.op_answers import said_name

        there = {
            name.lower(): op.contract.name
            for op in build(self.record.answers, empty=True).ops
            for name in op_names(op)
        }
        for table in tables:
            name = said_name(table)
            if name.lower() in there:
                raise AnswerError(
                    f"the package has an op {there[name.lower()]} already; each op needs a name "
                    "that differs in more than case, and a family takes three",
                    next(table[k].origin for k in ("schema", "signature", "name") if k in table),
                    ("name",),
                )

    def _plan(self, spec: PackageSpec) -> Addition:
        return plan_addition(
            self.root,
            self.record,
            placed(spec, self.record.adopted),
            len(spec.ops) - self._settled,
            own=self.own,
            by_hand=self.by_hand,
        )

    # What comes of it.

    def show(self, planned: Addition) -> None:
        """Print the diff, and what is to be done by hand."""
        from opscaffold.report.diff import unified_diff, write_diff

        changes = {self.root / path: both for path, both in planned.shown.items()}
        write_diff(unified_diff(changes, self.root))
        typer.echo("Nothing was written; the record in .opscaffold would change too.", err=True)
        self._say_by_hand(planned)

    def write(self, planned: Addition) -> None:
        """Write all of it or nothing, and say what comes next."""
        from opscaffold.scaffold.add_write import write_addition
        from opscaffold.scaffold.languages import LANGUAGES

        write_addition(planned)
        names = [name for op in planned.ops for name in op_names(op)]
        what = "1 op" if len(names) == 1 else f"{len(names)} ops"
        some = f"{', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
        typer.echo(f"Added {what} ({some}) to {shown(self.root)}:")
        typer.echo(self._files(planned))
        self._say_by_hand(planned)
        built = not all(LANGUAGES[op.kernel].registers for op in planned.ops)
        then = "python -m pip install --no-build-isolation -e '.[test]', then " if built else ""
        typer.echo(f"Next: edit the new modules and samples, then {then}python -m pytest")

    def _summary(self, planned: Addition) -> str:
        from dataclasses import replace

        told = ops_text(replace(planned.spec, ops=planned.ops))
        return f"{told}\n\n{shown(self.root)}:\n{self._files(planned)}"

    def _files(self, planned: Addition) -> str:
        return "\n".join(
            f"  {'new ' if old is None else 'edit'}  {path}"
            for path, (old, _) in planned.shown.items()
        )

    def _say_by_hand(self, planned: Addition) -> None:
        for each in planned.by_hand:
            lines = "\n".join(f"    {line}" for line in each.text.splitlines())
            typer.echo(f"By hand, into {each.where}:\n{lines}", err=True)

"""One run of ``migrate``: plan in memory, then show, write or describe what was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opscaffold.cli.migrate_progress import Progress
from opscaffold.cli.migrate_summary import remains, summarise
from opscaffold.cli.migrate_write import mend, refuse_dirty, write
from opscaffold.config.load import load_config
from opscaffold.contract.releases import FIRST_WITH_CUSTOM_OP, parse_version
from opscaffold.errors import UserError
from opscaffold.fs.atomic import shown, write_atomically
from opscaffold.fs.journal import Unit
from opscaffold.migrate.asked import Request
from opscaffold.migrate.engine import migrate
from opscaffold.migrate.plan import Options
from opscaffold.migrate.steps import units
from opscaffold.report.diff import unified_diff, write_diff
from opscaffold.rules.selection import chosen_for
from opscaffold.source.files import find_root, without_excluded

if TYPE_CHECKING:
    from opscaffold.cli.migrate_verify import Prover
    from opscaffold.migrate.engine import Accept, Migration

Files = Mapping[Path, tuple[bytes | None, bytes]]


class Run:
    """What is asked of one run. Raises UserError for what cannot be."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path | None,
        *,
        select: Sequence[str] | None,
        ignore: Sequence[str],
        only: Sequence[str],
        exclude: list[str] | None,
        force_exclude: bool = False,
    ) -> None:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path}: there is no such file or directory")
        self.root = (root if root is not None else find_root(paths)).resolve()
        for path in paths:
            if not path.resolve().is_relative_to(self.root):
                raise UserError(f"{path} lies outside the root {self.root}: choose another --root")
        self.paths: Sequence[Path] = paths
        self.config = load_config(self.root)
        self.codes = chosen_for(self.config, select, ignore)
        self.only = frozenset(only)
        self.exclude = self.config.excluded(exclude)
        if force_exclude:
            self.paths = without_excluded(paths, self.root, self.exclude)
        self.chosen = Options()
        self.write = self.interactive = self.check = False
        self.plan_path: Path | None = None
        self.report_path: Path | None = None
        self.tests_path: Path | None = None
        self.earlier: tuple[Path, ...] = ()
        self.force = self.backup = self.allow_dirty = self.quiet = self.verify = False

    def options(
        self,
        *,
        unsafe: bool,
        target_torch: str | None,
        out_naming: str | None,
        compat: bool,
        deprecate: bool,
    ) -> None:
        """Take what may be done; what is not said comes from the configuration."""
        try:
            target = self.config.target_torch
            target = target if target_torch is None else parse_version(target_torch)
        except ValueError as error:
            raise UserError(f"--target-torch: {error}") from None
        if target < FIRST_WITH_CUSTOM_OP:
            said, first = (".".join(map(str, v)) for v in (target, FIRST_WITH_CUSTOM_OP))
            raise UserError(f"--target-torch: {said} has no custom_op, which came with {first}")
        self.chosen = Options(
            unsafe=unsafe,
            target=target,
            out_naming=out_naming or self.config.out_naming,
            compat=compat,
            deprecate=deprecate,
        )

    @property
    def writes(self) -> bool:
        """Whether files of the project are changed."""
        return self.write or (self.interactive and self.plan_path is None)

    def run(self) -> int:
        """Do it, and return the exit code."""
        accept = self._accept()
        self.earlier = mend(self.root, writing=self.writes)
        if self.interactive and self.writes:
            # Before anybody has answered a question in vain.
            self._refuse_dirty()
        request = Request(self.config, self.chosen, self.codes, self.only, self.exclude)
        prover = self._prover()
        with Progress(quiet=self.quiet or self.interactive) as progress:
            result = migrate(
                self.paths,
                request,
                root=self.root,
                accept=accept,
                prove=prover,
                progress=progress.planned,
            )
        tests = self._tests(result)
        if self.writes:
            self._write(result, tests)
        elif self.plan_path is not None:
            self._write_plan(self.plan_path, result, request, tests)
        elif not self.check:
            write_diff(unified_diff({**result.changes, **tests}, result.root))
        if self.report_path is not None:
            self._write_report(self.report_path, result)
        summarise(result, written=self.writes, quiet=self.quiet)
        if prover is not None:
            prover.summarise()
        return 1 if remains(result) or (self.check and bool(result.changes)) else 0

    def _accept(self) -> Accept | None:
        if not self.interactive:
            return None
        from opscaffold.cli.migrate_ask import Asker, require_terminal

        require_terminal()
        return Asker(self.root)

    def _prover(self) -> Prover | None:
        if not self.verify:
            return None
        from opscaffold.cli.migrate_verify import Prover

        return Prover(quiet=self.quiet)

    def _refuse_dirty(self) -> None:
        made = [path for path in (self.plan_path, self.report_path) if path is not None]
        refuse_dirty(self.root, allow_dirty=self.allow_dirty, ours=made, earlier=self.earlier)

    def _write(self, result: Migration, tests: Files) -> None:
        parts = [Unit(part.name, dict(part.changes)) for part in units(result.steps)]
        if tests:
            parts.append(Unit("tests", tests))
        if not parts:
            return
        self._refuse_dirty()
        write(self.root, parts, backup=self.backup, progress=Progress(quiet=self.quiet))

    def _write_plan(self, path: Path, result: Migration, request: Request, tests: Files) -> None:
        from opscaffold.migrate.plan_file import dump, plan_document

        document = plan_document(result, units(result.steps), request, self.paths, tests)
        write_atomically(path, dump(document))
        if not self.quiet:
            typer.echo(f"plan written to {shown(path)}", err=True)

    def _write_report(self, path: Path, result: Migration) -> None:
        from opscaffold.cli.migrate_report import page

        write_atomically(path, page(result, written=self.writes))
        if not self.quiet:
            typer.echo(f"report written to {shown(path)}", err=True)

    def _tests(self, result: Migration) -> Files:
        if self.tests_path is None:
            return {}
        from opscaffold.cli.migrate_tests import planned_tests

        return planned_tests(result, self.tests_path, force=self.force)

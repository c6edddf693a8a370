"""``opscaffold check``: every op of a project, and every breach of its contract."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion
from opscaffold.cli.outcome import Format, Report, show_kept, terminal_width, write_report
from opscaffold.cli.streams import read_stdin
from opscaffold.cli.targets import refuse_no_baseline, refuse_source

if TYPE_CHECKING:
    from opscaffold.cli.check_cache import Entry
    from opscaffold.rules.baseline import Baseline
    from opscaffold.source.project import FoundFiles, Project

OK = 0
FOUND = 1
STDIN = "-"
STDIN_NAME = "stdin.py"


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files or directories whose ops are checked (default: here); - for stdin."
        ),
    ] = None,
    *,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="RULES",
            autocompletion=completion.rules,
            help="Rules to apply: codes, starts of codes, names or ALL, with commas; replaces "
            "what the configuration selects and ignores.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="RULES",
            autocompletion=completion.rules,
            help="Rules to leave out, in addition.",
        ),
    ] = None,
    output_format: Annotated[
        Format,
        typer.Option(
            "--format", metavar="FORMAT", help="text, concise, json, sarif, github or gitlab."
        ),
    ] = Format.TEXT,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout (-)."),
    ] = None,
    list_ops: Annotated[
        bool, typer.Option("--list-ops", help="List the ops and check nothing: text or json.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="The project, with its configuration (default: the one that holds PATHS).",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="PATTERN",
            help="A git-ignore pattern of files to leave out; replaces `exclude` of the "
            "configuration. May be repeated.",
        ),
    ] = None,
    force_exclude: Annotated[
        bool,
        typer.Option(
            "--force-exclude",
            help="Leave out what is excluded also where it is named, as hooks name each file.",
        ),
    ] = False,
    diff_base: Annotated[
        str | None,
        typer.Option(
            "--diff-base",
            metavar="REV",
            help="Report only what lies on lines that changed since this git revision.",
        ),
    ] = None,
    stdin_filename: Annotated[
        Path | None,
        typer.Option(
            "--stdin-filename", metavar="FILE", help="Which file of the project stdin stands for."
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Report only what this file does not hold."
        ),
    ] = None,
    write_baseline: Annotated[
        bool,
        typer.Option("--write-baseline", help="Write all that is found to the --baseline file."),
    ] = False,
    notebooks: Annotated[
        bool,
        typer.Option(
            "--notebooks",
            help="Read the Python in notebooks too; a notebook that is named is always read.",
        ),
    ] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Check anew also where nothing changed; keep nothing."),
    ] = False,
) -> int:
    """Find every custom op, and every breach of its contract. Nothing that is read is run.

    Exit codes: 0 nothing found (or notes only), 1 findings, 2 wrong usage or configuration.
    """
    from opscaffold.errors import UserError
    from opscaffold.fs.paths import real_path

    if write_baseline and baseline is None:
        raise UserError("--write-baseline needs --baseline FILE: where to write")
    if write_baseline and diff_base is not None:
        raise UserError("--write-baseline takes all findings, --diff-base some: choose one")
    if write_baseline and (output is not None or list_ops):
        raise UserError("--write-baseline writes to --baseline FILE, and reports nothing else")
    if baseline is not None and str(baseline) == STDIN:
        raise UserError("--baseline takes a file, not -")
    if output is not None and str(output) == STDIN:
        output = None
    if list_ops and output_format not in (Format.TEXT, Format.JSON):
        raise UserError(f"--list-ops knows the formats text and json, not {output_format.value}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Of what a terminal cannot show, show the escape.
        sys.stdout.reconfigure(errors="backslashreplace")
    known = _read_baseline(baseline) if baseline is not None and not write_baseline else None
    reading = _Reading(
        paths or [],
        root,
        exclude,
        stdin_filename,
        notebooks=notebooks,
        force_exclude=force_exclude,
    )
    if diff_base is not None and reading.overlay:
        raise UserError("--diff-base compares files, and stdin is none")
    entry = None
    if not (no_cache or list_ops or baseline or diff_base or output or reading.overlay):
        entry = reading.entry(output_format, select, ignore)
        kept = entry.read() if entry is not None else None
        if kept is not None:
            return FOUND if show_kept(kept) and not exit_zero else OK

    from opscaffold.rules.check import check_project
    from opscaffold.rules.selection import chosen_for
    from opscaffold.source.project import collector_paused

    codes = chosen_for(reading.config, listed(select), listed(ignore) or ())
    with collector_paused():
        project = reading.project()
        if output is not None:
            refuse_source(output, "--output", project, reading.config)
            if baseline is not None and real_path(output) == real_path(baseline):
                raise UserError(f"--output: {output} is the baseline, and would be overwritten")
        if list_ops:
            return _list_ops(project, output_format, output)
        if write_baseline and baseline is not None:
            refuse_source(baseline, "--baseline", project, reading.config)
            refuse_no_baseline(baseline)
        report = Report(project, check_project(project, reading.config, codes))

        def check_before(
            now: Project, contents: Mapping[Path, bytes | None], moved: Mapping[Path, Path]
        ) -> Report | None:
            then = reading.project_before(now, contents, moved)
            if then is None:
                return None
            return Report(then, check_project(then, reading.config, codes))

        if write_baseline and baseline is not None:
            return _write_baseline(report, baseline)
        if known is not None:
            report.leave_out(known)
        if diff_base is not None:
            report.narrow_to_changes(diff_base, check_before)
        if entry is not None:
            outcome = report.to_keep(output_format)
            entry.write(outcome)
            return FOUND if show_kept(outcome) and not exit_zero else OK
        write_report(report.render(output_format, output), output)
        if output is not None:
            typer.echo(f"{report.summary()}, written to {output}", err=True)
        return FOUND if report.fails() and not exit_zero else OK


def listed(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the words of an option that may be repeated, and hold several with commas."""
    if given is None:
        return None
    return tuple(word.strip() for each in given for word in each.split(",") if word.strip())


class _Reading:
    """Which project is read: its root, its configuration, and what stands in for files."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path | None,
        exclude: list[str] | None,
        stdin_filename: Path | None,
        *,
        notebooks: bool = False,
        force_exclude: bool = False,
    ) -> None:
        from opscaffold.config.load import load_config
        from opscaffold.errors import UserError
        from opscaffold.fs.paths import real_path
        from opscaffold.source.files import find_root, without_excluded

        self.overlay: dict[Path, bytes] = {}
        self.found: FoundFiles | None = None
        if any(str(path) == STDIN for path in paths):
            if len(paths) > 1:
                raise UserError("- stands alone: stdin is one file")
            path = real_path(stdin_filename or Path(STDIN_NAME))
            self.overlay[path] = read_stdin()
            self.paths = [path]
        elif stdin_filename is not None:
            raise UserError("--stdin-filename goes with the path -")
        else:
            self.paths = list(paths) or [Path()]
        for path in [*self.paths, *([root] if root else [])]:
            if path not in self.overlay and not path.exists():
                raise UserError(f"{path}: there is no such file or directory")
        if root is not None and not root.is_dir():
            raise UserError(f"--root: {root} is no directory")
        self.root = real_path(root if root is not None else find_root(self.paths))
        self.config = load_config(self.root)
        self.exclude = self.config.excluded(exclude)
        if force_exclude and not self.overlay:
            self.paths = without_excluded(self.paths, self.root, self.exclude)
        named = any(path.suffix == ".ipynb" for path in self.paths)
        self.notebooks = notebooks or named or self.config.notebooks

    def entry(self, output_format: Format, *asked: object) -> Entry | None:
        """Return where the check is kept; None where it is not."""
        from opscaffold.cli.check_cache import directory, entry
        from opscaffold.source.project import project_files

        if directory() is None:
            return None
        self.found = project_files(self.paths, self.root, self.exclude, notebooks=self.notebooks)
        width = terminal_width() if output_format is Format.TEXT else None
        named = [path for path in self.paths if not path.is_dir()]
        asked = (*asked, output_format, width, self.config, self.exclude, self.notebooks, named)
        return entry(self.found, self.root, asked)

    def project(self) -> Project:
        """Read the project."""
        return self._read(self.paths, self.overlay)

    def project_before(
        self, now: Project, contents: Mapping[Path, bytes | None], moved: Mapping[Path, Path]
    ) -> Project | None:
        """Read the project with other contents of files; None where all of its own are as now.

        ``moved`` tells which files went by another name.
        """
        files = set(now.files)
        overlay = {
            # A file that was not there is taken for an empty one.
            path: data or b""
            for path, data in contents.items()
            if path in files or (data is not None and path.suffix == ".py" and not path.exists())
        }
        if not overlay:
            return None
        old = [path for path, new in moved.items() if path in overlay and new in files]
        return self._read([*self.paths, *old], overlay)

    def _read(self, paths: Sequence[Path], overlay: Mapping[Path, bytes]) -> Project:
        from opscaffold.source.project import load_project

        project = load_project(
            paths,
            self.root,
            self.exclude,
            overlay,
            self.config.registrars,
            notebooks=self.notebooks,
            found=self.found if paths is self.paths and not overlay else None,
        )
        for path in paths:
            # Named by itself, so looked at whatever it holds: it may be no Python at all.
            if not path.is_dir():
                project.module_for(path)
        return project


def _list_ops(project: Project, output_format: Format, output: Path | None) -> int:
    from opscaffold.cli.listing import op_records
    from opscaffold.report.json import render_json
    from opscaffold.report.ops import render_ops
    from opscaffold.report.text import render_text
    from opscaffold.rules.notices import unreadable

    records = op_records(project)
    unread = [unreadable(p) for p in project.problems if p.path in project.selected]
    if output_format is Format.JSON:
        text = render_json(unread, project.root, ops=records)
    else:
        text = render_ops(records, project.root)
        typer.echo(render_text(unread, project.root), err=True, nl=False)
    write_report(text, output)
    return OK


def _read_baseline(path: Path) -> Baseline:
    from opscaffold.errors import UserError
    from opscaffold.rules.baseline import parse

    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; make it with --write-baseline") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no baseline: it is not valid UTF-8") from None
    return parse(text, str(path))


def _write_baseline(report: Report, path: Path) -> int:
    from opscaffold.fs.atomic import write_atomically
    from opscaffold.rules.baseline import baseline_of, dump

    known = baseline_of(report.findings, report.project.root, report.line_of)
    write_atomically(path, dump(known).encode("utf-8", "backslashreplace"))
    number = sum(known.entries.values())
    typer.echo(f"{number} {'finding' if number == 1 else 'findings'} written to {path}", err=True)
    return OK

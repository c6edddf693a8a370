"""``opscaffold check``: every op of a project, and every breach of its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion
from opscaffold.cli.outcome import Format, Report, show_kept, write_report
from opscaffold.cli.targets import refuse_no_baseline, refuse_source

if TYPE_CHECKING:
    from opscaffold.rules.baseline import Baseline
    from opscaffold.source.project import Project

OK = 0
FOUND = 1


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
    from opscaffold.cli.check_reading import STDIN, Reading
    from opscaffold.errors import UserError
    from opscaffold.fs.paths import real_path
    from opscaffold.source.collector import collector_paused

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
    known = _read_baseline(baseline) if baseline is not None and not write_baseline else None
    reading = Reading(
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

    with collector_paused(), reading.scanned():
        # Files are looked through meanwhile.
        from opscaffold.rules.check import check_project, questions
        from opscaffold.rules.selection import chosen_for

        codes = chosen_for(reading.config, listed(select), listed(ignore) or ())
        reading.foresee(questions(codes))
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

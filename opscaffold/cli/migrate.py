"""``opscaffold migrate``: show or write the repairs of a project's ops."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from opscaffold.cli import completion


class OutName(str, enum.Enum):
    """How a tagged out= op is named. An Enum, since older releases of typer know no Literal."""

    FLAT = "flat"
    OVERLOAD = "overload"


def migrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files or directories whose ops are migrated; default: here."),
    ] = None,
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the changes to the files.")] = False,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", "-i", help="Ask about each repair, and write those you accept."
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print no diff; exit 1 if anything would change.")
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what would be done there, as JSON; no diff."),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Do exactly what this plan says, if no file of it has changed."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page for reviewers there, as HTML."),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write tests there for every op that is repaired."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run the ops before and after in a process of its own, and withdraw repairs that "
            "differ. This imports and runs the project's code, and needs torch.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --tests, replace tests that were edited.")
    ] = False,
    backup: Annotated[
        bool, typer.Option("--backup", help="Keep each changed file beside it, as NAME.orig.")
    ] = False,
    allow_dirty: Annotated[
        bool,
        typer.Option("--allow-dirty", help="Write although git has uncommitted changes."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NS::OP",
            autocompletion=completion.ops,
            help="Repair this op alone. May be repeated.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODES",
            autocompletion=completion.rules,
            help="Repair what these rules find, and nothing else.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODES",
            autocompletion=completion.rules,
            help="Leave what these rules find. May be repeated.",
        ),
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Also make repairs whose effect callers could see."),
    ] = False,
    target_torch: Annotated[
        str | None,
        typer.Option(metavar="RELEASE", help="Oldest torch that what is written must work with."),
    ] = None,
    out_naming: Annotated[
        OutName | None,
        typer.Option(metavar="STYLE", help="flat (op_out) or overload (op.out), where safe."),
    ] = None,
    compat: Annotated[
        bool,
        typer.Option("--compat", help="Keep a function under the old name that takes both forms."),
    ] = False,
    deprecate: Annotated[
        bool, typer.Option("--deprecate", help="With --compat, let that function warn.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(help="Where call sites are searched; default: the project of PATHS."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say only what needs a person.")
    ] = False,
) -> int:
    """Repair ops that break their contract, with all their call sites.

    Prints a diff that `git apply` takes, and writes nothing, unless told to. What cannot be
    rewritten for sure is reported with its place and reason. Nothing that is read is run, unless
    --verify asks for it.

    Exit codes: 0 done, 1 breaches remain (or, with --check, something would change), 2 usage.
    """
    from opscaffold.cli.check import listed
    from opscaffold.cli.migrate_run import Run
    from opscaffold.errors import UserError

    _refuse_together(
        {"--write": write, "--interactive": interactive, "--check": check, "--apply": bool(apply)}
    )
    _refuse_together({"--write": write, "--plan": bool(plan), "--apply": bool(apply)})
    for needs, given, needed, there in (
        ("--force", force, "--tests", bool(tests)),
        ("--deprecate", deprecate, "--compat", compat),
        ("--backup", backup, "--write, --interactive or --apply", write or interactive or apply),
    ):
        if given and not there:
            raise UserError(f"{needs} goes with {needed}")
    if root is not None and not root.is_dir():
        known = "is no directory" if root.exists() else "there is no such file or directory"
        raise UserError(f"--root: {root}: {known}")
    if apply is not None:
        from opscaffold.cli.migrate_apply import apply as apply_plan

        asked = {
            "PATHS": paths,
            "--only": only,
            "--select": select,
            "--ignore": ignore,
            "--unsafe": unsafe,
            "--target-torch": target_torch,
            "--out-naming": out_naming,
            "--compat": compat,
            "--exclude": exclude,
            "--force-exclude": force_exclude,
            "--tests": tests,
            "--report": report,
            "--verify": verify,
        }
        wrong = [name for name, value in asked.items() if value]
        if wrong:
            raise UserError(f"{wrong[0]} says what to plan, and --apply plans nothing anew")
        return apply_plan(apply, root, allow_dirty=allow_dirty, backup=backup, quiet=quiet)
    run = Run(
        paths or [Path()],
        root,
        select=listed(select),
        ignore=listed(ignore) or (),
        only=only or (),
        exclude=exclude,
        force_exclude=force_exclude,
    )
    run.write, run.interactive, run.check = write, interactive, check
    run.plan_path, run.report_path, run.tests_path, run.force = plan, report, tests, force
    run.backup, run.allow_dirty, run.quiet, run.verify = backup, allow_dirty, quiet, verify
    run.options(
        unsafe=unsafe,
        target_torch=target_torch,
        out_naming=None if out_naming is None else out_naming.value,
        compat=compat,
        deprecate=deprecate,
    )
    return run.run()


def _refuse_together(given: dict[str, bool]) -> None:
    from opscaffold.errors import UserError

    both = [name for name, there in given.items() if there]
    if len(both) > 1:
        raise UserError(f"{both[0]} and {both[1]} exclude each other: choose one")

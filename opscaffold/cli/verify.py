"""``opscaffold verify``: run ops, and show where they break their contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opscaffold.cli import completion
from opscaffold.cli.outcome import Format, write_report

if TYPE_CHECKING:
    from opscaffold.config.model import Config

OK = 0
FOUND = 1
STDOUT = "-"
SECONDS = 300.0


def verify(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGETS...",
            help="Packages to import and run: a directory, a .py file or a dotted name.",
        ),
    ],
    *,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="OLD",
            help="Compare with the ops of an older program on the same calls: verify --against "
            "OLD NEW.",
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            "--op",
            metavar="NS::NAME",
            autocompletion=completion.ops,
            help="Run this op alone. May be repeated.",
        ),
    ] = None,
    samples: Annotated[
        list[str] | None,
        typer.Option(
            "--samples",
            metavar="WHERE:FUNC",
            help="A function that returns calls to try, in FILE.py or in a dotted name. May be "
            "repeated.",
        ),
    ] = None,
    save_samples: Annotated[
        Path | None,
        typer.Option(
            "--save-samples", metavar="FILE", help="Write the calls that were made up there."
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Leave out what compiles with Inductor.")
    ] = False,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="CODES",
            autocompletion=completion.promises,
            help="What to report: codes, starts of codes, names or ALL, with commas.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="CODES",
            autocompletion=completion.promises,
            help="What not to report, written alike.",
        ),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", "-f", help="How to write the report.")
    ] = Format.TEXT,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout (-)."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, help="What one op may take; default 300."
        ),
    ] = SECONDS,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="What the process may hold, as 4G or 512M; default 8G, or 3/4 of the machine's.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="The project, with its configuration (default: the one that holds TARGETS).",
        ),
    ] = None,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no table: only what needs a person.")
    ] = False,
) -> int:
    """Run custom ops, and show where they break their contract.

    This imports torch and runs your code, as no other command does: the targets are imported, and
    their ops called, in a process of their own with limits of time and memory.

    Exit codes: 0 no breach and nothing undecided, 1 findings, 2 wrong usage, no torch, an import
    that fails or registers no op.
    """
    from opscaffold.cli.check import listed
    from opscaffold.cli.verify_memory import default_memory, parse_size
    from opscaffold.cli.verify_process import Limits
    from opscaffold.cli.verify_progress import Progress
    from opscaffold.cli.verify_report import Verified
    from opscaffold.cli.verify_run import Run
    from opscaffold.config.load import load_config
    from opscaffold.findings.promises import PROMISES
    from opscaffold.rules.selection import chosen_for

    if output is not None and str(output) == STDOUT:
        output = None
    if against is not None:
        _refuse_against(targets, save_samples, fast=fast)
        _root([against], None)
    home = _root(targets, root)
    config = load_config(home)
    codes = chosen_for(config, listed(select), listed(ignore) or (), PROMISES)
    _refuse_files(output, save_samples, config)
    size = default_memory() if memory is None else parse_size(memory)
    request: dict[str, Any] = {
        "targets": list(targets),
        "ops": list(dict.fromkeys(each.removesuffix(".default") for each in op or ())),
        "samples": _functions(samples or ()),
        "fast": fast,
        "save": None if save_samples is None else str(save_samples.absolute()),
    }
    limits = Limits(timeout, size)
    with Progress(quiet=quiet) as progress:
        if against is not None:
            from opscaffold.cli.verify_against import run_against

            asked = request["ops"], request["samples"]
            outcome = run_against(against, targets, *asked, limits, progress.show)
        else:
            outcome = Run(request, limits, progress.show).run()
    report = Verified(outcome, home, config, codes)
    write_report(report.render(output_format, output, quiet=quiet), output)
    if output is not None and not quiet:
        typer.echo(f"{report.summary()}, written to {output}", err=True)
    return FOUND if report.fails() and not exit_zero else OK


def _root(targets: Sequence[str], root: Path | None) -> Path:
    from opscaffold.errors import UserError
    from opscaffold.fs.paths import real_path
    from opscaffold.source.files import find_root

    paths = [Path(target) for target in targets if Path(target).exists()]
    for target in targets:
        looks_like_path = target.endswith(".py") or "/" in target or "\\" in target
        if looks_like_path and not Path(target).exists():
            raise UserError(f"{target}: there is no such file or directory")
        if Path(target).is_file() and not target.endswith(".py"):
            raise UserError(f"{target}: is no Python file")
        if not looks_like_path and not Path(target).exists() and not _is_dotted(target):
            raise UserError(f"{target!r} is no path and no dotted name")
    if root is not None and not root.is_dir():
        known = "is no directory" if root.exists() else "there is no such file or directory"
        raise UserError(f"--root: {root}: {known}")
    return real_path(root if root is not None else find_root(paths or [Path()]))


def _refuse_against(targets: Sequence[str], save: Path | None, *, fast: bool) -> None:
    from opscaffold.errors import UserError

    if len(targets) != 1:
        raise UserError("--against compares with one program: verify --against OLD NEW")
    if save is not None:
        raise UserError("--save-samples goes without --against: it saves the calls of one program")
    if fast:
        raise UserError("--fast goes without --against, which compiles nothing")


def _is_dotted(target: str) -> bool:
    return all(part.isidentifier() for part in target.split("."))


def _functions(given: Sequence[str]) -> list[str]:
    from opscaffold.errors import UserError

    for each in given:
        where, _, function = each.rpartition(":")
        if not where or not function.isidentifier():
            raise UserError(f"--samples: {each!r} is not FILE.py:FUNC or pkg.mod:FUNC")
        if where.endswith(".py") and not Path(where).is_file():
            raise UserError(f"--samples: {where}: there is no such file")
        if not where.endswith(".py") and not _is_dotted(where):
            raise UserError(f"--samples: {where!r} is no .py file and no dotted name")
    return list(given)


def _refuse_files(output: Path | None, save: Path | None, config: Config) -> None:
    """Raise UserError where a file is to be written that people write."""
    from opscaffold.errors import UserError
    from opscaffold.fs.paths import real_path

    if output is not None:
        real = real_path(output)
        if real == config.file or (real.exists() and real.suffix in (".py", ".pyi", ".toml")):
            raise UserError(f"--output: {output} is there, and its name says that it is no report")
    if save is not None:
        if save.suffix != ".py":
            raise UserError(f"--save-samples: {save}: samples are Python, name a .py file")
        if not save.absolute().parent.is_dir():
            raise UserError(f"--save-samples: {save.parent}: there is no such directory")

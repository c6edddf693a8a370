"""``opscaffold add``: further ops for a package that opscaffold keeps, the author's edits kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from opscaffold.cli import op_flags

OK = 0
DECLINED = 1


def add(
    package: Annotated[
        Path | None,
        typer.Argument(
            metavar="PACKAGE_DIR", help="The package; default: the one that this directory is in."
        ),
    ] = None,
    *,
    schema: op_flags.Schema = None,
    signature: op_flags.Signature = None,
    op: op_flags.Op = None,
    kind: op_flags.Kind = None,
    param: op_flags.Param = None,
    out: op_flags.Out = None,
    mutates: op_flags.Mutates = None,
    returns: op_flags.Returns = None,
    fake: op_flags.Fake = None,
    fake_like: op_flags.FakeLike = None,
    fake_shape: op_flags.FakeShape = None,
    autograd: op_flags.Autograd = None,
    family: op_flags.Family = None,
    kernel: op_flags.Kernel = None,
    vmap: op_flags.Vmap = None,
    autocast: op_flags.Autocast = None,
    torch_dispatch: op_flags.TorchDispatch = None,
    device_kernel: op_flags.DeviceKernel = None,
    from_: op_flags.From = None,
    from_copy: op_flags.FromCopy = None,
    clone_returns: op_flags.CloneReturns = False,
    answers: op_flags.Answers = None,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="DIR",
            help="Where the templates of your own that made the package are now.",
        ),
    ] = None,
    defaults: op_flags.Defaults = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes as a diff and write nothing.")
    ] = False,
    by_hand: Annotated[
        list[Path] | None,
        typer.Option(
            "--by-hand",
            metavar="FILE",
            help="Leave this file of the package to me, and say what it needs. May be repeated.",
        ),
    ] = None,
) -> int:
    """Add ops to a package that opscaffold made or adopted.

    Ops are told and asked for as in `opscaffold new`. Each gets a module and tests of its own, and
    is put into `__init__`, the README and the samples, whatever was edited there. What cannot be
    placed for sure is refused, with its place and what to write by hand: then nothing is written.

    Exit codes: 0 done, 1 declined, 2 something in the way.
    """
    from opscaffold.cli.add_run import Run
    from opscaffold.cli.new_from import Functions, gather_with_functions

    run = Run(package, template, by_hand or (), writes=not dry_run)
    about = op_flags.about_one(
        op=op,
        kind=kind,
        param=param,
        out=out,
        mutates=mutates,
        returns=returns,
        fake=fake,
        fake_like=fake_like,
        fake_shape=fake_shape,
        autograd=autograd,
        family=family,
        kernel=kernel,
        vmap=vmap,
        autocast=autocast,
        torch_dispatch=torch_dispatch,
        device_kernel=device_kernel,
    )
    ask = not defaults and sys.stdin.isatty() and sys.stdout.isatty()
    given = gather_with_functions(
        Functions(from_ or [], copied=from_copy, clone=clone_returns),
        {},
        op_flags.told_whole(schema, signature),
        about,
        answers,
        lambda _: run.root,
        run.record.answers.package,
        ask=ask,
    )
    if ask:
        planned = run.ask(given, all_questions=answers is None, dry_run=dry_run)
        if planned is None:
            return DECLINED
    else:
        planned = run.read(given, defaults=defaults)
    if dry_run:
        run.show(planned)
    else:
        run.write(planned)
    return OK

"""``opscaffold new``: ask, or read from flags and a file, what a package of ops is; make it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion, op_flags
from opscaffold.cli.new_from import Functions, gather_with_functions
from opscaffold.cli.new_texts import next_steps_text, ops_text, tree_text

if TYPE_CHECKING:
    from opscaffold.scaffold.given import Answers, Value
    from opscaffold.scaffold.spec import PackageSpec

OK = 0
DECLINED = 1
INTERRUPTED = 130


def new(
    package: Annotated[
        str | None,
        typer.Argument(
            metavar="PACKAGE", help="Name of the package: the folder made, and what pip installs."
        ),
    ] = None,
    *,
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-o", metavar="DIR", help="Where the package's folder is made."
        ),
    ] = Path(),
    description: Annotated[
        str | None,
        typer.Option("--description", metavar="TEXT", help="What the package is, in one line."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="NAME", help="torch.ops namespace (default: the import name)."
        ),
    ] = None,
    torch_min: Annotated[
        str | None,
        typer.Option(
            "--torch-min",
            metavar="RELEASE",
            help="Oldest torch to run on (default: 2.13). Below 2.13 in-place and out= ops are "
            "written as untagged mutable ones.",
        ),
    ] = None,
    registration: Annotated[
        str | None,
        typer.Option(
            "--registration",
            metavar="WAY",
            autocompletion=completion.one_of("custom_op", "library"),
            help="What ops are registered through: custom_op (default), or library, whose calls "
            "cost less.",
        ),
    ] = None,
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
    save_answers: Annotated[
        Path | None,
        typer.Option(
            "--save-answers", metavar="FILE", help="Write the answers to this file, for --answers."
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
    defaults: op_flags.Defaults = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the files and write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what stands at the target.")
    ] = False,
) -> int:
    """Make a package of custom operators, with kernels, fakes, autograd and tests.

    What no flag and no file answers is asked on the terminal. Without a terminal, what has no
    default must be given.
    """
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
    whole: dict[str, Value | None] = {
        "package": package,
        "description": description,
        "namespace": namespace,
        "torch_min": torch_min,
        "registration": registration,
    }
    ops = op_flags.told_whole(schema, signature)
    if template is not None:
        _check_layout(template)
    ask = not defaults and sys.stdin.isatty() and sys.stdout.isatty()
    given = gather_with_functions(
        Functions(from_ or [], copied=from_copy, clone=clone_returns),
        whole,
        ops,
        about,
        answers,
        lambda known: output_dir / _name_of(known),
        ask=ask,
    )
    if save_answers is not None:
        _refuse_saving_to(save_answers, force=force)
    if ask:
        decided = _ask(
            given,
            output_dir,
            all_questions=answers is None,
            force=force,
            dry_run=dry_run,
            own=template,
        )
        if decided is None:
            return DECLINED
        spec = decided
    else:
        spec = _read(given, defaults=defaults)
    if dry_run:
        typer.echo(tree_text(spec, output_dir, template))
        return OK
    made = _make(spec, output_dir, force=force, own=template)
    if save_answers is not None:
        _save(spec, save_answers)
    typer.echo(next_steps_text(spec, made))
    return OK


def _name_of(given: Answers) -> str:
    """The folder to be made, as far as it is known."""
    return str(given.package["package"].value) if "package" in given.package else "package"


def _check_layout(template: Path) -> None:
    from opscaffold.scaffold.templates import check_layout

    check_layout(template)


def _refuse_saving_to(path: Path, *, force: bool) -> None:
    from opscaffold.errors import UserError

    if not path.parent.is_dir():
        raise UserError(f"--save-answers: there is no directory {path.parent}; make it first")
    if path.exists() and not force:
        raise UserError(
            f"--save-answers: {path} is there already; name another file or use --force"
        )


def _read(given: Answers, *, defaults: bool) -> PackageSpec:
    """The package, without asking."""
    from opscaffold.errors import UserError
    from opscaffold.scaffold.answers import build, missing, with_defaults

    lacking = missing(given)
    if lacking and not defaults:
        raise UserError(
            f"there is no terminal to ask on, and these answers are missing: {', '.join(lacking)}; "
            "give them, or --defaults"
        )
    return build(with_defaults(given) if defaults else given)


def _ask(
    given: Answers,
    parent: Path,
    *,
    all_questions: bool,
    force: bool,
    dry_run: bool,
    own: Path | None,
) -> PackageSpec | None:
    """The package, asking for what is open; None where the person declines."""
    from opscaffold.cli.screen import Terminal
    from opscaffold.errors import UserError
    from opscaffold.scaffold.answers import build, missing
    from opscaffold.scaffold.tree import Declined
    from opscaffold.scaffold.walk import walk

    if not all_questions and not missing(given):
        return build(given)

    def summary(spec: PackageSpec) -> str:
        stands = os.path.lexists(parent / spec.name)
        replaced = f"\nReplaces {parent / spec.name}." if stands else ""
        return f"{ops_text(spec)}\n\n{tree_text(spec, parent, own)}{replaced}"

    def taken(name: str) -> str | None:
        return None if force or dry_run else _taken(parent / name)

    if "package" in given.package:
        reason = taken(str(given.package["package"].value))
        if reason is not None:
            raise UserError(reason)
    try:
        return walk(
            Terminal(),
            given,
            all_questions=all_questions,
            summary=None if dry_run else summary,
            taken=taken,
        )
    except Declined as declined:
        typer.echo(f"{declined}.")
        return None
    except KeyboardInterrupt:
        # Typer would leave with the code alone.
        typer.echo("\nopscaffold: interrupted; nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _taken(target: Path) -> str | None:
    if not os.path.lexists(target):
        return None
    return f"{target} exists; choose another name or --output-dir, or replace it with --force"


def _make(spec: PackageSpec, parent: Path, *, force: bool, own: Path | None) -> Path:
    from opscaffold.errors import UserError
    from opscaffold.scaffold.render import TargetExists, render_package

    target = parent / spec.name
    reason = None if force else _taken(target)
    if reason is not None:
        raise UserError(reason)
    try:
        render_package(spec, parent, force=force, own=own)
    except TargetExists:
        # It came to be in the meantime.
        raise UserError(_taken(target) or f"{target} exists") from None
    return target


def _save(spec: PackageSpec, path: Path) -> None:
    from opscaffold.fs.atomic import write_atomically
    from opscaffold.scaffold.answers import answers_of
    from opscaffold.scaffold.answers_file import dump

    write_atomically(path, dump(answers_of(spec)).encode())

"""The ``opscaffold`` command: its subcommands, and what every one of them does with errors.

Exit codes: 0 success, 1 the command ran and its answer is no, 2 a mistake in usage, input or
surroundings, 3 a fault of opscaffold itself, 130 interrupted, 141 the reader of the output left.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from opscaffold import __version__
from opscaffold.cli.add import add
from opscaffold.cli.adopt import adopt
from opscaffold.cli.check import check
from opscaffold.cli.completion import REQUEST, answer
from opscaffold.cli.explain import explain
from opscaffold.cli.migrate import migrate
from opscaffold.cli.new import new
from opscaffold.cli.parameters import Command, take_plainly
from opscaffold.cli.streams import drop_output, is_lost_output, reserve
from opscaffold.cli.template import template
from opscaffold.cli.update import update
from opscaffold.cli.verify import verify
from opscaffold.errors import UserError

OK = 0
USAGE = 2
FAULT = 3
INTERRUPTED = 130
READER_LEFT = 141

DEBUG_VARIABLE = "OPSCAFFOLD_DEBUG"


class _ReaderLeftError(Exception):
    """A broken pipe, by a name that typer does not know: it would exit with 1, our "no"."""


class _StoppedError(Exception):
    """An interruption, by a name that typer does not know: some releases exit without a word."""


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return take_plainly(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeftError from None
        except KeyboardInterrupt:
            raise _StoppedError from None


# Typer's rich help would import rich for a plain `--help`.
app = typer.Typer(
    name="opscaffold",
    cls=_Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo("\n".join([f"opscaffold {__version__}", *_libraries()]))
        raise typer.Exit


def _libraries() -> list[str]:
    """Return the releases that the commands depend on, as installed; nothing is imported."""
    python = "Python {}.{}.{}".format(*sys.version_info)
    return [python, _installed("libcst"), _installed("torch")]


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name}: not installed"


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the versions of opscaffold, Python, libcst and torch.",
        ),
    ] = False,
) -> None:
    """Write, check and migrate PyTorch custom operators by the contract they promise."""


app.command(cls=Command)(new)
app.command(cls=Command)(add)
app.command(cls=Command)(adopt)
app.command(cls=Command)(update)
app.command(cls=Command)(check)
app.command(cls=Command)(migrate)
app.command(cls=Command)(verify)
app.command(cls=Command)(explain)
app.add_typer(template)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    ``arguments`` are those of the process unless given.
    """
    reserve()
    try:
        if REQUEST in os.environ:
            return answer(lambda: _run(arguments), os.environ)
        code = _run(arguments)
        sys.stdout.flush()
    except (BrokenPipeError, _ReaderLeftError):
        return _reader_left()
    except UserError as error:
        return _report(f"opscaffold: error: {error}", USAGE)
    except (KeyboardInterrupt, _StoppedError):
        return _report("opscaffold: interrupted", INTERRUPTED)
    except OSError as error:
        return _output_lost(error) if is_lost_output(error) else _report_fault(error)
    except Exception as error:  # noqa: BLE001 -- the last place that can explain a fault
        return _report_fault(error)
    return code


def _asked_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line, without the other commands where one is named.

    Typer makes every command that it is given, which takes longer than to check a file.
    """
    named = arguments[0] if arguments else ""
    chosen = [
        info
        for info in app.registered_commands
        if info.callback is not None and named == (info.name or info.callback.__name__)
    ]
    if not chosen:
        return app
    only = copy.copy(app)
    only.registered_commands, only.registered_groups = chosen, []
    return only


def _run(arguments: Sequence[str] | None) -> int:
    command = get_command(_asked_for(sys.argv[1:] if arguments is None else arguments))
    try:
        result: Any = command.main(
            args=None if arguments is None else list(arguments),
            prog_name="opscaffold",
            standalone_mode=False,
        )
    except typer.Abort as error:
        if isinstance(error.__cause__, EOFError):
            raise UserError("the input ended before every question was answered") from None
        raise KeyboardInterrupt from None
    except Exception as error:
        # Typer raises Click's exceptions, from Click or from a copy of its own by release: what
        # they share is that they can show themselves.
        show = getattr(error, "show", None)
        if show is None or not hasattr(error, "exit_code"):
            raise
        message = getattr(error, "message", None)
        if isinstance(message, str):
            # Some releases of Typer put the kind of exception before a wrong choice.
            error.message = message.replace("Value error, ", "")  # type: ignore[attr-defined]
        show()
        return int(error.exit_code)
    return result if isinstance(result, int) else OK


def _report(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_left()
    except OSError:
        drop_output()
    # Where stderr takes nothing, the exit code is all that is left to tell.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{message}\n")
    return code


def _report_fault(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
    summary = " ".join(str(error).split())
    described = f"{type(error).__name__}: {summary}" if summary else type(error).__name__
    return _report(
        f"opscaffold: internal error: {described}\n"
        "This is a fault in opscaffold, please report it with the command you ran.\n"
        f"Set {DEBUG_VARIABLE}=1 to see where it happened.",
        FAULT,
    )


def _output_lost(error: OSError) -> int:
    drop_output()
    return _report(f"opscaffold: error: the output cannot be written: {error.strerror}", USAGE)


def _reader_left() -> int:
    drop_output()
    return READER_LEFT

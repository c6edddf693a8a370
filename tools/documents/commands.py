"""The reference of the command line, read from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from opscaffold.cli.app import app

_PREFACE = (
    "Every command, with its arguments and flags, as `--help` shows them. This page is made from "
    "the commands themselves. They share their [exit codes](exit-codes.md)."
)


_COMPLETION = ("--install-completion", "--show-completion")
_SHELLS = (
    "`opscaffold --install-completion` teaches the shell that runs it (bash, zsh, fish, "
    "PowerShell) to complete commands, flags, codes and names of rules, and behind `--only` and "
    "`--op` the operators below the current directory; `opscaffold --show-completion` prints "
    "what it would install."
)


def page() -> str:
    """Return the page, as Markdown."""
    parts = ["# Commands", _PREFACE, _options(get_command(app)), _SHELLS]
    for name, command in _leaves(get_command(app), "opscaffold"):
        parts += [f"## {name}", *_described(name, command)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name.removeprefix("opscaffold "), command
        return
    for word, each in inner.items():
        yield from _leaves(each, f"{name} {word}")


def _described(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = [_argument(p) for p in arguments]
    yield "```text\n" + " ".join(["opscaffold", name, "[OPTIONS]", *words]) + "\n```"
    first, *rest = (command.help or "").split("\n\n")
    yield from (" ".join(text.split()) for text in (first, *rest))
    if any(p.help for p in arguments):
        rows = [f"| `{_argument(p)}` | {_cell(p.help)} |" for p in arguments]
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows])
    yield _options(command)


def _options(command: Any) -> str:
    rows = [
        f"| {_flags(p)} | {_cell(p.help or '')}{_default(p)} |"
        for p in command.params
        # What Typer brings along has other words in each release of it.
        if p.param_type_name == "option" and not {"--help", *_COMPLETION} & set(p.opts)
    ]
    return "\n".join(["| flag | meaning |", "|---|---|", *rows]) if rows else ""


def _argument(parameter: Any) -> str:
    # What Typer makes of an argument without a name to show ends in its type.
    name = str(parameter.metavar or parameter.name).upper()
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _flags(parameter: Any) -> str:
    names = [f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)]
    takes = "" if getattr(parameter, "is_flag", False) else f" `{_metavar(parameter)}`"
    return ", ".join(names) + takes


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    return str(parameter.name).upper().replace("_", "-")


def _default(parameter: Any) -> str:
    value = parameter.default
    if callable(value) or value in (None, False, True, (), []) or parameter.name == "jobs":
        return ""
    return f" Default: `{getattr(value, 'value', value)}`."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

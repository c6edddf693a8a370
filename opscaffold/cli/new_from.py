"""``--from``: ops of functions that are there, for every command that takes ops."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscaffold.scaffold.ask import Screen
    from opscaffold.scaffold.from_origin import Origin
    from opscaffold.scaffold.from_wrap import Request, Wrapping
    from opscaffold.scaffold.given import Answers, Table, Value

_TOLD = ("kind", "mutates", "params", "returns", "name")
_RULE = ("fake", "fake_like", "fake_shape")
_NOT_TOLD = {
    "out": "which buffers a function has is read from it",
    "autograd": "a backward cannot be read from a function; write it with register_autograd on the "
    "op that is made",
    "family": "a function is one op; make a family with --schema, and call it there",
    "kernel": "the function is the kernel",
}


@dataclass(frozen=True)
class Functions:
    """The functions named by ``--from``, and how they are taken over. ``copied`` may be open."""

    sources: list[str]
    copied: bool | None = None
    clone: bool = False


def gather_with_functions(
    functions: Functions,
    whole: dict[str, Value | None],
    ops: list[tuple[str, str]],
    about: dict[str, Value | None],
    answers: Path | None,
    place: Callable[[Answers], Path],
    package: Table | None = None,
    *,
    ask: bool,
) -> Answers:
    """The answers of the flags over those of the file, with the ops that functions make.

    What becomes of each function is said. ``place`` tells where the package stands or will stand,
    ``package`` what is answered about one that stands. Raises FromError, and AnswerError for what
    does not fit.
    """
    import typer

    from opscaffold.cli.new_answers import gather
    from opscaffold.scaffold.given import AnswerError, Answers

    if not functions.sources:
        if functions.copied is not None or functions.clone:
            flag = "--clone-returns" if functions.clone else "--from-copy or --from-import"
            raise AnswerError("it is about a function; name one with --from", flag)
        return gather(whole, ops, about, answers)
    screen = _terminal() if ask else None
    taken = taken_flags(functions, about)
    given = gather(whole, ops, about, answers)
    known = Answers({**(package or {}), **given.package})
    tables = read_functions(functions, taken, known, place(given), screen=screen, say=typer.echo)
    return Answers(given.package, (*given.ops, *tables))


def _terminal() -> Screen:
    from opscaffold.cli.screen import Terminal

    return Terminal()


def read_functions(
    functions: Functions,
    told: dict[str, Value | None],
    package: Answers,
    root: Path,
    *,
    screen: Screen | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Table]:
    """The answers of the ops that functions make, and why they are what they are, by ``say``.

    ``told`` are the flags about the function, as ``taken_flags`` took them. ``package`` are the
    answers about the package, which stands or will stand in ``root``. What the code leaves open
    is asked on ``screen`` where there is one. Raises FromError, and AnswerError.
    """
    from opscaffold.scaffold.answers import check, release_of, torch_version
    from opscaffold.scaffold.given import Answers, Given

    version = torch_version(check(Answers(package.package)))
    tables: list[Table] = []
    files: dict[str, str] = {}
    for source in functions.sources:
        origin, request = _request(source, told, root, functions)
        rule = {key: told[key] for key in _RULE if told.get(key) is not None}
        wrapping, rule = _settled(origin, request, release_of(version), rule, screen)
        say(explained(wrapping))
        for op in wrapping.ops:
            answers: dict[str, Any] = {**op.answers, **(rule if op.by_rule else {})}
            _claim(files, op.wrapped.file, source)
            tables.append({key: Given(value, f"--from {source}") for key, value in answers.items()})
    return tables


def _claim(files: dict[str, str], file: str, source: str) -> None:
    from opscaffold.scaffold.given import AnswerError

    if files.setdefault(file, source) != source:
        raise AnswerError(
            f"it makes an op {file}, as {files[file]} does; make one by itself, with --op NAME",
            f"--from {source}",
        )


def taken_flags(functions: Functions, about: dict[str, Value | None]) -> dict[str, Value | None]:
    """The flags that say something of the function, taken out of those ``about`` an op.

    Raises AnswerError for one that does not go with a function.
    """
    from opscaffold.scaffold.given import AnswerError
    from opscaffold.scaffold.questions import OP

    for key in about.keys() - {*_TOLD, *_RULE}:
        if about[key] in (None, False):
            about[key] = None
            continue
        reason = _NOT_TOLD.get(key, "it is about an op that opscaffold writes itself")
        raise AnswerError(f"it does not go with --from: {reason}", OP[key].flag.split("/")[0])
    given = [key for key in (*_TOLD, *_RULE) if about.get(key) is not None]
    if len(functions.sources) > 1 and given:
        raise AnswerError(
            "it is about one function, and --from names several; make that op by itself",
            OP[given[0]].flag,
        )
    return {key: about.pop(key, None) for key in (*_TOLD, *_RULE)}


def _request(
    source: str,
    told: dict[str, Value | None],
    root: Path,
    functions: Functions,
) -> tuple[Origin, Request]:
    from opscaffold.scaffold.from_code import COPY, IMPORT
    from opscaffold.scaffold.from_decide import Flags
    from opscaffold.scaffold.from_wrap import Request
    from opscaffold.scaffold.given import AnswerError, Given
    from opscaffold.scaffold.op_answers import check_one
    from opscaffold.scaffold.questions import KINDS, OP

    path, separator, function = source.rpartition(":")
    if not separator or not path or not function:
        raise AnswerError(
            f"{source!r} names no function; write it as path/to/module.py:function", "--from"
        )
    checked = {
        key: check_one(Given(value, OP[key].flag), OP[key]).value
        for key, value in told.items()
        if value is not None
    }
    told.update(checked)
    kind, mutates = checked.get("kind"), checked.get("mutates")
    flags = Flags(
        KINDS[str(kind)] if kind is not None else None,
        tuple(mutates) if isinstance(mutates, tuple) else None,
        functions.clone,
    )
    params = checked.get("params")
    request = Request(
        source=f"{Path(path).as_posix()}:{function}",
        function=function,
        name=str(checked.get("name", "")),
        flags=flags,
        params=params if isinstance(params, tuple) else (),
        returns=str(checked.get("returns", "")),
        mode={None: "", True: COPY, False: IMPORT}[functions.copied],
        fake=any(key in checked for key in _RULE),
    )
    return origin_of(Path(path), root), request


def origin_of(path: Path, root: Path) -> Origin:
    """Read the file, and enough of its project to know what names in it stand for."""
    from opscaffold.config.load import load_config
    from opscaffold.errors import UserError
    from opscaffold.rules.aliases import spelled_out
    from opscaffold.rules.autograd_functions import is_autograd_function
    from opscaffold.rules.contracts import constants, origins, postponed
    from opscaffold.rules.names import ProjectNames
    from opscaffold.scaffold.from_error import FromError
    from opscaffold.scaffold.from_origin import Origin
    from opscaffold.source.files import find_root
    from opscaffold.source.project import load_project

    if not path.is_file():
        what = "is a directory; name a file" if path.is_dir() else "is not there; check the path"
        raise UserError(f"--from: {path} {what}")
    home = find_root([path.parent])
    project = load_project([path], home, registrars=load_config(home).registrars)
    module = project.module_for(path)
    if module is None:
        found = next((p for p in project.problems if p.path == path.resolve()), None)
        if found is None:
            raise FromError(str(path), None, "it cannot be read", "name a Python file")
        raise FromError(str(path), found.line, found.message, "mend the file first")
    ops = {op.definition.function: op.qualname for op in project.all_ops}
    top = {name.partition(".")[0] for name in map(project.tree.name_of, project.files) if name}
    search = _search(path, module.name)
    return Origin(
        shown=path.as_posix(),
        module=module,
        names=ProjectNames(project, module),
        resolver=origins(project, module),
        evaluate=constants(project, module),
        postponed=postponed(module),
        plain=lambda node: spelled_out(project, module, node),
        op_of=lambda node: ops.get(node) if _is_function(node) else None,  # type: ignore[call-overload]
        is_autograd=lambda node: is_autograd_function(project, module, node),
        is_own=lambda name: name.partition(".")[0] in top,
        search=(Path(os.path.relpath(search, root)).as_posix(),),
    )


def _is_function(node: object) -> bool:
    import ast

    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _search(path: Path, module: str) -> Path:
    """The directory from which a module is imported by its whole name."""
    depth = module.count(".") + (path.name == "__init__.py")
    return path.resolve().parents[depth]


def _settled(
    origin: Origin,
    request: Request,
    release: Any,
    rule: dict[str, Value | None],
    screen: Screen | None,
) -> tuple[Wrapping, dict[str, Value | None]]:
    """The ops of a function, asking for what the code leaves open."""
    from opscaffold.cli.new_from_ask import answered
    from opscaffold.scaffold.from_error import UndecidedError
    from opscaffold.scaffold.from_wrap import wrap

    try:
        return wrap(origin, request, release), rule
    except UndecidedError as error:
        if screen is None:
            raise
        request, rule = answered(screen, error, request, rule)
    # Each answer settles one thing, and another may be open behind it.
    return _settled(origin, request, release, rule, screen)


def explained(wrapping: Wrapping) -> str:
    """What becomes of a function: each step of the tree with what shows it, then the ops."""
    lines = [f"{wrapping.source}", *(f"  {note}" for note in wrapping.notes)]
    for op in wrapping.ops:
        lines.append("")
        for step in op.steps:
            lines.append(f"  {step.question}")
            lines.append(f"    {step.answer}: {step.why}")
            lines += [f"      {place}" for place in step.evidence]
        lines.append(f"  -> {op.kind.value}: {op.schema}")
        lines += [f"     {note}" for note in op.notes]
    return "\n".join([*lines, ""])

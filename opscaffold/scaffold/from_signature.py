"""The signature of a function that is to be wrapped, as an op would declare it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from opscaffold.contract.declared import FunctionNode
from opscaffold.contract.model import Default, ListType, OptionalType, Parameter, Return
from opscaffold.contract.pydefaults import DefaultReader, DefaultRefusedError
from opscaffold.contract.releases import Release
from opscaffold.contract.signature import contract_from_signature
from opscaffold.contract.signature_error import SignatureError
from opscaffold.effects.buffers import Argument
from opscaffold.scaffold.from_error import FromError, UndecidedError
from opscaffold.scaffold.from_origin import Origin
from opscaffold.scaffold.wording import KW_ONLY, parameter_of, returns_of


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters in the order of the function, and what it is annotated to return.

    The first ``positional`` of them are not keyword-only.
    """

    parameters: tuple[Parameter, ...]
    positional: int
    returns: tuple[Return, ...]

    def arguments(self) -> list[Argument]:
        """The parameters as the analysis of effects takes them."""
        found = []
        for p in self.parameters:
            optional = isinstance(p.type, OptionalType)
            inner = p.type.of if isinstance(p.type, OptionalType) else p.type
            found.append(Argument(p.name, p.is_tensor_like, optional, isinstance(inner, ListType)))
        return found

    def named(self, name: str) -> Parameter:
        """The parameter of that name. Raises KeyError."""
        found = next((p for p in self.parameters if p.name == name), None)
        if found is None:
            raise KeyError(name)
        return found


def read_signature(
    origin: Origin,
    function: ast.FunctionDef,
    release: Release,
    told: Collection[str] = (),
    returns: str = "",
) -> Signature:
    """The signature, with what was ``told`` of parameters in place of their annotations.

    Raises FromError for what no schema can say, UndecidedError where an annotation is missing.
    """
    words = _told(origin, function, told)
    spec = function.args
    positional = _with_defaults(spec)
    keywords = list(zip(spec.kwonlyargs, spec.kw_defaults, strict=True))
    every = [(a, d, False) for a, d in positional] + [(a, d, True) for a, d in keywords]
    missing = [a for a, _, _ in every if a.annotation is None and a.arg not in words]
    if missing:
        texts = ", ".join(f"{a.arg}: Tensor" for a in missing)
        flags = " ".join(f"--param '{a.arg}: Tensor'" for a in missing)
        raise UndecidedError(
            origin.shown,
            missing[0],
            f"{' and '.join(a.arg for a in missing)} of {function.name} "
            f"{'have' if len(missing) > 1 else 'has'} no annotation, and the schema needs one",
            f"write {texts}, or its type, there; or say it here: {flags}",
            ("params",),
        )
    found = [
        words[a.arg]
        if a.arg in words and a.annotation is None
        else replace(_parameter(origin, function, a, d, release), kw_only=kw_only)
        for a, d, kw_only in every
    ]
    found = [
        replace(p, kw_only=kw_only, default=_default(origin, function, p, written))
        for p, (_, written, kw_only) in zip(found, every, strict=True)
    ]
    return Signature(tuple(found), len(positional), _returns(origin, function, release, returns))


def _with_defaults(spec: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    defaults = [None] * (len(spec.args) - len(spec.defaults)) + spec.defaults
    return list(zip(spec.args, defaults, strict=True))


def _told(
    origin: Origin, function: ast.FunctionDef, told: Collection[str]
) -> Mapping[str, Parameter]:
    spec = function.args
    known = {a.arg: a for a in (*spec.args, *spec.kwonlyargs)}
    found: dict[str, Parameter] = {}
    for text in told:
        if text == KW_ONLY:
            raise FromError(
                origin.shown,
                function,
                "--param '*' says nothing of an argument",
                f"{function.name} itself says which are keyword-only; drop it",
            )
        parameter = parameter_of(text)
        if parameter.name not in known:
            raise FromError(
                origin.shown,
                function,
                f"--param tells of {parameter.name}, and {function.name} takes "
                f"{', '.join(known) or 'no argument'}",
                "name one of those",
            )
        arg = known[parameter.name]
        if arg.annotation is not None:
            raise FromError(
                origin.shown,
                arg,
                f"--param tells the type of {arg.arg}, which is annotated here: "
                f"{ast.unparse(arg.annotation)}",
                "drop the flag, or change the annotation",
            )
        found[parameter.name] = parameter
    return found


def _one(
    origin: Origin, function: ast.FunctionDef, arg: ast.arg, default: ast.expr | None
) -> FunctionNode:
    """A function of this one parameter, which returns nothing: a keyword-only Tensor does."""
    part = copy.copy(function)
    plain = copy.copy(arg)
    plain.annotation = None if arg.annotation is None else origin.plain(arg.annotation)
    defaults = [] if default is None else [default]
    part.args = ast.arguments([], [plain], None, [], [], None, defaults)
    part.returns = ast.copy_location(ast.Constant(None), function)
    return part


def _parameter(
    origin: Origin,
    function: ast.FunctionDef,
    arg: ast.arg,
    default: ast.expr | None,
    release: Release,
) -> Parameter:
    part = _one(origin, function, arg, default)
    written = part.args.args[0].annotation
    if written is not None and _is_none(default) and not _says_none(written):
        # Older code writes ``x: Tensor = None``.
        union = ast.BinOp(written, ast.BitOr(), ast.copy_location(ast.Constant(None), written))
        part.args.args[0].annotation = ast.copy_location(union, written)
    return _read(origin, function, part, release).parameters[0]


def _default(
    origin: Origin, function: ast.FunctionDef, parameter: Parameter, written: ast.expr | None
) -> Default | None:
    """The default of a parameter that was told: as told, else as it stands in the function."""
    if written is None or parameter.default is not None:
        return parameter.default
    try:
        return DefaultReader(origin.resolver, origin.evaluate).read(written)
    except DefaultRefusedError as bad:
        raise FromError(
            origin.shown,
            bad.node,
            f"{function.name}: the default of {parameter.name!r}: {bad.reason}",
            bad.remedy,
        ) from None


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _says_none(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return "None" in text or "Optional" in text


def _returns(
    origin: Origin, function: ast.FunctionDef, release: Release, told: str
) -> tuple[Return, ...]:
    if told and function.returns is not None:
        raise FromError(
            origin.shown,
            function.returns,
            f"--returns tells what {function.name} returns, which is annotated here: "
            f"{ast.unparse(function.returns)}",
            "drop the flag, or change the annotation",
        )
    if told:
        return returns_of(told)
    if function.returns is None:
        if not any(isinstance(n, ast.Return) and n.value for n in ast.walk(function)):
            return ()
        raise UndecidedError(
            origin.shown,
            function,
            f"what {function.name} returns is not annotated",
            "write -> Tensor, or what it returns, there; or say it here: --returns Tensor",
            ("returns",),
        )
    part = copy.copy(function)
    part.args = ast.arguments([], [], None, [], [], None, [])
    plain = origin.plain(function.returns)
    inner = _without_none(origin, plain)
    part.returns = inner
    return _read(origin, function, part, release).returns


def _without_none(origin: Origin, annotation: ast.expr) -> ast.expr:
    """``Tensor`` of ``Optional[Tensor]``: the op of each way to call it returns one or nothing."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            parts = [p for p in (left, right) if not _is_none(p)]
            return parts[0] if len(parts) == 1 else annotation
        case ast.Subscript(value=owner, slice=inner):
            dotted = origin.resolver(owner) or ast.unparse(owner)
            return inner if dotted.rpartition(".")[2] == "Optional" else annotation
    return annotation


def may_be_none(origin: Origin, function: ast.FunctionDef) -> bool:
    """Whether the annotation says that the function may return None in place of a result."""
    if function.returns is None:
        return False
    plain = origin.plain(function.returns)
    return _without_none(origin, plain) is not plain


def _read(
    origin: Origin, function: ast.FunctionDef, part: FunctionNode, release: Release
) -> Signature:
    try:
        contract = contract_from_signature(
            part,
            qualname="op::op",
            resolver=origin.resolver,
            evaluate=origin.evaluate,
            postponed=origin.postponed,
            release=release,
        )
    except SignatureError as error:
        raise FromError(
            origin.shown, error.line, f"{function.name}: {error.reason}", error.remedy
        ) from None
    return Signature(contract.parameters, len(contract.parameters), contract.returns)

"""A Python function's signature to the contract that ``torch.library.custom_op`` would give it.

The rules of ``infer_schema`` and of registration, by torch release, without importing torch.
Source: torch.library reference; FACTS section 2, "Types", and section 10.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection

from opscaffold.contract.annotations import AnnotationReader, AnnotationRefusedError, Resolver
from opscaffold.contract.declared import UNKNOWN_MUTATES, FunctionNode, declare
from opscaffold.contract.lexer import RESERVED_WORDS
from opscaffold.contract.model import (
    BaseType,
    Default,
    GenericType,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
    Tag,
)
from opscaffold.contract.naming import split_qualname
from opscaffold.contract.printer import format_type
from opscaffold.contract.pydefaults import DefaultReader, DefaultRefusedError, Evaluator
from opscaffold.contract.pytypes import (
    default_problem,
    parameter_type_problem,
    parameter_type_remedy,
    return_type_problem,
)
from opscaffold.contract.releases import MEASURED, Release, Version, release_for
from opscaffold.contract.signature_error import SignatureError, Stage
from opscaffold.records import dataclass

__all__ = [
    "UNKNOWN_MUTATES",
    "SignatureError",
    "Stage",
    "contract_from_signature",
    "parse_function",
]


def contract_from_signature(
    source: FunctionNode | str,
    *,
    qualname: str,
    mutates_args: Collection[str] | str = (),
    tags: Collection[Tag] = (),
    resolver: Resolver | None = None,
    evaluate: Evaluator | None = None,
    postponed: bool = False,
    release: Version | Release = MEASURED,
    schema_only: bool = False,
) -> OpContract:
    """The contract of ``custom_op(qualname, fn, mutates_args=..., tags=...)``.

    ``source`` is the function's ast node, or its text (decorators and body may be left away:
    ``def scale(x: Tensor, alpha: float = 1.0) -> Tensor``). ``mutates_args`` may be
    ``"unknown"``. ``resolver`` maps a Name or Attribute expression to its dotted origin
    (``torch.Tensor``) and may return None; without one, names mean what they conventionally do.
    ``evaluate`` gives the value of a default that is no literal. ``postponed`` says that the
    module has ``from __future__ import annotations``; a text that has it says so itself.
    ``schema_only`` is for ops that a ``Library`` defines by what ``infer_schema`` makes of the
    function: it takes keyword-only Tensors, which ``custom_op`` refuses.

    Raises SignatureError for the first thing that PyTorch would refuse, in the order of the
    signature, and where an annotation or default cannot be told from the source (its ``stage``
    is UNKNOWN). Raises ValueError for a qualname that is not ``ns::name`` or ``ns::name.overload``.
    """
    parts = split_qualname(qualname)
    if parts is None:
        raise ValueError(f"{qualname!r} is not of the form namespace::name")
    node = source
    if isinstance(node, str):
        node, found = parse_function(node)
        postponed = postponed or found
    row = release if isinstance(release, Release) else release_for(release)
    reader = _SignatureReader(
        AnnotationReader(resolver, postponed), DefaultReader(resolver, evaluate), row
    )
    namespace, name, overload = parts
    try:
        parameters = reader.parameters(node)
        returns = reader.returns(node)
    except RecursionError:
        raise SignatureError(
            "the signature is nested too deep to be read",
            "write its types and defaults plainly",
            node,
            stage=Stage.UNKNOWN,
        ) from None
    contract = OpContract(namespace, name, parameters, returns, overload, frozenset(tags))
    return declare(contract, node, mutates_args, row, schema_only=schema_only)


def parse_function(text: str) -> tuple[FunctionNode, bool]:
    """The one function in a text, and whether the text postpones its annotations.

    A missing body is supplied. Raises SignatureError where the text holds no function.
    """
    text = textwrap.dedent(text).strip()
    tree = _parse(text)
    if tree is None:
        tree = _parse(f"{text.rstrip(':').rstrip()}: ...")
    if tree is None:
        raise SignatureError(
            "this is no Python function", "write it as def name(x: Tensor) -> Tensor", None
        )
    functions = [n for n in tree.body if isinstance(n, FunctionNode)]
    if len(functions) != 1:
        raise (
            SignatureError(
                f"the text holds {len(functions)} functions", "give exactly one def", tree.body[0]
            )
            if tree.body
            else SignatureError("the text is empty", "give one def", None)
        )
    postponed = any(
        isinstance(n, ast.ImportFrom)
        and n.module == "__future__"
        and any(a.name == "annotations" for a in n.names)
        for n in tree.body
    )
    return functions[0], postponed


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True, slots=True)
class _SignatureReader:
    annotations: AnnotationReader
    defaults: DefaultReader
    release: Release

    def parameters(self, node: FunctionNode) -> tuple[Parameter, ...]:
        if not self.release.custom_op:
            raise SignatureError(
                f"torch {self.release} has no torch.library.custom_op", "require torch 2.4", node
            )
        if isinstance(node, ast.AsyncFunctionDef):
            raise SignatureError("an op cannot be async", "write a plain def", node)
        arguments = node.args
        for odd in (*arguments.posonlyargs, arguments.vararg, arguments.kwarg):
            if odd is not None:
                raise SignatureError(
                    f"{odd.arg!r} is positional-only, *args or **kwargs, which a schema cannot say",
                    "give each argument a name of its own, or use a list",
                    odd,
                    parameter=odd.arg,
                )
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
        found = [
            self._parameter(a, d, kw_only=False)
            for a, d in zip(arguments.args, defaults, strict=True)
        ]
        found += [
            self._parameter(a, d, kw_only=True)
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ]
        return tuple(found)

    def _parameter(self, arg: ast.arg, default: ast.expr | None, *, kw_only: bool) -> Parameter:
        name = arg.arg
        if arg.annotation is None:
            raise SignatureError(
                f"{name!r} has no annotation",
                f"write {name}: Tensor, or its type",
                arg,
                parameter=name,
            )
        try:
            type_ = self.annotations.parameter(arg.annotation)
        except AnnotationRefusedError as refusal:
            raise _refused(refusal, name) from None
        reason = None if "." in format_type(type_) else parameter_type_problem(type_, self.release)
        remedy = parameter_type_remedy(type_)
        if _opaque_inside(type_):
            reason, remedy = "an opaque type cannot be Optional or in a list", "require one"
        if reason is not None:
            raise SignatureError(f"{name!r}: {reason}", remedy, arg.annotation, parameter=name)
        parameter = Parameter(name, type_, self._default(name, default), kw_only)
        _check_registration(parameter, arg, default)
        return parameter

    def _default(self, name: str, node: ast.expr | None) -> Default | None:
        if node is None:
            return None
        try:
            return self.defaults.read(node)
        except DefaultRefusedError as bad:
            raise SignatureError(
                f"the default of {name!r}: {bad.reason}",
                bad.remedy,
                bad.node,
                stage=Stage.INFER if bad.known else Stage.UNKNOWN,
                parameter=name,
            ) from None

    def returns(self, node: FunctionNode) -> tuple[Return, ...]:
        if node.returns is None:
            raise SignatureError("the return has no annotation", "write -> Tensor or -> None", node)
        try:
            types = self.annotations.returns(node.returns)
        except AnnotationRefusedError as refusal:
            raise _refused(refusal, "") from None
        for type_ in types:
            lone = len(types) == 1 and isinstance(type_, GenericType)
            for item in type_.args if lone and isinstance(type_, GenericType) else (type_,):
                reason = None if _is_opaque(item) else return_type_problem(item)
                if reason is not None:
                    raise SignatureError(
                        reason,
                        "return Tensor, list[Tensor], int, float, bool, Number, or a tuple of them",
                        node.returns,
                    )
        return tuple(Return(t) for t in types)


def _refused(refusal: AnnotationRefusedError, parameter: str) -> SignatureError:
    where = f"{parameter!r}: " if parameter else "the return: "
    return SignatureError(
        where + refusal.reason,
        refusal.remedy,
        refusal.node,
        stage=Stage.INFER if refusal.known else Stage.UNKNOWN,
        parameter=parameter,
    )


def _check_registration(parameter: Parameter, arg: ast.arg, default: ast.expr | None) -> None:
    name = parameter.name
    if not name.isascii() or name in RESERVED_WORDS:
        raise SignatureError(
            f"PyTorch's schema parser cannot read the argument name {name!r}",
            "use ASCII letters, digits and '_'",
            arg,
            stage=Stage.REGISTRATION,
            parameter=name,
        )
    refused = default_problem(parameter)
    if refused is not None:
        raise SignatureError(*refused, default or arg, stage=Stage.REGISTRATION, parameter=name)


def _is_opaque(type_: SchemaType) -> bool:
    return isinstance(type_, BaseType) and "." in type_.name


def _opaque_inside(type_: SchemaType) -> bool:
    return isinstance(type_, OptionalType | ListType) and "." in format_type(type_)

"""How an author may word an op: schema text, a Python signature, single arguments, returns.

The ``read_*`` functions are the validators of answers: they return the text, or raise ValueError
with one line that says what is wrong. The ``*_of`` functions return what the text means.
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
import warnings
from dataclasses import replace

from opscaffold.contract.declared import FunctionNode
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.lexer import SchemaError
from opscaffold.contract.model import (
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
)
from opscaffold.contract.naming import (
    validate_namespace,
    validate_op_name,
    validate_parameter_name,
)
from opscaffold.contract.printer import format_type
from opscaffold.contract.pytypes import (
    default_problem,
    parameter_type_problem,
    return_type_problem,
    strip_alias,
)
from opscaffold.contract.releases import RELEASES
from opscaffold.contract.signature import (
    contract_from_signature,
    parse_function,
)

KW_ONLY = "*"
MAX_LENGTH = 4000
_TYPES = "use Tensor, int, float, bool, str, Scalar, ScalarType or Device, with ? or [] behind it"
_LATEST = RELEASES[-1]
NOTHING = ("()", "None")

_PYTHON_TYPE = re.compile(r"[.|'\"]|\[\s*[A-Za-z]|\A(?:tuple|list|Tuple|List|Optional)\b")


def read_schema(text: str) -> str:
    """A whole schema, such as ``mylib::scale(Tensor x, float alpha=1.0) -> Tensor``."""
    schema_of(text)
    return text


def read_signature(text: str) -> str:
    """A ``def`` line without a body, such as ``def scale(x: Tensor) -> Tensor``."""
    signature_of(text)
    return text


def read_parameter(text: str) -> str:
    """One argument in either wording, or ``*``."""
    if text == KW_ONLY:
        return text
    parameter = parameter_of(text)
    reason = parameter_type_problem(strip_alias(parameter.type), _LATEST)
    if reason is not None:
        raise ValueError(f"{reason}; {_TYPES}")
    refused = default_problem(parameter)
    if refused is not None:
        raise ValueError("; ".join(refused))
    return text


def read_returns(text: str) -> str:
    """What an op returns, in either wording; ``()`` and ``None`` are nothing."""
    for returned in returns_of(text):
        reason = return_type_problem(strip_alias(returned.type))
        if reason is not None:
            raise ValueError(f"{reason}; return Tensor, Tensor[], int, float or bool")
    return text


def schema_of(text: str) -> OpContract:
    """The contract a schema writes, its names checked. Raises ValueError."""
    contract = _parse(_short(text), 0)
    if not contract.name:
        raise ValueError(
            f"the schema names no op; write it as name{text.strip()}"
            if text.strip().startswith("(")
            else "the schema names no op"
        )
    if contract.overload:
        raise ValueError(
            f"{contract.name}.{contract.overload} is an overload, and beside {contract.name} "
            "Inductor can put it in its place and compute something else; nearest safe name: "
            f"{contract.name}_{contract.overload}"
        )
    if contract.vararg or contract.varret:
        raise ValueError("a custom op cannot have '...'; write every argument and return out")
    return _check_names(contract)


def signature_of(text: str) -> OpContract:
    """The contract a Python signature writes, without what it mutates. Raises ValueError."""
    _refuse_body(_short(text))
    text = " ".join(text.split())
    if not text.startswith("def "):
        raise ValueError("a signature starts with def: def scale(x: Tensor) -> Tensor")
    return _check_names(_function(text))


def parameter_of(text: str) -> Parameter:
    """The one argument that ``text`` writes. Raises ValueError."""
    _short(text)
    if not text:
        raise ValueError("an argument is empty; write one as 'Tensor x'")
    if _is_python_parameter(text):
        contract = _function(f"def op({text}) -> None: ...")
    else:
        contract = _parse(f"op({text}) -> ()", len("op("), ") -> ()")
    if len(contract.parameters) != 1 or contract.returns or contract.vararg:
        raise ValueError(f"{text!r} is not one argument; give each by itself")
    parameter = contract.parameters[0]
    for reason in (validate_parameter_name(parameter.name), _length_problem(parameter.type)):
        if reason is not None:
            raise ValueError(reason)
    return parameter


def returns_of(text: str) -> tuple[Return, ...]:
    """The returns that ``text`` writes. Raises ValueError."""
    _short(text)
    if not text:
        raise ValueError("say what it returns, () for nothing")
    if text in NOTHING:
        return ()
    if _PYTHON_TYPE.search(text):
        contract = _function(f"def op() -> {text}: ...")
    else:
        bare = "," in text and not text.startswith("(")
        before = "op() -> " + ("(" if bare else "")
        contract = _parse(before + text + (")" if bare else ""), len(before))
    if contract.parameters or contract.varret:
        raise ValueError(f"{text!r} is no list of returns; write Tensor, or (Tensor, Tensor)")
    for returned in contract.returns:
        reason = _length_problem(returned.type)
        if reason is not None:
            raise ValueError(reason)
    return contract.returns


def _is_python_parameter(text: str) -> bool:
    """``name: type`` has a colon right behind its first word; no schema argument has."""
    return re.match(r"[^\W\d]\w*\s*:(?!:)", text) is not None


def _short(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"this is {len(text)} characters long; {MAX_LENGTH} are enough")
    return text


def _parse(text: str, offset: int, after: str = "") -> OpContract:
    try:
        return parse_schema(text)
    except SchemaError as error:
        column = max(error.column - offset, 1)
        reason = error.reason
        if offset and column > len(text) - offset - len(after):
            # The reader met what was put behind the author's text.
            reason = re.sub(r"found '.*'\Z", "found the end", reason)
        raise ValueError(f"{reason} (column {column})") from None
    except RecursionError:
        raise ValueError("the types are nested beyond reason") from None


def _function(text: str) -> OpContract:
    """Read a signature, kw-only Tensors and all: whether they are buffers is not known yet."""
    with warnings.catch_warnings():  # newer Pythons warn of odd literals
        warnings.simplefilter("ignore")
        node, _ = parse_function(text)
    arguments = node.args
    # What no op can have is refused here; the arguments follow one by one.
    frame = _read_one(node, [], [], odd=arguments)
    spread = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    parameters = [
        *(_parameter(node, a, d) for a, d in zip(arguments.args, spread, strict=True)),
        *(
            replace(_parameter(node, a, d), kw_only=True)
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ),
    ]
    return replace(frame, namespace="", name=node.name, parameters=tuple(parameters))


def _parameter(node: FunctionNode, arg: ast.arg, default: ast.expr | None) -> Parameter:
    return _read_one(node, [arg], [] if default is None else [default]).parameters[0]


def _read_one(
    node: FunctionNode,
    args: list[ast.arg],
    defaults: list[ast.expr],
    odd: ast.arguments | None = None,
) -> OpContract:
    part = copy.copy(node)
    part.args = ast.arguments(
        posonlyargs=odd.posonlyargs if odd else [],
        args=args,
        vararg=odd.vararg if odd else None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=odd.kwarg if odd else None,
        defaults=defaults,
    )
    # A release that takes all types: which one is meant is looked at with the whole contract.
    return contract_from_signature(part, qualname="op::op", release=_LATEST)


def _length_problem(type_: SchemaType) -> str | None:
    """Why a type says more than the annotation of a generated op can, or None."""
    inner = type_.of if isinstance(type_, OptionalType) else type_
    if not isinstance(inner, ListType) or inner.size is None:
        return None
    written = format_type(strip_alias(inner))
    return (
        f"{written} has a length, which no Python annotation says, so the op would take a list of "
        f"any length; write {written.partition('[')[0]}[], and check the length in the kernel"
    )


def _refuse_body(text: str) -> None:
    """Raise ValueError for a function with a body: nothing would be made of it."""
    # A body of several statements is no Python once its lines are joined.
    for form in (textwrap.dedent(text).strip(), " ".join(text.split())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(form)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
        functions = [n for n in tree.body if isinstance(n, FunctionNode)]
        said = [s for f in functions for s in f.body if not _says_nothing(s)]
        if said:
            raise ValueError(
                "a signature ends with what it returns, and this one has a body, which would be "
                "lost; drop it here, and write it into the kernel of the generated package"
            )
        return


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether a statement stands for a missing body: ``...``, ``pass``, a docstring."""
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def _check_names(contract: OpContract) -> OpContract:
    reasons = [validate_op_name(contract.name)]
    if contract.namespace:
        reasons.append(validate_namespace(contract.namespace))
    reasons += [validate_parameter_name(p.name) for p in contract.parameters]
    reasons += [_length_problem(p.type) for p in contract.parameters]
    reasons += [_length_problem(r.type) for r in contract.returns]
    for reason in reasons:
        if reason is not None:
            raise ValueError(reason)
    return contract

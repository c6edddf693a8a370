"""The calls that register an op, and how they read for each half of a split one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

from opscaffold.contract.derive import DerivationError, out_of, with_buffer_at
from opscaffold.contract.grammar import SchemaError, format_schema, parse_schema
from opscaffold.contract.model import OpContract
from opscaffold.contract.pytypes import strip_alias
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sequences import append, remove_at
from opscaffold.migrate.syntax import Key, Syntax, code_of

_WIDTH = 88
_NO_SPACE = cst.SimpleWhitespace("")


@dataclass(frozen=True, slots=True)
class Parts:
    """The expressions of a registering call that differ between the halves; each may be absent.

    ``fake`` is the fake kernel where the same call takes it. ``names_op`` says that ``schema``
    starts with the op's name, ``declares`` that the call takes ``mutates_args`` and ``tags``.
    """

    name: ast.expr | None = None
    mutates: ast.expr | None = None
    schema: ast.expr | None = None
    kernel: ast.expr | None = None
    fake: ast.expr | None = None
    tags: ast.expr | None = None
    names_op: bool = False
    declares: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """What a registration is to say for one half.

    ``suffix`` goes behind the op's name. ``buffer`` is the buffer it takes (empty: none),
    ``index`` its positional place (None: keyword-only). ``mutates`` are all the names it mutates.
    ``tag`` is the expression of the tag, ``kernel`` the name of the function, each empty where
    it stays. ``schema`` makes the half's schema of the old one, where it is no maybe-out's.
    """

    mutates: tuple[str, ...]
    dropped: str
    suffix: str = ""
    buffer: str = ""
    index: int | None = None
    tag: str = ""
    kernel: str = ""
    schema: Callable[[OpContract], OpContract] | None = None


def registering(
    syntax: Syntax, node: cst.CSTNode, call: ast.Call, parts: Parts, target: Target
) -> cst.CSTNode:
    """A statement or decorator as it reads for one half.

    ``call`` is the registering call in it. Raises RefusalError where a part is not written in a
    way that can be changed.
    """
    written = syntax.find(call, cst.Call)
    swaps: dict[int, cst.BaseExpression] = {}
    kernels: dict[Key, str] = {}
    changes: list[tuple[ast.expr | None, Callable[[cst.BaseExpression], cst.BaseExpression]]] = [
        (parts.name, lambda old: renamed(old, target.suffix) if target.suffix else old),
        (parts.mutates, lambda old: names_like(old, target.mutates)),
        (parts.schema, lambda old: _schema(old, parts, target)),
        (parts.tags, lambda old: with_tag(old, target.tag) if target.tag else old),
    ]
    for part, change in changes:
        if part is not None:
            index = _index(written, call, part)
            swaps[index] = change(written.args[index].value)
    if parts.kernel is not None and target.kernel:
        kernels[syntax.key(parts.kernel)] = target.kernel
    added: list[tuple[str, cst.BaseExpression]] = []
    if parts.declares and parts.mutates is None and target.mutates and parts.schema is None:
        added.append(("mutates_args", names_like(cst.Tuple([]), target.mutates)))
    if parts.declares and target.tag and parts.tags is None:
        added.append(("tags", cst.parse_expression(target.tag)))
    dropped = None
    if parts.fake is not None and target.buffer:
        dropped = _index(written, call, parts.fake)
    swapper = _Swapper(syntax, written, swaps, kernels, added, dropped)
    swapped = node.visit(swapper)
    if not isinstance(swapped, cst.CSTNode) or swapper.made is None:
        raise TypeError("a registration cannot vanish")
    return on_lines(swapped, swapper.made, max(_WIDTH, len(code_of(node).strip("\n"))))


def _index(written: cst.Call, call: ast.Call, part: ast.expr) -> int:
    """The place of an argument in a call as written."""
    if part in call.args:
        at = [i for i, arg in enumerate(written.args) if arg.keyword is None]
        return at[call.args.index(part)]
    name = next(k.arg for k in call.keywords if k.value is part)
    return next(i for i, a in enumerate(written.args) if a.keyword and a.keyword.value == name)


class _Swapper(cst.CSTTransformer):
    """Replaces arguments of one call, adds to it and drops from it; replaces names."""

    def __init__(
        self,
        syntax: Syntax,
        call: cst.Call,
        swaps: dict[int, cst.BaseExpression],
        kernels: dict[Key, str],
        added: Sequence[tuple[str, cst.BaseExpression]],
        dropped: int | None,
    ) -> None:
        super().__init__()
        self.spans, self.call = syntax.spans, call
        self.swaps, self.kernels = swaps, kernels
        self.added, self.dropped = added, dropped
        self.made: cst.Call | None = None

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        """Name another kernel."""
        name = self.kernels.get(self.spans.get(original_node, (-1, -1)))
        return updated_node if name is None else updated_node.with_changes(value=name)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Change the registering call."""
        if original_node is not self.call:
            return updated_node
        args = [
            arg.with_changes(value=self.swaps[i]) if i in self.swaps else arg
            for i, arg in enumerate(updated_node.args)
        ]
        if self.dropped is not None:
            args = remove_at(args, self.dropped)
        for name, value in self.added:
            equal = cst.AssignEqual(_NO_SPACE, _NO_SPACE)
            args = append(args, cst.Arg(value, keyword=cst.Name(name), equal=equal))
        self.made = updated_node.with_changes(args=args)
        return self.made


def on_lines(node: cst.CSTNode, call: cst.Call, width: int) -> cst.CSTNode:
    """The node with a call one argument a line, where it is longer than a line may be.

    A call that is broken already, or holds a comment, keeps its layout.
    """
    text = code_of(node).strip("\n")
    if "\n" in text or "#" in text or len(text) <= width or not call.args:
        return node
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    outer = cst.ParenthesizedWhitespace(indent=True)
    comma = cst.Comma(whitespace_after=inner)
    args = [arg.with_changes(comma=comma) for arg in call.args]
    args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=outer))
    broken = call.with_changes(args=args, whitespace_before_args=inner)
    changed = node.deep_replace(call, broken)
    if not isinstance(changed, cst.CSTNode):
        raise TypeError("a registration cannot vanish")
    return changed


def renamed(value: cst.BaseExpression, suffix: str) -> cst.BaseExpression:
    """A string, or an op object of torch.ops, with a suffix behind its name."""
    match value:
        case cst.SimpleString(value=text, quote=quote):
            return value.with_changes(value=f"{text[: -len(quote)]}{suffix}{quote}")
        case cst.FormattedString(parts=[*parts]):
            if parts and isinstance(parts[-1], cst.FormattedStringText):
                last = parts[-1].with_changes(value=parts[-1].value + suffix)
                return value.with_changes(parts=[*parts[:-1], last])
            return value.with_changes(parts=[*parts, cst.FormattedStringText(suffix)])
        case cst.ConcatenatedString(right=right):
            return value.with_changes(right=renamed(right, suffix))
        case cst.BinaryOperation(operator=cst.Add(), right=cst.SimpleString() as right):
            return value.with_changes(right=renamed(right, suffix))
        case cst.Attribute(value=cst.Attribute() as op, attr=cst.Name("default")):
            return value.with_changes(value=renamed(op, suffix))
        case cst.Attribute(attr=cst.Name(name)):
            return value.with_changes(attr=cst.Name(f"{name}{suffix}"))
    raise RefusalError(None, "the op's name is not written as a string", "write it as one string")


def names_like(value: cst.BaseExpression, names: Sequence[str]) -> cst.BaseExpression:
    """A display of names in the way that ``value`` is one: tuple, list or set."""
    if isinstance(value, cst.Tuple | cst.List | cst.Set):
        written = [_text(e.value) for e in value.elements]
        if written == list(names):
            return value
        if set(names) < set(written) and names:
            elements: list[Any] = [e for e in value.elements if _text(e.value) in names]
            comma = cst.MaybeSentinel.DEFAULT if len(elements) > 1 else cst.Comma()
            comma = comma if isinstance(value, cst.Tuple) else cst.MaybeSentinel.DEFAULT
            elements[-1] = elements[-1].with_changes(comma=comma)
            return value.with_changes(elements=elements)
        if written and set(written) < set(names):
            elements = list(value.elements)
            for name in [n for n in names if n not in written]:
                elements = append(elements, cst.Element(_literal(name, value)))
            if isinstance(value, cst.Tuple):
                elements[-1] = elements[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return value.with_changes(elements=elements)
    if isinstance(value, cst.List):
        return value.with_changes(elements=[cst.Element(_literal(n, value)) for n in names])
    if isinstance(value, cst.Set) and names:
        return value.with_changes(elements=[cst.Element(_literal(n, value)) for n in names])
    elements = [cst.Element(_literal(n, value)) for n in names]
    if len(elements) == 1:
        elements[0] = elements[0].with_changes(comma=cst.Comma(whitespace_after=_NO_SPACE))
    return cst.Tuple(elements)


def with_tag(value: cst.BaseExpression, tag: str) -> cst.BaseExpression:
    """The ``tags`` of a registration with one more."""
    added = cst.Element(cst.parse_expression(tag))
    if isinstance(value, cst.Tuple | cst.List):
        elements = [e for e in value.elements if isinstance(e, cst.Element)]
        return value.with_changes(elements=append(elements, added))
    if isinstance(value, cst.Name) and value.value == "None":
        return added.value
    if not isinstance(value, cst.Attribute):
        raise RefusalError(
            None, "its `tags` are not written as tags", "write the tags out in the registration"
        )
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return cst.Tuple([cst.Element(value, comma=comma), added])


def schema_for(text: str, target: Target) -> str:
    """The schema of a maybe-out as one half has it; what stands before ``(`` gets the suffix."""
    head = text.partition("(")[0].strip()
    try:
        old = parse_schema(text)
        if target.schema is not None:
            fresh = target.schema(replace(old, name="op"))
            return _headed(head, target, fresh)
        fresh = replace(
            old,
            name="op",
            parameters=tuple(p for p in old.parameters if p.name != target.dropped),
            returns=tuple(replace(r, type=strip_alias(r.type)) for r in old.returns),
        )
        if target.buffer and target.index is None:
            fresh = out_of(fresh, [target.buffer])
        elif target.buffer:
            fresh = with_buffer_at(fresh, target.buffer, target.index or 0)
    except (SchemaError, DerivationError) as error:
        reason = f"its schema cannot be split: {error}"
        raise RefusalError(None, reason, "split it by hand") from None
    return _headed(head, target, fresh)


def _headed(head: str, target: Target, contract: OpContract) -> str:
    name = f"{head}{target.suffix}" if head else ""
    return f"{name}({format_schema(contract).partition('(')[2]}"


def _schema(value: cst.BaseExpression, parts: Parts, target: Target) -> cst.BaseExpression:
    if isinstance(value, cst.Name) and value.value == "None":
        return value
    text = getattr(value, "evaluated_value", None)
    if not isinstance(text, str):
        raise RefusalError(None, "its schema is not a plain string", "write it as one string")
    new = schema_for(text, target if parts.names_op else replace(target, suffix=""))
    quote = "'" if '"' in new else '"'
    return cst.SimpleString(f"{quote}{new}{quote}")


def _text(value: cst.BaseExpression) -> str | None:
    text = getattr(value, "evaluated_value", None)
    return text if isinstance(text, str) else None


def _literal(name: str, like: cst.BaseExpression) -> cst.SimpleString:
    """A string in the quotes that the display uses."""
    quote = '"'
    for element in getattr(like, "elements", ()):
        if isinstance(element.value, cst.SimpleString):
            quote = element.value.quote[:1]
    return cst.SimpleString(f"{quote}{name}{quote}")

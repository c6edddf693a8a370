"""Changing the parameters of a function: dropping a buffer, or making it one to be given."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from opscaffold.migrate.sequences import (
    append,
    insert_after,
    lines_above,
    remove_at,
    without_lines_below,
)
from opscaffold.migrate.syntax import code_of


def parameter_code(parameter: cst.Param) -> str:
    """The text of one parameter, without a comma."""
    bare = parameter.with_changes(
        star="", comma=cst.MaybeSentinel.DEFAULT, whitespace_after_param=cst.SimpleWhitespace("")
    )
    return code_of(bare)


def parameter_named(parameters: cst.Parameters, name: str) -> cst.Param | None:
    """The parameter of this name, wherever it stands."""
    every = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
    return next((p for p in every if p.name.value == name), None)


def without_parameter(parameters: cst.Parameters, name: str) -> cst.Parameters:
    """The parameters without one of them."""
    if _index(parameters.kwonly_params, name) is not None:
        rest = _dropped(parameters.kwonly_params, name)
        if rest:
            return parameters.with_changes(kwonly_params=rest)
        star = parameters.star_arg
        if isinstance(star, cst.ParamStar):
            parameters = parameters.with_changes(star_arg=cst.MaybeSentinel.DEFAULT)
            positional = list(parameters.params)
            if positional:
                positional[-1] = positional[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            parameters = parameters.with_changes(params=positional)
        return parameters.with_changes(kwonly_params=())
    return parameters.with_changes(params=_dropped(parameters.params, name))


def with_keyword_out(parameters: cst.Parameters, name: str) -> cst.Parameters:
    """The parameters with the named one last, keyword-only and without a default."""
    old = parameter_named(parameters, name)
    if old is None:
        raise KeyError(name)
    out = old.with_changes(
        default=None,
        equal=cst.MaybeSentinel.DEFAULT,
        annotation=_plain_annotation(old.annotation),
        star=cst.MaybeSentinel.DEFAULT,
    )
    in_line = _index(parameters.kwonly_params, name)
    if in_line is not None:
        if in_line == len(parameters.kwonly_params) - 1:
            kept = [*parameters.kwonly_params[:-1], out]
            return parameters.with_changes(kwonly_params=kept)
        rest = _dropped(parameters.kwonly_params, name)
        return parameters.with_changes(kwonly_params=append(rest, out))
    was_last = parameters.params[-1].name.value == name and not parameters.kwonly_params
    index = _index(parameters.params, name)
    # The comments above it stay above it, behind the star.
    separator = _with_lines(_separator(parameters), lines_above(parameters.params, index or 0))
    if was_last:
        # Its comma and comment stay with it; the star takes the place in front of it.
        star = cst.ParamStar(comma=separator)
        before = without_lines_below(parameters.params[:-1])
        return parameters.with_changes(params=before, star_arg=star, kwonly_params=[out])
    rest = _dropped(parameters.params, name)
    parameters = parameters.with_changes(params=rest)
    if parameters.kwonly_params:
        return parameters.with_changes(kwonly_params=append(parameters.kwonly_params, out))
    placed = append(rest, out)
    star = cst.ParamStar(comma=separator)
    return parameters.with_changes(params=placed[:-1], star_arg=star, kwonly_params=[placed[-1]])


def with_buffer_at(parameters: cst.Parameters, name: str, index: int) -> cst.Parameters:
    """The parameters with the named one at a positional place, and without a default."""
    old = parameter_named(parameters, name)
    if old is None:
        raise KeyError(name)
    buffer = old.with_changes(
        default=None,
        equal=cst.MaybeSentinel.DEFAULT,
        annotation=_plain_annotation(old.annotation),
        star=cst.MaybeSentinel.DEFAULT,
    )
    if _index(parameters.params, name) == index:
        params = [*parameters.params]
        params[index] = buffer
        return parameters.with_changes(params=params)
    rest = without_parameter(parameters, name)
    if not rest.params:
        return rest.with_changes(params=[buffer.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    if index == 0:
        first, *others = rest.params
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return rest.with_changes(params=[buffer.with_changes(comma=comma), first, *others])
    return rest.with_changes(params=insert_after(rest.params, index - 1, buffer))


def place_of_buffer(function: ast.FunctionDef, name: str) -> int:
    """The positional place that a buffer takes when it must be given.

    Where it stands, if nothing before it may be omitted; else behind the last parameter that
    must be given, because Python allows none without a default behind one with.
    """
    spec = function.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    first = len(positional) - len(spec.defaults)
    own = positional.index(name) if name in positional else len(positional)
    return min(first, own)


def _with_lines(comma: cst.Comma, lines: Sequence[cst.EmptyLine]) -> cst.Comma:
    space = comma.whitespace_after
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return comma
    return comma.with_changes(whitespace_after=space.with_changes(empty_lines=lines))


def _separator(parameters: cst.Parameters) -> cst.Comma:
    for param in parameters.params:
        comma = param.comma
        if isinstance(comma, cst.Comma) and param is not parameters.params[-1]:
            space = comma.whitespace_after
            if isinstance(space, cst.ParenthesizedWhitespace):
                line = space.first_line.with_changes(
                    comment=None, whitespace=cst.SimpleWhitespace("")
                )
                space = space.with_changes(first_line=line, empty_lines=())
            return cst.Comma(whitespace_after=space)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _index(params: Sequence[cst.Param], name: str) -> int | None:
    return next((i for i, p in enumerate(params) if p.name.value == name), None)


def _dropped(params: Sequence[cst.Param], name: str) -> list[cst.Param]:
    index = _index(params, name)
    return list(params) if index is None else remove_at(params, index)


def _plain_annotation(annotation: cst.Annotation | None) -> cst.Annotation | None:
    if annotation is None:
        return None
    inner = without_optional(annotation.annotation)
    return annotation.with_changes(annotation=inner)


def without_optional(annotation: cst.BaseExpression) -> cst.BaseExpression:
    """``T`` of ``Optional[T]``, ``T | None``, ``Union[T, None]``, also inside a string."""
    match annotation:
        case cst.SimpleString():
            inner = annotation.evaluated_value
            try:
                parsed = cst.parse_expression(inner if isinstance(inner, str) else "")
            except cst.ParserSyntaxError:
                return annotation
            plain = code_of(without_optional(parsed))
            quote = annotation.quote
            return annotation.with_changes(value=f"{annotation.prefix}{quote}{plain}{quote}")
        case cst.Subscript(slice=elements) if _name(annotation.value) in {"Optional", "Union"}:
            kept = [e.slice.value for e in elements if isinstance(e.slice, cst.Index)]
            kept = [e for e in kept if not _is_none(e)]
            return kept[0] if len(kept) == 1 else annotation
        case cst.BinaryOperation(operator=cst.BitOr(), left=left, right=right):
            if _is_none(right):
                return left
            if _is_none(left):
                return right
    return annotation


def _name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"

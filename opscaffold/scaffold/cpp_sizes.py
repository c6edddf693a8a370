"""Size expressions in C++: what the fake kernel says in Python, for the kernel."""

from __future__ import annotations

import ast

from opscaffold.scaffold.cpp_names import Identifiers

_INFIX: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_FUNCTIONS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "ops::floor_divide",
    ast.Mod: "ops::remainder",
}


def size_text(expression: str, names: Identifiers) -> str:
    """An expression of the language of ``shape_expr`` in its normal form, in C++."""
    return _text(ast.parse(expression, mode="eval").body, names)


def _text(node: ast.expr, names: Identifiers) -> str:
    match node:
        case ast.Constant(value=int(number)):
            # Small ints would multiply without the room of an int64_t.
            return f"int64_t{{{number}}}"
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=operator, right=right):
            one, other = _text(left, names), _text(right, names)
            if type(operator) in _INFIX:
                return f"({one} {_INFIX[type(operator)]} {other})"
            return f"{_FUNCTIONS[type(operator)]}({one}, {other})"
        case ast.UnaryOp(operand=operand):
            return f"(-{_text(operand, names)})"
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=index):
            return f"ops::size({names[name]}, {ast.unparse(index)})"
        case ast.Attribute(value=ast.Name(id=name)):
            return f"{names[name]}.dim()"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return f"{names[name]}.numel()"
        case _:
            raise AssertionError(f"{ast.unparse(node)} is no size")

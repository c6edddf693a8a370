"""Programs made from any other: its functions, registered as ops in one way or another.

What comes out is nonsense to run, and code to read all the same: bodies that nobody wrote for
this project, in front of everything that is looked for in an op.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

IMPORTS = "import torch\n"
FEW = 4  # ops a file: more of them take time and show nothing new


def with_schemas(text: str) -> str:
    """Decorate functions where they stand, with a schema beside them: the layout stays."""
    lines = text.split("\n")
    functions = _functions(text)
    for number, function in sorted(enumerate(functions), key=lambda pair: -pair[1].lineno):
        first = min(function.lineno, *(each.lineno for each in function.decorator_list), 10**9)
        before = lines[first - 1]
        indent = before[: len(before) - len(before.lstrip())]
        schema = _schema(function)
        lines.insert(
            first - 1,
            f'{indent}@torch.library.custom_op("planted::f{number}", mutates_args=(), '
            f'schema="{schema}")',
        )
    return "\n".join(lines) + "\n" + IMPORTS


def with_annotations(text: str) -> str:
    """Annotate every parameter as a tensor, and leave the schema to be inferred."""

    def change(function: ast.FunctionDef) -> None:
        spec = function.args
        spec.vararg = spec.kwarg = None
        for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            argument.annotation = _expression("torch.Tensor")
        optional = [*spec.posonlyargs, *spec.args][-len(spec.defaults) :] if spec.defaults else []
        for argument in optional:
            argument.annotation = _expression("torch.Tensor | None")
        spec.defaults = [ast.Constant(None) for _ in spec.defaults]
        function.returns = _expression("torch.Tensor")

    return _rewritten(text, change)


def with_maybe_out(text: str) -> str:
    """Give every function an optional ``out`` that it allocates and returns."""

    def change(function: ast.FunctionDef) -> None:
        spec = function.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        others = [f", {name}: int = 0" for name in names if name not in {"x", "out"}]
        head = ast.parse(
            f"def f(x: torch.Tensor, out: torch.Tensor | None = None{''.join(others)}):\n"
            "    if out is None:\n        out = torch.empty_like(x)\n"
        ).body[0]
        assert isinstance(head, ast.FunctionDef)
        function.args = head.args
        function.returns = _expression("torch.Tensor")
        body = [_ReturnsOut().visit(statement) for statement in function.body]
        write = ast.parse("torch.mul(x, 2, out=out)").body
        function.body = [*head.body, *write, *body, *ast.parse("return out", mode="exec").body]

    return _rewritten(text, change)


PLANTERS: dict[str, Callable[[str], str]] = {
    "schemas": with_schemas,
    "annotations": with_annotations,
    "maybe-out": with_maybe_out,
}


def _functions(text: str) -> list[ast.FunctionDef]:
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return found[:FEW]


def _schema(function: ast.FunctionDef) -> str:
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    required = len(plain) - len(spec.defaults)
    parts = [
        f"Tensor {argument.arg}" if at < required else f"Tensor? {argument.arg}=None"
        for at, argument in enumerate(plain)
    ]
    return f"({', '.join(parts)}) -> Tensor"


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _ReturnsOut(ast.NodeTransformer):
    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.copy_location(ast.Return(ast.Name("out", ast.Load())), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def _rewritten(text: str, change: Callable[[ast.FunctionDef], None]) -> str:
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in list(tree.body):
        if isinstance(node, ast.ClassDef):
            # A method is lifted out, so that its body is a kernel's.
            lifted = [copy.deepcopy(n) for n in node.body if isinstance(n, ast.FunctionDef)]
            functions += lifted
            tree.body += lifted
    for number, function in enumerate(functions[:FEW]):
        function.name = f"planted_{number}"
        change(function)
        op = f'torch.library.custom_op("planted::f{number}", mutates_args=())'
        function.decorator_list = [_expression(op)]
    return IMPORTS + ast.unparse(ast.fix_missing_locations(tree)) + "\n"

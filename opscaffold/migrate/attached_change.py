"""Changes inside one function that is attached to an op, made together with its call sites."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.rewrite import Rewriter
from opscaffold.migrate.sequences import remove_at
from opscaffold.migrate.signature import without_parameter
from opscaffold.migrate.specialise import Specialiser
from opscaffold.migrate.syntax import Key, Syntax, code_of
from opscaffold.source.model import FunctionNode

AnyFunction = FunctionNode | ast.Lambda
_Edit = Callable[[Any], Any]


class FunctionChange:
    """Collects what changes in one function, and builds the function that takes its place."""

    def __init__(self, syntax: Syntax, function: AnyFunction) -> None:
        self.syntax = syntax
        self.function = function
        self.node: cst.FunctionDef | cst.Lambda
        if isinstance(function, ast.Lambda):
            self.node = syntax.find(function, cst.Lambda)
        else:
            self.node = syntax.find(function, cst.FunctionDef)
        self.specialiser: Specialiser | None = None
        self._dropped: dict[cst.CSTNode, set[int]] = {}
        self._unwrapped: set[cst.CSTNode] = set()
        self._edits: dict[cst.CSTNode, _Edit] = {}
        self._parameters: list[str] = []

    def drop_element(
        self, owner: ast.Tuple | ast.List, index: int, *, unwrap: bool = False
    ) -> None:
        """Drop an element of a display; ``unwrap`` lets a single one that is left stand alone."""
        node = self._display(owner)
        self._dropped.setdefault(node, set()).add(index)
        if unwrap:
            self._unwrapped.add(node)

    def set_text(self, expr: ast.expr, text: str) -> None:
        """Put another expression in the place of one."""
        node = self.syntax.find(expr, cst.BaseExpression)  # type: ignore[type-abstract]
        self._edits[node] = lambda _: cst.parse_expression(text)

    def remove(self, statement: ast.stmt) -> None:
        """Remove a statement that stands on lines of its own or between semicolons."""
        node = self.syntax.find(statement, cst.BaseSmallStatement)  # type: ignore[type-abstract]
        self._edits[node] = lambda _: cst.RemoveFromParent()

    def drop_parameter(self, name: str) -> None:
        """Drop a parameter of the function."""
        self._parameters.append(name)

    def drop_annotation_slot(self, name: str, count: int, slot: int) -> None:
        """Take one entry out of a parameter's ``tuple[...]`` annotation, if it counts them."""
        params = self.node.params.params
        param = next((p for p in params if p.name.value == name and p.annotation), None)
        annotation = None if param is None or param.annotation is None else param.annotation
        inner = None if annotation is None else annotation.annotation
        if not isinstance(inner, cst.Subscript) or len(inner.slice) != count or count < 2:
            return
        entries = [e.slice.value for e in inner.slice if isinstance(e.slice, cst.Index)]
        if code_of(inner.value).rpartition(".")[2] in {"tuple", "Tuple"} and not any(
            isinstance(e, cst.Ellipsis) for e in entries
        ):
            self._edits[inner] = lambda new: new.with_changes(slice=remove_at(new.slice, slot))

    @property
    def idle(self) -> bool:
        """Whether nothing changes."""
        return not (self._dropped or self._edits or self._parameters or self.specialiser)

    def build(self, edits: FileEdits) -> cst.FunctionDef | cst.Lambda:
        """The function with its changes, and with what ``edits`` change inside it."""
        changer: cst.CSTTransformer = _Changer(self.syntax, edits, self._apply)
        if self.specialiser is not None:
            changer = _Chain(changer, self.specialiser)
        result = self.node.visit(changer)
        if not isinstance(result, cst.FunctionDef | cst.Lambda):
            raise TypeError("changing a function removed it")
        for name in self._parameters:
            result = result.with_changes(params=without_parameter(result.params, name))
        return result

    def _display(self, owner: ast.Tuple | ast.List) -> cst.Tuple | cst.List:
        if isinstance(owner, ast.List):
            return self.syntax.find(owner, cst.List)
        # The parentheses count to a tuple for ast, and not for libcst.
        wanted = [self._key(e) for e in owner.elts]
        for _, node in self.syntax.inside(self.syntax.key(owner), cst.Tuple):
            if len(node.elements) == len(wanted):
                found = [self.syntax.spans[e.value] for e in node.elements]
                pairs = [p for p in zip(wanted, found, strict=True) if p[0] is not None]
                if pairs and all(mine == its for mine, its in pairs):
                    return node
        return self.syntax.find(owner, cst.Tuple)

    def _key(self, element: ast.expr) -> Key | None:
        inner = element.value if isinstance(element, ast.Starred) else element
        return None if isinstance(inner, ast.Tuple) else self.syntax.key(inner)

    def _apply(self, original: cst.CSTNode, updated: Any) -> Any:
        edit = self._edits.get(original)
        if edit is not None:
            return edit(updated)
        indices = self._dropped.get(original)
        if indices is None:
            return updated
        return _shortened(updated, indices, unwrap=original in self._unwrapped)


def _shortened(
    display: cst.Tuple | cst.List, indices: set[int], *, unwrap: bool
) -> cst.BaseExpression:
    elements: list[Any] = list(display.elements)
    one_line = "\n" not in code_of(display)
    if len(display.elements) - 1 in indices and isinstance(display, cst.Tuple):
        display = _without_last_comment(display)
    for index in sorted(indices, reverse=True):
        elements = remove_at(elements, index)
    if elements and isinstance(display, cst.Tuple):
        display, elements[-1] = _closed(display, elements[-1])
    if isinstance(display, cst.List) or len(elements) > 1:
        return display.with_changes(elements=elements)
    if not elements:
        return cst.Tuple([])
    if unwrap and one_line and isinstance(elements[0], cst.Element):
        value: cst.BaseExpression = elements[0].value
        return value
    comma = cst.Comma() if one_line else elements[0].comma
    if not isinstance(comma, cst.Comma):
        comma = cst.Comma()
    elements = [elements[0].with_changes(comma=comma)]
    lpar = display.lpar or [cst.LeftParen()]
    rpar = display.rpar or [cst.RightParen()]
    return display.with_changes(elements=elements, lpar=lpar, rpar=rpar)


def _without_last_comment(display: cst.Tuple) -> cst.Tuple:
    """Drop the comment behind the last element, which is read as one of the parenthesis."""
    space = display.rpar[0].whitespace_before if display.rpar else None
    if not isinstance(space, cst.ParenthesizedWhitespace) or space.first_line.comment is None:
        return display
    first = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    closing = display.rpar[0].with_changes(whitespace_before=space.with_changes(first_line=first))
    return display.with_changes(rpar=[closing, *display.rpar[1:]])


def _closed(display: cst.Tuple, last: Any) -> tuple[cst.Tuple, Any]:
    """Let the line end once where both the last comma and the parenthesis bring an end."""
    after = getattr(last.comma, "whitespace_after", None)
    before = display.rpar[0].whitespace_before if display.rpar else None
    lines = cst.ParenthesizedWhitespace
    if not isinstance(after, lines) or not isinstance(before, lines):
        return display, last
    after = after.with_changes(
        empty_lines=before.empty_lines, indent=before.indent, last_line=before.last_line
    )
    closing = display.rpar[0].with_changes(whitespace_before=cst.SimpleWhitespace(""))
    last = last.with_changes(comma=last.comma.with_changes(whitespace_after=after))
    return display.with_changes(rpar=[closing, *display.rpar[1:]]), last


class _Changer(Rewriter):
    """Applies the changes of one function, and those of its file inside it."""

    def __init__(self, syntax: Syntax, edits: FileEdits, apply: Callable[[Any, Any], Any]) -> None:
        super().__init__(syntax, edits)
        self._apply = apply

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Apply the file's change of a node, then that of the function."""
        result = super().on_leave(original_node, updated_node)
        return self._apply(original_node, result) if isinstance(result, cst.CSTNode) else result

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """A block that lost its last statement passes."""
        del original_node
        if updated_node.body:
            return updated_node
        return updated_node.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        """A suite that lost its last statement passes."""
        del original_node
        return updated_node if updated_node.body else updated_node.with_changes(body=[cst.Pass()])


class _Chain(cst.CSTTransformer):
    """Two transformers as one: what the first leaves of a node goes to the second."""

    def __init__(self, first: cst.CSTTransformer, second: cst.CSTTransformer) -> None:
        super().__init__()
        self._parts = (first, second)

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Go into a node where both do."""
        first, second = (part.on_visit(node) for part in self._parts)
        return first and second

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Let both change a node."""
        for part in self._parts:
            if not isinstance(updated_node, cst.CSTNode):
                break
            updated_node = part.on_leave(original_node, updated_node)
        return updated_node


def edits_inside(edits: FileEdits, key: Key) -> bool:
    """Whether a file's changes rewrite a call inside a span."""
    return any(key[0] <= start and end <= key[1] for start, end in edits.calls)

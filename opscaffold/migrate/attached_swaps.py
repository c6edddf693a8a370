"""Small changes of syntax trees: other nodes in the place of some, other names for one."""

from __future__ import annotations

from typing import Any

import libcst as cst

from opscaffold.migrate.syntax import Syntax


class Swaps(cst.CSTTransformer):
    """Replaces nodes of one file by others."""

    def __init__(self, syntax: Syntax) -> None:
        super().__init__()
        self.syntax = syntax
        self.nodes: dict[cst.CSTNode, cst.BaseExpression] = {}

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Put another node in the place of one."""
        left = super().on_leave(original_node, updated_node)
        return self.nodes.get(original_node, left)


class Renamer(cst.CSTTransformer):
    """Gives one name of a function another."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old, self.new = old, new

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        """Rename a name."""
        del original_node
        renaming = updated_node.value == self.old
        return updated_node.with_changes(value=self.new) if renaming else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        """The keyword of an argument is a name of the function that is called."""
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        """The name of an attribute is its object's."""
        return updated_node.with_changes(attr=original_node.attr)


def words_of(node: cst.BaseExpression) -> set[str]:
    """Every name in an expression, attributes included."""
    found: set[str] = set()

    class _Names(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:
            found.add(node.value)

    node.visit(_Names())
    return found

"""Why an op is left as it is."""

from __future__ import annotations

import ast


class RefusalError(Exception):
    """An op cannot be migrated by rule.

    ``node`` is where the reason stands (None: at the op's definition), in the module ``where``
    (None: that of the definition). ``where`` is a Position for a file that cannot be read.
    """

    def __init__(
        self, node: ast.AST | None, reason: str, remedy: str, where: object | None = None
    ) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason
        self.remedy = remedy
        self.where = where

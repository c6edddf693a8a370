"""The error of a signature that gives no contract."""

from __future__ import annotations

import ast
import enum


class Stage(enum.Enum):
    """Who refuses a signature. UNKNOWN: nobody may, but it cannot be read without running it."""

    INFER = "infer_schema"
    REGISTRATION = "registration"
    UNKNOWN = "unknown"


class SignatureError(ValueError):
    """A signature gives no contract.

    ``line`` and ``column`` say where in the source, from 1; ``column`` counts UTF-8 bytes, as
    ast does. ``parameter`` is empty where no single one is at fault.
    """

    def __init__(
        self,
        reason: str,
        remedy: str,
        node: ast.AST | None,
        *,
        stage: Stage = Stage.INFER,
        parameter: str = "",
    ) -> None:
        """Take the position from ``node``; the message is the reason and the remedy."""
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.stage = stage
        self.parameter = parameter
        self.line: int = getattr(node, "lineno", 1)
        self.column: int = getattr(node, "col_offset", 0) + 1

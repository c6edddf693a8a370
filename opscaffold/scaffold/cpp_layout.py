"""C++ laid out on lines of one length."""

from __future__ import annotations

from collections.abc import Sequence

Lines = list[str]
WIDTH = 100


def listed(before: str, items: Sequence[str], after: str, depth: int = 0) -> Lines:
    """``before``, the items with commas between, ``after``: on one line, or one item a line."""
    indent = "  " * depth
    flat = f"{indent}{before}{', '.join(items)}{after}"
    if len(flat) <= WIDTH or not items:
        return [flat]
    lines = [f"{indent}    {item}," for item in items]
    return [f"{indent}{before}", *lines[:-1], f"{lines[-1].removesuffix(',')}{after}"]


def summed(before: str, terms: Sequence[str], depth: int = 1) -> Lines:
    """``before`` and the sum of the terms, as a statement."""
    indent = "  " * depth
    flat = f"{indent}{before}{' + '.join(terms)};"
    if len(flat) <= WIDTH:
        return [flat]
    head, *rest = terms
    return [f"{indent}{before}{head}", *(f"{indent}    + {t}" for t in rest[:-1])] + (
        [f"{indent}    + {rest[-1]};"] if rest else []
    )


def each(head: str, statement: str, depth: int = 1) -> Lines:
    """A loop or a condition over one statement."""
    indent = "  " * depth
    return [f"{indent}{head} {{", f"{indent}  {statement}", f"{indent}}}"]

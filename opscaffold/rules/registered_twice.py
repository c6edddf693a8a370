"""Two definitions of one op that both run.

Source: FACTS sections 2 (S13) and 5: custom_op replaces the first in silence, a Library raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import Rule, position
from opscaffold.source.model import Form, Module, Op, Registration, Role
from opscaffold.source.project import Project

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.If, ast.For),
    *(ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.With, ast.AsyncWith, ast.IfExp),
)


def check(project: Project) -> Iterator[Finding]:
    """Report each definition that stands beside an earlier one of the same name."""
    by_name: dict[str, list[Op]] = {}
    for op in project.all_ops:
        if op.definition.qualname is not None:
            by_name.setdefault(op.definition.qualname, []).append(op)
    for qualname, ops in by_name.items():
        for index, op in enumerate(ops):
            if op.definition.module.path not in project.selected:
                continue
            first = next((o for o in ops[:index] if _both_run(o.definition, op.definition)), None)
            if first is None:
                continue
            silent = {Role.CUSTOM_OP, Role.TRITON_OP} >= {
                first.definition.role,
                op.definition.role,
            }
            effect = (
                "whichever is imported last replaces the other in silence, for every caller"
                if silent
                else "the second one to run raises RuntimeError"
            )
            where = position(first.definition.module, first.definition.statement)
            yield RULE.finding(
                op.definition.module,
                op.definition.statement,
                f"`{qualname}` is also defined in {where.path.name}, line {where.line}: {effect}",
                op=qualname,
                evidence=[where],
            )


def _both_run(one: Registration, other: Registration) -> bool:
    if one.statement is other.statement and one.call is other.call:
        return False
    if one.module is other.module:
        return _place(one) == _place(other)
    if one.conditional or other.conditional or _place(one) or _place(other):
        return False
    if Form.HELPER in {one.form, other.form}:
        return False
    return _loaded_together(one.module, other.module)


def _place(registration: Registration) -> list[tuple[ast.AST, str]]:
    """What a statement stands under, with the branch it is in: equal ones run together."""
    found: list[tuple[ast.AST, str]] = []
    parents = registration.module.parents
    node: ast.AST = registration.statement
    if registration.call is not None and not isinstance(node, ast.FunctionDef | ast.ClassDef):
        node = registration.call
    parent = parents.get(node)
    while parent is not None:
        if isinstance(parent, _SCOPES):
            found.append((parent, _branch(parent, node)))
        node, parent = parent, parents.get(parent)
    return found


def _branch(parent: ast.AST, node: ast.AST) -> str:
    for name, value in ast.iter_fields(parent):
        if value is node or (isinstance(value, list) and node in value):
            return name
    return ""


def _loaded_together(one: Module, other: Module) -> bool:
    """Whether two files are modules of one package, or of one directory and no scripts."""
    if one.path.parent == other.path.parent:
        return not (_is_script(one) and _is_script(other))
    root, _, rest = one.name.partition(".")
    other_root, _, other_rest = other.name.partition(".")
    return bool(rest and other_rest) and root == other_root


def _is_script(module: Module) -> bool:
    """Whether a file is meant to be run by itself."""
    return any(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        for node in module.tree.body
    )


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::blend", mutates_args=())
def blend(x: Tensor) -> Tensor:
    return x + 1

"""

RULE = Rule(
    code="OPS601",
    name="registered-twice",
    severity=Severity.ERROR,
    summary="The same op is defined in two places that both run.",
    why="An op has one definition in a process. custom_op lets the last one win without a word, "
    "and the first handle then runs the other's kernel; a Library raises when it is imported.",
    remedy="give one of them another name",
    of_project=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::blend", mutates_args=())
def blend_fast(x: Tensor) -> Tensor:
    return x + 1.0
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
more = torch.library.Library("demo", "FRAGMENT")
lib.define("go(Tensor t) -> Tensor")
more.define("go(Tensor t, int n) -> Tensor")
""",
        _OP
        + """
torch.library.define("demo::blend", "(Tensor x) -> Tensor")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::blend.scaled", mutates_args=())
def blend_scaled(x: Tensor, k: float) -> Tensor:
    return x + k
""",
        """\
import torch
from torch import Tensor

if torch.cuda.is_available():

    @torch.library.custom_op("demo::blend", mutates_args=())
    def blend(x: Tensor) -> Tensor:
        return x + 1

else:

    @torch.library.custom_op("demo::blend", mutates_args=())
    def blend(x: Tensor) -> Tensor:
        return x + 2
""",
        _OP
        + """
def test_again():
    @torch.library.custom_op("demo::blend", mutates_args=())
    def other(x: Tensor) -> Tensor:
        return x + 2
""",
        """\
import torch
from torch import Tensor

try:
    from fast import blend
except ImportError:

    @torch.library.custom_op("demo::blend", mutates_args=())
    def blend(x: Tensor) -> Tensor:
        return x + 1


@torch.library.custom_op("other::blend", mutates_args=())
def blend_other(x: Tensor) -> Tensor:
    return x + 2
""",
    ),
)

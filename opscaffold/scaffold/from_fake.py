"""The fake kernel of a wrapped function, derived from its allocations where that can be done."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from opscaffold.contract.model import base_name
from opscaffold.effects.derive_fake import UnderivableError, derive_fake
from opscaffold.effects.fake_kinds import FakeKinds, constants_of
from opscaffold.effects.trace import FunctionNode, Names
from opscaffold.scaffold.from_fold import folded
from opscaffold.scaffold.from_origin import Origin
from opscaffold.scaffold.from_spec import CLONE, DROP
from opscaffold.scaffold.from_ways import Way


def fake_text(
    origin: Origin, way: Way, results: Sequence[str], name: str, constants: Collection[str] = ()
) -> str:
    """The text of a fake kernel called ``name``. Raises UnderivableError where none follows.

    ``constants`` are names of the module that stand for the same at each call, and for no Tensor.
    """
    kept = [r for r, action in zip(way.signature.returns, results, strict=True) if action != DROP]
    if all(base_name(r.type) != "Tensor" for r in kept):
        raise UnderivableError("it returns a number, which no metadata tells")
    if CLONE in results and any(r.type.alias is not None for r in kept):
        raise UnderivableError("what it returns is cloned")
    if DROP in results or (CLONE in results and len(results) > 1):
        for node in ast.walk(way.function):
            if isinstance(node, ast.Return) and not isinstance(node.value, ast.Tuple):
                raise UnderivableError("its results are not written out where it returns them")
    spec = way.function.args
    tensors = [
        p.name for p in way.signature.parameters if p.is_tensor_like and p.name not in way.absent
    ]
    code = folded(way.function, way.effects.trace, way.absent, results)
    body = derive_fake(code, tensors, _kinds(origin, way.function, constants))
    names = [a.arg for a in spec.args if a.arg not in way.absent]
    keywords = [a.arg for a in spec.kwonlyargs if a.arg not in way.absent]
    words = [*names, *(["*", *keywords] if keywords else [])]
    lines = [f"def {name}({', '.join(words)}):", *(f"    {line}" for line in body)]
    return "\n".join(lines) + "\n"


def _kinds(origin: Origin, function: ast.FunctionDef, settled: Collection[str]) -> FakeKinds:
    """The classifier of expressions, by the names that the function sees.

    Folding leaves the names of a function as they were, and not the nodes.
    """
    origins: dict[str, str | None] = {}
    functions: dict[str, tuple[FunctionNode, FakeKinds]] = {}
    constants = constants_of(origin.module.tree) | set(settled)
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        origins.setdefault(node.id, origin.names.dotted(node))
        called = origin.names.function(node)
        if called is not None:
            functions.setdefault(node.id, (called[0], _of_module(called[1], constants)))

    def dotted(expr: ast.expr) -> str | None:
        if isinstance(expr, ast.Attribute):
            owner = dotted(expr.value)
            return None if owner is None else f"{owner}.{expr.attr}"
        found = origins.get(expr.id) if isinstance(expr, ast.Name) else None
        return None if found is None or found.startswith("builtins.") else found

    def function_of(expr: ast.expr) -> tuple[FunctionNode, FakeKinds] | None:
        return functions.get(expr.id) if isinstance(expr, ast.Name) else None

    return FakeKinds(dotted, constants.__contains__, function_of)


def _of_module(names: Names, constants: set[str]) -> FakeKinds:
    def dotted(expr: ast.expr) -> str | None:
        found = names.dotted(expr)
        return None if found is None or found.startswith("builtins.") else found

    return FakeKinds(dotted, constants.__contains__)

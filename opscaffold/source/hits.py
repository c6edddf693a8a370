"""Which op a resolved expression stands for, and whether that is sure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.records import dataclass, replace
from opscaffold.source.holes import known_parts, may_be
from opscaffold.source.model import Form, Op
from opscaffold.source.registering import qualname_of
from opscaffold.source.resolve import Resolution, Target

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMESPACE = "torch.ops."


@dataclass(frozen=True, slots=True)
class Hit:
    """One op an expression may stand for, how it got there, and why that is not sure."""

    op: Op
    target: Target
    reason: str = ""


class OpIndex:
    """Ops by object, by name, by overload packet and by namespace."""

    def __init__(self, ops: list[Op], by_object: dict[ast.AST, Op]) -> None:
        self.by_object = by_object
        self.spaces: dict[str, list[Op]] = {}
        self._by_name: dict[str, list[Op]] = {}
        self._packets: dict[str, list[Op]] = {}
        self._computed: list[tuple[Op, list[str]]] = []
        for op in ops:
            self._by_name.setdefault(op.qualname, []).append(op)
            computed = op.definition.qualname is None and len(known_parts(op.name)) > 1
            if computed and op.namespace:
                self._computed.append((op, known_parts(op.qualname)))
            packet = f"{op.namespace}::{op.name.partition('.')[0]}"
            self._packets.setdefault(packet, []).append(op)
            self.spaces.setdefault(op.namespace, []).append(op)

    def hits(self, found: Resolution) -> list[Hit]:
        """Return the ops that what an expression resolves to may be."""
        called = found.without_none()
        hits: dict[Op, Hit] = {}
        others = False
        for target in called.targets:
            here = list(self._hits_of(target))
            others = others or not here
            for hit in here:
                hits.setdefault(hit.op, hit)
        # Two ways to one op, such as its object and `torch.ops.ns.op`, are as good as one.
        if others or not called.complete or len(hits) > 1:
            why = (
                "the name is bound in several places"
                if called.complete or len(called.targets) > 1
                else "what it stands for depends on code that cannot be followed"
            )
            return [replace(hit, reason=hit.reason or why) for hit in hits.values()]
        return list(hits.values())

    def _hits_of(self, target: Target) -> Iterator[Hit]:
        if target.node is not None and target.node in self.by_object:
            op = self.by_object[target.node]
            yield Hit(op, target, self._wrapped(op))
            return
        qualname = qualname_of(target.dotted) if target.dotted else None
        if qualname is None or target.dotted is None:
            return
        exact = self._by_name.get(qualname, [])
        packet = self._packets.get(qualname, [])
        if target.dotted.count(".") == 4 or len(packet) == 1:
            several = "several registrations have this name" if len(exact) > 1 else ""
            for op in exact:
                yield Hit(op, target, several)
            if exact:
                return
        for op in packet:
            yield Hit(op, target, "the arguments decide which overload is meant")
        if packet:
            return
        for op, parts in self._computed:
            if may_be(parts, qualname, word=True):
                yield Hit(op, target, "the op's name is computed, and may be this one")

    def _wrapped(self, op: Op) -> str:
        definition = op.definition
        if definition.form is Form.HELPER:
            return "it is registered through a project helper, which decides what the name is"
        node = definition.result
        if isinstance(node, _DEFINITIONS) and definition.call is not None:
            outer = node.decorator_list
            if definition.call in outer:
                outer = outer[: outer.index(definition.call)]
            else:
                outer = []
            for decorator in outer:
                if not (isinstance(decorator, ast.Name) and decorator.id == "staticmethod"):
                    return "another decorator stands around the op"
        return ""

    def in_namespace(self, target: Target) -> list[Op]:
        """Return the ops of ``torch.ops.ns``, where the target is that."""
        dotted = target.dotted or ""
        if not dotted.startswith(_NAMESPACE) or dotted.count(".") != 2:
            return []
        return self.spaces.get(dotted.removeprefix(_NAMESPACE), [])

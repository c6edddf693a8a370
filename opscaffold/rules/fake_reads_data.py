"""Fake kernels that ask for the values of a tensor, which has none while a program is traced.

Source: torch.library reference, register_fake and get_ctx().new_dynamic_size().
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.effects.buffers import Argument
from opscaffold.effects.fake_kinds import FakeKinds, KindOf
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import tags_of
from opscaffold.rules.fakes import Fake, fake_arguments, fakes_of
from opscaffold.rules.functions import own_nodes
from opscaffold.rules.names import ProjectNames

_READING_METHODS = frozenset(
    {"item", "tolist", "numpy", "data_ptr", "is_nonzero", "__bool__", "__int__", "__float__"}
)
_READING_BUILTINS = frozenset({"float", "int", "bool", "complex"})
_READING_FUNCTIONS = frozenset(
    {"torch.equal", "torch.allclose", "torch.is_nonzero", "numpy.asarray", "numpy.array"}
)
# Known to ATen, but about metadata only.
_ABOUT_METADATA = frozenset({"sparse_dim", "dense_dim", "qscheme", "q_scale", "q_zero_point"})


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report every place where a fake reads the values of a tensor."""
    if tags_of(facts.project, facts.op.definition):
        return
    for fake in fakes_of(facts.op):
        arguments = fake_arguments(facts.project, facts.op, fake.function)
        for node, what in _Reads(facts, fake, arguments).found():
            yield RULE.finding(
                fake.module,
                node,
                f"the fake kernel reads values ({what}), and has none while it is traced: "
                "torch.compile and torch.export raise",
                op=facts.op.qualname,
            )


class _Reads:
    def __init__(self, facts: OpFacts, fake: Fake, arguments: list[Argument]) -> None:
        self.function = fake.function
        self.names = ProjectNames(facts.project, fake.module)
        self.kinds = FakeKinds(self._dotted, lambda _: False)
        self.env: dict[str, KindOf] = {}
        for argument in arguments:
            if not argument.tensor:
                self.env[argument.name] = KindOf.METADATA
            elif not argument.is_list:
                self.env[argument.name] = KindOf.TENSOR
        self._settle_locals()

    def found(self) -> Iterator[tuple[ast.AST, str]]:
        for node in own_nodes(self.function):
            match node:
                case ast.Call() if self._reads(node):
                    yield node, f"`{ast.unparse(node)}`"
                case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                    yield from self._test(test)
                case ast.Assert(test=test):
                    yield from self._test(test)

    def _test(self, test: ast.expr) -> Iterator[tuple[ast.AST, str]]:
        parts = [test]
        while parts:
            part = parts.pop()
            if isinstance(part, ast.BoolOp):
                parts += reversed(part.values)
            elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
                parts.append(part.operand)
            elif self._is_tensor(part):
                yield part, f"a branch on `{ast.unparse(part)}`"

    def _reads(self, node: ast.Call) -> bool:
        dotted = self.names.dotted(node.func)
        if dotted in _READING_FUNCTIONS:
            return bool(node.args) and self._is_tensor(node.args[0])
        match node.func:
            case ast.Name(id=name) if dotted == f"builtins.{name}" or dotted is None:
                shadowed = name in self.env
                reading = name in _READING_BUILTINS and len(node.args) == 1 and not shadowed
                return reading and self._is_tensor(node.args[0])
            case ast.Attribute(value=owner, attr=name) if name in _READING_METHODS:
                return self._is_tensor(owner)
        return False

    def _is_tensor(self, expr: ast.expr) -> bool:
        match expr:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
                if name.startswith("is_") or name in _ABOUT_METADATA:
                    return False
        return self.kinds.kind(expr, self.env) is KindOf.TENSOR

    def _dotted(self, expr: ast.expr) -> str | None:
        dotted = self.names.dotted(expr)
        return None if dotted is None or dotted.startswith("builtins.") else dotted

    def _settle_locals(self) -> None:
        """Local names are tensors where everything they are bound to is one."""
        values: dict[str, list[ast.expr | None]] = {}
        for node in own_nodes(self.function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    values.setdefault(name, []).append(value)
                case ast.Name(id=name, ctx=ast.Store()):
                    values.setdefault(name, []).append(None)
        own = dict(self.env)
        for name in values:
            self.env.pop(name, None)
        for name, bound in values.items():
            plain = [v for v in bound if v is not None]
            # Each plain assignment stores the name once; any other binding is not understood.
            if len(bound) != 2 * len(plain):
                continue
            scope = {**self.env, **({name: own[name]} if name in own else {})}
            kinds = {self.kinds.kind(v, scope) for v in plain}
            kinds |= {own[name]} if name in own else set()
            if len(kinds) == 1:
                self.env[name] = kinds.pop()


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::pick", mutates_args=())
def pick(x: Tensor, mask: Tensor, sizes: list[int], limit: Tensor | None = None) -> Tensor:
    return x[mask].clone()

"""

RULE = Rule(
    code="OPS113",
    name="fake-reads-data",
    severity=Severity.ERROR,
    summary="The fake kernel reads the values of a tensor.",
    why="While a program is traced, its tensors have a shape and a dtype but no values. A fake "
    "kernel that asks for them raises, so no program that calls the op can be compiled.",
    remedy="compute sizes from shapes; for a size that depends on values, use "
    "torch.library.get_ctx().new_dynamic_size()",
    of_op=check,
    hits=(
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    return x.new_empty(int(mask.sum()))
""",
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    count = mask.sum()
    return x.new_empty(count.item())
""",
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    if mask.any():
        return torch.empty_like(x)
    return x.new_empty(0)
""",
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    assert x.data_ptr() % 16 == 0
    return torch.empty_like(x)
""",
    ),
    misses=(
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(count)
""",
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    assert x.is_contiguous() and x.shape[0] == mask.shape[0] and x.dim() > 0
    rows = int(x.shape[0]) if sizes[0] > 1 and limit is not None else len(sizes)
    return x.new_empty(rows)
""",
        _OP
        + """
@pick.register_fake
def _(x, mask, sizes, limit=None):
    dtype = x.dtype
    if dtype == torch.float16 or x.device.type == "cuda" or not sizes:
        dtype = torch.float32
    return torch.empty_like(x, dtype=dtype)
""",
    ),
)

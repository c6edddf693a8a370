"""Ops that cannot be compiled: they return tensors, and nothing says of which shape and dtype.

Only reported where someone means to compile: code that nobody traces needs no fake kernel.
Source: FACTS section 1; torch.library reference, register_fake.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import Kind, OpContract, base_name
from opscaffold.effects.summary import Answer
from opscaffold.findings.intents import WriteFake
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.patterns import pattern
from opscaffold.rules.base import OpFacts, Rule, position
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.fakes import dispatch_key, has_fake, is_fake
from opscaffold.rules.flags import flagged
from opscaffold.rules.outputs import outputs_of
from opscaffold.rules.uses import uses_of
from opscaffold.source.holes import known_parts, may_be
from opscaffold.source.model import Form, Module, Op, Registration, Role
from opscaffold.source.project import Project
from opscaffold.source.questions import Topic

# Kernels under these keys are made of torch ops, which have fakes of their own.
_COMPOSITE = pattern(r"Composite|Meta|default")
_TRACING = frozenset(
    {"torch.compile", "torch.export.export", "torch.library.opcheck", "torch.jit.trace"}
    | {"torch.export.export_for_training", "torch.fx.experimental.proxy_tensor.make_fx"}
    | {"torch._dynamo.optimize", "torch._dynamo.export", "torch._inductor.aoti_compile_and_package"}
    | {"torch.testing.make_tensor_fake", "torch._subclasses.fake_tensor.FakeTensorMode"}
    | {"torch._subclasses.FakeTensorMode", "torch.onnx.export"}
)
_TRACING_WORDS = frozenset(name.rpartition(".")[2] for name in _TRACING)
_ABOUT_TRACING = Topic(
    tuple(
        sorted(
            word.encode()
            for word in _TRACING_WORDS
            if not any(other in word for other in _TRACING_WORDS - {word})
        )
    )
)
_FAKE_LIKE = ("meta", "fake", "abstract", "decomp", "lowering")
_ABOUT_FAKES = Topic(tuple(word.encode() for word in _FAKE_LIKE), any_case=True)
_FAKE_CALL = pattern(r"register_fake|impl_abstract")


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report an op without a fake kernel, where something is compiled or exported."""
    project, op = facts.project, facts.op
    if not lacks_fake(facts) or _will_change(facts):
        return
    evidence = _tracing(project, op)
    if evidence is None:
        return
    node = op.definition.function or op.definition.statement
    yield RULE.finding(
        facts.module if op.definition.function is not None else op.definition.module,
        node,
        f"the op returns {_returned(facts)} and has no fake kernel: torch.compile and torch.export "
        "raise where they meet it",
        op=op.qualname,
        evidence=[evidence],
        intent=WriteFake(op.qualname),
    )


def _returned(facts: OpFacts) -> str:
    contract = contract_of(facts.project, facts.op)
    returns = () if contract is None else contract.returns
    if any(base_name(value.type) == "Tensor" for value in returns):
        return "a tensor"
    return "a value" if len(returns) == 1 else "values"


def lacks_fake(facts: OpFacts) -> bool:
    """Whether an op needs a fake kernel to be traced, and surely has none."""
    project, op = facts.project, facts.op
    contract = contract_of(project, op)
    if contract is None or not _needs_fake(op, contract) or has_fake(project, op):
        return False
    return not _may_be_elsewhere(project, op)


def _needs_fake(op: Op, contract: OpContract) -> bool:
    if contract.kind not in {Kind.FUNCTIONAL, Kind.MUTABLE} or not contract.returns:
        return False
    if op.definition.role is Role.CUSTOM_OP:
        return True
    if op.definition.role is Role.TRITON_OP:
        # Its kernel is traced through, down to the Triton launch.
        return False
    kernels = [r for r in op.attached if r.role is Role.IMPL]
    keys = [dispatch_key(r) for r in kernels if r.form is not Form.HELPER]
    helped = len(keys) < len(kernels)
    known = all(key is not None and not _COMPOSITE.search(key) for key in keys)
    return bool(kernels) and known and not (helped and _helper_key(op))


def _helper_key(op: Op) -> bool:
    """Whether a helper may have chosen a key under which no fake is needed."""
    for registration in op.attached:
        parts = [*registration.keywords.values(), *registration.arguments.values()]
        words = [p.value for p in parts if isinstance(p, ast.Constant)]
        if any(isinstance(word, str) and _COMPOSITE.search(word) for word in words):
            return True
    return False


def _may_be_elsewhere(project: Project, op: Op) -> bool:
    """Whether some registration that cannot be read may be this op's fake."""
    for stray in project.stray:
        if stray.role not in {Role.FAKE, Role.IMPL} or stray.qualname is not None:
            continue
        known = known_parts(stray.name_hint)
        if op.definition.qualname is None or may_be(known, op.qualname, word=False):
            return True
    helper = op.definition.helper if Role.FAKE not in op.definition.declined else None
    unfollowed = helper is not None and not any(is_fake(r) for r in op.attached)
    if unfollowed and helper is not None and _FAKE_CALL.search(ast.unparse(helper)):
        return True
    uses = uses_of(project)
    return any(
        _hands_on(module, node)
        for module in uses.modules(project, op, _ABOUT_FAKES)
        for node in uses.nodes(project, op, module)
    )


def _will_change(facts: OpFacts) -> bool:
    """Whether the op hands an argument back: first its contract changes, then it needs a fake."""
    if facts.kernel is None:
        return False
    effects = facts.effects
    back = effects is not None and any(
        a.exact and a.answer is Answer.ALWAYS and a.root.startswith("param:")
        for a in effects.aliases
    )
    return back or bool(outputs_of(facts)) or bool(flagged(facts))


def _hands_on(module: Module, node: ast.expr) -> bool:
    """Whether the op is given to something that sounds like a registration of a fake."""
    parent = module.parents.get(node)
    while isinstance(parent, ast.List | ast.Tuple | ast.Attribute):
        parent = module.parents.get(parent)
    if not isinstance(parent, ast.Call) or parent.func is node:
        return False
    called = ast.unparse(parent.func).lower()
    return any(word in called for word in _FAKE_LIKE)


def _tracing(project: Project, op: Op) -> Position | None:
    """A place that shows that someone means to trace the op, or its neighbours."""
    home = op.definition.module
    uses = uses_of(project)
    callers = uses.modules(project, op, _ABOUT_TRACING)
    for module in (home, *(m for m in callers if any(uses.nodes(project, op, m)))):
        node = _traces(project, module)
        if node is not None:
            return position(module, node)
    for other in project.all_ops:
        near = other.definition.module
        if near is home or (near.name.partition(".")[0], "." in near.name) == (
            home.name.partition(".")[0],
            True,
        ):
            for registration in other.attached:
                if _is_derived(other, registration):
                    continue
                if registration.role is Role.FAKE and has_fake(project, other):
                    return position(registration.module, registration.statement)
    return None


def _is_derived(op: Op, registration: Registration) -> bool:
    """Whether a fake looks as ``migrate`` writes one: it tells nothing of what others mean."""
    kernel, fake = op.definition.function, registration.function
    if not isinstance(kernel, ast.FunctionDef) or not isinstance(fake, ast.FunctionDef):
        return False
    same = ast.unparse(kernel.args) == ast.unparse(fake.args)
    return same and fake.name == f"_{kernel.name.strip('_') or op.name}_fake"


def _traces(project: Project, module: Module) -> ast.AST | None:
    if not any(word in module.source.text for word in _TRACING_WORDS):
        return None
    for node in module.parents:
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            word = node.attr if isinstance(node, ast.Attribute) else node.id
            if word in _TRACING_WORDS and project.resolve_dotted(module, node) in _TRACING:
                return node
    return None


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2
"""

RULE = Rule(
    code="OPS110",
    name="missing-fake",
    severity=Severity.WARNING,
    summary="The op returns something, and no fake kernel says of which shape and dtype.",
    why="torch.compile and torch.export run a program on tensors without data. Where they meet "
    "an op that has no fake kernel they raise, and opcheck fails. Only reported where the "
    "program compiles or exports something, or its other ops have fakes.",
    remedy="register a fake kernel with register_fake: it allocates what the op returns",
    repair="safe",
    of_op=check,
    asks=(_ABOUT_TRACING.question, _ABOUT_FAKES.question),
    hits=(
        _OP
        + """

def run(x: Tensor) -> Tensor:
    return torch.compile(double)(x)
""",
        _OP
        + """

@torch.library.custom_op("demo::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)
""",
        """\
import torch
from torch.library import opcheck

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("double(Tensor x) -> Tensor")


@torch.library.impl(lib, "double", "CPU")
def double(x):
    return x * 2


def test_double():
    opcheck(torch.ops.demo.double.default, (torch.ones(2),))
""",
    ),
    misses=(
        _OP,
        _OP
        + """

@double.register_fake
def _(x):
    return torch.empty_like(x)


run = torch.compile(double)
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double_", mutates_args={"x"}, tags=torch.Tag.inplace)
def double_(x: Tensor) -> Tensor:
    return x.mul_(2)


@torch.library.custom_op("demo::store", mutates_args={"cache"})
def store(x: Tensor, cache: Tensor) -> None:
    cache.copy_(x)


run = torch.compile(double_)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("double(Tensor x) -> Tensor")
lib.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
run = torch.compile(torch.ops.demo.double)
""",
    ),
)

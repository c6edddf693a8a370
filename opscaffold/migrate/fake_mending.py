"""Letting a fake kernel make a tensor where it returned an argument, or a view of one."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

from opscaffold.effects.values import UNSEEN, Ref
from opscaffold.migrate.copying import Copies
from opscaffold.migrate.fakes import torch_name
from opscaffold.migrate.layouts import Layout, is_like, layouts_of, made_by, resolved
from opscaffold.migrate.plain_uses import other_use, registrations_of
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.watching import watch
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.fakes import Fake, fake_arguments, fakes_of
from opscaffold.rules.functions import AnyFunction, returned
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.names import ProjectNames

# Give a tensor with the sizes, dtype and device of the one they are given.
_LIKE = frozenset(
    {"clone", "detach", "empty_like", "zeros_like", "ones_like", "full_like"}
    | {"rand_like", "randn_like", "abs", "neg", "relu", "sigmoid", "tanh", "sin", "cos", "exp"}
    | {"log", "sqrt", "rsqrt", "square", "clamp", "clip", "gelu", "silu", "sign", "floor"}
    | {"ceil", "round", "add", "sub", "mul"}
)
_CHANGING = frozenset({"dtype", "device", "out", "memory_format", "layout"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)


def mend_fakes(
    context: Context, facts: OpFacts, plan: OpPlan, contiguous: frozenset[int | None] | None
) -> list[RefusalError]:
    """Plan what the fakes of an op return instead of an argument.

    Only what the kernels in sight return the like of; ``contiguous`` are the returns that they
    make contiguous (None: as they are written). Returns the reasons for what is left.
    """
    reasons: list[RefusalError] = []
    contract = signature_of(facts.project, facts.op)
    if contract is None or not contract.returns:
        return []
    kernels = kernels_of(facts)
    if contiguous is None:
        contiguous = _contiguous(kernels, len(contract.returns))
    whole = len(contiguous) == len(contract.returns)
    known = [texts for kernel in kernels for texts in _made(kernel, whole=whole)]
    for fake in fakes_of(facts.op):
        arguments = fake_arguments(facts.project, facts.op, fake.function)
        names = ProjectNames(facts.project, fake.module)
        copies = Copies(
            syntax=context.syntaxes.of(fake.module),
            module=fake.module,
            function=fake.function,
            watched=watch(fake.function, arguments, names, frozenset()),
            torch=torch_name(fake.module, fake.function),
            bad=_lent,
            returns=[r.type for r in contract.returns],
            optional=frozenset(f"param:{a.name}" for a in arguments if a.optional),
            dense=contiguous,
            fake=True,
        )
        own = _names_of_op(fake, [p.name for p in contract.parameters])
        values = returned(fake.function)
        parts = [part for value in values for part in _arms(value)]
        for value in values:
            for part in _arms(value):
                if any(_lent(ref) for ref in copies.watched.refs(part)):
                    text = _text(resolved(fake.function, part), own)
                    # What a fake always returns is what every way through the kernel returns.
                    fits = [text in texts for texts in known]
                    whole_too = [
                        f or _is_part_of(text, t) for f, t in zip(fits, known, strict=True)
                    ]
                    if not any(fits) or (len(parts) == 1 and not all(whole_too)):
                        reasons.append(_unknown(fake, part))
                    elif (use := _other_use(facts, fake)) is not None:
                        reasons.append(use)
            if not reasons:
                copies.copy_in(value)
        if not reasons and copies.edits:
            plan.edits_for(fake.module).update(copies.edits)
    return reasons


def mend_layouts(
    context: Context, facts: OpFacts, contiguous: set[int | None], plan: OpPlan
) -> None:
    """Let a fake kernel say that a result is contiguous where the kernel makes it so."""
    contract = signature_of(facts.project, facts.op)
    fakes = list(fakes_of(facts.op))
    if (
        contract is None
        or len(fakes) != 1
        or any(len(k.effects.trace.returns) != 1 for k in kernels_of(facts))
    ):
        return
    fake = fakes[0]
    name = torch_name(fake.module, fake.function)
    for place in contiguous:
        call = made_by(fake.function, place or 0, len(contract.returns))
        if call is not None and name is not None and is_like(call):
            key = context.syntaxes.of(fake.module).key(call)
            wanted = {"memory_format": f"{name}.contiguous_format"}
            plan.edits_for(fake.module).keywords[key] = wanted


def _is_part_of(text: str, texts: set[str]) -> bool:
    """Whether an expression slices a tensor that is returned as a whole, as at its full length."""
    match ast.parse(text, mode="eval").body:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice()):
            return name in texts
    return False


def _lent(ref: Ref) -> bool:
    return ref.root.startswith("param:") and not ref.guess and ref != UNSEEN


def _unknown(fake: Fake, part: ast.expr) -> RefusalError:
    return RefusalError(
        part,
        f"whether the kernel returns what looks like `{ast.unparse(part)}` cannot be told",
        "allocate there what the kernel returns: `torch.empty_like(...)` or the like",
        fake.module,
    )


def _other_use(facts: OpFacts, fake: Fake) -> RefusalError | None:
    own = registrations_of(facts.op, fake.function)
    use = other_use(facts.project, fake.function, own)
    if use is None:
        return None
    name = getattr(fake.function, "name", "")
    return RefusalError(
        use[1],
        f"its fake kernel `{name}` is used elsewhere too",
        "give the op a fake kernel of its own",
        use[0],
    )


def _contiguous(kernels: list[Kernel], count: int) -> frozenset[int | None]:
    """The returns that every kernel makes contiguous."""
    found = [layouts_of(k.function, count) for k in kernels]
    places: list[int | None] = [None] if count == 1 else list(range(count))
    return frozenset(
        place
        for index, place in enumerate(places)
        if found and all(layouts[index] is Layout.CONTIGUOUS for layouts in found)
    )


def _made(kernel: Kernel, *, whole: bool) -> Iterator[set[str]]:
    """What each tensor that a kernel returns looks like: expressions in the op's names.

    ``whole`` says that all of them are contiguous, which is then no matter of the expression.
    """
    function = kernel.function
    tensors = {a.name for a in kernel.arguments if a.tensor}
    for value in returned(function):
        for part in _arms(resolved(function, value)):
            made = resolved(function, part)
            alike = _original(function, (_dense(made) if whole else None) or part, tensors)
            yield {_text(made, kernel.declared), _text(alike, kernel.declared)}


def _arms(value: ast.expr) -> Iterator[ast.expr]:
    """The tensors that are returned, each alternative and element by itself."""
    match value:
        case ast.IfExp():
            yield from _arms(value.body)
            yield from _arms(value.orelse)
        case ast.Tuple() | ast.List():
            for element in value.elts:
                yield from _arms(element)
        case _:
            yield value


def _dense(expr: ast.expr) -> ast.expr | None:
    """What a call copies contiguously: its layout is looked at by itself."""
    match expr:
        case ast.Call(func=ast.Attribute(value=owner, attr="contiguous"), args=[], keywords=[]):
            return owner
        case ast.Call(
            func=ast.Attribute(value=owner, attr="clone"),
            args=[],
            keywords=[ast.keyword(arg="memory_format")],
        ):
            return owner
        case ast.Call(
            func=ast.Attribute(value=owner, attr="new_empty" | "new_zeros" | "new_ones"),
            args=[ast.Attribute(value=sizes, attr="shape")],
            keywords=[],
        ) if ast.dump(owner) == ast.dump(sizes):
            return owner
    return None


def _original(function: AnyFunction, expr: ast.expr, tensors: set[str]) -> ast.expr:
    """The expression whose metadata an expression has."""
    expr = resolved(function, expr)
    match expr:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords):
            if name not in _LIKE or any(k.arg in _CHANGING for k in keywords):
                return expr
            from_torch = isinstance(owner, ast.Name) and owner.id not in tensors and args
            scalars = args[1:] if from_torch else args
            tensor = from_torch or not isinstance(owner, ast.Name) or owner.id in tensors
            if tensor and all(isinstance(a, ast.Constant) for a in scalars):
                return _original(function, args[0] if from_torch else owner, tensors)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            if _is_scalar(function, right, tensors):
                return _original(function, left, tensors)
            if _is_scalar(function, left, tensors):
                return _original(function, right, tensors)
    return expr


def _is_scalar(function: AnyFunction, expr: ast.expr, tensors: set[str]) -> bool:
    if isinstance(expr, ast.Constant):
        return True
    spec = function.args
    known = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    return isinstance(expr, ast.Name) and expr.id in known - tensors


def _names_of_op(fake: Fake, order: list[str]) -> dict[str, str]:
    spec = fake.function.args
    own = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    return dict(zip(own, order, strict=False))


def _text(expr: ast.expr, names: Mapping[str, str]) -> str:
    """An expression in the op's names of its arguments."""
    return ast.unparse(_Renamed(names).visit(copy.deepcopy(expr)))


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Give an argument the name that the op gives it."""
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

"""Backward formulas that hand an incoming gradient to raw code without looking at its strides.

Gradients come with any strides: expanded ones (stride 0) and transposed ones are common. Source:
FACTS section 10 ("the strides of incoming gradients are documented as undefined").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.functions import AnyFunction, own_nodes, positional_names
from opscaffold.source.model import Module, Role
from opscaffold.source.project import Project

_LOOKS = frozenset({"contiguous", "is_contiguous", "stride", "clone", "to_dense"})


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report incoming gradients that reach a Triton launch or a pointer as they are."""
    for registration in facts.op.attached:
        function = registration.function
        if registration.role is not Role.AUTOGRAD or function is None:
            continue
        module = registration.function_module or registration.module
        for node, name, how in _raw_uses(facts.project, module, function):
            yield RULE.finding(
                module,
                node,
                f"`{name}` {how} with the strides it happens to have: a gradient that was "
                "expanded or transposed is read wrongly, in silence",
                op=facts.op.qualname,
                remedy=f"pass `{name}.contiguous()`, or pass its strides to the kernel",
            )


def _raw_uses(
    project: Project, module: Module, function: AnyFunction
) -> Iterator[tuple[ast.AST, str, str]]:
    grads = set(positional_names(function)[1:])
    for node in own_nodes(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in _LOOKS:
                grads.discard(name)
            case ast.Name(id=name, ctx=ast.Store()):
                grads.discard(name)
            case ast.Call(func=func) if _is_check(func):
                grads -= {n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)}
    for node in own_nodes(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="data_ptr")) if (
                name in grads
            ):
                yield node, name, "is read by its address"
            case ast.Call(func=ast.Subscript(value=kernel, slice=grid)) if _is_triton(
                project, module, kernel, gridded=_is_grid(grid)
            ):
                for part in (*node.args, *(k.value for k in node.keywords)):
                    if isinstance(part, ast.Name) and part.id in grads:
                        yield part, part.id, "goes to a Triton kernel"
            case ast.Call(func=func) if _is_outside(project, module, func):
                for part in node.args:
                    if isinstance(part, ast.Name) and part.id in grads:
                        yield part, part.id, f"goes to the compiled `{ast.unparse(func)}`"


def _is_check(func: ast.expr) -> bool:
    """Whether a call sounds like one that looks at how a tensor lies in memory."""
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return "contiguous" in name or "stride" in name


def _is_grid(index: ast.expr) -> bool:
    return isinstance(index, ast.Tuple | ast.Lambda) or "grid" in ast.unparse(index)


def _is_triton(project: Project, module: Module, kernel: ast.expr, *, gridded: bool) -> bool:
    """Whether ``kernel[grid](...)`` launches a Triton kernel in sight."""
    target = project.resolve(module, kernel).certain
    if target is not None and target.module is None and target.dotted is not None:
        # Nothing but a Triton kernel is called with a grid in brackets.
        return gridded and not target.dotted.startswith(("torch.", "numpy.", "builtins."))
    node = None if target is None else target.node
    if target is None or target.module is None or not isinstance(node, ast.FunctionDef):
        return False
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (project.resolve_dotted(target.module, called) or "").startswith("triton."):
            return True
    return False


def _is_outside(project: Project, module: Module, func: ast.expr) -> bool:
    """Whether a function is compiled code: of a module that is named as extensions are."""
    if not isinstance(func, ast.Attribute):
        return False
    dotted = project.resolve_dotted(module, func)
    if dotted is None or dotted.startswith(("torch.", "numpy.", "builtins.")):
        return False
    holders = dotted.split(".")[:-1]
    return any(h in {"_C", "_ext", "_cuda"} or h.endswith(("_cuda", "_cpp")) for h in holders)


_OP = """\
import torch
import triton
import triton.language as tl
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@triton.jit
def double_kernel(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n) * 2, mask=at < n)

"""

RULE = Rule(
    code="OPS505",
    name="raw-gradient-strides",
    severity=Severity.WARNING,
    summary="A backward formula hands a gradient to raw code without looking at its strides.",
    why="Autograd promises nothing about the strides of a gradient. After a sum, an expand or a "
    "transpose they are not those of the output. A raw kernel that assumes dense memory then "
    "reads the wrong elements, and the training run goes on with wrong gradients.",
    remedy="call .contiguous() on the gradient first, or pass its strides to the kernel",
    of_op=check,
    hits=(
        _OP
        + """
def backward(ctx, grad):
    result = torch.empty_like(grad)
    double_kernel[(1,)](grad, result, grad.numel(), BLOCK=128)
    return result


double.register_autograd(backward)
""",
        _OP
        + """
from elsewhere import raw


def backward(ctx, grad):
    result = torch.empty(grad.shape)
    raw.double(grad.data_ptr(), result.data_ptr(), grad.numel())
    return result


double.register_autograd(backward)
""",
        _OP
        + """
from elsewhere import _C


@double.register_autograd
def backward(ctx, grad):
    return _C.double_backward(grad, 2.0)
""",
    ),
    misses=(
        _OP
        + """
def backward(ctx, grad):
    grad = grad.contiguous()
    result = torch.empty_like(grad)
    double_kernel[(1,)](grad, result, grad.numel(), BLOCK=128)
    return result


double.register_autograd(backward)
""",
        _OP
        + """
def backward(ctx, grad):
    result = torch.empty(grad.shape)
    double_kernel[(1,)](grad, result, grad.numel(), grad.stride(0), BLOCK=128)
    return result


double.register_autograd(backward)
""",
        _OP
        + """
from elsewhere import scaled


def backward(ctx, grad):
    return scaled(grad, 2) + torch.mul(grad, 2)


double.register_autograd(backward)
""",
    ),
)

"""setup_context functions whose parameters do not have the names they are called by.

PyTorch calls ``setup_context(ctx=..., inputs=..., output=...)``, with ``keyword_only_inputs``
where the op has keyword-only arguments (FACTS section 3).
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import default_of, signature_of, written_value
from opscaffold.rules.functions import AnyFunction, function_of, is_method
from opscaffold.source.model import Role

_NAMES = ("ctx", "inputs", "output")
_KEYWORD_ONLY = "keyword_only_inputs"


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each setup_context that cannot be called by the names PyTorch uses."""
    for registration in facts.op.attached:
        if registration.role is not Role.AUTOGRAD:
            continue
        written = written_value(facts.project, registration, "setup_context")
        found = function_of(facts.project, *written) if written is not None else None
        if found is None:
            continue
        module, function = found
        decorated = bool(getattr(function, "decorator_list", ()))
        if decorated or is_method(module, function):
            continue
        contract = signature_of(facts.project, facts.op)
        keyword_only = None if contract is None else any(p.kw_only for p in contract.parameters)
        problem = _problem(function, keyword_only)
        if problem is not None:
            names = ", ".join((*_NAMES, _KEYWORD_ONLY) if keyword_only else _NAMES)
            yield RULE.finding(
                module,
                function,
                f"{problem}: the first call that needs a gradient raises TypeError",
                op=facts.op.qualname,
                remedy=f"name the parameters {names}",
            )


def _problem(function: AnyFunction, keyword_only: bool | None) -> str | None:
    spec = function.args
    takes = [a.arg for a in (*spec.args, *spec.kwonlyargs)]
    given = [*_NAMES, *([_KEYWORD_ONLY] if keyword_only else [])]
    if spec.posonlyargs:
        return f"`{spec.posonlyargs[0].arg}` is positional-only, but PyTorch passes names"
    missing = [name for name in given if name not in takes]
    if missing and spec.kwarg is None:
        other = next((n for n in takes if n not in (*given, _KEYWORD_ONLY)), None)
        instead = f"; it is called `{other}` here" if other is not None else ""
        why = ", because the op has keyword-only arguments" if missing[0] == _KEYWORD_ONLY else ""
        return (
            f"PyTorch passes `{missing[0]}` by name{why}, and there is no such parameter{instead}"
        )
    for name in takes:
        needed = default_of(function, name) is None and name not in given
        if needed and not (name == _KEYWORD_ONLY and keyword_only is None):
            return f"PyTorch passes nothing for `{name}`"
    return None


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float) -> Tensor:
    return x * k


def backward(ctx, grad):
    return grad * ctx.k, None

"""
_KW = _OP.replace("x: Tensor, k: float", "x: Tensor, *, k: float").replace(", None", "")

RULE = Rule(
    code="OPS502",
    name="setup-context-names",
    severity=Severity.ERROR,
    summary="The parameters of setup_context do not have the names that PyTorch passes.",
    why="setup_context is called by keyword. Other names register without complaint; the first "
    "call with an input that requires a gradient raises TypeError.",
    remedy="name the parameters ctx, inputs, output, and keyword_only_inputs where the op has "
    "keyword-only arguments",
    of_op=check,
    hits=(
        _OP
        + """
def setup(ctx, ins, out):
    ctx.k = ins[1]


scale.register_autograd(backward, setup_context=setup)
""",
        _OP
        + """
scale.register_autograd(backward, setup_context=lambda context, inputs, output: None)
""",
        _KW
        + """
def setup(ctx, inputs, output):
    ctx.k = 2.0


torch.library.register_autograd("demo::scale", backward, setup_context=setup)
""",
        _OP
        + """
def setup(ctx, inputs, output, keyword_only_inputs):
    ctx.k = inputs[1]


scale.register_autograd(backward, setup_context=setup)
""",
    ),
    misses=(
        _OP
        + """
def setup(ctx, inputs, output):
    ctx.k = inputs[1]


scale.register_autograd(backward, setup_context=setup)
""",
        _KW
        + """
def setup(ctx, inputs, keyword_only_inputs, output):
    ctx.k = keyword_only_inputs["k"]


scale.register_autograd(backward, setup_context=setup)
""",
        _OP
        + """
def setup(ctx, **given):
    ctx.k = given["inputs"][1]


scale.register_autograd(backward, setup_context=setup)
""",
        _OP
        + """
class Scale(torch.autograd.Function):
    @staticmethod
    def setup_context(context, ins, out):
        context.k = ins[1]
""",
    ),
)

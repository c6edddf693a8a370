"""Calls that look like registrations, of functions that are not in sight.

Helpers such as ``direct_register_custom_op`` mean different things in different projects, and
some do nothing. One that is imported from elsewhere cannot be read, so it has to be described.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.patterns import pattern
from opscaffold.rules.base import Rule, position
from opscaffold.rules.descriptions import NAME, applies_to_function, configuration
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_SURELY = pattern(r"\w*(custom|triton)_op$", re.IGNORECASE)
_PERHAPS = pattern(r"(register|define|make|add)\w*_op(erator)?$", re.IGNORECASE)
_LIKELY = pattern(f"{_SURELY.pattern}|{_PERHAPS.pattern}", re.IGNORECASE)
# A whole schema starts with the name.
_OP_NAME = pattern(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)?(\.\w+)?(\s*\(.*->.*)?$", re.DOTALL)
_STANDARD = sys.stdlib_module_names | {"builtins"}


def check(project: Project) -> Iterator[Finding]:
    """Report each unknown helper once, at the first of its calls."""
    calls: dict[str, list[tuple[Module, ast.Call]]] = {}
    known = set()
    for helper in project.unknown_helpers:
        known.add(helper.call)
        # functools.partial and the like hand on what they are given, and register nothing.
        if helper.name.partition(".")[0] in _STANDARD:
            continue
        calls.setdefault(helper.name, []).append((helper.module, helper.call))
    for module in project.modules:
        if module.path not in project.selected:
            continue
        for node in project.calls_of(module, _LIKELY):
            if node not in known:
                name = _unknown(project, module, node)
                if name is not None:
                    calls.setdefault(name, []).append((module, node))
    for name, found in sorted(calls.items()):
        found.sort(key=lambda each: position(*each))
        (module, call), *others = found
        yield RULE.finding(
            module,
            call,
            f"`{name}` looks like it registers ops, and its body is not in sight: "
            f"{_count(len(found))} unchecked",
            remedy="describe it:\n" + configuration(name, found),
            evidence=[position(*each) for each in others[:5]],
        )


def _unknown(project: Project, module: Module, call: ast.Call) -> str | None:
    written = call.func
    if not isinstance(written, ast.Name | ast.Attribute):
        return None
    ops = _op_names(call)
    if not ops or call in project.described_calls or not _has_function(module, call):
        return None
    targets = project.resolve(module, written).without_none().targets
    names = [target.dotted for target in targets if target.dotted is not None]
    if not names or len(names) != len(targets) or any(n.startswith("torch.") for n in names):
        return None
    last = names[0].rpartition(".")[2]
    # Other libraries have ops too, and only those of PyTorch are called `ns::op`.
    sure = _SURELY.match(last) or (_PERHAPS.match(last) and any("::" in op for op in ops))
    return names[0] if sure else None


def _op_names(call: ast.Call) -> list[str]:
    values = [*call.args[:2], *(k.value for k in call.keywords if k.arg and NAME.fullmatch(k.arg))]
    texts = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return [text for text in texts if _OP_NAME.match(text)]


def _has_function(module: Module, call: ast.Call) -> bool:
    if applies_to_function(module, call):
        return True
    values = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(v, ast.Name | ast.Attribute | ast.Lambda) for v in values)


def _count(number: int) -> str:
    return "what it is given goes" if number == 1 else f"what it is given in {number} calls goes"


RULE = Rule(
    code="OPS003",
    name="unknown-registrar",
    severity=Severity.WARNING,
    summary="A function from elsewhere looks like it registers ops, and cannot be read.",
    why="Whether it defines an op, and with which name, schema and fake, is not known. Ops that "
    "are registered through it are not checked, and their call sites are not migrated.",
    remedy="describe it in [[tool.opscaffold.registrars]]",
    of_project=check,
    hits=(
        """\
from kernels.utils import direct_register_custom_op


def double(x):
    return x * 2


def double_fake(x):
    return x.new_empty(x.shape)


direct_register_custom_op(
    op_name="double", op_func=double, mutates_args=[], fake_impl=double_fake
)
""",
        """\
from kernels.utils import register_custom_op


@register_custom_op("demo::double")
def double(x):
    return x * 2
""",
        """\
import kernels


def double(x):
    return x * 2


kernels.ops.install("demo::double", double, mutates_args=())
""",
    ),
    misses=(
        """\
import torch


def register_custom_op(name):
    return lambda function: function


@register_custom_op("demo::double")
def double(x):
    return x * 2


double = torch.library.custom_op("demo::twice", double, mutates_args=())
""",
        """\
from kernels.utils import register_custom_op

register_custom_op.enabled = True
""",
        """\
from mlir import define_op, register_op_library

register_op_library("custom_op.so")
define_op(3, 4)
""",
    ),
)

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
from opscaffold.rules.base import Rule, position
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project

_SURELY = re.compile(r"\w*(custom|triton)_op$", re.IGNORECASE)
_PERHAPS = re.compile(r"(register|define|make|add)\w*_op(erator)?$", re.IGNORECASE)
_LIKELY = re.compile(f"{_SURELY.pattern}|{_PERHAPS.pattern}", re.IGNORECASE)
_OP_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)?$")
_STANDARD = sys.stdlib_module_names | {"builtins"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAME = re.compile(r"(op_?|qual|full)?name|op|qualname", re.IGNORECASE)
_NAMESPACE = re.compile(r"ns|namespace|(target_)?lib(rary)?", re.IGNORECASE)
_SCHEMA = re.compile(r"(op_)?schema", re.IGNORECASE)
_FAKE = re.compile(r"\w*(fake|abstract|meta)\w*", re.IGNORECASE)
_KERNEL = re.compile(r"(op_)?(func|fn|function|impl|kernel)(_impl)?", re.IGNORECASE)


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
            remedy="describe it:\n" + configuration(name, call),
            evidence=[position(*each) for each in others[:5]],
        )


def configuration(name: str, call: ast.Call) -> str:
    """Return the configuration that describes a helper, as far as a call of it shows."""
    lines = ["[[tool.opscaffold.registrars]]", f'helper = "{name}"']
    sources: dict[str, str] = {}
    positional: list[str] = []
    for value in call.args:
        if isinstance(value, ast.Starred):
            break
        text = isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp)
        what = "name" if text and "name" not in sources else "function"
        if what in sources or (what == "function" and not isinstance(value, ast.Name | ast.Lambda)):
            what = f"argument_{len(positional) + 1}"
        else:
            sources[what] = what
        positional.append(what)
    for keyword in call.keywords:
        key = keyword.arg
        if key is None:
            continue
        for what, pattern in (
            ("mutates_args", re.compile("mutates(_args)?")),
            ("schema", _SCHEMA),
            ("fake", _FAKE),
            ("namespace", _NAMESPACE),
            ("name", _NAME),
            ("function", _KERNEL),
        ):
            if what not in sources and pattern.fullmatch(key):
                sources[what] = key
                break
    if positional:
        lines.append(f"parameters = [{', '.join(map(_quoted, positional))}]")
    lines += [
        f"{what} = {_quoted(sources[what])}"
        for what in ("name", "namespace", "function", "mutates_args", "schema", "fake")
        if what in sources
    ]
    defaults = []
    if "namespace" not in sources and not _has_namespace(call):
        defaults.append('namespace = "..."')
    if "mutates_args" not in sources and "schema" not in sources:
        defaults.append("mutates_args = []")
    if defaults:
        lines.append(f"defaults = {{ {', '.join(defaults)} }}")
    return "\n".join(lines)


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
    values = [*call.args[:2], *(k.value for k in call.keywords if k.arg and _NAME.fullmatch(k.arg))]
    texts = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return [text for text in texts if _OP_NAME.match(text)]


def _has_function(module: Module, call: ast.Call) -> bool:
    parent = module.parents.get(call)
    if isinstance(parent, _FUNCTIONS) and call in parent.decorator_list:
        return True
    if isinstance(parent, ast.Call) and parent.func is call:
        return True
    values = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(v, ast.Name | ast.Attribute | ast.Lambda) for v in values)


def _has_namespace(call: ast.Call) -> bool:
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and "::" in n.value
        for n in walk(call)
    )


def _quoted(word: str) -> str:
    return f'"{word}"'


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

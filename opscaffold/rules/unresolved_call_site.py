"""``torch.ops.ns.op`` for an op that is not there, in a namespace that the project owns.

Only said where every op of the namespace is known: none has a computed name, none can come from
compiled code or from a function out of sight.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from opscaffold.contract.naming import RESERVED_NAMESPACES
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import Rule
from opscaffold.rules.functions import enclosing_function
from opscaffold.source.model import Module
from opscaffold.source.project import Project
from opscaffold.source.questions import CALLS_OPS, mentions
from opscaffold.source.torch_ops import Called, reads_ops

_PREFIX = "torch.ops."
_COMPILED = frozenset({".cpp", ".cc", ".cxx", ".cu", ".hip", ".mm", ".so", ".pyd", ".pyx"})
_LOADS = ("load_library", "cpp_extension", "CppExtension", "CUDAExtension", "load_inline")
# Stands among the overloads of an op that is added to here and defined elsewhere.
_ANY = "*"
_PACKET_ATTRIBUTES = frozenset({"default", "name", "op", "overloads"})
_ASKING = frozenset({"hasattr", "getattr"})
_SWALLOWING = frozenset({"suppress", "raises", "assertRaises"})


def check(project: Project) -> Iterator[Finding]:
    """Report each op, or overload, that is read from a known namespace and is not in it."""
    spaces = _closed_spaces(project)
    if not spaces:
        return
    compiled: bool | None = None
    for module, names in _modules(project, spaces):
        for node in module.parents:
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if not _is_written_with(node, names):
                continue
            missing = _missing(project, module, node, spaces)
            if missing is None or _is_probe(project, module, node, missing[0]):
                continue
            if compiled is None:
                compiled = _has_compiled_code(project)
            if compiled:
                return
            name, near = missing
            hint = f"; did you mean `{near}`?" if near else ""
            yield RULE.finding(
                module,
                node,
                f"no op `{name}` is defined in this project: reading it raises "
                f"AttributeError{hint}",
                op=name,
            )


def _closed_spaces(project: Project) -> dict[str, dict[str, set[str]]]:
    """The overloads of each op, by namespace, where no other op can be in it."""
    spaces: dict[str, dict[str, set[str]]] = {}
    if project.unknown_helpers:
        return spaces
    open_spaces: set[str] = set()
    for op in project.all_ops:
        qualname = op.definition.qualname
        if qualname is None:
            if "{" in op.namespace or not op.namespace:
                return {}
            open_spaces.add(op.namespace)
            continue
        name, _, overload = op.name.partition(".")
        spaces.setdefault(op.namespace, {}).setdefault(name, set()).add(overload or "default")
    elsewhere: dict[str, set[str]] = {}
    for stray in project.stray:
        space, _, name = (stray.qualname or stray.name_hint).partition("::")
        if "{" in space or not name:
            return {}
        if stray.qualname is None:
            open_spaces.add(space)
        else:
            elsewhere.setdefault(space, set()).add(name.partition(".")[0])
    for space, names in elsewhere.items():
        ops = spaces.get(space, {})
        # Whoever adds to more ops than it defines adds to a namespace of somebody else.
        if len(names) > len(ops):
            open_spaces.add(space)
        for name in names - ops.keys():
            ops[name] = {_ANY}
    return {
        space: ops
        for space, ops in spaces.items()
        if space not in open_spaces and space not in RESERVED_NAMESPACES
    }


def _modules(
    project: Project, spaces: Mapping[str, Mapping[str, set[str]]]
) -> Iterator[tuple[Module, set[str]]]:
    """The modules that may read an op, and the names in them that lead there.

    They name torch.ops and one of the namespaces, or a name that another module gave to one.
    """
    start: dict[Path, tuple[list[Called] | None]] = project.ask(CALLS_OPS)
    # What is called at once goes by no other name.
    first = [project.module_for(path) for path, (called,) in start.items() if called is None]
    given = set().union(*(project.exported(m, {"ops"}, _PREFIX) for m in first if m is not None))
    wrong = {
        p for p, (called,) in start.items() if called is None or not _all_there(called, spaces)
    }
    read = set(project.ask(mentions(spaces), wrong))
    if given:
        read |= project.ask(mentions(given)).keys()
    for path in project.files:
        if path in read and path in project.selected:
            module = project.module_for(path)
            if module is not None:
                yield module, project.aliases(module, {"ops", *given})


def _all_there(called: list[Called], spaces: Mapping[str, Mapping[str, set[str]]]) -> bool:
    """Whether each op that is called is one of its namespace, where that is known."""
    return all(
        space not in spaces
        or (overloads := spaces[space].get(name, set())) & {"default", _ANY}
        or (overloads and not default)
        for space, name, default in called
    )


def _is_written_with(node: ast.Attribute, names: set[str]) -> bool:
    part: ast.expr = node
    while isinstance(part, ast.Attribute):
        if part.attr in names:
            return True
        part = part.value
    if isinstance(part, ast.Name):
        return part.id in names
    # A call, perhaps `getattr(torch, "ops")`: it has to be looked into.
    return True


def _missing(
    project: Project, module: Module, node: ast.Attribute, spaces: dict[str, dict[str, set[str]]]
) -> tuple[str, str] | None:
    """The op that a node reads and that is not there, and one with a name like it."""
    if node.attr.startswith("_"):
        return None
    target = project.resolve(module, node).certain
    dotted = target.dotted if target is not None else None
    if dotted is None or not dotted.startswith(_PREFIX) or not dotted.endswith(f".{node.attr}"):
        return None
    space, _, rest = dotted.removeprefix(_PREFIX).partition(".")
    ops = spaces.get(space)
    if ops is None or not rest:
        return None
    name, _, overload = rest.partition(".")
    if _ANY in ops.get(name, ()):
        return None
    if name not in ops:
        if overload or name == "name":
            return None
        here = sorted(each for each, overloads in ops.items() if _ANY not in overloads)
        near = difflib.get_close_matches(name, here, n=1)
        return f"{space}::{name}", f"torch.ops.{space}.{near[0]}" if near else ""
    if not overload or "." in overload or overload in ops[name]:
        return None
    if overload in _PACKET_ATTRIBUTES - {"default"}:
        return None
    there = min(ops[name])
    return f"{space}::{name}.{overload}", f"torch.ops.{space}.{name}.{there}"


def _is_probe(project: Project, module: Module, node: ast.AST, name: str) -> bool:
    """Whether the code reckons with the op not being there."""
    words = {*re.split(r"::|\.", name), name}
    inner: ast.AST = node
    parent = module.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.Try) and inner in parent.body and parent.handlers:
            return True
        tests: list[ast.AST] = []
        if isinstance(parent, ast.With | ast.AsyncWith):
            tests = [item.context_expr for item in parent.items]
        elif isinstance(parent, ast.If | ast.IfExp) and inner is not parent.test:
            tests = [n for part in ast.walk(parent.test) for n in _kept(project, module, part)]
        if any(_expects(test) or _asks_for(test, words) for test in tests):
            return True
        if isinstance(parent, ast.Call) and (_expects(parent) or _asks_for(parent, words)):
            return True
        inner, parent = parent, module.parents.get(parent)
    function = enclosing_function(module, node)
    return function is not None and any(_asks_for(n, words) for n in ast.walk(function))


def _kept(project: Project, module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """A node, and what the name that it is stands for."""
    yield node
    if isinstance(node, ast.Name | ast.Attribute):
        for target in project.resolve(module, node).targets:
            if target.node is not None:
                yield target.node


def _expects(node: ast.AST) -> bool:
    """Whether a call deals with what is raised under it."""
    name = _called(node)
    return name in _SWALLOWING or name.startswith(("assertRaises", "raises"))


def _asks_for(node: ast.AST, words: set[str]) -> bool:
    """Whether a call asks whether there is anything by one of the words, or by a name unknown."""
    if not isinstance(node, ast.Call) or _called(node) not in _ASKING:
        return False
    asked = node.args[1] if len(node.args) > 1 else None
    return not isinstance(asked, ast.Constant) or asked.value in words


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _has_compiled_code(project: Project) -> bool:
    """Whether ops may come from code that is not Python."""
    pattern = re.compile("|".join(_LOADS))
    if any(pattern.search(module.source.text) for module in project.modules):
        return True
    # Files that only call ops are not parsed, and may load them as well.
    loads = re.compile(pattern.pattern.encode())
    for path in project.files:
        data = project.read(path) or b""
        if loads.search(data) and reads_ops(data):
            return True
    seen: set[Path] = set()
    for path in project.files:
        if path.parent in seen:
            continue
        seen.add(path.parent)
        if any(entry.suffix in _COMPILED for entry in _entries(path.parent)):
            return True
    return any(entry.suffix in _COMPILED for entry in _sources(project.root))


def _entries(directory: Path) -> Iterator[Path]:
    try:
        yield from directory.iterdir()
    except OSError:
        return


def _sources(root: Path) -> Iterator[Path]:
    """Files in the directories that compiled sources usually stand in."""
    for name in ("csrc", "src", "cpp", "cuda", "kernels", "lib"):
        for directory in (root / name, *root.glob(f"*/{name}")):
            if directory.is_dir():
                yield from (p for p in directory.rglob("*") if p.suffix in _COMPILED)


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return x * 2

"""

RULE = Rule(
    code="OPS603",
    name="unresolved-call-site",
    severity=Severity.ERROR,
    summary="A call names an op or an overload that the project does not define.",
    why="torch.ops looks ops up by name when the line runs. After a rename or a split, a place "
    "that still uses the old name raises AttributeError, and nothing says so before.",
    remedy="use the name the op has now",
    of_project=check,
    asks=(CALLS_OPS,),
    hits=(
        _OP
        + """
def run(x: Tensor) -> Tensor:
    return torch.ops.demo.scales(x)
""",
        _OP
        + """
def run(x: Tensor, out: Tensor) -> Tensor:
    return torch.ops.demo.scale.out(x, out=out)
""",
        _OP
        + """
demo = torch.ops.demo
old_scale = demo.scale_into
""",
    ),
    misses=(
        _OP
        + """
def run(x: Tensor) -> Tensor:
    print(torch.ops.demo.scale.overloads(), torch.ops.demo.scale._schemas)
    return torch.ops.demo.scale.default(x) + torch.ops.aten.neg(x) + torch.ops.other.scale(x)
""",
        _OP
        + """
if hasattr(torch.ops.demo, "fast"):
    fast = torch.ops.demo.fast
try:
    faster = torch.ops.demo.faster
except AttributeError:
    faster = None
""",
        _OP
        + """
for kind in ("a", "b"):

    @torch.library.custom_op(f"demo::{kind}", mutates_args=())
    def made(x: Tensor) -> Tensor:
        return x * 2


run = torch.ops.demo.a
""",
        _OP
        + """
torch.ops.load_library("libdemo.so")
run = torch.ops.demo.compiled
""",
        _OP
        + """
torch.library.impl("demo::compiled", "CPU", lambda x: x)
run = torch.ops.demo.compiled
""",
    ),
)

"""Fake kernels whose parameters, or number of returns, are not those of the op.

The dispatcher passes positional arguments by position, keyword-only ones by name, and leaves
out what equals its default (FACTS section 3). A fake that takes them otherwise fails, or
computes with other values, on the calls that no test makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import Default
from opscaffold.contract.pydefaults import DefaultReader, DefaultRefusedError
from opscaffold.findings.model import Finding, Severity
from opscaffold.records import dataclass
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import constants, default_of, origins, signature_of
from opscaffold.rules.fake_returns import wrong_counts
from opscaffold.rules.fakes import Fake, fakes_of
from opscaffold.rules.functions import AnyFunction, is_method
from opscaffold.source.model import Module
from opscaffold.source.project import Project


@dataclass(frozen=True, slots=True)
class _Expected:
    """One argument of the op. ``default`` is None where its value cannot be told."""

    name: str
    kw_only: bool
    optional: bool
    default: Default | None


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each fake that does not take what the op takes, or return as many values."""
    expected = _expected(facts)
    for fake in fakes_of(facts.op):
        for place, problem in wrong_counts(facts, fake):
            yield RULE.finding(fake.module, place, problem, op=facts.op.qualname)
        spec = fake.function.args
        if expected is None:
            continue
        if spec.vararg is not None or spec.kwarg is not None:
            continue
        found = _misfit(facts.project, fake, expected)
        if found is not None:
            message, severity = found
            yield RULE.finding(
                fake.module, fake.function, message, op=facts.op.qualname, severity=severity
            )


def _expected(facts: OpFacts) -> list[_Expected] | None:
    definition = facts.op.definition
    function = definition.function
    if definition.schema is None and function is not None and "schema" not in definition.keywords:
        if function.args.vararg or function.args.kwarg or is_method(facts.module, function):
            return None
        return _of_function(facts.project, facts.module, function)
    contract = signature_of(facts.project, facts.op)
    if contract is None or contract.vararg:
        return None
    return [
        _Expected(p.name, p.kw_only, p.default is not None, p.default) for p in contract.parameters
    ]


def _of_function(project: Project, module: Module, function: AnyFunction) -> list[_Expected]:
    spec = function.args
    found: list[_Expected] = []
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        default = default_of(function, arg.arg)
        value = None if default is None else _value(project, module, default)
        found.append(_Expected(arg.arg, arg in spec.kwonlyargs, default is not None, value))
    return found


def _value(project: Project, module: Module, node: ast.expr) -> Default | None:
    reader = DefaultReader(origins(project, module), constants(project, module))
    try:
        return reader.read(node)
    except DefaultRefusedError:
        return None


def _misfit(project: Project, fake: Fake, expected: list[_Expected]) -> tuple[str, Severity] | None:
    spec = fake.function.args
    takes = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    by_name = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
    positional = [e for e in expected if not e.kw_only]
    named = [e for e in expected if e.kw_only]
    problem = _arity(fake, takes, positional, named)
    if problem is not None:
        return problem, Severity.ERROR
    names = [e.name for e in positional]
    for mine, theirs in zip(takes, names, strict=False):
        if mine != theirs and mine in names and theirs in takes:
            problem = (
                f"the fake kernel takes `{mine}` where the op passes `{theirs}`: it computes "
                "shapes from the wrong arguments"
            )
            return problem, Severity.ERROR
    for argument in named:
        if argument.name not in by_name or argument.name in takes[: len(positional)]:
            problem = (
                f"the op passes `{argument.name}` by keyword, which the fake kernel does not "
                "take: tracing a call raises TypeError"
            )
            return problem, Severity.ERROR
    pairs = list(zip(takes, positional, strict=False)) + [(e.name, e) for e in named]
    for mine, argument in pairs:
        problem = _default(project, fake, mine, argument)
        if problem is not None:
            return problem, Severity.ERROR
    for mine, theirs in zip(takes, names, strict=False):
        if _plain(mine) not in {"", _plain(theirs)} and not mine.startswith("_"):
            problem = (
                f"the fake kernel calls the op's `{theirs}` by another name, `{mine}`: PyTorch "
                "passes it by position, so that nothing breaks, but two arguments that are "
                "swapped one day will not show"
            )
            return problem, Severity.INFO
    return None


def _plain(name: str) -> str:
    """A name without what marks it as unused, and without its case."""
    return name.strip("_").lower()


def _arity(
    fake: Fake, takes: list[str], positional: list[_Expected], named: list[_Expected]
) -> str | None:
    if len(takes) < len(positional):
        left = {a.arg for a in fake.function.args.kwonlyargs}
        missing = positional[len(takes)]
        how = "takes by keyword only" if missing.name in left else "does not take"
        return (
            f"the op passes `{missing.name}` by position, which the fake kernel {how}: tracing "
            "a call raises TypeError"
        )
    keywords = {e.name for e in named}
    extra = [
        name
        for name in (*takes[len(positional) :], *(a.arg for a in fake.function.args.kwonlyargs))
        if name not in keywords and default_of(fake.function, name) is None
    ]
    if extra:
        return (
            f"the fake kernel needs `{extra[0]}`, which the op does not have: tracing a call "
            "raises TypeError"
        )
    return None


def _default(project: Project, fake: Fake, mine: str, argument: _Expected) -> str | None:
    if not argument.optional:
        return None
    default = default_of(fake.function, mine)
    if default is None:
        return (
            f"`{argument.name}` has a default in the op, but none in the fake kernel: tracing a "
            "call that leaves it out raises TypeError"
        )
    value = _value(project, fake.module, default)
    if value is None or argument.default is None or value.value == argument.default.value:
        return None
    return (
        f"`{argument.name}` defaults to {argument.default.value!r} in the op and to "
        f"{value.value!r} in the fake kernel: a call that leaves it out is traced with the "
        "wrong value"
    )


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, factor: float = 2.0, rows: int = 1) -> Tensor:
    return (x * factor).repeat(rows, 1)

"""

RULE = Rule(
    code="OPS111",
    name="fake-signature",
    severity=Severity.ERROR,
    summary="The fake kernel does not take the arguments, or return the values, that the op does.",
    why="The fake kernel is called with the op's arguments: positional ones by position, "
    "keyword-only ones by name, and without those that equal their default. A fake that takes "
    "others registers without complaint, and fails or gives wrong shapes when a call is compiled.",
    remedy="give the fake kernel the parameters of the op: same order, same kinds, same defaults",
    of_op=check,
    hits=(
        _OP
        + """
@scale.register_fake
def _(x, factor, rows=1):
    return x.new_empty(x.shape[0] * rows, x.shape[1])
""",
        _OP
        + """
@scale.register_fake
def _(x, rows=1, factor=2.0):
    return x.new_empty(x.shape[0] * rows, x.shape[1])
""",
        _OP
        + """
scale.register_fake(lambda x, factor=2.0: torch.empty_like(x))
""",
        _OP
        + """
@scale.register_fake
def _(x, factor=2.0, rows=4):
    return x.new_empty(x.shape[0] * rows, x.shape[1])
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("pick(Tensor x, *, int n=2) -> Tensor")


@torch.library.register_fake("demo::pick", lib=lib)
def pick_fake(x, count=2):
    return x.new_empty(count)
""",
    ),
    misses=(
        _OP
        + """
@scale.register_fake
def _(x, factor=2.0, rows=1):
    return x.new_empty(x.shape[0] * rows, x.shape[1])
""",
        _OP
        + """
@scale.register_fake
def _(x, *args, **kwargs):
    return torch.empty_like(x)
""",
        _OP
        + """
@scale.register_fake
def _(x: Tensor, _factor: float = 2, rows: int = 1, *, spare: int = 0) -> Tensor:
    return x.new_empty(x.shape[0] * rows, x.shape[1])
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("pick(Tensor x, *, int n=2) -> Tensor")


@torch.library.register_fake("demo::pick", lib=lib)
def pick_fake(x, n=2):
    return x.new_empty(n)
""",
    ),
)

"""Tests of the ops that a migration made, as one pytest module for each op it repaired.

A module holds calls to try, made up from the schema, and tests of what the contracts promise: a
functional op returns memory of its own, an out= op writes to its buffer whatever that held and
returns it, an in-place op returns its argument, and nothing changes but what is declared to. What
opcheck checks is checked on each op.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from opscaffold.contract.model import BaseType, Kind, OpContract, Tag
from opscaffold.contract.pytypes import strip_alias
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.migrate.op_samples import sample_calls
from opscaffold.migrate.steps import Step

_MARK = re.compile(rb"^# opscaffold: written ([0-9a-f]{16})\r?\n", re.MULTILINE)
_WORD = re.compile(r"\W+")
_WIDTH = 88


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of an op that took Optional buffers."""

    fresh: str
    given: str
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """The ops that one test module is about, with the contracts they have in the end."""

    op: str
    defined: Path
    contracts: tuple[tuple[str, OpContract | None], ...]
    split: Split | None

    @property
    def file_name(self) -> str:
        """``test_ns_op_contract.py``."""
        return f"test_{_WORD.sub('_', self.op)}_contract.py"


def subjects(steps: Sequence[Step]) -> list[Subject]:
    """Return what there is to test after a migration, an entry for each op that was repaired."""
    found: dict[str, Subject] = {}
    for step in steps:
        if step.prose or step.defined is None:
            continue
        op = step.plan.op
        before = found.get(op)
        contracts = dict(before.contracts if before is not None else ()) | dict(step.new)
        split = before.split if before is not None else None
        for intent in step.intents:
            if isinstance(intent, SplitMaybeOut) and len(step.plan.new_ops) == 2:
                split = Split(*step.plan.new_ops, intent.buffers)
        found[op] = Subject(op, step.defined[0], tuple(contracts.items()), split)
    return list(found.values())


def render_tests(subject: Subject, directory: Path) -> bytes:
    """Return the test module of a subject, for a directory (absolute) that it is to stand in."""
    base, module = importable(subject.defined)
    names = [name for name, _ in subject.contracts]
    main = subject.split.fresh if subject.split is not None else names[0]
    contract = dict(subject.contracts).get(main)
    samples = [] if contract is None else sample_calls(contract)
    text = files("opscaffold.migrate").joinpath("op_tests.txt").read_text("utf-8")
    fill = {
        "ROOT": _root(base, directory),
        "MODULE": _quoted(module),
        "OPS": "".join(f"{_variable(name, subject)}: Any = {_object(name)}\n" for name in names),
        "WITHOUT": f" {_variable(main, subject)} with",
        "SAMPLES": "".join(f"\n    {_fitting(call)}," for call in samples)
        + ("\n" if samples else ""),
        "SUBJECT": _variable(main, subject),
        "TESTS": _tests(subject, main),
    }
    for key, value in fill.items():
        text = text.replace(f"@{key}@", value)
    body = f'"""Contract tests of {_listed(names)}."""\n\n{_ADVICE}{text.rstrip()}\n'.encode()
    return body.replace(b"@MARK@", f"# opscaffold: written {_digest(body)}".encode(), 1)


_ADVICE = """\
# Written by `opscaffold migrate --tests`, which leaves this file alone once it is edited.
@MARK@
"""


def is_unedited(data: bytes) -> bool:
    """Tell whether a test module is as it was written, so that it may be written anew."""
    match = _MARK.search(data)
    if match is None:
        return False
    body = data[: match.start()] + b"@MARK@\n" + data[match.end() :]
    return _digest(body.replace(b"\r\n", b"\n")) == match[1].decode()


def importable(path: Path) -> tuple[Path, str]:
    """Return the directory to import a file from, and the name it has there: by its packages."""
    names = [] if path.name == "__init__.py" else [path.stem]
    base = path.parent
    while (base / "__init__.py").is_file() and base.name.isidentifier():
        names.insert(0, base.name)
        base = base.parent
    return base, ".".join(names)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _root(base: Path, directory: Path) -> str:
    relative = Path(os.path.relpath(base, directory))
    ups = sum(part == ".." for part in relative.parts)
    down = [part for part in relative.parts if part != ".."]
    text = f"Path(__file__).resolve().parents[{ups}]"
    return " / ".join([text, *map(_quoted, down)])


def _quoted(text: str) -> str:
    """A literal as ruff writes it; bytes that are no text stay what they are."""
    literal = repr(text)
    return literal if '"' in text else f'"{literal[1:-1]}"'.replace("\\'", "'")


def _variable(name: str, subject: Subject) -> str:
    split = subject.split
    if split is not None and name in (split.fresh, split.given):
        return "OP" if name == split.fresh else "OUT"
    names = [
        n for n, _ in subject.contracts if split is None or n not in (split.fresh, split.given)
    ]
    taken = names.index(name) + (0 if split is None else 1)
    return "OP" if taken == 0 else f"OP_{taken + 1}"


def _object(name: str) -> str:
    namespace, _, rest = name.partition("::")
    op, _, overload = rest.partition(".")
    return f"torch.ops.{namespace}.{op}.{overload or 'default'}"


def _fitting(call: str) -> str:
    if len(call) + 5 <= _WIDTH:
        return call
    parts = call.removeprefix("call(").removesuffix(")")
    return "call(\n" + "".join(f"        {part},\n" for part in _split(parts)) + "    )"


def _split(arguments: str) -> list[str]:
    found, depth, start = [], 0, 0
    for index, char in enumerate(arguments):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            found.append(arguments[start:index].strip())
            start = index + 1
    return [*found, arguments[start:].strip()]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _tests(subject: Subject, main: str) -> str:
    tests = []
    split = subject.split
    for name, contract in subject.contracts:
        if split is not None and name == split.given:
            tests += _given_tests(split, contract, dict(subject.contracts).get(split.fresh))
        elif name == main:
            tests += _own_tests(_variable(name, subject), contract, "sample", "")
        else:
            variable = _variable(name, subject)
            tests += _own_tests(variable, contract, f"chosen({variable})", f"_{variable.lower()}")
    return "".join(f"\n\n{test}" for test in tests)


def _own_tests(op: str, contract: OpContract | None, sample: str, suffix: str) -> list[str]:
    """Tests of an op that is called with a sample as it stands."""

    def test(name: str, *lines: str) -> str:
        takes = "sample: Call" if sample == "sample" else ""
        return _function(f"test{suffix}_{name}({takes}) -> None", *lines)

    tests = [
        test("changes_only_what_is_declared", f"check_declared({op}, {sample})"),
        test("passes_opcheck", f"check_op({op}, {sample})"),
    ]
    kind = None if contract is None else contract.kind
    called = f"result, args, kwargs = run({op}, {sample})"
    if kind is Kind.INPLACE:
        same = "assert result is tree_leaves((args, kwargs))[0]"
        tests.append(test("returns_its_argument_itself", called, same))
    elif kind is Kind.OUT:
        given = "given = [id(leaf) for leaf in tree_leaves((args, kwargs))]"
        same = "assert all(id(leaf) in given for leaf in tree_leaves(result))"
        tests.append(test("returns_its_buffers_themselves", called, given, same))
    elif contract is not None and contract.returns:
        tests.append(test("returns_memory_of_its_own", f"check_fresh({op}, {sample})"))
    elif contract is not None:
        tests.append(test("returns_nothing", f"assert run({op}, {sample})[0] is None"))
    return tests


def _given_tests(split: Split, contract: OpContract | None, fresh: OpContract | None) -> list[str]:
    """Tests of the half that is given a buffer: it does what the other half does."""
    if contract is None or fresh is None:
        return []
    if [strip_alias(r.type) for r in fresh.returns] != [BaseType("Tensor")] * len(split.buffers):
        return []
    if len(split.buffers) > 1:
        return _several_tests(split.buffers, contract)
    (name,) = split.buffers
    names = [p.name for p in contract.parameters if not p.kw_only]
    if name in names:
        index = names.index(name)
        given = f"return (*args[:{index}], buffer, *args[{index}:]), kwargs"
    else:
        given = f'return args, kwargs | {{"{name}": buffer}}'
    tagged = Tag.OUT in contract.tags
    what = "returns_it" if tagged else "returns_nothing"
    filled = "with_buffer(sample, torch.empty_like(run(OP, sample)[0]))"
    return [
        _function(
            "with_buffer(sample: Call, buffer: Tensor) -> Call",
            '"""The same call of the op that is given a buffer."""',
            "args, kwargs = sample",
            given,
        ),
        '@pytest.mark.parametrize("held", [7, float("nan")])\n'
        + _function(
            f"test_out_fills_any_buffer_and_{what}(sample: Call, held: float) -> None",
            "expected, args, kwargs = run(OP, sample)",
            "if not expected.is_floating_point():",
            "    held = 1",
            "buffer = torch.full_like(expected, held)",
            "own_args, own_kwargs = with_buffer(copied(sample), buffer)",
            "torch.manual_seed(0)",
            "result = OUT(*own_args, **own_kwargs)",
            f"assert result is {'buffer' if tagged else 'None'}",
            "torch.testing.assert_close(buffer, expected, equal_nan=True)",
            "others = [t for t in tensors((own_args, own_kwargs)) if t is not buffer]",
            "torch.testing.assert_close(others, tensors((args, kwargs)), equal_nan=True)",
        ),
        _function(
            "test_out_changes_only_what_is_declared(sample: Call) -> None",
            f"check_declared(OUT, {filled})",
        ),
        _function(
            "test_out_passes_opcheck(sample: Call) -> None",
            f"check_op(OUT, {filled})",
        ),
    ]


def _several_tests(buffers: tuple[str, ...], contract: OpContract) -> list[str]:
    """The same for a half that is given several buffers."""
    names = [p.name for p in contract.parameters if not p.kw_only]
    if buffers[0] in names:
        index = names.index(buffers[0])
        given = f"return (*args[:{index}], *buffers, *args[{index}:]), kwargs"
    else:
        passed = ", ".join(f'"{name}": buffers[{i}]' for i, name in enumerate(buffers))
        given = f"return args, kwargs | {{{passed}}}"
    tagged = Tag.OUT in contract.tags
    what = "returns_them" if tagged else "returns_nothing"
    same = "[id(t) for t in result] == [id(b) for b in buffers]" if tagged else "result is None"
    filled = "with_buffers(sample, [torch.empty_like(t) for t in run(OP, sample)[0]])"
    return [
        _function(
            "with_buffers(sample: Call, buffers: list[Tensor]) -> Call",
            '"""The same call of the op that is given buffers."""',
            "args, kwargs = sample",
            given,
        ),
        '@pytest.mark.parametrize("held", [7, float("nan")])\n'
        + _function(
            f"test_out_fills_any_buffers_and_{what}(sample: Call, held: float) -> None",
            "expected, args, kwargs = run(OP, sample)",
            "buffers = [",
            "    torch.full_like(t, held if t.is_floating_point() else 1) for t in expected",
            "]",
            "own_args, own_kwargs = with_buffers(copied(sample), buffers)",
            "torch.manual_seed(0)",
            "result = OUT(*own_args, **own_kwargs)",
            f"assert {same}",
            "torch.testing.assert_close(buffers, list(expected), equal_nan=True)",
            "own = tensors((own_args, own_kwargs))",
            "others = [t for t in own if all(t is not b for b in buffers)]",
            "torch.testing.assert_close(others, tensors((args, kwargs)), equal_nan=True)",
        ),
        _function(
            "test_out_changes_only_what_is_declared(sample: Call) -> None",
            f"check_declared(OUT, {filled})",
        ),
        _function(
            "test_out_passes_opcheck(sample: Call) -> None",
            f"check_op(OUT, {filled})",
        ),
    ]


def _function(head: str, *lines: str) -> str:
    return "".join([f"def {head}:\n", *(f"    {line}\n" for line in lines)])

"""Whatever a call stands in: rewritten, it does the same things in the same order."""

from __future__ import annotations

import random
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_migrate_void_calls import HEAD, OP

from opscaffold.migrate.bindings import Bindings, Syntaxes
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.rewrite_file import rewrite
from opscaffold.migrate.sites import Sites
from opscaffold.source.project import load_project

PROGRAMS = 50


class Traced:
    """A tensor that tells what is done with it, and how often it was written to by then."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log, self.version = name, log, 0

    def __repr__(self) -> str:
        return f"{self.name}@{self.version}"

    def note(self, what: str, *others: Any) -> Traced:
        self.log.append(f"{what}({', '.join(map(repr, (self, *others)))})")
        return Traced(f"{what}{len(self.log)}", self.log)

    def __add__(self, other: Any) -> Traced:
        return self.note("add", other)

    def __getitem__(self, index: Any) -> Traced:
        return self.note("item", index)

    def __lt__(self, other: Any) -> bool:
        return bool(self.note("less", other).version == 0 and len(self.log) % 3)

    def __bool__(self) -> bool:
        self.note("truth")
        return len(self.log) % 2 == 0

    def __format__(self, spec: str) -> str:
        return self.note("format").name

    def m(self, *others: Any) -> Traced:
        return self.note("m", *others)


class Holder:
    """Something that holds a buffer, or none."""

    def __init__(self, buf: Any, log: list[str]) -> None:
        self.buf, self.log = buf, log

    def step(self) -> Traced:
        self.buf = Traced(f"step{len(self.log)}", self.log)
        return self.buf.note("step")


class Writer:
    """Writes random statements that hold calls of the op."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def one(self, *choices: str) -> str:
        return self.pick.choice(choices)

    def atom(self) -> str:
        return self.one("x", "b", "c", "x", "self.buf", "g()", "self.step()", "r")

    def call(self, depth: int) -> str:
        buffer = self.one("b", "c", "b", "m", "self.buf", "h()", "c.m()", "(w := h())")
        first = self.expr(depth - 1) if depth > 1 and self.pick.random() < 0.4 else self.atom()
        return self.one(
            f"double({first}, {buffer})",
            f"double({first}, out={buffer})",
            f"double({first}, {buffer}, {self.atom()})",
            f"double(out={buffer}, x={first})",
        )

    def expr(self, depth: int) -> str:
        if depth <= 0:
            return self.atom()
        if self.pick.random() < 0.45:
            return self.call(depth)
        a, b = self.expr(depth - 1), self.expr(depth - 2)
        if self.pick.random() < 0.5:
            a, b = b, a
        quoted = f'f"{{{a}}} {{{b}}}"' if '"' not in a + b else f"h({b})"
        return self.one(
            f"({a} + {b})", f"({a}).m({b})", f"h({a}, {b})", f"({a}, {b})[0]", f"[{a}, {b}]",
            f"({a} if {b} else x)", f"({a} and {b})", f"({b} or {a})", quoted,
            f"(w := {a})", f"({a} < {b})", f"[{a} for _ in (1, 2)]", f"(lambda: {a})()",
            f"{{1: {a}, 2: {b}}}", f"({a})[{b}]", f"h(*({a}, {b}))", f"h(k={a}, j={b})",
        )  # fmt: skip

    def statement(self) -> str:
        e, f = self.expr(3), self.expr(1)
        return self.one(
            f"r = {e}", f"r = {e}", f"return {e}", f"{self.call(2)}", f"r = {self.call(2)}",
            f"return {self.call(2)}", f"b = {self.call(1)}", f"r += {e}", f"r, w = {e}, {f}",
            f"if {e}: r = {f}", f"if {e}:\n    pass\nelif {f}:\n    r = x", f"assert {e}, {f}",
            f"for i in ({e},): r = {f}", f"r = w = {e}", f"r: Tensor = {e}", f"a = 1; r = {e}",
            f"if x: r = {self.call(1)}; w = 2", f"self.buf = {self.call(1)}", f"raise E({e})",
            f"with Open({e}) as r: w = {f}", f"match {e}:\n    case i: r = {f}",
        )  # fmt: skip

    def body(self) -> str:
        lines = ["r = w = c", *(self.statement() for _ in range(2)), "return r, w, b"]
        return "\n".join(lines)


def run(text: str, name: str, *, null: bool, into: int | None = None) -> list[str]:
    """What a function does, one thing a line, and what comes of it.

    ``into`` is where the mutable half takes the buffer, None before the split.
    """
    log: list[str] = []

    def traced(label: str) -> Callable[..., Traced]:
        def made(*args: Any, **kwargs: Any) -> Traced:
            return Traced(f"{label}{len(log)}", log).note(label, args, kwargs)

        return made

    def double(x: Any, out: Any = None, k: Any = 2.0) -> Any:
        if out is None:
            return Traced(f"fresh{len(log)}", log).note("fresh", x, k)
        written(out, x, k)
        return out

    def fresh(x: Any, k: Any = 2.0) -> Any:
        return double(x, None, k)

    def written(out: Any, x: Any, k: Any) -> None:
        log.append(f"given({x!r}, {out!r}, {k!r})")
        out.version += 1

    def first(out: Any, x: Any, k: Any = 2.0) -> None:
        written(out, x, k)

    def middle(x: Any, out: Any, k: Any = 2.0) -> None:
        written(out, x, k)

    class Open:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __enter__(self) -> Any:
            log.append("enter")
            return self.value

        def __exit__(self, *args: object) -> None:
            log.append("exit")

    class E(Exception):
        pass

    x, b, c = (Traced(n, log) for n in "xbc")
    buf = None if null else Traced("buf", log)
    names: dict[str, Any] = {"double": double if into is None else fresh, "Open": Open, "E": E}
    names["double_out"] = first if into == 0 else middle
    names |= {"Tensor": object}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of nonsense that is only to be compared
        exec(compile(text, "<program>", "exec"), names)
    holder = Holder(buf, log)
    try:
        result = names[name](x, b, c, buf, traced("g"), traced("h"), holder)
        log.append(f"returned {result!r}")
    except Exception as error:
        log.append(f"raised {type(error).__name__} {error.args!r}")
    log.append(f"left {x!r} {b!r} {c!r} {buf!r} {holder.buf!r}")
    return log


@pytest.mark.parametrize("into", [0, 1])
@pytest.mark.parametrize("seed", range(2))
def test_a_rewritten_program_does_the_same_in_the_same_order(
    seed: int, into: int, tmp_path: Path
) -> None:
    path = tmp_path.resolve() / "ops.py"
    functions = []
    for number in range(PROGRAMS):
        body = textwrap.indent(Writer(seed * PROGRAMS + number).body(), "    ")
        functions.append(f"{HEAD.replace('def f(', f'def f_{number}(')}{body}\n\n\n")
    path.write_text(OP + "".join(functions))
    project = load_project([path], path.parent)
    (op,), syntaxes = project.ops, Syntaxes()
    function = op.definition.function
    assert function is not None
    signature = replace(Signature.of(function, "out"), into=into)
    module = project.module_for(path)
    assert module is not None
    owners: dict[str, list[Any]] = {}
    for reference in project.references(op):
        node: Any = reference.node
        while node is not None and not getattr(node, "name", "").startswith("f_"):
            node = module.parents.get(node)
        if node is not None:
            owners.setdefault(node.name, []).append(reference)
    edits, rewritten = FileEdits(), []
    for name, references in owners.items():
        trial = Bindings(project, op, "double_out", "demo::double_out", syntaxes)
        sites = Sites(project, trial, signature, {})
        try:
            for reference in references:
                sites.plan(reference)
        except RefusalError:
            continue
        edits.update(trial.edits.get(path, FileEdits()))
        rewritten.append(name)
    assert len(rewritten) > PROGRAMS // 10
    text = rewrite(syntaxes.of(module), edits)
    after = "from __future__ import annotations\n" + text[text.index("def f_0") :]
    before = "from __future__ import annotations\n" + "".join(functions)
    for name in rewritten:
        for null in (False, True):
            assert run(after, name, null=null, into=into) == run(before, name, null=null), (
                name,
                functions[int(name[2:])],
                text[text.index(f"def {name}(") :][:900],
            )

"""Kernels that are functions which were there: read by ``--from``, and called as they are.

The function stands in a module of its own, as its author wrote it, or is imported there: the
names of the op's module cannot clash with its.
"""

# ruff: noqa: ARG002 -- the methods are those of every language
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from opscaffold.contract.model import Kind, ListType, Return
from opscaffold.contract.pytypes import return_annotation_text
from opscaffold.scaffold.arguments import Argument, returns_tensor, spread
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.from_spec import CLONE, DROP, KEEP, Wrapped
from opscaffold.scaffold.language import Imports, Language
from opscaffold.scaffold.layout import Group, quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.registration import fake_kernel, metadata_call, registration
from opscaffold.scaffold.spec import Additions, FakeMode, KernelLanguage, OpSpec, Setting

PACKAGE = "kernels"
_ENTRY, _ANY, _RESIZED = "op_kernel", "OpAny", "refuse_resized"


@dataclass(frozen=True, slots=True)
class Source:
    """What the templates of a wrapped kernel read.

    ``entry`` is what the op's module imports, ``fakes`` are the names of fake kernels by which it
    imports them, and ``any_name`` is what ``Any`` is called beside the author's names.
    """

    wrapped: Wrapped
    entry: str
    fakes: Mapping[str, str]
    any_name: str


def source_of(wrapped: Wrapped) -> Source:
    """The names that a kernel's module gets beside those of its author."""
    taken = set(re.findall(r"\w+", "".join([wrapped.code, *wrapped.fakes.values()])))
    fakes = {name: _free(f"op_{name}", taken) for name in wrapped.fakes}
    return Source(wrapped, _free(_ENTRY, taken), fakes, _free(_ANY, taken))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class WrappedFunction(Language):
    """A function that was there before the op."""

    word: ClassVar[KernelLanguage] = KernelLanguage.WRAPPED
    about: ClassVar[str] = "a function that you have: say --from path/to/module.py:function"
    package_template: ClassVar[str] = "wrapped"
    op_template: ClassVar[str] = "wrapped_op"

    def refusal(self, op: OpSpec, setting: Setting) -> str | None:
        """It takes a function."""
        if op.wraps is None:
            return "there is no function to wrap; say --from path/to/module.py:function"
        if op.family or op.autograd or op.additions != Additions():
            what = "a family" if op.family else "a backward" if op.autograd else "a further rule"
            return (
                f"{what} cannot be made of a function that is wrapped; write it by hand, as with "
                "register_autograd for a backward"
            )
        if not op.wraps.fake and any(isinstance(r.type, ListType) for r in op.contract.returns):
            return (
                "a rule gives the metadata of single Tensors, not how many a list holds; return "
                "a tuple, or allocate the list in sight"
            )
        return None

    def source(self, plan: OpPlan) -> object:
        """The function, and what it is imported as."""
        return source_of(_wrapped(plan))

    def imports(self, plan: OpPlan) -> Imports:
        """The kernel, and its fake where that was derived."""
        wrapped = _wrapped(plan)
        source = source_of(wrapped)
        fakes = [source.fakes[wrapped.fake]] if wrapped.fake else []
        local: dict[str, Sequence[str]] = {f"{PACKAGE}.{wrapped.file}": [source.entry, *fakes]}
        if any(form.kind is Kind.OUT for form in plan.forms):
            local[PACKAGE] = [_RESIZED]
        checked = _checks_results(plan)
        typing = ["Any"] if _takes_apart(plan) else []
        return Imports(typing, helpers=["check_buffer"] if checked else [], local=local)

    def kernel(self, plan: OpPlan) -> Function | None:
        """It stands in a module of its own."""
        return None

    def unneeded(self, plan: OpPlan) -> Sequence[str]:
        """What a placeholder would need, and a function does not."""
        unused = [] if _checks_results(plan) else ["check_buffer"]
        return [*unused, *([] if plan.needs_metadata else ["first_place"])]

    def registration(self, plan: OpPlan, form: Form, variable: str) -> Function:
        """The same registration, over a call of the function."""
        body = _Body(plan, form).lines()
        if plan.library and plan.refuses_gradients(form):
            guard = [quote(form.name), *spread(form.arguments)]
            body = [*plan.layout.call("", plan.names["refuse_reverse_mode"], guard), *body]
        return replace(registration(plan, form, variable), body=body)

    def fake(self, plan: OpPlan, form: Form, variable: str) -> Function | None:
        """The derived fake kernel, or one by the rule that was given."""
        made = fake_kernel(plan, form, variable)
        wrapped = _wrapped(plan)
        if not wrapped.fake:
            return made
        layout, result = plan.layout, plan.names["result"]
        annotation = return_annotation_text(form.registered.returns)
        entry = plan.names[source_of(wrapped).fakes[wrapped.fake]]
        call = layout.call(f"{result}: {annotation} = ", entry, _arguments(wrapped, fake=True))
        return replace(made, body=[*call, *layout.returning([result])])

    def promises(self, plan: OpPlan) -> list[str] | None:
        """The contract in words."""
        return [line for form in plan.forms for line in _promises(plan, form)]

    def raises(self, plan: OpPlan, form: Form) -> list[str]:
        """A buffer is looked at by what the function makes of it."""
        if form.kind is not Kind.OUT:
            return []
        return ["Raises ValueError for a buffer that the kernel resizes."]


def _wrapped(plan: OpPlan) -> Wrapped:
    if plan.op.wraps is None:
        raise TypeError(f"{plan.first.name} wraps no function")
    return plan.op.wraps


def _checks_results(plan: OpPlan) -> bool:
    """Whether what the function returns is held to a rule that was given."""
    by_rule = not _wrapped(plan).fake and any(plan.allocates(form) for form in plan.forms)
    return by_rule and plan.op.fake.mode is not FakeMode.DYNAMIC


def _takes_apart(plan: OpPlan) -> bool:
    wrapped = _wrapped(plan)
    alone = plan.first.kind in (Kind.INPLACE, Kind.OUT)
    return (
        not alone
        and wrapped.returns == "tuple"
        and any(r != KEEP for r in wrapped.results)
        and any(r != DROP for r in wrapped.results)
    )


def _arguments(wrapped: Wrapped, *, fake: bool = False) -> list[str]:
    """The arguments of a call of the function. A fake kernel takes no absent ones."""
    words: list[str] = []
    bare = True
    for number, name in enumerate(wrapped.parameters):
        absent = name in wrapped.absent
        if absent and fake:
            continue
        bare = bare and number < wrapped.positional and not absent
        words.append(name if bare else f"{name}={'None' if absent else name}")
    return words


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of the function that is registered."""

    plan: OpPlan
    form: Form

    def lines(self) -> Lines:
        form = self.form
        if form.kind in (Kind.INPLACE, Kind.OUT):
            return self.writing()
        kept = [n for n, action in enumerate(_wrapped(self.plan).results) if action != DROP]
        if not kept:
            return [*self.call(""), *self.counting()]
        return self.returning(kept)

    def call(self, prefix: str, suffix: str = "") -> Lines:
        wrapped = _wrapped(self.plan)
        entry = self.plan.names[source_of(wrapped).entry]
        group = Group(f"{entry}(", tuple(_arguments(wrapped)), ")")
        return self.plan.layout.statement(prefix, group, suffix)

    def counting(self) -> Lines:
        written = [Argument(p) for p in self.form.registered.parameters if p.mutated]
        if not self.plan.library or not written:
            return []
        return self.plan.layout.call("", self.plan.names["count_writes"], spread(tuple(written)))

    def writing(self) -> Lines:
        layout, names = self.plan.layout, self.plan.names
        written = [a.name for a in self.form.written]
        lines: Lines = []
        if self.form.kind is Kind.OUT:
            sizes = Group("[", tuple(f"{name}.shape" for name in written), "]")
            lines += layout.statement(f"{names['sizes']} = ", sizes)
        lines += self.call("")
        if self.form.kind is Kind.OUT:
            given = [quote(self.form.name), names["sizes"], *written]
            lines += layout.call("", names[_RESIZED], given)
        lines += self.counting()
        return lines + (layout.returning(written) if self.form.registered.returns else [])

    def returning(self, kept: list[int]) -> Lines:
        """Hand on the results that the op returns, copied where they may share memory."""
        wrapped, layout, names = _wrapped(self.plan), self.plan.layout, self.plan.names
        returns = self.form.contract.returns
        result = names["result"]
        whole = return_annotation_text(returns)
        if wrapped.returns != "tuple":
            lines = [*self.call(f"{result}: {whole} = "), *self.counting()]
            lines += self.checked(result, returns[0])
            return [*lines, *layout.returning([self.handed(result, returns[0], kept[0])])]
        if not _takes_apart(self.plan) and not self.by_rule():
            return [
                *self.call(f"{result}: {whole} = "),
                *self.counting(),
                *layout.returning([result]),
            ]
        if not _takes_apart(self.plan):
            parts = [names[f"result{n}"] for n in kept]
            lines = [*self.call(f"{result}: {whole} = "), *self.counting()]
            lines += layout.line(f"{', '.join(parts)} = {result}")
            for part, returned in zip(parts, returns, strict=True):
                lines += self.checked(part, returned)
            values = [self.handed(p, r, n) for p, r, n in zip(parts, returns, kept, strict=True)]
            return [*lines, *layout.returning(values)]
        lines = [*self.call(f"{result}: tuple[Any, ...] = "), *self.counting()]
        parts = [names[f"result{n}"] for n in kept]
        for part, n, returned in zip(parts, kept, returns, strict=True):
            lines += layout.line(f"{part}: {return_annotation_text((returned,))} = {result}[{n}]")
            lines += self.checked(part, returned)
        values = [self.handed(p, r, n) for p, r, n in zip(parts, returns, kept, strict=True)]
        return [*lines, *layout.returning(values)]

    def by_rule(self) -> bool:
        """Whether results are held to a rule that the fake kernel follows."""
        return not _wrapped(self.plan).fake and self.plan.allocates(self.form)

    def checked(self, name: str, returned: Return) -> Lines:
        """Raise where a result has not the metadata that the rule says."""
        if not self.by_rule() or not _checks_results(self.plan) or not returns_tensor(returned):
            return []
        given = [quote(self.form.name), quote("what the kernel returns"), name]
        check = self.plan.names["check_buffer"]
        return self.plan.layout.call("", check, [*given, metadata_call(self.plan)])

    def handed(self, name: str, returned: Return, index: int) -> str:
        """The expression for one result."""
        if not returns_tensor(returned):
            return name
        if _wrapped(self.plan).results[index] == CLONE:
            if isinstance(returned.type, ListType):
                item = self.plan.names["item"]
                return f"[{item}.clone() for {item} in {name}]"
            return f"{name}.clone()"
        # A fake kernel by a rule returns contiguous tensors.
        dynamic = self.plan.dynamic and not _wrapped(self.plan).fake
        return f"{name}.contiguous()" if self.by_rule() or dynamic else name


def _promises(plan: OpPlan, form: Form) -> list[str]:
    written = ", ".join(a.name for a in form.written)
    wrapped = _wrapped(plan)
    lines = [f"Its kernel is {wrapped.source}."]
    if form.kind is Kind.INPLACE:
        return [*lines, f"It writes {written} and nothing else, and returns that very tensor."]
    if form.kind is Kind.OUT:
        return [
            *lines,
            f"It writes all of {written} without reading it, and returns it.",
            "A buffer that the kernel would resize is refused.",
        ]
    if form.kind is Kind.MUTABLE:
        lines.append(f"It writes {written} and no other argument.")
    else:
        lines.append("It writes none of its arguments.")
    if any(returns_tensor(r) for r in form.contract.returns):
        lines.append(
            "What it returns is new: it shares memory with no argument and no other return."
        )
    if wrapped.fake:
        lines.append("Its fake kernel is what of the kernel allocates the results.")
    elif _checks_results(plan):
        lines.append("A result whose metadata is not as the fake kernel says is refused.")
    return lines

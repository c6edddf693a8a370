"""The backward of the placeholder, in the form that ``register_autograd`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscaffold.contract.model import Return
from opscaffold.scaffold.arguments import Argument, Shape, returns_list, returns_tensor
from opscaffold.scaffold.expressions import weighted
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.layout import Group, Layout
from opscaffold.scaffold.names import Names
from opscaffold.scaffold.placeholder import Placeholder
from opscaffold.scaffold.spec import FakeMode
from opscaffold.scaffold.targets import Target

# The names by which PyTorch calls setup_context (FACTS section 3).
SETUP_NAMES = ("ctx", "inputs", "output", "keyword_only_inputs")


@dataclass(frozen=True, slots=True)
class Autograd:
    """The two functions of a backward, and the call that registers them."""

    setup_head: list[str]
    setup_body: list[str]
    backward_head: list[str]
    backward_body: list[str]
    register: list[str]


Call = tuple[str, list[str], list[str]]
"""A function, and what it is given before and behind other arguments."""


def autograd_of(
    form: Form, placeholder: Placeholder, fresh: Sequence[Target], register: Call
) -> Autograd:
    """The backward of a functional op. ``register`` takes backward and setup_context."""
    return _Writer(form, placeholder, fresh, register).write()


class _Writer:
    def __init__(
        self, form: Form, placeholder: Placeholder, fresh: Sequence[Target], register: Call
    ) -> None:
        self.form = form
        self.p = placeholder
        self.fresh = fresh
        self.register = register
        self.layout: Layout = placeholder.layout
        self.names: Names = placeholder.names
        self.lists = [a for a in placeholder.tensors if a.is_list]
        self.single = [a for a in placeholder.tensors if not a.is_list]

    def write(self) -> Autograd:
        setup, backward = self.names["_setup_context"], self.names["_backward"]
        function, before, behind = self.register
        words = ["ctx: Any", "inputs: tuple[Any, ...]", "output: Any"]
        if self._keyword_only():
            words.append("keyword_only_inputs: dict[str, Any]")
        return Autograd(
            setup_head=self.layout.define(setup, words, "None"),
            setup_body=self._setup(),
            backward_head=self.layout.define(
                backward, ["ctx: Any", *self._gradient_parameters()], "tuple[Any, ...]"
            ),
            backward_body=self._backward(),
            register=self.layout.call(
                "",
                function,
                [*before, backward, f"setup_context={setup}", *behind],
                depth=0,
            ),
        )

    def _keyword_only(self) -> list[Argument]:
        return [a for a in self.form.arguments if a.parameter.kw_only]

    def _local(self, name: str) -> str:
        """A parameter's name inside these functions, where four names are taken."""
        return self.names[f"{name}_input"] if name in SETUP_NAMES else name

    def _setup(self) -> list[str]:
        positional = [self._local(a.name) for a in self.form.arguments if not a.parameter.kw_only]
        group = Group("(", tuple(positional), ")", bare=len(positional) > 1, lone_comma=True)
        lines = self.layout.statement("", group, " = inputs") if positional else []
        for argument in self._keyword_only():
            if argument not in self.p.numbers:
                continue
            # Tensors are never keyword-only here: custom_op refuses that without Tag.out.
            name = argument.name
            lines += self.layout.line(f'{self._local(name)} = keyword_only_inputs["{name}"]')
        saved = [self._local(a.name) for a in self.single]
        saved += [f"*{self._iterable(a, self._local(a.name))}" for a in self.lists]
        lines += self.layout.call("", "ctx.save_for_backward", saved)
        if len(self.lists) > 1:
            lengths = [f"len({self._iterable(a, self._local(a.name))})" for a in self.lists]
            lines += self.layout.statement("ctx.lengths = ", Group("[", tuple(lengths), "]"))
        if self.p.numbers:
            terms = [self._number(n, a) for n, a in enumerate(self.p.numbers, 1)]
            lines += self.layout.adding("ctx.factor", terms)
        return lines

    def _iterable(self, argument: Argument, name: str) -> str:
        return f"({name} or [])" if argument.shape is Shape.OPTIONAL_LIST else name

    def _number(self, weight: int, argument: Argument) -> str:
        return weighted(weight, self.p.number(argument, self._local(argument.name)))

    def _gradient_names(self) -> list[str]:
        count = len(self.form.contract.returns)
        return [self.names["grad" if count == 1 else f"grad{n}"] for n in range(count)]

    def _gradient_parameters(self) -> list[str]:
        returns = self.form.contract.returns
        return [
            f"{name}: {_gradient_type(returned)}"
            for name, returned in zip(self._gradient_names(), returns, strict=True)
        ]

    def _backward(self) -> list[str]:
        p, total = self.p, self.names["grad_total"]
        lines = self._unpack()
        terms: list[str] = []
        tensors = iter(self.fresh)
        for name, returned in zip(self._gradient_names(), self.form.contract.returns, strict=True):
            if not returns_tensor(returned):
                continue
            for n, multiple in enumerate(next(tensors).multiples()):
                terms.append(weighted(multiple, f"{name}[{n}]" if returns_list(returned) else name))
        lines += self.layout.adding(total, terms)
        if p.numbers:
            lines += self.layout.line(f"{total} = {total} * ctx.factor")
        if p.elementwise and p.fake.mode is FakeMode.DYNAMIC:
            mask = self.names["mask"]
            lines += self.layout.line(f"{mask} = {self._like()} > 0")
            zeros = self.names["zeros"]
            lines += self.layout.line(f"{zeros} = {total}.new_zeros({mask}.shape)")
            lines += self.layout.line(f"{total} = {zeros}.masked_scatter({mask}, {total})")
        elif not p.elementwise:
            lines += self.layout.line(f"{total} = {total}.sum()")
        return [*lines, *self._gradients()]

    def _like(self) -> str:
        name = self.p.like.removesuffix("[0]")
        return self._local(name) + self.p.like.removeprefix(name)

    def _unpack(self) -> list[str]:
        single = [self._local(a.name) for a in self.single]
        if not self.lists:
            group = Group("(", tuple(single), ")", bare=len(single) > 1, lone_comma=True)
            return self.layout.statement("", group, " = ctx.saved_tensors")
        rest = self._local(self.lists[0].name) if len(self.lists) == 1 else self.names["rest"]
        starred = f"*{rest}"
        if single:
            group = Group("(", (*single, starred), ")", bare=True)
            lines = self.layout.statement("", group, " = ctx.saved_tensors")
        else:
            lines = self.layout.line(f"{rest} = list(ctx.saved_tensors)")
        if len(self.lists) == 1:
            return lines
        for n, argument in enumerate(self.lists):
            length = f"ctx.lengths[{n}]"
            lines += self.layout.line(f"{self._local(argument.name)} = {rest}[: {length}]")
            if n < len(self.lists) - 1:
                lines += self.layout.line(f"{rest} = {rest}[{length} :]")
        return lines

    def _gradients(self) -> list[str]:
        """One gradient for each positional argument, None for those that are no tensors."""
        lines: list[str] = []
        results: list[str] = []
        for argument in self.form.arguments:
            if argument.parameter.kw_only:
                continue
            if not argument.is_tensor:
                results.append("None")
                continue
            name = self.names[f"grad_{argument.name}"]
            lines += self._gradient(argument, name)
            results.append(name)
        if not self.lists and not any(returns_list(r) for r in self.form.contract.returns):
            # A tuple always: PyTorch takes no list.
            return [*lines, *self._tuple_return(results)]
        group = Group("(", tuple(results), ")", lone_comma=len(results) == 1)
        grads = self.names["grads"]
        lines += self.layout.statement(f"{grads} = ", group)
        lines += self.layout.comment(
            "Arguments left at their defaults are not passed on, and beside a list PyTorch takes "
            "no gradient for them."
        )
        return [*lines, *self.layout.line(f"return {grads}[: len(ctx.needs_input_grad)]")]

    def _tuple_return(self, results: list[str]) -> list[str]:
        if len(results) == 1:
            return self.layout.line(f"return ({results[0]},)")
        return self.layout.returning(results)

    def _gradient(self, argument: Argument, name: str) -> list[str]:
        weighted_total = weighted(self.p.weight(argument), self.names["grad_total"])
        fit, layout = self.names["fit_gradient"], self.layout
        given, item = self._local(argument.name), self.names["item"]
        if argument.shape is Shape.OPTIONAL:
            lines = layout.line(f"{name} = None")
            lines += layout.line(f"if {given} is not None:")
            return [*lines, *layout.call(f"{name} = ", fit, [weighted_total, given], 2)]
        if not argument.is_list:
            return layout.call(f"{name} = ", fit, [weighted_total, given])
        grads = f"[{fit}({weighted_total}, {item}) for {item} in {given}]"
        if argument.shape is Shape.GAPPED_LIST:
            lines = layout.line(f"{name} = None")
            lines += layout.line(f"if all({item} is not None for {item} in {given}):")
            return [*lines, *layout.line(f"{name} = {grads}", 2)]
        return layout.line(f"{name} = {grads}")


def _gradient_type(returned: Return) -> str:
    if returns_list(returned):
        return "list[Tensor]"
    return "Tensor" if returns_tensor(returned) else "None"

"""The placeholder as a Triton kernel, and the function that launches it.

One launch fills one buffer: each program adds up a block of elements, or, where results are made
of sums, all elements of every input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opscaffold.scaffold.arguments import Argument, Shape
from opscaffold.scaffold.expressions import weighted
from opscaffold.scaffold.layout import Group, quote
from opscaffold.scaffold.plan import Function, Lines, OpPlan
from opscaffold.scaffold.targets import Target

BLOCK = 1024
HELPERS = ("jit", "tl", "wrap_triton", "blocks", "dense", "scratch")
"""What the module may import from ``_triton``."""

# Dtypes whose numbers float32 does not hold.
_WIDE = ("float64", "int64")


@dataclass(frozen=True, slots=True)
class _Input:
    """A tensor that is read: in Python, and in the kernel."""

    argument: Argument
    pointer: str
    count: str

    @property
    def optional(self) -> bool:
        return self.argument.shape is Shape.OPTIONAL


class TritonCode:
    """The two functions of one module."""

    def __init__(self, plan: OpPlan) -> None:
        """Settle the names inside the kernel."""
        self.plan = plan
        self.layout = plan.layout
        self.names = plan.names
        self.p = plan.placeholder
        self.sums = bool(self.p.tensors) and not self.p.elementwise
        self.targets = [*plan.mutated, *plan.fresh]
        taken = {"tl", "count", "out_ptr", "factor_ptr", "multiple", "DOUBLE", "BLOCK"}
        taken |= {"offsets", "inside", "acc", "total", "value", "at", "start"}
        self.inputs = [
            _Input(a, _free(f"{a.name}_ptr", taken), _free(f"{a.name}_count", taken))
            for a in self.p.tensors
        ]

    # The kernel.

    def kernel(self) -> Lines:
        """The kernel under its decorator, and the size of a block."""
        jit, tl = self.names["jit"], self.names["tl"]
        words = [f'{name}: "Any"' for name in self._kernel_arguments()]
        words += [f"DOUBLE: {tl}.constexpr", f"BLOCK: {tl}.constexpr"]
        head = self.layout.define(self.names["_triton_kernel"], words, "None")
        block = self.layout.line(f"{self.names['_BLOCK']} = {BLOCK}", 0)
        return [*block, "", "", f"@{jit}", *head, *self._kernel_body()]

    def _kernel_arguments(self) -> list[str]:
        names: list[str] = []
        for given in self.inputs:
            names.append(given.pointer)
            names += [given.count] if self.sums else []
        names += ["factor_ptr"] if self.p.numbers else []
        names += ["multiple"] if len(self.targets) > 1 else []
        return [*names, "out_ptr", "count"]

    def _kernel_body(self) -> Lines:
        tl, line = self.names["tl"], self.layout.line
        lines = line(f"offsets = {tl}.program_id(0) * BLOCK + {tl}.arange(0, BLOCK)")
        lines += line("inside = offsets < count")
        if self.inputs or self.p.numbers:
            lines += line(f"acc = {tl}.float64 if DOUBLE else {tl}.float32")
        lines += self._summing() if self.sums else self._adding()
        terms = [self._total()] if self.inputs else []
        terms += [f"{tl}.load(factor_ptr).to(acc)"] if self.p.numbers else []
        multiple = "multiple" if len(self.targets) > 1 else str(self.targets[0].multiple)
        if terms:
            lines += line(f"value = {' * '.join(terms)}")
        value = f"{multiple} * {'value' if terms else '1.0'}"
        return [*lines, *line(f"{tl}.store(out_ptr + offsets, {value}, mask=inside)")]

    def _total(self) -> str:
        return f"{self.names['tl']}.sum(total)" if self.sums else "total"

    def _adding(self) -> Lines:
        """Statements that add up one block of every input."""
        lines: Lines = []
        started = bool(self.inputs) and self.inputs[0].optional
        if started:
            lines += self._zero()
        for given in self.inputs:
            load = f"{self.names['tl']}.load({given.pointer} + offsets, mask=inside).to(acc)"
            term = weighted(self.p.weight(given.argument), load)
            if given.optional:
                lines += self.layout.line(f"if {given.pointer} is not None:")
                lines += self.layout.line(f"total += {term}", 2)
            else:
                lines += self.layout.line(f"total {'+=' if started else '='} {term}")
                started = True
        return lines

    def _zero(self) -> Lines:
        return self.layout.line(f"total = {self.names['tl']}.zeros((BLOCK,), acc)")

    def _summing(self) -> Lines:
        """Statements that add up all elements of every input, a block at a time."""
        tl = self.names["tl"]
        lines = self._zero()
        for given in self.inputs:
            depth = 1
            if given.optional:
                lines += self.layout.line(f"if {given.pointer} is not None:")
                depth = 2
            lines += self.layout.line(f"for start in range(0, {given.count}, BLOCK):", depth)
            lines += self.layout.line(f"at = start + {tl}.arange(0, BLOCK)", depth + 1)
            mask = f"mask=at < {given.count}, other=0"
            load = f"{tl}.load({given.pointer} + at, {mask}).to(acc)"
            term = weighted(self.p.weight(given.argument), load)
            lines += self.layout.line(f"total += {term}", depth + 1)
        return lines

    # Its launch.

    def launcher(self) -> Function:
        """The Python function that all ops of the module share."""
        inputs = [a.declaration for a in self.plan.first.arguments]
        buffers = [f"{t.name}: Tensor" for t in self.plan.fresh]
        head = self.layout.define(self.names["_kernel"], [*inputs, *buffers], "None")
        lines: Lines = []
        if self.p.numbers:
            lines += self.layout.adding(self.names["factor"], self.p.factor_terms(), "float")
        return Function(head, [*lines, *(self._each() if self._apart() else self._only())])

    def _apart(self) -> bool:
        """Whether results must stand apart until all inputs are read."""
        target = self.targets[0]
        written = bool(self.plan.mutated) and self.sums
        return len(self.targets) > 1 or written or target.shape is Shape.OPTIONAL

    def _only(self) -> Lines:
        """Fill one buffer, in its own memory where a kernel can."""
        buffer, filled = self.targets[0].name, self.names["filled"]
        lines = self.layout.line(f"{filled} = {self.names['scratch']}({buffer})")
        lines += self._launch(buffer, 1)
        lines += self.layout.line(f"if {filled} is not {buffer}:")
        return [*lines, *self.layout.line(f"{buffer}.copy_({filled})", 2)]

    def _each(self) -> Lines:
        """Fill memory of its own for each buffer, then copy."""
        names, line = self.names, self.layout.line
        buffer, filled, results = names["buffer"], names["filled"], names["results"]
        several = len(self.targets) > 1
        pairs = tuple(self._pair(t, several=several) for t in self.targets)
        wanted = f"{buffer}, {names['multiple']}" if several else buffer
        lines = line(f"{results}: list[tuple[Tensor, Tensor]] = []")
        over = Group("(", pairs, ")", lone_comma=len(pairs) == 1)
        lines += self.layout.statement(f"for {wanted} in ", over, ":")
        if any(t.shape is Shape.OPTIONAL for t in self.targets):
            lines += line(f"if {buffer} is None:", 2)
            lines += line("continue", 3)
        made = [buffer, "memory_format=torch.contiguous_format"]
        lines += self.layout.call(f"{filled} = ", "torch.empty_like", made, 2)
        lines += self._launch(buffer, 2)
        lines += line(f"{results}.append(({buffer}, {filled}))", 2)
        lines += self.layout.comment("Written last: an input may be among them.")
        lines += line(f"for {buffer}, {filled} in {results}:")
        return [*lines, *line(f"{buffer}.copy_({filled})", 2)]

    def _pair(self, target: Target, *, several: bool) -> str:
        return f"({target.name}, {target.multiple})" if several else target.name

    def _launch(self, buffer: str, depth: int) -> Lines:
        names, filled = self.names, self.names["filled"]
        shape = "" if self.sums else f", {buffer}.shape"
        given: list[str | Group] = []
        for each in self.inputs:
            name = each.argument.name
            given.append(f"{names['dense']}({name}{shape})")
            if self.sums:
                none = f"0 if {name} is None else {name}.numel()"
                given.append(none if each.optional else f"{name}.numel()")
        lines: Lines = []
        if self.p.numbers:
            factor = names["factor_tensor"]
            lines += self.layout.comment("Triton takes a Python float as float32.", depth)
            told = ["()", names["factor"], "dtype=torch.float64", f"device={buffer}.device"]
            lines += self.layout.call(f"{factor} = ", "torch.full", told, depth)
            given.append(factor)
        given += [names["multiple"]] if len(self.targets) > 1 else []
        wide = ", ".join(f"torch.{dtype}" for dtype in _WIDE)
        given += [filled, f"{filled}.numel()", f"DOUBLE={buffer}.dtype in ({wide})"]
        given.append(f"BLOCK={names['_BLOCK']}")
        grid = f"{names['blocks']}({filled}.numel(), {names['_BLOCK']})"
        kernel = f"{names['wrap_triton']}({names['_triton_kernel']})[{grid}]"
        return [*lines, *self.layout.call("", kernel, given, depth)]


def decorator(plan: OpPlan, qualname: str, written: Iterable[str]) -> Lines:
    """``triton_op``, which shows compilers the kernel."""
    names = tuple(map(quote, written))
    mutates: str | Group = Group("mutates_args={", names, "}") if names else "mutates_args=()"
    return plan.layout.call("@", "torch.library.triton_op", [quote(qualname), mutates], depth=0)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name

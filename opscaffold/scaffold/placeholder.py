"""The arithmetic that a generated op does until its author replaces it.

It adds up all tensors, each with its own weight, times a factor made of all numbers, and gives
each output its own multiple of that: two arguments or outputs mixed up never go unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscaffold.scaffold.arguments import Argument, Shape, spread
from opscaffold.scaffold.dialect import PYTORCH, Dialect, Place
from opscaffold.scaffold.expressions import (
    number_text,
    or_default,
    tuple_text,
    weighted,
    words_of,
)
from opscaffold.scaffold.layout import Group, Layout
from opscaffold.scaffold.names import Names
from opscaffold.scaffold.spec import FakeMode, FakeSpec
from opscaffold.scaffold.targets import Target

# The size that the placeholder of a dynamic op without tensors "finds".
DYNAMIC_SIZE = 3


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The arithmetic over ``reads``, by the rule ``fake``."""

    reads: tuple[Argument, ...]
    fake: FakeSpec
    names: Names
    layout: Layout
    # The first buffer of an out= op: it says dtype and device where no input does.
    buffer: Argument | None = None
    # Whether an input is written before all outputs are: the value must not be that input.
    overwrites: bool = False
    dialect: Dialect = PYTORCH

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """The tensor arguments that are read."""
        return tuple(a for a in self.reads if a.is_tensor)

    @property
    def plain(self) -> tuple[Argument, ...]:
        """Those that are always given and single."""
        return tuple(a for a in self.tensors if a.is_plain_tensor)

    @property
    def plain_first(self) -> str:
        """The name of the first tensor that is always given and single, or nothing."""
        return self.plain[0].name if self.plain else ""

    @property
    def numbers(self) -> tuple[Argument, ...]:
        """The arguments that make up the factor."""
        placing = () if self.like else ("ScalarType", "Device")
        return tuple(
            a
            for a in self.reads
            if not a.is_tensor and a.base not in placing and not _arrives_as_int(a)
        )

    @property
    def like(self) -> str:
        """The tensor whose dtype and device outputs take, as an expression, or nothing."""
        name = self.fake.like
        if self.fake.mode is FakeMode.BROADCAST:
            return self.plain[0].name
        for argument in self.tensors:
            if argument.name == name:
                return f"{name}[0]" if argument.is_list else name
        return ""

    @property
    def elementwise(self) -> bool:
        """Whether outputs follow the inputs element by element, rather than their sums."""
        return bool(self.like) and self.fake.mode is not FakeMode.EXPRESSION

    @property
    def value_is_tensor(self) -> bool:
        """Whether the common value is a Tensor, not a number."""
        return bool(self.tensors)

    def weight(self, argument: Argument) -> int:
        """What a tensor counts in the sum."""
        return 1 + self.tensors.index(argument)

    def value_lines(self) -> list[str]:
        """Statements that compute the common value; ``value`` names it."""
        lines = self._total_lines()
        if self.numbers:
            lines += self.layout.adding(self.names["factor"], self.factor_terms(), "float")
        if lines and self.tensors and self.numbers:
            total, factor = self.total, self.names["factor"]
            lines += self.layout.line(f"{self.names['value']} = {total} * {factor}")
        return lines

    @property
    def total(self) -> str:
        """The sum of the tensors."""
        lone = len(self.tensors) == 1 and self.elementwise and not self.tensors[0].is_list
        lone = lone and not self._copies and self.dialect.reads_as_is
        return self.tensors[0].name if lone else self.names["total"]

    @property
    def _copies(self) -> bool:
        """Whether a sum of one tensor has to be a copy of it. Times a factor, it is one."""
        return self.overwrites and self.elementwise and not self.numbers

    @property
    def value(self) -> str:
        """The common value: sum times factor."""
        if not self.tensors:
            return self.names["factor"] if self.numbers else "1.0"
        return self.names["value"] if self.numbers else self.total

    def factor_terms(self) -> list[str]:
        """The summands of the factor."""
        return [
            weighted(n, self.number(argument, argument.name))
            for n, argument in enumerate(self.numbers, 1)
        ]

    def number(self, argument: Argument, name: str) -> str:
        """A number made of an argument that is no tensor and is called ``name`` in code."""
        return number_text(argument, name, self.names)

    def selected(self, multiple: int) -> str:
        """A result whose size only the data tells; ``mask`` says which elements it has."""
        result = f"{multiple} * {self.value}"
        place = Place(self.dtype_text(), self.device_text())
        if self.like:
            return self.dialect.selected(result, self.names["mask"], place)
        scalar = not self.value_is_tensor
        return self.dialect.made(f"({DYNAMIC_SIZE},)", result, place, scalar=scalar)

    def _total_lines(self) -> list[str]:
        total = self.names["total"]
        if not self.tensors or self.total != total:
            return []
        first: Argument | None = None
        terms = [weighted(self.weight(a), self._term(a.name)) for a in self.plain]
        if not terms and self.elementwise:
            first = next(a for a in self.tensors if self.like == f"{a.name}[0]")
            terms = [weighted(self.weight(first), self._term(self.like))]
        if not terms:
            terms = [self.dialect.zero()]
        alone = [self.dialect.read(name) for name in (self.plain_first, self.like)]
        if self._copies and len(terms) == 1 and terms[0] in alone:
            terms = [self.dialect.copied(terms[0])]
        lines = self.layout.adding(total, terms)
        for argument in self.tensors:
            if not argument.is_plain_tensor:
                lines += self._adding(argument, skip_first=argument is first)
        return lines

    def _adding(self, argument: Argument, *, skip_first: bool) -> list[str]:
        name, total = argument.name, self.names["total"]
        gapped = argument.shape is Shape.GAPPED_LIST
        # Two loops over elements of different types cannot share a variable under mypy.
        item = self.names["maybe" if gapped else "item"]

        def add(text: str, depth: int) -> list[str]:
            term = weighted(self.weight(argument), self._term(text))
            return self.layout.line(f"{total} = {total} + {term}", depth)

        if argument.shape is Shape.OPTIONAL:
            return [*self.layout.line(f"if {name} is not None:"), *add(name, 2)]
        over = f"{name} or []" if argument.shape is Shape.OPTIONAL_LIST else name
        lines = self.layout.line(f"for {item} in {over}{'[1:]' if skip_first else ''}:")
        if gapped:
            lines += self.layout.line(f"if {item} is not None:", 2)
            return [*lines, *add(item, 3)]
        return [*lines, *add(item, 2)]

    def _term(self, text: str) -> str:
        numbers = self.dialect.read(text)
        return numbers if self.elementwise else f"{numbers}.sum()"

    def writing(self, tensor: str, multiple: int) -> str:
        """The statement that fills one tensor."""
        numbers = f"{multiple} * {self.value}"
        return self.dialect.writing(tensor, numbers, scalar=not self.value_is_tensor)

    def writing_lines(self, targets: Sequence[Target]) -> list[str]:
        """Statements that fill buffers: arguments, or what was allocated for returns."""
        item = self.names["item"]
        lines: list[str] = []
        for target in targets:
            write = self.writing(target.name, target.multiple)
            if target.shape is Shape.PLAIN:
                lines += self.layout.line(write)
            elif target.shape is Shape.OPTIONAL:
                lines += self.layout.line(f"if {target.name} is not None:")
                lines += self.layout.line(write, 2)
            else:
                over = (
                    f"{target.name} or []" if target.shape is Shape.OPTIONAL_LIST else target.name
                )
                lines += self.layout.line(f"for {item} in {over}:")
                lines += self.layout.line(self.writing(item, target.multiple), 2)
        return lines

    def metadata_inputs(self) -> tuple[Argument, ...]:
        """The arguments that the rule for an output's metadata reads."""
        wanted = set(words_of(self.fake.shape)) | {self.like.removesuffix("[0]")}
        if self.fake.mode is FakeMode.BROADCAST:
            wanted |= {a.name for a in self.plain}
        if not self.like:
            wanted |= {a.name for a in (self.dtype_argument, self.device_argument) if a}
            wanted |= {a.name for a in self.tensors if self.finds_place}
        found = tuple(a for a in self.reads if a.name in wanted)
        return found if self.like or self.buffer is None else (*found, self.buffer)

    @property
    def dtype_argument(self) -> Argument | None:
        """The argument that says the outputs' dtype, where no tensor does."""
        return next((a for a in self.reads if a.base == "ScalarType"), None)

    @property
    def device_argument(self) -> Argument | None:
        """The argument that says where the outputs are, where no tensor does."""
        return next((a for a in self.reads if a.base == "Device"), None)

    @property
    def finds_place(self) -> bool:
        """Whether dtype and device are those of whichever tensor is given first."""
        return bool(self.tensors) and not self.like and self.buffer is None

    def place_lines(self, helper: str) -> list[str]:
        """Statements before ``dtype_text`` and ``device_text``; ``helper`` is ``first_place``."""
        if not self.finds_place:
            return []
        targets = f"{self.names['dtype']}, {self.names['device']}"
        return self.layout.call(f"{targets} = ", helper, spread(self.tensors))

    def dtype_text(self) -> str:
        """The outputs' dtype."""
        if self.like or self.buffer:
            return f"{self.like or self._buffer_name}.dtype"
        default = self.names["dtype"] if self.finds_place else "torch.float32"
        return or_default(self.dtype_argument, default)

    def device_text(self) -> str:
        """The outputs' device."""
        if self.like or self.buffer:
            return f"{self.like or self._buffer_name}.device"
        default = self.names["device"] if self.finds_place else 'torch.device("cpu")'
        return or_default(self.device_argument, default)

    @property
    def _buffer_name(self) -> str:
        return self.buffer.name if self.buffer else ""

    def metadata_lines(self, depth: int = 1) -> tuple[list[str], str, str]:
        """Statements before it, and the expressions for an output's shape and dtype."""
        mode, plain = self.fake.mode, [a.name for a in self.plain]
        if mode is FakeMode.EXPRESSION:
            return [], tuple_text(self.fake.shape), self.dtype_text()
        if mode is FakeMode.SAME or len(plain) == 1:
            return [], f"{self.like}.shape", self.dtype_text()
        shape, dtype = self.names["shape"], self.names["dtype"]
        lines = self.layout.call(
            f"{shape} = ", "torch.broadcast_shapes", [f"{n}.shape" for n in plain], depth
        )
        promoted = f"{plain[0]}.dtype"
        for name in plain[1:]:
            lines += self.layout.call(
                f"{dtype} = ", "torch.promote_types", [promoted, f"{name}.dtype"], depth
            )
            promoted = dtype
        return lines, shape, dtype

    def reference_lines(
        self, mutated: Sequence[Target], fresh: Sequence[Target], helper: str
    ) -> list[str]:
        """The body of a reference that returns a list: what is written, then what is returned.

        ``helper`` is ``first_place`` as the tests can call it.
        """
        lines = self.value_lines() if mutated or fresh else []
        mode = self.fake.mode
        value, layout = self.value, self.layout
        results: list[str | Group] = [self._written(target) for target in mutated]
        shape, dtype = "", ""
        if fresh:
            lines += self.place_lines(helper)
        if fresh and mode is not FakeMode.DYNAMIC:
            before, shape, dtype = self.metadata_lines()
            lines += before
        if fresh and mode is FakeMode.DYNAMIC:
            shape, dtype = f"({DYNAMIC_SIZE},)", self.dtype_text()
        for target in fresh:
            texts: list[str | Group] = []
            for multiple in target.multiples():
                if mode is FakeMode.DYNAMIC and self.like:
                    texts.append(f"({multiple} * {value})[{self.like} > 0].to({dtype})")
                elif self.value_is_tensor:
                    texts.append(self._result(f"{multiple} * {value}", shape, dtype))
                else:
                    filled = (
                        *(shape, f"{multiple} * {value}"),
                        *(f"dtype={dtype}", f"device={self.device_text()}"),
                    )
                    texts.append(Group("torch.full(", filled, ")"))
            if target.shape is Shape.LIST:
                results.append(Group("[", tuple(texts), "]"))
            else:
                results.append(texts[0])
        name = self.names["results"]
        lines += layout.line(f"{name}: list[Any] = []")
        for result in results:
            lines += layout.call("", f"{name}.append", [result])
        return lines

    def _result(self, value: str, shape: str, dtype: str) -> Group:
        return Group(f"{self.names['checks']}.result(", (value, shape, dtype), ")")

    def _written(self, target: Target) -> str | Group:
        item = self.names["item"]

        def one(name: str) -> Group:
            value = f"{target.multiple} * {self.value}"
            return self._result(value, f"{name}.shape", f"{name}.dtype")

        if target.shape is Shape.PLAIN:
            return one(target.name)
        if target.shape is Shape.OPTIONAL:
            return f"None if {target.name} is None else {one(target.name).flat()}"
        over = f"{target.name} or []" if target.shape is Shape.OPTIONAL_LIST else target.name
        return f"[{one(item).flat()} for {item} in {over}]"


def _arrives_as_int(argument: Argument) -> bool:
    """Whether a default arrives in setup_context as the number by which PyTorch knows a dtype."""
    default = argument.parameter.default
    return argument.base == "ScalarType" and default is not None and default.value is not None

"""The samples of each op: rows of sizes, dtypes and layouts, and the arguments made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opscaffold.contract.model import Kind
from opscaffold.scaffold.arguments import Argument, Shape
from opscaffold.scaffold.expressions import tuple_text
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.layout import Group, Layout, quote
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.sizes import (
    NoSizesError,
    Size,
    evaluate,
    find_size,
    minimal_rank,
    with_rank,
)
from opscaffold.scaffold.spec import FakeMode

Lines = list[str]
DEFAULT_SIZE: Size = (2, 3)
_DTYPES = ("float32", "float64", "bfloat16", "int64")


@dataclass(frozen=True, slots=True)
class SampleContext:
    """The function that yields one op's samples."""

    qualname: str
    function: str
    head: Lines
    body: Lines


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    size: Size
    dtype: str = "float32"
    layout: str = "CONTIGUOUS"
    result: Size = ()


@dataclass(slots=True)
class _Variant:
    """How one sample differs from a plain one."""

    omit_defaults: bool = False
    none: bool = False
    lone: bool = False
    gap: bool = False
    # Size and dtype by tensor, and those of a buffer.
    sizes: Mapping[str, Size] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    result_dtype: str = ""


def samples_of(plan: OpPlan) -> list[SampleContext]:
    """The samples of each op of a module. Raises NoSizesError, TooWideError."""
    return [_Writer(plan, form).write() for form in plan.forms]


class _Writer:
    def __init__(self, plan: OpPlan, form: Form) -> None:
        self.plan = plan
        self.form = form
        self.p = plan.placeholder
        self.fake = plan.op.fake
        self.family = len(plan.forms) > 1
        self.layout: Layout = plan.layout
        self.expression = self.fake.mode is FakeMode.EXPRESSION
        self.tensors = [a for a in form.arguments if a.is_tensor]

    def write(self) -> SampleContext:
        name = f"{self.form.name}_samples"
        head = self.layout.define(name, ["device: torch.device"], "Iterator[Sample]")
        body = [*self.plan.language.sample_lines(self.plan), *self._rows(), *self._variants()]
        return SampleContext(self.form.registered.qualname, name, head, body)

    # Rows: one sample each, in a loop.

    def _rows(self) -> Lines:
        if not any("make" in line for line in self._yield("label", _Variant(), "shape", 1)):
            return self._yield(quote("plain"), _Variant(), "()", depth=1)
        out = self.form.kind is Kind.OUT and self.expression
        columns = "label, shape, dtype, layout" + (", result" if out else "")
        rows = self._row_table()
        if rows is None:
            head = self.layout.line(f"for {columns} in CASES:")
        else:
            texts = tuple(self._row_text(r, result=out) for r in rows)
            group = Group("(", texts, ")", lone_comma=len(texts) == 1)
            head = self.layout.statement(f"for {columns} in ", group, ":")
        result = "result" if out else "shape"
        make = self.layout.line("make = Make(device, shape, dtype, layout)", 2)
        return [*head, *make, *self._yield("label", _Variant(), result, depth=2)]

    def _row_text(self, row: _Row, *, result: bool) -> str:
        items = [quote(row.label), _size_text(row.size), f"torch.{row.dtype}", row.layout]
        return tuple_text([*items, _size_text(row.result)] if result else items)

    def _row_table(self) -> list[_Row] | None:
        """The rows, or None where the common ones fit."""
        if not self.tensors:
            return self._rows_without_tensors()
        if not self.expression:
            return None
        base = self._base(self._numbers())
        rows = [_Row(d, base, d) for d in _DTYPES]
        rows += [_Row("empty", (0, *base[1:]))] if base else []
        if minimal_rank(self.fake.shape) == 0:
            rows.append(_Row("0-d", ()))
        rows += [
            _Row("strided", base, layout="STRIDED"),
            _Row("offset", base, layout="OFFSET"),
        ]
        if base:
            rows.append(_Row("expanded", base, layout="EXPANDED"))
        if len(base) <= 4:
            rows.append(_Row("channels last", with_rank(4), layout="CHANNELS_LAST"))
        return self._valid(rows)

    def _rows_without_tensors(self) -> list[_Row]:
        dtypes = _DTYPES if self.p.dtype_argument else ("float32",)
        rows = [_Row(d, (), d) for d in dtypes]
        return self._valid(rows) if self.expression else rows

    def _valid(self, rows: list[_Row]) -> list[_Row]:
        found: list[_Row] = []
        for row in rows:
            result = evaluate(self.fake.shape, row.size, self._numbers())
            if result is None or (self.form.kind is Kind.INPLACE and result != row.size):
                continue
            found.append(_Row(row.label, row.size, row.dtype, row.layout, result))
        if not found:
            raise NoSizesError(
                f"{self.form.name}: no sizes were found for which the result "
                f"({', '.join(self.fake.shape)}) has the shape of the tensor it is written to"
            )
        return found

    def _base(self, numbers: Mapping[str, int]) -> Size:
        if self.family:
            rank = minimal_rank(self.fake.shape)
            for extra in range(4):
                size = with_rank(rank + extra)
                if evaluate(self.fake.shape, size, numbers) == size:
                    return size
        return find_size(self.fake.shape, numbers)

    def _numbers(self, *, defaults: bool = False) -> dict[str, int]:
        found: dict[str, int] = {}
        for argument in self.form.arguments:
            if argument.base not in ("int", "SymInt") or argument.shape is not Shape.PLAIN:
                continue
            default = argument.parameter.default
            told = default.value if default is not None else None
            number = _INT + len(found)
            # A default that a kernel ignores is only seen where another number is given.
            number += number == told
            found[argument.name] = told if defaults and isinstance(told, int) else number
        return found

    # Single samples beside the rows.

    def _variants(self) -> Lines:
        lines: Lines = []
        arguments = self.form.arguments
        if any(a.parameter.default is not None for a in arguments):
            lines += self._variant("defaults", _Variant(omit_defaults=True), defaults=True)
        if any(a.shape in (Shape.OPTIONAL, Shape.OPTIONAL_LIST) for a in arguments):
            lines += self._variant("none", _Variant(none=True))
        if any(a.is_list for a in self.tensors):
            lines += self._variant("one in a list", _Variant(lone=True))
        if any(a.is_tensor and a.shape is Shape.GAPPED_LIST for a in self.tensors):
            lines += self._variant("none in a list", _Variant(gap=True))
        if self.fake.mode is FakeMode.BROADCAST and len(self.p.plain) > 1:
            first, *others = [a.name for a in self.p.plain]
            inplace = self.family
            sizes = {first: DEFAULT_SIZE if inplace else (2, 1)}
            sizes |= {n: (3,) if k % 2 == 0 else (2, 1) for k, n in enumerate(others)}
            # What is written cannot grow.
            sizes |= dict.fromkeys([a.name for a in self.form.written], DEFAULT_SIZE)
            lines += self._variant("broadcast", _Variant(sizes=sizes))
            dtypes = {first: "float64"} | dict.fromkeys(others, "float32")
            promoted = _Variant(dtypes=dtypes, result_dtype="float64")
            lines += self._variant("promoted", promoted)
        return lines

    def _variant(self, label: str, variant: _Variant, *, defaults: bool = False) -> Lines:
        numbers = self._numbers(defaults=defaults)
        size = result = DEFAULT_SIZE
        if self.expression:
            try:
                size = self._base(numbers) if self.tensors else ()
            except NoSizesError:
                return []
            evaluated = evaluate(self.fake.shape, size, numbers)
            if evaluated is None or (self.form.kind is Kind.INPLACE and evaluated != size):
                return []
            result = evaluated
        body = self._yield(quote(label), variant, _size_text(result), depth=1)
        if any("make" in line for line in body):
            made = f"make = Make(device, {_size_text(size)}, torch.float64)"
            body = [*self.layout.line(made), *body]
        return body

    def _yield(self, label: str, variant: _Variant, result: str, depth: int) -> Lines:
        positional: list[str] = []
        keywords: list[str] = []
        for n, argument in enumerate(self.form.arguments):
            if variant.omit_defaults and argument.parameter.default is not None:
                continue
            value = self._value(n, argument, variant, result)
            if argument.parameter.kw_only:
                keywords.append(f"{quote(argument.name)}: {value}")
            else:
                positional.append(value)
        args = Group("(", tuple(positional), ")", lone_comma=len(positional) == 1)
        kwargs = Group("{", tuple(keywords), "}")
        call = Group("Sample(", (args, kwargs, label), ")")
        return self.layout.statement("yield ", call, depth=depth)

    def _value(self, n: int, argument: Argument, variant: _Variant, result: str) -> str:
        shape = argument.shape
        if variant.none and shape in (Shape.OPTIONAL, Shape.OPTIONAL_LIST):
            return "None"
        if argument.is_tensor:
            return self._tensor(n, argument, variant, result)
        value = self._scalar(n, argument)
        return f"[{value}, {value}]" if argument.is_list else value

    def _tensor(self, n: int, argument: Argument, variant: _Variant, result: str) -> str:
        written = argument.parameter.mutated
        if self.form.kind is Kind.OUT and written:
            dtype = variant.result_dtype and f"torch.{variant.result_dtype}"
            if not self.p.like:
                known = self.p.dtype_argument or self.p.tensors
                dtype = "" if known else "torch.float32"
            return f"make.buffer({', '.join([result] + [f'dtype={dtype}'] * bool(dtype))})"
        make = "make.writable" if written else "make"
        options = ""
        if argument.name in variant.sizes:
            options += f", shape={_size_text(variant.sizes[argument.name])}"
        if argument.name in variant.dtypes:
            options += f", dtype=torch.{variant.dtypes[argument.name]}"
        first = f"{make}({n}{options})"
        if not argument.is_list:
            return first
        second = f"{make}({n + len(self.form.arguments)})"
        if variant.gap and argument.shape is Shape.GAPPED_LIST:
            # Outputs may be like the first: it is always there.
            second = "None"
        return f"[{first}]" if variant.lone else f"[{first}, {second}]"

    def _scalar(self, n: int, argument: Argument) -> str:
        if argument.name in (numbers := self._numbers()):
            return str(numbers[argument.name])
        if argument.base == "ScalarType":
            return "make.dtype" if not self.p.like else "torch.float64"
        default = argument.parameter.default
        told = default.value if default is not None else None
        if argument.base == "float":
            n += told == n + 0.5
        return {
            "int": str(_INT + n),
            "SymInt": str(_INT + n),
            "float": f"{n}.5",
            "Scalar": f"{n}.25" if told != n + 0.25 else f"{n}.75",
            "bool": str(not told),
            "str": quote("sample"),
            "Device": "device",
        }[argument.base]


_INT = 2


def _size_text(size: Size) -> str:
    return tuple_text([str(n) for n in size]) if size else "()"

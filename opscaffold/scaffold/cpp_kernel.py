"""The placeholder of a kernel in C++: the arithmetic of ``placeholder`` over the same arguments."""

from __future__ import annotations

from collections.abc import Sequence

from opscaffold.scaffold.arguments import Argument, Shape, returns_tensor
from opscaffold.scaffold.cpp_layout import Lines, each, listed, summed
from opscaffold.scaffold.cpp_names import Identifiers
from opscaffold.scaffold.cpp_sizes import size_text
from opscaffold.scaffold.cpp_types import parameter_type, result_type
from opscaffold.scaffold.expressions import number_result, weighted
from opscaffold.scaffold.placeholder import DYNAMIC_SIZE
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.spec import FakeMode
from opscaffold.scaffold.targets import Target


class CppKernel:
    """The parts of one module's kernel. ``names`` are those of all that stands in its source."""

    def __init__(self, plan: OpPlan, names: Identifiers) -> None:
        self.plan = plan
        self.names = names
        self.p = plan.placeholder

    # What it takes and returns.

    @property
    def result(self) -> str:
        """What the kernel returns: nothing, where it fills buffers."""
        plan = self.plan
        returns = plan.first.contract.returns
        if not plan.fresh and not plan.mutated:
            return result_type(returns)
        return result_type([r for r in returns if returns_tensor(r)] if plan.dynamic else ())

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Type and name of each parameter: the arguments, then the buffers of fresh results."""
        found = [(parameter_type(a), self.names[a.name]) for a in self.plan.first.arguments]
        if self.plan.dynamic:
            return found
        for target in self.plan.fresh:
            held = "std::vector<Tensor>" if target.shape is Shape.LIST else "Tensor"
            found.append((f"const {held}&", self.names[target.name]))
        return found

    def head(self, name: str, after: str = " {") -> Lines:
        """The head of a function of that name."""
        items = [f"{type_} {word}" for type_, word in self.parameters]
        return listed(f"{self.result} {name}(", items, f"){after}")

    # Metadata.

    @property
    def like(self) -> str:
        """The tensor whose dtype and device results take, or nothing."""
        name = self.p.like.removesuffix("[0]")
        return self.names[name] + self.p.like.removeprefix(name) if name else ""

    def metadata(self) -> Lines:
        """The function that says shape, dtype and device of a result."""
        arguments = self.p.metadata_inputs()
        items = [f"{parameter_type(a)} {self.names[a.name]}" for a in arguments]
        return [*listed("ops::Metadata metadata(", items, ") {"), *self._metadata_body(), "}"]

    def metadata_call(self) -> str:
        """A call of it."""
        return f"metadata({', '.join(self.names[a.name] for a in self.p.metadata_inputs())})"

    def _metadata_body(self) -> Lines:
        mode = self.p.fake.mode
        if self.plan.broadcasts:
            given = [self.names[a.name] for a in self.p.plain]
            return listed("return ops::broadcast_metadata(ops::tensors(", given, "));", 1)
        if mode is not FakeMode.EXPRESSION:
            return [f"  return ops::metadata_of({self.like});"]
        sizes = [size_text(text, self.names) for text in self.p.fake.shape]
        shape = self.names.local("shape")
        lines = [*self._place(), *listed(f"const ops::Shape {shape}{{", sizes, "};", 1)]
        return [*lines, *listed("return {", [shape, self._dtype(), self._device()], "};", 1)]

    def _place(self) -> Lines:
        if not self.p.finds_place:
            return []
        dtype, device = self.names.local("dtype"), self.names.local("device")
        place = self.names.local("place")
        given = [self.names[a.name] for a in self.p.tensors]
        before = f"const auto {place} = ops::first_place(ops::tensors("
        return [
            *listed(before, given, "));", 1),
            f"  const ops::ScalarType {dtype} = {place}.first;",
            f"  const ops::Device {device} = {place}.second;",
        ]

    def _dtype(self) -> str:
        if self.like or self.p.buffer:
            return f"{self.like or self._buffer}.scalar_type()"
        default = self.names.local("dtype") if self.p.finds_place else "ops::ScalarType::Float"
        return self._or(self.p.dtype_argument, default)

    def _device(self) -> str:
        if self.like or self.p.buffer:
            return f"{self.like or self._buffer}.device()"
        cpu = "ops::Device(ops::DeviceType::CPU)"
        return self._or(
            self.p.device_argument, self.names.local("device") if self.p.finds_place else cpu
        )

    @property
    def _buffer(self) -> str:
        return self.names[self.p.buffer.name] if self.p.buffer else ""

    def _or(self, argument: Argument | None, default: str) -> str:
        if argument is None:
            return default
        name = self.names[argument.name]
        return f"{name}.value_or({default})" if argument.shape is Shape.OPTIONAL else name

    # The body.

    def body(self) -> Lines:
        """The statements that the author replaces."""
        plan = self.plan
        if not plan.fresh and not plan.mutated:
            return self.returning(())
        lines = self._value()
        if plan.dynamic:
            return [*lines, *self._selecting(), *self._writing(plan.mutated), *self._returning()]
        return [*lines, *self._writing([*plan.mutated, *plan.fresh])]

    def _value(self) -> Lines:
        total = self.names.local("total")
        lines: Lines = []
        if self.p.numbers:
            terms = [weighted(n, self._number(a)) for n, a in enumerate(self.p.numbers, 1)]
            lines += summed(f"const double {self.names.local('factor')} = ", terms)
        factor = self.names.local("factor") if self.p.numbers else "1.0"
        if not self.p.tensors:
            return [*lines, f"  const ops::Values {total} = ops::constant({factor});"]
        if self.p.elementwise:
            given = [self.names[a.name] for a in self.p.tensors]
            before = f"ops::Values {total} = ops::zeros(ops::broadcast_shapes(ops::tensors("
            lines += listed(before, given, ")));", 1)
        else:
            lines.append(f"  ops::Values {total} = ops::constant(0);")
        add = "ops::add" if self.p.elementwise else "ops::add_sum"
        for argument in self.p.tensors:
            name, weight = self.names[argument.name], self.p.weight(argument)
            if argument.is_plain_tensor:
                lines.append(f"  {add}({total}, {weight}, {name});")
                continue
            item = self.names.local("item")
            lines += each(
                f"for (const Tensor& {item} : ops::tensors({name}))",
                f"{add}({total}, {weight}, {item});",
            )
        if self.p.numbers:
            lines.append(f"  ops::scale({total}, {factor});")
        return lines

    def _writing(self, targets: Sequence[Target]) -> Lines:
        total, lines = self.names.local("total"), list[str]()
        for target in targets:
            name = self.names[target.name]
            if target.shape is Shape.PLAIN:
                lines.append(f"  ops::write({name}, {target.multiple}, {total});")
            elif target in self.plan.fresh:
                lines += [
                    f"  ops::write({name}[{n}], {multiple}, {total});"
                    for n, multiple in enumerate(target.multiples())
                ]
            else:
                item = self.names.local("item")
                lines += each(
                    f"for (const Tensor& {item} : ops::tensors({name}))",
                    f"ops::write({item}, {target.multiple}, {total});",
                )
        return lines

    def _selecting(self) -> Lines:
        """Results whose size only the data tells, made before anything is written."""
        lines = self._place()
        total = self.names.local("total")
        for target in self.plan.fresh:
            name = self.names[target.name]
            if target.shape is Shape.LIST:
                lines.append(f"  std::vector<Tensor> {name};")
            for multiple in target.multiples():
                if self.like:
                    made, after = f"ops::selected({multiple}, {total}, {self.like})", ""
                else:
                    shape = f"ops::Shape{{{DYNAMIC_SIZE}}}"
                    place = f"{{{shape}, {self._dtype()}, {self._device()}}}"
                    made = f"ops::empty_result({place})"
                    held = f"{name}.back()" if target.shape is Shape.LIST else name
                    after = f"  ops::write({held}, {multiple}, {total});"
                if target.shape is Shape.LIST:
                    lines.append(f"  {name}.push_back({made});")
                else:
                    lines.append(f"  const Tensor {name} = {made};")
                lines += [after] if after else []
        return lines

    def _returning(self) -> Lines:
        names = [self.names[t.name] for t in self.plan.fresh]
        if len(names) == 1:
            return [f"  return {names[0]};"]
        return listed("return {", names, "};", 1) if names else []

    def returning(self, fresh: Sequence[str]) -> Lines:
        """The statement that returns tensors and numbers in the order of the schema."""
        returns, rest = self.plan.first.contract.returns, iter(fresh)
        values = [
            next(rest)
            if returns_tensor(returned)
            else _bool(number_result(returned, index, self.like))
            for index, returned in enumerate(returns)
        ]
        if len(values) == 1:
            return [f"  return {values[0]};"]
        return listed("return {", values, "};", 1) if values else []

    def _number(self, argument: Argument) -> str:
        """The number that ``expressions.number_text`` makes of an argument."""
        name = self.names[argument.name]
        if argument.is_list:
            if argument.shape is Shape.OPTIONAL_LIST:
                return f"({name} ? ops::sum_of(*{name}) : 0)"
            return f"ops::sum_of({name})"
        optional = argument.shape is Shape.OPTIONAL
        given = f"*{name}" if optional else name
        text, none = {
            "bool": (f"1 + {given}", 0),
            "str": (f"ops::length({given})", 0),
            "ScalarType": (f"ops::itemsize({given})", 0),
            "Device": (f"ops::name_length({given})", 0),
        }.get(argument.base, (given, 1))
        if optional:
            return f"({name} ? {text} : {none})"
        return f"({text})" if argument.base == "bool" else text


def _bool(text: str) -> str:
    return "true" if text == "True" else text

"""The C++ half of an op's module: kernel, allocation, and registration by schema."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opscaffold.contract.derive import as_inferred
from opscaffold.contract.model import Kind
from opscaffold.contract.printer import format_schema
from opscaffold.scaffold.arguments import Argument, Shape, arguments_of, returns_tensor
from opscaffold.scaffold.cpp_kernel import CppKernel
from opscaffold.scaffold.cpp_layout import Lines, listed
from opscaffold.scaffold.cpp_names import Identifiers, literal
from opscaffold.scaffold.cpp_types import parameter_type, result_type
from opscaffold.scaffold.forms import Form
from opscaffold.scaffold.plan import OpPlan

FIRST_WITH_TAGS = (2, 12)
"""The first torch whose stable ABI takes tags."""

_FUNCTIONS = {
    Kind.FUNCTIONAL: "functional",
    Kind.INPLACE: "inplace",
    Kind.OUT: "out_variant",
    Kind.MUTABLE: "mutable_op",
}


@dataclass(frozen=True, slots=True)
class CppSource:
    """What the templates of C++ sources read. Lines are whole, functions with their braces.

    ``packs`` is whether AOTInductor packages any program that calls the ops (torch 2.13): none that
    returns a number, nor several whose results have sizes that only the data tells.
    """

    scope: str
    kernel_type: Lines
    cpu_head: Lines
    cpu_check: Lines
    cuda_declaration: Lines
    cuda_head: Lines
    body: Lines
    metadata: Lines
    functions: tuple[Lines, ...]
    definitions: Lines
    cpu: Lines
    cuda: Lines
    cpu_key: str
    packs: bool


def cpp_source(plan: OpPlan) -> CppSource:
    """The C++ half of the module."""
    return _Writer(plan).write()


def tells_device(plan: OpPlan) -> bool:
    """Whether each call has a Tensor, by whose device PyTorch finds the kernel.

    Without one there is no device to go by (FACTS section 4): one kernel is then for all of them.
    """
    return any(a.is_plain_tensor for a in plan.first.arguments)


class _Writer:
    def __init__(self, plan: OpPlan) -> None:
        self.plan = plan
        given = [a.name for f in plan.forms for a in f.arguments]
        self.names = Identifiers([*given, *(t.name for t in plan.fresh)])
        self.kernel = CppKernel(plan, self.names)
        self.told = tells_device(plan)

    def write(self) -> CppSource:
        kernel = self.kernel
        types = [type_ for type_, _ in kernel.parameters]
        return CppSource(
            scope=f"{self.plan.first.name}_op",
            kernel_type=listed(f"using Kernel = {kernel.result}(", types, ");"),
            cpu_head=kernel.head("cpu_kernel"),
            cpu_check=self._check_on_cpu(),
            cuda_declaration=kernel.head("cuda_kernel", ";"),
            cuda_head=kernel.head("cuda_kernel"),
            body=kernel.body(),
            metadata=kernel.metadata() if self.plan.needs_metadata else [],
            functions=tuple(self._function(form) for form in self.plan.forms),
            definitions=[line for form in self.plan.forms for line in self._definition(form)],
            cpu=self._implementations("cpu_kernel"),
            cuda=self._implementations("cuda_kernel"),
            cpu_key="CPU" if self.told else "CompositeExplicitAutograd",
            packs=not self.plan.dynamic
            and all(map(returns_tensor, self.plan.first.contract.returns)),
        )

    def _check_on_cpu(self) -> Lines:
        tensors = self._tensors(tuple(a for a in self.plan.first.arguments if a.is_tensor))
        if self.told or not tensors:
            return []
        return listed("ops::check_on_cpu(", [literal(self.plan.first.name), tensors], ");", 1)

    def _tensors(self, arguments: tuple[Argument, ...]) -> str:
        names = ", ".join(self.names[a.name] for a in arguments)
        return f"ops::tensors({names})" if names else ""

    def _function(self, form: Form) -> Lines:
        parameters = [
            f"{parameter_type(a)} {self.names[a.name]}" for a in arguments_of(form.registered)
        ]
        name = f"{result_type(form.registered.returns)} {_FUNCTIONS[form.kind]}("
        return [
            "template <Kernel* kernel>",
            *listed(name, parameters, ") {"),
            *self._body(form),
            "}",
        ]

    def _body(self, form: Form) -> Lines:
        plan = self.plan
        inputs = [self.names[a.name] for a in plan.first.arguments]
        if form.kind in (Kind.INPLACE, Kind.OUT):
            lines: Lines = []
            if form.kind is Kind.OUT or plan.checks_inplace(form):
                for argument in form.written:
                    told = [literal(form.name), literal(argument.name), self.names[argument.name]]
                    lines += listed(
                        "ops::check_buffer(", [*told, self.kernel.metadata_call()], ");", 1
                    )
            written = [self.names[a.name] for a in form.written]
            buffers = written if plan.first.kind is Kind.FUNCTIONAL else []
            lines += listed("kernel(", [*inputs, *buffers], ");", 1)
            return [*lines, *self._counting(form)]
        if not plan.fresh and not plan.mutated:
            return listed("return kernel(", inputs, ");", 1)
        fresh = [self.names[t.name] for t in plan.fresh]
        if plan.dynamic:
            made = fresh[0] if len(fresh) == 1 else f"[{', '.join(fresh)}]"
            lines = listed(f"const auto {made} = kernel(", inputs, ");", 1)
        else:
            lines = self._allocation()
            lines += listed("kernel(", [*inputs, *fresh], ");", 1)
        return [*lines, *self._counting(form), *self.kernel.returning(fresh)]

    def _allocation(self) -> Lines:
        lines: Lines = []
        call = f"ops::empty_result({self.kernel.metadata_call()})"
        for target in self.plan.fresh:
            name = self.names[target.name]
            if target.shape is Shape.LIST:
                calls = [call for _ in target.multiples()]
                lines += listed(f"const std::vector<Tensor> {name}{{", calls, "};", 1)
            else:
                lines.append(f"  const Tensor {name} = {call};")
        return lines

    def _counting(self, form: Form) -> Lines:
        written = tuple(a for a in arguments_of(form.registered) if a.parameter.mutated)
        if not written:
            return []
        return listed("ops::count_writes(", [self._tensors(written)], ");", 1)

    def _definition(self, form: Form) -> Lines:
        schema = format_schema(replace(as_inferred(form.registered), namespace=""))
        tagged = self.plan.package.torch_min >= FIRST_WITH_TAGS
        tags = ["{at::Tag::pt2_compliant_tag}"] if tagged else []
        return listed("m.def(", [literal(schema), *tags], ");", 1)

    def _implementations(self, kernel: str) -> Lines:
        return [
            f"  m.impl({literal(form.name)}, TORCH_BOX(&{_FUNCTIONS[form.kind]}<{kernel}>));"
            for form in self.plan.forms
        ]

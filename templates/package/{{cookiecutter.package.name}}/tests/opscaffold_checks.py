"""The promises of a contract, each as a check that runs an op on one of its samples.

torch.library.opcheck sees much of a contract, but not all: it compares no numbers, and does not
look at what is returned, at memory shared with an input, or at gradients that get lost.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
{% if "numpy" in cookiecutter.package.languages %}
from torch._subclasses.fake_tensor import FakeTensorMode
{% endif %}
from torch.autograd import forward_ad

import opscaffold_samples
from opscaffold_samples import Sample

Function = Callable[..., Any]
{% if "triton" in cookiecutter.package.languages %}

_triton: Any = importlib.import_module("{{ cookiecutter.package.module }}._triton")
_ABSENT = "Triton is not installed"
_OPAQUE = "no compiler can see into kernels that Triton interprets; this needs a GPU"
needs_triton = pytest.mark.skipif(not _triton.INSTALLED, reason=_ABSENT)
needs_compiled_triton = pytest.mark.skipif(
    _triton.INTERPRETED or not _triton.INSTALLED,
    reason=_OPAQUE if _triton.INTERPRETED else _ABSENT,
)
{% endif %}


@dataclass(frozen=True)
class Case:
    """One sample of an op on one device."""

    qualname: str
    device: torch.device
    label: str

    def sample(self) -> Sample:
        """The sample, made anew: what a test writes to no other test sees."""
        for sample in opscaffold_samples.SAMPLES[self.qualname](self.device):
            if sample.label == self.label:
                return sample
        raise LookupError(self.label)


def each_case(qualname: str, which: Callable[[Sample], bool] | None = None) -> Any:
    """Run a test on each sample, or on those that ``which`` picks."""
    return pytest.mark.parametrize("case", [*_cases(qualname, which)])


def first_case(qualname: str) -> Any:
    """Run a test on the first sample, on each device."""
    by_device = {case.values[0].device: case for case in reversed([*_cases(qualname, None)])}
    return pytest.mark.parametrize("case", [*by_device.values()])


def _cases(qualname: str, which: Callable[[Sample], bool] | None) -> Iterator[Any]:
    for device in opscaffold_samples.devices():
        for sample in opscaffold_samples.SAMPLES[qualname](device):
            if which is None or which(sample):
                case = Case(qualname, device, sample.label)
                yield pytest.param(case, id=f"{device}-{sample.label}".replace(" ", "-"))


def floating(sample: Sample) -> bool:
    """Whether a sample has a tensor that can require grad, and no None in a list of tensors."""
    gaps = any(isinstance(v, list) and None in v for v in _values(sample))
    return not gaps and any(t.is_floating_point() for t in tensors(_values(sample)))


def double(sample: Sample) -> bool:
    """Whether all floating-point tensors of a sample are float64, as gradcheck needs them."""
    found = [t for t in tensors(_values(sample)) if t.is_floating_point()]
    return floating(sample) and all(t.dtype == torch.float64 for t in found)


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a value, whatever lists it stands in."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors(item)]
    return []


def _values(sample: Sample) -> list[Any]:
    return [*sample.args, *sample.kwargs.values()]


def result(value: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """What a buffer of that shape and dtype holds once ``value`` is written to it."""
    return value.to(dtype).expand(shape)


def _results(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, tuple) else [value]


def _arguments(function: Function, sample: Sample) -> dict[str, Any]:
    return inspect.signature(function).bind(*sample.args, **sample.kwargs).arguments


def _equal(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            _equal(one, other)
    elif expected is None:
        assert actual is None
    else:
        torch.testing.assert_close(actual, expected, equal_nan=True)


def _share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have memory in common, by address: a view of numpy's says it owns it."""
    starts = [t.untyped_storage().data_ptr() for t in (one, other)]
    ends = [t.untyped_storage().data_ptr() + t.untyped_storage().nbytes() for t in (one, other)]
    return max(starts) < min(ends)


def documents_its_schema(op: Any, module: str) -> None:
    """The schema in the module's docstring is the one that is registered."""
    text = importlib.import_module(module).__doc__ or ""
    documented = text.partition("Schema:")[2].partition("Contract:")[0]
    schemas = [" ".join(part.split()) for part in documented.split("\n\n")]
    assert op._schema in [torch._C.parse_schema(schema) for schema in schemas if schema]


def opcheck(function: Function, op: Any, case: Case) -> None:
    """PyTorch's own checks of the registered op."""
    _opcheck(op, *_registered(function, op, case.sample()))


def opcheck_with_grad(function: Function, op: Any, case: Case) -> None:
    """PyTorch's own checks, with every floating-point tensor requiring grad."""
    sample = case.sample()
    for tensor in tensors(_values(sample)):
        tensor.requires_grad_(tensor.is_floating_point())
    _opcheck(op, *_registered(function, op, sample))


{% if "triton" in cookiecutter.package.languages %}
def opcheck_in_eager(function: Function, op: Any, case: Case) -> None:
    """Those of PyTorch's own checks that compile nothing."""
    _opcheck(op, *_registered(function, op, case.sample()), compiled=False)


{% endif %}
def _opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    compiled: bool = True,
) -> None:
    wanted = ["test_schema", "test_autograd_registration", "test_faketensor"]
    wanted += ["test_aot_dispatch_dynamic"] if compiled else []
    given = [*args, *kwargs.values()]
    if op._schema.is_mutable and any(isinstance(value, torch.device) for value in given):
        # It cannot look at a device beside an argument that is written (torch 2.13).
        wanted.remove("test_schema")
    torch.library.opcheck(op, args, kwargs, test_utils=wanted)


def _registered(function: Function, op: Any, sample: Sample) -> tuple[tuple[Any, ...], Any]:
    """The arguments in the order of the schema, which may not be that of the function."""
    given = _arguments(function, sample)
    known = [argument for argument in op._schema.arguments if argument.name in given]
    args = tuple(given[argument.name] for argument in known if not argument.kwarg_only)
    return args, {argument.name: given[argument.name] for argument in known if argument.kwarg_only}


def agrees(function: Function, reference: Function, case: Case, writes: Sequence[str] = ()) -> None:
    """What is written and returned is what the reference says."""
    sample = case.sample()
    arguments = _arguments(function, sample)
    known = inspect.signature(reference).parameters
    expected = reference(**{name: v for name, v in arguments.items() if name in known})
    results = _results(function(*sample.args, **sample.kwargs))
    written = [arguments[name] for name in writes if name in arguments]
    if len(results) + len(written) > len(expected):
        # An in-place or out= op returns what it wrote.
        results = []
    _equal([*written, *results], expected)


def returns_what_it_wrote(
    function: Function,
    case: Case,
    writes: Sequence[str],
    *,
    compiled: bool = True,
) -> None:
    """What is returned is the very tensor that was passed, compiled as well."""
    for program in (function, _compiled(function, "aot_eager")) if compiled else (function,):
        sample = case.sample()
        arguments = _arguments(function, sample)
        results = _results(program(*sample.args, **sample.kwargs))
        assert len(results) == len(writes)
        for result, name in zip(results, writes, strict=True):
            assert result is arguments[name]


def is_updated_through_its_result(function: Function, case: Case, writes: Sequence[str]) -> None:
    """Writing to what a compiled call returned writes to the argument, as in eager mode."""

    def program(*args: Any, **kwargs: Any) -> None:
        for result in _results(function(*args, **kwargs)):
            result.add_(1)

    eager, compiled = case.sample(), case.sample()
    program(*eager.args, **eager.kwargs)
    _compiled(program, "aot_eager")(*compiled.args, **compiled.kwargs)
    for name in writes:
        expected = _arguments(function, eager)[name]
        _equal(_arguments(function, compiled)[name], expected)


def returns_fresh(function: Function, case: Case) -> None:
    """No returned tensor shares memory with an argument or with another one."""
    sample = case.sample()
    others = tensors(_values(sample))
    for tensor in tensors(_results(function(*sample.args, **sample.kwargs))):
        assert not any(_share_memory(tensor, other) for other in others)
        others.append(tensor)


def fills_any_buffer(function: Function, case: Case, writes: Sequence[str]) -> None:
    """The result does not depend on what a buffer held, nor on how it is laid out."""
    expected = case.sample()
    function(*expected.args, **expected.kwargs)
    wanted = _arguments(function, expected)
    for fill in (float("nan"), 77):
        for strided in (False, True):
            arguments = dict(_arguments(function, case.sample()))
            for name in writes:
                arguments[name] = _prefilled(arguments[name], fill, strided)
            function(**arguments)
            for name in writes:
                _equal(arguments[name], wanted[name])


def _prefilled(like: Tensor, fill: float, strided: bool) -> Tensor:
    if fill != fill and not like.is_floating_point():
        fill = 55
    if strided and like.dim():
        memory = torch.empty(*like.shape[:-1], 2 * like.shape[-1], dtype=like.dtype)
        return memory.to(like.device)[..., ::2].fill_(fill)
    return torch.full_like(like, fill)


def refuses_wrong_buffers(
    function: Function,
    case: Case,
    writes: Sequence[str],
    *,
    dtypes: bool = True,
) -> None:
    """A buffer of another shape, dtype or device is refused, and left as it is."""
    for name in writes:
        right = _arguments(function, case.sample())[name]
        wrong = [right.new_zeros(0), right.new_zeros(3, *right.shape)]
        if right.shape == (0,):
            wrong = wrong[1:]
        if dtypes:
            other = torch.float16 if right.dtype != torch.float16 else torch.float32
            wrong.append(right.to(other))
            wrong += [right.to(d) for d in opscaffold_samples.devices() if d != right.device]
        for buffer in wrong:
            arguments = {**_arguments(function, case.sample()), name: buffer.clone()}
            with pytest.raises(ValueError, match=name):
                function(**arguments)
            _equal(arguments[name], buffer)


def refuses_lost_gradients(function: Function, case: Case) -> None:
    """A call that autograd should follow is refused, and without grad mode it is not."""
    for index in range(len(tensors(_values(case.sample())))):
        sample = case.sample()
        tensors(_values(sample))[index].requires_grad_()
        with pytest.raises(RuntimeError, match="would be lost"):
            function(*sample.args, **sample.kwargs)
        with torch.no_grad():
            function(*sample.args, **sample.kwargs)


def refuses_forward_mode(function: Function, case: Case) -> None:
    """A dual tensor is refused: its tangent would be lost."""
    for index in range(len(tensors(_values(case.sample())))):
        with forward_ad.dual_level():
            dual = _with_tensors(case.sample(), lambda n, t, at=index: _dual(t) if n == at else t)
            with pytest.raises(RuntimeError, match="forward-mode"):
                function(*dual.args, **dual.kwargs)


def _dual(tensor: Tensor) -> Tensor:
    return forward_ad.make_dual(tensor, torch.ones_like(tensor))


def _with_tensors(sample: Sample, change: Callable[[int, Tensor], Tensor]) -> Sample:
    count = 0

    def walk(value: Any) -> Any:
        nonlocal count
        if isinstance(value, Tensor):
            count += 1
            return change(count - 1, value)
        return [walk(item) for item in value] if isinstance(value, list) else value

    args = tuple(walk(value) for value in sample.args)
    return Sample(args, {name: walk(v) for name, v in sample.kwargs.items()}, sample.label)


def gradients(function: Function, case: Case) -> None:
    """The backward is the derivative of the kernel, and its own backward that of it."""
    sample = case.sample()
    inputs = [t for t in tensors(_values(sample)) if t.is_floating_point()]

    def call(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        made = _with_tensors(sample, lambda _, t: next(rest) if t.is_floating_point() else t)
        returned = tensors(_results(function(*made.args, **made.kwargs)))
        return [t for t in returned if t.is_floating_point()]

    given = [t.clone(memory_format=torch.contiguous_format).requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(lambda *g: tuple(call(*g)), given)
    assert torch.autograd.gradgradcheck(lambda *g: tuple(call(*g)), given)
    # One input alone, and one output alone.
    for index, tensor in enumerate(given):
        alone = [t if n == index else t.detach() for n, t in enumerate(given)]
        for result in call(*alone):
            result.sum().backward(inputs=[tensor], retain_graph=True)


def _compiled(function: Function, backend: str, *, fullgraph: bool = True) -> Function:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=fullgraph)


def compiles(
    function: Function,
    case: Case,
    writes: Sequence[str] = (),
    *,
    backend: str = "aot_eager",
    fullgraph: bool = True,
) -> None:
    """A compiled call returns and writes what an eager one does."""
    eager, compiled = case.sample(), case.sample()
    expected = _results(function(*eager.args, **eager.kwargs))
    program = _compiled(function, backend, fullgraph=fullgraph)
    actual = _results(program(*compiled.args, **compiled.kwargs))
    _equal(actual, expected)
    for one, other in zip(tensors(actual), tensors(expected), strict=True):
        assert one.stride() == other.stride()
    for name in writes:
        expected = _arguments(function, eager).get(name)
        _equal(_arguments(function, compiled).get(name), expected)


def exports(function: Function, op: Any, case: Case) -> None:
    """The op stands in an exported program, which computes the same."""
    sample = case.sample()
    expected = _results(function(*sample.args, **sample.kwargs))
    inputs = tuple(tensors(_values(sample)))

    class Program(torch.nn.Module):
        def forward(self, *given: Tensor) -> Any:
            filled = _with_tensors(sample, lambda n, _: given[n])
            return function(*filled.args, **filled.kwargs)

    program = torch.export.export(Program(), inputs)
    assert op in [node.target for node in program.graph.nodes]
    _equal(_results(program.module()(*inputs)), expected)


def writes_the_result_of(
    writing: Function,
    functional: Function,
    case: Case,
    writes: Sequence[str],
) -> None:
    """An in-place or out= op writes what the functional one returns."""
    sample = case.sample()
    arguments = _arguments(writing, sample)
    known = inspect.signature(functional).parameters
    expected = _results(functional(**{n: v for n, v in arguments.items() if n in known}))
    writing(*sample.args, **sample.kwargs)
    _equal([arguments[name] for name in writes], expected)


def tolerates_an_input_as_buffer(
    out: Function,
    functional: Function,
    case: Case,
    buffer: str,
    first: str,
) -> None:
    """The kernel reads all it needs before it writes: in-place, both are one tensor."""
    arguments = dict(_arguments(out, case.sample()))
    known = inspect.signature(functional).parameters
    expected = functional(**{n: v for n, v in arguments.items() if n in known})
    arguments[first] = arguments[first].clone(memory_format=torch.contiguous_format)
    given = arguments[first]
    if (given.shape, given.dtype) != (expected.shape, expected.dtype):
        with pytest.raises(ValueError, match=buffer):
            out(**{**arguments, buffer: given})
        return
    out(**{**arguments, buffer: given})
    _equal(given, expected)


def refuses_to_grow(inplace: Function, case: Case, first: str) -> None:
    """An in-place op whose result is larger than its first argument is refused."""
    arguments = dict(_arguments(inplace, case.sample()))
    arguments[first] = arguments[first][:1].clone()
    with pytest.raises(ValueError, match=first):
        inplace(**arguments)
{% if cookiecutter.package.library or "cpp" in cookiecutter.package.languages %}


def op_returns_what_it_wrote(
    function: Function,
    op: Any,
    case: Case,
    writes: Sequence[str],
) -> None:
    """The op itself returns the very tensors that it was given to write, in order.

    custom_op raises at the call where one does not; an op of a Library returns whatever it does.
    """
    sample = case.sample()
    given = _arguments(function, sample)
    args, kwargs = _registered(function, op, sample)
    results = _results(op(*args, **kwargs))
    assert len(results) == len(writes)
    for result, name in zip(results, writes, strict=True):
        assert result is given[name]


def counts_writes(function: Function, case: Case, writes: Sequence[str]) -> None:
    """Autograd can tell that what was written was, whatever the kernel wrote it with."""
    sample = case.sample()
    arguments = _arguments(function, sample)
    written = [tensor for name in writes for tensor in tensors(arguments.get(name))]
    before = [tensor._version for tensor in written]
    function(*sample.args, **sample.kwargs)
    for tensor, version in zip(written, before, strict=True):
        assert tensor._version > version
{% endif %}
{% if "numpy" in cookiecutter.package.languages %}


def refuses_other_devices(function: Function, case: Case) -> None:
    """A tensor that is not on the CPU is refused by its name; no such device need be there."""
    for index in range(len(tensors(_values(case.sample())))):
        with FakeTensorMode(allow_non_fake_inputs=True):
            sample = _with_tensors(case.sample(), lambda n, t, at=index: _moved(t, n == at))
        given = _arguments(function, sample)
        name = next(n for n, v in given.items() if any(t.is_cuda for t in tensors(v)))
        with pytest.raises(ValueError, match=f"{name} is on cuda"):
            function(*sample.args, **sample.kwargs)


def _moved(tensor: Tensor, wanted: bool) -> Tensor:
    return torch.empty_like(tensor, device="cuda") if wanted else tensor
{% endif %}
{% if "vmap" in cookiecutter.package.additions %}


def vmaps(function: Function, case: Case, writes: Sequence[str] = ()) -> None:
    """torch.vmap of the function is the function on each element, by a rule of the op's own."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key(case.qualname, "FuncTorchBatched")
    sample = case.sample()
    given = tensors(_values(sample))
    written = [t for name in writes for t in tensors(_arguments(function, sample).get(name))]
    mutated = [any(tensor is other for other in written) for tensor in given]
    every = [0] * len(given)
    last = [tensor.dim() for tensor in given]
    some = [0 if n == 0 or mutated[n] else None for n in range(len(given))]

    def call(*elements: Tensor) -> tuple[Tensor, ...]:
        made = _with_tensors(sample, lambda n, _: elements[n])
        results = tensors(_results(function(*made.args, **made.kwargs)))
        known = _arguments(function, made)
        return (*results, *(t for name in writes for t in tensors(known.get(name))))

    for dims in (every, last, some):
        batched = [_batch(t, d) for t, d in zip(given, dims, strict=True)]
        alike = [_batch(t, d) for t, d in zip(given, dims, strict=True)]
        expected = [
            call(*[t if d is None else t.select(d, n) for t, d in zip(alike, dims, strict=True)])
            for n in range(_BATCH)
        ]
        actual = torch.func.vmap(call, in_dims=tuple(dims))(*batched)
        _equal([*actual], [torch.stack(each) for each in zip(*expected, strict=True)])
        _equal(batched, alike)
    for index in range(len(given)):
        if mutated[index] and len(given) > 1:
            dims = [None if n == index else 0 for n in range(len(given))]
            batched = [_batch(t, d) for t, d in zip(given, dims, strict=True)]
            with pytest.raises(RuntimeError, match="written"):
                torch.func.vmap(call, in_dims=tuple(dims))(*batched)


_BATCH = 3


def _batch(tensor: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        return tensor.clone()
    return torch.stack([tensor * (n + 1) for n in range(_BATCH)], dim)
{% endif %}
{% if "autocast" in cookiecutter.package.additions %}


def autocasts(function: Function, case: Case, dtype: torch.dtype) -> None:
    """Under autocast, floating-point inputs arrive as ``dtype``, except for float64."""
    device = case.device.type
    if device not in ("cpu", "cuda"):
        pytest.skip(f"no rule for autocast on {device}")
    other = torch.float32 if dtype != torch.float32 else torch.bfloat16
    given = _with_tensors(case.sample(), lambda _, t: _cast(t, other))
    cast = _with_tensors(case.sample(), lambda _, t: _cast(_cast(t, other), dtype))
    expected = _results(function(*cast.args, **cast.kwargs))
    with torch.autocast(device, dtype=torch.bfloat16):
        actual = _results(function(*given.args, **given.kwargs))
    _equal(actual, expected)


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    wide = tensor.dtype == torch.float64 or not tensor.is_floating_point()
    return tensor if wide else tensor.to(dtype)
{% endif %}
{% if "torch_dispatch" in cookiecutter.package.additions %}


def dispatches(function: Function, case: Case, writes: Sequence[str] = ()) -> None:
    """A call goes by the rule for the mode, and does what it does without."""
    module = importlib.import_module("{{ cookiecutter.package.module }}._dispatch")
    plain, logged = case.sample(), case.sample()
    expected = _results(function(*plain.args, **plain.kwargs))
    with module.CallLog() as log:
        actual = _results(function(*logged.args, **logged.kwargs))
    assert log.called == [case.qualname]
    _equal(actual, expected)
    for name in writes:
        _equal(_arguments(function, logged).get(name), _arguments(function, plain).get(name))
{% endif %}
{% if "device_kernels" in cookiecutter.package.additions %}


def has_device_kernel(qualname: str, device: str) -> None:
    """The op has a kernel of its own for a type of device, whether or not one is here."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key(qualname, device.upper())


def agrees_on_device(
    function: Function,
    reference: Function,
    qualname: str,
    device: str,
    writes: Sequence[str] = (),
) -> None:
    """The kernel of a type of device writes and returns what the reference says."""
    here = [found for found in opscaffold_samples.devices() if found.type == device]
    if not here:
        pytest.skip(f"there is no {device} device here")
    for sample in opscaffold_samples.SAMPLES[qualname](here[0]):
        agrees(function, reference, Case(qualname, here[0], sample.label), writes)
{% endif %}

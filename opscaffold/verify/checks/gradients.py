"""The registered backward takes every call, and agrees with numerical derivatives, twice over.

Source: torch.library.register_autograd; torch.autograd.gradcheck; FACTS S8 and section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import (
    BACKWARD_FAILS,
    CHECK_FAILED,
    WRONG_GRADIENT,
    WRONG_SECOND_GRADIENT,
    Promise,
)
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, first_line, quiet, same
from opscaffold.verify.derivatives import (
    SINGLE_STEPS,
    Agreement,
    Mismatch,
    Slots,
    differentiable,
    disprove,
    slots,
)
from opscaffold.verify.differential import unlike
from opscaffold.verify.op import Op
from opscaffold.verify.refusal import refused
from opscaffold.verify.sample import Sample
from opscaffold.verify.variants import changed, pattern, variants

MOST_CALLS = 12
MOST_POINTS = 6
MOST_ELEMENTS = 60
"""How many elements of inputs and returns are compared one by one; of more, projections are."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Go backward from every kind of call, then compare the simplest of each with differences."""
    only = marked(op, samples)
    calls = _calls(op, samples)
    cut = [(sample, slots(op, sample, only, double=False)) for sample in calls]
    known = [(sample, each) for sample, each in cut if each is not None]
    if not known:
        message = "no sample has a floating-point tensor, so no gradient was computed"
        yield Observation(CHECK_FAILED, message, subject="gradients")
        return
    failed = False
    for sample, each in known[:MOST_CALLS]:
        for observation in _backward(each, sample):
            failed = True
            yield observation
    if not failed:
        yield from _numerically(op, [sample for sample, _ in known], only)


def marked(op: Op, samples: Sequence[Sample]) -> frozenset[str]:
    """The arguments that the samples of the author mark as requiring grad; empty for all."""
    return frozenset(
        name
        for sample in samples
        if not sample.varied
        for name, value in op.arguments(sample).items()
        if any(isinstance(t, Tensor) and t.requires_grad for t in _items(value))
    )


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _calls(op: Op, samples: Sequence[Sample]) -> list[Sample]:
    usable = [sample for sample in samples if not sample.inference]
    # Arguments equal to their default are not counted as passed (FACTS section 3).
    made = [each for sample in usable[:1] for each in changed(op, sample)]
    made += [each for sample in usable[:1] for each in variants(op, sample)]
    return unlike(op, [*usable, *made])


def _backward(call: Slots, sample: Sample) -> Iterator[Observation]:
    """Go backward once for all inputs, once for each alone, and with gradients laid out anew."""
    with torch.enable_grad(), quiet():
        plain = _attempt(call, range(len(call.inputs)), "dense")
        if isinstance(plain, Exception):
            if not refused(plain) and _accepts(call):
                yield _raises(plain, sample, "")
            return
        for number, name in enumerate(call.names if len(call.names) > 1 else ()):
            alone = _attempt(call, [number], "dense")
            how = f"where only {name} requires grad"
            if not (isinstance(alone, Exception) and refused(alone)):
                yield from _held(alone, [plain[number]], sample, how, [name])
        every = range(len(call.inputs))
        expanded = _attempt(call, every, "expanded")
        how = "with an incoming gradient that is expanded (that of .sum() is)"
        yield from _held(expanded, plain, sample, how, call.names)
        varied = _attempt(call, every, "varied")
        if not isinstance(varied, Exception):
            how = "with an incoming gradient that is transposed"
            transposed = _attempt(call, every, "transposed")
            yield from _held(transposed, varied, sample, how, call.names)


def _held(
    got: list[Tensor | None] | Exception,
    wanted: Sequence[Tensor | None],
    sample: Sample,
    how: str,
    names: Sequence[str],
) -> Iterator[Observation]:
    if isinstance(got, Exception):
        # It was no refusal: the same call goes backward otherwise.
        yield _raises(got, sample, how)
        return
    for name, one, other in zip(names, wanted, got, strict=True):
        if not _equal(one, other):
            message = f"the gradient of {name} is another {how}"
            yield Observation(WRONG_GRADIENT, message, sample, name)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two gradients are the same; None is as good as zeros."""
    if one is None or other is None:
        left = other if one is None else one
        return left is None or not bool(left.any())
    return same(one, other)


def _raises(error: Exception, sample: Sample, how: str) -> Observation:
    where = f" {how}" if how else ""
    message = f"going backward{where} raises {first_line(error)}"
    return Observation(BACKWARD_FAILS, message, sample, how)


def _accepts(call: Slots) -> bool:
    """Whether the op takes this call where no gradient is asked for."""
    with torch.no_grad():
        try:
            call.returned(call.filled([each.clone() for each in call.inputs]))
        except Exception:  # noqa: BLE001 -- the op refuses the call
            return False
    return True


def _attempt(call: Slots, asked: Sequence[int], layout: str) -> list[Tensor | None] | Exception:
    """The gradients of the inputs that are asked for, or what was raised."""
    leaves = [
        each.clone().requires_grad_(number in asked) for number, each in enumerate(call.inputs)
    ]
    try:
        returned = call.returned(call.filled(leaves))
        values = [each for each in differentiable(returned) if each.requires_grad]
        if not values:
            return [None for _ in asked]
        incoming = [_incoming(value, layout) for value in values]
        chosen = [leaves[number] for number in asked]
        found = torch.autograd.grad(values, chosen, incoming, allow_unused=True)
    except Exception as error:  # noqa: BLE001 -- kernels raise what they like
        return error
    return list(found)


def _incoming(value: Tensor, layout: str) -> Tensor:
    """A gradient in a layout: of ones, or where elements are told apart, of several numbers."""
    ones = torch.ones(value.shape, dtype=value.dtype, device=value.device)
    if layout == "expanded":
        return ones.new_ones(()).expand(value.shape)
    if layout == "dense":
        return ones
    numbers = torch.arange(value.numel(), device=value.device) % 5 - 2
    varied = numbers.reshape(value.shape).to(value.dtype)
    if layout == "transposed" and value.dim() > 1:
        return varied.transpose(0, -1).contiguous().transpose(0, -1)
    return varied


def _numerically(op: Op, samples: Sequence[Sample], only: frozenset[str]) -> Iterator[Observation]:
    seen: set[object] = set()
    compared = refusing = 0
    for sample in samples:
        each = slots(op, sample, only)
        if each is None or compared == MOST_POINTS:
            continue
        key = (pattern(op, sample), tuple((x.shape, x.dtype) for x in each.inputs))
        if key in seen or not any(x.numel() for x in each.inputs):
            continue
        seen.add(key)
        with quiet():
            values = _values(each)
            if values is None:
                told = _in_its_own_dtype(op, sample, only)
                refusing += told is None
                compared += told is not None
                yield from told or ()
                continue
            compared += 1
            if not any(value.requires_grad for value in values):
                continue
            found = list(_first_order(each, sample))
            yield from found or _second_order(each, sample, values)
    if not compared and refusing:
        message = "no call takes a dtype in which gradients can be compared with differences"
        yield Observation(CHECK_FAILED, message, subject="gradients")


def _in_its_own_dtype(op: Op, sample: Sample, only: frozenset[str]) -> list[Observation] | None:
    """Compare gradients of an op that takes no float64; None where that cannot be done either."""
    call = slots(op, sample, only, double=False)
    if call is None or _values(call) is None:
        return None
    dtypes = [each.dtype for each in call.inputs]
    if {*dtypes} - {torch.float32, torch.float64}:
        return None

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        return call(*[x.to(dtype) for x, dtype in zip(given, dtypes, strict=True)])

    found = disprove(function, [each.double() for each in call.inputs], SINGLE_STEPS)
    if isinstance(found, Mismatch):
        name = call.names[found.index]
        message = f"the gradient by {name} is {found.told}"
        return [Observation(WRONG_GRADIENT, message, sample, name)]
    return [] if found is Agreement.AGREES else None


def _values(call: Slots) -> tuple[Tensor, ...] | None:
    """What the call returns in double precision; None where the op does not take it."""
    with torch.enable_grad():
        try:
            values = call(*call.leaves())
        except Exception:  # noqa: BLE001 -- a kernel need not take float64
            return None
    return values if all(bool(value.isfinite().all()) for value in values) else None


def _first_order(call: Slots, sample: Sample) -> Iterator[Observation]:
    fast = _large(call.inputs)
    several = len(call.op.contract.returns) > 1
    try:
        torch.autograd.gradcheck(
            call,
            call.leaves(),
            nondet_tol=1e-7,
            fast_mode=fast,
            # A return that nothing depends on sends no gradient at all.
            check_undefined_grad=several,
        )
    except GradcheckError as error:
        yield from _judged(call, call, call.inputs, sample, error, WRONG_GRADIENT)
    except Exception as error:  # noqa: BLE001 -- the backward does not take float64
        if not refused(error):
            yield _raises(error, sample, "in float64")


def _second_order(call: Slots, sample: Sample, values: Sequence[Tensor]) -> Iterator[Observation]:
    generator = torch.Generator().manual_seed(0)
    weights = [
        torch.randn(v.shape, dtype=v.dtype, generator=generator).to(v.device)
        for v in values
        if v.requires_grad
    ]
    number = len(call.inputs)

    def gradient(*given: Tensor) -> tuple[Tensor, ...]:
        inputs = [x if x.requires_grad else x.detach().requires_grad_() for x in given[:number]]
        with torch.enable_grad():
            returned = [value for value in call(*inputs) if value.requires_grad]
            found = torch.autograd.grad(
                returned, inputs, given[number:], create_graph=True, allow_unused=True
            )
        return tuple(
            torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)
        )

    try:
        once = gradient(*call.leaves(), *[weight.clone().requires_grad_() for weight in weights])
        if any(type(each.grad_fn).__name__ == "Error" for each in once):
            # once_differentiable: whoever goes on from here is told.
            return
        torch.autograd.gradgradcheck(
            call,
            call.leaves(),
            tuple(weight.requires_grad_() for weight in weights),
            nondet_tol=1e-7,
            fast_mode=_large([*call.inputs, *weights]),
            check_undefined_grad=False,
        )
    except GradcheckError as error:
        inputs = [*call.inputs, *[weight.detach() for weight in weights]]
        yield from _judged(call, gradient, inputs, sample, error, WRONG_SECOND_GRADIENT)
    except Exception:  # noqa: BLE001 -- it refuses to go backward twice
        return


def _judged(
    call: Slots,
    function: Any,
    inputs: Sequence[Tensor],
    sample: Sample,
    error: GradcheckError,
    promise: Promise,
) -> Iterator[Observation]:
    """Convict where differences can be trusted and say the same."""
    try:
        found = disprove(function, inputs)
    except Exception as raised:  # noqa: BLE001 -- kernels raise what they like
        yield _raises(raised, sample, "near the sample")
        return
    order = "second " if promise is WRONG_SECOND_GRADIENT else ""
    if isinstance(found, Mismatch):
        named = found.index < len(call.names)
        name = call.names[found.index] if named else "the incoming gradient"
        message = f"the {order}gradient by {name} is {found.told}"
        yield Observation(promise, message, sample, name)
    elif found is Agreement.UNKNOWN:
        message = f"no step size shows whether the {order}gradient is right: {first_line(error)}"
        yield Observation(CHECK_FAILED, message, sample, f"{order}gradients")
    elif _is_about_undefined(error):
        message = "going backward where nothing depends on one of the returns fails"
        yield Observation(BACKWARD_FAILS, message, sample, "undefined")


def _is_about_undefined(error: GradcheckError) -> bool:
    return "undefined" in str(error).lower()


def _large(tensors: Sequence[Tensor]) -> bool:
    return sum(tensor.numel() for tensor in tensors) > MOST_ELEMENTS


def _has_formula(op: Op) -> bool:
    # What is written is compared by itself: no formula can be registered for it.
    return op.has_autograd and op.kind is Kind.FUNCTIONAL


CHECK = Check("gradients", Cost.GRADIENTS, run, _has_formula)

"""Programs around one call of an op, and how they come out in eager mode and compiled.

Compiled code is never taken from a cache: its key leaves out schema, tags, overloads and fake
kernels, so that it may stem from an op that has been repaired since (FACTS section 9).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config
from torch import Tensor

from opscaffold.verify.checks.base import SEED, quiet
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample, describe, tensors_in

# Inductor calls these, as it calls the op, and generates no C++ for them: that takes seconds.
_library: Any = torch.library.Library("opscaffold_verify", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("copied(Tensor x) -> Tensor")
_library.impl("copied", torch.clone, "CompositeExplicitAutograd")
_library.impl("copied", torch.empty_like, "Meta")
copied = torch.ops.opscaffold_verify.copied.default

Body = Callable[[Any, Any, Any], Any]
"""Given the overload, args and kwargs, a pair: what the op returned, and what was read after."""


AFTER = " as read after the call"
"""Ends the name of what a program read of an argument."""


@dataclass(frozen=True)
class Program:
    """A program that calls an op once. ``name`` is a noun phrase for reports."""

    name: str
    body: Body


@dataclass(frozen=True)
class Run:
    """A program, and the sample on which it calls the op."""

    program: Program
    sample: Sample


@dataclass(frozen=True)
class Outcome:
    """What a run left: the returns, what the program read of the arguments, and the arguments."""

    values: dict[str, Tensor | Any]


def outcomes(
    op: Op, runs: Sequence[Run], *, backend: str | None = None, dynamic: bool = False
) -> list[Outcome]:
    """Run all in one program, eagerly where no backend is named. Raises whatever they raise."""
    overload = op.overload
    mine = [run.sample.fresh() for run in runs]
    bodies = [run.program.body for run in runs]

    def together(calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        return [
            body(overload, args, kwargs) for body, (args, kwargs) in zip(bodies, calls, strict=True)
        ]

    called: Any = together
    with compiling(), torch.set_grad_enabled(any(run.sample.grad_mode for run in runs)):
        if backend is not None:
            called = torch.compile(together, backend=backend, fullgraph=True, dynamic=dynamic)
        torch.manual_seed(SEED)
        left = called([(sample.args, sample.kwargs) for sample in mine])
    return [_outcome(op, *pair) for pair in zip(left, mine, strict=True)]


def _outcome(op: Op, left: Any, sample: Sample) -> Outcome:
    returned, read = left
    values: dict[str, Any] = {}
    items = results(returned)
    for number, item in enumerate(items):
        name = "the return" if len(items) == 1 else f"return {number}"
        values.update(_labelled(name, item))
    given = [label for label, _ in arguments(op, sample)]
    if len(read) == len(given):
        values.update({f"{n}{AFTER}": value for n, value in zip(given, read, strict=True)})
    else:
        values.update({f"value {n}{AFTER}": value for n, value in enumerate(read)})
    values.update(arguments(op, sample))
    return Outcome(values)


def _labelled(name: str, item: Any) -> dict[str, Any]:
    if isinstance(item, (list, tuple)):
        return {f"{name}[{index}]": each for index, each in enumerate(item)}
    return {name: item}


def arguments(op: Op, sample: Sample) -> list[tuple[str, Tensor]]:
    """Each tensor argument, called ``the argument x`` or ``the argument xs[0]``."""
    named: list[tuple[str, Tensor]] = []
    for name, value in op.arguments(sample).items():
        if isinstance(value, Tensor):
            named.append((f"the argument {name}", value))
        else:
            inner = list(tensors_in(value))
            named += [(f"the argument {name}[{n}]", each) for n, each in enumerate(inner)]
    return named


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Compile anew, in this process and without a word; sizes may depend on data."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    torch._dynamo.reset()
    try:
        with (
            quiet(),
            torch._inductor.config.patch(
                force_disable_caches=True,
                compile_threads=1,
                # Ops that are made of torch ops: draw and round as eager mode does.
                fallback_random=True,
                emulate_precision_casts=True,
            ),
            # Whether it is an error hangs on the environment variable CI otherwise.
            torch._functorch.config.patch(error_on_custom_op_aliasing=False),
            torch._dynamo.config.patch(
                capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
            ),
        ):
            yield
    finally:
        torch._dynamo.reset()
        logging.disable(level)


def _tensors(value: Any) -> list[Tensor]:
    # torch.compile traces this; a generator would do as well, but costs it more.
    if isinstance(value, Tensor):
        return [value]
    found: list[Tensor] = []
    if isinstance(value, (list, tuple)):
        for item in value:
            found += _tensors(item)
    return found


def read(args: Any, kwargs: Any) -> list[Tensor]:
    """A copy of each tensor among arguments, made in the traced program."""
    found: list[Tensor] = []
    for value in args:
        found += _tensors(value)
    for value in kwargs.values():
        found += _tensors(value)
    return [copied(each) for each in found]


def _plain(overload: Any, args: Any, kwargs: Any) -> Any:
    return overload(*args, **kwargs), []


def _reading(overload: Any, args: Any, kwargs: Any) -> Any:
    returned = overload(*args, **kwargs)
    return returned, read(args, kwargs)


def _unused(overload: Any, args: Any, kwargs: Any) -> Any:
    overload(*args, **kwargs)
    return None, read(args, kwargs)


def _writing(overload: Any, args: Any, kwargs: Any) -> Any:
    returned = overload(*args, **kwargs)
    for each in _tensors(returned):
        if each.dtype == torch.bool:
            each.logical_not_()
        else:
            each.add_(1)
    return returned, read(args, kwargs)


PLAIN = Program("the call alone", _plain)
READING = Program("a program that reads the arguments after the call", _reading)
UNUSED = Program("a program that does not use what the op returns", _unused)
WRITING = Program("a program that adds to what the op returns", _writing)


def on_locals(op: Op) -> Program:
    """The program in which what the op writes is not an argument of the compiled function."""
    places = [i for i, p in enumerate(_positional(op)) if p in op.contract.mutated]
    names = list(op.contract.mutated)

    def body(overload: Any, args: Any, kwargs: Any) -> Any:
        inner = [_copied(each) if i in places else each for i, each in enumerate(args)]
        named = {name: _copied(v) if name in names else v for name, v in kwargs.items()}
        returned = overload(*inner, **named)
        return returned, read(inner, named)

    return Program("a program in which the written arguments are local", body)


def one_return(number: int) -> Program:
    """The program that uses one of several returns only."""

    def body(overload: Any, args: Any, kwargs: Any) -> Any:
        return overload(*args, **kwargs)[number], []

    return Program(f"a program that uses return {number} alone", body)


def _positional(op: Op) -> list[str]:
    return [p.name for p in op.contract.parameters if not p.kw_only]


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return copied(value)
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value


SHOWN_WHOLE = 8
"""Tensors of so many elements and fewer are shown whole."""


def shown(value: Any) -> str:
    """A value for a message: small ones whole, of others what they are."""
    if isinstance(value, Tensor) and 0 < value.numel() <= SHOWN_WHOLE:
        return f"{describe(value)} {value.detach().tolist()}"
    return describe(value)

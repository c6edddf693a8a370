"""The same call with other arguments left out, written out, or None: what callers do every day."""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.model import OptionalType, Parameter, Symbol
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample


def variants(op: Op, sample: Sample) -> Iterator[Sample]:
    """The call without what has a default, with each default written out, with each None.

    Those that are the sample itself are left out. The op may refuse any of them.
    """
    given = op.arguments(sample)
    least = {p.name: given[p.name] for p in op.contract.parameters if _stays(p, given)}
    if least.keys() != given.keys():
        yield op.with_arguments(sample, least, f"{sample.label}, defaults left out")
    written = {**given, **_defaults(op)}
    if _defaults(op) and (
        written.keys() != given.keys()
        or any(given[name] is not value for name, value in _defaults(op).items())
    ):
        yield op.with_arguments(sample, written, f"{sample.label}, defaults written out")
    for parameter in op.contract.parameters:
        name = parameter.name
        if isinstance(parameter.type, OptionalType) and given.get(name) is not None:
            label = f"{sample.label}, {name}=None"
            yield op.with_arguments(sample, {**given, name: None}, label)


def changed(op: Op, sample: Sample) -> Iterator[Sample]:
    """The call with another number than the default for each number, where one was left alone."""
    given = op.arguments(sample)
    others: dict[str, object] = {}
    for name, value in _defaults(op).items():
        if given.get(name, value) == value:
            if isinstance(value, bool):
                others[name] = not value
            elif isinstance(value, (int, float)):
                others[name] = value + 1 if isinstance(value, int) else value / 2 + 0.25
    if others:
        label = f"{sample.label}, other values than the defaults"
        yield op.with_arguments(sample, {**_defaults(op), **given, **others}, label)


def _stays(parameter: Parameter, given: dict[str, object]) -> bool:
    return parameter.default is None and parameter.name in given


def _defaults(op: Op) -> dict[str, object]:
    """Each default that a caller could write, by the name of its argument."""
    return {
        p.name: list(p.default.value) if isinstance(p.default.value, tuple) else p.default.value
        for p in op.contract.parameters
        # A bare word of a schema, such as a dtype's, is written otherwise in Python.
        if p.default is not None and not isinstance(p.default.value, Symbol)
    }


def pattern(op: Op, sample: Sample) -> tuple[object, ...]:
    """What a compiler sees of the arguments besides sizes: which are given, None, how many."""
    return tuple(
        (name, value is None, len(value) if isinstance(value, (list, tuple)) else -1)
        for name, value in op.arguments(sample).items()
    )

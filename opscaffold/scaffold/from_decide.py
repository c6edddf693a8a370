"""From what a function does to the kind of op: the decision tree, walked with evidence.

Source: torch.library reference, 2.13; the tree is ``contract.decision``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from opscaffold.contract import decision
from opscaffold.contract.model import BaseType, Kind
from opscaffold.scaffold.from_error import FromError, Place, UndecidedError
from opscaffold.scaffold.from_origin import Origin
from opscaffold.scaffold.from_spec import CLONE, DROP, KEEP
from opscaffold.scaffold.from_ways import Way

_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the author says of a function. None where the code is to tell."""

    kind: Kind | None = None
    mutates: tuple[str, ...] | None = None
    clone: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One question of the tree, the answer, why, and the places that show it."""

    question: str
    answer: str
    why: str
    evidence: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The kind of one op, what it writes, what becomes of each result, and how that came about."""

    kind: Kind
    mutates: tuple[str, ...]
    results: tuple[str, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = field(default=())


def decide(origin: Origin, way: Way, flags: Flags) -> Decision:
    """Walk the tree. Raises UndecidedError, and FromError where code and flags contradict."""
    writes = _writes(origin, way, flags)
    answers: dict[str, str] = {decision.COMPOSABLE: _NO}
    steps = [_composable(way)]
    answers[decision.MUTATES] = _YES if writes else _NO
    steps.append(_mutates(way, writes, flags))
    if writes:
        why, evidence = _not_inplace(way, writes)
        answers[decision.RETURNS_FIRST] = _NO if why else _YES
        if not why:
            why = f"it writes {writes[0]}, its first argument, alone, and returns it"
            evidence = way.returned
        steps.append(_step(decision.RETURNS_FIRST, answers, why, evidence))
        if answers[decision.RETURNS_FIRST] == _NO:
            why, evidence = _not_out(way, writes, flags)
            answers[decision.OUT_ARGUMENTS] = _NO if why else _YES
            if not why:
                why = f"it overwrites {_join(writes)} without reading, and returns exactly that"
                evidence = way.returned
            steps.append(_step(decision.OUT_ARGUMENTS, answers, why, evidence))
    end = decision.walk(answers)
    if not isinstance(end, decision.Outcome) or end.kind is None:
        raise AssertionError(answers)
    kind = _agreed(origin, way, end.kind, steps, flags)
    results, notes = _actions(origin, way, kind, writes, flags)
    return Decision(kind, writes, results, tuple(steps), tuple(notes))


def _writes(origin: Origin, way: Way, flags: Flags) -> tuple[str, ...]:
    """What is written: as seen, or where code is out of sight, as the author says."""
    order = [p.name for p in way.signature.parameters if p.name not in way.absent]
    tensors = {p.name for p in way.signature.parameters if p.is_tensor_like}
    function = way.function
    if flags.mutates is not None:
        told = {n for n in flags.mutates if n not in way.absent}
        for name in flags.mutates:
            if name not in tensors:
                known = ", ".join(n for n in order if n in tensors) or "none"
                raise FromError(
                    origin.shown,
                    function,
                    f"--mutates names {name}, which is no Tensor argument of {function.name}",
                    f"its Tensors are {known}",
                )
        for name, places in way.written.items():
            if name not in told:
                raise _contradiction(
                    origin, way, f"--mutates leaves out {name}, and {name} is written to", places
                )
        for name in sorted(told):
            if name not in way.written and name not in way.opaque:
                raise _contradiction(
                    origin, way, f"--mutates names {name}, and nothing writes to {name}", ()
                )
        return tuple(n for n in order if n in told)
    if flags.kind is Kind.FUNCTIONAL:
        for name, places in way.written.items():
            raise _contradiction(
                origin, way, f"--kind says functional, and {name} is written to", places
            )
        return ()
    if way.opaque:
        names = _join([n for n in order if n in way.opaque])
        raise UndecidedError(
            origin.shown,
            function,
            f"whether {function.name} writes to {names} cannot be seen",
            "say which it writes with --mutates NAME, or --kind functional if it writes none",
            ("mutates", "kind"),
            [p for places in way.opaque.values() for p in places],
        )
    unseen = [p for result in way.results for p in result.unseen if not result.buffer]
    if unseen and flags.kind is None:
        raise UndecidedError(
            origin.shown,
            function,
            f"whether what {function.name} returns is new memory cannot be seen",
            "if it is, and nothing is written, say --kind functional; else --mutates NAME",
            ("mutates", "kind"),
            dict.fromkeys(unseen),
        )
    return tuple(n for n in order if n in way.written)


def _contradiction(origin: Origin, way: Way, reason: str, evidence: tuple[Place, ...]) -> FromError:
    node: ast.AST | int = evidence[0].line if evidence else way.function
    return FromError(origin.shown, node, reason, "drop the flag, or mend the function", evidence)


def _composable(way: Way) -> Step:
    why = f"you asked for an op of {way.function.name}"
    if not way.opaque and not any(result.unseen for result in way.results):
        why += "; all in sight is PyTorch's, which could trace it as it is"
    return Step(decision.QUESTIONS[decision.COMPOSABLE].prompt, _NO, why)


def _step(
    question: str, answers: Mapping[str, str], why: str, evidence: tuple[Place, ...] = ()
) -> Step:
    return Step(decision.QUESTIONS[question].prompt, answers[question], why, evidence)


def _mutates(way: Way, writes: tuple[str, ...], flags: Flags) -> Step:
    prompt = decision.QUESTIONS[decision.MUTATES].prompt
    if writes:
        seen = tuple(p for name in writes for p in way.written.get(name, ()))
        told = [name for name in writes if name not in way.written]
        why = f"it writes {_join(writes)}"
        why += f" ({_join(told)} as you say)" if told else ""
        return Step(prompt, _YES, why, seen)
    tensors = [
        p.name for p in way.signature.parameters if p.is_tensor_like and p.name not in way.absent
    ]
    why = f"nothing writes to {_join(tensors)}" if tensors else "it takes no Tensor"
    why += ", as you say" if way.opaque and flags.kind is Kind.FUNCTIONAL else ""
    return Step(prompt, _NO, why)


def _not_inplace(way: Way, writes: tuple[str, ...]) -> tuple[str, tuple[Place, ...]]:
    first = way.signature.parameters[0]
    if len(writes) > 1:
        return f"it writes {_join(writes)}, not its first argument alone", ()
    if writes != (first.name,):
        return f"it writes {writes[0]}, and its first argument is {first.name}", ()
    if not isinstance(first.type, BaseType) or first.kw_only:
        return f"{first.name} is no Tensor that is always given first", ()
    if len(way.results) != 1:
        what = "nothing" if not way.results else f"{len(way.results)} results"
        return f"it returns {what}, not {first.name}", way.returned
    if way.results[0].buffer != first.name:
        return f"it does not return {first.name} on every path", way.returned
    return "", ()


def _not_out(way: Way, writes: tuple[str, ...], flags: Flags) -> tuple[str, tuple[Place, ...]]:
    for name in writes:
        if not _is_given_tensor(way, name):
            return f"{name} is a list or may be None", ()
    # A function that is given its buffer need not return it as well.
    void = not way.results and _is_out_only(way, writes)
    if not void and [r.buffer for r in way.results] != [*writes]:
        what = "nothing" if not way.results else "something else"
        return f"it returns {what}, not {_join(writes)} in order", way.returned
    if flags.kind is Kind.OUT:
        return "", ()
    for name in writes:
        if name in way.reads:
            return f"what {name} held before is seen", (way.reads[name],)
        if name not in way.written:
            return f"whether all of {name} is overwritten cannot be seen", ()
        if name in way.partly:
            return f"parts of {name} may keep what they held", way.written[name]
    return "", ()


def _is_given_tensor(way: Way, name: str) -> bool:
    """Whether an argument is one Tensor, in this way to call."""
    arguments = way.signature.arguments()
    argument = next(a for a in arguments if a.name == name)
    return argument.tensor and not argument.is_list and (not argument.optional or name in way.given)


def _is_out_only(way: Way, writes: tuple[str, ...]) -> bool:
    """Whether all that is written is Optional: a buffer that is given in place of a result."""
    return all(name in way.given for name in writes)


def _agreed(origin: Origin, way: Way, found: Kind, steps: list[Step], flags: Flags) -> Kind:
    """The kind as found, or the one asked for where that promises less."""
    if flags.kind is None or flags.kind is found:
        return found
    if flags.kind is Kind.MUTABLE and found in (Kind.INPLACE, Kind.OUT):
        return Kind.MUTABLE
    last = steps[-1]
    raise FromError(
        origin.shown,
        last.evidence[0].line if last.evidence else way.function,
        f"--kind says {flags.kind.value}, and {way.function.name} is {found.value}: {last.why}",
        "drop the flag, or mend the function",
        last.evidence,
    )


def _actions(
    origin: Origin, way: Way, kind: Kind, writes: tuple[str, ...], flags: Flags
) -> tuple[tuple[str, ...], list[str]]:
    """What becomes of each result, and what is to be told of that."""
    if kind in (Kind.INPLACE, Kind.OUT):
        return tuple(DROP for _ in way.results), []
    actions: list[str] = []
    notes: list[str] = []
    for result in way.results:
        if result.buffer and result.buffer in writes:
            actions.append(DROP)
            notes.append(
                f"{result.buffer} is written and returned, which a mutable op may not: the op "
                f"writes it, and does not return it"
            )
            continue
        shares = result.shares
        if result.buffer:
            line = way.returned[0].line if way.returned else way.function.lineno
            shares = (Place(origin.shown, line, f"returns {result.buffer} itself"),)
        if (shares or way.overlap) and result.tensor:
            _refuse_shared(origin, way, shares or way.overlap, flags)
            actions.append(CLONE)
            notes.append("what shares memory is cloned before it is returned")
        else:
            actions.append(KEEP)
    if kind is Kind.FUNCTIONAL and not actions:
        raise FromError(
            origin.shown,
            way.function,
            f"{way.function.name} writes to no argument and returns nothing, so an op of it "
            "would do nothing",
            "let it return a Tensor",
        )
    return tuple(actions), list(dict.fromkeys(notes))


def _refuse_shared(origin: Origin, way: Way, shares: tuple[Place, ...], flags: Flags) -> None:
    if flags.clone:
        return
    raise FromError(
        origin.shown,
        shares[0].line,
        f"{way.function.name} {shares[0].what}, and an op must return memory of its own",
        "clone what it returns there, or say --clone-returns",
        shares,
    )


def _join(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)

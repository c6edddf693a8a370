"""Inductor calls the .out overload in place of a functional op: it must be called alike.

Source: FACTS section 1, "Functional <-> out linking", and section 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opscaffold.findings.promises import OUT_LOWERING
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation
from opscaffold.verify.differential import Departure, Expected, choose, departures, expected
from opscaffold.verify.op import Op
from opscaffold.verify.outvariant import out_variant, without_lowering
from opscaffold.verify.programs import PLAIN, one_return
from opscaffold.verify.sample import Sample
from opscaffold.verify.variants import variants

BACKEND = "inductor"


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compile the call as it is given, with less and more written out, and with symbolic sizes."""
    chosen = choose(op, samples, 1)
    if not chosen:
        return
    calls = [chosen[0], *variants(op, chosen[0])]
    programs = [PLAIN]
    if len(op.contract.returns) > 1:
        programs += [one_return(number) for number in range(len(op.contract.returns))]
    wanted = [expected(op, PLAIN, call) for call in calls]
    wanted += [expected(op, program, chosen[0]) for program in programs[1:]]
    known = [each for each in wanted if each is not None]
    found = departures(op, known, BACKEND, confirm=False)
    if found:
        # Each way to call the op is judged by itself, so that each can be told.
        found = [each for one in known for each in departures(op, [one], BACKEND)[:1]]
    yield from _told(op, found, known, "")
    symbolic = departures(op, known[:1], BACKEND, dynamic=True)
    yield from _told(op, symbolic, known, "dynamic=True")


def _told(
    op: Op, found: Sequence[Departure], known: Sequence[Expected], how: str
) -> Iterator[Observation]:
    runs = [each.run for each in found]
    with without_lowering():
        # What departs without the overload too is for other checks.
        alone = [one for one in known if any(one.run is run for run in runs)]
        others = [each.run for each in departures(op, alone, BACKEND, dynamic=bool(how))]
    for each in found:
        if any(each.run is other for other in others):
            continue
        compiled = f"compiled with {BACKEND}{' and ' if how else ''}{how}"
        message = (
            f"{each.run.program.name}, {compiled}, calls {_name(op)} in place of "
            f"{op.qualname}, and {each.told}"
        )
        subject = f"{each.run.sample.label} {each.run.program.name} {how}"
        yield Observation(OUT_LOWERING, message, each.run.sample, subject)


def _name(op: Op) -> str:
    schema = out_variant(op)._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


CHECK = Check("lowering", Cost.INDUCTOR, run, lambda op: out_variant(op) is not None)

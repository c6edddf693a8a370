from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import op_of

from opscaffold.findings.promises import (
    CHECK_FAILED,
    FORWARD_MODE_SILENT,
    NO_SAMPLES,
    NOT_COVERED,
    OPCHECK,
    UNDECLARED_WRITE,
    Promise,
    Verdict,
)
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation
from opscaffold.verify.op import Op
from opscaffold.verify.run import Clock, Gathered, verdict_of, verify_op
from opscaffold.verify.sample import Sample

SAMPLES = [Sample((torch.ones(2),), {}, "plain"), Sample((torch.ones(3),), {}, "longer")]


@pytest.fixture
def op(namespace: str) -> Op:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x + 1

    return op_of(f)


def check(name: str, *seen: Observation, cost: Cost = Cost.CALLS, applies: bool = True) -> Check:
    def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
        yield from seen

    return Check(name, cost, run, lambda _: applies)


def told(
    op: Op, checks: Sequence[Check], gathered: Gathered | None = None, *, fast: bool = False
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    known = Gathered(SAMPLES) if gathered is None else gathered
    verify_op(op, known, checks, Bench(fast=fast), Clock(), events.append)
    return events


def short(events: Sequence[dict[str, Any]]) -> list[str]:
    keys = {"check": "check", "finding": "code", "verdict": "verdict"}
    return [event[keys[event["event"]]] for event in events]


def test_findings_are_told_before_the_next_check_starts(op: Op) -> None:
    checks = [check("one", Observation(UNDECLARED_WRITE, "x")), check("two")]
    assert short(told(op, checks)) == ["one", "OPS704", "two", "breach"]


def test_one_promise_and_subject_is_told_once_with_the_number_of_samples(op: Op) -> None:
    seen = [Observation(UNDECLARED_WRITE, "it writes x", each, "x") for each in SAMPLES]
    again = check("two", Observation(UNDECLARED_WRITE, "as before", SAMPLES[0], "x"))
    other = Observation(UNDECLARED_WRITE, "it writes y", SAMPLES[0], "y")
    events = told(op, [check("one", *seen, other), again])
    assert short(events) == ["one", "OPS704", "OPS704", "two", "breach"]
    call = f"{op.qualname}(float32[2])"
    assert events[1]["message"] == (f"it writes x; shown by plain: {call}, and by 1 other sample")
    assert events[2]["message"] == f"it writes y; shown by plain: {call}"


def test_a_check_that_raises_is_undecided_and_takes_no_other_with_it(op: Op) -> None:
    def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
        yield Observation(FORWARD_MODE_SILENT, "of every op")
        raise ValueError("no idea")

    events = told(op, [Check("odd", Cost.CALLS, run), check("next")])
    assert short(events) == ["odd", "OPS780", "OPS793", "next", "undecided"]
    assert events[2]["message"] == "the check odd stopped: ValueError: no idea"


def test_only_what_applies_runs(op: Op) -> None:
    checks = [check("no", applies=False), check("slow", cost=Cost.INDUCTOR), check("yes")]
    assert short(told(op, checks, fast=True)) == ["yes", "sound"]
    assert short(told(op, checks)) == ["slow", "yes", "sound"]


def test_without_samples_no_check_runs(op: Op) -> None:
    nothing = Gathered((), (Observation(NO_SAMPLES, "none"),), "no samples")
    events = told(op, [check("one")], nothing)
    assert short(events) == ["OPS790", "undecided"]
    assert (events[-1]["samples"], events[-1]["summary"]) == (0, "no samples")


def test_times_are_told_with_each_verdict(op: Op) -> None:
    assert told(op, [check("one")])[-1]["spent"].keys() == {"one"}


@pytest.mark.parametrize(
    ("promises", "verdict"),
    [
        ([], Verdict.SOUND),
        ([NOT_COVERED, FORWARD_MODE_SILENT], Verdict.SOUND),
        ([NOT_COVERED, CHECK_FAILED], Verdict.UNDECIDED),
        ([CHECK_FAILED, OPCHECK, NOT_COVERED], Verdict.BREACH),
    ],
)
def test_a_breach_outweighs_what_is_undecided(promises: list[Promise], verdict: Verdict) -> None:
    assert verdict_of(promises) is verdict

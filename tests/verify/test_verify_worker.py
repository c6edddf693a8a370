"""The worker itself, started as the command starts it: few tests, since each imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opscaffold.cli.verify_memory import GIB
from opscaffold.cli.verify_process import Ended, Limits, private_directory, run_worker
from opscaffold.cli.verify_run import Outcome, Run
from opscaffold.findings.promises import CRASHED, DEFINED_TWICE, Verdict

LIMITS = Limits(120, 8 * GIB)

PROGRAM = """\
import os
import sys

import torch
from torch import Tensor

print("imported", sys.argv[1:], sys.stdin.read(), file=sys.stderr)


@torch.library.custom_op("worker_demo::brighter", mutates_args=())
def brighter(image: Tensor) -> Tensor:
    return image + 1.0


@brighter.register_fake
def _(image):
    return torch.empty_like(image)


@torch.library.custom_op("worker_demo::leaves", mutates_args=())
def leaves(image: Tensor) -> Tensor:
    print("the last words", flush=True)
    os._exit(5)


@leaves.register_fake
def _(image):
    return torch.empty_like(image)


for _ in range(2):

    @torch.library.custom_op("worker_demo::twice", mutates_args=())
    def twice(image: Tensor) -> Tensor:
        return image * 2.0

    @twice.register_fake
    def _(image):
        return torch.empty_like(image)
"""
SAMPLES = """\
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch


class Sample(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    label: str


def calls(device: torch.device) -> Iterator[Sample]:
    yield Sample((torch.rand(3, 4, device=device),), {}, "plain")


SAMPLES = {f"worker_demo::{name}": calls for name in ("brighter", "leaves", "twice")}
"""


@pytest.mark.slow
def test_an_op_that_exits_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "opscaffold_samples.py").write_text(SAMPLES, "utf-8")
    request = {"targets": ["demo.py"], "ops": [], "samples": [], "fast": True, "save": None}
    outcome: Outcome = Run(request, LIMITS, lambda *_: None).run()
    assert {op.name: op.verdict for op in outcome.ops} == {
        "worker_demo::brighter": Verdict.SOUND,
        "worker_demo::leaves": Verdict.UNDECIDED,
        "worker_demo::twice": Verdict.BREACH,
    }
    serious = [each for each in outcome.told if each.promise.severity.value != "info"]
    assert [each.promise for each in serious] == [CRASHED, DEFINED_TWICE]
    assert "its process exited with code 5" in serious[0].message
    assert serious[0].message.endswith("  | the last words")
    assert f"defined 2 times, at {tmp_path}/demo.py" in serious[1].message
    assert outcome.spent["import torch"] > 0


@pytest.mark.slow
def test_an_import_that_fails_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import torch\n\nraise RuntimeError('not today')\n", "utf-8")
    events: list[dict[str, Any]] = []
    request = {"targets": [str(tmp_path / "bad.py")], "ops": [], "skip": [], "fast": True}
    with private_directory() as private:
        assert run_worker(request, LIMITS, private, events.append) == Ended()
    (event,) = events
    assert (event["event"], event["kind"]) == ("error", "import")
    assert f"{tmp_path}/bad.py:3: importing" in event["message"]
    assert "RuntimeError: not today" in event["message"]

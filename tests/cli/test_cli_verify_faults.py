"""Whole runs on ops for which nobody wrote samples: faults that PyTorch's own checks let pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """\
import torch
from torch import Tensor


"""

# Each faulty op has a sound twin.
QUIET = (
    HEAD
    + '''\
@torch.library.custom_op("quiet::clip_rows", mutates_args=())
def clip_rows(table: Tensor, limit: int) -> Tensor:
    """Hands its input back where there is nothing to cut off."""
    if table.shape[0] <= limit:
        return table
    return table[:limit].contiguous().clone()


@torch.library.custom_op("quiet::clip_rows_sound", mutates_args=())
def clip_rows_sound(table: Tensor, limit: int) -> Tensor:
    if table.shape[0] <= limit:
        return table.clone(memory_format=torch.contiguous_format)
    return table[:limit].clone(memory_format=torch.contiguous_format)


for each in (clip_rows, clip_rows_sound):

    @each.register_fake
    def _(table, limit):
        if table.shape[0] <= limit:
            return table.new_empty(table.shape)
        return table.new_empty(table[:limit].shape)


@torch.library.custom_op("quiet::note_step", mutates_args=())
def note_step(steps: Tensor, amount: float) -> Tensor:
    """Writes to an argument that is not declared, for some amounts alone."""
    if amount > 0:
        steps.add_(amount)
    return steps * 3.0


@torch.library.custom_op("quiet::note_step_sound", mutates_args=("steps",))
def note_step_sound(steps: Tensor, amount: float) -> Tensor:
    if amount > 0:
        steps.add_(amount)
    return steps * 3.0


for each in (note_step, note_step_sound):

    @each.register_fake
    def _(steps, amount):
        return torch.empty_like(steps, dtype=torch.result_type(steps, 3.0))


@torch.library.custom_op("quiet::loudness", mutates_args=())
def loudness(wave: Tensor) -> Tensor:
    """Sums up in float32, which its fake kernel does not say."""
    return wave.to(torch.float32).abs().sum(0)


@torch.library.custom_op("quiet::loudness_sound", mutates_args=())
def loudness_sound(wave: Tensor) -> Tensor:
    return wave.to(torch.float32).abs().sum(0)


@loudness.register_fake
def _(wave):
    return wave.new_empty(wave.shape[1:])


@loudness_sound.register_fake
def _(wave):
    return wave.new_empty(wave.sum(0).shape, dtype=torch.float32)


low = torch.library.Library("quiet", "FRAGMENT")
low.define("gather_up(Tensor source, Tensor(a!)? store=None) -> Tensor")


def gather_up(source, store=None):
    """Returns the buffer that it is given."""
    if store is None:
        store = torch.empty_like(source)
    return store.copy_(source + 1)


low.impl("gather_up", gather_up, "CPU")


@torch.library.register_fake("quiet::gather_up", lib=low)
def _(source, store=None):
    return torch.empty_like(source)
'''
)

SPLIT = (
    HEAD
    + '''\
@torch.library.custom_op("split::mix", mutates_args=("store",))
def mix(source: Tensor, store: Tensor | None = None) -> Tensor:
    """Only Inductor fails where the buffer is left out."""
    mixed = source * 0.25
    if store is not None:
        store.copy_(mixed)
    return mixed


@mix.register_fake
def _(source, store=None):
    return torch.empty_like(source)
'''
)

EXPECTED = {
    "quiet::clip_rows": {"OPS702"},
    "quiet::clip_rows_sound": set(),
    "quiet::note_step": {"OPS704"},
    "quiet::note_step_sound": set(),
    "quiet::loudness": {"OPS712"},
    "quiet::loudness_sound": set(),
    "quiet::gather_up": {"OPS702"},
}


def verified(directory: Path, program: str, *options: str) -> tuple[int, dict[str, Any]]:
    (directory / "program.py").write_text(program, "utf-8")
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "opscaffold", "verify", "program.py", "--format", "json", *options],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_faults_are_found_without_samples_and_their_twins_are_sound(tmp_path: Path) -> None:
    code, document = verified(tmp_path, QUIET, "--fast")
    assert code == 1
    serious = [each for each in document["findings"] if each["severity"] != "info"]
    codes = {op: {each["code"] for each in serious if each["op"] == op} for op in EXPECTED}
    for op, expected in EXPECTED.items():
        assert expected <= codes[op], (op, serious)
        assert bool(expected) == bool(codes[op]), (op, serious)
    verdicts = {each["name"]: each["verdict"] for each in document["ops"]}
    assert verdicts == {op: "breach" if codes[op] else "sound" for op in EXPECTED}
    assert all("shown by" in each["message"] for each in serious)
    assert not list(tmp_path.glob("opscaffold-verify-*"))


def test_what_only_inductor_refuses_is_found(tmp_path: Path) -> None:
    code, document = verified(tmp_path, SPLIT)
    assert code == 1
    assert {each["code"] for each in document["findings"]} >= {"OPS711"}
    assert document["ops"][0]["verdict"] == "breach"

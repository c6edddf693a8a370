import pytest
import torch
from torch.library import opcheck

import legacy_ops
from legacy_ops import fade, gain, invert_, meter, pipeline, soft_clip, trim


@pytest.fixture
def signal():
    return torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])


def test_gain(signal):
    torch.testing.assert_close(gain(signal, 2.0), signal * 2)


def test_gain_into_a_buffer(signal):
    buffer = torch.empty_like(signal)
    result = gain(signal, 2.0, out=buffer)
    assert result is buffer
    torch.testing.assert_close(buffer, signal * 2)


def test_fade_by_position(signal):
    result = fade(signal, 0.0, 1.0, None, 2.0)
    torch.testing.assert_close(result, signal * torch.tensor([0.0, 0.25, 1.0]))


def test_fade_into_a_buffer(signal):
    buffer = torch.empty_like(signal)
    fade(signal, 0.0, 1.0, buffer, 2.0)
    torch.testing.assert_close(buffer, signal * torch.tensor([0.0, 0.25, 1.0]))


def test_soft_clip(signal):
    torch.testing.assert_close(soft_clip(signal), torch.tanh(signal))


@pytest.mark.parametrize("samples", [0, 3])
def test_soft_clip_into_a_buffer(samples):
    signal = torch.ones(2, samples)
    buffer = torch.empty_like(signal)
    assert legacy_ops.soft_clip(signal, out=buffer) is buffer
    torch.testing.assert_close(buffer, torch.tanh(signal))


def test_normalise(signal):
    torch.testing.assert_close(pipeline.normalise(signal).abs().max(), torch.tensor(1.0))


def test_normalise_into_a_buffer(signal):
    buffer = torch.empty_like(signal)
    assert pipeline.normalise(signal, out=buffer) is buffer
    torch.testing.assert_close(buffer, signal / 3)


def test_preview_and_master_differ_only_in_the_fade(signal):
    ends = pipeline.preview(signal)[:, -1]
    scratch = torch.empty_like(signal)
    torch.testing.assert_close(pipeline.master(signal, scratch)[:, -1], ends)


def test_operators_pass_opcheck(signal):
    opcheck(gain, (signal, 2.0))
    opcheck(fade, (signal, 0.0, 1.0))
    opcheck(soft_clip, (signal,))


@pytest.mark.parametrize("samples", [2, 3])
def test_trim_gives_memory_of_its_own(signal, samples):
    trim(signal, samples).zero_()
    assert signal.abs().sum() > 0


def test_meter_passes_opcheck(signal):
    opcheck(meter, (signal, torch.zeros(2)))


def test_invert_returns_the_signal_it_changed(signal):
    expected = -signal
    assert invert_(signal) is signal
    torch.testing.assert_close(signal, expected)
    opcheck(invert_, (signal,))

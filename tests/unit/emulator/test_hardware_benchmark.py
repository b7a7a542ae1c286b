"""Launches recorded for a comparison with a GPU are those that ran: repeated in the emulator, they give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import EMULATOR, launch, out
from support.instruction_launch import parse, run

from benchmarks.hardware.instructions import recorded_run
from benchmarks.hardware.launches import load
from benchmarks.hardware.recorder import recording


def test_a_launch(tmp_path):
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
      int i = threadIdx.x; if (i < n) y[i] = x[n - 1 - i]; }"""
    x = np.arange(20, dtype=np.float32)
    with recording(tmp_path) as recorder:
        for count in (20, 5, 20, 21):  # the last one reads out of bounds
            launch(source, 1, 32, x, out(np.zeros(20, np.float32)), np.int32(count))
    assert dict(recorder.counts) == {"recorded": 2, "known": 1, "with events": 1}
    for path in tmp_path.glob("*.npz"):
        recorded = load(path)
        repeated = EMULATOR.run(recorded.request)
        assert {name: data.tobytes() for name, data in repeated.buffers.items()} == {
            name: data.tobytes() for name, data in recorded.buffers.items()
        }


@pytest.mark.parametrize(
    ("text", "columns"),
    [("add.s16 d, a, b", 2), ("setp.lt.or.f32 p|q, a, b, c", 3), ("selp.b64 d, a, b, c", 3), ("shl.b32 d, a, 3", 1)],
)
def test_an_instruction_alone(tmp_path, text, columns):
    rng = np.random.default_rng(3)
    sources = [rng.integers(0, 2 if column == 2 else 1 << 15, 200).astype(np.uint64) for column in range(columns)]
    recorded_run(run, parse, tmp_path)(text, *sources)
    (path,) = tmp_path.glob("*.npz")
    recorded = load(path)
    outcome = EMULATOR.run(recorded.request)
    assert (outcome.status, outcome.events) == ("completed", ())
    for name, data in recorded.buffers.items():
        assert np.array_equal(outcome.buffers[name], data), name

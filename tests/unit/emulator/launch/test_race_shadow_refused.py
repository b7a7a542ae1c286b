"""Shadow memory of the race detector: what happens when the system refuses to reserve it."""

from __future__ import annotations

import mmap
from types import SimpleNamespace

import numpy as np
import pytest
from support.emulator_launch import launch

from gpuemu_lsp.engine.emulator.launch import race_shadow

KERNEL = """extern "C" __global__ void k(int* y, int shift) {
  int t = threadIdx.x;
  y[t] = t; __syncthreads();
  y[(t + shift) % blockDim.x] = 7 * t; }"""
RACE = """extern "C" __global__ void k(int* y, int shift) { y[0] += threadIdx.x + shift; }"""


def _run(source: str = KERNEL, count: int = 64):
    return launch(source, 1, 64, np.zeros(count, np.int32), np.int32(0))


def test_refused_memory_is_a_clear_error_and_the_next_launch_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    race_shadow.shadow_planes.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(race_shadow, "mmap", SimpleNamespace(**{**vars(mmap), "mmap": refuse}))
        for _ in range(2):
            outcome = _run(RACE)
            assert outcome.status == "failed"
            (event,) = outcome.events
            assert event.rule == "engine/not-executed"
            assert "for the race detector" in event.message and "Cannot allocate memory" in event.message
    assert "memory/global-race" in [event.rule for event in _run(RACE).events]


def test_where_shared_memory_is_refused_a_private_mapping_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def private_only(file: int, size: int, flags: int) -> mmap.mmap:
        if flags & mmap.MAP_SHARED:
            raise OSError(12, "Cannot allocate memory")
        return mmap.mmap(file, size, flags=flags)

    race_shadow.shadow_planes.cache_clear()
    monkeypatch.setattr(race_shadow, "mmap", SimpleNamespace(**{**vars(mmap), "mmap": private_only}))
    assert "memory/global-race" in [event.rule for event in _run(RACE).events]
    assert not _run(count=1 << 20).events
    race_shadow.shadow_planes.cache_clear()

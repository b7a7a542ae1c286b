"""Loads from fully initialised buffers, checked against the buffer's bounds instead of its shadow."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx, launch, out, result, rules

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Checks, Request

MEMORY = Checks(races=False, sync=False)
ROW = """extern "C" __global__ void k(const T* x, T* y, int from) {
  int t = blockIdx.x * 64 + threadIdx.x;
  y[t] = x[t + from];
}"""


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize(("start", "wrong"), [(0, 0), (1344, 0), (1345, 1), (1400, 56), (-1, 1), (-40, 40)])
def test_contiguous_loads_at_the_ends(kind: type, start: int, wrong: int) -> None:
    names = {np.uint8: "unsigned char", np.int16: "short", np.float32: "float", np.float64: "double"}
    x = (np.arange(1472) % 100).astype(kind)
    source = ROW.replace("T*", f"{names[kind]}*")
    outcome = launch(source, 2, 64, x, np.zeros(128, kind), np.int32(start), checks=MEMORY)
    assert sum(event.count for event in outcome.events) == wrong
    assert rules(outcome) == (["memory/out-of-bounds"] if wrong else [])
    at = np.arange(128) + start
    inside = (at >= 0) & (at < 1472)
    expected = np.where(inside, x[np.clip(at, 0, 1471)], 0)
    assert np.array_equal(outcome.buffers["a1"].view(kind), expected)


def test_a_gather_and_a_broadcast() -> None:
    source = """extern "C" __global__ void k(const int* x, int* y, const int* at, int one) {
      int t = threadIdx.x;
      y[t] = x[at[t]] + x[one];
    }"""
    x, at = np.arange(400, dtype=np.int32), np.arange(64, dtype=np.int32)[::-1] * 6
    outcome = launch(source, 1, 64, x, np.zeros(64, np.int32), at.copy(), np.int32(399), checks=MEMORY)
    assert result(outcome, 1, np.int32).tolist() == (at + 399).tolist()
    at[7] = 400
    outcome = launch(source, 1, 64, x, np.zeros(64, np.int32), at, np.int32(-1), checks=MEMORY)
    assert [event.count for event in outcome.events] == [64, 1] or [e.count for e in outcome.events] == [1, 64]


def test_a_misaligned_load_in_bounds() -> None:
    source = """extern "C" __global__ void k(const char* x, float* y, int by) {
      y[threadIdx.x] = ((const float*)(x + by))[threadIdx.x];
    }"""
    x = np.zeros(4096, np.uint8)
    assert not launch(source, 1, 64, x, np.zeros(64, np.float32), np.int32(4), checks=MEMORY).events
    assert rules(launch(source, 1, 64, x, np.zeros(64, np.float32), np.int32(2), checks=MEMORY)) == [
        "memory/misaligned"
    ]


def test_partly_initialised_buffers_are_checked_by_shadow() -> None:
    source = """extern "C" __global__ void k(float* x, float* y) {
      int t = threadIdx.x;
      if (t < 300) x[t] = t;
      __syncthreads();
      y[t] = x[t ^ 1];
    }"""
    first, second = out(np.zeros(512, np.float32)), np.zeros(512, np.float32)
    outcome = launch(source, 1, 512, first, second, checks=MEMORY)
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert outcome.events[0].count == 212


def test_an_alias_of_an_uninitialised_buffer_is_checked_by_shadow() -> None:
    source = """extern "C" __global__ void k(float* y, const float* x) {
      y[threadIdx.x + 512] = x[threadIdx.x];
    }"""
    data = np.zeros(4096, np.uint8)
    buffers = Buffer("y", data, initialized=False), Buffer("x", data, alias_of="y")
    request = Request(artifact(compile_ptx(source)), "k", (1, 1, 1), (256, 1, 1), 0, buffers, MEMORY)
    assert rules(Emulator().run(request)) == ["memory/uninitialized-read"]


@pytest.mark.parametrize(("start", "step", "wrong"), [(0, 5, 0), (85, 5, 1), (315, -5, 0), (310, -5, 1), (400, 0, 64)])
def test_affine_addresses_with_a_stride(start: int, step: int, wrong: int) -> None:
    source = """extern "C" __global__ void k(const int* x, int* y, int start) {
      y[threadIdx.x] = x[start + STEP * (int)threadIdx.x];
    }""".replace("STEP", str(step))
    x = np.arange(400, dtype=np.int32)
    outcome = launch(source, 1, 64, x, np.zeros(64, np.int32), np.int32(start), checks=MEMORY)
    assert sum(event.count for event in outcome.events) == wrong
    at = start + step * np.arange(64)
    expected = np.where((at >= 0) & (at < 400), x[np.clip(at, 0, 399)], 0)
    assert np.array_equal(outcome.buffers["a1"].view(np.int32), expected)

"""Surface accesses and what is found at textures and surfaces: bounds, initialisation, races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.emulator_launch import rules
from support.texture_launch import of_array, run

_COPY = """extern "C" __global__ void k(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        TYPE v;
        surf2Dread(&v, from, x * (int)sizeof(TYPE), y);
        surf2Dwrite(v, to, x * (int)sizeof(TYPE), y);
    } }"""


@pytest.mark.parametrize(
    ("name", "dtype", "channels"),
    [("unsigned char", "u1", 1), ("short", "i2", 1), ("float", "f4", 1), ("uchar4", "u1", 4), ("short2", "i2", 2),
     ("float2", "f4", 2), ("float4", "f4", 4), ("int4", "i4", 4)],
)  # fmt: skip
def test_values_are_copied(name: str, dtype: str, channels: int) -> None:
    raw = np.random.default_rng(0).integers(0, 256, 9 * 21 * channels * np.dtype(dtype).itemsize, dtype=np.uint8)
    texels = raw.view(dtype).reshape(9, 21, channels)
    target = of_array("to", np.zeros_like(texels), initialized=False)
    outcome = run(
        _COPY.replace("TYPE", name), (2, 2), (16, 8), of_array("from", texels), target, np.int32(21), np.int32(9)
    )
    assert outcome.status == "completed" and not outcome.events
    assert outcome.buffers["to.texels"].tobytes() == raw.tobytes()
    assert outcome.written is not None and outcome.written["to.texels"].all()


def test_volumes_and_layers() -> None:
    source = """extern "C" __global__ void k(cudaSurfaceObject_t a, cudaSurfaceObject_t b, cudaSurfaceObject_t c) {
        int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
        float v; surf3Dread(&v, a, x * 4, y, z);
        surf2DLayeredwrite(v, b, x * 4, y, z);
        if (!y) surf1DLayeredwrite(v, c, x * 4, z); }"""
    volume = np.random.default_rng(1).random((4, 5, 6, 1), np.float32)
    targets = [
        of_array(name, np.zeros(shape, np.float32)) for name, shape in (("b", (4, 5, 6, 1)), ("c", (4, 1, 6, 1)))
    ]
    outcome = run(source, 1, (6, 5, 4), of_array("a", volume), *targets)
    assert outcome.status == "completed" and not outcome.events
    assert outcome.buffers["b.texels"].tobytes() == volume.tobytes()
    assert outcome.buffers["c.texels"].tobytes() == volume[:, 0].tobytes()


_BOUNDARY = """extern "C" __global__ void k(cudaSurfaceObject_t s, float* out) {
    int x = (int)threadIdx.x - 2;
    float v; surf2Dread(&v, s, x * 4, 1, cudaBoundaryModeMODE); out[threadIdx.x] = v; }"""


def test_boundary_modes() -> None:
    texels = np.arange(8, dtype=np.float32).reshape(2, 4, 1)
    clamped = run(_BOUNDARY.replace("MODE", "Clamp"), 1, 8, of_array("s", texels), np.zeros(8, np.float32))
    assert clamped.buffers["a1"].view(np.float32).tolist() == [4, 4, 4, 5, 6, 7, 7, 7]
    zero = run(_BOUNDARY.replace("MODE", "Zero"), 1, 8, of_array("s", texels), np.zeros(8, np.float32))
    assert zero.buffers["a1"].view(np.float32).tolist() == [0, 0, 4, 5, 6, 7, 0, 0]
    assert not clamped.events and not zero.events


def _only(outcome: Any) -> Any:
    assert len(outcome.events) == 1, outcome.events
    return outcome.events[0]


def test_what_traps_is_out_of_bounds() -> None:
    texels = np.arange(8, dtype=np.float32).reshape(2, 4, 1)
    outcome = run(_BOUNDARY.replace("MODE", "Trap"), 1, 8, of_array("s", texels), np.zeros(8, np.float32))
    event = _only(outcome)
    assert outcome.status == "trapped"
    assert (event.rule, event.count, event.thread) == ("memory/out-of-bounds", 4, (0, 0, 0))
    assert event.message == "access to byte -8, row 1 of `s.texels`, which has 16 bytes in a row, 2 rows"


def test_bytes_that_are_not_multiples_of_the_element() -> None:
    # The bug of surface code: the first coordinate is in bytes.
    source = """extern "C" __global__ void k(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, (int)threadIdx.x, 0); }"""
    outcome = run(source, 1, 8, of_array("s", np.zeros((1, 8, 1), np.float32)))
    assert rules(outcome) == ["memory/misaligned"]


def test_fetches_past_the_end_are_reported_and_give_zero() -> None:
    source = """extern "C" __global__ void k(cudaTextureObject_t t, float* out) {
        out[threadIdx.x] = tex1Dfetch<float>(t, (int)threadIdx.x - 1); }"""
    outcome = run(source, 1, 8, of_array("t", np.arange(1, 6, dtype=np.float32).reshape(5, 1)), np.full(8, 9, "f4"))
    event = _only(outcome)
    assert outcome.status == "completed"
    assert outcome.buffers["a1"].view(np.float32).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert (event.rule, event.count) == ("memory/texture-bounds", 3)
    assert event.message == "read of texel -1 of `t.texels`, which has 5 texels: the result is 0"


def test_texels_that_were_never_written() -> None:
    source = """extern "C" __global__ void k(cudaTextureObject_t t, float* out, float shift) {
        out[threadIdx.x] = tex2D<float>(t, threadIdx.x + shift, 0.5f); }"""
    written = np.zeros(64, np.bool_)
    written[:32] = True
    target = of_array("t", np.zeros((1, 16, 1), np.float32), initialized=False, initialized_bytes=written)
    clean = run(source, 1, 8, target, np.zeros(8, np.float32), np.float32(0.5))
    assert not clean.events
    event = _only(run(source, 1, 8, target, np.zeros(8, np.float32), np.float32(1.5)))
    assert event.rule == "memory/uninitialized-read"
    assert event.message == "uninitialized read of t.texels[8]"


def test_a_surface_that_is_filtered_in_place_races() -> None:
    source = """extern "C" __global__ void k(cudaSurfaceObject_t s) {
        float v; surf1Dread(&v, s, ((threadIdx.x + SHIFT) % blockDim.x) * 4);
        surf1Dwrite(v, s, threadIdx.x * 4); }"""
    texels = np.arange(64, dtype=np.float32).reshape(64, 1)
    assert rules(run(source.replace("SHIFT", "1"), 1, 64, of_array("s", texels))) == ["memory/global-race"]
    assert not run(source.replace("SHIFT", "0"), 1, 64, of_array("s", texels)).events


def test_what_is_not_an_object_is_not_run() -> None:
    source = """extern "C" __global__ void k(cudaTextureObject_t t, float* out) { *out = tex2D<float>(t, 0, 0); }"""
    outcome = run(source, 1, 1, np.uint64(12345), np.zeros(1, np.float32))
    assert outcome.status == "unsupported"
    assert rules(outcome) == ["engine/unsupported-instruction"]

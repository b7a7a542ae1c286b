"""Texture reads against the formulas of the CUDA C++ Programming Guide, "Texture Fetching"."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support import texture_reference as reference
from support.texture_launch import described, of_array, run

from gpuemu_lsp.engine.execution import Buffer
from gpuemu_lsp.engine.texture import AddressMode, ChannelKind, Sampling, Texture, decode, encode, texture_object

_MODES = {mode.name.lower(): mode for mode in AddressMode}
_COUNT = 256

READ_1D = """extern "C" __global__ void k(cudaTextureObject_t t, const float* x, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex1D<float4>(t, x[i]); }"""
READ_2D = """extern "C" __global__ void k(cudaTextureObject_t t, const float* x, const float* y, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex2D<float4>(t, x[i], y[i]); }"""
READ_3D = """extern "C" __global__
void k(cudaTextureObject_t t, const float* x, const float* y, const float* z, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex3D<float4>(t, x[i], y[i], z[i]); }"""
LAYERED = """extern "C" __global__
void k(cudaTextureObject_t t, const float* x, const float* y, const int* layer, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex2DLayered<float4>(t, x[i], y[i], layer[i]); }"""
LAYERED_1D = """extern "C" __global__ void k(cudaTextureObject_t t, const float* x, const int* layer, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex1DLayered<float4>(t, x[i], layer[i]); }"""
CUBE = """extern "C" __global__
void k(cudaTextureObject_t t, const float* x, const float* y, const float* z, float* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = texCubemap<float>(t, x[i], y[i], z[i]); }"""
GATHER = """extern "C" __global__ void k(cudaTextureObject_t t, const float* x, const float* y, float4* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = tex2Dgather<float4>(t, x[i], y[i], 2); }"""
LEVELS = """extern "C" __global__
void k(cudaTextureObject_t t, const float* x, const float* y, const float* lod, float* out, float* slope) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    out[i] = tex2DLod<float>(t, x[i], y[i], lod[i]);
    slope[i] = tex2DGrad<float>(t, x[i], y[i], make_float2(exp2f(lod[i]) / 16, 0), make_float2(0, 0.001f)); }"""


def _result(outcome: Any, index: int, channels: int = 4) -> np.ndarray:
    assert outcome.status == "completed", outcome.events
    assert not outcome.events
    return outcome.buffers[f"a{index}"].view(np.float32).reshape(-1, channels)


def _coordinates(seed: int, size: int, normalised: bool) -> np.ndarray:
    """Return coordinates inside and outside of a texture, on multiples of 1/64 of a texel."""
    steps = np.random.default_rng(seed).integers(-2 * 64 * size, 3 * 64 * size, _COUNT)
    return (steps / 64 / (size if normalised else 1)).astype(np.float32)


def _sampling(modes: tuple[str, ...], **more: Any) -> Sampling:
    filled = [*modes, *("clamp",) * (3 - len(modes))]
    return Sampling((_MODES[filled[0]], _MODES[filled[1]], _MODES[filled[2]]), **more)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("modes", list(itertools.product(_MODES, repeat=2)))
def test_two_dimensions_with_every_address_mode(modes: tuple[str, ...], normalised: bool, linear: bool) -> None:
    # Powers of two, so that a multiple of 1/64 texel is exact also where it is normalised.
    texels = np.random.default_rng(1).random((8, 16, 4), np.float32)
    border = (0.25, -1.0, 2.0, 0.5)
    sampling = _sampling(modes, linear=linear, normalised=normalised, border=border)
    x, y = _coordinates(2, 16, normalised), _coordinates(3, 8, normalised)
    outcome = run(READ_2D, 4, 64, of_array("t", texels, sampling), x, y, np.zeros(_COUNT * 4, np.float32))
    expected = reference.read(
        texels.astype(np.float64), (x.astype(np.float64), y.astype(np.float64)), modes,
        linear=linear, normalised=normalised, border=border,
    )  # fmt: skip
    if linear:
        np.testing.assert_allclose(_result(outcome, 3), expected, rtol=0, atol=1e-6)
    else:
        np.testing.assert_array_equal(_result(outcome, 3), expected.astype(np.float32))


@pytest.mark.parametrize("mode", _MODES)
def test_sizes_that_are_not_powers_of_two(mode: str) -> None:
    texels = np.random.default_rng(1).random((7, 13, 4), np.float32)
    generator = np.random.default_rng(2)
    x, y = (generator.uniform(-2, 3, _COUNT).astype(np.float32) for _ in range(2))
    sampling = _sampling((mode, mode), linear=True, normalised=True)
    outcome = run(READ_2D, 4, 64, of_array("t", texels, sampling), x, y, np.zeros(_COUNT * 4, np.float32))
    places = (x.astype(np.float64), y.astype(np.float64))
    expected = reference.read(texels.astype(np.float64), places, (mode, mode), linear=True, normalised=True)
    # Where a weight is near the middle of two steps of 1/256, the rounding of the coordinate decides.
    np.testing.assert_allclose(_result(outcome, 3), expected, rtol=0, atol=2 / 256)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("mode", _MODES)
def test_one_and_three_dimensions(mode: str, linear: bool) -> None:
    generator = np.random.default_rng(4)
    line, volume = generator.random((32, 4), np.float32), generator.random((4, 8, 16, 4), np.float32)
    sampling = _sampling((mode,) * 3, linear=linear, normalised=True)
    x, y, z = (_coordinates(seed, size, True) for seed, size in ((5, 16), (6, 8), (7, 4)))
    out = np.zeros(_COUNT * 4, np.float32)
    wide = [one.astype(np.float64) for one in (x, y, z)]
    options: dict[str, Any] = {"linear": linear, "normalised": True}
    got = _result(run(READ_1D, 4, 64, of_array("t", line, sampling), x, out), 2)
    expected = reference.read(line.astype(np.float64), (wide[0],), (mode,), **options)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    got = _result(run(READ_3D, 4, 64, of_array("t", volume, sampling), x, y, z, out), 4)
    expected = reference.read(volume.astype(np.float64), (wide[0], wide[1], wide[2]), (mode,) * 3, **options)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "f4"])
def test_formats_that_are_read_as_floats(dtype: str, channels: int) -> None:
    generator = np.random.default_rng(8)
    raw = generator.integers(0, 256, 8 * 16 * channels * np.dtype(dtype).itemsize, dtype=np.uint8)
    texels = raw.view(dtype) if dtype[0] != "f" else generator.standard_normal(8 * 16 * channels).astype(dtype)
    texels = texels.reshape(8, 16, channels)
    sampling = _sampling(("clamp", "clamp"), linear=True, as_float=dtype[0] != "f")
    x, y = _coordinates(9, 16, False), _coordinates(10, 8, False)
    outcome = run(READ_2D, 4, 64, of_array("t", texels, sampling), x, y, np.zeros(_COUNT * 4, np.float32))
    values = reference.as_values(texels, normalised_floats=True)
    expected = reference.read(values, (x.astype(np.float64), y.astype(np.float64)), ("clamp", "clamp"), linear=True)
    got = _result(outcome, 3)
    np.testing.assert_allclose(got[:, :channels], expected, rtol=1e-6, atol=1e-6)
    # What a texel has no channel for is (0, 0, 0, 1), as in graphics.
    np.testing.assert_array_equal(got[:, channels:3], 0)
    if channels < 4:
        np.testing.assert_allclose(got[:, 3], 1, rtol=1e-6)


_INTEGERS = {"u1": "uchar4", "i1": "char4", "u2": "ushort4", "i2": "short4", "u4": "uint4", "i4": "int4"}


@pytest.mark.parametrize("dtype", _INTEGERS)
def test_formats_that_are_read_as_they_are(dtype: str) -> None:
    vector = _INTEGERS[dtype]
    source = f"""extern "C" __global__ void k(cudaTextureObject_t t, {vector}* out) {{
        out[threadIdx.y * 16 + threadIdx.x] = tex2D<{vector}>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f); }}"""
    raw = np.random.default_rng(11).integers(0, 256, 8 * 16 * 4 * np.dtype(dtype).itemsize, dtype=np.uint8)
    texels = raw.view(dtype).reshape(8, 16, 4)
    outcome = run(source, 1, (16, 8), of_array("t", texels), np.zeros(8 * 16 * 4, dtype))
    assert outcome.status == "completed" and not outcome.events
    np.testing.assert_array_equal(outcome.buffers["a1"].view(dtype), texels.reshape(-1))


def test_layers() -> None:
    generator = np.random.default_rng(12)
    texels = generator.random((5, 8, 16, 4), np.float32)
    x, y, layer = _coordinates(13, 16, False), _coordinates(14, 8, False), generator.integers(-1, 7, _COUNT)
    sampling = _sampling(("clamp", "clamp"), linear=True)
    out = np.zeros(_COUNT * 4, np.float32)
    got = _result(run(LAYERED, 4, 64, of_array("t", texels, sampling), x, y, layer.astype(np.int32), out), 4)
    places = (x.astype(np.float64), y.astype(np.float64))
    of_layer = [reference.read(one.astype(np.float64), places, ("clamp", "clamp"), linear=True) for one in texels]
    expected = np.stack(of_layer)[np.clip(layer, 0, 4), np.arange(_COUNT)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    lines = texels[:, :1]
    got = _result(run(LAYERED_1D, 4, 64, of_array("t", lines, sampling), x, layer.astype(np.int32), out), 3)
    of_layer = [reference.read(one[0].astype(np.float64), places[:1], ("clamp",), linear=True) for one in lines]
    np.testing.assert_allclose(got, np.stack(of_layer)[np.clip(layer, 0, 4), np.arange(_COUNT)], rtol=0, atol=1e-6)


def test_cubemaps() -> None:
    sides = np.arange(6 * 4 * 4, dtype=np.float32).reshape(6, 4, 4, 1)
    x, y, z = np.random.default_rng(15).uniform(-1, 1, (3, _COUNT)).astype(np.float32)
    outcome = run(CUBE, 4, 64, of_array("t", sides, _sampling((), normalised=True)), x, y, z, np.zeros(_COUNT, "f4"))
    expected = []
    for direction in zip(x, y, z, strict=True):
        side, s, t = reference.cube_side(*map(float, direction))
        expected.append(sides[side, min(int(t * 4), 3), min(int(s * 4), 3), 0])
    np.testing.assert_array_equal(_result(outcome, 4, 1)[:, 0], expected)


def test_gathers_return_one_channel_of_the_four_texels() -> None:
    texels = np.random.default_rng(16).random((8, 16, 4), np.float32)
    x, y = _coordinates(17, 16, False), _coordinates(18, 8, False)
    outcome = run(GATHER, 4, 64, of_array("t", texels), x, y, np.zeros(_COUNT * 4, np.float32))
    left, top = (np.floor(one - 0.5).astype(int) for one in (x, y))

    def at(column: int, row: int) -> np.ndarray:
        return texels[np.clip(top + row, 0, 7), np.clip(left + column, 0, 15), 2]

    expected = np.stack([at(0, 1), at(1, 1), at(1, 0), at(0, 0)], axis=1)
    np.testing.assert_array_equal(_result(outcome, 3), expected)


@pytest.mark.parametrize("between", [False, True])
def test_levels_by_number_and_by_derivatives(between: bool) -> None:
    sizes = [16, 8, 4, 2, 1]
    levels = [np.full((size, size), float(number), np.float32) for number, size in enumerate(sizes)]
    data = np.concatenate([one.reshape(-1) for one in levels]).view(np.uint8)
    sampling = _sampling((), normalised=True, level_linear=between)
    texture = Texture((16, 16, 1), 4, 1, ChannelKind.FLOAT, sampling, levels=5)
    generator = np.random.default_rng(19)
    x, y = generator.random((2, _COUNT)).astype(np.float32)
    lod = (generator.integers(-16, 80, _COUNT) / 16 + 1 / 64).astype(np.float32)
    zeros = np.zeros(_COUNT, np.float32)
    outcome = run(LEVELS, 4, 64, texture_object("t", texture, Buffer("texels", data)), x, y, lod, zeros, zeros)
    level = np.clip(lod, 0, 4)
    expected = np.floor(level * 256 + 0.5) / 256 if between else np.floor(level + 0.5)
    np.testing.assert_allclose(_result(outcome, 4, 1)[:, 0], expected, rtol=0, atol=1e-6)
    steep = lod > -5
    np.testing.assert_allclose(_result(outcome, 5, 1)[steep, 0], expected[steep], rtol=0, atol=2 / 256)


def test_objects_are_passed_in_structures_arrays_and_by_a_divergent_choice() -> None:
    source = """struct Pair { int n; cudaTextureObject_t first, second; };
    extern "C" __global__ void k(const cudaTextureObject_t* table, float* out) {
        int i = threadIdx.x;
        out[i] = tex2D<float>(table[i % 3], i % 16 + 0.5f, i / 16 + 0.5f); }"""
    textures = [np.random.default_rng(seed).random((4, 16, 1), np.float32) for seed in range(3)]
    objects = [of_array(f"t{index}", texels) for index, texels in enumerate(textures)]
    table = Buffer("table", np.zeros(24, np.uint8), pointers=tuple((8 * i, one) for i, one in enumerate(objects)))
    outcome = run(source, 1, 64, table, np.zeros(64, np.float32))
    assert outcome.status == "completed" and not outcome.events
    i = np.arange(64)
    expected = np.stack(textures)[i % 3, i // 16, i % 16, 0]
    np.testing.assert_array_equal(outcome.buffers["a1"].view(np.float32), expected)
    assert not outcome.buffers["table"].any()


def test_queries() -> None:
    source = """extern "C" __global__ void k(cudaTextureObject_t t, int* out) {
        asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
        asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t)); }"""
    outcome = run(source, 1, 1, of_array("t", np.zeros((5, 7, 1), np.float32)), np.zeros(2, np.int32))
    assert outcome.status == "completed" and not outcome.events
    assert outcome.buffers["a1"].view(np.int32).tolist() == [7, 5]


def test_records_keep_what_they_describe() -> None:
    sampling = _sampling(("wrap", "mirror", "border"), linear=True, normalised=True, as_float=True, level_bias=0.5)
    texture = Texture((5, 6, 7), 2, 4, ChannelKind.SIGNED, sampling, row_bytes=64, address=1 << 40)
    found = decode(encode(texture).tobytes())
    assert found is not None
    assert (found.extent, found.sampling, found.address, found.row_bytes) == (
        texture.extent, sampling, texture.address, 64,
    )  # fmt: skip
    assert decode(bytes(512)) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"extent": (0, 1, 1)}, "at least 1"),
        ({"channels": 3}, "no format has 3 float channels"),
        ({"kind": ChannelKind.UNSIGNED, "sampling": Sampling(linear=True)}, "linear filtering"),
        ({"kind": ChannelKind.UNSIGNED, "sampling": Sampling(as_float=True)}, "8 and 16 bits"),
        ({"row_bytes": 4}, "rows are 4 bytes apart"),
    ],
)
def test_what_cuda_refuses_is_refused(change: dict[str, Any], reason: str) -> None:
    given = {"extent": (4, 4, 1), "channel_bytes": 4, "channels": 1, "kind": ChannelKind.FLOAT} | change
    with pytest.raises(ValueError, match=reason):
        encode(Texture(**given))
    with pytest.raises(ValueError, match="the texture ends at byte"):
        texture_object("t", described(np.zeros((4, 4, 1), np.float32)), Buffer("x", np.zeros(63, np.uint8)))

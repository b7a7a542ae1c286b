"""``wmma`` load, multiply and store in every shape, type and layout; ``ldmatrix``, ``stmatrix``, ``movmatrix``."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from support.emulator_launch import launch, out, ptx_kernel, result, rules

_TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
}
_RESULTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
_SHAPES = ("m16n16k16", "m8n32k16", "m32n8k16")
_COUNTS = {  # registers of a, b and an accumulator, as the manual's table of fragments has them
    "f16": dict.fromkeys(_SHAPES, (8, 8)),
    "bf16": {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)},
    "s8": {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)},
    "tf32": {"m16n16k8": (4, 4)},
    "f64": {"m8n8k4": (1, 1)},
    "s4": {"m8n8k32": (1, 1)},
    "b1": {"m8n8k128": (1, 1)},
}
_COUNTS |= {"u8": _COUNTS["s8"], "u4": _COUNTS["s4"]}
_LAYOUTS = [(a, b, c) for a in ("row", "col") for b in ("row", "col") for c in ("row", "col")]
CASES = [
    (type_, shape, d, layouts)
    for type_, accumulators in (
        ("f16", ("f16", "f32")),
        ("bf16", ("f32",)),
        ("tf32", ("f32",)),
        ("f64", ("f64",)),
        ("s8", ("s32",)),
        ("u8", ("s32",)),
    )
    for shape in _COUNTS[type_]
    for d in accumulators
    for layouts in (_LAYOUTS if shape != "m32n8k16" else _LAYOUTS[::3])
]


def _registers(letter: str, count: int, wide: bool, floating: bool) -> tuple[list[str], str]:
    names = [f"%{letter}{i}" for i in range(count)]
    kind = "f" if floating else "b"
    return names, f".reg .{kind}{64 if wide else 32} {', '.join(names)};"


def _program(
    type_: str,
    shape: str,
    d: str,
    layouts: tuple[str, str, str],
    strides: tuple[int, int, int],
    space: str,
    middle: str = "",
) -> str:
    m, n, _ = map(int, re.findall(r"\d+", shape))
    count_a, count_b = _COUNTS[type_][shape]
    count_c = m * n // 32 // (2 if d == "f16" else 1)
    wide = type_ == "f64"
    a, a_decl = _registers("a", count_a, wide, wide)
    b, b_decl = _registers("b", count_b, wide, wide)
    c, c_decl = _registers("c", count_c, wide, d in ("f32", "f64"))
    types = f"{d}.{d}" if type_ == "f16" else f"{d}.{type_}.{type_}.{d}"
    row_a, row_b, row_c = layouts
    rounding = ".rn" if wide else ""
    return ptx_kernel(
        "pa pb pc pd ps:u32",
        f"""\
.reg .b64 %pa, %pb, %pc, %pd; .reg .b32 %s; {a_decl} {b_decl} {c_decl}
ld.param.u64 %pa, [pa]; ld.param.u64 %pb, [pb]; ld.param.u64 %pc, [pc]; ld.param.u64 %pd, [pd]; ld.param.u32 %s, [ps];
wmma.load.a.sync.aligned.{row_a}.{shape}{space}.{type_} {{{", ".join(a)}}}, [%pa], %s;
wmma.load.b.sync.aligned.{row_b}.{shape}{space}.{type_} {{{", ".join(b)}}}, [%pb], {strides[1]};
wmma.load.c.sync.aligned.{row_c}.{shape}{space}.{d} {{{", ".join(c)}}}, [%pc], {strides[2]};
{middle}
wmma.mma{".xor.popc" if type_ == "b1" else ""}.sync.aligned.{row_a}.{row_b}.{shape}{rounding}.{types} {{{", ".join(c)}}}, {{{", ".join(a)}}}, {{{", ".join(b)}}}, {{{", ".join(c)}}};
wmma.store.d.sync.aligned.{row_c}.{shape}{space}.{d} [%pd], {{{", ".join(c)}}}, {strides[2]};
ret;""",
    )


def _in_memory(matrix: np.ndarray, layout: str, stride: int) -> np.ndarray:
    lines = matrix if layout == "row" else matrix.T
    memory = np.zeros((lines.shape[0], stride), matrix.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory


def _stride(shape: tuple[int, int], layout: str, more: int) -> int:
    return (shape[1] if layout == "row" else shape[0]) + more


@pytest.mark.parametrize(
    ("type_", "shape", "d", "layouts"), CASES, ids=lambda v: "-".join(v) if isinstance(v, tuple) else v
)
def test_wmma_multiplies_matrices_in_memory(type_: str, shape: str, d: str, layouts: tuple[str, str, str]) -> None:
    m, n, k = map(int, re.findall(r"\d+", shape))
    rng = np.random.default_rng(m * 64 + n + k)
    # Small integers: exact in every type and in every order of summation.
    a, b = (rng.integers(0 if type_ == "u8" else -4, 5, s).astype(_TYPES[type_]) for s in ((m, k), (k, n)))
    c = rng.integers(-8, 9, (m, n)).astype(_RESULTS[d])
    strides = [_stride(s, way, 16) for s, way in zip(((m, k), (k, n), (m, n)), layouts, strict=True)]
    ptx = _program(type_, shape, d, layouts, tuple(strides), ".global")
    memories = [_in_memory(x, way, s) for x, way, s in zip((a, b, c), layouts, strides, strict=True)]
    target = np.zeros_like(memories[2])
    outcome = launch(ptx, 1, 32, *memories, out(target), np.int32(strides[0]))
    assert not outcome.events, outcome.events[0]
    stored = result(outcome, 3, target.dtype).reshape(target.shape)
    found = stored[:, :n] if layouts[2] == "row" else stored[:, :m].T
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert np.array_equal(found.astype(np.float64), expected)
    written = outcome.written["a3"].reshape(target.shape[0], -1)
    assert written.sum() == m * n * target.itemsize  # only the tile


@pytest.mark.parametrize("type_", ["s4", "u4", "b1"])
def test_wmma_of_less_than_a_byte(type_: str) -> None:
    shape = next(iter(_COUNTS[type_]))
    m, n, k = map(int, re.findall(r"\d+", shape))
    bits = 1 if type_ == "b1" else 4
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 1 << bits, s) for s in ((m, k), (n, k)))
    c = rng.integers(-8, 9, (m, n)).astype(np.int32)

    def packed(x: np.ndarray) -> np.ndarray:
        return np.packbits(((x[:, :, None] >> np.arange(bits)) & 1).reshape(len(x), -1), axis=1, bitorder="little")

    ptx = _program(type_, shape, "s32", ("row", "col", "row"), (k, k, n), ".global")
    outcome = launch(
        ptx, 1, 32, packed(a.astype(np.uint8)), packed(b.astype(np.uint8)), c, out(np.zeros_like(c)), np.int32(k)
    )
    signed = (lambda x: np.where(x > 7, x - 16, x)) if type_ == "s4" else (lambda x: x)
    product = (a[:, None] ^ b[None]).sum(axis=2) if type_ == "b1" else signed(a) @ signed(b).T
    assert np.array_equal(result(outcome, 3, np.int32).reshape(m, n), product + c)


def test_elements_of_a_fragment_can_be_scaled_alike() -> None:
    """An elementwise operation on fragments is one on the matrix, as mma.h guarantees."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.ones((16, 16), np.float32)
    middle = "\n".join(f"mul.rn.f32 %c{i}, %c{i}, 0f40400000;" for i in range(8))
    middle += "\n" + "\n".join(f"add.rn.f16x2 %a{i}, %a{i}, %a{i};" for i in range(8))
    ptx = _program("f16", "m16n16k16", "f32", ("row", "row", "row"), (16, 16, 16), ".global", middle)
    outcome = launch(ptx, 1, 32, a, b, c, out(np.zeros_like(c)), np.int32(16))
    assert np.array_equal(result(outcome, 3, np.float32).reshape(16, 16), 2 * (a.astype(float) @ b.astype(float)) + 3)


def test_accumulators_may_be_renamed() -> None:
    """The tiles of one wmma must not overwrite each other's addends."""
    ptx = _program("f16", "m16n16k16", "f32", ("row", "row", "row"), (16, 16, 16), ".global")
    turned = ", ".join(f"%c{(i + 4) % 8}" for i in range(8))
    ptx = re.sub(r"(wmma\.mma\S+ )\{[^}]*\}", rf"\1{{{turned}}}", ptx)
    ptx = re.sub(r"(wmma\.store\S+ \[%pd\], )\{[^}]*\}", rf"\1{{{turned}}}", ptx)
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = rng.integers(-9, 9, (16, 16)).astype(np.float32)
    outcome = launch(ptx, 1, 32, a, b, c, out(np.zeros_like(c)), np.int32(16))
    assert np.array_equal(result(outcome, 3, np.float32).reshape(16, 16), a.astype(float) @ b.astype(float) + c)


def test_a_tile_that_exceeds_its_buffer_is_found() -> None:
    ptx = _program("f16", "m16n16k16", "f32", ("row", "row", "row"), (16, 16, 16), ".global")
    a, c = np.zeros((15, 16), np.float16), np.zeros((16, 16), np.float32)
    outcome = launch(ptx, 1, 32, a, np.zeros((16, 16), np.float16), c, out(c), np.int32(16))
    assert rules(outcome) == ["memory/out-of-bounds"]
    assert outcome.events[0].buffer == "a0"


# ---- ldmatrix, stmatrix, movmatrix -----------------------------------------------------------------------------------

_MOVE = """
extern "C" __global__ void k(const unsigned short* x, unsigned* y, int row_bytes) {
    __shared__ __align__(16) unsigned short s[32 * 64];
    for (int i = threadIdx.x; i < 32 * row_bytes / 2; i += 32) s[i] = x[i];
    __syncwarp();
    unsigned r[4] = {7, 7, 7, 7};
    unsigned at = (unsigned)__cvta_generic_to_shared(s) + threadIdx.x * row_bytes;
    asm volatile("%(name)s {%(results)s}, [%%4];" : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; ++i) y[i * 32 + threadIdx.x] = r[i];
}
"""


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("row_bytes", [16, 48])
def test_ldmatrix(count: int, transposed: str, row_bytes: int) -> None:
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16"
    source = _MOVE % {"name": name, "results": ", ".join(f"%{i}" for i in range(count))}
    x = np.arange(32 * row_bytes // 2, dtype=np.uint16) * 3 + 1
    outcome = launch(source, 1, 32, x, out(np.zeros((4, 32), np.uint32)), np.int32(row_bytes))
    assert not outcome.events, outcome.events[0]
    found = result(outcome, 1, np.uint16).reshape(4, 32, 2)
    rows = x.reshape(32, -1)[:, :8]
    for matrix in range(4):
        tile = rows[8 * matrix : 8 * matrix + 8]
        tile = tile.T if transposed else tile
        for lane in range(32):
            # Thread T of the figure holds row T / 4, elements 2 (T % 4) and the next.
            expected = tile[lane // 4, 2 * (lane % 4) :][:2] if matrix < count else [7, 0]
            assert list(found[matrix, lane]) == list(expected)


def test_ldmatrix_requires_rows_aligned_to_16_bytes() -> None:
    source = _MOVE % {"name": "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "results": "%0, %1, %2, %3"}
    outcome = launch(source, 1, 32, np.zeros(2048, np.uint16), out(np.zeros((4, 32), np.uint32)), np.int32(24))
    assert rules(outcome) == ["memory/misaligned"]


def test_ldmatrix_ignores_the_addresses_of_lanes_beyond_its_rows() -> None:
    source = _MOVE % {"name": "ldmatrix.sync.aligned.m8n8.x1.shared.b16", "results": "%0"}
    source = source.replace("threadIdx.x * row_bytes", "(threadIdx.x < 8 ? threadIdx.x * row_bytes : 0x7ffffff1)")
    outcome = launch(source, 1, 32, np.zeros(2048, np.uint16), out(np.zeros((4, 32), np.uint32)), np.int32(16))
    assert not outcome.events


def test_ldmatrix_of_uninitialised_memory_is_found() -> None:
    source = _MOVE % {"name": "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "results": "%0, %1, %2, %3"}
    source = source.replace("i < 32 * row_bytes / 2", "i < 31 * row_bytes / 2")
    outcome = launch(source, 1, 32, np.zeros(2048, np.uint16), out(np.zeros((4, 32), np.uint32)), np.int32(16))
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert outcome.events[0].thread == (31, 0, 0)


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_is_the_inverse_of_ldmatrix(count: int, transposed: str) -> None:
    names = ", ".join(f"%r{i}" for i in range(count))
    ptx = ptx_kernel(
        "p q",
        f"""\
.reg .b64 %in, %out; .reg .b32 %r<4>, %t, %at, %back, %v<4>; .reg .b64 %o;
.shared .align 16 .b8 s[1024];
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %in, %in, %o;
{"".join(f"ld.global.b32 %r{i}, [%in+{128 * i}];" for i in range(4))}
mov.u32 %at, s; mad.lo.u32 %at, %t, 16, %at;
st.shared.v4.b32 [%at], {{0, 0, 0, 0}};
bar.sync 0;
stmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 [%at], {{{names}}};
bar.sync 0;
ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
mul.wide.u32 %o, %t, 16; add.s64 %out, %out, %o;
st.global.v4.b32 [%out], {{%v0, %v1, %v2, %v3}};
ret;""",
    )
    x = np.arange(4 * 32 * 2, dtype=np.uint16) + 1
    outcome = launch(ptx, 1, 32, x, out(np.zeros(256, np.uint16)))
    stored = result(outcome, 1, np.uint16).reshape(4, 8, 8)
    fragments = x.reshape(4, 32, 2)
    for matrix in range(4):
        for row in range(8):
            for column in range(8):
                i, j = (column, row) if transposed else (row, column)
                expected = fragments[matrix, 4 * i + j // 2, j % 2] if matrix < count else 0
                assert stored[matrix, row, column] == expected


def test_movmatrix_transposes() -> None:
    ptx = ptx_kernel(
        "p q",
        """\
.reg .b64 %in, %out, %o; .reg .b32 %a, %d, %t;
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %in, %in, %o; add.s64 %out, %out, %o;
ld.global.b32 %a, [%in];
movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;
st.global.b32 [%out], %d;
ret;""",
    )
    x = np.arange(64, dtype=np.uint16)
    outcome = launch(ptx, 1, 32, x, out(np.zeros(64, np.uint16)))
    assert np.array_equal(result(outcome, 1, np.uint16).reshape(8, 8), x.reshape(8, 8).T)

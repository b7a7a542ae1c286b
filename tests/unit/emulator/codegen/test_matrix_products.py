"""``mma.sync`` of every type and shape against exact sums over matrices laid out by the manual's tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from support import matrix_layouts as layouts
from support.emulator_launch import launch, out, ptx_kernel, result, rules

_FLOATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}

CASES = [
    *(f"{s}.row.col.{d}.f16.f16.{d}" for s in ("m16n8k8", "m16n8k16") for d in ("f16", "f32")),
    *(f"{s}.row.col.f32.bf16.bf16.f32" for s in ("m16n8k8", "m16n8k16")),
    *(f"{s}.row.col.f32.tf32.tf32.f32" for s in ("m16n8k4", "m16n8k8")),
    *(f"{s}.row.col.f64.f64.f64.f64" for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    *(f"m16n8k32.row.col.f32.{a}.{b}.f32" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(
        f"{s}.row.col{sat}.s32.{a}8.{b}8.s32"
        for s in ("m8n8k16", "m16n8k16", "m16n8k32")
        for sat in ("", ".satfinite")
        for a in "su"
        for b in "su"
    ),
    *(
        f"{s}.row.col{sat}.s32.{a}4.{b}4.s32"
        for s in ("m8n8k32", "m16n8k32", "m16n8k64")
        for sat in ("", ".satfinite")
        for a, b in ("su", "us")
    ),
    *(f"{s}.row.col.s32.b1.b1.s32.{op}.popc" for s in ("m8n8k128", "m16n8k128", "m16n8k256") for op in ("xor", "and")),
]


def _matrix(rng: np.random.Generator, type_: str, rows: int, columns: int) -> np.ndarray:
    """Random values of a type as Python numbers; floats of widely different magnitude."""
    if type_ == "b1":
        return rng.integers(0, 2, (rows, columns))
    if type_ in _FLOATS:
        values = (rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-4, 5, (rows, columns))).astype(
            _FLOATS[type_]
        )
        if type_ == "tf32":
            values = (values.view(np.uint32) & 0xFFFFE000).view(np.float32)
        return values.astype(np.float64)
    bits = _BITS[type_]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if type_[0] == "s" else (0, 1 << bits)
    return rng.integers(low, high, (rows, columns))


def _patterns(values: np.ndarray, type_: str) -> np.ndarray:
    """The bits of each element as an integer."""
    if type_ in _FLOATS:
        wide = values.astype(_FLOATS[type_])
        return wide.view({2: np.uint16, 4: np.uint32, 8: np.uint64, 1: np.uint8}[wide.itemsize])
    return values & ((1 << _BITS[type_]) - 1)


def _registers(layout, shape: str, type_: str, patterns: np.ndarray, count: int) -> np.ndarray:
    """Pack elements into registers: array [register][lane]."""
    bits = _BITS[type_]
    wide = 64 if bits == 64 else 32
    per = max(wide // bits, 1)
    packed = np.zeros((count, 32), np.uint64)
    for lane in range(32):
        for i in range(count * per):
            row, column = layout(shape, bits, lane, i)
            packed[i // per, lane] |= np.uint64(int(patterns[row, column]) << (i % per * bits))
    return packed.astype(np.uint64 if wide == 64 else np.uint32)


_ACCUMULATORS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


def _accumulator(shape: str, type_: str, matrix: np.ndarray) -> np.ndarray:
    count = matrix.size // 32
    flat = np.zeros((count, 32), _ACCUMULATORS[type_])
    for lane in range(32):
        for i in range(count):
            flat[i, lane] = matrix[layouts.c(shape, lane, i)]
    if type_ != "f16":
        return flat
    return flat.reshape(count // 2, 2, 32).transpose(0, 2, 1).copy().view(np.uint32).reshape(count // 2, 32)


def _back(shape: str, type_: str, registers: np.ndarray, m: int) -> np.ndarray:
    if type_ == "f16":
        registers = registers.view(np.float16).reshape(-1, 32, 2).transpose(0, 2, 1).reshape(-1, 32)
    matrix = np.zeros((m, 8), registers.dtype)
    for lane in range(32):
        for i in range(m * 8 // 32):
            matrix[layouts.c(shape, lane, i)] = registers[i, lane]
    return matrix


def kernel(name: str, counts: tuple[int, int, int, int], wide: bool, c_float: bool, d_float: bool) -> str:
    """PTX that loads registers as rows of 32 lanes, runs one instruction and stores the results alike."""
    size = 8 if wide else 4
    d, *sources = counts
    lines, start, operands = [], 0, []
    kinds = ("b", "b", "f" if c_float else "b")
    for letter, count, kind in zip("abc", sources, kinds, strict=True):
        names = [f"%{letter}{i}" for i in range(count)]
        lines += [f".reg .{kind}{size * 8} {', '.join(names)};"]
        lines += [f"ld.global.{kind}{size * 8} {n}, [%in+{(start + i) * 32 * size}];" for i, n in enumerate(names)]
        operands.append("{" + ", ".join(names) + "}")
        start += count
    kind = "f" if d_float else "b"
    results = [f"%d{i}" for i in range(d)]
    lines += [f".reg .{kind}{size * 8} {', '.join(results)};"]
    lines += [f"{name} {{{', '.join(results)}}}, {', '.join(operands)};"]
    lines += [f"st.global.{kind}{size * 8} [%out+{i * 32 * size}], {n};" for i, n in enumerate(results)]
    body = "\n".join(lines)
    return ptx_kernel(
        "p q",
        f"""\
.reg .b64 %in, %out, %off; .reg .b32 %me;
ld.param.u64 %in, [p]; ld.param.u64 %out, [q];
mov.u32 %me, %tid.x; mul.wide.u32 %off, %me, {size};
add.s64 %in, %in, %off; add.s64 %out, %out, %off;
{body}
ret;""",
    )


@pytest.mark.parametrize("form", CASES)
def test_product_is_the_exact_sum_rounded_once(form: str) -> None:
    words = form.replace(".popc", "").split(".")
    shape = words[0]
    rest = [w for w in words[3:] if w not in ("satfinite", "xor", "and")]
    d_type, a_type, b_type, c_type = rest
    m, _, k = map(int, re.findall(r"\d+", shape))
    rng = np.random.default_rng(len(form) * 7919 + k)
    left, right = _matrix(rng, a_type, m, k), _matrix(rng, b_type, k, 8)
    if c_type == "s32":
        addend = rng.integers(-1000, 1000, (m, 8))
        addend[0, :4] = 2**31 - 5, -(2**31) + 3, 2**31 - 1, -(2**31)
    else:
        addend = (rng.standard_normal((m, 8)) * 8).astype(_ACCUMULATORS[c_type])
    per = 64 if a_type == "f64" else 32
    ca, cb = m * k * _BITS[a_type] // (32 * per), 8 * k * _BITS[b_type] // (32 * per)
    registers = [
        _registers(layouts.a, shape, a_type, _patterns(left, a_type), ca),
        _registers(layouts.b, shape, b_type, _patterns(right, b_type), cb),
        _accumulator(shape, c_type, addend),
    ]
    counts = (m * 8 // 32 // (2 if d_type == "f16" else 1), ca, cb, len(registers[2]))
    tail = form.replace("m16n8k32", "m16n8k32")
    ptx = kernel(f"mma.sync.aligned.{tail}", counts, per == 64, c_type in ("f32", "f64"), d_type in ("f32", "f64"))
    raw = np.concatenate([np.frombuffer(r.tobytes(), np.uint8) for r in registers])
    outcome = launch(ptx, 1, 32, raw, out(np.zeros(counts[0] * 32 * per // 8, np.uint8)))
    element = np.float16 if d_type == "f16" else _ACCUMULATORS[d_type]
    stored = result(outcome, 1, np.uint32 if d_type == "f16" else element).reshape(-1, 32)
    found = _back(shape, d_type, stored, m)
    expected = _expected(form, left, right, addend, d_type)
    assert np.array_equal(found, expected), (found - expected)[found != expected][:4]


def _expected(form: str, left: np.ndarray, right: np.ndarray, addend: np.ndarray, d_type: str) -> np.ndarray:
    if d_type == "s32":
        if ".xor" in form or ".and" in form:
            both = left[:, :, None] ^ right[None] if ".xor" in form else left[:, :, None] & right[None]
            product = both.sum(axis=1)
        else:
            product = left @ right
        total = product + addend.astype(np.int64)
        if "satfinite" in form:
            return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)
        return total.astype(np.int64).astype(np.uint32).view(np.int32)
    if d_type == "f64":
        return _chained(left, right, addend)
    exact = np.zeros(addend.shape, _ACCUMULATORS[d_type])
    for row in range(exact.shape[0]):
        for column in range(8):
            terms = (Fraction(float(x)) * Fraction(float(y)) for x, y in zip(left[row], right[:, column], strict=True))
            exact[row, column] = _rounded(sum(terms, Fraction(float(addend[row, column]))), d_type)
    return exact


def _rounded(value: Fraction, type_: str) -> np.floating:
    """The nearest number of a format, ties to even, by exact rational arithmetic."""
    digits, least = (11, -24) if type_ == "f16" else (24, -149)
    if value == 0:
        return _ACCUMULATORS[type_](0)
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    return _ACCUMULATORS[type_](float(round(value / unit) * unit))


def _chained(left: np.ndarray, right: np.ndarray, addend: np.ndarray) -> np.ndarray:
    total = addend.astype(np.float64).copy()
    for row in range(total.shape[0]):
        for column in range(8):
            value = Fraction(float(addend[row, column]))
            for x, y in zip(left[row], right[:, column], strict=True):
                value = Fraction(float(Fraction(float(x)) * Fraction(float(y)) + value))
            total[row, column] = float(value)
    return total


def test_an_incomplete_warp_is_reported() -> None:
    ptx = kernel("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (4, 2, 1, 4), False, True, True)
    outcome = launch(ptx, 1, 48, np.zeros(7 * 32 * 4 + 64, np.uint8), out(np.zeros(4 * 32 * 4 + 64, np.uint8)))
    assert rules(outcome) == ["sync/missing-warp-mask"]
    assert "all 32 lanes" in outcome.events[0].message


def test_infinities_and_nans_propagate() -> None:
    ptx = kernel("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (4, 2, 1, 4), False, True, True)
    left, right = np.ones((16, 8)), np.ones((8, 8))
    left[0, 0], left[1, 1], right[1, 1] = np.inf, np.inf, 0.0
    given = [
        _registers(layouts.a, "m16n8k8", "f16", _patterns(left, "f16"), 2),
        _registers(layouts.b, "m16n8k8", "f16", _patterns(right, "f16"), 1),
        np.zeros((4, 32), np.float32),
    ]
    raw = np.concatenate([np.frombuffer(r.tobytes(), np.uint8) for r in given])
    outcome = launch(ptx, 1, 32, raw, out(np.zeros(4 * 32 * 4, np.uint8)))
    found = _back("m16n8k8", "f32", result(outcome, 1, np.float32).reshape(4, 32), 16)
    assert (
        np.isposinf(found[0]).all() and np.isnan(found[1, 1]) and np.isposinf(found[1, 0]) and (found[2, 2:] == 8).all()
    )


@pytest.mark.parametrize(
    "form",
    [
        "m8n8k4.row.col.f32.f16.f16.f32",  # sm_70's own layout
        "m16n8k16.col.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f32.f16.bf16.f32",
        "m16n8k16.row.col.f16.bf16.bf16.f16",
        "m16n8k16.row.col.satfinite.f32.f16.f16.f32",
    ],
)
def test_an_undefined_form_is_unsupported(form: str) -> None:
    ptx = kernel(f"mma.sync.aligned.{form}", (4, 4, 2, 4), False, True, True)
    outcome = launch(ptx, 1, 32, np.zeros(10 * 32 * 4, np.uint8), out(np.zeros(4 * 32 * 4, np.uint8)))
    assert outcome.status == "unsupported" and rules(outcome) == ["engine/unsupported-instruction"]


def test_kernels_in_the_disk_cache_are_loaded_with_the_functions_they_call(tmp_path) -> None:
    """The machine code of products is not part of a kernel's: a process that translates nothing must load it, too."""
    ptx = kernel("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", (4, 2, 1, 4), False, True, True)
    (tmp_path / "k.ptx").write_text(ptx)
    script = """
import sys, numpy as np
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.versions import code_cache
from gpuemu_lsp.engine.execution import Buffer, Request
if sys.argv[2] == "cached":
    code_cache.translate = None
artifact = Artifact("k.cu", "sm_80", open(sys.argv[1]).read(), b"", {}, {}, "")
given = tuple(Buffer(name, np.zeros(1024, np.uint8)) for name in "pq")
print(Emulator().run(Request(artifact, "k", (1, 1, 1), (32, 1, 1), 0, given)).status)
"""
    environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path / "cache")}
    for state in ("empty", "cached"):
        command = [sys.executable, "-c", script, str(tmp_path / "k.ptx"), state]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "completed\n"

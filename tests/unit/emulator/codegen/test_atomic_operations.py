"""``atom`` and ``red`` of every type and operation, compared with Python in lane order."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel, result, rules

_TYPES = {
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "b16": np.uint16,
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16,
}  # fmt: skip
_LANES = 32


def _wrapped(value: int, type_: type) -> int:
    bits = np.dtype(type_).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.dtype(type_).kind == "i" and value >> (bits - 1) else value


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, x: old + x,
    "min": min,
    "max": max,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
    "dec": lambda old, x: x if old == 0 or old > x else old - 1,
}

_OPERATIONS = [
    *(("add", t) for t in ("u32", "s32", "u64")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")),
    *((op, t) for op in ("and", "or", "xor", "exch") for t in ("b32", "b64")),
    ("inc", "u32"),
    ("dec", "u32"),
    ("add", "f32"),
    ("add", "f64"),
    *(("add.noftz", t) for t in ("f16", "bf16", "f16x2", "bf16x2")),
]


def _program(name: str, type_: str, atom: bool, space: str, cas: bool = False, vector: int = 1) -> str:
    size = {"f16x2": 4, "bf16x2": 4}.get(type_) or np.dtype(_TYPES[type_]).itemsize
    kind = {2: ".b16", 4: ".b32", 8: ".b64"}[size]
    values, olds, seconds = ([f"%{letter}{i}" for i in range(vector)] for letter in "vos")

    def group(names: list[str]) -> str:
        return names[0] if vector == 1 else "{" + ", ".join(names) + "}"

    place = "%cell" if space == "global" else "%local"
    operands = ", ".join(
        [*([group(olds)] if atom else []), f"[{place}]", group(values), *([group(seconds)] if cas else [])]
    )
    loads = "\n".join(f"ld.global{kind} {v}, [%in+{i * size}];" for i, v in enumerate(values))
    more = f"ld.global{kind} %s0, [%in+{32 * size}];" if cas else ""
    stores = "\n".join(f"st.global{kind} [%out+{i * size}], {o};" for i, o in enumerate(olds)) if atom else ""
    cell = [f"%k{i}" for i in range(vector)]
    start = "\n".join(
        f"ld.global{kind} {k}, [%cell+{i * size}]; st.shared{kind} [%local+{i * size}], {k};"
        for i, k in enumerate(cell)
    )
    end = "\n".join(
        f"ld.shared{kind} {k}, [%local+{i * size}]; st.global{kind} [%cell+{i * size}], {k};"
        for i, k in enumerate(cell)
    )
    around = (start, end) if space == "shared" else ("", "")
    return ptx_kernel(
        "pin pcell pout",
        f"""\
.reg .b64 %in, %cell, %out, %off; .reg .b32 %t, %local; .reg .pred %first; .reg {kind} {", ".join([*values, *olds, *cell, "%s0"])};
.shared .align 16 .b8 shared_cell[32];
ld.param.u64 %in, [pin]; ld.param.u64 %cell, [pcell]; ld.param.u64 %out, [pout];
mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, {size * vector}; add.s64 %in, %in, %off; add.s64 %out, %out, %off;
mov.u32 %local, shared_cell; setp.ne.u32 %first, %t, 0;
@%first bra L1;
{around[0]}
L1: bar.sync 0;
{loads}
{more}
{"atom" if atom else "red"}.{space}.{name} {operands};
{stores}
bar.sync 0;
@%first bra L2;
{around[1]}
L2: ret;""",
    )


def _values(type_: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = _TYPES[type_]
    if np.dtype(kind).kind in "iu":
        info = np.iinfo(kind)
        edges = np.array([0, 1, 5, info.max, info.min, info.max // 2, info.max - 1, 5], dtype=kind)
        return np.concatenate([edges, rng.integers(0, 9, count - len(edges)).astype(kind)])
    return (rng.standard_normal(count) * 8).astype(kind)


_FORMS = [(code, *rest) for code in ("atom", "red") for rest in _OPERATIONS if (code, rest[0]) != ("red", "exch")]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("opcode", "operation", "type_"), _FORMS)
def test_lanes_execute_one_after_the_other(opcode: str, operation: str, type_: str, space: str) -> None:
    op = operation.split(".")[0]
    per = 2 if type_.endswith("x2") else 1
    kind = _TYPES[type_]
    given = _values(type_, _LANES * per, 7).reshape(_LANES, per)
    cell = _values(type_, 8 * per, 8)[5 * per : 6 * per]
    ptx = _program(f"{operation}.{type_}", type_, opcode == "atom", space)
    outcome = launch(ptx, 1, _LANES, given, cell, np.zeros_like(given))
    assert not outcome.events, outcome.events[0]
    olds = np.zeros_like(given)
    now = cell.copy()
    for lane in range(_LANES):
        olds[lane] = now
        for i in range(per):
            if np.dtype(kind).kind in "iu":
                now[i] = _wrapped(_INTEGER[op](int(now[i]), int(given[lane, i])), kind)
            else:
                now[i] = kind(float(now[i]) + float(given[lane, i])) if type_ != "f32" else now[i] + given[lane, i]
    assert result(outcome, 1, kind).tobytes() == now.tobytes()
    if opcode == "atom":
        assert result(outcome, 2, kind).tobytes() == olds.tobytes()


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("type_", ["b16", "b32", "b64"])
def test_compare_and_swap(type_: str, space: str) -> None:
    kind = _TYPES[type_]
    compare = np.array([3, *range(1, 32)], dtype=kind)
    swap = np.arange(1, 65, dtype=kind)
    given = np.concatenate([compare, swap])  # lane t swaps in the value 32 elements after its comparand
    cell = np.array([3], dtype=kind)
    outcome = launch(
        _program(f"cas.{type_}", type_, True, space, cas=True), 1, _LANES, given, cell, np.zeros(_LANES, kind)
    )
    olds, now = [], 3
    for lane in range(_LANES):
        olds.append(now)
        if now == int(compare[lane]):
            now = int(given[lane + 32])
    assert list(result(outcome, 2, kind)) == olds
    assert list(result(outcome, 1, kind)) == [now]
    assert now > 4  # some did swap


@pytest.mark.parametrize("opcode", ["atom", "red"])
@pytest.mark.parametrize(
    ("operation", "type_", "count"),
    [
        ("add", "f32", 2),
        ("add", "f32", 4),
        ("max.noftz", "f16", 2),
        ("min.noftz", "bf16", 4),
        ("add.noftz", "f16x2", 4),
    ],
)
def test_vectors_are_atomic_element_by_element(opcode: str, operation: str, type_: str, count: int) -> None:
    kind = _TYPES[type_]
    per = count * (2 if type_.endswith("x2") else 1)
    given = _values(type_, _LANES * per, 9).reshape(_LANES, per)
    cell = np.zeros(per, kind)
    ptx = _program(f"{operation}.v{count}.{type_}", type_, opcode == "atom", "global", vector=count)
    outcome = launch(ptx, 1, _LANES, given, cell, np.zeros_like(given))
    assert not outcome.events, outcome.events[0]
    step = {"add": lambda a, b: a + b, "max": np.maximum, "min": np.minimum}[operation.split(".")[0]]
    olds, now = np.zeros_like(given), cell.copy()
    for lane in range(_LANES):
        olds[lane] = now
        now = step(now, given[lane]).astype(kind)
    assert np.array_equal(result(outcome, 1, kind), now)
    if opcode == "atom":
        assert np.array_equal(result(outcome, 2, kind).reshape(given.shape), olds)


def test_a_result_register_may_also_be_an_addend() -> None:
    ptx = (
        _program("add.v2.f32", "f32", True, "global", vector=2)
        .replace("{%o0, %o1}", "{%v1, %v0}")
        .replace("], %o", "], %v")
    )
    given = np.arange(64, dtype=np.float32).reshape(32, 2)
    outcome = launch(ptx, 1, _LANES, given, np.zeros(2, np.float32), np.zeros_like(given))
    before = np.cumsum(given, axis=0) - given
    assert np.array_equal(result(outcome, 1, np.float32), given.sum(axis=0))
    assert np.array_equal(result(outcome, 2, np.float32).reshape(32, 2), before[:, ::-1])


def test_atomics_are_checked() -> None:
    source = 'extern "C" __global__ void k(int* x, int n) { atomicAdd(x + threadIdx.x * n, 1); }'
    assert rules(launch(source, 1, 32, np.zeros(31, np.int32), np.int32(1))) == ["memory/out-of-bounds"]


@pytest.mark.parametrize("opcode", ["atom", "red"])
@pytest.mark.parametrize("vector", [1, 2])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_f32_sums_flush_subnormals_in_global_memory(opcode: str, vector: int, space: str) -> None:
    # PTX ISA section 9.7.13.5; for sm_90 ptxas emits ATOMG.ADD.F32.FTZ, and for shared memory FADD without .FTZ.
    if vector == 2 and space != "global":
        return  # PTX has vectors in global memory only
    program = _program("add.f32" if vector == 1 else "add.v2.f32", "f32", opcode == "atom", "global", vector=vector)
    if space == "shared":
        program = _program("add.f32", "f32", opcode == "atom", "shared")
    if space == "generic":  # the same, through a generic address of shared memory
        program = _program("add.f32", "f32", opcode == "atom", "shared").replace(f"{opcode}.shared", opcode)
        program = program.replace(".reg .b64 %in", ".reg .b64 %generic, %in").replace(
            "%local, shared_cell;",
            "%local, shared_cell; cvt.u64.u32 %generic, %local; cvta.shared.u64 %generic, %generic;",
        )
        program = re.sub(rf"({opcode}\.add\.f32.*)\[%local\]", r"\1[%generic]", program)
    tiny = np.full(32 * vector, 0x80000100, np.uint32).view(np.float32)
    for start, wanted in ((0x00000300, 0x00000300 - 32 * 0x100), (0x00800000, 0x00800000 - 32 * 0x100)):
        cell = np.full(vector, start, np.uint32).view(np.float32)
        outcome = launch(program, 1, 32, tiny, cell, np.zeros(32 * vector, np.float32))
        left = int(result(outcome, 1, np.uint32)[0])
        if space == "global":
            # The subnormals count as -0: the sum is +0, or the normal number that was there.
            assert left == (0 if start < 0x00800000 else start), hex(left)
        else:
            assert left == (wanted if wanted >= 0 else 0x80000000 | -wanted), hex(left)

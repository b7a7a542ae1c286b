"""Tiles loaded by tensor maps, multiplied by ``wgmma``, in every layout and type; and what goes wrong with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.emulator_launch import EMULATOR, artifact
from support.hopper_kernels import compiled

from gpuemu_lsp.engine.execution import Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.tensor_map import TensorMap, tensor_map_argument

_TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
}
_CODES = {0: 0, 1: 3, 2: 2, 3: 1}
"""Code of a swizzle in a descriptor (PTX ISA, table "matrix-descriptor"), by the address bits that it changes."""


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)


_SOURCE = """
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void load(void* to, const Map* map, int x, int y, u64* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%0], [%%1, {%%2, %%3}], [%%4];"
    :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
__device__ u64 descriptor(const void* p, u64 leading, u64 stride, u64 code) {
  return ((at(p) & 0x3ffff) >> 4) | (leading >> 4) << 16 | (stride >> 4) << 32 | code << 62;
}
extern "C" __global__ void k(const __grid_constant__ Map a, const __grid_constant__ Map b, unsigned* y) {
  __shared__ alignas(1024) char sa[%(a_bytes)d]; __shared__ alignas(1024) char sb[%(b_bytes)d]; __shared__ u64 bar;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%%0], 1;" :: "r"(at(&bar)) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%0], %%1;" :: "r"(at(&bar)), "r"(%(expected)s) : "memory");
    %(loads)s
  }
  %(wait)s
  unsigned d[%(registers)d] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  %(products)s
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < %(registers)d; ++i) y[threadIdx.x * %(registers)d + i] = d[i];
}
"""

_WAIT = """asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again;}"
    :: "r"(at(&bar)) : "memory");"""


def _operand(kind: str, rows: int, depth: int, seed: int, mn_major: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (matrix, the array in memory): K-major rows, or its transpose."""
    low = 0 if kind == "u8" else -3
    matrix = np.random.default_rng(seed).integers(low, 4, (rows, depth)).astype(_TYPES[kind])
    return matrix, matrix.T.copy() if mn_major else matrix


def _run(
    kind: str = "f16",
    columns: int = 16,
    swizzle: int = 3,
    *,
    majors: tuple[bool, bool] = (False, False),
    steps: int = 1,
    expected: int | None = None,
    wait: str = _WAIT,
    reader: int | None = None,
    step_bytes: int | None = None,
    seconds: float = 10.0,
    known: bool = True,
) -> tuple[Outcome, np.ndarray, np.ndarray]:
    """Multiply 64 x K by K x columns; return the outcome, the result and the fp64 product of the operands."""
    element = _TYPES[kind].itemsize
    depth, row = 32 // element * steps, 16 << swizzle
    accumulator = "s32" if kind in ("s8", "u8") else "f32"
    maps, loads, sides, sizes, matrices, descriptors, increments = [], [], [], [], [], [], []
    for name, rows, mn_major in (("a", 64, majors[0]), ("b", columns, majors[1])):
        # A row of the pattern is full, whatever the steps read of it.
        matrix, memory = _operand(kind, rows, depth if mn_major else max(depth, row // element), 7 + rows, mn_major)
        outer, inner = memory.shape
        # A box is one row of the swizzle pattern wide; boxes of further columns follow one another.
        box = min(row // element, inner)
        tile = outer * row
        buffer = Buffer(name, _bytes(memory), element_size=element)
        tensor = TensorMap(0, (inner, outer), (inner * element,), (box, outer), element, swizzle)
        maps.append(tensor_map_argument(f"{name}_map", tensor, buffer))
        count = -(-inner // box)
        loads += [f"load(s{name} + {i * tile}, &{name}, {i * box}, 0, &bar);" for i in range(count)]
        sizes.append(count * tile)
        sides.append(count * outer * box * element)
        matrices.append(matrix[:, :depth].astype(np.float64))
        code = _CODES[swizzle if reader is None else reader]
        groups = 8 * row
        # Distances of boxes and of groups of eight rows; without a swizzle the two change places (MN-major).
        leading, stride = (tile, groups) if mn_major and swizzle else (groups, tile) if mn_major else (tile, groups)
        descriptors.append(f"descriptor(s{name} + step * {{}}, {leading}, {stride}, {code})")
        k_bytes = 32 // element * row if mn_major else 2 * tile if not swizzle else 32
        increments.append(k_bytes)
    registers = columns // 2
    d = ", ".join(f'"+r"(d[{i}])' for i in range(registers))
    names = ", ".join(f"%{i}" for i in range(registers))
    flags = "" if accumulator == "s32" else ", 1, 1"
    flags += f", {int(majors[0])}, {int(majors[1])}" if element == 2 else ""
    product = (
        f'asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k{32 // element}.{accumulator}.{kind}.{kind} '
        f'{{{names}}}, %{registers}, %{registers + 1}, 1{flags};" : {d} : "l"({descriptors[0].format(increments[0])}), '
        f'"l"({descriptors[1].format(increments[1] if step_bytes is None else step_bytes)}));'
    )
    source = _SOURCE % {
        "a_bytes": sizes[0],
        "b_bytes": sizes[1],
        "expected": sum(sides) if expected is None else expected,
        "loads": "\n".join(loads),
        "wait": wait,
        "registers": registers,
        "products": f"for (int step = 0; step < {steps}; ++step) {{ {product} }}",
    }
    y = Buffer("y", np.zeros(128 * registers * 4, np.uint8), initialized=False)
    given = maps if known else [Scalar(one.name, bytes(128)) for one in maps]
    request = Request(artifact(compiled(source)), "k", (1, 1, 1), (128, 1, 1), 0, (*given, y), max_seconds=seconds)
    outcome = EMULATOR.run(request)
    found = np.zeros((64, columns))
    if outcome.status == "completed":
        raw = outcome.buffers["y"].view(np.int32 if accumulator == "s32" else np.float32).reshape(128, registers)
        # Figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D" (section 9.7.15.5.1.1).
        thread, i = np.meshgrid(np.arange(128), np.arange(registers), indexing="ij")
        rows = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
        found[rows, 8 * (i // 4) + 2 * (thread % 4) + i % 2] = raw
    return outcome, found, matrices[0] @ matrices[1].T


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", sorted(_TYPES))
def test_k_major_operands_of_every_type(kind: str, swizzle: int) -> None:
    outcome, found, wanted = _run(kind, 16, swizzle)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
def test_mn_major_operands_of_sixteen_bits(swizzle: int, majors: tuple[bool, bool]) -> None:
    outcome, found, wanted = _run("bf16", 64, swizzle, majors=majors)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("majors", [(False, False), (True, True)])
def test_steps_along_k(majors: tuple[bool, bool]) -> None:
    outcome, found, wanted = _run("f16", 128, 3, majors=majors, steps=4)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    assert np.array_equal(found, wanted)


def test_a_tile_read_before_its_phase_is_in_flight() -> None:
    outcome, _, _ = _run(wait="")
    assert {event.rule for event in outcome.events} == {"memory/uninitialized-read"}
    assert (
        "of operand A in shared memory, from byte 0 of `sa` on: the bulk copy that writes them is in flight"
        in outcome.events[0].message
    )


def test_a_phase_whose_bytes_are_short_never_completes() -> None:
    assert _run(expected=1 << 15, seconds=1.0)[0].status == "hung"


def test_a_swizzle_that_differs_from_the_tile_s_gives_other_values() -> None:
    outcome, found, wanted = _run("f16", 64, 3, steps=4, reader=2)
    assert outcome.status != "completed" or not np.array_equal(found, wanted)


def test_a_step_of_k_for_the_other_major_gives_other_values() -> None:
    outcome, found, wanted = _run("f16", 64, 3, majors=(False, True), steps=4, step_bytes=32)
    assert outcome.status != "completed" or not np.array_equal(found, wanted)


def test_a_descriptor_outside_of_shared_memory_is_out_of_bounds() -> None:
    outcome, _, _ = _run("f16", 64, 3, steps=4, step_bytes=1 << 15)
    assert outcome.status == "trapped"
    assert {event.rule for event in outcome.events} == {"memory/out-of-bounds"}


def test_an_argument_that_is_not_a_tensor_map_is_refused_by_name() -> None:
    outcome, _, _ = _run(known=False)
    assert outcome.status == "unsupported"
    assert {event.rule for event in outcome.events} == {"engine/unsupported-instruction"}
    assert "not a tensor map" in outcome.events[0].message

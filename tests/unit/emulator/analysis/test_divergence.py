"""Divergent programs, random and hand-written: the specialised and the scalar-PC version agree with sequential runs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.emulator_launch import compile_ptx, launch, ptx_kernel
from support.random_programs import INPUTS, OUTPUTS, RandomProgram

from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel


@pytest.mark.parametrize("scalar_pc", [False, True], ids=["specialised", "scalar PC"])
@pytest.mark.parametrize("seed", [*range(6), 17])
def test_random_program(seed: int, scalar_pc: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if scalar_pc:
        shape_of = CompiledKernel.specialised
        monkeypatch.setattr(CompiledKernel, "specialised", lambda self, block, *_: (shape_of(self, block)[0], None))
    program = RandomProgram(seed)
    rng = random.Random(seed)
    data = [rng.randrange(1 << 32) for _ in range(INPUTS)]
    block = rng.choice([(64, 1, 1), (16, 4, 1), (50, 1, 1), (8, 4, 2), (7, 9, 1)])
    threads = block[0] * block[1] * block[2]
    ptx = compile_ptx(program.source()) + ("\n// scalar PC" if scalar_pc else "")
    x = np.array(data, dtype=np.uint32)
    outcome = launch("//" + ptx.removeprefix("//"), 2, block, x, np.zeros(2 * threads * OUTPUTS, np.uint32))
    assert outcome.status == "completed"
    assert not outcome.events
    expected = np.array(program.expected(data, 2, threads), dtype=np.uint32)
    np.testing.assert_array_equal(outcome.buffers["a1"].view(np.uint32), expected)


def test_temporal_divergence_of_a_loop() -> None:
    source = """extern "C" __global__ void k(const unsigned* x, unsigned* y) {
      unsigned t = threadIdx.x, w = t >> 5, b = 2;
      for (unsigned i = 0; i < (t & 1) + 2; i++) if (((w & b) * (blockIdx.x + 1)) & 1) b = 1;
      y[t] = b; }"""
    outcome = launch(source, 1, 50, np.zeros(1, np.uint32), np.zeros(50, np.uint32))
    assert outcome.buffers["a1"].view(np.uint32).tolist() == [2] * 50


ADDRESS_BITS = {
    "at >> 7": lambda at: at >> 7,
    "(at | 1) >> 5": lambda at: (at | 1) >> 5,
    "at & 128": lambda at: at & 128,
    "(at | 0) & 96": lambda at: at & 96,
    "at < first + 128": lambda at: at < at[0] + 128,
}


@pytest.mark.parametrize("count", [1, 3, 5, 8, 32, 33])
@pytest.mark.parametrize("expression", ADDRESS_BITS)
def test_addresses_of_packed_shared_variables(expression: str, count: int) -> None:
    """Shared variables are aligned by their own type only: the bits of their addresses differ from lane to lane."""
    source = f"""extern "C" __global__ void k(unsigned* y, int* z) {{
      __shared__ int a[{count}], b[64];
      unsigned t = threadIdx.x, first = {{1}};
      a[t % {count}] = 1; b[t] = t; __syncthreads();
      z[t] = a[(t + 1) % {count}] + b[63 - t];
      unsigned at = (unsigned)__cvta_generic_to_shared(&b[t]);
      y[t] = {expression}; y[t + 64] = at; }}""".replace("{1}", "(unsigned)__cvta_generic_to_shared(b)")
    found = launch(source, 1, 64, np.zeros(128, np.uint32), np.zeros(64, np.int32)).buffers["a0"].view(np.uint32)
    at = found[64:].astype(np.int64)
    np.testing.assert_array_equal(at, at[0] + 4 * np.arange(64))
    np.testing.assert_array_equal(found[:64], ADDRESS_BITS[expression](at))


def _two_entries(enter: str, stay: str) -> str:
    """Return a kernel with a loop that is entered at its head or in its middle (irreducible control flow)."""
    return ptx_kernel(
        "x y",
        f"""\
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.global.u32 %r5, [%rd1];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
  {enter}
  @%p1 bra $MIDDLE;
$HEAD:
  add.u32 %r2, %r2, 100;
$MIDDLE:
  add.u32 %r2, %r2, 1;
  add.u32 %r3, %r3, 1;
  {stay}
  @%p2 bra $HEAD;
  mad.wide.u32 %rd3, %r1, 4, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;""",
    )


@pytest.mark.parametrize("lane", ["%r1", "%r5"], ids=["by lane", "by block"])
def test_a_loop_with_two_entries(lane: str) -> None:
    ptx = _two_entries(f"and.b32 %r4, {lane}, 1; setp.eq.u32 %p1, %r4, 1;", f"setp.le.u32 %p2, %r3, {lane};")
    outcome = launch(ptx, 1, 50, np.full(1, 7, np.uint32), np.zeros(50, np.uint32))
    assert outcome.status == "completed" and not outcome.events
    rounds = [thread if lane == "%r1" else 7 for thread in range(50)]
    expected = [100 * (count + 1 - count % 2) + count + 1 for count in rounds]
    assert outcome.buffers["a1"].view(np.uint32).tolist() == expected


@pytest.mark.parametrize("lane", ["%r1", "%r5"], ids=["by lane", "by block"])
def test_an_endless_loop_with_two_entries_hangs(lane: str) -> None:
    ptx = _two_entries(f"setp.ne.u32 %p1, {lane}, 3;", f"setp.ne.u32 %p2, {lane}, 1000;")
    outcome = launch(ptx, 1, 50, np.full(1, 7, np.uint32), np.zeros(50, np.uint32), max_steps=20_000)
    assert outcome.status == "hung"

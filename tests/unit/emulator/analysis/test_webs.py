"""Webs: unrelated live ranges of one register get registers of their own."""

from __future__ import annotations

import numpy as np
from support.emulator_launch import compile_ptx, launch, ptx_kernel, result

from gpuemu_lsp.engine.emulator.analysis.cfg import build_cfg
from gpuemu_lsp.engine.emulator.analysis.webs import split_webs
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.ptx.parser import parse


def ptx(body: str) -> str:
    """Return a kernel whose threads store %r1 to y[t], with t in %r0."""
    return ptx_kernel(
        "y",
        f"""\
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [y];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd1, %rd2;
  {body}
  st.global.u32 [%rd3], %r1;
  ret;""",
    )


def split(body: str) -> Program:
    return split_webs(*build_cfg(flatten(parse(ptx(body)), "k")))


def names(program: Program, opcode: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    code = [one for block in program.blocks for one in block.code if one.opcode == opcode]
    return [(registers_written(one), registers_read(one)) for one in code]


def run(body: str) -> list[int]:
    found: list[int] = result(launch(ptx(body), 1, 32, np.zeros(32, np.int32)), 0, np.int32).tolist()
    return found


def test_successive_live_ranges_are_split() -> None:
    body = "add.u32 %r1, %r0, 1; add.u32 %r2, %r1, 1; add.u32 %r1, %r2, 1;"
    assert names(split(body), "add")[1:] == [(("%r1",), ("%r0",)), (("%r2",), ("%r1",)), (("%r1.1",), ("%r2",))]
    assert run(body) == [t + 3 for t in range(32)]


def test_a_guarded_write_keeps_the_old_value() -> None:
    body = "add.u32 %r1, %r0, 1; setp.lt.u32 %p1, %r0, 5; @%p1 add.u32 %r1, %r0, 7;"
    (_, (first, _), (second, _)) = names(split(body), "add")
    assert first == second
    assert run(body) == [t + 7 if t < 5 else t + 1 for t in range(32)]


def test_a_loop_that_starts_at_tid_leaves_tid_alone() -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
      __shared__ float s[64];
      int t = threadIdx.x;
      s[t] = t;
      __syncthreads();
      float v = t < 32 ? s[t + 32] : 0;
      for (int i = t; i < n; i += 64) y[i] = x[i] + v;
    }"""
    kernel = CompiledKernel(parse(compile_ptx(source)), "k")
    _, fast = kernel.specialised((64, 1, 1))
    assert fast is not None
    shared = [i for block in kernel.program.blocks for i in block.code if i.opcode == "st" and "shared" in i.modifiers]
    (base, _) = registers_read(shared[0])
    assert fast.divergence.shapes[base].step == 4
    x = np.arange(200, dtype=np.float32)
    outcome = launch(source, 1, 64, x, np.zeros(200, np.float32), np.int32(200))
    expected = [i + (i % 64 + 32 if i % 64 < 32 else 0) for i in range(200)]
    assert result(outcome, 1, np.float32).tolist() == expected

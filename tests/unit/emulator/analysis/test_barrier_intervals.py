"""Blocks that may execute between the same two barriers of the thread block."""

from __future__ import annotations

import pytest
from support.ptx_programs import block_with, graph

from gpuemu_lsp.engine.emulator.analysis.barrier_intervals import barrier_intervals, is_full_barrier
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync


def test_a_barrier_separates_two_intervals() -> None:
    program, _ = graph("st.shared.u32 [%d1], %r1; bar.sync 0; ld.shared.u32 %r2, [%d1]; ret;")
    before, after = block_with(program, "st"), block_with(program, "ld")
    found = list(barrier_intervals(program))
    assert len(found) == 2
    assert not any({before, after} <= interval for interval in found)


def test_the_end_of_a_loop_body_shares_an_interval_with_its_start() -> None:
    program, _ = graph("""
    HEAD:
      st.shared.u32 [%d1], %r1;
      bar.sync 0;
      ld.shared.u32 %r2, [%d1];
      setp.ne.u32 %p1, %r2, 0;
      @%p1 bra HEAD;
      ret;""")
    wanted = {block_with(program, "st"), block_with(program, "ld")}
    assert any(wanted <= interval for interval in barrier_intervals(program))


@pytest.mark.parametrize(
    ("barrier", "full"),
    [
        ("bar.sync 0", True),
        ("barrier.sync.aligned 0", True),
        ("bar.red.popc.u32 %r1, 0, %p1", True),
        ("bar.sync 1", False),
        ("bar.sync 0, 64", False),
        ("bar.sync %r1", False),
        ("bar.arrive 0, 64", False),
        ("bar.red.popc.u32 %r1, 0, 64, %p1", False),
    ],
)
def test_full_barriers(barrier: str, full: bool) -> None:
    program, _ = graph(f"st.shared.u32 [%d1], %r1; {barrier}; ld.shared.u32 %r2, [%d1]; ret;")
    (end,) = (block.terminator for block in program.blocks if isinstance(block.terminator, BarrierSync))
    assert is_full_barrier(end) == full
    both = {block_with(program, "st"), block_with(program, "ld")}
    assert any(both <= interval for interval in barrier_intervals(program)) != full

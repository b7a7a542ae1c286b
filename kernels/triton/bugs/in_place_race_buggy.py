# Shift in place across programs
import triton
import triton.language as tl


@triton.jit
def shift_in_place(x, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, BLOCK * tl.num_programs(0)):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)  # expect: memory/global-race
        tl.debug_barrier()
        tl.store(x + i, v, mask=i < n)  # expect: memory/global-race

# Counter of finished programs without release and acquire
import triton
import triton.language as tl


@triton.jit
def last_program(x, part, count, y, n, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    i = t * BLOCK + tl.arange(0, BLOCK)
    tl.store(part + t, tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))
    tl.debug_barrier()
    done = tl.atomic_add(count, 1, sem="relaxed")
    if done == tl.num_programs(0) - 1:
        p = tl.arange(0, 32)
        parts = tl.load(part + p, mask=p < tl.num_programs(0), other=0.0)  # expect: memory/global-race
        tl.store(y, tl.sum(parts, axis=0))

# Two passes of a reduction in one launch
import triton
import triton.language as tl


@triton.jit
def total(x, part, y, n, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    i = t * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    tl.store(part + t, own)
    if t == 0:
        p = tl.arange(0, 32)
        finished = p < tl.num_programs(0)
        parts = tl.load(part + p, mask=finished, other=0.0)  # expect: memory/global-race | memory/uninitialized-read
        tl.store(y, tl.load(y) + tl.sum(parts, axis=0))

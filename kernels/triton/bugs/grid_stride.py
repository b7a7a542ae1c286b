# Partial sums with a grid-stride loop: clean
import triton
import triton.language as tl


@triton.jit
def grid_stride(x, y, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(y, tl.sum(total, axis=0))

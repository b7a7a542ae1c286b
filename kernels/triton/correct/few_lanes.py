# Fewer elements than threads: several threads hold one element: clean
import triton
import triton.language as tl


@triton.jit
def few_lanes(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    tl.store(y + row * cols + c, v * tl.sum(v, axis=0) + 1.0, mask=c < cols)

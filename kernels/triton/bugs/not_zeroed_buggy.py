# Atomic addition to an output that is not zeroed
import triton
import triton.language as tl


@triton.jit
def row_sum(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * cols + c, mask=c < cols, other=0.0), axis=0)
    tl.atomic_add(y + row, total)  # expect: memory/uninitialized-read | numeric/nan

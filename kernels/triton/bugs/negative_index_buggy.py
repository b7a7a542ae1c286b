# Gather that follows the index -1
import triton
import triton.language as tl


@triton.jit
def gather(table, index, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    source = tl.load(index + row)
    v = tl.load(table + source * cols + c, mask=c < cols, other=0.0)  # expect: memory/out-of-bounds
    tl.store(y + row * cols + c, v, mask=c < cols)

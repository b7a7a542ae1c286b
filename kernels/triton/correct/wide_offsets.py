# Offsets in 64 bits from the program id on: clean
import triton
import triton.language as tl


@triton.jit
def wide_offsets(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols)
    tl.store(y + row * cols + c, v * 2.0, mask=c < cols)

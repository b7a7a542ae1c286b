# No masks: the size is a multiple of the block by contract: clean
import triton
import triton.language as tl


@triton.jit
def whole_blocks(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * 2.0)

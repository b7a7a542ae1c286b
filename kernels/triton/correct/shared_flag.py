# All programs store the same value to one flag: clean
import triton
import triton.language as tl


@triton.jit
def shared_flag(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if tl.max(tl.abs(v), axis=0) > 3.0:
        tl.store(y, 1)

# ELU: clean
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def elu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside).to(tl.float32)
    r = tl.where(v > 0, v, libdevice.expm1(v))
    tl.store(y + i, r, mask=inside)

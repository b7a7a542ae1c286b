# Sum of a vector, by one program: clean
import triton
import triton.language as tl


@triton.jit
def total(x, part, y, n, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    i = t * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    tl.store(part + t, own)
    tl.atomic_add(y, own)

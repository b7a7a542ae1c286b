# Dot product of two vectors, split over programs: clean
import triton
import triton.language as tl


@triton.jit
def split_k(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(a + i, mask=i < n, other=0.0) * tl.load(b + i, mask=i < n, other=0.0), axis=0)
    tl.atomic_add(y, part)

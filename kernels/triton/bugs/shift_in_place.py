# Elements shifted by one, in place, by one program: clean
import triton
import triton.language as tl


@triton.jit
def shift_in_place(x, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
        tl.debug_barrier()
        tl.store(x + i, v, mask=i < n)

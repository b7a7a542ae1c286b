# Elements at the positions of a ring buffer: clean
import triton
import triton.language as tl


@triton.jit
def ring(x, step, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    position = tl.load(step + i, mask=inside, other=0).to(tl.int64) * 1000003 % n
    tl.store(y + i, tl.load(x + position, mask=inside), mask=inside)

# Store after the release of its lock
import triton
import triton.language as tl


@triton.jit
def locked_sum(x, y, lock, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = tl.load(y + c, mask=c < cols) + v  # expect: memory/global-race
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.store(y + c, total, mask=c < cols)  # expect: memory/global-race

# The last program of each row sums its parts, as stream-K does: clean
import triton
import triton.language as tl


@triton.jit
def last_of_group(x, part, count, y, cols, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, t = tl.program_id(0), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(t * BLOCK, cols, PARTS * BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    tl.store(part + row * PARTS + t, tl.sum(total, axis=0))
    tl.debug_barrier()
    if tl.atomic_add(count + row, 1, sem="acq_rel") == PARTS - 1:
        p = tl.arange(0, PARTS)
        tl.store(y + row, tl.sum(tl.load(part + row * PARTS + p), axis=0))

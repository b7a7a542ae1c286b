# No mask for the load: row numbers wrap around, as in a matrix product of the tutorials: clean
import triton
import triton.language as tl


@triton.jit
def wrapped_rows(x, y, M, N, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        tile = tl.load(x + (m % M)[:, None] * N + (start + n)[None, :], mask=(start + n < N)[None, :], other=0.0)
        total += tl.sum(tile, axis=1)
    tl.store(y + m, total, mask=m < M)

# Last group of tiles counted as a full one. expect-somewhere: numeric/unwritten-output
import triton
import triton.language as tl


@triton.jit
def swizzled(x, y, M, N, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    t = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK)
    first = t // (GROUP * tiles_n) * GROUP
    size = GROUP
    m = (first + t % (GROUP * tiles_n) % size) * BLOCK + tl.arange(0, BLOCK)
    n = t % (GROUP * tiles_n) // size * BLOCK + tl.arange(0, BLOCK)
    inside = (m < M)[:, None] & (n < N)[None, :]
    at = m[:, None] * N + n[None, :]
    tl.store(y + at, tl.load(x + at, mask=inside), mask=inside)

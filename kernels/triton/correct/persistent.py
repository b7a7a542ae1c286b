# Few programs take tiles in turn: clean
import triton
import triton.language as tl


@triton.jit
def persistent(x, y, M, N, BLOCK: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK)
    for t in range(tl.program_id(0), tl.cdiv(M, BLOCK) * tiles_n, tl.num_programs(0)):
        m = t // tiles_n * BLOCK + tl.arange(0, BLOCK)
        n = t % tiles_n * BLOCK + tl.arange(0, BLOCK)
        inside = (m < M)[:, None] & (n < N)[None, :]
        at = m[:, None] * N + n[None, :]
        tl.store(y + at, tl.load(x + at, mask=inside) * 2.0, mask=inside)

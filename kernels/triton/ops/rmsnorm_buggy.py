# RMS norm with the sum for the mean
import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < cols
    v = tl.load(x + row * cols + c, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v * v, axis=0)
    tl.store(y + row * cols + c, v * tl.rsqrt(mean + 1e-5), mask=inside)  # expect: numeric/tolerance-exceeded

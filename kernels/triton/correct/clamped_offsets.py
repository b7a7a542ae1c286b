# No mask for the load: offsets are clamped to the tensor: clean
import triton
import triton.language as tl


@triton.jit
def clamped_offsets(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + tl.maximum(tl.minimum(i, n - 1) - 1, 0))
    right = tl.load(x + tl.minimum(i + 1, n - 1))
    tl.store(y + i, right - left, mask=i < n)

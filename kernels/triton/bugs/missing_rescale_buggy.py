# Online sum that is not rescaled to the new maximum
import triton
import triton.language as tl


@triton.jit
def log_sum_exp(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + c, mask=c < cols, other=-float("inf"))
        larger = tl.maximum(largest, tl.max(v, axis=0))
        total += tl.sum(tl.exp(v - larger), axis=0)
        largest = larger
    tl.store(y + row, largest + tl.log(total))  # expect: numeric/tolerance-exceeded

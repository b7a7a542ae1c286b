# Softmax of the kept elements; a row without any is zero: clean
import triton
import triton.language as tl


@triton.jit
def masked_softmax(x, keep, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    kept = tl.load(keep + row * cols + c, mask=c < cols, other=0) != 0
    v = tl.where(kept, tl.load(x + row * cols + c, mask=c < cols, other=0.0), -float("inf"))
    largest = tl.max(v, axis=0)
    largest = tl.where(largest == -float("inf"), 0.0, largest)
    p = tl.exp(v - largest)
    total = tl.sum(p, axis=0)
    tl.store(y + row * cols + c, p / tl.where(total == 0.0, 1.0, total), mask=c < cols)

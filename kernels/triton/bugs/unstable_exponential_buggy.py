# Exponentials without subtraction of the maximum
import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, target, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(logits + row * cols + c, mask=c < cols, other=-float("inf"))
    chosen = tl.load(logits + row * cols + tl.load(target + row))
    tl.store(y + row, tl.log(tl.sum(tl.exp(v), axis=0)) - chosen)  # expect: numeric/inf

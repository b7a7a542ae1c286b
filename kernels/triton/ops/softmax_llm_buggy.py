# Softmax in chunks whose padding is in the sum
import triton
import triton.language as tl


@triton.jit
def softmax_chunks(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + c, mask=start + c < cols, other=-float("inf")).to(tl.float32)
        largest = tl.maximum(largest, v)
    top = tl.max(largest, axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + c < cols
        v = tl.load(x + row * cols + start + c, mask=inside, other=top).to(tl.float32)
        total += tl.exp(v - top)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, cols, BLOCK):
        inside = start + c < cols
        v = tl.load(x + row * cols + start + c, mask=inside, other=top).to(tl.float32)
        tl.store(y + row * cols + start + c, tl.exp(v - top) * scale, mask=inside)  # expect: numeric/tolerance-exceeded

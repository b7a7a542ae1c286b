# Sum of fp16 partial sums in fp16
import triton
import triton.language as tl


@triton.jit
def half_dot(a, b, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        left = tl.load(a + row * cols + c, mask=c < cols, other=0.0)
        right = tl.load(b + row * cols + c, mask=c < cols, other=0.0)
        total += left * right
    tl.store(y + row, tl.sum(total.to(tl.float16), axis=0))  # expect: numeric/inf

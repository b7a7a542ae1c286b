# The two largest: every equal element is removed. // expect-somewhere: numeric/tolerance-exceeded
import triton
import triton.language as tl


@triton.jit
def top_two(x, weight, index, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=-float("inf"))
    first = tl.argmax(v, axis=0)
    largest = tl.max(v, axis=0)
    rest = tl.where(v == largest, -float("inf"), v)
    second = tl.argmax(rest, axis=0)
    ratio = tl.exp(tl.max(rest, axis=0) - largest)
    tl.store(weight + 2 * row, 1 / (1 + ratio))
    tl.store(weight + 2 * row + 1, ratio / (1 + ratio))
    tl.store(index + 2 * row, first)
    tl.store(index + 2 * row + 1, second)

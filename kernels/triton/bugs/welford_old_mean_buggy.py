# Welford's update with the mean before the element twice
import triton
import triton.language as tl


@triton.jit
def join(mean, squares, count, other_mean, other_squares, other_count):
    total = count + other_count
    share = tl.where(total == 0, 0.0, other_count / total)
    delta = other_mean - mean
    return mean + delta * share, squares + other_squares + delta * delta * count * share, total


@triton.jit
def welford(x, mean, variance, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    centre = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
        more = tl.where(c < cols, count + 1, count)
        delta = v - centre
        moved = tl.where(c < cols, centre + delta / more, centre)
        squares += tl.where(c < cols, delta * delta, 0.0)
        centre = moved
        count = more
    m, s, n = tl.reduce((centre, squares, count), 0, join)
    tl.store(mean + row, m)
    tl.store(variance + row, s / n)  # expect: numeric/tolerance-exceeded

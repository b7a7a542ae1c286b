# Linear recurrence h = a h + x, in chunks: clean
import triton
import triton.language as tl


@triton.jit
def combine(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def recurrence(a, x, y, steps, channels, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    state = 0.0
    for start in range(0, steps, BLOCK):
        t = start + tl.arange(0, BLOCK)
        inside = t < steps
        factor = tl.load(a + t * channels + channel, mask=inside, other=1.0)
        term = tl.load(x + t * channels + channel, mask=inside, other=0.0)
        product, partial = tl.associative_scan((factor, term), 0, combine)
        h = partial + product * state
        tl.store(y + t * channels + channel, h, mask=inside)
        state = tl.sum(tl.where(t == start + BLOCK - 1, h, 0.0), axis=0)

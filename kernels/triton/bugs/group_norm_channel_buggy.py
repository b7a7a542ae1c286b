# Normalisation of groups: weights of the first group for all of them
import triton
import triton.language as tl


@triton.jit
def group_norm(x, w, b, y, pixels, channels, groups, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    own = channels // groups
    size = own * pixels
    base = pid * size
    total = 0.0
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + base + i, mask=i < size, other=0.0), axis=0)
    mean = total / size
    squares = 0.0
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        d = tl.where(i < size, tl.load(x + base + i, mask=i < size, other=0.0) - mean, 0.0)
        squares += tl.sum(d * d, axis=0)
    scale = tl.rsqrt(squares / size + eps)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < size
        c = i // pixels
        v = (tl.load(x + base + i, mask=inside) - mean) * scale
        v = v * tl.load(w + c, mask=inside) + tl.load(b + c, mask=inside)
        tl.store(y + base + i, v, mask=inside)  # expect: numeric/tolerance-exceeded

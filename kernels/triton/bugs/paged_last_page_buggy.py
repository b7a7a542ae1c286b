# Attention over pages: one page too many after a full last one
import triton
import triton.language as tl


@triton.jit
def paged_decode(q, keys, values, table, lengths, y, scale, pages, D: tl.constexpr, PAGE: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, D)
    r = tl.arange(0, PAGE)
    length = tl.load(lengths + b)
    query = tl.load(q + b * D + d)
    largest = -float("inf")
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for block in range(length // PAGE + 1):
        page = tl.load(table + b * pages + block)  # expect: memory/out-of-bounds
        at = page * PAGE * D + r[:, None] * D + d[None, :]
        score = tl.sum(tl.load(keys + at) * query[None, :], axis=1) * scale
        score = tl.where(block * PAGE + r < length, score, -float("inf"))
        bound = tl.maximum(largest, tl.max(score, axis=0))
        p = tl.exp(score - bound)
        rescale = tl.exp(largest - bound)
        acc = acc * rescale + tl.sum(p[:, None] * tl.load(values + at), axis=0)
        total = total * rescale + tl.sum(p, axis=0)
        largest = bound
    tl.store(y + b * D + d, acc / total)

# Products that wrap around in 32 bits on purpose: clean
import triton
import triton.language as tl


@triton.jit
def wrapping_hash(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.load(x + i, mask=i < n, other=0).to(tl.uint32)
    h = (h ^ (h >> 16)) * 2246822507
    h = (h ^ (h >> 13)) * 3266489909
    tl.store(y + i, (h ^ (h >> 16)).to(tl.int32, bitcast=True), mask=i < n)

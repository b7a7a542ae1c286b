# Matrix times vector: clean
import triton
import triton.language as tl


@triton.jit
def matrix_vector(a, x, y, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(tl.cdiv(K, BLOCK)):
        k = step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(a + row * K + k, mask=k < K, other=0.0) * tl.load(x + k, mask=k < K, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))

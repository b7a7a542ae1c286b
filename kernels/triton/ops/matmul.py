# Matrix product on fp32 units: clean
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left_at, right_at = m[:, None] * K + (start + k)[None, :], (start + k)[:, None] * N + n[None, :]
        left = tl.load(a + left_at, mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        right = tl.load(b + right_at, mask=(start + k < K)[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    at = c + m[:, None] * N + n[None, :]
    tl.store(at, total, mask=(m < M)[:, None] & (n < N)[None, :])

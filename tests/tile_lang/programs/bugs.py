"""Correct kernels of TileLang, and copies of them with one bug each, on the lines with `expect`."""

import tilelang
import tilelang.language as T
import torch

UNGUARDED = {"tl.disable_safe_memory_legalize": True}
WITHOUT_BARRIERS = {"tl.disable_thread_storage_sync": True}
N = 1000


def shift(by, **options):
    @tilelang.jit(out_idx=[-1], **options)
    def build(block):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i + by]

        return main

    return build(256)


@tilelang.jit(out_idx=[-1], pass_configs=UNGUARDED)
def shift_unguarded(block):
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), C: T.Tensor((1024,), "float32")):
        with T.Kernel(T.ceildiv(1024, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i + 1]  # expect: memory/out-of-bounds

    return main


@tilelang.jit(out_idx=[-1])
def reverse(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((n,), "float32")
            T.copy(A, S)
            for i in T.Parallel(n):
                C[i] = S[n - 1 - i]

    return main


@tilelang.jit(out_idx=[-1], pass_configs=WITHOUT_BARRIERS)
def reverse_without_barrier(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((n,), "float32")
            T.copy(A, S)
            for i in T.Parallel(n):
                C[i] = S[n - 1 - i]  # expect: memory/shared-race

    return main


@tilelang.jit
def histogram(n, bins):
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                T.atomic_add(C[A[bx * 128 + i]], 1)

    return main


@tilelang.jit
def histogram_without_atomic(n, bins):
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):  # expect: memory/global-race
                C[A[bx * 128 + i]] = C[A[bx * 128 + i]] + 1

    return main


@tilelang.jit(out_idx=[-1])
def padded(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((n,), "float32")
            T.clear(S)
            for i in T.Parallel(n // 2):
                S[i] = A[i]
            for i in T.Parallel(n):
                C[i] = S[n - 1 - i]

    return main


@tilelang.jit(out_idx=[-1])
def padded_uncleared(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((n,), "float32")
            for i in T.Parallel(n // 2):
                S[i] = A[i]
            for i in T.Parallel(n):
                C[i] = S[n - 1 - i]  # expect: memory/uninitialized-read

    return main


def product(waits):
    @tilelang.jit(out_idx=[-1])
    def build(n, block):
        @T.prim_func
        def main(A: T.Tensor((n, n), "float16"), B: T.Tensor((n, n), "float16"), C: T.Tensor((n, n), "float32")):
            with T.Kernel(T.ceildiv(n, block), T.ceildiv(n, block), threads=256) as (bx, by):
                A_s = T.alloc_shared((2, block, block), "float16")
                B_s = T.alloc_shared((2, block, block), "float16")
                C_l = T.alloc_fragment((block, block), "float32")
                bars = T.alloc_barrier([128, 128, 128, 128])
                with T.ws(0):
                    T.clear(C_l)
                for k in range(T.ceildiv(n, block)):
                    with T.ws(1):
                        T.mbarrier_wait_parity(bars[k % 2 + 2], ((k // 2) % 2) ^ 1)
                        T.tma_copy(
                            A[by * block : (by + 1) * block, k * block : (k + 1) * block],
                            A_s[k % 2, :, :],
                            barrier=bars[k % 2],
                        )
                        T.tma_copy(
                            B[k * block : (k + 1) * block, bx * block : (bx + 1) * block],
                            B_s[k % 2, :, :],
                            barrier=bars[k % 2],
                        )
                        T.mbarrier_arrive(bars[k % 2])
                    with T.ws(0):  # expect: memory/uninitialized-read
                        if waits:
                            T.mbarrier_wait_parity(bars[k % 2], (k // 2) % 2)
                        T.gemm(A_s[k % 2, :, :], B_s[k % 2, :, :], C_l)
                        T.mbarrier_arrive(bars[k % 2 + 2])
                with T.ws(0):
                    T.copy(C_l, C[by * block, bx * block])

        return main

    return build(128, 64)


values = torch.randn(1024, device="cuda")
numbers = torch.randint(0, 16, (1024,), dtype=torch.int32, device="cuda")
a, b = (torch.randn(128, 128, device="cuda", dtype=torch.float16) for _ in range(2))


def count(kernel):
    counts = torch.zeros(16, dtype=torch.int32, device="cuda")
    kernel(numbers, counts)
    return counts


assert torch.equal(shift(0)(values[:N]), values[:N])
assert torch.equal(reverse(256)(values[:256]), values[:256].flip(0))
assert torch.equal(count(histogram(1024, 16)).cpu(), torch.bincount(numbers.cpu(), minlength=16).int())
assert torch.equal(padded(256)(values[:256])[128:], values[:128].flip(0))
torch.testing.assert_close(product(True)(a, b), a.float() @ b.float(), rtol=1e-3, atol=1e-3)
print("right", flush=True)

reverse_without_barrier(256)(values[:256])
count(histogram_without_atomic(1024, 16))
padded_uncleared(256)(values[:256])
product(False)(a, b)
try:
    shift_unguarded(256)(values)
except Exception:
    print("the device has failed")

// A warp computes a row of tiles, and does not reset the accumulator between tiles. expect-somewhere: numeric/tolerance-exceeded
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void tensor_core_buggy(const __half* a, const __half* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = blockIdx.x * 16;
    for (int col = 0; col < n; col += 16) {
        for (int i = 0; i < k; i += 16) {
            wmma::load_matrix_sync(left, a + row * k + i, k);
            wmma::load_matrix_sync(right, b + i * n + col, n);
            wmma::mma_sync(sum, left, right, sum);
        }
        wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
    }
}

// Tensor-core tiles of matrices of any size: elements beyond the edges are zero in shared memory. clean
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int PITCH = 24;

__global__ void tensor_ragged(const __half* a, const __half* b, float* c, int m, int n, int k) {
    __shared__ __align__(32) __half left[16 * PITCH], right[16 * PITCH];
    __shared__ __align__(32) float result[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    for (int base = 0; base < k; base += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            const int r = i / 16, s = i % 16;
            left[r * PITCH + s] = row + r < m && base + s < k ? a[(row + r) * k + base + s] : __half(0.0f);
            right[r * PITCH + s] = base + r < k && col + s < n ? b[(base + r) * n + col + s] : __half(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(x, left, PITCH);
        wmma::load_matrix_sync(y, right, PITCH);
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(result, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) {
        const int r = row + i / 16, s = col + i % 16;
        if (r < m && s < n) c[r * n + s] = result[i];
    }
}

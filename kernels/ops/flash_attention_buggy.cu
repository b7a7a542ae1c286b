// Flash attention that does not rescale its accumulator when the maximum changes.
#include <cuda_fp16.h>

// One warp per query row, keys in tiles of 32, running maximum. D is at most 64.
template <typename T>
__global__ void flash_attention(const T* q, const T* k, const T* v, T* o, int N, int D) {
    __shared__ float p[32];
    const int m = blockIdx.x, lane = threadIdx.x;
    const float scale = rsqrtf(static_cast<float>(D));
    float top = -INFINITY, sum = 0.0f, acc0 = 0.0f, acc1 = 0.0f;
    for (int base = 0; base < N; base += 32) {
        const int j = base + lane;
        float s = -INFINITY;
        if (j < N) {
            s = 0.0f;
            for (int d = 0; d < D; ++d) s += static_cast<float>(q[m * D + d]) * static_cast<float>(k[j * D + d]);
            s *= scale;
        }
        float tile_top = s;
        for (int offset = 16; offset > 0; offset >>= 1) {
            tile_top = fmaxf(tile_top, __shfl_xor_sync(0xffffffffu, tile_top, offset));
        }
        const float next = fmaxf(top, tile_top);
        const float alpha = expf(top - next);
        const float weight = j < N ? expf(s - next) : 0.0f;
        float tile_sum = weight;
        for (int offset = 16; offset > 0; offset >>= 1) tile_sum += __shfl_xor_sync(0xffffffffu, tile_sum, offset);
        sum = sum * alpha + tile_sum;
        p[lane] = weight;
        __syncwarp();
        for (int t = 0; t < 32 && base + t < N; ++t) {
            if (lane < D) acc0 += p[t] * static_cast<float>(v[(base + t) * D + lane]);
            if (lane + 32 < D) acc1 += p[t] * static_cast<float>(v[(base + t) * D + lane + 32]);
        }
        __syncwarp();
        top = next;
    }
    if (lane < D) o[m * D + lane] = static_cast<T>(acc0 / sum);  // expect: numeric/tolerance-exceeded
    if (lane + 32 < D) o[m * D + lane + 32] = static_cast<T>(acc1 / sum);  // expect: numeric/tolerance-exceeded
}

// Scaled dot-product attention. clean
#include <cuda_fp16.h>

// One block per query row; the scores of the row live in dynamic shared memory.
template <typename T>
__global__ void attention(const T* q, const T* k, const T* v, T* o, int N, int D) {
    extern __shared__ float scores[];
    const int m = blockIdx.x;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float dot = 0.0f;
        for (int d = 0; d < D; ++d) dot += static_cast<float>(q[m * D + d]) * static_cast<float>(k[j * D + d]);
        scores[j] = dot * rsqrtf(static_cast<float>(D));
    }
    __syncthreads();
    float top = -INFINITY;
    for (int j = 0; j < N; ++j) top = fmaxf(top, scores[j]);
    float sum = 0.0f;
    for (int j = 0; j < N; ++j) sum += expf(scores[j] - top);
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j < N; ++j) acc += expf(scores[j] - top) * static_cast<float>(v[j * D + d]);
        o[m * D + d] = static_cast<T>(acc / sum);
    }
}

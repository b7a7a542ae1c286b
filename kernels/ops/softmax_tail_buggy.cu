// Row softmax with the padding masked by 0, which changes the maximum and the denominator.
#include <cuda_fp16.h>

template <typename T>
__device__ float load(const T* p) { return static_cast<float>(*p); }

__device__ float block_sum(float v, float* scratch) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = lane < blockDim.x / 32 ? scratch[lane] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

__device__ float block_max(float v, float* scratch) {
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = lane < blockDim.x / 32 ? scratch[lane] : -INFINITY;
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
    return v;
}

template <typename T>
__global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int cols) {
    __shared__ float scratch[32];
    const T* row = x + (size_t)blockIdx.x * cols;
    T* out = y + (size_t)blockIdx.x * cols;
    const int padded = (cols + 127) / 128 * 128;
    float top = -INFINITY;
    for (int j = threadIdx.x; j < padded; j += blockDim.x) top = fmaxf(top, (j < cols ? load(row + j) : 0.0f));
    top = block_max(top, scratch);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < padded; j += blockDim.x) sum += expf((j < cols ? load(row + j) : 0.0f) - top);
    sum = block_sum(sum, scratch);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        out[j] = static_cast<T>(expf(load(row + j) - top) / sum);  // expect: numeric/tolerance-exceeded
    }
}

// L2 normalisation without the square root.
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

template <typename T>
__global__ void l2norm(const T* __restrict__ x, T* __restrict__ y, int cols) {
    __shared__ float scratch[32];
    const T* row = x + (size_t)blockIdx.x * cols;
    T* out = y + (size_t)blockIdx.x * cols;
    float squares = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) squares += load(row + j) * load(row + j);
    squares = block_sum(squares, scratch);
    const float scale = 1.0f / (squares + 1e-12f);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        out[j] = static_cast<T>(load(row + j) * scale);  // expect: numeric/tolerance-exceeded
    }
}

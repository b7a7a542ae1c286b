// Logistic function. clean
#include <cuda_fp16.h>

template <typename T>
__global__ void sigmoid(const T* __restrict__ x, T* __restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float v = static_cast<float>(x[i]);
        y[i] = static_cast<T>(1.0f / (1.0f + expf(-v)));
    }
}

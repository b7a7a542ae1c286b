#include <cstdlib>
#include <cuda_runtime.h>

namespace {

__device__ float4 four(const float* x) {
    return *(const float4*)(x + 1);  // bug: memory/misaligned
}

template <typename T>
__global__ void sum(const T* x, T* y) {
    float4 v = four(x);  // inlined
    *y = v.x + v.y + v.z + v.w;
}

}  // namespace

int main() {
    float *x, *y;
    cudaMalloc(&x, 64);  // allocated
    cudaMalloc(&y, 4);
    cudaMemset(x, 0, 64);
    sum<float><<<1, 1>>>(x, y);  // launched
    if (cudaDeviceSynchronize() != cudaErrorMisalignedAddress) abort();
    return 0;
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void __launch_bounds__(256) bounded(float* x) {
    __shared__ float s[64];
    s[threadIdx.x % 64] = 1;
    __syncthreads();
    x[threadIdx.x] = s[0];
}

int main() {
    cudaDeviceProp p;
    int count, warp, blocks, driver;
    size_t free_bytes, total;
    cudaFuncAttributes attributes;
    cudaGetDeviceCount(&count);
    cudaGetDeviceProperties(&p, 0);
    cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0);
    cudaMemGetInfo(&free_bytes, &total);
    cudaFuncGetAttributes(&attributes, bounded);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 256, 0);
    cudaDriverGetVersion(&driver);
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    bounded<<<1, 256>>>(x);
    cudaPointerAttributes where;
    cudaPointerGetAttributes(&where, x);
    PASS(count == 1 && p.major == 8 && warp == 32 && free_bytes <= total && total > (1u << 30) &&
         attributes.maxThreadsPerBlock == 256 && attributes.sharedSizeBytes == 256 && blocks == 8 && driver >= 13000 &&
         where.type == cudaMemoryTypeDevice && cudaSetDevice(0) == cudaSuccess && cudaSetDevice(1) != cudaSuccess);
}

// Asynchronous copies that arrive at an mbarrier, on which the whole block waits. clean
#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void copy_arrival(const float* x, float* y, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    __shared__ float tile[128];
    const int t = threadIdx.x, i = blockIdx.x * 128 + t;
    if (t == 0) init(&arrived, blockDim.x);
    __syncthreads();
    if (i < n) cuda::memcpy_async(&tile[t], &x[i], sizeof(float), arrived);
    arrived.arrive_and_wait();
    const int from = min(n - blockIdx.x * 128, 128) - 1 - t;
    if (i < n) y[i] = tile[from];
}

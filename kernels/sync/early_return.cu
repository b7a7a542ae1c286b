// All threads reach the barrier; the accesses before and after it are guarded. clean
__global__ void early_return(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    int count = min(128, n - (int)blockIdx.x * 128);
    if (i < n) tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = tile[count - 1 - threadIdx.x];
}

// A histogram per block in shared memory, then one atomic per bin. clean
__global__ void shared_histogram(const unsigned char* x, int* y, int n) {
    __shared__ int bins[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) bins[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 256; k += blockDim.x) {
        if (bins[k] > 0) atomicAdd(&y[k], bins[k]);
    }
}

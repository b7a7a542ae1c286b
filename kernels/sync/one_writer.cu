// One thread writes, a barrier, all read. clean
__global__ void one_writer(const float* x, float* y, int n) {
    __shared__ float first;
    if (threadIdx.x == 255) first = x[0];
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] - first;
}

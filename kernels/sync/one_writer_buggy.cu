// The barrier after the write of one thread is missing. expect-somewhere: memory/shared-race
__global__ void one_writer(const float* x, float* y, int n) {
    __shared__ float first;
    if (threadIdx.x == 255) first = x[0];
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] - first;
}

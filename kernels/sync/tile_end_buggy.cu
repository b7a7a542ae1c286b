// The barrier at the end of the loop is missing: a fast warp overwrites the tile while others read it.
__global__ void tile_end(const float* x, float* y, int n) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int base = 0; base < n; base += 64) {
        tile[threadIdx.x] = base + threadIdx.x < n ? x[base + threadIdx.x] : 0.0f;
        __syncthreads();
        sum += tile[63 - threadIdx.x];  // expect: memory/shared-race
    }
    y[threadIdx.x] = sum;
}

// Reads the mirrored element, which another thread may have overwritten if the buffers are the same. expect-somewhere: numeric/tolerance-exceeded
__global__ void in_place_mirror(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3.0f * x[n - 1 - i];  // expect: memory/global-race
}

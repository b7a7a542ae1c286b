// Scales its input in place.
__global__ void in_place(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] *= 3.0f;  // expect: numeric/input-modified
        y[i] = x[i];
    }
}

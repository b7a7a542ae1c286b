// Does not modify its input. clean
__global__ void in_place(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = 3.0f * x[i];
        y[i] = v;
    }
}

// Selects by a boolean mask. clean
__global__ void masked_fill(const float* x, const bool* mask, float* y, float value, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = mask[i] ? value : x[i];
}

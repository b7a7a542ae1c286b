// Reversal that also works in place: each thread reads both elements of a pair before it writes them. clean
__global__ void in_place_mirror(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = n - 1 - i;
    if (i > j) return;
    const float front = x[i], back = x[j];
    y[i] = 3.0f * back;
    y[j] = 3.0f * front;
}

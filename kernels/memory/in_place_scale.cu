// Also works in place: every thread reads only the element that it writes. clean
__global__ void in_place_scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3.0f * x[i];
}

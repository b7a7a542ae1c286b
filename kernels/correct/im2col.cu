// Patches of 3 x 3 as columns, zeros beyond the border. clean
__global__ void im2col(const float* x, float* y, int height, int width) {
    const int pixels = height * width;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 9 * pixels; i += gridDim.x * blockDim.x) {
        const int tap = i / pixels, pixel = i % pixels;
        const int r = pixel / width + tap / 3 - 1, c = pixel % width + tap % 3 - 1;
        const bool inside = static_cast<unsigned>(r) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(c) < static_cast<unsigned>(width);
        y[i] = inside ? x[r * width + c] : 0.0f;
    }
}

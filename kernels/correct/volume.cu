// Blocks in three dimensions: differences along the slowest axis. clean
__global__ void volume(const float* x, float* y, int depth, int height, int width) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y,
              z = blockIdx.z * blockDim.z + threadIdx.z;
    if (c >= width || r >= height || z >= depth) return;
    const int i = (z * height + r) * width + c;
    y[i] = z + 1 < depth ? x[i + height * width] - x[i] : -x[i];
}

// Two phases separated by a grid barrier: each block reads data that another block wrote. clean
#include <cooperative_groups.h>

__global__ void grid_sync(const float* x, float* half, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) half[i] = 0.5f * x[i];
    cooperative_groups::this_grid().sync();
    if (i < n) y[i] = half[n - 1 - i];
}

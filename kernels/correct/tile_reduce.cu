// Cooperative groups: each tile of 16 lanes reduces its own row. clean
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void tile_reduce(const float* x, float* y, int rows, int cols) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int r = blockIdx.x * (blockDim.x / 16) + threadIdx.x / 16;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int j = tile.thread_rank(); j < cols; j += tile.size()) sum += x[r * cols + j];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) y[r] = sum;
}

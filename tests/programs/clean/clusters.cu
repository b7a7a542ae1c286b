// Each block reads the shared memory of the next one in its cluster, whose size is an attribute of the launch.
// Arguments: blocks of a cluster, blocks of the grid.
#include <cooperative_groups.h>

#include <cstdio>
#include <cstdlib>

constexpr int THREADS = 64;

__global__ void shift(const int* x, int* y) {
    __shared__ int mine[THREADS];
    auto cluster = cooperative_groups::this_cluster();
    int at = blockIdx.x * THREADS + threadIdx.x;
    mine[threadIdx.x] = x[at];
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    y[at] = cluster.map_shared_rank(mine, next)[threadIdx.x];
    cluster.sync();  // its memory is read until here
}

int main(int argc, char** argv) {
    int size = argc > 1 ? atoi(argv[1]) : 4, blocks = argc > 2 ? atoi(argv[2]) : 8, n = blocks * THREADS;
    int *x, *y;
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    int* values = new int[n];
    for (int i = 0; i < n; i++) values[i] = i * 7 + 1;
    cudaMemcpy(x, values, n * sizeof(int), cudaMemcpyHostToDevice);

    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(size), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (size > 8) cudaFuncSetAttribute(shift, cudaFuncAttributeNonPortableClusterSizeAllowed, argc == 3);
    int active = 0;
    cudaOccupancyMaxActiveClusters(&active, shift, &config);
    cudaError_t error = cudaLaunchKernelEx(&config, shift, static_cast<const int*>(x), y);
    if (error != cudaSuccess) {
        printf("%s %d\n", cudaGetErrorName(cudaGetLastError()), active);
        return 3;
    }
    int wrong = active < 1;
    int* found = new int[n];
    cudaMemcpy(found, y, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) {
        int block = i / THREADS, next = block / size * size + (block + 1) % size;
        wrong += found[i] != values[next * THREADS + i % THREADS];
    }
    cudaFree(x);
    cudaFree(y);
    puts(wrong ? "FAIL" : "PASS");
    return wrong != 0;
}

// What the host code that MLIR compiles for CuTe DSL calls. Its other functions have the names of the runtime's and the
// driver's with `_` in front; the linker gives ours these names too.
#include <cstdio>
#include <cstdlib>

#include "core.h"

using namespace gpuemu;

API cudaError_t _cudaLaunchKernel(const void* host, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, void** arguments, size_t shared,
                                  cudaStream_t stream) {
    return cudaLaunchKernel(host, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments, shared,
                            stream);
}
API void cuda_dialect_print_on_error(cudaError_t error) {
    if (error) fprintf(stderr, "CUDA error: %s (%s)\n", cudaGetErrorName(error), cudaGetErrorString(error));
}
API void cuda_dialect_assert_success(cudaError_t error) {
    cuda_dialect_print_on_error(error);
    if (error) abort();
}

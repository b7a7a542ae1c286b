// What the host code that MLIR compiles for CuTe DSL calls. Its other functions have the names of the runtime's and the
// driver's with `_` in front; the linker gives ours these names too.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "core.h"

using namespace gpuemu;

API cudaError_t _cudaLaunchKernel(const void* host, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, void** arguments, size_t shared,
                                  cudaStream_t stream) {
    return cudaLaunchKernel(host, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments, shared,
                            stream);
}
// Load the library of a function when it is first called. `set_error` takes a kind of error and a text; -1 after it.
API int cuda_dialect_init_library_once(cudaLibrary_t* loaded, cudaError_t (*load)(cudaLibrary_t*),
                                       cudaError_t (*load_to_device)(cudaLibrary_t*, int),
                                       void (*set_error)(const char* kind, const char* text)) {
    static std::mutex& guard = *new std::mutex;
    std::lock_guard<std::mutex> lock(guard);
    if (*loaded) return 0;
    cudaLibrary_t library = nullptr;
    cudaError_t error = load(&library);
    if (!error && load_to_device) error = load_to_device(&library, 0);
    if (error) {
        std::string text = std::string("CUDA Error: ") + cudaGetErrorName(error) + ": " + cudaGetErrorString(error);
        set_error("RuntimeError", text.c_str());
        return -1;
    }
    *loaded = library;
    return 0;
}
API void cuda_dialect_unload_library_once(cudaLibrary_t* loaded) { *loaded = nullptr; }
API void cuda_dialect_print_on_error(cudaError_t error) {
    if (error) fprintf(stderr, "CUDA error: %s (%s)\n", cudaGetErrorName(error), cudaGetErrorString(error));
}
API void cuda_dialect_assert_success(cudaError_t error) {
    cuda_dialect_print_on_error(error);
    if (error) abort();
}

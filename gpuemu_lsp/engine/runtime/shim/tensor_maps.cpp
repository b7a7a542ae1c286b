// Tensor maps, and the function of the runtime by which programs find the driver's functions that make them.
#include <cuda.h>

#include <cstring>
#include <string>

#include "core.h"

using namespace gpuemu;

#undef cudaGetDriverEntryPoint
#undef cudaGetDriverEntryPointByVersion

namespace {

constexpr cuuint32_t MOST_DIMENSIONS = 5;

template <typename T>
void add(Message& message, const T* values, size_t count) {
    uint64_t words[MOST_DIMENSIONS];
    for (size_t i = 0; i < count; i++) words[i] = values[i];
    message.data(words, count * 8);
}

}  // namespace

API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                    const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    if (!map || !sizes || !box || !steps || (rank > 1 && !strides)) return CUDA_ERROR_INVALID_VALUE;
    cuuint32_t known = rank > MOST_DIMENSIONS ? 0 : rank;
    Message message(TENSOR_MAP);
    message.word(uint64_t(type)).word(uint64_t(rank)).word(address).word(uint64_t(interleave)).word(uint64_t(swizzle));
    message.word(uint64_t(fill)).word(uint64_t(reinterpret_cast<uint64_t>(map) % 64 == 0));
    add(message, sizes, known);
    add(message, strides, known ? known - 1 : 0);
    add(message, box, known);
    add(message, steps, known);
    auto words = message.call_stack().call();
    if (words[0]) return static_cast<CUresult>(words[0]);
    memcpy(map, &words[1], sizeof *map);
    return CUDA_SUCCESS;
}

API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                        cudaDriverEntryPointQueryResult* status) {
    bool known = !strcmp(symbol, "cuTensorMapEncodeTiled");
    *function = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
    if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (!known) unsupported(symbol);
    return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
